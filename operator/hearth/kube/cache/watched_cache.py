"""Base of the caches that one watch feeds: start, end and state of that watch.

Must not know the kind, nor what its objects mean.
"""

from __future__ import annotations

from typing import Generic

from hearth.kube.cache import child_cache
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.cache.object_store import ObjectStore, Record
from hearth.kube.watch.reflector import Reflector


class WatchedCache(Generic[Record]):
    """A store with one watch, which runs from `start` to `close`. A subclass creates both."""

    _store: ObjectStore[Record]
    _reflector: Reflector

    def start(self) -> None:
        """Start the watch."""
        self._reflector.start()

    async def close(self) -> None:
        """Stop the watch; the listener receives no more calls."""
        await self._reflector.close()

    async def wait_synced(self) -> None:
        """Wait until all objects were listed once."""
        await self._reflector.wait_synced()

    def health(self) -> list[WatchStatus]:
        """Return the state of the watch."""
        return [child_cache.measure(self._reflector.name, self._reflector, objects=len(self._store.records))]

    def complete(self) -> None:
        """Complete a new list; `wait_synced` handles the notification."""
