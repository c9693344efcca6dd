"""The Stacks that may wait for something that no event of their own reports: a kind to come, or a retry trigger.

Must not know why they wait. Checking only these skips a thousand idle Stacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection

from hearth import supervision
from hearth.engine.cluster_links import HOME
from hearth.engine.ports import WorkloadCluster
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.retry.retry_triggers import RetryTrigger

KIND_POLL_INTERVAL = 10.0
"""Seconds between two polls for an awaited kind that no watch reported."""
TRIGGER_RETENTION = 30.0
"""Retention in seconds, at most doubled, of watches for retry triggers after their last use."""


class UnsettledStacks:
    """Looks for awaited kinds, and releases what no Stack awaits any more."""

    def __init__(self, services: Services, *, on_clusters: Callable[[Collection[str]], None]) -> None:
        """on_clusters: called now and then with the keys of the clusters in use."""
        self._services = services
        self._on_clusters = on_clusters
        self._reconcilers: dict[str, StackReconciler] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        """By cluster: the search for kinds."""
        self._awaited: dict[str, set[RetryTrigger]] = {}
        """By cluster."""

    def start(self) -> None:
        """Start to look."""
        self._look_for_kinds()
        self._look_at_causes()

    async def stop(self) -> None:
        """Stop at once."""
        running = list(self._refreshing.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._reconcilers.clear()

    def note(self, uid: str, each: StackReconciler) -> None:
        """Record whether a Stack may wait after a reconcile."""
        if each.is_unsettled:
            self._reconcilers[uid] = each
        else:
            self._reconcilers.pop(uid, None)

    def add(self, uid: str, each: StackReconciler) -> None:
        """Record that a Stack may wait, because its reconcile failed."""
        self._reconcilers[uid] = each

    def forget(self, uid: str) -> None:
        """Drop a Stack that is deleted or idle."""
        self._reconcilers.pop(uid, None)

    def _look_for_kinds(self) -> None:
        """Poll for new kinds while any Stack waits for one."""
        self._services.clock.call_later(KIND_POLL_INTERVAL, self._look_for_kinds)
        waiting = [uid for uid, each in self._reconcilers.items() if each.is_waiting_for_kinds]
        links = {link.key: link for link in map(self._services.find_link, waiting)}
        for link in links.values():
            running = self._refreshing.get(link.key)
            if running is None or running.done():
                refresh = functools.partial(self._refresh_kinds, link.cluster)
                self._refreshing[link.key] = supervision.spawn("discovery", refresh, name="look for kinds")
        self._refreshing = {key: task for key, task in self._refreshing.items() if not task.done()}

    async def _refresh_kinds(self, cluster: WorkloadCluster) -> None:
        # If the server does not answer, the next poll asks again.
        with contextlib.suppress(ApiStatusError, Unreachable):
            await cluster.refresh_kinds()

    def _look_at_causes(self) -> None:
        """Release retry triggers that no Stack has awaited since the last check."""
        self._services.clock.call_later(TRIGGER_RETENTION, self._look_at_causes)
        awaited: dict[str, set[RetryTrigger]] = {HOME: self._services.read_rights.watched}
        for uid, each in self._reconcilers.items():
            awaited[HOME] |= each.definition.schedule.awaited
            awaited.setdefault(self._services.find_link(uid).key, set()).update(each.awaited_triggers())
        before, self._awaited = self._awaited, awaited
        clusters = {HOME: self._services.workload_cluster, **self._services.links.remotes()}
        for key, cluster in clusters.items():
            cluster.retain_triggers(awaited.get(key, set()) | before.get(key, set()))
        self._on_clusters(clusters)
