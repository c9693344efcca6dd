"""What `scale` writes, and how a group is followed."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_commands.parameters import GroupName
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType, Verdict
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, Write


def make_group(spec: dict[str, Any] | None = None, **metadata: Any) -> StackState:
    known = {"name": "queue", "namespace": "prod", "generation": 2}
    return StackState(
        {
            "kind": "ResourceGroup",
            "metadata": known | metadata,
            "spec": {"replicas": 3} | (spec or {}),
            "status": {"observedGeneration": 2, "phase": "UpdateInProgress"},
        }
    )


def test_a_new_size_is_written_and_the_present_one_is_not() -> None:
    """The patch is one of the scale subresource."""
    for size in (5, 0):
        result = verbs.scale(make_group(), replicas=size)
        assert isinstance(result, Write)
        assert result.patches == ({"spec": {"replicas": size}},)
    assert verbs.scale(make_group(), replicas=3) == AlreadySo(said="already has spec.replicas=3")


def test_a_group_in_deletion_is_not_scaled() -> None:
    """Its members go anyway."""
    result = verbs.scale(make_group(deletionTimestamp="now"), replicas=5)

    assert isinstance(result, Refusal)
    assert "is being deleted" in result.said


@pytest.mark.parametrize("field", ["paused", "suspended"])
def test_what_holds_a_group_back_is_said(field: str) -> None:
    """Before the wait and at its end, with the command that ends it."""
    group = make_group({field: True})

    (note,) = verbs.note_size(group)
    reached = goals.assess(group, Goal(type=GoalType.READY))

    verb = {"paused": "unpause", "suspended": "resume"}[field]
    command = f"kubectl stack {verb} rg/queue -n prod"
    assert command in note
    assert reached.verdict is Verdict.FAILED
    assert field in reached.message
    assert command in reached.message


@pytest.mark.parametrize("name", ["queue", "rg/queue", "resourcegroups.hearth.dev/queue"])
def test_a_group_is_named_with_and_without_its_kind(name: str) -> None:
    """As kubectl prints it."""
    assert GroupName().convert(name, None, None) == "queue"
