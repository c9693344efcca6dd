"""Which reconcile the requests of a step belong to."""

from __future__ import annotations

from hearth.engine.stack_controller import PlannedWrites
from support.fake_world.fake_world import SilentObserver


class ResumedTraces(SilentObserver):
    """The traces that requests were assigned to."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[object] = []

    def resume_reconcile(self, trace: object) -> None:
        """Record it."""
        self.resumed.append(trace)


def test_a_step_belongs_to_the_reconcile_that_planned_it_first() -> None:
    """Once: its next execution belongs to the next plan. A status belongs to the latest reconcile."""
    observer = ResumedTraces()
    traces = PlannedWrites(observer, now=lambda: 0.0)
    traces.on_planned("s", ["a"], since=0.0, trace="first")
    traces.on_planned("s", ["a"], since=0.0, trace="second")
    traces.on_started("s", "a", is_wanted=True)
    traces.on_started("s", "a", is_wanted=True)
    traces.on_status_write("s")
    assert observer.resumed == ["first", None, "second"]


def test_nothing_is_kept_of_a_deleted_stack() -> None:
    """Neither its latest reconcile nor that of a step that never started; other Stacks keep theirs."""
    observer = ResumedTraces()
    traces = PlannedWrites(observer, now=lambda: 0.0)
    for stack in ("s", "t"):
        traces.on_planned(stack, ["a"], since=0.0, trace=f"of {stack}")
    traces.forget("s")
    for stack in ("s", "t"):
        traces.on_started(stack, "a", is_wanted=True)
        traces.on_status_write(stack)
    assert observer.resumed == [None, None, "of t", "of t"]
