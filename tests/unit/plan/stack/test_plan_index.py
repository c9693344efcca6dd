"""The resources of a Stack by state: what all Stacks at rest keep of it."""

from __future__ import annotations

from hearth.plan.stack.plan_index import NamesByState, PlanIndex
from hearth.plan.state.resource_status import ResourceState, ResourceStatus


def make_status(state: ResourceState) -> ResourceStatus:
    """The status of a resource in that state."""
    return ResourceStatus(state=state, reason="Test", message="")


def test_a_state_without_resources_is_not_kept() -> None:
    """Each of thousands of Stacks at rest has one state, and nothing of the others."""
    index = PlanIndex()
    waiting, ready = make_status(ResourceState.WAITING), make_status(ResourceState.READY)
    for name in ("a", "b"):
        index.note(name, None, waiting)
    index.note("a", waiting, ready)
    assert {state: list(names) for state, names in index.by_state.items()} == {
        ResourceState.WAITING: ["b"],
        ResourceState.READY: ["a"],
    }

    index.note("b", waiting, ready)
    assert {state: list(names) for state, names in index.by_state.items()} == {ResourceState.READY: ["a", "b"]}

    index.forget("a")
    index.forget("b")
    assert index.by_state == {}


def test_reading_an_empty_state_keeps_nothing() -> None:
    """A status counts the resources of every state."""
    names = NamesByState()
    assert [len(names[state]) for state in ResourceState] == [0] * len(ResourceState)
    assert names == {}
