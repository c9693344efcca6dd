"""Reflector: one list and watch that retries forever and keeps its handler consistent with the API server.

Handles versions, bookmarks, pages and errors. Uses the clock of the running event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from hearth import supervision
from hearth.kube.client import JSON, api_requests, salvage
from hearth.kube.client.api_requests import RequestObserver
from hearth.kube.watch import watch_errors, watch_events
from hearth.kube.watch.watch_errors import WatchEndReason, WatchFailure
from hearth.model import errors, limits, value_class
from hearth.model.child import Object

log = structlog.get_logger(__name__)

ABSENCES_TO_BELIEVE = 2
"""404 responses in a row before a kind counts as absent. A new kind returns 404 for some 30 ms."""
THROTTLED = 429
UNAVAILABLE = 500
"""Codes from here on do not describe the collection."""
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
    """The receiver of a watch's observations."""

    def on_list_started(self) -> None:
        """Start a new full set; discard an earlier set that was not completed."""

    def on_object(self, raw: Object) -> None:
        """Handle an object that exists, in this state."""

    def on_deleted(self, raw: Object) -> None:
        """Handle an object that is deleted or no longer selected; its state may be old."""

    def on_synced(self, version: int | None) -> None:
        """Complete the full set as of `version`: objects not shown were deleted.

        None: earlier versions are invalid, because the server's store was restored or the kind was removed.
        """


class WatchObserver(salvage.SkipObserver, Protocol):
    """The metrics of a watch."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """Count a restart of a watch."""

    def on_limit(self, limit: str) -> None:
        """Count a reached limit."""


class ClusterObserver(WatchObserver, RequestObserver, Protocol):
    """The metrics of the watches and requests of one cluster."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Timeouts and page size of watches, and their random source."""

    stall_after: float = 75.0
    """Maximum seconds without a single byte. Bookmarks arrive every 60."""
    stream_seconds: float = 300.0
    """Approximate stream duration that a watch requests, in seconds."""
    line_bytes: int = limits.LINE_BYTES
    """Size above which only the beginning of an event is read."""
    pages: int = sys.maxsize
    """Maximum pages of one list. A server that sends more counts as broken."""
    page_size: int = 500
    widen_after: float = 0.05
    """Seconds that requests for more fields are collected, because each one requires a new list."""
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


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """The state of one watch."""

    kind: str
    """`Kind.group`."""
    objects: int
    is_synced: bool
    is_answered: bool
    """Whether the server has answered an attempt, including with a rejection."""
    restarts: Mapping[str, int]
    """Number of restarts by reason."""
    silence: float | None
    """Seconds since the last data from the server or the end of the last attempt to reach it; None before the first."""


class Reflector:
    """A list and watch of one collection, active from `start` to `close`."""

    denial = ""
    """The API server's message if it denies the watch, or "" if no denial is known."""
    is_answered = False
    """Whether the server has answered an attempt, including with a rejection."""
    is_failing = False
    """Whether the last attempt failed before the full set arrived. A request of the server to wait is not a failure."""
    is_absent = False
    """Whether the server does not serve the kind, so that an empty set does not describe its objects."""
    on_denied: Callable[[], None] | None = None
    """Called when the server starts to deny the watch."""
    on_end: Callable[[WatchEndReason], None] | None = None
    """Returns whether the handler already has that state, so that the event need not be parsed."""
    is_known: Callable[[watch_events.Echo], bool] | None = None
    """Returns whether the handler already has that state, so that the event is not even parsed."""

    def __init__(
        self,
        context: WatchContext,
        path: str,
        handler: WatchHandler,
        *,
        name: str,
        selector: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> None:
        """Prepare; send nothing before `start`.

        path: of the collection; name: of the kind, for logs and metrics; selector: `labelSelector` or `fieldSelector`
        as query parameters.
        """
        self.path = path
        self.name = name
        self.metadata_only = metadata_only
        self.restarts: Counter[str] = Counter()
        """Number of restarts by reason."""
        self.last_activity: float | None = None
        """The loop's time of the last data from the server, or of the end of the last attempt to reach it."""
        self._server = context
        self._handler = handler
        self._skips = salvage.Skips(name, context.observer)
        self._selector = dict(selector or {})
        self._version: int | None = None
        self._highest: int | None = None
        self._opened: float | None = None
        self._failures = 0
        self._stalls = 0
        """Consecutive streams that timed out without a single byte."""
        self._absences = 0
        self._was_away = False
        """Whether the server did not answer after the last event, so that its store may have been replaced."""
        self._lists_in_pages = False
        self._page_size = context.options.page_size
        """Number of objects requested per page."""
        self._synced = asyncio.Event()
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Return whether the watch was started and not closed."""
        return self._task is not None

    @property
    def is_synced(self) -> bool:
        """Return whether a full set was delivered since the start."""
        return self._synced.is_set()

    def measure(self, *, objects: int) -> WatchStatus:
        """Return the state of the watch at the current time of the running loop. objects: how many are stored."""
        now = asyncio.get_running_loop().time()
        return WatchStatus(
            kind=self.name,
            objects=objects,
            is_synced=self.is_synced,
            is_answered=self.is_answered,
            restarts=dict(self.restarts),
            silence=None if self.last_activity is None else now - self.last_activity,
        )

    @property
    def version(self) -> int:
        """Return the resourceVersion up to which everything was delivered, or 0 if unknown."""
        return self._version or 0

    async def wait_synced(self) -> None:
        """Wait until a full set was delivered."""
        await self._synced.wait()

    def start(self) -> None:
        """Start, or start again with a new list."""
        self._forget_version()
        self._failures, self.is_failing = 0, False
        if self._task is not None:
            self._task.cancel()
        self._task = supervision.spawn_forever("watch", self._run, name=f"watch {self.path}")

    def restart(self, *, path: str, metadata_only: bool, selector: Mapping[str, str] | None = None) -> None:
        """Start again with another path or contents; the handler retains its data until the new list is complete.

        selector: another one, None for the current one.
        """
        self.path = path
        if selector is not None:
            self._selector = dict(selector)
        self.metadata_only = metadata_only
        self._lists_in_pages = False
        self.start()

    async def close(self) -> None:
        """Stop; the handler receives no more calls."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def retry_now(self) -> None:
        """Retry immediately if the watch pauses after a failure."""
        if self._failures:
            self._failures = 0
            self._nudged.set()

    async def _run(self) -> None:
        # Never run two loops, even if a lower layer swallowed a cancellation. The handler would receive events in two
        # orders.
        while self._task is asyncio.current_task():
            self._opened = None
            try:
                await self._attempt()
            # No error may stop the loop: its cache would receive no more changes.
            except Exception as error:  # noqa: BLE001 -- see above; it is classified, counted and logged
                await self._recover(watch_errors.classify(error), error)
            else:
                await self._recover(WatchFailure(reason=WatchEndReason.ENDED), None)

    async def _attempt(self) -> None:
        """List if no version is known, then read the stream until it closes."""
        streams_list = self._server.has_watch_list and not self._lists_in_pages
        try:
            if self._was_away and self._version is not None:
                await verify(self._server, self.path, version=self._version, selector=self._selector)
            self._was_away = False
            if self._version is None and not streams_list:
                await self._list()
            await self._stream()
        except errors.ApiStatusError as refused:
            if refused.is_not_found:
                self._note_absence()
            if refused.code in watch_errors.UNKNOWN_PARAMETERS and self._version is None and streams_list:
                raise watch_errors.interrupt(WatchEndReason.NO_WATCH_LIST, str(refused)) from refused
            raise

    def _note_absence(self) -> None:
        """Record that the kind is not served; after two such responses in a row, report that it has no objects."""
        self._absences += 1
        if self._absences >= ABSENCES_TO_BELIEVE:
            self.is_absent = True
            self._handler.on_list_started()
            self._handler.on_synced(None)
            self._synced.set()

    async def _list(self) -> None:
        """Deliver the full set page by page."""
        self._handler.on_list_started()
        self._page_size = self._server.options.page_size
        page = await self._get_page("")
        version = int(page["metadata"]["resourceVersion"])
        for _ in range(self._server.options.pages):
            for raw in page["items"] or ():
                self._deliver(self._handler.on_object, raw)
            token = page["metadata"].get("continue")
            if not token:
                self._complete(version)
                return
            page = await self._get_page(token)
        raise watch_errors.interrupt(
            WatchEndReason.BROKEN, f"the list has more than {self._server.options.pages} pages"
        )

    async def _get_page(self, token: str) -> Object:
        """Return a page of the list; use a smaller page if a larger one exceeds the size limit."""
        while True:
            try:
                return await self._ask_for_page(token)
            except errors.AnswerTooLarge:
                if self._page_size == 1:
                    raise
                self._page_size = max(1, self._page_size // api_requests.SMALLER)

    async def _ask_for_page(self, token: str) -> Object:
        query = {**self._selector, "limit": str(self._page_size)}
        if token:
            query["continue"] = token
        accept = METADATA_LIST if self.metadata_only else JSON
        async with asyncio.timeout(self._server.options.stall_after):
            page = await self._server.connection.request("GET", self.path, query=query, accept=accept)
        self.last_activity = asyncio.get_running_loop().time()
        return page

    async def _stream(self) -> None:
        """Deliver events until the stream ends; deliver the full set first if no version is known."""
        if self._version is None:
            self._handler.on_list_started()
        loop = asyncio.get_running_loop()
        stall_after = self._server.options.stall_after
        accept = METADATA if self.metadata_only else JSON
        lines = watch_events.LineSplitter(self._server.options.line_bytes)
        extend_at = 0.0
        async with (
            asyncio.timeout(stall_after) as limit,
            self._server.connection.stream(self.path, query=self._stream_query(), accept=accept) as chunks,
        ):
            self._opened = loop.time()
            if self._failures:
                self._server.on_return()
            async for chunk in chunks:
                now = self.last_activity = loop.time()
                if now >= extend_at:
                    # Moving the timeout costs as much as an event. A precision of one thirtieth is sufficient.
                    extend_at = now + stall_after / 30
                    self._stalls = 0
                    limit.reschedule(now + stall_after)
                await self._take_lines(lines.feed(chunk))
                # Free the memory now: the next chunk may take minutes, and the first one is large.
                del chunk
        lines.finish()
        if self._version is None:
            raise watch_errors.interrupt(WatchEndReason.UNENDED_LIST)

    def _stream_query(self) -> dict[str, str]:
        rules, query = self._server.options, {**self._selector, "watch": "1", "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(round(rules.uniform(0.9 * rules.stream_seconds, 1.1 * rules.stream_seconds)))
        if self._version is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = str(self._version)
        return query

    async def _take_lines(self, lines: Sequence[bytes]) -> None:
        """Deliver the events in `lines`; an unreadable event does not block the others."""
        for line in lines:
            if not line or self._is_echo(line):
                continue
            try:
                event = watch_events.parse(line) or await watch_events.salvage_large(line)
            except watch_events.Nameless:
                self._skips.note({}, reason="nameless", detail=f"an event of {len(line)} bytes")
            else:
                self._take(event)

    def _is_echo(self, line: bytes) -> bool:
        """Return whether the event brings nothing new. Nearly every second one shows a write of the operator itself."""
        if self.is_known is None or self._version is None:
            return False
        event = watch_events.find_identity(line)
        if event is None or event[2] < self._version or not self.is_known(event):
            return False
        self._version = event[2]
        return True

    def _take(self, event: watch_events.WatchEvent) -> None:
        """Deliver one event. This is the hot path: a few microseconds plus parsing."""
        event_type, raw, version = event
        if event_type == "ERROR":
            interruption = watch_errors.classify_status(
                raw, code=raw.get("code", 0), default_reason=WatchEndReason.ERROR
            )
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
        """Pass `raw` to the handler; an object that the handler rejects must not block the others."""
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
        """Pass only the identity of an object that the handler rejects."""
        stripped = salvage.strip(raw)
        metadata = stripped["metadata"] if stripped is not None else {}
        name, namespace = metadata.get("name"), metadata.get("namespace")
        supervision.report("watch", error, kind=self.name, name=name, namespace=namespace)
        self._skips.note(metadata, reason="internal_error")
        if stripped is not None:
            # Do not report the same error again.
            with contextlib.suppress(Exception):
                deliver(stripped)

    def note_omission(self, raw: Object) -> None:
        """Report parts of an object that could not be read, if any."""
        omission = salvage.find_omission(raw)
        if omission is not None:
            self._skips.note(raw.get("metadata") or {}, reason=omission.reason, detail=str(omission))

    def _complete(self, version: int) -> None:
        """Record that the full set was delivered as of `version`."""
        self.is_absent = False
        is_restored = self._highest is not None and version < self._highest
        self._handler.on_synced(None if is_restored else version)
        self._version = self._highest = version
        self.denial, self.is_answered, self.is_failing = "", True, False
        self._synced.set()

    def _forget_version(self) -> None:
        """Start the next attempt with a full set."""
        if self._version is not None:
            self._highest = self._version
            self._version = None

    async def _recover(self, failure: WatchFailure, error: Exception | None) -> None:
        """Handle the end of an attempt, then wait for the delay of this error."""
        reason, self.last_activity = failure.reason, asyncio.get_running_loop().time()
        self.restarts[reason.value] += 1
        if self._server.observer is not None:
            self._server.observer.on_watch_restart(kind=self.name, reason=reason.value)
        if self.on_end is not None:
            self.on_end(reason)
        if self._opened is not None and asyncio.get_running_loop().time() - self._opened >= watch_errors.SETTLED_AFTER:
            self._failures = 0
        self._failures += 1
        self._stalls += reason is WatchEndReason.STALLED
        self._was_away = self._was_away or reason in watch_errors.AWAY
        self.is_failing = self.is_failing or reason not in watch_errors.TEMPORARY
        self._update_capabilities(reason)
        self._note_denial(failure)
        if watch_errors.needs_list(reason, failures=self._failures, stalls=self._stalls):
            self._forget_version()
        seconds = watch_errors.find_delay(failure, failures=self._failures, uniform=self._server.options.uniform)
        self._say(failure, error, seconds)
        await self._pause(seconds)

    def _note_denial(self, failure: WatchFailure) -> None:
        """Record whether the server denies access."""
        if failure.reason not in watch_errors.UNANSWERED:
            self.is_answered = True
        if failure.reason is WatchEndReason.FORBIDDEN:
            was_denied, self.denial = bool(self.denial), failure.detail or "forbidden"
            if not was_denied and self.on_denied is not None:
                supervision.guard("watch", self.on_denied)()

    def _update_capabilities(self, reason: WatchEndReason) -> None:
        """Update the known server capabilities from the reason of the failure."""
        if reason is WatchEndReason.NO_WATCH_LIST:
            self._server.has_watch_list = False
        elif reason in (WatchEndReason.UNENDED_LIST, WatchEndReason.STALLED) and self._version is None:
            # Some extension API servers accept the parameters and ignore them.
            self._lists_in_pages = True
        if reason is not WatchEndReason.NOT_SERVED:
            self._absences = 0

    def _say(self, failure: WatchFailure, error: Exception | None, seconds: float) -> None:
        """Log the end of an attempt."""
        reason = failure.reason
        if reason is WatchEndReason.UNEXPECTED and error is not None:
            supervision.report("watch", error, kind=self.name)
        is_ordinary = watch_errors.is_ordinary(reason, is_resumable=self._version is not None, failures=self._failures)
        write = log.debug if is_ordinary else log.warning
        write(
            "watch restarted",
            kind=self.name,
            reason=reason.value,
            detail=failure.detail,
            failures=self._failures,
            pause_seconds=round(seconds, 3),
            lists_anew=self._version is None,
        )

    async def _pause(self, seconds: float) -> None:
        """Wait for the delay, or until `retry_now` is called."""
        try:
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        except TimeoutError:
            return
        self._nudged.clear()


async def verify(context: WatchContext, path: str, *, version: int, selector: Mapping[str, str]) -> None:
    """Raise `WatchInterrupted` if the store behind a server that was away has not reached that version.

    A store that was restored from a backup or built again has lower versions. Its server accepts a watch from a version
    that the store has not reached, and sends nothing on it.
    path, selector: of the watch. Raises ApiStatusError or Unreachable if the server cannot answer now.
    """
    # A label selector would make the server search all objects for the first one.
    query = {"limit": "1", **{key: value for key, value in selector.items() if key == "fieldSelector"}}
    try:
        page = await context.connection.request("GET", path, query=query, accept=METADATA_LIST)
    except errors.ApiStatusError as refused:
        if refused.code == THROTTLED or refused.code >= UNAVAILABLE:
            raise
        # A watch needs no permission to list, and reports all other errors itself.
        return
    reached = read_version(page)
    if reached is not None and reached < version:
        raise watch_errors.interrupt(WatchEndReason.BACKWARDS, f"the server is at version {reached}, after {version}")


def read_version(page: Mapping[str, Any]) -> int | None:
    """Return the version of a list, or None if it has none."""
    try:
        return int(page["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        # Some extension API servers send no versions.
        return None
