"""The target of one process: which definition has failed."""

from __future__ import annotations

from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import target_tracker
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.target.target import CompletedRevisions, Target, TargetCause
from hearth.plan.target.target_choice import TargetContext
from support.units import stack_objects


def make_revision(number: int, hashed: str) -> Revision:
    """One that is stored."""
    return Revision(name=f"shop-{hashed}", number=number, hash=hashed, kinds=frozenset(), namespace="default")


def make_failed() -> TargetTracker:
    """A tracker whose target, revision 2, has failed after revision 1 was complete."""
    target = Target(revision=2, cause=TargetCause.SPEC, since=0.0, is_first=False)
    tracker = TargetTracker(current=target, completed=CompletedRevisions(last=1))
    tracker.fail("as written")
    return tracker


def test_a_failure_is_that_of_the_active_definition() -> None:
    """Also if a second revision got its number: else the same definition is tried again without end."""
    stored = [make_revision(1, "old"), make_revision(2, "failed"), make_revision(2, "lost")]
    choice = make_failed().choose("failed", ReconcileOptions(), revisions=stored, active="failed")
    assert (choice.cause, choice.revision) == (TargetCause.AUTOMATIC, 1)


def test_a_failure_does_not_count_for_another_definition() -> None:
    """The user changed it in the same moment."""
    stored = [make_revision(1, "old"), make_revision(2, "failed")]
    choice = make_failed().choose("new", ReconcileOptions(), revisions=stored, active="failed")
    assert choice.cause is TargetCause.SPEC


def make_rolled_back() -> TargetTracker:
    """A tracker whose target is revision 1, because revision 2 failed."""
    target = Target(revision=1, cause=TargetCause.AUTOMATIC, since=0.0, is_completed=True, failed_hash="failed")
    return TargetTracker(current=target, completed=CompletedRevisions(last=1))


def test_a_retry_requested_during_a_choice_counts_for_the_next_one() -> None:
    """Otherwise it would be handled, and nothing would be tried."""
    stored = [make_revision(1, "old"), make_revision(2, "failed")]
    tracker = make_rolled_back()
    choice = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="old")
    tracker.request_retry()
    tracker.start(choice, revision=1, context=TargetContext(now=1.0))
    choice = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="old")
    assert choice.cause is TargetCause.SPEC
    tracker.start(choice, revision=2, context=TargetContext(now=2.0))
    tracker.complete()
    again = tracker.choose("failed", ReconcileOptions(), revisions=stored, active="failed")
    assert again.cause is TargetCause.SPEC


def take(tracker: TargetTracker, *, is_settled: bool = True, **tokens: str) -> list[str]:
    """The requests that a Stack with these tokens makes."""
    annotations = {target_tracker.REQUESTS[verb]: token for verb, token in tokens.items()}
    return tracker.take_requests(stack_objects.make_stack(annotations=annotations), is_settled=is_settled)


def test_a_retry_is_persisted_once_the_definition_was_processed_for_it() -> None:
    """A second retry meanwhile hides the first one as well."""
    tracker = TargetTracker(handled={"retry": "1", "cleanup": "a"})
    assert take(tracker, retry="2") == ["retry"]
    assert take(tracker, retry="2") == []
    assert tracker.find_persisted_tokens() == {"retry": "1", "cleanup": "a"}
    assert take(tracker, retry="3") == ["retry"]
    assert tracker.find_persisted_tokens() == {"retry": "1", "cleanup": "a"}
    tracker.end_retry()
    assert tracker.find_persisted_tokens() == {"retry": "3", "cleanup": "a"}
    assert tracker.find_persisted_tokens(has_open_runs=True) == {"retry": "1", "cleanup": "a"}


def test_a_cleanup_waits_for_the_target_of_the_present_spec() -> None:
    """Else it would count for the one before, and be handled; a retry may choose another target, too."""
    tracker = TargetTracker()
    assert take(tracker, cleanup="a", is_settled=False) == []
    assert take(tracker, cleanup="a", retry="1") == ["retry"]
    assert take(tracker, cleanup="a", retry="1") == ["cleanup"]
