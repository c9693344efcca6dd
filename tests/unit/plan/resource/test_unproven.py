"""Objects that carry a Stack's label without its signature: which ones are adopted, and that nothing else happens to
them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import UNPROVEN, Child, Object, parse_child
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply
from support.units import blueprints
from support.units.blueprints import CONFIG_MAP, HASHER, Constant, World

ONE = blueprints.make_blueprint({"a": []})
OURS: Object = {
    "f:metadata": {
        "f:labels": {f"f:{names.LABEL_STACK_UID}": {}},
        "f:annotations": {f"f:{names.ANNOTATION_SIGNATURE}": {}},
    }
}


def make_planner(blueprint: Any = ONE) -> StackPlanner:
    """A planner before its first pass."""
    return blueprints.make_planner(blueprint)


def make_manifest(blueprint: Any = ONE) -> Object:
    """The manifest that would be applied to an empty world."""
    planner = make_planner(blueprint)
    World().refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    return step.manifest


def make_third(planner: StackPlanner) -> Object:
    """The manifest that would be applied for the third incarnation."""
    desired = planner._planner.desired.get("a")
    assert desired is not None
    return desired.at(3).manifest


def make_object(
    manifest: Object, *, manager: str = blueprints.MANAGER, fields: Object | None = None, **annotations: Any
) -> Child:
    """That object with other annotations (None: removed), as the cache holds it. manager, fields: the owners of
    fields.
    """
    changed = {**manifest["metadata"]["annotations"]}
    for key, value in annotations.items():
        changed.pop(f"{names.GROUP}/{key}", None)
        if value is not None:
            changed[f"{names.GROUP}/{key}"] = value
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": OURS if fields is None else fields}
    metadata = {
        **manifest["metadata"],
        "annotations": changed,
        "uid": "u",
        "resourceVersion": "9",
        "managedFields": [entry],
    }
    return parse_child({**manifest, "metadata": metadata}, kind=CONFIG_MAP, paths=(), signatures=HASHER)


def refresh(child: Child, blueprint: Any = ONE) -> tuple[StackPlanner, Apply | None]:
    """A planner over a world with that unproven object, and the apply that it plans."""
    assert not child.is_identified
    world, planner = World(children={UNPROVEN: [child]}), make_planner(blueprint)
    world.refresh(planner)
    assert not planner.cleanup.children
    step = planner.take_step("a")
    assert step is None or isinstance(step, Apply)
    return planner, step


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"signature": None}, id="the signature is removed"),
        pytest.param({"signature": "a/1//forged"}, id="it is spoilt under our manager's name"),
        pytest.param(
            {"signature": None, "identity": None, "hash": None, "incarnation": None}, id="all of it is removed"
        ),
        pytest.param({"signature": None, "hash": "k00000000:" + "0" * 32}, id="an earlier version wrote it"),
        pytest.param({"signature": None, "incarnation": "9" * 5000}, id="and the incarnation is poisoned"),
    ],
)
def test_an_object_that_we_labelled_is_signed_again(annotations: Any) -> None:
    _, step = refresh(make_object(make_manifest(), **annotations))
    assert step is not None
    assert step.uid == "u"
    assert step.manifest["metadata"]["annotations"][names.ANNOTATION_SIGNATURE].startswith("a/1//")


def test_an_object_that_the_cache_had_no_room_for_is_read_before_it_is_written() -> None:
    child = dataclasses.replace(make_object(make_manifest(), signature=None), ownership=None)
    _, step = refresh(child)
    assert step is not None
    assert (step.uid, step.reclaims_uid) == (None, "u")
    _, other = refresh(dataclasses.replace(child, is_labelled_by_us=False))
    assert other is not None
    assert other.reclaims_uid is None


def test_its_resource_label_need_not_be_right() -> None:
    child = dataclasses.replace(make_object(make_manifest(), signature=None), resource="other")
    _, step = refresh(child)
    assert (step is not None and step.uid) == "u"


def test_a_later_incarnation_is_found_by_what_it_claims() -> None:
    manifest = make_manifest()
    planner = make_planner()
    World().refresh(planner)
    third = make_third(planner)
    _, step = refresh(make_object(third, signature=None))
    assert step is not None
    assert (step.uid, step.ref.name) == ("u", third["metadata"]["name"])
    assert third["metadata"]["name"] != manifest["metadata"]["name"]


@pytest.mark.parametrize(
    "child",
    [
        pytest.param(make_object(make_manifest(), signature=None, manager="kubectl"), id="labelled by another client"),
        pytest.param(make_object(make_manifest(), signature=None, fields={"f:data": {}}), id="whose label is not ours"),
    ],
)
def test_an_object_that_others_labelled_is_not_taken_up(child: Child) -> None:
    _, step = refresh(child)
    assert step is not None
    assert step.uid is None


def test_an_unproven_object_elsewhere_is_left_alone() -> None:
    manifest = make_manifest()
    elsewhere = {**manifest, "metadata": {**manifest["metadata"], "name": "elsewhere"}}
    _, step = refresh(make_object(elsewhere))
    assert step is not None
    assert step.uid is None


def test_an_unproven_object_never_displaces_a_proven_one() -> None:
    world, planner = World(), make_planner()
    world.settle(planner)
    third = make_third(planner)
    world.children[UNPROVEN] = [make_object(third, signature=None)]
    assert world.refresh(planner) == []
    assert planner.is_complete
    assert not planner.cleanup.children


def test_a_spoilt_signature_is_reported_as_drift_and_put_back() -> None:
    world, planner = World(), make_planner()
    world.settle(planner)
    [child] = world.of("a")
    spoilt = make_object(make_manifest(), signature="a/1//forged")
    world.children = {UNPROVEN: [dataclasses.replace(spoilt, uid=child.uid, ownership=child.ownership)]}
    assert world.refresh(planner) == ["a"]
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    assert (step.uid, planner.statuses["a"].state) == (child.uid, ResourceState.PROGRESSING)
    assert step.repaired_fields == f"metadata.annotations[{names.ANNOTATION_SIGNATURE}]"


def test_an_unproven_object_is_never_replaced() -> None:
    pinned = Constant({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pinned"}})
    blueprint = blueprints.make_blueprint({"a": []}, manifests={"a": pinned})
    child = make_object(make_manifest(blueprint), signature=None, hash="other", unhealthy="a user says so")
    _, step = refresh(child, blueprint)
    assert (step is not None and step.uid) == "u"
