"""Argo CD: health scripts for the statuses of each phase, the page that compares tools, and the resource actions."""

from __future__ import annotations

from typing import Any

import pytest
from lupa import lua51

from hearth.model import names, phases
from hearth.model.api import health_mark, resource_group, stack, stack_snapshot
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
    recorded = {each: raw for each, raw in recorded_statuses.record().items() if each.kind in names.STACK_KINDS}

    expected = {each: find_expected(each) for each in recorded}
    assert len(expected) > 40
    assert {each: argocd_scripts.assess(raw)[0] for each, raw in recorded.items()} == expected


def test_an_instance_has_the_health_of_a_stack() -> None:
    recorded = {each: raw for each, raw in recorded_statuses.record_instances().items() if each.kind == names.STACK}

    assert len(recorded) > 30
    found = {each: argocd_scripts.assess(raw, kind=names.STACK)[0] for each, raw in recorded.items()}
    assert found == {each: find_expected(each) for each in recorded}


def test_a_definition_is_healthy_once_its_rollout_is_complete() -> None:
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
    raw = recorded_statuses.find(names.STACK, "UpdateFailed")

    assert argocd_scripts.assess(raw)[1] == conditions.find(raw["status"], "Ready")["message"] != ""


@pytest.mark.parametrize(
    ("phase", "health"),
    [("InProgress", "Progressing"), ("Complete", "Healthy"), ("Failed", "Degraded")],
)
def test_a_snapshot_is_healthy_once_it_is_complete(phase: str, health: str) -> None:
    assert argocd_scripts.assess(recorded_statuses.find("StackSnapshot", phase))[0] == health


@pytest.mark.parametrize(
    ("reason", "health"),
    [("Pending", "Progressing"), ("ResourceNotFound", "Progressing"), ("Marked", "Healthy"), ("Replaced", "Healthy")],
)
def test_a_mark_is_healthy_once_the_object_carries_it(reason: str, health: str) -> None:
    assert argocd_scripts.assess(recorded_statuses.find("HealthMark", reason))[0] == health


def test_a_mark_that_needs_another_one_is_degraded() -> None:
    raw = recorded_statuses.find("HealthMark", "Pending")
    status = raw["status"]
    changed = [{**each, "reason": "ObjectTooNew"} for each in status["conditions"]]

    assert argocd_scripts.assess({**raw, "status": {**status, "conditions": changed}})[0] == "Degraded"


@pytest.mark.parametrize("reason", ["WaitingForWindow", "WaitingForApproval"])
def test_a_change_that_waits_is_suspended(reason: str) -> None:
    raw = recorded_statuses.find(names.STACK, "UpdateStopped")
    status = raw["status"]
    changed = [{**each, "reason": reason} for each in status["conditions"]]

    assert argocd_scripts.assess({**raw, "status": {**status, "conditions": changed}})[0] == "Suspended"


@pytest.mark.parametrize("kind", sorted(recorded_statuses.KINDS))
@pytest.mark.parametrize(
    "status",
    [None, {}, {"observedGeneration": -1}, {"observedGeneration": 2}, {"observedGeneration": 2, "conditions": []}],
)
def test_an_object_that_was_not_processed_yet_is_progressing(kind: str, status: Object | None) -> None:
    raw: Object = {"kind": kind, "metadata": {"name": "shop", "generation": 2}, "spec": {}}

    assert argocd_scripts.assess(raw if status is None else {**raw, "status": status})[0] == "Progressing"


# The table of docs/gitops.md: its rows, and the column of Argo CD.


FIELDS = {"Ready", "Reconciling", "Stalled"}


def test_the_page_has_a_row_for_each_phase() -> None:
    assert list(agreement.read_page("Argo CD")) == list(agreement.list_rows())


def test_the_page_says_what_argocd_finds() -> None:
    found = {row: argocd_scripts.assess(raw)[0] for row, raw in agreement.list_rows().items()}

    assert agreement.read_page("Argo CD") == found


def test_the_tools_agree_on_success() -> None:
    columns = [agreement.read_page(tool) for tool in agreement.TOOLS]
    successes = [{row for row, text in column.items() if text in {"met", "Current", "Healthy"}} for column in columns]

    assert successes[0] == successes[1] == successes[2] != set()


def test_no_tool_takes_a_failure_for_progress() -> None:
    kstatus = {row for row, text in agreement.read_page("kstatus: Flux, Helm 4").items() if text == "Failed"}
    degraded = {row for row, text in agreement.read_page("Argo CD").items() if text == "Degraded"}

    assert degraded - kstatus == {"`CheckFailed`", "`DeleteFailed`"}
    assert kstatus - degraded == set()


# The recorded statuses cover each phase with the conditions of its row, so the health scripts see every case.


ROWS = [
    *((phase, False) for phase in Phase if phase is not Phase.DELETE_COMPLETE),
    *((phase, True) for phase, row in phases.TABLE.items() if row.conditions_if_automatic is not None),
]
"""`DeleteComplete` is never stored: the Stack is removed at that moment."""


@pytest.mark.parametrize(("phase", "is_automatic"), ROWS)
def test_each_phase_of_a_stack_is_recorded(phase: Phase, is_automatic: bool) -> None:
    status = recorded_statuses.find(names.STACK, phase, is_automatic=is_automatic)["status"]
    row = phases.find_conditions(phase, is_unasked=is_automatic)

    found = {type_: conditions.find(status, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")}
    assert found == {"Ready": row.ready, "Reconciling": str(row.reconciling), "Stalled": str(row.stalled)}


def test_each_other_kind_is_recorded() -> None:
    seen = {(each.kind, each.phase) for each in recorded_statuses.record()}

    assert {phase for kind, phase in seen if kind == names.GROUP_KIND} >= {
        *("CreateInProgress", "CreateComplete", "CreateFailed", "UpdateComplete", "UpdateFailed", "UpdateStopped"),
        *("SuspendInProgress", "SuspendComplete", "ResumeInProgress", "ResumeComplete"),
    }
    assert {phase for kind, phase in seen if kind == "HealthMark"} >= {"", "Pending", "Marked", "Replaced"}
    assert {phase for kind, phase in seen if kind == "StackSnapshot"} >= {"", "InProgress", "Complete", "Failed"}


# The actions for Argo CD: when each is offered, and the changes it makes.


MODELS: dict[str, Any] = {
    "Stack": stack.Stack,
    "ResourceGroup": resource_group.ResourceGroup,
    "HealthMark": health_mark.HealthMark,
    "StackSnapshot": stack_snapshot.StackSnapshot,
}
TEMPLATES: dict[str, Any] = {
    "Stack": {"template": {"resources": {}}},
    "ResourceGroup": {"template": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}},
}
AT_BREAKPOINT = {"continue"}
TOKENS = {"retry": names.REQUEST_RETRY, "check": names.REQUEST_CHECK, "cleanup": names.REQUEST_CLEANUP}


def find(kind: str, phase: str = "CreateComplete") -> Object:
    return recorded_statuses.find(kind, {"HealthMark": "Marked", "StackSnapshot": "Complete"}.get(kind, phase))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_what_an_action_writes_is_valid(kind: str) -> None:
    for action in argocd_scripts.discover(find(kind)):
        raw = find(kind, "UpdateStopped" if action in AT_BREAKPOINT else "CreateComplete")
        found = argocd_scripts.act(raw, action)
        written = found[0]["resource"] if isinstance(found, list) else found

        # Manifests can have any shape; the actions change only their own fields.
        template = TEMPLATES.get(written["kind"], {})
        MODELS[written["kind"]].model_validate({"spec": {**written["spec"], **template}})
        assert written["metadata"]["namespace"] == raw["metadata"]["namespace"]


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_each_offered_action_is_defined(kind: str) -> None:
    defined = {each["name"] for each in argocd_scripts.load_actions(kind)["definitions"]}

    assert set(argocd_scripts.discover(find(kind))) == defined


@pytest.mark.parametrize("kind", names.STACK_KINDS)
@pytest.mark.parametrize(("action", "annotation"), TOKENS.items())
def test_a_request_is_a_token_that_changes(kind: str, action: str, annotation: str) -> None:
    raw = find(kind)
    found = argocd_scripts.act(raw, action)
    token = found["metadata"]["annotations"].pop(annotation)

    assert token.startswith("20")
    assert token.endswith("Z")
    assert found["spec"] == raw["spec"]


@pytest.mark.parametrize("kind", names.STACK_KINDS)
@pytest.mark.parametrize(
    ("action", "back", "field"), [("pause", "unpause", "paused"), ("suspend", "resume", "suspended")]
)
def test_what_is_switched_on_is_switched_off(kind: str, action: str, back: str, field: str) -> None:
    raw = find(kind)
    done = argocd_scripts.act(raw, action)

    assert (argocd_scripts.discover(raw)[action], argocd_scripts.discover(raw)[back]) == (True, False)
    assert (argocd_scripts.discover(done)[action], argocd_scripts.discover(done)[back]) == (False, True)
    assert done["spec"] == {**raw["spec"], field: True}
    assert argocd_scripts.act(done, back)["spec"] == {**raw["spec"], field: False}


def test_retry_is_offered_to_a_failed_stack_alone() -> None:
    assert argocd_scripts.discover(find("Stack", "UpdateFailed"))["retry"]
    assert not argocd_scripts.discover(find("Stack"))["retry"]


def test_a_rollback_is_requested_and_taken_back() -> None:
    raw = find("Stack")
    spec = {key: value for key, value in raw["spec"].items() if key != "rollback"}
    asked = argocd_scripts.act({**raw, "spec": spec}, "rollback")

    assert asked["spec"] == {**spec, "rollback": {"toRevision": 0}}
    assert argocd_scripts.act(asked, "cancel-rollback")["spec"] == spec


def test_the_end_of_a_rollback_keeps_the_other_settings() -> None:
    raw = find("Stack")
    asked = {**raw, "spec": {**raw["spec"], "rollback": {"onFailure": True, "toSnapshot": "before"}}}

    assert argocd_scripts.act(asked, "cancel-rollback")["spec"]["rollback"] == {"onFailure": True}


@pytest.mark.parametrize("kind", names.STACK_KINDS)
def test_continue_clears_the_first_breakpoint(kind: str) -> None:
    raw = find(kind, "UpdateStopped")
    (wait, *_) = raw["status"]["breakpoints"]
    written = argocd_scripts.act(raw, "continue")["metadata"]["annotations"][names.REQUEST_CONTINUE]

    assert argocd_scripts.discover(raw)["continue"]
    assert written.startswith(f"{wait['resource']}/{wait['hook']}@2")


def test_a_breakpoint_of_a_nested_stack_is_cleared_there() -> None:
    raw = find("Stack", "UpdateStopped")
    waits = [{**each, "stack": "shop-cache"} for each in raw["status"]["breakpoints"]]

    with pytest.raises(lua51.LuaError, match=r"status\.breakpoints"):
        argocd_scripts.act({**raw, "status": {**raw["status"], "breakpoints": waits}}, "continue")


def test_a_snapshot_is_an_object_of_its_own() -> None:
    ((written,),) = [argocd_scripts.act(find("Stack"), "snapshot")]

    assert written["operation"] == "create"
    assert written["resource"]["metadata"]["name"].startswith("shop-20")
