"""`hearth.engine.ports.HealthMarkClient` on a real API server: HealthMarks and their statuses."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from hearth.kube.client import api_client, api_requests
from hearth.model.well_known_kinds import HEALTH_MARK

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import HealthMarkObject
    from hearth.kube.cache.health_mark_cache import HealthMarkCache
    from hearth.kube.client.api_client import RequestObserver
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object


class KubeHealthMarkClient:
    """Reader of cached HealthMarks and writer of their statuses."""

    def __init__(
        self, connection: Connection, *, cache: HealthMarkCache, observer: RequestObserver | None = None
    ) -> None:
        self._sender = api_client.ApiClient(connection, observer)
        self._cache = cache

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark, or None if it does not exist."""
        return self._cache.find_mark(uid)

    def marks(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""
        return self._cache.marks()

    async def write_mark_status(self, mark: HealthMarkObject, status: Object) -> None:
        """Merge-patch the status of a HealthMark; ignore a deleted one."""
        path = api_requests.object_path(HEALTH_MARK, mark.namespace, mark.name) + "/status"
        body = {"metadata": {"resourceVersion": str(mark.resource_version)}, "status": status}
        answer = await self._sender.patch_existing(HEALTH_MARK, path, body)
        if answer is None:
            # Its event may be late, and the next look must not write again.
            self._cache.forget(mark.uid)
        else:
            self._cache.put(answer)
