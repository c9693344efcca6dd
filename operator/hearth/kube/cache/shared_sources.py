"""Sources beyond the limit on individual watches: one metadata watch per kind reports the changes of all of them.

Stores a version for each followed source and nothing of other objects. If the operator may not watch the whole kind,
each source is polled by name. Must not know which Stacks read a source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from hearth import supervision
from hearth.kube.cache import child_cache
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import Reflector
from hearth.kube.watch.watch_context import METADATA, WatchContext
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import errors, limits, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef

log = structlog.get_logger(__name__)


@value_class.dataclass(frozen=True, slots=True)
class Version:
    """The stored version of an existing source."""

    uid: str
    number: int
    """The source's resourceVersion."""


class SharedSources:
    """Sources of one kind without an individual watch; also the handler and observer of the shared watch."""

    def __init__(
        self, kind: Kind, *, context: WatchContext, namespace: str, on_change: Callable[[ObjectRef], None]
    ) -> None:
        """Send nothing before the first source is followed. namespace: the only one that is served; "" for all."""
        self.is_polling = False
        """Whether only polling detects changes."""
        self._kind = kind
        self._on_change = on_change
        self._observer = context.observer
        self._connection = context.connection
        self._known: dict[ObjectRef, Version | None] = {}
        """Every followed source; None if no such object is known."""
        self._shown: set[ObjectRef] = set()
        self._cancel_timer: Callable[[], None] = lambda: None
        self._running: set[asyncio.Task[None]] = set()
        own = WatchContext(connection=context.connection, options=context.options, observer=self)
        path = api_requests.collection_path(kind, namespace)
        self._reflector = Reflector(own, path, self, name=kind.key, metadata_only=True)

    def follow(self, ref: ObjectRef) -> None:
        """Report changes of a source; if the watch already runs, start with the next state that is read."""
        self._known.setdefault(ref, None)
        if not self._reflector.is_running:
            self._reflector.start()

    def unfollow(self, ref: ObjectRef) -> None:
        """Stop reporting changes of a source."""
        self._known.pop(ref, None)
        if not self._known and self._reflector.is_running:
            self._run(self._rest)

    def put(self, ref: ObjectRef, raw: Object) -> None:
        """Store a state that was read; report it only if it differs from an earlier one."""
        if ref not in self._known:
            return
        before, after = self._known[ref], find_version(raw)
        if before is None or before.number < after.number:
            self._known[ref] = after
            if before is not None:
                self._on_change(ref)

    def find_uid(self, ref: ObjectRef) -> str:
        """Return the UID of a source; "" if unknown."""
        version = self._known.get(ref)
        return version.uid if version is not None else ""

    def health(self) -> list[WatchStatus]:
        """Return the state of the watch."""
        if not self._reflector.is_running:
            return []
        objects = sum(version is not None for version in self._known.values())
        return [child_cache.measure(self._kind.key, self._reflector, objects=objects)]

    async def close(self) -> None:
        """Stop the watch and all reports."""
        self._stop_polling()
        for task in self._running:
            task.cancel()
        await asyncio.gather(self._reflector.close(), *self._running, return_exceptions=True)

    def on_list_started(self) -> None:
        """Start a new list."""
        self._shown = set()

    def on_object(self, raw: Object) -> None:
        """Handle an existing object in this version; ignore sources that are not followed."""
        ref = self._ref(raw)
        if ref in self._known:
            self._shown.add(ref)
            self._note(ref, find_version(raw))

    def on_deleted(self, raw: Object) -> None:
        """Handle a deleted object, unless another object of the same name exists."""
        ref, version = self._ref(raw), self._known.get(self._ref(raw))
        if version is not None and version.uid == raw["metadata"]["uid"]:
            self._note(ref, None)

    def on_synced(self, version: int | None) -> None:
        """Drop sources that the list did not show; if versions are invalid, report all sources as changed."""
        self._stop_polling()
        for ref in [ref for ref, known in self._known.items() if known is not None]:
            if version is None or ref not in self._shown:
                self._note(ref, None)

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """Implement the observer of the watch."""
        if self._observer is not None:
            self._observer.on_watch_restart(kind=kind, reason=reason)
        if reason == WatchEndReason.FORBIDDEN and not self.is_polling:
            log.warning("sources are polled: the operator is not allowed to watch their kind", kind=kind)
            self.is_polling = True
            self._poll_later()
            # The Stacks that read these sources report the polling.
            for ref in list(self._known):
                self._on_change(ref)

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Implement the observer of the watch."""
        if self._observer is not None:
            self._observer.on_skipped_object(kind=kind, reason=reason)

    def on_limit(self, limit: str) -> None:
        """Implement the observer of the watch."""
        if self._observer is not None:
            self._observer.on_limit(limit)

    def _ref(self, raw: Object) -> ObjectRef:
        metadata = raw["metadata"]
        return ObjectRef(group="", kind=self._kind.name, namespace=metadata["namespace"], name=metadata["name"])

    def _note(self, ref: ObjectRef, version: Version | None) -> None:
        """Record the version and report a difference; ignore an older version, which was read before."""
        known = self._known[ref]
        if known == version or (known is not None and version is not None and version.number < known.number):
            return
        self._known[ref] = version
        self._on_change(ref)

    async def _rest(self) -> None:
        """Stop the watch unless a source was followed in the meantime."""
        if not self._known:
            self._stop_polling()
            await self._reflector.close()

    def _poll_later(self) -> None:
        self._cancel_timer = supervision.call_later(limits.SOURCE_POLL, lambda: self._run(self._poll), where="source")

    def _stop_polling(self) -> None:
        self.is_polling = False
        self._cancel_timer()

    async def _poll(self) -> None:
        """Check each source once, and schedule the next poll."""
        try:
            await self._look_at_all()
        finally:
            if self.is_polling:
                self._poll_later()

    async def _look_at_all(self) -> None:
        """Check the sources with one request at a time, which limits the load for any number of sources."""
        for ref in list(self._known):
            path = api_requests.object_path(self._kind, ref.namespace, ref.name)
            try:
                version = find_version(await self._connection.request("GET", path, accept=METADATA))
            except errors.ApiStatusError as refused:
                if not refused.is_not_found:
                    continue
                version = None
            except errors.Unreachable:
                continue
            if ref in self._known:
                self._note(ref, version)

    def _run(self, work: supervision.Work) -> None:
        task = supervision.spawn("source", work, name=f"sources of kind {self._kind.name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def find_version(raw: Object) -> Version:
    """Return the version of an object."""
    return Version(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]))
