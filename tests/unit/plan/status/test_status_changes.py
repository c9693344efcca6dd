"""Differences between two statuses, their urgency for readers, and the changes that are reported as Events."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.plan.status import status_changes

CONDITION = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "1 of 3"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {}, {"a": None}),
        ({"m": {"a": 1, "b": 1}}, {"m": {"b": 2}}, {"m": {"a": None, "b": 2}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 2]}),
        ({"m": {"a": 1}}, {"m": {"a": 1}}, {}),
    ],
    ids=["equal", "changed", "taken away", "within a map", "lists are replaced", "equal maps"],
)
def test_a_patch_holds_the_difference(before: Object, after: Object, expected: Object) -> None:
    assert status_changes.find_changes(before, after) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"summary": "2/3", "resources": {"ready": 2}}, True, id="counts"),
        pytest.param({"conditions": [CONDITION | {"message": "2 of 3"}]}, True, id="a message"),
        pytest.param({"conditions": [CONDITION | {"status": "True"}]}, False, id="a condition"),
        pytest.param({"conditions": [CONDITION | {"reason": "Stopped"}]}, False, id="a reason"),
        pytest.param({"phase": "CreateComplete"}, False, id="a phase"),
        pytest.param({"problems": [{"resource": "a"}]}, False, id="a problem"),
        pytest.param({"observedGeneration": 2}, False, id="another spec"),
    ],
)
def test_progress_is_what_only_counts_on(change: Object, expected: bool) -> None:
    before = {"phase": "CreateInProgress", "summary": "1/3", "observedGeneration": 1, "conditions": [CONDITION]}
    assert status_changes.is_progress_only(before, before | change) is expected


READY = {"type": "Ready", "status": "True", "reason": "Complete", "message": "all 3 resources are ready"}
AT_WORK: Object = {"phase": "UpdateInProgress", "summary": "2/3", "conditions": [CONDITION]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, True, id="at work again"),
        pytest.param({"phase": "UpdateComplete"}, False, id="still complete"),
        pytest.param({"phase": "UpdateFailed"}, False, id="failed"),
        pytest.param({"phase": "RollbackInProgress"}, False, id="going back"),
        pytest.param({"conditions": [CONDITION, {**CONDITION, "type": "Drifted"}]}, False, id="a condition more"),
        pytest.param({"problems": [{"resource": "a"}]}, False, id="a problem"),
        pytest.param({"observedGeneration": 2}, False, id="another spec"),
        pytest.param({"target": {"revision": 2}}, False, id="another target"),
    ],
)
def test_a_setback_is_work_for_the_same_and_nothing_wrong(change: Object, expected: bool) -> None:
    before = {"phase": "UpdateComplete", "summary": "3/3", "observedGeneration": 1, "conditions": [READY]}
    assert status_changes.is_repair_only(before, before | AT_WORK | change) is expected


# ---------------------------------------------------------------- changes that are reported as Events


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
    assert status_changes.is_new_outcome(before, after) is is_new


def test_notable_conditions_are_reported_when_they_become_true() -> None:
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
    complete = ("True", "Complete", "m")
    before, after = make(*complete), make(*complete, "Drifted")

    assert status_changes.find_conditions(before, after, unfinished={"Drifted"}) == ([], frozenset({"Drifted"}))
    events, owed = status_changes.find_conditions(after, after, owed={"Drifted"})
    assert ([event.reason for event in events], owed) == (["Drifted"], frozenset())
    assert status_changes.find_conditions(after, before, owed={"Drifted"}) == ([], frozenset())


def test_a_warning_has_the_reason_of_its_field() -> None:
    before = {"warnings": ["spec.environment.breakpoints[0]: there is no resource 'x'"]}
    after = {"warnings": [*before["warnings"], "spec.rollback.toRevision: 2 has no effect", "configmap/a: polled"]}

    assert [(event.reason, event.message) for event in status_changes.find_warnings(before, after)] == [
        ("RollbackIgnored", "spec.rollback.toRevision: 2 has no effect"),
        ("DefinitionWarning", "configmap/a: polled"),
    ]
