"""The evaluator of commands without an operator: one process with the operator's limits, and a limit for all expressions.

Blocks its caller. Must not know files or Stacks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from hearth.model import limits
from hearth.sandbox import process
from hearth.sandbox.pool import Start
from hearth.sandbox.process import Lost, Process
from hearth.template.cel import evaluation
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Answer, Excess, Unwritable

ALL_SECONDS = 15.0
"""Time of all expressions of one command that the operator would send to an evaluator process."""
TOO_LONG = Excess(f"is not evaluated here, because those before it took {ALL_SECONDS:g} s in all")


class OfflineEvaluator:
    """Evaluates the expressions of one command, one after the other."""

    def __init__(self, *, start: Start = process.start, now: Callable[[], float] = time.monotonic) -> None:
        """Start no process before it is needed. now: monotonic seconds."""
        self._start = start
        self._now = now
        self._left = ALL_SECONDS
        self._process: Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def admits(self, cost: Cost) -> bool:
        """Return whether an expression of that cost needs no process, as in the operator."""
        return evaluation.is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any]) -> Answer:
        """Return the answer of the process."""
        if self._left <= 0:
            return TOO_LONG
        try:
            packed = orjson.dumps(data)
        except TypeError:
            return Unwritable("reads a value that JSON cannot represent")
        if len(packed) > limits.EVALUATOR_INPUT_BYTES:
            return Excess(f"reads more than {limits.EVALUATOR_INPUT_BYTES // 2**20} MiB")
        began = self._now()
        try:
            return asyncio.run_coroutine_threadsafe(self._evaluate(text, packed), self._find_loop()).result()
        finally:
            self._left -= self._now() - began

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop in a thread of its own: the caller may be within one, and must not return to it meanwhile."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="evaluations", daemon=True).start()
        return self._loop

    async def _evaluate(self, text: str, packed: bytes) -> Answer:
        try:
            if self._process is None or not self._process.is_usable:
                await self._end()
                self._process = await self._start()
            return await self._process.ask(text, packed)
        except Lost as lost:
            return Excess(str(lost))

    async def _end(self) -> None:
        worker, self._process = self._process, None
        if worker is not None:
            await worker.end()

    def close(self) -> None:
        """End the process."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
