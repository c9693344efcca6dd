"""The health scripts for Argo CD, run on what the operator reports in each phase, and the page that compares tools."""

from __future__ import annotations

import pytest

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.model.phases import Phase
from hearth.plan.status import conditions
from support.gitops import agreement, argocd_scripts, recorded_statuses
from support.gitops.recorded_statuses import Situation

ENDINGS = {"Complete": "Healthy", "Failed": "Degraded", "Stopped": "Suspended", "InProgress": "Progressing"}


def find_expected(situation: Situation) -> str:
    """Return the health of a Stack or group in that situation."""
    if not situation.is_current:
        return "Progressing"
    if situation.stalled == "True":
        return "Degraded"
    if situation.phase == "SuspendComplete" or (situation.paused == "True" and situation.ready == "False"):
        return "Suspended"
    return next(health for ending, health in ENDINGS.items() if situation.phase.endswith(ending))


def test_a_phase_has_the_health_that_its_ending_says() -> None:
    """A Stack at a breakpoint, and a suspended one, wait for a user: Suspended. A rollback without a request failed."""
    recorded = {each: raw for each, raw in recorded_statuses.record().items() if each.kind in names.STACK_KINDS}

    expected = {each: find_expected(each) for each in recorded}
    assert len(expected) > 40
    assert {each: argocd_scripts.assess(raw)[0] for each, raw in recorded.items()} == expected


def test_an_instance_has_the_health_of_a_stack() -> None:
    """By the same script, which docs/gitops.md gives to the kinds of StackDefinitions."""
    recorded = {each: raw for each, raw in recorded_statuses.record_instances().items() if each.kind == names.STACK}

    assert len(recorded) > 30
    found = {each: argocd_scripts.assess(raw, kind=names.STACK)[0] for each, raw in recorded.items()}
    assert found == {each: find_expected(each) for each in recorded}


def test_a_definition_is_healthy_once_its_rollout_is_complete() -> None:
    """Degraded while it needs a person, and progressing in between."""
    recorded = {each: raw for each, raw in recorded_statuses.record_instances().items() if each.kind != names.STACK}

    assert {each.phase for each in recorded} >= {"", "Complete", "RolloutStopped"}
    found = {each: argocd_scripts.assess(raw)[0] for each, raw in recorded.items()}
    expected = {"True": "Healthy", "False": "Progressing", "": "Progressing"}
    assert found == {
        each: "Degraded"
        if each.stalled == "True" and each.is_current
        else expected[each.ready if each.is_current else ""]
        for each in recorded
    }


def test_the_message_is_that_of_ready() -> None:
    """Argo CD shows what the Stack waits for, or the problem."""
    raw = recorded_statuses.find(names.STACK, "UpdateFailed")

    assert argocd_scripts.assess(raw)[1] == conditions.find(raw["status"], "Ready")["message"] != ""


@pytest.mark.parametrize(
    ("phase", "health"),
    [("InProgress", "Progressing"), ("Complete", "Healthy"), ("Failed", "Degraded")],
)
def test_a_snapshot_is_healthy_once_it_is_complete(phase: str, health: str) -> None:
    """Before that Argo CD waits."""
    assert argocd_scripts.assess(recorded_statuses.find("StackSnapshot", phase))[0] == health


@pytest.mark.parametrize(
    ("reason", "health"),
    [("Pending", "Progressing"), ("ResourceNotFound", "Progressing"), ("Marked", "Healthy"), ("Replaced", "Healthy")],
)
def test_a_mark_is_healthy_once_the_object_carries_it(reason: str, health: str) -> None:
    """Also once it is resolved. The health of the marked object is another matter."""
    assert argocd_scripts.assess(recorded_statuses.find("HealthMark", reason))[0] == health


def test_a_mark_that_needs_another_one_is_degraded() -> None:
    """It was written before its object was created, so it never applies."""
    raw = recorded_statuses.find("HealthMark", "Pending")
    status = raw["status"]
    changed = [{**each, "reason": "ObjectTooNew"} for each in status["conditions"]]

    assert argocd_scripts.assess({**raw, "status": {**status, "conditions": changed}})[0] == "Degraded"


@pytest.mark.parametrize("kind", sorted(recorded_statuses.KINDS))
@pytest.mark.parametrize(
    "status",
    [None, {}, {"observedGeneration": -1}, {"observedGeneration": 2}, {"observedGeneration": 2, "conditions": []}],
)
def test_an_object_that_was_not_processed_yet_is_progressing(kind: str, status: Object | None) -> None:
    """Never healthy: Argo CD would go on to the next wave."""
    raw: Object = {"kind": kind, "metadata": {"name": "shop", "generation": 2}, "spec": {}}

    assert argocd_scripts.assess(raw if status is None else {**raw, "status": status})[0] == "Progressing"


# The table of docs/gitops.md: its rows, and the column of Argo CD.


FIELDS = {"Ready", "Reconciling", "Stalled"}


def test_the_page_has_a_row_for_each_phase() -> None:
    """Those that a Stack can be seen in, in the order of docs/phases.md."""
    assert list(agreement.read_page("Argo CD")) == list(agreement.list_rows())


def test_the_page_says_what_argocd_finds() -> None:
    """Found by running the health script on what the operator reported in that phase."""
    found = {row: argocd_scripts.assess(raw)[0] for row, raw in agreement.list_rows().items()}

    assert agreement.read_page("Argo CD") == found


def test_the_tools_agree_on_success() -> None:
    """What one of them takes for success, all take for success."""
    columns = [agreement.read_page(tool) for tool in agreement.TOOLS]
    successes = [{row for row, text in column.items() if text in {"met", "Current", "Healthy"}} for column in columns]

    assert successes[0] == successes[1] == successes[2] != set()


def test_no_tool_takes_a_failure_for_progress() -> None:
    """What Argo CD and kstatus take for failed is the same, but for a check, after which nothing failed."""
    kstatus = {row for row, text in agreement.read_page("kstatus: Flux, Helm 4").items() if text == "Failed"}
    degraded = {row for row, text in agreement.read_page("Argo CD").items() if text == "Degraded"}

    assert degraded - kstatus == {"`CheckFailed`", "`DeleteFailed`"}
    assert kstatus - degraded == set()


# The recorded statuses contain each phase with the conditions of its row, so that what is judged on them is complete.


ROWS = [
    *((phase, False) for phase in Phase if phase is not Phase.DELETE_COMPLETE),
    *((phase, True) for phase, row in phases.TABLE.items() if row.conditions_if_automatic is not None),
]
"""`DeleteComplete` is never stored: the Stack is removed at that moment."""


@pytest.mark.parametrize(("phase", "is_automatic"), ROWS)
def test_each_phase_of_a_stack_is_recorded(phase: Phase, is_automatic: bool) -> None:
    """With the conditions that `hearth.model.phases` gives it."""
    status = recorded_statuses.find(names.STACK, phase, is_automatic=is_automatic)["status"]
    row = phases.find_conditions(phase, is_unasked=is_automatic)

    found = {type_: conditions.find(status, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")}
    assert found == {"Ready": row.ready, "Reconciling": str(row.reconciling), "Stalled": str(row.stalled)}


def test_each_other_kind_is_recorded() -> None:
    """Groups in the phases that they have, marks and snapshots from their first status to their end."""
    seen = {(each.kind, each.phase) for each in recorded_statuses.record()}

    assert {phase for kind, phase in seen if kind == names.GROUP_KIND} >= {
        *("CreateInProgress", "CreateComplete", "CreateFailed", "UpdateComplete", "UpdateFailed", "UpdateStopped"),
        *("SuspendInProgress", "SuspendComplete", "ResumeInProgress", "ResumeComplete"),
    }
    assert {phase for kind, phase in seen if kind == "HealthMark"} >= {"", "Pending", "Marked", "Replaced"}
    assert {phase for kind, phase in seen if kind == "StackSnapshot"} >= {"", "InProgress", "Complete", "Failed"}
