"""Statuses are written one after the other, so that the last word about a Stack is the newest."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hearth.engine.ports import StackObject
from hearth.engine.recorder import Recorder
from hearth.model.child import Object
from hearth.plan.headline import Refusal, Subject
from hearth.plan.world import Memory
from support import virtual_time
from support.virtual_time import VirtualClock

STACK = StackObject(
    name="shop",
    namespace="default",
    uid="u",
    generation=1,
    resource_version=1,
    deleting=False,
    finalizers=(),
    annotations={},
    packed_spec=b"{}",
    packed_status=b"{}",
)


class SlowHome:
    """Takes its time over each status."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.written: list[str] = []
        self.gate = asyncio.Event()

    def find_stack(self, uid: str) -> StackObject:
        """As the port says."""
        return STACK

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        message = status["conditions"][0]["message"]
        self.begun.append(message)
        await self.gate.wait()
        self.written.append(message)

    async def emit_event(self, stack: StackObject, **_: Any) -> None:
        """As the port says."""


class Told:
    """What a runner says of its Stack: whatever the test wants."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.intake = SimpleNamespace(generation=1, hidden_texts=frozenset())
        self.board = None
        self.memory = Memory()

    def blind_for(self) -> float:
        """It sees everything."""
        return 0.0

    def note_written(self, _status: Object) -> None:
        """Nothing waits for it."""

    def describe(self) -> Subject:
        """With the message that is to be seen."""
        refusal = Refusal(reason="InvalidTemplate", message=self.message)
        return Subject(generation=1, refusal=refusal)


def test_a_slow_write_is_never_overtaken() -> None:
    """It might come last, and then the status would tell for ever what no longer is so."""

    async def story() -> None:
        home, told = SlowHome(), Told("one")
        services: Any = SimpleNamespace(home=home, clock=VirtualClock())
        recorder = Recorder(services, find_runner=lambda _uid: told, interval=1.0)
        recorder.start()
        recorder.touch("u")
        await asyncio.sleep(0.1)
        told.message = "two"
        recorder.touch("u")
        await asyncio.sleep(10)
        assert home.begun == ["one"]

        home.gate.set()
        await asyncio.sleep(2)
        assert home.written[:2] == ["one", "two"]
        await recorder.stop()

    virtual_time.run(story)
