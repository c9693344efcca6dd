"""Which changes of a status are reported as Events, and that nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.status import status_changes


def make(
    ready: str = "False", reason: str = "Progressing", message: str = "m", *true: str, observed: int = 1
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": reason, "message": message}]
    conditions += [{"type": type_, "status": "True", "reason": "R", "message": "m"} for type_ in true]
    return {"observedGeneration": observed, "conditions": conditions}


DELAYED = make("False", "Unavailable", "exceeded quota")
FAILED = make("False", "Unavailable", "exceeded quota", "Stalled")


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        pytest.param(make(), make("True", "Complete"), True, id="completed"),
        pytest.param(make("True", "Complete"), make("True", "Complete", "other words"), False, id="still complete"),
        pytest.param(make(), DELAYED, False, id="delayed, and still in progress"),
        pytest.param(DELAYED, FAILED, True, id="the delay became a failure"),
        pytest.param(
            FAILED, make("False", "Unavailable", "used: 3", "Stalled"), False, id="other words of one failure"
        ),
        pytest.param(
            make("False", "InvalidTemplate", "a", "Stalled"),
            make("False", "InvalidTemplate", "b", "Stalled", observed=2),
            True,
            id="an edit with another mistake",
        ),
        pytest.param(make(), make("False", "Suspended"), True, id="suspended"),
        pytest.param({}, make(), False, id="a new Stack"),
    ],
)
def test_an_outcome_is_reported_once(before: dict[str, Any], after: dict[str, Any], *, is_new: bool) -> None:
    """Also if the same reason delayed it before."""
    assert status_changes.is_new_outcome(before, after) is is_new


def test_notable_conditions_are_reported_when_they_become_true() -> None:
    """Not while they stay so, and not when they end."""
    complete = ("True", "Complete", "m")
    paused, drifted = make(*complete, "Paused"), make(*complete, "Paused", "Drifted")

    assert find_told(make(*complete), drifted) == [("Normal", "Paused"), ("Warning", "Drifted")]
    assert find_told(paused, drifted) == [("Warning", "Drifted")]
    assert find_told(drifted, paused) == []
    assert find_told(paused, make(*complete)) == [("Normal", "Unpaused")]


def find_told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    events, owed = status_changes.find_conditions(before, after)
    assert not owed
    return [(event.severity, event.reason) for event in events]


def test_an_event_waits_for_the_name_of_the_manager() -> None:
    """Once, with the final text."""
    complete = ("True", "Complete", "m")
    before, after = make(*complete), make(*complete, "Drifted")

    assert status_changes.find_conditions(before, after, unfinished={"Drifted"}) == ([], {"Drifted"})
    events, owed = status_changes.find_conditions(after, after, owed={"Drifted"})
    assert ([event.reason for event in events], owed) == (["Drifted"], frozenset())
    assert status_changes.find_conditions(after, before, owed={"Drifted"}) == ([], frozenset())


def test_a_warning_has_the_reason_of_its_field() -> None:
    """Each once, because the others were reported before."""
    before = {"warnings": ["spec.environment.breakpoints[0]: there is no resource 'x'"]}
    after = {"warnings": [*before["warnings"], "spec.rollback.toRevision: 2 has no effect", "configmap/a: polled"]}

    assert [(event.reason, event.message) for event in status_changes.find_warnings(before, after)] == [
        ("RollbackIgnored", "spec.rollback.toRevision: 2 has no effect"),
        ("DefinitionWarning", "configmap/a: polled"),
    ]
