"""Each verb turns a Stack or group into a patch, or explains why it does not apply."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_commands.parameters import GroupName
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals, verbs
from hearth.cli.stack_views.steering.goals import Goal, GoalType, GoalVerdict
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, Write

READY = [{"type": "Ready", "status": "True", "reason": "Complete", "message": "all is ready"}]
FAILED = [
    {"type": "Ready", "status": "False", "reason": "Denied", "message": "web: denied"},
    {"type": "Stalled", "status": "True", "reason": "Denied", "message": "web: denied"},
]


def make(
    spec: dict[str, Any] | None = None, *, labels: dict[str, str] | None = None, deleting: bool = False, **status: Any
) -> StackState:
    metadata: dict[str, Any] = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 3}
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"deletionTimestamp": "now"} if deleting else {}
    known = {"observedGeneration": 3, "phase": "UpdateComplete", "conditions": READY}
    return StackState({"metadata": metadata, "spec": spec or {}, "status": known | status})


def wait_at(*waits: tuple[str, str, str]) -> StackState:
    entries = [{"resource": resource, "hook": hook, "stack": stack} for resource, hook, stack in waits]
    return make(breakpoints=entries, resources={"stopped": len(entries)}, phase="UpdateStopped")


def test_retry_writes_a_token() -> None:
    result = verbs.retry(make(conditions=FAILED, phase="UpdateFailed"), token="t-1")

    assert isinstance(result, Write)
    assert result.patches == ({"metadata": {"annotations": {"hearth.dev/retry": "t-1"}}},)
    assert result.handled == ("retry", "t-1")


def test_retry_of_what_has_not_failed_is_refused() -> None:
    result = verbs.retry(make(), token="t-1")

    assert isinstance(result, Refusal)
    assert "nothing has failed: stack/shop is UpdateComplete" in result.said
    assert "kubectl stack mark shop RESOURCE -n prod" in result.said


FINISHED = [{"resource": "migrate", "object": "job/shop-migrate", "definitions": ["0123456789abcdef"]}]


def test_finished_work_is_run_again_by_its_name_alone() -> None:
    sound = make(finished=[*FINISHED, *FINISHED])
    named = verbs.retry(sound, token="t-1", resource="migrate")
    assert isinstance(named, Write)
    assert named.patches == ({"metadata": {"annotations": {"hearth.dev/retry": "migrate/t-1"}}},)
    assert named.handled == ("retry", "migrate/t-1")
    bare, unknown = verbs.retry(sound, token="t-1"), verbs.retry(sound, token="t-1", resource="web")
    assert isinstance(bare, Refusal)
    assert "kubectl stack retry shop migrate -n prod" in bare.said
    assert isinstance(unknown, Refusal)
    assert unknown.said.endswith("web is not a finished resource of stack/shop; finished: migrate")


def test_after_a_rollback_a_name_means_finished_work_and_no_name_the_definition() -> None:
    rolled_back = make(finished=FINISHED, target={"revision": 2, "cause": "Rollback"})
    bare, named = verbs.retry(rolled_back, token="t-1"), verbs.retry(rolled_back, token="t-1", resource="migrate")
    assert isinstance(bare, Write)
    assert bare.patches == ({"metadata": {"annotations": {"hearth.dev/retry": "t-1"}}},)
    assert isinstance(named, Write)
    assert named.patches == ({"metadata": {"annotations": {"hearth.dev/retry": "migrate/t-1"}}},)
    unknown = verbs.retry(rolled_back, token="t-1", resource="web")
    assert isinstance(unknown, Refusal)
    assert unknown.said.endswith("web is not a finished resource of stack/shop; finished: migrate")


def test_a_token_is_never_used_twice() -> None:
    assert isinstance(verbs.check(make(handled={"check": "t-1"}), token="t-1"), Refusal)


TARGET: dict[str, Any] = {"lastCompletedRevision": 3, "previousCompletedRevision": 2}


@pytest.mark.parametrize(
    ("spec", "status", "to_revision", "patches"),
    [
        pytest.param({}, {"target": {"revision": 3, "cause": "Spec"}}, 0, [0], id="the operator resolves 0"),
        pytest.param({}, {"target": {"revision": 3, "cause": "Spec"}}, 1, [1], id="a number"),
        pytest.param(
            {"rollback": {"toRevision": 0}}, {"target": {"revision": 3, "cause": "Spec"}}, 0, [2], id="0 once more"
        ),
        pytest.param(
            {"rollback": {"toRevision": 1}},
            {"target": {"revision": 3, "cause": "Spec"}},
            1,
            [None, 1],
            id="the same number after an edit",
        ),
    ],
)
def test_rollback_writes_what_counts_as_new(
    spec: dict[str, Any], status: dict[str, Any], to_revision: int, patches: list[int | None]
) -> None:
    result = verbs.rollback(make(spec, **TARGET, **status), to_revision=to_revision, stored={1, 2, 3})

    assert isinstance(result, Write)
    assert [patch["spec"]["rollback"]["toRevision"] for patch in result.patches] == patches
    assert any("the next change of the template or parameters takes precedence" in note for note in result.notes)


@pytest.mark.parametrize(
    ("stack", "to_revision", "said"),
    [
        pytest.param(make(), 7, "has no revision 7; stored revisions: 1, 2", id="unknown"),
        pytest.param(make(deleting=True), 1, "a deletion cannot be rolled back", id="in deletion"),
        pytest.param(make(target={"cause": "Spec", "revision": 1}, lastCompletedRevision=1), 0, "no other", id="none"),
    ],
)
def test_rollback_that_does_not_apply_says_why(stack: StackState, to_revision: int, said: str) -> None:
    result = verbs.rollback(stack, to_revision=to_revision, stored={1, 2})

    assert isinstance(result, Refusal)
    assert said in result.said


def test_rollback_without_permission_to_list_revisions_says_nothing_about_them() -> None:
    only = make(target={"cause": "Spec", "revision": 1}, lastCompletedRevision=1)
    later = make(target={"cause": "Spec", "revision": 2}, lastCompletedRevision=2, previousCompletedRevision=1)

    refused = verbs.rollback(only, to_revision=0, stored=None)

    assert isinstance(refused, Refusal)
    assert "stored revisions" not in refused.said
    assert isinstance(verbs.rollback(later, to_revision=1, stored=None), Write)


@pytest.mark.parametrize("to_revision", [0, 1])
def test_rollback_discards_a_change_that_waits(to_revision: int) -> None:
    target = {"revision": 1, "cause": "Spec", "completed": True}
    stack = make(target=target, lastCompletedRevision=1, heldChange={"generation": 3, "reason": "WaitingForWindow"})

    result = verbs.rollback(stack, to_revision=to_revision, stored={1})

    assert isinstance(result, Write)
    assert result.patches == ({"spec": {"rollback": {"toRevision": to_revision, "toSnapshot": None}}},)


def test_rollback_to_where_it_is_writes_nothing() -> None:
    back = make({"rollback": {"toRevision": 1}}, target={"cause": "Rollback", "revision": 1}, **TARGET)
    spec = make(target={"cause": "Spec", "revision": 3}, **TARGET)

    assert isinstance(verbs.rollback(back, to_revision=1, stored={1, 3}), AlreadySo)
    assert isinstance(verbs.rollback(spec, to_revision=3, stored={1, 3}), AlreadySo)


@pytest.mark.parametrize("where", ["web", "web/PreUpdate"])
def test_continue_names_the_breakpoint_and_a_token(where: str) -> None:
    result = verbs.continue_(wait_at(("web", "PreUpdate", "")), where=where, token="t-1")

    assert isinstance(result, Write)
    assert result.patches == ({"metadata": {"annotations": {"hearth.dev/continue": "web/PreUpdate@t-1"}}},)
    assert result.handled == ("continue", "web/PreUpdate@t-1")


def test_continue_within_a_nested_stack_annotates_that_one() -> None:
    result = verbs.continue_(wait_at(("cache/db", "PreUpdate", "shop-cache")), where="cache/db", token="t-1")

    assert isinstance(result, Write)
    assert result.stack == "shop-cache"
    assert result.patches == ({"metadata": {"annotations": {"hearth.dev/continue": "db/PreUpdate@t-1"}}},)


@pytest.mark.parametrize(
    ("where", "waits_at"),
    [("workers[*]", "workers[a]"), ("workers[*]/PreUpdate", "workers[a]"), ("*", "3"), ("*/PreUpdate", "3")],
)
def test_all_members_continue_with_one_command(where: str, waits_at: str) -> None:
    result = verbs.continue_(wait_at((waits_at, "PreUpdate", "")), where=where, token="t-1")
    nowhere = verbs.continue_(wait_at(("other", "PreUpdate", "")), where=where, token="t-1")

    assert isinstance(result, Write)
    assert result.patches == ({"metadata": {"annotations": {"hearth.dev/continue": f"{where}@t-1"}}},)
    assert isinstance(nowhere, Refusal)


def test_continue_where_nothing_waits_names_what_does() -> None:
    result = verbs.continue_(wait_at(("web", "PreUpdate", "")), where="db", token="t-1")

    assert isinstance(result, Refusal)
    assert result.said == (
        "db does not wait at a breakpoint; waiting: web/PreUpdate. "
        "Continue with: kubectl stack continue shop web/PreUpdate -n prod"
    )


def test_a_command_to_copy_quotes_names_for_a_shell() -> None:
    result = verbs.continue_(wait_at(("a;reboot", "PreUpdate", "")), where="db", token="t-1")

    assert isinstance(result, Refusal)
    assert result.said.endswith("Continue with: kubectl stack continue shop 'a;reboot/PreUpdate' -n prod")


def test_cleanup_needs_obsolete_objects() -> None:
    """Otherwise, nothing would happen and the user would not learn why."""
    assert isinstance(verbs.cleanup(make(resources={"obsolete": 0}), token="t"), Refusal)
    assert isinstance(verbs.cleanup(make(resources={"obsolete": 2}), token="t"), Write)


def test_pause_and_suspend_are_idempotent() -> None:
    assert isinstance(verbs.set_paused(make({"paused": True}), paused=True), AlreadySo)
    assert isinstance(verbs.set_suspended(make({"suspended": True}), suspended=True), AlreadySo)
    unpause = verbs.set_paused(make({"paused": True}), paused=False)
    assert isinstance(unpause, Write)
    assert unpause.patches == ({"spec": {"paused": None}},)


def test_a_tool_that_writes_the_spec_from_git_is_named() -> None:
    result = verbs.set_paused(make(labels={"kustomize.toolkit.fluxcd.io/name": "apps"}), paused=True)

    assert isinstance(result, Write)
    assert "Flux (Kustomization apps) manages this Stack and may revert spec.paused; change it in Git as well" in (
        result.notes
    )


# ---------------------------------------------------------------- `scale` and following a group


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
    for size in (5, 0):
        result = verbs.scale(make_group(), replicas=size)
        assert isinstance(result, Write)
        assert result.patches == ({"spec": {"replicas": size}},)
    assert verbs.scale(make_group(), replicas=3) == AlreadySo(said="already has spec.replicas=3")


def test_a_group_in_deletion_is_not_scaled() -> None:
    result = verbs.scale(make_group(deletionTimestamp="now"), replicas=5)

    assert isinstance(result, Refusal)
    assert "is being deleted" in result.said


@pytest.mark.parametrize("field", ["paused", "suspended"])
def test_what_holds_a_group_back_is_said(field: str) -> None:
    group = make_group({field: True})

    (note,) = verbs.note_size(group)
    reached = goals.assess(group, Goal(type=GoalType.READY))

    verb = {"paused": "unpause", "suspended": "resume"}[field]
    command = f"kubectl stack {verb} rg/queue -n prod"
    assert command in note
    assert reached.verdict is GoalVerdict.FAILED
    assert field in reached.message
    assert command in reached.message


@pytest.mark.parametrize("name", ["queue", "rg/queue", "resourcegroups.hearth.dev/queue"])
def test_a_group_is_named_with_and_without_its_kind(name: str) -> None:
    assert GroupName().convert(name, None, None) == "queue"
