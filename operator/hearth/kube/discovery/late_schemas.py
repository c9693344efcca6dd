"""Search for schemas that are published a moment after their kinds are served. Must not know how a schema is used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from hearth import supervision
from hearth.model import errors
from hearth.model.kinds import Kind

DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each search. A new kind is served at once, and described after about a second, on a busy server later.
Some kinds are never described, so the search ends.
"""


class LateSchemas:
    """The kinds without a schema. Each is searched for once, until a schema is found."""

    def __init__(self, *, has_schema: Callable[[Kind], bool], refresh: Callable[[], Awaitable[None]]) -> None:
        """refresh: loads the schemas that are published now, and notifies those who use them."""
        self._has_schema = has_schema
        self._refresh = refresh
        self._undescribed: set[Kind] = set()
        self._searches: set[asyncio.Task[Any]] = set()

    def search(self, kinds: Collection[Kind]) -> None:
        """Search for the schemas that these kinds lack."""
        self._undescribed = {kind for kind in self._undescribed if not self._has_schema(kind)}
        new = {kind for kind in kinds if not self._has_schema(kind)} - self._undescribed
        if not new:
            return
        self._undescribed |= new
        task = supervision.spawn("discovery", lambda: self._search(new), name="search for schemas")
        self._searches.add(task)
        task.add_done_callback(self._searches.discard)

    async def close(self) -> None:
        """Stop to search."""
        for task in list(self._searches):
            task.cancel()
        await asyncio.gather(*self._searches, return_exceptions=True)

    async def _search(self, kinds: Collection[Kind]) -> None:
        for delay in DELAYS:
            await asyncio.sleep(delay)
            # If the server does not answer, the next search asks again.
            with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
                await self._refresh()
            if all(map(self._has_schema, kinds)):
                return
