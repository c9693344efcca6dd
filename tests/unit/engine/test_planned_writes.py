"""The time from news to the write that they lead to, as reported to metrics, and the reconcile that its requests belong to."""

from __future__ import annotations

import pytest

from hearth.engine.stack_controller import PlannedWrites
from support.fake_world import fake_world
from support.fake_world.fake_world import SilentObserver
from support.stories import story, story_runner


class TimedWrites(SilentObserver):
    """The times that were reported."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[float] = []

    def on_event_to_write(self, seconds: float) -> None:
        """Record it."""
        self.reported.append(seconds)


class ResumedTraces(SilentObserver):
    """The traces that requests were assigned to."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[object] = []

    def resume_reconcile(self, trace: object) -> None:
        """Record it."""
        self.resumed.append(trace)


def test_a_write_counts_from_the_first_news_that_called_for_it() -> None:
    """However often it was planned since, and once."""
    observer = TimedWrites()
    reactions = PlannedWrites(observer, now=lambda: 12.0)
    reactions.on_planned("s", ["a", "b"], since=10.0)
    reactions.on_planned("s", ["a"], since=11.0)
    reactions.on_planned("t", ["a"], since=11.5)
    for stack in ("s", "t", "s"):
        reactions.on_started(stack, "a", is_wanted=True)
    assert observer.reported == [2.0, 0.5]


def test_what_is_no_longer_wanted_was_no_reaction() -> None:
    """Nor does it count for the next write of the same resource."""
    observer = TimedWrites()
    reactions = PlannedWrites(observer, now=lambda: 12.0)
    reactions.on_planned("s", ["a"], since=10.0)
    reactions.on_started("s", "a", is_wanted=False)
    reactions.on_planned("s", ["a"], since=11.0)
    reactions.on_started("s", "a", is_wanted=True)
    assert observer.reported == [1.0]


def test_every_write_of_a_story_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the clock of the world that it happens in, where nothing is in the way of a write."""
    reported: list[float] = []
    monkeypatch.setattr(SilentObserver, "on_event_to_write", lambda _, seconds: reported.append(seconds))
    chain = story.load(story.FOLDER / "chain.yaml")
    fake_world.run(lambda world: story_runner.Play(chain, world).perform())
    assert len(reported) >= 3
    assert max(reported) < 1.0


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
