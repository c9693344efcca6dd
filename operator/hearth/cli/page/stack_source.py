"""Reads Stacks for all requests of the page, one read at a time per Stack, and reuses the result for a moment."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from hearth.cli.page import shown_stack
from hearth.cli.stack_access import stack_locations
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
    """Snapshots of Stacks, and the list of all Stacks of a namespace."""

    def __init__(
        self, session: Session, *, namespace: str, kept: int = KEPT, list_turns: asyncio.Semaphore | None = None
    ) -> None:
        """namespace: "" for all; kept: number of snapshots that are reused; list_turns: of all users of a server."""
        self._kept = kept
        self.list_turns = list_turns or asyncio.Semaphore(limits.PAGE_LISTS)
        """Users who open their lists at the same time must not fill the memory."""
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
        """Close the sessions with other clusters."""
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

    async def list(self, namespace: str) -> list[StackState]:
        """Return all Stacks, ResourceGroups and instances of a namespace, "" for all. Raises ApiStatusError and Unreachable."""
        async with self.list_turns:
            kinds = await stack_locations.list_kinds(self.session)
            return await stack_locations.list_all(self.session, namespace, kinds)
