"""Adoption of an existing object with a child's name: its conditions, the object's owner, and messages of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names, signatures
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership import adoption
from hearth.plan.resource.desired_objects import ObjectClaims
from support.units import blueprints

REF = ObjectRef(group="", kind="ConfigMap", namespace="default", name="web")
LIVING = "uid-1"
APPLIED = {"manager": "hearth:prod/shop", "operation": "Apply"}
LABELLED = {**APPLIED, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{names.LABEL_STACK_UID}": {}}}}}


def identity(uid: str, name: str = "web") -> dict[str, Any]:
    """The metadata of a child of that Stack whose labels were removed."""
    text = names.identity(stack_uid=uid, group="", kind="ConfigMap", namespace="default", name=name)
    signature = signatures.write(text, resource="web", incarnation=1, requires="", signer=blueprints.HASHER)
    annotations = {names.ANNOTATION_IDENTITY: text, names.ANNOTATION_SIGNATURE: signature}
    return {"annotations": annotations, "managedFields": [APPLIED]}


def unsigned(uid: str, entry: dict[str, Any], name: str = "web") -> dict[str, Any]:
    """The same with its labels, and without a signature. entry: of its managed fields."""
    metadata = identity(uid, name)
    del metadata["annotations"][names.ANNOTATION_SIGNATURE]
    return {**metadata, "labels": {names.LABEL_STACK_UID: uid}, "managedFields": [entry]}


def object_to(metadata: dict[str, Any], *, adopts: bool) -> adoption.AdoptionDenial | None:
    """The objection to adopting it if only the Stack `LIVING` exists."""
    return adoption.find_adoption_denial(
        {"metadata": metadata},
        ref=REF,
        adopts=adopts,
        may_exist=lambda uid, namespace: uid == LIVING,
        our_signatures=blueprints.HASHER,
    )


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="no owner"),
        pytest.param({"managedFields": [APPLIED]}, id="released"),
        pytest.param(identity("uid-2"), id="of a stack that is gone"),
        pytest.param(identity(LIVING, name="other"), id="with a copied signature"),
        pytest.param(unsigned(LIVING, APPLIED), id="with a forged identity and label"),
        pytest.param(unsigned("uid-2", LABELLED), id="of a stack that is gone, unsigned"),
    ],
)
def test_what_no_living_stack_has_is_taken_over_if_wanted(metadata: dict[str, Any]) -> None:
    assert object_to(metadata, adopts=True) is None
    refused = object_to(metadata, adopts=False)
    assert refused is not None
    assert (refused.reason, refused.is_final) == ("NotOwned", True)
    assert "adoptionPolicy: Adopt" in refused.message


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(identity(LIVING), id="signed"),
        pytest.param(unsigned(LIVING, LABELLED), id="older than signatures"),
        pytest.param({**identity(LIVING), "labels": {names.LABEL_STACK_UID: "uid-2"}}, id="with another's label"),
    ],
)
@pytest.mark.parametrize("adopts", [True, False])
def test_what_a_living_stack_has_is_never_taken_over(metadata: dict[str, Any], *, adopts: bool) -> None:
    found = object_to(metadata, adopts=adopts)
    assert found is not None
    assert (found.reason, found.is_final, "the Stack prod/shop" in found.message) == ("NotOwned", True, True)


@pytest.mark.parametrize("adopts", [True, False])
def test_what_is_being_deleted_is_waited_for(adopts: bool) -> None:
    found = object_to({"deletionTimestamp": "now", "finalizers": ["x/y"]}, adopts=adopts)
    assert found is not None
    assert (found.reason, found.is_final, "held by x/y" in found.message) == ("Terminating", False, True)


def test_the_namespace_of_its_stack_is_asked_about() -> None:
    asked: list[tuple[str, str]] = []

    def may_exist(uid: str, namespace: str) -> bool:
        asked.append((uid, namespace))
        return True

    adoption.find_adoption_denial(
        {"metadata": identity("uid-2")}, ref=REF, adopts=True, may_exist=may_exist, our_signatures=blueprints.HASHER
    )
    assert asked == [("uid-2", "prod")]


# ---------------------------------------------------------------- the owner of an object

MANAGED = {"manager": "hearth:prod/shop"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"managedFields": [{"manager": "helm"}, MANAGED], "annotations": {names.ANNOTATION_IDENTITY: "u/"}},
            "belongs to the Stack prod/shop",
        ),
        (
            {"managedFields": [{"manager": "helm"}, MANAGED]},
            "is not managed by any Stack (released by the Stack prod/shop)",
        ),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1"}]}, "belongs to replicaset/web-1"),
        ({"annotations": {"meta.helm.sh/release-name": "db"}}, "belongs to the Helm release db"),
        (
            {"labels": {"app.kubernetes.io/managed-by": "argo"}},
            "belongs to 'argo' (its label app.kubernetes.io/managed-by)",
        ),
        (
            {"managedFields": [{"manager": "kubectl-create"}]},
            "is not managed by any Stack (written by 'kubectl-create')",
        ),
        ({}, "is not managed by any Stack"),
    ],
    ids=[
        "another stack",
        "released by one",
        "a controller",
        "helm",
        "a label",
        "a person with kubectl",
        "nothing known",
    ],
)
def test_the_best_that_is_known_is_named(metadata: dict[str, Any], expected: str) -> None:
    assert adoption.describe_owner({"metadata": metadata}, is_proven=True) == expected


def test_what_proves_nothing_is_said_to_belong_to_no_stack() -> None:
    metadata = {"managedFields": [MANAGED], "annotations": {names.ANNOTATION_IDENTITY: "u/"}}
    found = adoption.describe_owner({"metadata": metadata}, is_proven=False)
    assert found == (
        "was applied by the Stack prod/shop, but its labels and annotations hearth.dev/… were changed since"
    )


# ---------------------------------------------------------------- two resources that claim one object


def make_ref(name: str) -> ObjectRef:
    return ObjectRef(group="", kind="ConfigMap", namespace="default", name=name)


def test_the_first_resource_that_names_an_object_owns_it() -> None:
    claims = ObjectClaims()
    assert [claims.claim(make_ref("a"), name) for name in ("web", "db", "web", "db")] == ["web"] * 4


def test_all_objects_of_a_changed_resource_are_free() -> None:
    claims = ObjectClaims()
    for name in ("a", "b", "c"):
        claims.claim(make_ref(name), "web")
    claims.claim(make_ref("d"), "db")
    claims.release(["web", "unknown"])
    assert [claims.claim(make_ref(name), "new") for name in ("a", "b", "c", "d")] == ["new", "new", "new", "db"]
    claims.release(["web"])
    assert claims.claim(make_ref("a"), "db") == "new"
