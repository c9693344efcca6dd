"""Numbers of Stacks for metrics."""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.engine.status import stack_measures

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z in seconds since the epoch."""


def make(name: str, phase: str, *conditions: str, since: str = "") -> StackObject:
    return StackObject(
        name=name,
        namespace="default",
        uid=name,
        generation=1,
        resource_version=1,
        deleting=False,
        finalizers=(),
        annotations={},
        packed_spec=b"{}",
        packed_status=b"{}",
        phase=phase,
        true_conditions=conditions,
        in_progress_since=since,
    )


def test_stacks_are_counted_by_phase_and_by_condition() -> None:
    """A Stack with two conditions counts for both."""
    stacks = [make("a", "CreateComplete", "Drifted", "Paused"), make("b", "CreateComplete", "Drifted")]

    assert stack_measures.count_phases(stacks) == {"CreateComplete": 2}
    assert stack_measures.count_conditions(stacks) == {"Drifted": 2, "Paused": 1}


def test_the_oldest_action_of_each_phase_counts() -> None:
    """Stacks at rest have none, nor do those whose status has no valid time."""
    stacks = [
        make("a", "UpdateInProgress", since="2026-01-01T11:59:00Z"),
        make("b", "UpdateInProgress", since="2026-01-01T11:00:00Z"),
        make("c", "DeleteInProgress", since="2026-01-01T12:00:05Z"),
        make("d", "CreateInProgress", since="yesterday"),
        make("e", "CreateComplete"),
    ]

    assert stack_measures.find_oldest(stacks, now=NOON) == {"UpdateInProgress": 3600.0, "DeleteInProgress": 0.0}
