"""The Stack controller: a burst of new Stacks, inexact timers, and the time from an event to the write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hearth.engine.stack_controller import PlannedWrites
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import Controller
from support.ports.silent_ports import SilentObserver
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.server.request_faults import Traffic
from support.stories import stack_manifests, story, story_runner
from support.virtual_time import VirtualClock

STACKS = 60
CHILDREN = 5
WRITES = 4
"""Writes in flight, of 0.04 s each: with 100 writes per second, the burst takes 3 s."""
LATENCY = 0.02


def make_stack(name: str, namespace: str = "default") -> Object:
    """A Stack of independent ConfigMaps."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"}}
    resources = {f"r{number}": {"manifest": manifest} for number in range(CHILDREN)}
    return stack_manifests.make_stack({"template": {"resources": resources}}, name=name, namespace=namespace)


class Burst:
    """A controller with a slow API server, and the completion times of Stacks."""

    def __init__(self) -> None:
        self.server = FakeServer(VirtualClock().now)
        self.traffic = Traffic()
        self.complete: dict[str, float] = {}
        self.expected = 0
        self.most_loaded = 0
        """Stacks that had a reconciler at the same time."""
        self._controller: Controller | None = None
        self.is_done = asyncio.Event()
        self.server.watchers.append(self._on_change)

    def _on_change(self, kind: Kind, _before: Object | None, after: Object | None) -> None:
        if self._controller is not None:
            self.most_loaded = max(self.most_loaded, len(self._controller.engine._reconcilers))
        if kind != fake_kinds.STACK.kind or after is None or after.get("status", {}).get("phase") != "CreateComplete":
            return
        self.complete.setdefault(after["metadata"]["name"], asyncio.get_running_loop().time())
        if len(self.complete) == self.expected:
            self.is_done.set()

    async def play(self, stacks: list[Object]) -> None:
        """Create the Stacks at once, and wait until all are complete."""
        controller = Controller(self.server, self.traffic, Share(index=0, count=1), concurrency=WRITES)
        self._controller = controller
        controller.wire.latency = LATENCY
        await controller.start()
        self.expected = len(stacks)
        self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}, manager="user")
        for stack in stacks:
            self.server.create(stack, manager="user")
        await self.is_done.wait()
        controller.kill()


def play(stacks: list[Object], check: Callable[[Burst], None]) -> None:
    """Run the burst in virtual time."""

    async def run() -> None:
        burst = Burst()
        await burst.play(stacks)
        check(burst)

    with fake_world.diary():
        virtual_time.run(run)


def test_most_stacks_of_a_burst_cost_one_status_write() -> None:
    def check(burst: Burst) -> None:
        by_stack = Counter(each.name for each in burst.traffic.requests if each.verb == "status")
        assert sum(by_stack.values()) < STACKS * 1.2, by_stack

    play([make_stack(f"s{number}") for number in range(STACKS)], check)


def test_not_all_stacks_of_a_burst_are_in_memory_at_once() -> None:
    def check(burst: Burst) -> None:
        assert burst.most_loaded < STACKS * 0.75

    play([make_stack(f"s{number}") for number in range(STACKS)], check)


def test_a_burst_in_one_namespace_does_not_delay_another() -> None:
    def check(burst: Burst) -> None:
        order = sorted(burst.complete, key=lambda name: burst.complete[name])
        assert order.index("alone") < STACKS / 3, order

    play([*(make_stack(f"s{number}") for number in range(STACKS)), make_stack("alone", "team-b")], check)


# ---------------------------------------------------------------- timers of real loops are not exact

EARLY = 0.0005
"""Seconds: uvloop counts milliseconds."""


def test_a_retry_whose_timer_fires_early_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = VirtualClock.call_later

    def call_early(clock: VirtualClock, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        return exact(clock, delay - EARLY if delay > 2 * EARLY else delay, action)

    monkeypatch.setattr(VirtualClock, "call_later", call_early)
    played = story.load(story.FOLDER / "create-fails-and-recovers.yaml")
    fake_world.run(lambda world: story_runner.Play(played, world).perform())


# ---------------------------------------------------------------- the time from an event to the write


class TimedWrites(SilentObserver):
    """The times that were reported."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[float] = []

    def on_event_to_write(self, seconds: float) -> None:
        self.reported.append(seconds)


class ResumedTraces(SilentObserver):
    """The traces that requests were assigned to."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[object] = []

    def resume_reconcile(self, trace: object) -> None:
        self.resumed.append(trace)


def test_a_write_counts_from_the_first_news_that_called_for_it() -> None:
    observer = TimedWrites()
    reactions = PlannedWrites(observer, now=lambda: 12.0)
    reactions.on_planned("s", ["a", "b"], since=10.0)
    reactions.on_planned("s", ["a"], since=11.0)
    reactions.on_planned("t", ["a"], since=11.5)
    for stack in ("s", "t", "s"):
        reactions.on_started(stack, "a", is_wanted=True)
    assert observer.reported == [2.0, 0.5]


def test_what_is_no_longer_wanted_was_no_reaction() -> None:
    observer = TimedWrites()
    reactions = PlannedWrites(observer, now=lambda: 12.0)
    reactions.on_planned("s", ["a"], since=10.0)
    reactions.on_started("s", "a", is_wanted=False)
    reactions.on_planned("s", ["a"], since=11.0)
    reactions.on_started("s", "a", is_wanted=True)
    assert observer.reported == [1.0]


def test_every_write_of_a_story_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[float] = []
    monkeypatch.setattr(SilentObserver, "on_event_to_write", lambda _, seconds: reported.append(seconds))
    chain = story.load(story.FOLDER / "chain.yaml")
    fake_world.run(lambda world: story_runner.Play(chain, world).perform())
    assert len(reported) >= 3
    assert max(reported) < 1.0


def test_a_step_belongs_to_the_reconcile_that_planned_it_first() -> None:
    observer = ResumedTraces()
    traces = PlannedWrites(observer, now=lambda: 0.0)
    traces.on_planned("s", ["a"], since=0.0, trace="first")
    traces.on_planned("s", ["a"], since=0.0, trace="second")
    traces.on_started("s", "a", is_wanted=True)
    traces.on_started("s", "a", is_wanted=True)
    traces.on_status_write("s")
    assert observer.resumed == ["first", None, "second"]


def test_nothing_is_kept_of_a_deleted_stack() -> None:
    observer = ResumedTraces()
    traces = PlannedWrites(observer, now=lambda: 0.0)
    for stack in ("s", "t"):
        traces.on_planned(stack, ["a"], since=0.0, trace=f"of {stack}")
    traces.forget("s")
    for stack in ("s", "t"):
        traces.on_started(stack, "a", is_wanted=True)
        traces.on_status_write(stack)
    assert observer.resumed == [None, None, "of t", "of t"]
