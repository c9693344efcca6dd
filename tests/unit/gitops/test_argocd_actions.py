"""The actions for Argo CD: which are offered when, and what they write."""

from __future__ import annotations

from typing import Any

import pytest
from lupa import lua51

from hearth.model import names
from hearth.model.api import health_mark, resource_group, stack, stack_snapshot
from hearth.model.child import Object
from support.gitops import argocd_scripts, recorded_statuses

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
    """The object that Argo CD writes back has a spec of its kind."""
    for action in argocd_scripts.discover(find(kind)):
        raw = find(kind, "UpdateStopped" if action in AT_BREAKPOINT else "CreateComplete")
        found = argocd_scripts.act(raw, action)
        written = found[0]["resource"] if isinstance(found, list) else found

        # Manifests are of any form; the actions write beside them.
        template = TEMPLATES.get(written["kind"], {})
        MODELS[written["kind"]].model_validate({"spec": {**written["spec"], **template}})
        assert written["metadata"]["namespace"] == raw["metadata"]["namespace"]


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_each_offered_action_is_defined(kind: str) -> None:
    """And the other way round."""
    defined = {each["name"] for each in argocd_scripts.load_actions(kind)["definitions"]}

    assert set(argocd_scripts.discover(find(kind))) == defined


@pytest.mark.parametrize("kind", names.STACK_KINDS)
@pytest.mark.parametrize(("action", "annotation"), TOKENS.items())
def test_a_request_is_a_token_that_changes(kind: str, action: str, annotation: str) -> None:
    """The time of the click; all else of the object stays."""
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
    """Only the one that changes something is offered."""
    raw = find(kind)
    done = argocd_scripts.act(raw, action)

    assert (argocd_scripts.discover(raw)[action], argocd_scripts.discover(raw)[back]) == (True, False)
    assert (argocd_scripts.discover(done)[action], argocd_scripts.discover(done)[back]) == (False, True)
    assert done["spec"] == {**raw["spec"], field: True}
    assert argocd_scripts.act(done, back)["spec"] == {**raw["spec"], field: False}


def test_retry_is_offered_to_a_failed_stack_alone() -> None:
    """Elsewhere there is nothing to retry."""
    assert argocd_scripts.discover(find("Stack", "UpdateFailed"))["retry"]
    assert not argocd_scripts.discover(find("Stack"))["retry"]


def test_a_rollback_is_requested_and_taken_back() -> None:
    """To the last completed revision. An empty `rollback` is removed as a whole, as Argo CD would keep its content."""
    raw = find("Stack")
    spec = {key: value for key, value in raw["spec"].items() if key != "rollback"}
    asked = argocd_scripts.act({**raw, "spec": spec}, "rollback")

    assert asked["spec"] == {**spec, "rollback": {"toRevision": 0}}
    assert argocd_scripts.act(asked, "cancel-rollback")["spec"] == spec


def test_the_end_of_a_rollback_keeps_the_other_settings() -> None:
    """Here the automatic one."""
    raw = find("Stack")
    asked = {**raw, "spec": {**raw["spec"], "rollback": {"onFailure": True, "toSnapshot": "before"}}}

    assert argocd_scripts.act(asked, "cancel-rollback")["spec"]["rollback"] == {"onFailure": True}


@pytest.mark.parametrize("kind", names.STACK_KINDS)
def test_continue_clears_the_first_breakpoint(kind: str) -> None:
    """With a token, since the same value would have no effect a second time."""
    raw = find(kind, "UpdateStopped")
    (wait, *_) = raw["status"]["breakpoints"]
    written = argocd_scripts.act(raw, "continue")["metadata"]["annotations"][names.REQUEST_CONTINUE]

    assert argocd_scripts.discover(raw)["continue"]
    assert written.startswith(f"{wait['resource']}/{wait['hook']}@2")


def test_a_breakpoint_of_a_nested_stack_is_cleared_there() -> None:
    """Here it would be ignored, so the action fails."""
    raw = find("Stack", "UpdateStopped")
    waits = [{**each, "stack": "shop-cache"} for each in raw["status"]["breakpoints"]]

    with pytest.raises(lua51.LuaError, match=r"status\.breakpoints"):
        argocd_scripts.act({**raw, "status": {**raw["status"], "breakpoints": waits}}, "continue")


def test_a_snapshot_is_an_object_of_its_own() -> None:
    """Its name has the time."""
    ((written,),) = [argocd_scripts.act(find("Stack"), "snapshot")]

    assert written["operation"] == "create"
    assert written["resource"]["metadata"]["name"].startswith("shop-20")
