"""A write is compared with the steps of an approved plan."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedStep, ApprovedSteps, ContentSeal
from support.units.blueprints import HASHER

UID = "u"
WEB = ObjectRef(group="apps", kind="Deployment", namespace="default", name="web")
MANAGER = "hearth:default/shop"


def make_object(spec: Object, *, name: str = "web", **metadata: Any) -> Object:
    labels = {names.LABEL_STACK_UID: UID}
    stated = {"name": name, "namespace": "default", "labels": labels, **metadata}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": stated, "spec": spec}


def make_ref(namespace: str, *, kind: str = "Deployment") -> ObjectRef:
    return ObjectRef(group="apps", kind=kind, namespace=namespace, name="any")


def seal(manifest: Object, *unknown: str) -> ContentSeal:
    return approved_steps.seal(manifest, unknown, HASHER.hash)


def approve(*steps: ApprovedStep, is_rollback: bool = False) -> ApprovedSteps:
    return ApprovedSteps(steps=steps, hash_content=HASHER.hash, is_rollback=is_rollback)


def make_step(action: str, manifest: Object | None = None, *unknown: str, **fields: Any) -> ApprovedStep:
    return ApprovedStep(
        action=action, **{"ref": WEB, "seal": seal(manifest, *unknown) if manifest is not None else None, **fields}
    )


THREE, FIVE = make_object({"replicas": 3, "paused": False}), make_object({"replicas": 5, "paused": False})


def find_excess(approved: ApprovedSteps, live: Object, changed: Object, manifest: Object | None = None) -> str:
    return approved.find_excess_of_change(WEB, live, changed, stack_uid=UID, manifest=manifest or changed)


def test_an_update_changes_only_the_fields_of_the_plan() -> None:
    approved = approve(make_step("update", FIVE, fields=("spec.replicas",)))
    edited = make_object({"replicas": 3, "paused": True})
    assert find_excess(approved, THREE, FIVE) == ""
    assert find_excess(approved, edited, FIVE) == (
        "the approved plan does not change these fields of deployment/web: spec.paused"
    )


def test_an_update_that_is_done_already_is_approved() -> None:
    assert find_excess(approve(), FIVE, FIVE) == ""


@pytest.mark.parametrize(
    ("sent", "excess"),
    [
        pytest.param({"replicas": 5, "paused": False}, "", id="the value of the plan"),
        pytest.param(
            {"replicas": 6, "paused": False}, "the approved plan gives deployment/web other values", id="another value"
        ),
    ],
)
def test_values_are_compared_without_being_in_the_plan(sent: Object, excess: str) -> None:
    approved = approve(make_step("update", FIVE, fields=("spec.replicas",)))
    assert find_excess(approved, THREE, make_object(sent)) == excess
    assert "5" not in str(approved.steps[0].fields)


def test_a_placeholder_accepts_any_value_of_its_field_only() -> None:
    planned = make_object({"host": "unknown-1x", "port": 80})
    approved = approve(make_step("create", planned, "spec.host"))
    assert approved.find_excess_of_creation(WEB, make_object({"host": "db.svc", "port": 80})) == ""
    assert approved.find_excess_of_creation(WEB, make_object({"host": "db.svc", "port": 81})) == (
        "the approved plan creates deployment/web with other values"
    )


def test_a_placeholder_of_an_item_counts_at_its_position_only() -> None:
    planned = make_object({"env": [{"name": "A", "value": "?"}, {"name": "B", "value": "b"}]})
    approved = approve(make_step("create", planned, "spec.env[0].value"))
    known = make_object({"env": [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}]})
    other = make_object({"env": [{"name": "A", "value": "?"}, {"name": "B", "value": "x"}]})
    assert approved.find_excess_of_creation(WEB, known) == ""
    assert approved.find_excess_of_creation(WEB, other) != ""


def test_an_unknown_name_accepts_any_name_in_the_namespace_of_the_plan() -> None:
    unnamed = ObjectRef(group="apps", kind="Deployment", namespace="default", name="(known after db is ready)")
    planned = make_object({"replicas": 3}, name="unknown-1x")
    approved = approve(make_step("create", planned, approved_steps.NAME, ref=unnamed))
    sent = make_object({"replicas": 3}, name="any")
    assert approved.find_excess_of_creation(make_ref("default"), sent) == ""
    elsewhere = {**sent, "metadata": {**sent["metadata"], "namespace": "victim"}}
    assert approved.find_excess_of_creation(make_ref("victim"), elsewhere) != ""
    assert approved.find_excess_of_creation(make_ref("default", kind="StatefulSet"), sent) != ""


@pytest.mark.parametrize(
    ("planned", "unknown"),
    [
        pytest.param(("default", "(known after db is ready)"), approved_steps.NAME, id="name"),
        pytest.param(("(known after db is ready)", "any"), approved_steps.NAMESPACE, id="namespace"),
    ],
)
def test_a_creation_with_an_unknown_name_deletes_no_object(planned: tuple[str, str], unknown: str) -> None:
    ref = ObjectRef(group="apps", kind="Deployment", namespace=planned[0], name=planned[1])
    approved = approve(make_step("create", make_object({"replicas": 3}), unknown, ref=ref))
    assert approved.find_excess_of_deletion(make_ref("default")) == "the approved plan does not delete deployment/any"
    assert approved.find_excess_of_release(make_ref("default")) == "the approved plan does not release deployment/any"


@pytest.mark.parametrize(
    ("action", "is_rollback", "allowed"),
    [
        pytest.param("create", False, {"create", "change", "delete", "release"}, id="create"),
        pytest.param("update", False, {"change"}, id="update"),
        pytest.param("delete", False, {"delete", "release"}, id="delete"),
        pytest.param("keep", False, {"release"}, id="keep"),
        pytest.param("create", True, {"create", "change", "delete", "release"}, id="rollback of a create"),
        pytest.param("update", True, {"change"}, id="rollback of an update"),
        pytest.param("delete", True, {"create", "delete", "release"}, id="rollback of a delete"),
    ],
)
def test_a_step_allows_its_own_verb_and_weaker_ones(action: str, allowed: set[str], *, is_rollback: bool) -> None:
    approved = approve(make_step(action, FIVE, fields=("spec.replicas",)), is_rollback=is_rollback)
    excess = {
        "create": approved.find_excess_of_creation(WEB, FIVE),
        "change": find_excess(approved, THREE, FIVE),
        "delete": approved.find_excess_of_deletion(WEB),
        "release": approved.find_excess_of_release(WEB),
    }
    assert {verb for verb, text in excess.items() if not text} == allowed


def test_a_deleted_object_is_not_created_again_by_an_update() -> None:
    approved = approve(make_step("update", FIVE, fields=("spec.replicas",)))
    assert approved.find_excess_of_creation(WEB, FIVE) == "the approved plan does not create deployment/web"


def test_a_replacement_deletes_the_old_object_and_creates_the_new_one() -> None:
    old = ObjectRef(group="apps", kind="Deployment", namespace="default", name="web-old")
    approved = approve(make_step("replace", FIVE, old_ref=old))
    assert approved.find_excess_of_deletion(old) == ""
    assert approved.find_excess_of_creation(WEB, FIVE) == ""
    assert approved.find_excess_of_creation(old, FIVE) == "the approved plan does not create deployment/web-old"


def test_a_rollback_restores_earlier_values_of_the_same_fields() -> None:
    step = make_step("update", FIVE, fields=("spec.replicas",))
    edited = make_object({"replicas": 5, "paused": True})
    assert find_excess(approve(step), FIVE, THREE) != ""
    assert find_excess(approve(step, is_rollback=True), FIVE, THREE) == ""
    assert find_excess(approve(step, is_rollback=True), edited, THREE) != ""


def test_an_object_of_no_stack_is_only_adopted_by_a_plan() -> None:
    foreign = make_object({"replicas": 3}, labels={})
    wanted = make_object({"replicas": 5})
    update, adopt = (make_step(each, wanted, fields=("spec.replicas",)) for each in ("update", "adopt"))
    assert find_excess(approve(update), foreign, wanted) == "the approved plan does not adopt deployment/web"
    assert find_excess(approve(adopt), foreign, wanted) == ""


def test_records_of_hearth_are_no_change() -> None:
    signed = make_object({"replicas": 3, "paused": False}, annotations={names.ANNOTATION_HASH: "h"})
    assert find_excess(approve(), THREE, signed) == ""


def own(fields: Object, *, version: str = "apps/v1", manager: str = MANAGER) -> Object:
    return {"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsV1": fields}


def with_owners(spec: Object, *entries: Object) -> Object:
    return make_object(spec, managedFields=list(entries))


CONTAINERS: Object = {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}}}}}


def test_a_field_that_the_api_server_adds_is_no_change_by_the_operator() -> None:
    live = with_owners({"replicas": 3}, own({"f:spec": {"f:replicas": {}}}))
    predicted = with_owners({"replicas": 5, "defaulted": True}, own({"f:spec": {"f:replicas": {}}}))
    changed = approved_steps.find_changed(live, predicted, manager=MANAGER)
    assert changed["spec"] == {"replicas": 5}


def test_an_item_that_a_webhook_adds_is_no_change_by_the_operator() -> None:
    live = with_owners({"containers": [{"name": "web", "image": "web:1", "tty": False}]}, own(CONTAINERS))
    sidecar = {"name": "proxy", "image": "proxy:1"}
    predicted = with_owners({"containers": [{"name": "web", "image": "web:2", "tty": True}, sidecar]}, own(CONTAINERS))
    changed = approved_steps.find_changed(live, predicted, manager=MANAGER)
    assert changed["spec"] == {"containers": [{"name": "web", "image": "web:2", "tty": False}]}


def test_an_item_of_another_manager_stays_where_it_is() -> None:
    sidecar = {"name": "proxy", "image": "proxy:1"}
    live = with_owners({"containers": [sidecar, {"name": "web", "image": "web:1"}]}, own(CONTAINERS))
    predicted = with_owners({"containers": [{"name": "web", "image": "web:2"}, sidecar]}, own(CONTAINERS))
    changed = approved_steps.find_changed(live, predicted, manager=MANAGER)
    assert list(approved_steps.find_paths(live, changed)) == ["spec.containers[name=web].image"]


def test_a_field_that_left_the_manifest_is_a_change_by_the_operator() -> None:
    live = with_owners({"replicas": 3, "paused": True}, own({"f:spec": {"f:replicas": {}, "f:paused": {}}}))
    predicted = with_owners({"replicas": 3}, own({"f:spec": {"f:replicas": {}}}))
    changed = approved_steps.find_changed(live, predicted, manager=MANAGER)
    assert list(approved_steps.find_paths(live, changed)) == ["spec.paused"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([own({}, version="apps/v1beta1")], [own({})], id="of another version"),
        pytest.param([own({})], [own({}, manager="other")], id="without a record of the write"),
    ],
)
def test_all_changes_count_if_the_records_of_ownership_prove_nothing(before: list[Object], after: list[Object]) -> None:
    live, predicted = with_owners({"replicas": 3}, *before), with_owners({"replicas": 3, "defaulted": True}, *after)
    changed = approved_steps.find_changed(live, predicted, manager=MANAGER)
    assert list(approved_steps.find_paths(live, changed)) == ["spec.defaulted"]


@pytest.mark.parametrize(
    ("path", "planned", "is_planned"),
    [
        pytest.param("spec.replicas", "spec.replicas", True, id="the field"),
        pytest.param("spec.template.spec", "spec.template", True, id="below the field"),
        pytest.param("spec.containers[name=web].image", "spec.containers[name=web]", True, id="below an item"),
        pytest.param("spec.template", "spec.template.spec", False, id="above the field"),
        pytest.param("spec.replicasMax", "spec.replicas", False, id="a longer name"),
        pytest.param("spec.env[name=a].value", "spec.env[*].value", True, id="an item of any name"),
        pytest.param("spec.env[name=a].key", "spec.env[*].value", False, id="another field of such an item"),
        pytest.param("spec.env", "spec.env[*]", False, id="the list of such an item"),
        pytest.param("spec.a", "", False, id="no path"),
    ],
)
def test_a_path_covers_what_is_below_it(path: str, planned: str, *, is_planned: bool) -> None:
    assert approved_steps.find_unplanned([path], [planned]) == ([] if is_planned else [path])


@pytest.mark.parametrize(
    ("claim", "is_of_set"),
    [
        pytest.param("data-db-0", True, id="of the set"),
        pytest.param("data-db-x", False, id="without a number"),
        pytest.param("data-dbx-0", False, id="of another set"),
        pytest.param("db-0", False, id="without a template"),
    ],
)
def test_a_replaced_stateful_set_enlarges_its_claims(claim: str, *, is_of_set: bool) -> None:
    db = ObjectRef(group="apps", kind="StatefulSet", namespace="default", name="db")
    approved = approve(make_step("replace", FIVE, ref=db, old_ref=db))
    ref = ObjectRef(group="", kind="PersistentVolumeClaim", namespace="default", name=claim)
    assert approved.replaces_set_of(ref) is is_of_set


def test_steps_are_read_from_the_spec_of_a_plan() -> None:
    stored = {
        "action": "replace",
        "resource": "web",
        "object": {"group": "apps", "kind": "Deployment", "namespace": "default", "name": "web"},
        "oldObject": {"group": "", "kind": "Node", "name": "old"},
        "fields": ["spec.replicas"],
        "content": "k:1",
        "unknownFields": ["spec.host"],
    }
    expected = ApprovedStep(
        action="replace",
        ref=WEB,
        old_ref=ObjectRef(group="", kind="Node", namespace="", name="old"),
        fields=("spec.replicas",),
        seal=ContentSeal(content="k:1", unknown=("spec.host",)),
    )
    assert approved_steps.read_steps([stored, {"action": "delete", "resource": "a"}]) == (
        expected,
        ApprovedStep(action="delete"),
    )
