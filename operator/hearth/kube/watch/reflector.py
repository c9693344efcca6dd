"""One list-and-watch that never gives up: whatever the server does, its handler ends up knowing what the server knows.

Knows versions, bookmarks, pages and faults; must not know what the objects mean or who keeps them. Time is that of the
event loop that it runs in.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from hearth import supervision
from hearth.kube.client import api_requests, salvage, skips
from hearth.kube.watch import watch_errors, watch_events
from hearth.kube.watch.watch_errors import WatchEndReason, WatchFailure
from hearth.model import errors, limits
from hearth.model.child import Object

log = structlog.get_logger(__name__)

JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
SETTLED_AFTER = 10.0
"""Seconds that a stream must have lasted for its end to count as the first failure again."""
NOT_FOUND = 404
UNKNOWN_PARAMETERS = frozenset({400, 422})
"""How a server answers that cannot send the initial set as events."""
ABSENCES_TO_BELIEVE = 2
"""A kind that was just made answers 404 for some 30 ms; twice in a row means that it is not there."""


class WatchConnection(Protocol):
    """What a watch needs of a connection; it raises `Refused` and `Unreachable`."""

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, accept: str = JSON
    ) -> Object:
        """The parsed answer."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body of a GET in pieces of any size, as they come."""


class WatchHandler(Protocol):
    """Whom a watch tells what it sees."""

    def on_list_started(self) -> None:
        """A fresh full set begins; what was begun before and not completed is void."""

    def on_object(self, raw: Object) -> None:
        """An object that is there, in this state."""

    def on_deleted(self, raw: Object) -> None:
        """An object that is gone, or no longer selected; its state may be an old one."""

    def on_synced(self, version: int | None) -> None:
        """The full set is complete as of `version`: what it did not show is gone.

        None: versions known so far mean nothing any more (the server's store was restored, or the kind went).
        """


class WatchObserver(Protocol):
    """Who counts."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """A watch begins anew."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """An object that was sent is not taken in."""

    def on_limit(self, limit: str) -> None:
        """A limit was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How patient watches are, and their source of chance."""

    stall_after: float = 75.0
    """Seconds without a single byte; bookmarks come every 60."""
    stream_seconds: float = 300.0
    """How long a stream is asked to last, about."""
    page_size: int = 500
    widen_after: float = 0.05
    """Seconds in which wishes for more fields are gathered, since each widening is a fresh list."""
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(slots=True, kw_only=True)
class WatchContext:
    """What all watches on one connection share."""

    connection: WatchConnection
    rules: WatchOptions = field(default_factory=WatchOptions)
    has_watch_list: bool = True
    """Whether it can send the initial set as events; learnt from its first refusal."""
    observer: WatchObserver | None = None
    on_return: Callable[[], None] = lambda: None
    """Called when a watch that had failed is heard again."""


class Reflector:
    """A list and watch of one collection, running from `start` to `close`."""

    denial = ""
    """In the server's words why it may not be watched; "" where it may, as far as is known."""
    is_answered = False
    """Whether the server has said anything to an attempt, if only that it refuses."""
    on_denied: Callable[[], None] | None = None
    """Called when the server begins to deny it."""

    def __init__(
        self,
        server: WatchContext,
        path: str,
        handler: WatchHandler,
        *,
        name: str,
        selector: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> None:
        """Prepare; nothing is asked before `start`.

        path: of the collection; name: of the kind, for logs and metrics; selector: `labelSelector` or `fieldSelector`
        as query parameters.
        """
        self.path = path
        self.name = name
        self.metadata_only = metadata_only
        self.restarts: Counter[str] = Counter()
        """How often it had to begin again, by reason."""
        self.line_bytes = 0
        """Of the event that is being delivered, which is more than any record of it takes; 0 where that is not known."""
        self.last_activity: float | None = None
        """The loop's time when anything last came from the server, or an attempt to reach it ended."""
        self._server = server
        self._handler = handler
        self._skips = skips.Skips(name, server.observer)
        self._selector = dict(selector or {})
        self._version: int | None = None
        self._highest: int | None = None
        self._opened: float | None = None
        self._failures = 0
        self._stalls = 0
        """Streams in a row that nothing came from until they were given up."""
        self._absences = 0
        self._lists_in_pages = False
        self._page_size = server.rules.page_size
        """Objects that are asked for at once."""
        self._synced = asyncio.Event()
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
        return self._task is not None

    @property
    def is_synced(self) -> bool:
        """Whether a full set was delivered since the start."""
        return self._synced.is_set()

    @property
    def version(self) -> int:
        """Everything up to this resourceVersion was delivered; 0 while that cannot be said."""
        return self._version or 0

    async def wait_synced(self) -> None:
        """Until a full set was delivered."""
        await self._synced.wait()

    def start(self) -> None:
        """Begin, or begin anew with a fresh list."""
        self._forget_version()
        self._failures = 0
        if self._task is not None:
            self._task.cancel()
        self._task = supervision.spawn_forever("watch", self._run, name=f"watch {self.path}")

    def restart(self, *, path: str, metadata_only: bool) -> None:
        """Begin anew elsewhere or with other contents; the handler keeps what it has until the fresh list is there."""
        self.path = path
        self.metadata_only = metadata_only
        self._lists_in_pages = False
        self.start()

    async def close(self) -> None:
        """End; the handler hears nothing more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def retry_now(self) -> None:
        """Try at once if it is pausing after a failure."""
        if self._failures:
            self._failures = 0
            self._nudged.set()

    async def _run(self) -> None:
        # Never two at once, even if somebody below swallowed a cancellation: the handler would see two orders of events.
        while self._task is asyncio.current_task():
            self._opened = None
            try:
                await self._attempt()
            # Whatever goes wrong, the one thing that must not happen is a cache that hears nothing more.
            except Exception as error:  # noqa: BLE001 -- see above; it is judged, counted and logged
                await self._recover(watch_errors.classify(error), error)
            else:
                await self._recover(WatchFailure(reason=WatchEndReason.ENDED), None)

    async def _attempt(self) -> None:
        """List where nothing is known, then follow the stream to its end."""
        streams_list = self._server.has_watch_list and not self._lists_in_pages
        try:
            if self._version is None and not streams_list:
                await self._list()
            await self._stream()
        except errors.ApiStatusError as refused:
            if refused.code == NOT_FOUND:
                self._note_absence()
            if refused.code in UNKNOWN_PARAMETERS and self._version is None and streams_list:
                raise watch_errors.interrupt(WatchEndReason.NO_WATCH_LIST, str(refused)) from refused
            raise

    def _note_absence(self) -> None:
        """The kind is not served: believe it at the second answer in a row, and then there are no objects of it."""
        self._absences += 1
        if self._absences >= ABSENCES_TO_BELIEVE:
            self._handler.on_list_started()
            self._handler.on_synced(None)
            self._synced.set()

    async def _list(self) -> None:
        """Deliver the full set page by page."""
        self._handler.on_list_started()
        self._page_size = self._server.rules.page_size
        page = await self._get_page("")
        version = int(page["metadata"]["resourceVersion"])
        while True:
            for raw in page["items"] or ():
                self._deliver(self._handler.on_object, raw)
            token = page["metadata"].get("continue")
            if not token:
                break
            page = await self._get_page(token)
        self._complete(version)

    async def _get_page(self, token: str) -> Object:
        """A page of the list; a smaller one where it would be too large to be read."""
        while True:
            try:
                return await self._ask_for_page(token)
            except errors.AnswerTooLarge:
                if self._page_size == 1:
                    raise
                self._page_size = max(1, self._page_size // api_requests.SMALLER)

    async def _ask_for_page(self, token: str) -> Object:
        rules = self._server.rules
        query = {**self._selector, "limit": str(self._page_size)}
        if token:
            query["continue"] = token
        accept = METADATA_LIST if self.metadata_only else JSON
        async with asyncio.timeout(rules.stall_after):
            page = await self._server.connection.request("GET", self.path, query=query, accept=accept)
        self.last_activity = asyncio.get_running_loop().time()
        return page

    async def _stream(self) -> None:
        """Deliver events until the stream ends; the full set first where nothing is known."""
        if self._version is None:
            self._handler.on_list_started()
        loop = asyncio.get_running_loop()
        patience = self._server.rules.stall_after
        accept = METADATA if self.metadata_only else JSON
        lines = watch_events.LineSplitter()
        extend_at = 0.0
        async with (
            asyncio.timeout(patience) as limit,
            self._server.connection.stream(self.path, query=self._stream_query(), accept=accept) as chunks,
        ):
            self._opened = loop.time()
            if self._failures:
                self._server.on_return()
            async for chunk in chunks:
                now = self.last_activity = loop.time()
                if now >= extend_at:
                    # Moving the limit costs as much as an event; a thirtieth of it is exact enough.
                    extend_at = now + patience / 30
                    self._stalls = 0
                    limit.reschedule(now + patience)
                await self._take_lines(lines.feed(chunk))
        lines.finish()
        if self._version is None:
            raise watch_errors.interrupt(WatchEndReason.UNENDED_LIST)

    def _stream_query(self) -> dict[str, str]:
        rules = self._server.rules
        seconds = rules.uniform(0.9 * rules.stream_seconds, 1.1 * rules.stream_seconds)
        query = {**self._selector, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(round(seconds))}
        if self._version is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = str(self._version)
        return query

    async def _take_lines(self, lines: Sequence[bytes]) -> None:
        """Deliver the events in `lines`; one that cannot be read keeps none of the others from being heard."""
        for line in lines:
            if not line:
                continue
            try:
                frame = watch_events.parse(line) or await _salvage(line)
            except watch_events.Nameless:
                self._skips.note({}, reason="nameless", detail=f"an event of {len(line)} bytes")
            else:
                self.line_bytes = len(line)
                self._take(frame)
                self.line_bytes = 0

    def _take(self, frame: watch_events.WatchEvent) -> None:
        """Deliver one event. The hot path: a few microseconds besides parsing."""
        event_type, raw, version = frame
        if event_type == "ERROR":
            interruption = watch_errors.judge_status(raw, code=raw.get("code", 0), default=WatchEndReason.ERROR)
            raise watch_errors.WatchInterrupted(interruption)
        known = self._version
        if known is not None:
            if version < known:
                raise watch_errors.interrupt(WatchEndReason.BACKWARDS, f"version {version} came after {known}")
            self._version = version
        if event_type == "BOOKMARK":
            if known is None and watch_events.is_list_end(raw):
                self._complete(version)
        elif event_type == "DELETED":
            self._deliver(self._handler.on_deleted, raw)
        else:
            self._deliver(self._handler.on_object, raw)

    def _deliver(self, deliver: Callable[[Object], None], raw: Object) -> None:
        """Hand `raw` over; an object that the handler cannot take must not keep the others from it."""
        if not salvage.has_identity(raw):
            self._skips.note({}, reason="nameless")
            return
        try:
            deliver(raw)
            if salvage.OMITTED in raw:
                self.note_omission(raw)
        except Exception as error:  # noqa: BLE001 -- as above; it is reported
            self._deliver_stripped(deliver, raw, error)

    def _deliver_stripped(self, deliver: Callable[[Object], None], raw: Any, error: Exception) -> None:
        """Let the handler know at least which object it is that it cannot take."""
        stripped = salvage.strip(raw)
        metadata = stripped["metadata"] if stripped is not None else {}
        name, namespace = metadata.get("name"), metadata.get("namespace")
        supervision.report("watch", error, kind=self.name, name=name, namespace=namespace)
        self._skips.note(metadata, reason="internal_error")
        if stripped is not None:
            # The same mistake once more is no news.
            with contextlib.suppress(Exception):
                deliver(stripped)

    def note_omission(self, raw: Object) -> None:
        """Say that parts of an object could not be read, if there are such."""
        omission = salvage.find_omission(raw)
        if omission is not None:
            self._skips.note(raw.get("metadata") or {}, reason=omission.reason, detail=str(omission))

    def _complete(self, version: int) -> None:
        """The full set was delivered, as of `version`."""
        is_restored = self._highest is not None and version < self._highest
        self._handler.on_synced(None if is_restored else version)
        self._version = self._highest = version
        self.denial, self.is_answered = "", True
        self._synced.set()

    def _forget_version(self) -> None:
        """Let the next attempt begin with a full set."""
        if self._version is not None:
            self._highest = self._version
            self._version = None

    async def _recover(self, interruption: WatchFailure, error: Exception | None) -> None:
        """Draw the consequences of the end of an attempt, and pause as long as is decent."""
        reason = interruption.reason
        self.last_activity = asyncio.get_running_loop().time()
        self.restarts[reason.value] += 1
        if self._server.observer is not None:
            self._server.observer.on_watch_restart(kind=self.name, reason=reason.value)
        if self._opened is not None and asyncio.get_running_loop().time() - self._opened >= SETTLED_AFTER:
            self._failures = 0
        self._failures += 1
        self._stalls += reason is WatchEndReason.STALLED
        self._learn(reason)
        self._note_denial(interruption)
        if watch_errors.needs_list(reason, failures=self._failures, stalls=self._stalls):
            self._forget_version()
        seconds = watch_errors.find_delay(interruption, failures=self._failures, uniform=self._server.rules.uniform)
        self._say(interruption, error, seconds)
        await self._pause(seconds)

    def _note_denial(self, interruption: WatchFailure) -> None:
        """Remember whether the server lets us look at all."""
        if interruption.reason not in watch_errors.UNANSWERED:
            self.is_answered = True
        if interruption.reason is WatchEndReason.FORBIDDEN:
            was_denied, self.denial = bool(self.denial), interruption.detail or "forbidden"
            if not was_denied and self.on_denied is not None:
                supervision.guard("watch", self.on_denied)()

    def _learn(self, reason: WatchEndReason) -> None:
        """Remember what the end of an attempt says about the server."""
        if reason is WatchEndReason.NO_WATCH_LIST:
            self._server.has_watch_list = False
        elif reason in (WatchEndReason.UNENDED_LIST, WatchEndReason.STALLED) and self._version is None:
            # Some extension servers take the parameters and ignore them.
            self._lists_in_pages = True
        if reason is not WatchEndReason.NOT_SERVED:
            self._absences = 0

    def _say(self, interruption: WatchFailure, error: Exception | None, seconds: float) -> None:
        """Log the end of an attempt."""
        reason = interruption.reason
        if reason is WatchEndReason.UNEXPECTED and error is not None:
            supervision.report("watch", error, kind=self.name)
        # Where it goes on after a silence, most likely a bookmark was left out, and nothing is lost.
        is_ordinary = reason in watch_errors.ORDINARY or (
            reason is WatchEndReason.STALLED and self._version is not None
        )
        write = log.debug if is_ordinary else log.warning
        write(
            "watch begins again",
            kind=self.name,
            reason=reason.value,
            detail=interruption.detail,
            failures=self._failures,
            pause_seconds=round(seconds, 3),
            lists_anew=self._version is None,
        )

    async def _pause(self, seconds: float) -> None:
        """Wait, unless somebody nudges."""
        try:
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()


async def _salvage(line: bytes) -> watch_events.WatchEvent:
    """The event in a line that cannot be read as a whole, read apart where that takes time."""
    if len(line) <= limits.INLINE_BYTES:
        return watch_events.salvage_event(line)
    return await asyncio.to_thread(watch_events.salvage_event, line)
