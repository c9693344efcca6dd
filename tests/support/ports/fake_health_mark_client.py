"""The port `HealthMarkClient` on the fake server: replaces `hearth.kube.health_mark_client` for one engine."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.kube import health_mark_client
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.ports.fake_connection import FakeWire
from support.server import api_errors, fake_kinds
from support.server.fake_objects import copy
from support.server.request_faults import Request

MANAGER = "hearth"
HEALTH_MARK = fake_kinds.HEALTH_MARK.kind


class FakeMarks:
    """One engine's access to HealthMarks, including existing ones."""

    def __init__(self, wire: FakeWire, on_change: Callable[[str], None]) -> None:
        self._wire = wire
        self._server = wire.server
        self._on_change = on_change
        self._marks: dict[str, HealthMarkObject] = {}
        wire.receive(self._take)
        for raw in self._server.list_all(HEALTH_MARK):
            self._take(HEALTH_MARK, None, raw)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        raw = after or before
        if kind != HEALTH_MARK or raw is None:
            return
        mark = health_mark_client.parse_mark(copy(raw))
        known = self._marks.get(mark.uid)
        if after is None:
            self._marks.pop(mark.uid, None)
        elif known is not None and known.resource_version >= mark.resource_version:
            return
        else:
            self._marks[mark.uid] = mark
        self._on_change(mark.uid)

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """As the port says."""
        return self._marks.get(uid)

    def marks(self) -> Collection[str]:
        """As the port says."""
        return tuple(self._marks)

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """As the port says."""
        sent = copy(status)
        await self._write(
            mark,
            "mark-status",
            lambda: self._server.patch_status(HEALTH_MARK, mark.namespace, mark.name, sent, manager=MANAGER),
        )

    async def write_mark_resolution(self, mark: HealthMarkObject, resolution: str) -> None:
        """As the port says."""
        patch = {"metadata": {"annotations": {names.ANNOTATION_RESOLVED: resolution}}}
        await self._write(
            mark,
            "mark-resolution",
            lambda: self._server.patch(HEALTH_MARK, mark.namespace, mark.name, patch, manager=MANAGER),
        )

    async def _write(self, mark: HealthMarkObject, verb: str, send: Callable[[], Object]) -> None:
        """Write exactly this version."""

        def act() -> Object:
            live = self._server.get(HEALTH_MARK, mark.namespace, mark.name)
            if live["metadata"]["resourceVersion"] != str(mark.resource_version):
                raise api_errors.stale(HEALTH_MARK, mark.name)
            return send()

        try:
            answer = health_mark_client.parse_mark(copy(await self._wire.send(mark_request(mark, verb), act)))
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            self._marks.pop(mark.uid, None)
            return
        known = self._marks.get(answer.uid)
        if known is not None and known.resource_version < answer.resource_version:
            self._marks[answer.uid] = answer


def mark_request(mark: HealthMarkObject, verb: str = "mark-status") -> Request:
    """A write of a HealthMark, of its status by default."""
    return Request(verb=verb, kind=HEALTH_MARK, namespace=mark.namespace, name=mark.name)
