"""The members of a collection as one status: what changes of it for its dependents, and what each change costs."""

from __future__ import annotations

import dataclasses
from typing import Any

from hearth.plan.state.requirements import CollectionStatus
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from support.units import blueprints


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
    """Readers get the objects in the order of the source, however they appeared."""
    collection = CollectionStatus(("w[b]", "w[a]"))
    collection.update("w[a]", status("a"))
    assert (collection.is_ready, names_of(collection)) == (False, None)
    collection.update("w[b]", status("b"))
    assert (collection.is_ready, names_of(collection)) == (True, ["b", "a"])


def test_dependents_are_planned_again_only_if_they_may_go_on_or_read_something_else() -> None:
    """Thousands of members that become ready one by one cost no dependent anything."""
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
    """Like a resource that waits for several."""
    collection = CollectionStatus(("w[a]", "w[b]"))
    collection.update("w[a]", status("a", ResourceState.FAILED, is_stuck=True))
    assert not collection.is_stuck
    collection.update("w[b]", status("b"))
    assert collection.is_stuck
    collection.update("w[a]", status("a"))
    assert not collection.is_stuck


def test_it_is_held_while_the_repair_of_any_member_is() -> None:
    """Its dependents keep what they have."""
    collection = CollectionStatus(("w[a]", "w[b]"))
    collection.update("w[a]", status("a", is_held=True))
    assert collection.is_held
    collection.update("w[a]", status("a"))
    assert not collection.is_held


def test_without_members_it_is_ready() -> None:
    """And an empty list."""
    collection = CollectionStatus(())
    assert (collection.is_ready, collection.fields) == (True, ())
