"""Reads Stacks for all requests of the page, one read at a time per Stack, and reuses the result for a moment."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from hearth.cli.page import shown_stack
from hearth.cli.page.stack_feed import DrawRow, StackFeed
from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.read_budgets import MemoryInUse, PageMemory, ReadMemory
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK, STACK_SNAPSHOT

FRESH_SECONDS: Final = 0.4
"""Maximum age of a snapshot that is reused, e.g. by two tabs."""
SNAPSHOTS_SECONDS: Final = 10.0
"""Maximum age of a list of StackSnapshots that is reused: only the Restore button depends on it."""
KEPT: Final = 4
"""Snapshots of this many Stacks are kept: each holds all objects of its Stack."""


class StackSource:
    """Snapshots of Stacks, and lists of all Stacks of a namespace."""

    def __init__(self, session: Session, *, namespace: str, kept: int = KEPT, memory: PageMemory | None = None) -> None:
        """namespace: "" for all; kept: number of snapshots that are reused; memory: of the user of a server."""
        self._kept = kept
        self.memory = memory or make_own_memory()
        self.list_turns = self.memory.list_turns
        """Users who open their lists at the same time must not fill the memory."""
        self._feeds: OrderedDict[str, StackFeed] = OrderedDict()
        """By namespace, the lists that are kept up to date, the longest unused first."""
        self.session = session
        self.namespace = namespace
        self._reader = StackReader(session, with_groups=True)
        self._locks: weakref.WeakValueDictionary[StackLocation, asyncio.Lock] = weakref.WeakValueDictionary()
        """One lock per Stack: a slow cluster delays only the Stacks in it."""
        self._taken: OrderedDict[StackLocation, tuple[StackObjects | None, float]] = OrderedDict()
        """Snapshots, and when each was taken in seconds of the event loop."""
        self._snapshots: dict[str, tuple[Sequence[Object], float]] = {}
        """By namespace, its StackSnapshots, and when they were listed."""
        self._kinds = {shown_stack.make_word(kind): kind for kind in (STACK, RESOURCE_GROUP)}

    async def find_kind(self, word: str) -> Kind | None:
        """Return the kind of an address: `stacks`, `webapps.platform.example`, or None if the server has none with that name."""
        # Only kinds of StackDefinitions include their group.
        if word not in self._kinds and "." in word:
            self._kinds = {shown_stack.make_word(kind): kind for kind in await stack_locations.list_kinds(self.session)}
        return self._kinds.get(word)

    async def read(self, location: StackLocation, *, is_new: bool = False) -> StackObjects | None:
        """Return a snapshot, or None if the object does not exist. is_new: do not reuse an earlier snapshot.

        Raises ApiStatusError and Unreachable.
        """
        loop = asyncio.get_running_loop()
        lock = self._locks.setdefault(location, asyncio.Lock())
        async with lock:
            known = self._taken.pop(location, None)
            if known is None or is_new or loop.time() - known[1] > FRESH_SECONDS:
                known = await self._reader.read(location), loop.time()
            self._taken[location] = known
            if len(self._taken) > self._kept:
                self._taken.popitem(last=False)
            return known[0]

    async def has_snapshot(self, stack: StackState) -> bool:
        """Return whether the user can see a StackSnapshot of this Stack. Groups have none."""
        if stack.is_group:
            return False
        now = asyncio.get_running_loop().time()
        listed, listed_at = self._snapshots.get(stack.namespace, ((), -SNAPSHOTS_SECONDS))
        if now - listed_at >= SNAPSHOTS_SECONDS:
            listed = await self.session.list_allowed(STACK_SNAPSHOT, stack.namespace)
            self._snapshots[stack.namespace] = listed, now
        return any(stack.is_named_by(each) for each in listed)

    async def find_session(self, objects: StackObjects) -> Session:
        """Return the session with the cluster of a Stack's objects, if it can be read."""
        return await self._reader.find_session(objects)

    async def close(self) -> None:
        """End all watches, and close the sessions with other clusters."""
        for feed in self._feeds.values():
            await feed.close()
        await self._reader.others.close()

    def drop_old(self) -> None:
        """Drop everything that is too old to be used again, so that a tab that was closed costs no memory."""
        now = asyncio.get_running_loop().time()
        for location, (_, taken_at) in list(self._taken.items()):
            if now - taken_at > FRESH_SECONDS:
                del self._taken[location]
        for namespace, (_, listed_at) in list(self._snapshots.items()):
            if now - listed_at > SNAPSHOTS_SECONDS:
                del self._snapshots[namespace]

    async def find_feed(self, namespace: str, draw: DrawRow) -> StackFeed:
        """Return the list of all Stacks, ResourceGroups and instances of a namespace, "" for all.

        draw: returns a row. Raises MemoryInUse.
        """
        for known, feed in list(self._feeds.items()):
            if not feed.is_running and not feed.is_in_use:
                del self._feeds[known]
        if namespace not in self._feeds and len(self._feeds) >= limits.PAGE_FEEDS:
            unused = next((known for known, feed in self._feeds.items() if not feed.is_in_use), None)
            if unused is None:
                raise MemoryInUse(f"this page keeps {len(self._feeds)} lists up to date for you; close some tabs")
            await self._feeds.pop(unused).close()
        if namespace not in self._feeds:
            self._feeds[namespace] = StackFeed(self.session, namespace, draw=draw, memory=self.memory)
        self._feeds.move_to_end(namespace)
        return self._feeds[namespace]


def make_own_memory() -> PageMemory:
    """Return the memory of a page with one user, on their own machine."""
    turns = asyncio.Semaphore(limits.PAGE_LISTS)
    return PageMemory(row_memory=ReadMemory(limits.PAGE_USER_ROW_BYTES), read_memory=None, list_turns=turns)
