"""A limited number of places for coroutines, in which namespaces take turns: see `FairTurns`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from hearth.model.turns import FairTurns


class FairSlots:
    """Like a semaphore; those of one namespace never have all places."""

    def __init__(self, places: int) -> None:
        """Create it with all places free."""
        self._places = places
        self._turns = FairTurns()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """By number: those that wait."""
        self._numbers = itertools.count()

    def locked(self) -> bool:
        """Return whether a coroutine waits, or the next one would."""
        return bool(self._turns) or self._turns.in_flight >= self._places

    @contextlib.asynccontextmanager
    async def take(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a place, and have it until the end of the block."""
        number = str(next(self._numbers))
        granted = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._turns.add(namespace, number)
        self._admit()
        try:
            await granted
            yield
        finally:
            if self._waiting.pop(number, None) is not None:
                self._turns.discard(number)
            else:
                self._turns.end(number)
            self._admit()

    def _admit(self) -> None:
        while (number := self._turns.take(self._places)) is not None:
            granted = self._waiting.pop(number)
            # One that was cancelled gives its place back as soon as it runs.
            if not granted.done():
                granted.set_result(None)
