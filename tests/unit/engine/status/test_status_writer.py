"""Statuses are written one after the other, so that the last word about a Stack is the newest."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import orjson

from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Unassisted
from hearth.engine.status import status_writer
from hearth.engine.status.status_writer import StatusWriter
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status.ready_condition import DefinitionRejection, StatusInput
from support import virtual_time
from support.units import stack_objects
from support.units.stack_objects import HASHES
from support.virtual_time import VirtualClock

STACK = stack_objects.make_stack(namespace="default", resource_version=1)


class SlowHome:
    """Takes its time over each status."""

    def __init__(self, stack: StackObject = STACK) -> None:
        self.stack = stack
        self.begun: list[str] = []
        self.written: list[str] = []
        self.gate = asyncio.Event()

    def find_stack(self, uid: str) -> StackObject:
        """As the port says."""
        return self.stack

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        self.stack = dataclasses.replace(self.stack, packed_status=orjson.dumps(self.stack.status | status))
        message = status["conditions"][0]["message"]
        self.begun.append(message)
        await self.gate.wait()
        self.written.append(message)

    async def emit_event(self, stack: StackObject, **_: Any) -> None:
        """As the port says."""


class Reported:
    """What a runner says of its Stack: all that the test wants."""

    is_status_overdue = False
    is_superseded = False
    has_outcome = False

    def __init__(self, message: str) -> None:
        self.message = message
        self.reason = "InvalidTemplate"
        self.looks = 0
        self.is_known = True
        self.definition = SimpleNamespace(hidden_texts=frozenset())
        self.planner = None
        self.memory = InMemoryState()
        # It sees everything.
        self.cache_sync = SimpleNamespace(grace_left=lambda: 0.0)

    def note_written(self, _status: Object) -> None:
        """Nothing waits for it."""

    def make_status_input(self) -> StatusInput:
        """With the message that must be visible."""
        self.looks += 1
        refusal = DefinitionRejection(reason=self.reason, message=self.message)
        return StatusInput(generation=1, rejection=refusal)


async def begin(home: SlowHome, reported: Reported) -> StatusWriter:
    """A recorder that was asked for one message, and a moment later of another."""
    services: Any = SimpleNamespace(
        management_cluster=home,
        hashes=HASHES,
        clock=VirtualClock(),
        share=WHOLE,
        evaluations=Unassisted(),
        find_namespace=lambda _uid: "shop",
    )
    recorder = StatusWriter(services, find_reconciler=lambda _uid: reported, interval=1.0)
    recorder.start()
    recorder.request("u")
    await asyncio.sleep(0.1)
    reported.message = "two"
    recorder.request("u")
    return recorder


def test_a_slow_write_is_never_overtaken() -> None:
    """It might come last, and then the status would tell for ever what no longer is so."""

    async def story() -> None:
        home, reported = SlowHome(), Reported("one")
        recorder = await begin(home, reported)
        await asyncio.sleep(10)
        assert home.begun == ["one"]

        home.gate.set()
        await asyncio.sleep(2)
        assert home.written[:2] == ["one", "two"]
        await recorder.stop()

    virtual_time.run(story)


def test_of_a_large_stack_progress_is_reported_less_often_and_news_as_soon_as_ever() -> None:
    """As the server looks at all of it at every write."""

    async def story() -> None:
        large = dataclasses.replace(STACK, packed_spec=b" " * 10 * status_writer.BYTES_PER_SECOND)
        home, reported = SlowHome(large), Reported("one")
        home.gate.set()
        recorder = await begin(home, reported)
        for _ in range(70):
            # Never at the very moment of a look.
            await asyncio.sleep(0.13)
            recorder.request("u")
        assert home.written == ["one"]
        assert reported.looks <= 11
        await asyncio.sleep(2)
        assert home.written == ["one", "two"]

        reported.message, reported.reason = "three", "SourceNotFound"
        recorder.request("u")
        await asyncio.sleep(1.5)
        assert home.written == ["one", "two", "three"]
        await recorder.stop()

    virtual_time.run(story)


class Crowd:
    """A home of many Stacks, which takes every status at once."""

    def __init__(self, count: int) -> None:
        self.stacks = {str(number): dataclasses.replace(STACK, uid=str(number)) for number in range(count)}
        self.writes = 0

    def find_stack(self, uid: str) -> StackObject:
        """As the port says."""
        return self.stacks[uid]

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        self.writes += 1
        self.stacks[stack.uid] = dataclasses.replace(stack, packed_status=orjson.dumps(stack.status | status))

    async def emit_event(self, stack: StackObject, **_: Any) -> None:
        """As the port says."""


def test_among_many_progress_is_reported_less_often_and_in_the_end_all_of_it() -> None:
    """The server has better to do than to keep thousands of counts fresh."""

    async def story(count: int, seconds: int, share: Share = WHOLE) -> Crowd:
        home, reported = Crowd(count), Reported("0")
        services: Any = SimpleNamespace(
            management_cluster=home,
            hashes=HASHES,
            clock=VirtualClock(),
            share=share,
            evaluations=Unassisted(),
            find_namespace=lambda _uid: "shop",
        )
        recorder = StatusWriter(services, find_reconciler=lambda _uid: reported, interval=1.0)
        recorder.start()
        for second in range(seconds):
            reported.message = str(second)
            for uid in home.stacks:
                recorder.request(uid)
            await asyncio.sleep(1.01)
        await asyncio.sleep(count * share.count / status_writer.PROGRESS_WRITES_PER_SECOND + 1)
        assert {stack.status["conditions"][0]["message"] for stack in home.stacks.values()} == {reported.message}
        await recorder.stop()
        return home

    assert virtual_time.run(lambda: story(2, 30)).writes == 2 * 30
    assert (
        virtual_time.run(lambda: story(300, 30)).writes <= 300 * (1 + 1) + 30 * status_writer.PROGRESS_WRITES_PER_SECOND
    )
    third = Share(index=0, count=3)
    assert (
        virtual_time.run(lambda: story(300, 30, third)).writes
        <= 300 * (1 + 1) + 30 * status_writer.PROGRESS_WRITES_PER_SECOND / 3
    )


def test_an_outcome_waits_for_the_last_write_and_not_for_the_last_look() -> None:
    """Progress of a large Stack is looked at each second, and written rarely. The user waits for the end no longer."""

    async def story() -> None:
        large = dataclasses.replace(STACK, packed_spec=b" " * 10 * status_writer.BYTES_PER_SECOND)
        home, reported = SlowHome(large), Reported("one")
        home.gate.set()
        recorder = await begin(home, reported)
        await asyncio.sleep(3)
        # Looked at a moment ago, and put off.
        recorder.request("u")
        await asyncio.sleep(0.01)
        looks = reported.looks
        reported.has_outcome, reported.message, reported.reason = True, "end", "SourceNotFound"
        for _ in range(20):
            recorder.request("u")
            await asyncio.sleep(0.01)
        assert home.written == ["one", "end"]
        assert reported.looks == looks + 1

        # Another one waits its second: at most one status is written in each.
        reported.has_outcome, reported.message = False, "again"
        recorder.request("u")
        await asyncio.sleep(0.3)
        reported.has_outcome, reported.message, reported.reason = True, "once more", "InvalidTemplate"
        recorder.request("u")
        await asyncio.sleep(0.4)
        assert home.written == ["one", "end"]
        await asyncio.sleep(0.2)
        assert home.written == ["one", "end", "once more"]
        await recorder.stop()

    virtual_time.run(story)
