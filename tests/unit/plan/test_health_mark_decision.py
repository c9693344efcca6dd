"""The outcome of one HealthMark."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model import names
from hearth.model.child import Child, Object
from hearth.plan import health_mark_decision
from hearth.plan.health_mark_decision import MarkDecision, MarkedResource, MarkProblem, ParsedHealthMark
from hearth.plan.state.steps import WriteHealthMark
from hearth.plan.status import conditions
from support.units import blueprints, changed_children

NOW = 1_000_000.0


def make_child(
    uid: str = "u1", *, mark: str | None = None, made_at: str = "2026-01-01T00:00:00Z", restarted_by: str = ""
) -> Child:
    """An object of the resource."""
    manifest = {"metadata": {"name": "shop-a", "labels": {}, "annotations": {}}}
    child = blueprints.make_child(manifest, kind=blueprints.CONFIG_MAP, uid=uid, version=1)
    annotations = {} if mark is None else {names.ANNOTATION_UNHEALTHY: mark}
    if restarted_by:
        annotations[names.ANNOTATION_RESTARTED_BY] = restarted_by
    metadata = {**child.fields["metadata"], "annotations": annotations, "creationTimestamp": made_at}
    return changed_children.with_fields(child, {**child.fields, "metadata": metadata})


def say(
    status: Object | None = None, *, is_unhealthy: bool = True, reason: str = "bad", generation: int = 1
) -> ParsedHealthMark:
    """A mark as a user writes it."""
    return ParsedHealthMark(
        name="m",
        uid="m1",
        generation=generation,
        written_at="2026-01-01T00:00:00Z",
        is_unhealthy=is_unhealthy,
        reason=reason,
        status=status or {},
    )


def see(current: Child | None = None, bound: Child | None = None, **more: object) -> MarkedResource:
    """The resource `a` of Stack shop."""
    return MarkedResource(stack="shop", resource="a", current=current, bound=bound, **more)  # type: ignore[arg-type]  # a table


def reported(decision: MarkDecision) -> tuple[str, str, str]:
    """The Ready and Resolved conditions in the status, with reasons."""
    status = decision.status
    assert status is not None
    ready, resolved = conditions.find(status, "Ready"), conditions.find(status, "Resolved")
    return ready["status"], resolved["status"], ready["reason"]


def bound_to(uid: str, *, ready: str = "False", resolved: str = "False", generation: int = 1) -> Object:
    """The status of a mark that is bound to that object."""
    said = [("Ready", ready), ("Resolved", resolved)]
    return {
        "observedGeneration": generation,
        "observedUID": uid,
        "conditions": [{"type": type_, "status": status, "lastTransitionTime": "t"} for type_, status in said],
    }


def test_it_is_bound_before_anything_is_done() -> None:
    verdict = health_mark_decision.decide(say(), see(current=make_child()), now=NOW)
    assert verdict.step is None
    assert verdict.status is not None
    assert (verdict.status["observedUID"], reported(verdict)) == ("u1", ("False", "False", "Pending"))


def test_then_it_is_written_onto_its_object() -> None:
    child = make_child()
    assert health_mark_decision.decide(say(bound_to("u1")), see(child, child), now=NOW) == MarkDecision(
        step=WriteHealthMark(child=child, reason="bad", mark_id="m1/1")
    )
    carries = make_child(mark="bad")
    verdict = health_mark_decision.decide(say(bound_to("u1")), see(carries, carries), now=NOW)
    assert reported(verdict) == ("True", "False", "Marked")


def test_without_a_reason_it_says_who_marked() -> None:
    child = make_child()
    verdict = health_mark_decision.decide(say(bound_to("u1"), reason="  "), see(child, child), now=NOW)
    assert verdict.step == WriteHealthMark(child=child, reason="requested by HealthMark m", mark_id="m1/1")


@pytest.mark.parametrize(
    ("marked", "reason"),
    [
        (see(make_child("u2")), "Replaced"),
        (see(None, None, is_wanted=False), "ObjectDeleted"),
    ],
    ids=["there is another one", "nothing wants another one"],
)
def test_it_is_resolved_once_its_object_is_gone(marked: MarkedResource, reason: str) -> None:
    verdict = health_mark_decision.decide(say(bound_to("u1", ready="True")), marked, now=NOW)
    assert reported(verdict) == ("True", "True", reason)
    assert ("replacedBy" in (verdict.status or {})) == (reason == "Replaced")


def test_it_waits_for_the_next_object() -> None:
    assert health_mark_decision.decide(say(bound_to("u1", ready="True")), see(), now=NOW) == MarkDecision()


@pytest.mark.parametrize("is_unhealthy", [True, False])
def test_a_resolved_mark_strikes_no_more(is_unhealthy: bool) -> None:
    said = say(bound_to("u1", ready="True", resolved="True"), is_unhealthy=is_unhealthy)
    assert health_mark_decision.decide(said, see(make_child("u2", mark="x")), now=NOW) == MarkDecision()


def test_an_edited_mark_is_a_new_word() -> None:
    said = say(bound_to("u1", ready="True", resolved="True"), generation=2)
    verdict = health_mark_decision.decide(said, see(make_child("u2")), now=NOW)
    assert verdict.status is not None
    assert verdict.status["observedUID"] == "u2"


def test_an_edited_mark_stays_with_its_object() -> None:
    child = make_child(mark="bad")
    said = say(bound_to("u1", ready="True"), generation=2, is_unhealthy=False)
    verdict = health_mark_decision.decide(said, see(child, child), now=NOW)
    assert (verdict.status or {})["observedUID"] == "u1"
    assert health_mark_decision.decide(
        say(verdict.status, generation=2, is_unhealthy=False), see(child, child), now=NOW
    ).step == WriteHealthMark(child=child, reason=None, mark_id="m1/2")


def test_nothing_is_taken_back_from_a_healthy_object() -> None:
    verdict = health_mark_decision.decide(say(is_unhealthy=False), see(make_child()), now=NOW)
    assert (verdict.step, reported(verdict)) == (None, ("True", "True", "Healthy"))


def test_what_a_user_takes_off_the_object_is_not_put_there_again() -> None:
    child = make_child()
    verdict = health_mark_decision.decide(say(bound_to("u1", ready="True")), see(child, child), now=NOW)
    assert (verdict.step, reported(verdict)) == (None, ("True", "True", "MarkRemoved"))


def test_it_means_the_object_that_it_names_rather_than_the_current_one() -> None:
    current, named = make_child(), dataclasses.replace(make_child(), uid="u0")
    view = dataclasses.replace(see(current), named=named, is_named=True)
    verdict = health_mark_decision.decide(say(), view, now=NOW)
    assert (verdict.status or {})["observedUID"] == "u0"
    gone = health_mark_decision.decide(say(), dataclasses.replace(view, named=None), now=NOW)
    assert "observedUID" not in (gone.status or {})


def test_it_never_means_an_object_that_was_made_after_it() -> None:
    verdict = health_mark_decision.decide(say(), see(make_child(made_at="2026-01-01T00:00:01Z")), now=NOW)
    assert reported(verdict) == ("False", "False", "ObjectTooNew")
    assert "observedUID" not in (verdict.status or {})


def test_a_newer_mark_that_says_the_contrary_counts() -> None:
    child = make_child()
    verdict = health_mark_decision.decide(say(bound_to("u1")), see(child, child, newer="n"), now=NOW)
    assert (verdict.step, reported(verdict)) == (None, ("True", "True", "Superseded"))
    assert "HealthMark n" in conditions.find(verdict.status or {}, "Ready")["message"]


def test_nothing_is_written_where_nothing_may_be() -> None:
    child = make_child()
    problem = MarkProblem(reason="Paused", message="later")
    verdict = health_mark_decision.decide(say(bound_to("u1")), see(child, child, problem=problem), now=NOW)
    assert (verdict.step, reported(verdict)) == (None, ("False", "False", "Paused"))


def test_nothing_is_said_twice() -> None:
    child = make_child(mark="bad")
    first = health_mark_decision.decide(say(bound_to("u1")), see(child, child), now=NOW)
    assert health_mark_decision.decide(say(first.status), see(child, child), now=NOW + 5) == MarkDecision()


@pytest.mark.parametrize("ready", ["False", "True"], ids=["its status was not written yet", "it was written"])
def test_a_mark_that_restarts_pods_waits_until_they_are_ready(ready: str) -> None:
    child, before = make_child(restarted_by="m1/1"), make_child()
    mark_state = say(bound_to("u1", ready=ready))
    for current, is_ready, resolved in ((child, False, "False"), (before, True, "False"), (child, True, "True")):
        verdict = health_mark_decision.decide(mark_state, see(current, child, is_ready=is_ready), now=NOW)
        assert verdict.step is None
        assert reported(verdict) == ("True", resolved, "Restarted" if resolved == "True" else "Restarting")


def test_an_earlier_restart_does_not_resolve_a_mark() -> None:
    child = make_child(restarted_by="m0/1")
    verdict = health_mark_decision.decide(say(bound_to("u1")), see(child, child, is_ready=True), now=NOW)
    assert verdict.step == WriteHealthMark(child=child, reason="bad", mark_id="m1/1")


def test_a_mark_that_was_resolved_before_a_restore_writes_only_its_status() -> None:
    child = make_child()
    verdict = health_mark_decision.decide(dataclasses.replace(say(), is_restored=True), see(child, child), now=NOW)
    assert (verdict.step, reported(verdict)) == (None, ("True", "True", "Restored"))
