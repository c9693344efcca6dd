"""The sources beyond the cap on watches of their own: one watch of metadata per kind shows the changes of all of them.

Keeps a version for each source that is followed, and nothing of any other object. Where the operator may not watch the kind
as a whole, each source is polled by its name. Must not know who reads a source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hearth import supervision
from hearth.kube.cache import child_cache
from hearth.kube.cache.child_cache import WatchStatus
from hearth.kube.client import api_requests
from hearth.kube.watch.reflector import METADATA, Reflector, WatchContext
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Version:
    """What is kept of a source that is there."""

    uid: str
    number: int
    """Its resourceVersion."""


class SharedSources:
    """The sources of one kind that have no watch of their own; the handler of the shared watch, and its observer."""

    def __init__(
        self, kind: Kind, *, server: WatchContext, namespace: str, on_change: Callable[[ObjectRef], None]
    ) -> None:
        """Nothing is asked before the first source is followed. namespace: the only one that is served; "" for all."""
        self.is_polling = False
        """Whether changes are noticed by polling alone."""
        self._kind = kind
        self._on_change = on_change
        self._observer = server.observer
        self._connection = server.connection
        self._known: dict[ObjectRef, Version | None] = {}
        """Every source that is followed, None while there is no such object as far as is known."""
        self._shown: set[ObjectRef] = set()
        self._cancel_timer: Callable[[], None] = lambda: None
        self._running: set[asyncio.Task[None]] = set()
        own = WatchContext(connection=server.connection, rules=server.rules, observer=self)
        path = api_requests.collection_path(kind, namespace)
        self._watch = Reflector(own, path, self, name=kind.key, metadata_only=True)

    def follow(self, ref: ObjectRef) -> None:
        """Report its changes from now on; where the watch runs already, beginning with the state that is read next."""
        self._known.setdefault(ref, None)
        if not self._watch.is_running:
            self._watch.start()

    def unfollow(self, ref: ObjectRef) -> None:
        """Report it no longer."""
        self._known.pop(ref, None)
        if not self._known and self._watch.is_running:
            self._run(self._rest)

    def put(self, ref: ObjectRef, raw: Object) -> None:
        """Take in what was read; reported only if something else was read before."""
        if ref not in self._known:
            return
        before, after = self._known[ref], find_version(raw)
        if before is None or before.number < after.number:
            self._known[ref] = after
            if before is not None:
                self._on_change(ref)

    def find_uid(self, ref: ObjectRef) -> str:
        """Of a source; "" where it is not known."""
        version = self._known.get(ref)
        return version.uid if version is not None else ""

    def health(self) -> list[WatchStatus]:
        """How the watch is doing."""
        if not self._watch.is_running:
            return []
        objects = sum(version is not None for version in self._known.values())
        return [child_cache.measure(self._kind.key, self._watch, objects=objects)]

    async def close(self) -> None:
        """End; nothing is reported any more."""
        self._stop_polling()
        for task in self._running:
            task.cancel()
        await asyncio.gather(self._watch.close(), *self._running, return_exceptions=True)

    def on_list_started(self) -> None:
        """A fresh list begins."""
        self._shown = set()

    def on_object(self, raw: Object) -> None:
        """It is there, in this version. Of interest for those alone that are followed."""
        ref = self._ref(raw)
        if ref in self._known:
            self._shown.add(ref)
            self._note(ref, find_version(raw))

    def on_deleted(self, raw: Object) -> None:
        """It is gone, unless there is another of its name by now."""
        ref, version = self._ref(raw), self._known.get(self._ref(raw))
        if version is not None and version.uid == raw["metadata"]["uid"]:
            self._note(ref, None)

    def on_synced(self, version: int | None) -> None:
        """What was not shown is gone; where versions mean nothing any more, everything is read again."""
        self._stop_polling()
        for ref in [ref for ref, known in self._known.items() if known is not None]:
            if version is None or ref not in self._shown:
                self._note(ref, None)

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """As the observer of the watch."""
        if self._observer is not None:
            self._observer.on_watch_restart(kind=kind, reason=reason)
        if reason == WatchEndReason.FORBIDDEN and not self.is_polling:
            log.warning("sources are polled, since their kind may not be watched as a whole", kind=kind)
            self.is_polling = True
            self._poll_later()
            # The Stacks that read them say so.
            for ref in list(self._known):
                self._on_change(ref)

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """As the observer of the watch."""
        if self._observer is not None:
            self._observer.on_skipped_object(kind=kind, reason=reason)

    def on_limit(self, limit: str) -> None:
        """As the observer of the watch."""
        if self._observer is not None:
            self._observer.on_limit(limit)

    def _ref(self, raw: Object) -> ObjectRef:
        metadata = raw["metadata"]
        return ObjectRef(group="", kind=self._kind.name, namespace=metadata["namespace"], name=metadata["name"])

    def _note(self, ref: ObjectRef, version: Version | None) -> None:
        """Report it if this is another version than the one known. One that is older was read before."""
        known = self._known[ref]
        if known == version or (known is not None and version is not None and version.number < known.number):
            return
        self._known[ref] = version
        self._on_change(ref)

    async def _rest(self) -> None:
        """End the watch, unless a source was followed since."""
        if not self._known:
            self._stop_polling()
            await self._watch.close()

    def _poll_later(self) -> None:
        self._cancel_timer = supervision.call_later(limits.SOURCE_POLL, lambda: self._run(self._poll), where="source")

    def _stop_polling(self) -> None:
        self.is_polling = False
        self._cancel_timer()

    async def _poll(self) -> None:
        """Look at each source once, and again later."""
        try:
            await self._look_at_all()
        finally:
            if self.is_polling:
                self._poll_later()

    async def _look_at_all(self) -> None:
        """By one request at a time, so that the load stays small however many sources there are."""
        for ref in list(self._known):
            path = api_requests.object_path(self._kind, ref.namespace, ref.name)
            try:
                version = find_version(await self._connection.request("GET", path, accept=METADATA))
            except errors.ApiStatusError as refused:
                if refused.code != 404:
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
    """Of an object."""
    return Version(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]))
