"""What a watch needs: a connection, a handler, an observer, options, and the state that watches share.

Interfaces and values only; must not know how a watch proceeds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from hearth.model import limits, value_class
from hearth.model.child import Object

JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


class WatchConnection(Protocol):
    """The methods of a connection that a watch needs; they raise `ApiStatusError` and `Unreachable`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        impersonate: str | None = None,
    ) -> Object:
        """Send a request and return the parsed response. impersonate: a user name."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Stream the body of a GET in chunks of any size."""


class WatchHandler(Protocol):
    """The receiver of what a watch observes."""

    def on_list_started(self) -> None:
        """Start a new full set; discard an earlier set that was not completed."""

    def on_object(self, raw: Object) -> None:
        """Handle an object that exists, in this state."""

    def on_deleted(self, raw: Object) -> None:
        """Handle an object that is deleted or no longer selected; its state may be old."""

    def on_synced(self, version: int | None) -> None:
        """Complete the full set as of `version`: objects not shown are gone.

        None: earlier versions are invalid, because the server's store was restored or the kind was removed.
        """


class WatchObserver(Protocol):
    """The metrics of a watch."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """Count a restart of a watch."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Count an object that was received and not stored."""

    def on_limit(self, limit: str) -> None:
        """Count a reached limit."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Timeouts and page size of watches, and their random source."""

    stall_after: float = 75.0
    """Seconds without a single byte; bookmarks arrive every 60."""
    stream_seconds: float = 300.0
    """Approximate stream duration that a watch requests, in seconds."""
    line_bytes: int = limits.LINE_BYTES
    """Size of an event of which more than the beginning is read."""
    pages: int = sys.maxsize
    """Pages of one list after which the server counts as broken."""
    page_size: int = 500
    widen_after: float = 0.05
    """Seconds in which requests for more fields are collected, because each one requires a new list."""
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(slots=True, kw_only=True)
class WatchContext:
    """State that all watches on one connection share."""

    connection: WatchConnection
    options: WatchOptions = field(default_factory=WatchOptions)
    has_watch_list: bool = True
    """Whether the server can send the initial set as events; False after its first rejection."""
    observer: WatchObserver | None = None
    on_return: Callable[[], None] = lambda: None
    """Called when a watch that had failed receives data again."""
