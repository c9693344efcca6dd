"""Requirements of a resource: the combined status of a collection, and the record in the resource's object."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from hearth.model import names, packing, signatures
from hearth.model.child import Child, FieldOwnership, Object
from hearth.plan.retry.backoff import DriftConflict
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.requirements import CollectionStatus
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply
from support.units import blueprints, changed_children
from support.units.blueprints import HASHER, World


def status(name: str, state: ResourceState = ResourceState.READY, **more: Any) -> ResourceStatus:
    """The status of a member with an object, or waiting without one."""
    child = (
        blueprints.make_child({"metadata": {"name": name, "labels": {}, "annotations": {}}}, uid=name)
        if state is ResourceState.READY
        else None
    )
    return ResourceStatus(state=state, reason="", message="", child=child, **more)


def names_of(collection: CollectionStatus) -> list[str] | None:
    """The names of the objects that expressions read."""
    return None if collection.fields is None else [each["metadata"]["name"] for each in collection.fields]


def test_it_is_ready_once_every_member_is() -> None:
    collection = CollectionStatus(("w[b]", "w[a]"))
    collection.update("w[a]", status("a"))
    assert (collection.is_ready, names_of(collection)) == (False, None)
    collection.update("w[b]", status("b"))
    assert (collection.is_ready, names_of(collection)) == (True, ["b", "a"])


def test_dependents_are_planned_again_only_if_they_may_go_on_or_read_something_else() -> None:
    collection = CollectionStatus(("w[a]", "w[b]"))
    assert collection.take_changed()
    collection.update("w[a]", status("a"))
    assert not collection.take_changed()
    collection.update("w[b]", status("b"))
    assert collection.take_changed()
    assert not collection.take_changed()
    collection.update("w[a]", dataclasses.replace(status("a2")))
    assert collection.take_changed()
    assert names_of(collection) == ["a2", "b"]
    collection.update("w[a]", status("a2", ResourceState.WAITING))
    assert collection.take_changed()


def test_it_is_stuck_if_nothing_else_is_missing() -> None:
    collection = CollectionStatus(("w[a]", "w[b]"))
    stuck = []
    for name, of_member in (
        ("w[a]", status("a", ResourceState.FAILED, is_stuck=True)),
        ("w[b]", status("b")),
        ("w[a]", status("a")),
    ):
        collection.update(name, of_member)
        stuck.append(collection.is_stuck)
    assert stuck == [False, True, False]


def test_it_is_held_while_the_repair_of_any_member_is() -> None:
    collection = CollectionStatus(("w[a]", "w[b]"))
    collection.update("w[a]", status("a", is_held=True))
    assert collection.is_held
    collection.update("w[a]", status("a"))
    assert not collection.is_held


def test_without_members_it_is_ready() -> None:
    collection = CollectionStatus(())
    assert collection.is_ready
    assert collection.fields is not None
    assert list(collection.fields) == []


# ---------------------------------------------------------------- when the record in an object is rewritten


def make_planner(requires: Iterable[str]) -> StackPlanner:
    """A planner of `a`, `d`, and `top`, which requires some of them."""
    return blueprints.make_planner(blueprints.make_blueprint({"a": [], "d": [], "top": requires}))


@pytest.fixture
def world() -> World:
    """`top` requires `a`."""
    made = World()
    made.settle(make_planner(["a"]))
    return made


@pytest.mark.parametrize("requires", [["a", "d"], ["d"], []], ids=["one more", "another", "none"])
def test_a_change_of_depends_on_alone_is_one_apply(world: World, requires: list[str]) -> None:
    planner = make_planner(requires)
    assert world.refresh(planner) == ["top"]
    step = planner.take_step("top")
    assert isinstance(step, Apply)
    assert step.uid == world.of("top")[0].uid
    assert world.carry_out(step).requires == tuple(f"{name}/1" for name in requires)
    assert world.refresh(planner, "top") == []


def test_another_incarnation_alone_is_not_recorded(world: World) -> None:
    signature = signatures.write("", resource="top", incarnation=1, requires="a/7", signer=HASHER)
    known = world.of("top")[0].fields["metadata"]["annotations"]
    annotations = {**known, names.ANNOTATION_REQUIRES: "a/7", names.ANNOTATION_SIGNATURE: signature}
    change(world, requires=("a/7",), annotations=annotations)
    assert world.refresh(make_planner(["a"])) == []


@pytest.mark.parametrize("text", ["d/1", None], ids=["changed", "removed"])
def test_a_user_who_changes_the_record_gets_no_write_at_once_for_it(world: World, text: str | None) -> None:
    annotations = dict(world.of("top")[0].fields["metadata"]["annotations"])
    annotations.pop(names.ANNOTATION_REQUIRES)
    fields: Object = {"f:metadata": {"f:annotations": {f"f:{key}": {} for key in annotations}}}
    if text is not None:
        annotations[names.ANNOTATION_REQUIRES] = text
    change(world, requires=(), annotations=annotations, ownership=FieldOwnership(fields=packing.pack(fields)))
    world.memory.drift_conflicts["top"] = DriftConflict(
        repairs=3, next_repair=60.0, expires_at=600.0, fields="metadata.annotations"
    )
    planner = make_planner(["a"])
    assert world.refresh(planner) == []
    assert planner.requeues == {"top": 60.0}


@pytest.mark.parametrize("text", ["d/1", ""], ids=["changed", "removed"])
def test_a_record_that_admission_changes_in_every_apply_causes_no_write(world: World, text: str) -> None:
    annotations = {**world.of("top")[0].fields["metadata"]["annotations"], names.ANNOTATION_REQUIRES: text}
    change(world, requires=(), annotations=annotations)
    assert world.refresh(make_planner(["a"])) == []


def change(world: World, *, annotations: dict[str, str], **parts: object) -> Child:
    """Change the object of `top`."""
    child = world.of("top")[0]
    metadata = {**child.fields["metadata"], "annotations": annotations}
    changed = changed_children.with_fields(child, {**child.fields, "metadata": metadata}, **parts)
    world.children["top"] = [changed]
    return changed
