"""`kubectl stack rollout`: the patches of its verbs, the progress it prints, and Stacks that are instances."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import mark_requests, rollouts, snapshot_requests, verbs
from hearth.cli.stack_views.steering.goals import GoalVerdict
from hearth.cli.stack_views.steering.rollouts import DefinitionState
from hearth.cli.stack_views.steering.verbs import AlreadySo, Refusal, Write
from hearth.model.kinds import Kind

SITE = Kind(group="platform.example", version="v1", name="Site", plural="sites", namespaced=True)


def make(phase: str = "Progressing", *, reason: str = "RollingOut", strategy: str = "", **more: Any) -> DefinitionState:
    annotations = more.pop("annotations", {})
    stalled = more.pop("stalled", False)
    conditions = [
        {"type": "Ready", "status": "True" if phase == "Complete" else "False", "reason": reason, "message": "far"},
        {"type": "Stalled", "status": str(stalled)},
    ]
    spec = {"names": {"kind": "Site"}, "rollout": {"strategy": strategy} if strategy else {}}
    rollout = {"revision": 3, "completed": 2, "phase": phase, "wave": "canary", **more}
    metadata = {"name": "sites.platform.example", "generation": 4, "annotations": annotations}
    status = {"observedGeneration": 4, "rollout": rollout, "conditions": conditions}
    return DefinitionState({"metadata": metadata, "spec": spec, "status": status})


def read_annotations(result: object) -> dict[str, Any]:
    assert isinstance(result, Write), result
    (patch,) = result.patches
    found: dict[str, Any] = patch["metadata"]["annotations"]
    return found


def test_each_verb_writes_one_annotation() -> None:
    assert read_annotations(rollouts.set_paused(make(), paused=True)) == {"hearth.dev/rollout-paused": "true"}
    paused = make(annotations={"hearth.dev/rollout-paused": "true"})
    assert read_annotations(rollouts.set_paused(paused, paused=False)) == {"hearth.dev/rollout-paused": None}
    assert read_annotations(rollouts.undo(make("Stopped"))) == {"hearth.dev/rollout-undo": "3"}
    waits = make(readySince="2026-11-27T10:00:00Z")
    assert read_annotations(rollouts.promote(waits)) == {"hearth.dev/rollout-promote": "3/canary"}
    undone = make("RolledBack", annotations={"hearth.dev/rollout-undo": "3"})
    begun = read_annotations(rollouts.restart(undone, token="now"))
    assert begun == {"hearth.dev/rollout-restart": "now", "hearth.dev/rollout-undo": None}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (rollouts.undo(make("Complete")), "is fully rolled out"),
        (rollouts.undo(make("Stopped", completed=0)), "no earlier revision"),
        (rollouts.restart(make(), token="now"), "no rollout was stopped"),
        (rollouts.promote(make()), "the rollout is not in a pause after a wave"),
        (rollouts.promote(make(strategy="Manual")), "kubectl stack promote site/NAME"),
    ],
)
def test_what_does_not_apply_says_why(result: object, words: str) -> None:
    assert isinstance(result, Refusal)
    assert words in result.said


def test_what_is_so_already_is_not_written() -> None:
    assert isinstance(rollouts.set_paused(make(), paused=False), AlreadySo)
    assert isinstance(rollouts.undo(make("RollingBack")), AlreadySo)


@pytest.mark.parametrize(
    ("definition", "verdict"),
    [
        (make(), GoalVerdict.WAITING),
        (make("Complete", reason="Complete"), GoalVerdict.REACHED),
        (make("Stopped", reason="RolloutStopped", stalled=True), GoalVerdict.FAILED),
        (make("Paused", reason="RolloutPaused", stalled=True), GoalVerdict.WAITING),
        (
            make("Complete", reason="Complete", restart="a", annotations={"hearth.dev/rollout-restart": "b"}),
            GoalVerdict.WAITING,
        ),
        (make("Stopped", stalled=True, annotations={"hearth.dev/rollout-undo": "3"}), GoalVerdict.WAITING),
        (
            make("RolledBack", reason="RolledBack", stalled=True, annotations={"hearth.dev/rollout-undo": "3"}),
            GoalVerdict.FAILED,
        ),
        (None, GoalVerdict.FAILED),
    ],
)
def test_a_status_counts_once_it_tells_of_the_last_request(
    definition: DefinitionState | None, verdict: GoalVerdict
) -> None:
    assert rollouts.assess(definition).verdict is verdict


def test_a_definition_that_was_refused_is_not_begun_again() -> None:
    failed = [{"namespace": "prod", "name": "shop", "message": "x"}]
    stopped = make("Stopped", reason="RolloutStopped", stalled=True, instances=failed)
    assert list(rollouts.advise(stopped)) == [
        "kubectl stack why site/shop -n prod",
        "kubectl stack rollout undo sites.platform.example",
        "kubectl stack rollout force sites.platform.example",
        "kubectl stack rollout restart sites.platform.example",
    ]
    assert list(rollouts.advise(make("RolledBack", reason="InvalidDefinition", stalled=True))) == []


WAITS = {"wave": "canary", "name": "release-manager", "state": "Waiting", "digest": "3f9c1a2e" + "0" * 24}


def test_a_gate_that_waits_ends_the_watching_with_its_commands() -> None:
    waits = make(reason="WaitingForApproval", gates=[WAITS, {**WAITS, "state": "Passed"}])

    assert rollouts.assess(waits).verdict is GoalVerdict.FAILED
    assert list(rollouts.advise(waits)) == [
        "kubectl stack rollout approve sites.platform.example 3f9c1a2e",
        "kubectl stack rollout reject sites.platform.example 3f9c1a2e",
    ]


def test_a_decision_that_the_operator_has_not_noticed_does_not_end_the_watching() -> None:
    annotations = {
        "hearth.dev/approvals": f'{{"digest":"{WAITS["digest"]}","decision":"approved","user":"bob",'
        '"time":"2026-11-30T09:00:00Z","signature":"x"}'
    }

    noticed = make(reason="WaitingForApproval", gates=[WAITS], annotations=annotations)
    other = make(reason="WaitingForApproval", gates=[WAITS, {**WAITS, "digest": "f" * 32}], annotations=annotations)

    assert [rollouts.assess(each).verdict for each in (noticed, other)] == [GoalVerdict.WAITING, GoalVerdict.FAILED]


def test_a_gate_is_named_by_its_digest() -> None:
    definition = make(reason="WaitingForApproval", gates=[WAITS])

    found, mistaken = rollouts.find_gate(definition, "3F9C1A2E0"), rollouts.find_gate(definition, "3f9c1a2")

    assert found == rollouts.ShownGate("canary", "release-manager", WAITS["digest"], "Waiting")
    assert isinstance(mistaken, Refusal)
    assert mistaken.said.endswith("give at least 8 digits (waiting: release-manager: 3f9c1a2e)")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            '{"gates": [{"wave": "canary", "name": "lead", "state": "Passed", "user": "bob", "time": "t", "message": "a\\nb"}]}',
            [["canary", "lead", "Passed", "bob", "t", "a b"]],
        ),
        ("", []),
        ("{", []),
        ('{"gates": 5}', []),
        ('{"gates": [5, {"wave": 5}]}', [[""] * 6]),
    ],
)
def test_evidence_of_a_revision_is_shown_whatever_it_contains(text: str, rows: list[list[str]]) -> None:
    revision = {"metadata": {"annotations": {"hearth.dev/evidence": text}}}

    shown = [rollouts.make_evidence_row(each) for each in rollouts.read_evidence(revision)]
    assert [[text for text, _ in row] for row in shown] == rows


def test_a_rejected_rollout_is_restarted_and_not_forced() -> None:
    rejected = make("Stopped", reason="RolloutStopped", stalled=True, gates=[{**WAITS, "state": "Failed"}])

    refused = rollouts.force(rejected)
    assert isinstance(refused, Refusal)
    assert "cannot be forced, only restarted" in refused.said
    assert not any("force" in each for each in rollouts.advise(rejected))


def make_instance(**options: Any) -> StackState:
    spec = {"title": "x", "key": {"secretKeyRef": {"name": "a", "key": "b"}}, **({"stack": options} if options else {})}
    metadata = {"name": "shop", "namespace": "prod", "generation": 1, "uid": "1"}
    status = {"observedGeneration": 1, "definitionRevision": 3, "phase": "CreateComplete"}
    return StackState({"metadata": metadata, "spec": spec, "status": status}, SITE)


def test_an_instance_is_shown_as_a_stack_with_its_options_apart() -> None:
    shop = make_instance(paused=True)
    assert (shop.title, shop.argument, shop.reference) == ("site/shop", "site/shop", "site.platform.example/shop")
    assert shop.spec == {"paused": True, "parameters": {"title": "x"}}
    unpaused = verbs.set_paused(shop, paused=False)
    assert isinstance(unpaused, Write)
    assert unpaused.patches == ({"spec": {"stack": {"paused": None}}},)
    assert snapshot_requests.find_refusal(shop) == ""
    snapshot = snapshot_requests.make_snapshot(shop, name="before", is_retained=True)
    assert snapshot["spec"] == {
        "stackRef": {"kind": "Site", "group": "platform.example", "name": "shop"},
        "deletionPolicy": "Retain",
    }
    assert snapshot_requests.describe(snapshot).startswith("spec.deletionPolicy=Retain spec.kind=Site")
    mark = mark_requests.make_mark(shop, "page", reason="stale")
    assert mark["spec"]["stackRef"] == {"kind": "Site", "group": "platform.example", "name": "shop"}
    assert mark["metadata"]["ownerReferences"][0]["kind"] == "Site"


def test_an_instance_is_promoted_unless_it_keeps_to_a_revision() -> None:
    assert read_annotations(verbs.promote(make_instance(), revision=4)) == {"hearth.dev/promote": "4"}
    assert isinstance(verbs.promote(make_instance(), revision=3), AlreadySo)
    pinned = verbs.promote(make_instance(definitionRevision=2), revision=4)
    assert isinstance(pinned, Refusal)
    assert "spec.stack.definitionRevision" in pinned.said
