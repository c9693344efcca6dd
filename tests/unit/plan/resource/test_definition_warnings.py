"""Allowed but probably unintended: replacements that lose data, names that get no Pod."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.plan.resource import definition_warnings
from hearth.template.blueprint import Definition
from hearth.template.compiler import compiler
from support.units.blueprints import STACK, ServedKinds

KINDS = ServedKinds()
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
SET: Object = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
SET_WITH_CLAIMS = {**SET, "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}
POD: Object = {"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}
MOUNTING: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": POD}}
REPLACE = "spec.template.resources.a.updatePolicy.replace"


def warn(manifest: Object, policy: Object | None = None, **resource: Any) -> tuple[str, ...]:
    """The warnings about one resource."""
    raw = {"manifest": manifest, "updatePolicy": policy or {}, **resource}
    definition = Definition(template={"resources": {"a": raw}}, parameters={})
    return definition_warnings.find_warnings(compiler.compile_template(definition, stack=STACK, kinds=KINDS))


@pytest.mark.parametrize(
    ("manifest", "policy", "expected"),
    [
        pytest.param(CLAIM, {"replace": "CreateFirst"}, "deleted with its data", id="claim"),
        pytest.param(CLAIM, {"replace": "DeleteFirst"}, "deleted with its data", id="claim-first"),
        pytest.param(CLAIM, {"replaceOn": ["spec.storageClassName"]}, "deleted with its data", id="claim-by-a-field"),
        pytest.param(CLAIM, {"replace": "Never", "replaceOn": ["spec.x"]}, "", id="claim-never"),
        pytest.param(CLAIM, {}, "", id="claim-by-default"),
        pytest.param(SET_WITH_CLAIMS, {"replace": "CreateFirst"}, "new and empty", id="set"),
        pytest.param(SET_WITH_CLAIMS, {"replace": "DeleteFirst"}, "whenDeleted: Delete", id="set-first"),
        pytest.param(SET_WITH_CLAIMS, {"replace": "KeepClaims"}, "", id="set-with-claims-kept"),
        pytest.param(SET, {"replace": "CreateFirst"}, "", id="set-without-claims"),
        pytest.param({"apiVersion": "v1", "kind": "Namespace"}, {"replace": "CreateFirst"}, "everything in", id="namespace"),
        pytest.param({"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack"}, {"replace": "CreateFirst"}, "claims", id="nested"),
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap"}, {"replace": "CreateFirst"}, "", id="no-data"),
        pytest.param(MOUNTING, {"replace": "CreateFirst"}, "although it mounts claim data", id="two-writers"),
        pytest.param(MOUNTING, {"replace": "DeleteFirst"}, "", id="stops-first"),
        pytest.param(MOUNTING, {}, "", id="stops-first-by-default"),
        pytest.param({"apiVersion": "x.example/v1", "kind": "Thing"}, {"replace": "CreateFirst"}, "", id="unknown"),
    ],
)  # fmt: skip
def test_a_replacement_of_what_holds_data_is_warned_about(manifest: Object, policy: Object, expected: str) -> None:
    found = warn(manifest, policy)
    assert bool(found) is bool(expected)
    assert all(expected in each and each.startswith("spec.template.resources.a.updatePolicy.replace") for each in found)


SPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inner"}}
THINGS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "probes.testing.hearth.dev"},
    "spec": {"group": "testing.hearth.dev", "names": {"kind": "Probe"}},
}
PROBE: Object = {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe"}


def put_in(namespace: str) -> Object:
    """A claim in that namespace."""
    return {**CLAIM, "metadata": {"namespace": namespace}}


@pytest.mark.parametrize(
    ("container", "manifest", "policy", "is_warned"),
    [
        pytest.param(SPACE, put_in("inner"), {}, True, id="in-it"),
        pytest.param(SPACE, put_in("${space.metadata.name}"), {}, True, id="in-it-by-reference"),
        pytest.param(SPACE, put_in("other"), {}, False, id="elsewhere"),
        pytest.param(SPACE, CLAIM, {}, False, id="in-the-namespace-of-the-stack"),
        pytest.param(SPACE, put_in("inner"), {"deletionPolicy": "Retain"}, False, id="retained-as-well"),
        pytest.param(THINGS, PROBE, {}, True, id="of-its-kind"),
        pytest.param(THINGS, CLAIM, {}, False, id="of-another-kind"),
    ],
)
def test_what_is_kept_because_of_its_contents_is_warned_about(
    container: Object, manifest: Object, policy: Object, *, is_warned: bool
) -> None:
    resources = {"space": {"manifest": container, **policy}, "data": {"manifest": manifest, "deletionPolicy": "Retain"}}
    definition = Definition(template={"resources": resources}, parameters={})
    found = definition_warnings.find_warnings(compiler.compile_template(definition, stack=STACK, kinds=KINDS))
    assert [each.partition(":")[0] for each in found] == (["spec.template.resources.space"] if is_warned else [])
    assert all("as long as data is" in each for each in found)


def test_all_members_of_a_collection_share_a_warning() -> None:
    assert len(warn(CLAIM, {"replace": "CreateFirst"}, forEach="['x', 'y', 'z']", key="item")) == 1


@pytest.mark.parametrize("kind", ["Deployment", "PersistentVolumeClaim", "${params.kind}"])
def test_only_a_stateful_set_is_replaced_with_its_claims_kept(kind: str) -> None:
    manifest = {"apiVersion": "apps/v1", "kind": kind}
    raw = {"manifest": manifest, "updatePolicy": {"replace": "KeepClaims"}}
    template = {"parameters": {"kind": {"type": "string", "default": "DaemonSet"}}, "resources": {"a": raw}}
    definition = Definition(template=template, parameters={})
    with pytest.raises(InvalidDefinition) as caught:
        compiler.compile_template(definition, stack=STACK, kinds=KINDS)
    (mistake,) = caught.value.mistakes
    assert mistake.path == REPLACE
    assert mistake.message.startswith("KeepClaims is for a StatefulSet, and this is a ")


def test_a_name_that_gets_no_pod_is_warned_about() -> None:
    assert warn({**SET, "metadata": {"name": "n" * 52}}) == ()
    (found,) = warn({**SET, "metadata": {"name": "n" * 53}})
    assert found.startswith("spec.template.resources.a.manifest.metadata.name: has 53 characters")


@pytest.mark.parametrize(
    ("api_version", "kind", "longest"),
    [("batch/v1", "CronJob", 52), ("batch/v1", "Job", 63), ("v1", "Service", 63), ("v1", "Namespace", 63)],
)
def test_a_name_that_the_api_server_rejects_is_a_mistake(api_version: str, kind: str, longest: int) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "n" * longest}}
    warn(manifest)
    with pytest.raises(InvalidDefinition, match=rf"metadata\.name: has {longest + 1} characters.* may have {longest}"):
        warn({**manifest, "metadata": {"name": "n" * (longest + 1)}})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"deletionPolicy": "Abandon"}, {}, "spec.deletionPolicy: was Abandon; the deletion of this Stack now deletes"),
        ({"deletionPolicy": "Abandon"}, {"deletionPolicy": "Delete"}, "spec.deletionPolicy: was Abandon"),
        ({"protected": True}, {"protected": False}, "spec.protected: was true"),
        ({"maxRemoved": 0}, {}, "spec.maxRemoved: was 0; a change can now remove all resources"),
        ({"serviceAccountName": "a"}, {}, "now written with the rights of a Stack in its own namespace"),
        ({"serviceAccountName": "a"}, {"serviceAccountName": "b"}, "was a; the objects of this Stack are now written"),
    ],
)
def test_an_option_that_kept_objects_is_warned_about_when_it_is_removed(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    def find(*specs: dict[str, Any]) -> list[str]:
        return list(definition_warnings.find_lost_guards(*specs, path="spec", objects="this Stack"))

    (found,) = find(before, after)
    assert said in found
    assert find(before, before) == find({}, before) == []
