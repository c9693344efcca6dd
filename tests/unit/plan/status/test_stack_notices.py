"""Changes of a status that the owner of the installation is notified of, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.status import stack_notices, status_changes
from hearth.plan.status.stack_notices import NoticeType, StackNotice

WORKING = ("False", "Progressing")
DONE = ("True", "Complete")


def make_status(
    phase: str, ready: tuple[str, str], *others: str, message: str = "web: denied", generation: int = 1
) -> dict[str, Any]:
    """A status of revision 2. ready: status and reason; others: the conditions that are True."""
    status, reason = ready
    conditions = [{"type": "Ready", "status": status, "reason": reason, "message": message}]
    conditions += [{"type": each, "status": "True", "reason": each, "message": message} for each in others]
    return {
        "phase": phase,
        "conditions": conditions,
        "observedGeneration": generation,
        "target": {"revision": 2},
    }


AT_WORK = make_status("UpdateInProgress", WORKING, message="1 of 3")
COMPLETE = make_status("UpdateComplete", DONE)
FAILED = make_status("UpdateFailed", ("False", "Denied"), "Stalled")
ROLLED_BACK = make_status("RollbackComplete", ("False", "RolledBack"), "Stalled")
STOPPED = make_status("UpdateStopped", ("False", "Stopped"), "Stopped")
DRIFTED = make_status("UpdateComplete", DONE, "Drifted")
CONFLICT = make_status("UpdateComplete", DONE, "DriftConflict")


def make_held(plan: str = "", *, message: str = "waits", reason: str = "WaitingForApproval") -> Any:
    """A status with a change that waits. plan: name of the one that can be approved."""
    status = make_status("UpdateStopped", ("False", reason), "ChangeHeld", message=message)
    return {**status, "heldChange": {"reason": reason, **({"plan": plan} if plan else {})}}


def find_types(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[NoticeType, str]]:
    events, _ = status_changes.find_events(before, after)
    return [(each.type, each.reason) for each in stack_notices.find_notices(before, after, events)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(AT_WORK, FAILED, [(NoticeType.FAILED, "Denied")], id="failed"),
        pytest.param({}, FAILED, [(NoticeType.FAILED, "Denied")], id="failed at once"),
        pytest.param(AT_WORK, ROLLED_BACK, [(NoticeType.ROLLED_BACK, "RolledBack")], id="rolled back"),
        pytest.param(COMPLETE, make_held("shop-a"), [(NoticeType.UNAPPROVED, "WaitingForApproval")], id="a plan"),
        pytest.param(
            make_held("shop-a"),
            make_held("shop-b"),
            [(NoticeType.UNAPPROVED, "WaitingForApproval")],
            id="another plan",
        ),
        pytest.param(make_held("shop-a"), make_held("shop-a", message="still waits"), [], id="the same plan"),
        pytest.param(make_held("shop-a"), make_held(), [], id="a rejected plan"),
        pytest.param(COMPLETE, make_held(), [], id="a plan in preparation"),
        pytest.param(COMPLETE, make_held(reason="WaitingForWindow"), [], id="a window"),
        pytest.param(AT_WORK, STOPPED, [(NoticeType.STOPPED, "Stopped")], id="a breakpoint"),
        pytest.param(COMPLETE, DRIFTED, [(NoticeType.DRIFTED, "Drifted")], id="drift"),
        pytest.param(COMPLETE, CONFLICT, [(NoticeType.DRIFTED, "DriftConflict")], id="drift conflict"),
        pytest.param(
            COMPLETE,
            make_status("CheckFailed", ("False", "CheckFailed"), "Stalled"),
            [(NoticeType.FAILED, "CheckFailed")],
            id="a check found problems",
        ),
        pytest.param(
            AT_WORK,
            make_status("UpdateFailed", ("False", "RolledBack"), "Stalled"),
            [(NoticeType.FAILED, "RolledBack")],
            id="an object chooses the reason of its failure",
        ),
        *(
            pytest.param(
                AT_WORK,
                make_status("UpdateFailed", ("False", reason), "Stalled"),
                [(NoticeType.FAILED, reason)],
                id=f"an object chooses the reason {reason}",
            )
            for reason in ("Stopped", "TooManyRemoved", "Drifted", "DriftConflict")
        ),
        pytest.param(
            AT_WORK,
            make_status("UpdateStopped", ("False", "TooManyRemoved"), "Stopped"),
            [(NoticeType.STOPPED, "TooManyRemoved")],
            id="too many removals",
        ),
        pytest.param(
            FAILED,
            make_status("UpdateFailed", ("False", "Denied"), "Stalled", message="other", generation=2),
            [(NoticeType.FAILED, "Denied")],
            id="failed again after an edit",
        ),
        pytest.param(AT_WORK, COMPLETE, [], id="complete"),
        pytest.param(COMPLETE, AT_WORK, [], id="at work"),
        pytest.param(AT_WORK, make_status("RollbackComplete", DONE), [], id="a rollback that a user requested"),
        pytest.param(COMPLETE, make_status("UpdateComplete", DONE, "Paused"), [], id="another condition"),
    ],
)
def test_changes_that_need_a_person_have_a_notice(
    before: dict[str, Any], after: dict[str, Any], expected: list[tuple[NoticeType, str]]
) -> None:
    assert find_types(before, after) == expected


@pytest.mark.parametrize("status", [FAILED, ROLLED_BACK, STOPPED, DRIFTED, CONFLICT])
def test_a_state_that_stays_has_no_further_notice(status: dict[str, Any]) -> None:
    """As after a restart of the operator."""
    assert find_types(status, status) == []


def make_attempt(phase: str, ready: tuple[str, str], *others: str, since: str = "1", **changes: Any) -> dict[str, Any]:
    """A status of a target that failed before. since: when `Ready` changed."""
    status = make_status(phase, ready, *others, message=ready[1])
    status["conditions"][0]["lastTransitionTime"] = since
    return {**status, "lastFailedRevision": 2, "target": {"revision": 2, "since": "0"}, **changes}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [], id="tried again, as after a restart"),
        pytest.param({"since": "2"}, [(NoticeType.FAILED, "Denied")], id="was ready in between"),
        pytest.param({"observedGeneration": 2}, [(NoticeType.FAILED, "Denied")], id="edited"),
        pytest.param({"target": {"revision": 3, "since": "0"}}, [(NoticeType.FAILED, "Denied")], id="another revision"),
        pytest.param({"target": {"revision": 2, "since": "3"}}, [(NoticeType.FAILED, "Denied")], id="another attempt"),
    ],
)
def test_a_failure_that_repeats_has_no_further_notice(
    changes: dict[str, Any], expected: list[tuple[NoticeType, str]]
) -> None:
    before = make_attempt("UpdateInProgress", WORKING)

    assert find_types(before, make_attempt("UpdateFailed", ("False", "Denied"), "Stalled", **changes)) == expected


def test_a_first_failure_and_a_check_have_a_notice() -> None:
    first = make_attempt("UpdateInProgress", WORKING, lastFailedRevision=None)
    failed = make_attempt("UpdateFailed", ("False", "Denied"), "Stalled")
    checked = make_attempt("CheckFailed", ("False", "CheckFailed"), "Stalled")

    assert find_types(first, failed) == [(NoticeType.FAILED, "Denied")]
    assert find_types(failed, checked) == [(NoticeType.FAILED, "CheckFailed")]


def test_a_notice_has_the_texts_of_the_event() -> None:
    events, _ = status_changes.find_events(AT_WORK, FAILED)

    (notice,) = stack_notices.find_notices(AT_WORK, FAILED, events)

    assert notice == StackNotice(
        type=NoticeType.FAILED, reason="Denied", message="web: denied", phase="UpdateFailed", revision=2
    )
    assert [(each.reason, each.message) for each in events] == [(notice.reason, notice.message)]


def test_before_the_first_revision_there_is_none() -> None:
    rejected = make_status("CreateFailed", ("False", "InvalidTemplate"), "Stalled") | {"target": None}

    (notice,) = stack_notices.find_notices({}, rejected, [])

    assert notice.revision is None
