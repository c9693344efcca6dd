"""The target of one process: which definition has failed."""

from __future__ import annotations

from hearth.engine.cluster_objects import Revision
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.target.target import CompletedRevisions, Target, TargetCause


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
