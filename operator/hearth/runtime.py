"""Builds and connects the engine and its adapters for a real cluster, and starts them in the order of dependencies.

Signals and HTTP endpoints are in `hearth.app`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from hearth import supervision
from hearth.change_previews import KubeChangePreviews
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import Observer
from hearth.engine.services import Services, ignore_notice
from hearth.engine.stack_controller import StackController
from hearth.engine.status import stack_measures
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.refresh_timing import KindRefresh
from hearth.kube.health_mark_client import KubeHealthMarkClient
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.objects import installed_crds
from hearth.kube.remote import remote_clusters
from hearth.kube.remote.remote_clusters import KubeRemoteClusters
from hearth.kube.stack_definition_client import KubeStackDefinitionClient
from hearth.kube.stack_plan_client import KubeStackPlanClient
from hearth.kube.stack_snapshot_client import KubeSnapshotClient
from hearth.kube.watch.reflector import WatchStatus
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, retry_delays
from hearth.model.well_known_kinds import RESOURCE_GROUP
from hearth.notifications.notifier import Notifier
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.sandbox.pool import Pool
from hearth.settings import Settings

logger = structlog.get_logger(__name__)

SNAPSHOTS_WITHIN = 5.0
"""Maximum seconds that the start waits for the list of StackSnapshots."""
NO_GROUPS = (
    "ResourceGroups are not served until the operator is allowed to list and watch them; apply the roles of this "
    "version "
    "(manifests/install). Stacks are served"
)
WATCH_DEAD_AFTER = 300.0
"""Seconds of silence after which a watch counts as dead. Bookmarks arrive every minute, and a stalled watch restarts
earlier. A watch whose server is unavailable or no longer serves the kind keeps retrying and does not count as dead,
because a restart of the process would not help."""


class LoopClock:
    """The port `Clock` in a running event loop."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Run `action` after `delay` seconds; the result cancels it."""
        return supervision.call_later(delay, action)


class KubeRuntime:
    """All parts between a connection and the engine, for the home cluster and other clusters."""

    _remote_clusters: KubeRemoteClusters | None = None
    _controller: StackController | None = None
    _beginning: asyncio.Task[None] | None = None
    _unready = "has not started"

    def __init__(
        self,
        settings: Settings,
        source: CredentialSource,
        observer: Observer,
        on_elsewhere: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the parts. They send no request before `start`.

        on_elsewhere: called for a Stack of another cluster that another process serves.
        """
        namespace, share = settings.namespace or "", settings.share
        self._settings = settings
        self._observer = observer
        self._queue = WorkQueue()
        self._connection = Connection(source)
        self._cluster = KubeWorkloadCluster(
            self._connection,
            self._queue,
            namespace=namespace,
            namespaced_watches=settings.namespaced_watches,
            share=share,
            observer=observer,
        )
        make_cache = functools.partial(
            StackCache,
            self._connection,
            self._queue.on_stack,
            namespace=namespace,
            share=share,
            observer=observer,
            on_elsewhere=on_elsewhere,
        )
        self._stacks = make_cache()
        self._groups = make_cache(kind=RESOURCE_GROUP, tree=self._stacks.tree)
        self._revisions = RevisionCache(
            self._connection, self._queue.on_revision, namespace=namespace, share=share, observer=observer
        )
        self._health_marks = KubeHealthMarkClient(
            self._connection, self._queue.on_health_mark, namespace=namespace, observer=observer
        )
        self._snapshots = KubeSnapshotClient(
            self._connection, self._queue.on_stack_snapshot, namespace=namespace, observer=observer
        )
        self._plans = KubeStackPlanClient(
            self._connection,
            self._queue.on_plan,
            is_approvable=settings.webhook_address is not None,
            namespace=namespace,
            observer=observer,
        )
        self._sources = SourceCache(self._connection, self._queue.on_source, namespace=namespace, observer=observer)
        self._management_cluster = KubeManagementCluster(
            self._connection,
            stacks=self._stacks,
            groups=self._groups,
            revisions=self._revisions,
            sources=self._sources,
            observer=observer,
        )
        self._definitions = self._make_definitions(namespace, make_cache)
        self._evaluations = Pool(
            notify=lambda uid: self._queue.enqueue(uid, DirtyScope.EVALUATED),
            on_limit=observer.on_limit,
            find_namespace=self._queue.find_namespace,
        )
        self._notifier = self._make_notifier()
        self._started = asyncio.Event()
        self._kind_refresh = KindRefresh(self._cluster.refresh_changed_kinds, where="discovery")

    def _make_definitions(
        self, namespace: str, make_cache: Callable[..., StackCache]
    ) -> KubeStackDefinitionClient | None:
        """Make the client of StackDefinitions. Returns None if this process serves none."""
        if not self._settings.serves_definitions:
            return None
        return KubeStackDefinitionClient(
            self._connection,
            self._queue.on_stack,
            management_cluster=self._management_cluster,
            make_cache=make_cache,
            namespace=namespace,
            observer=self._observer,
        )

    def _make_notifier(self) -> Notifier | None:
        """Make the sender of notifications; None if it is off."""
        if self._settings.notification_dir is None:
            return None
        return Notifier(
            self._settings.notification_dir,
            is_slack=self._settings.notification_format == "slack",
            source=self._settings.notification_source,
            on_result=self._observer.on_notification,
        )

    async def start(self) -> None:
        """Start. Waits for the API server and the CRDs if they are not available yet."""
        if self._notifier is not None:
            self._notifier.start()
        self._beginning = supervision.spawn_until_done("begin", self._start_up)

    async def stop(self) -> None:
        """Stop. Requests in flight may be cut off, because the next start finishes the work."""
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)
        await self._kind_refresh.close()
        if self._controller is not None:
            await self._controller.stop()
        if self._notifier is not None:
            await self._notifier.stop()
        await self._evaluations.close()
        if self._remote_clusters is not None:
            await self._remote_clusters.close()
        if self._definitions is not None:
            await self._definitions.close()
        await asyncio.gather(
            *(
                each.close()
                for each in (
                    *(self._cluster, self._stacks, self._groups, self._revisions),
                    *(self._health_marks, self._snapshots, self._plans, self._sources),
                )
            )
        )
        await self._connection.close()

    def on_kinds(self) -> None:
        """Refresh the served kinds, which may have changed."""
        self._kind_refresh.on_change()

    async def reconcile_definition(self, name: str) -> None:
        """Reconcile a StackDefinition that may have changed. Raises ApiStatusError and Unreachable."""
        await self._started.wait()
        controller = self._controller
        if controller is not None and controller.definitions is not None:
            await controller.definitions.handle(name)

    def find_dead_watches(self) -> Sequence[str]:
        """Return the watches that have been silent for longer than any working one."""
        return [
            *(f"the task {name} has ended" for name in supervision.current().find_dead()),
            *(self._controller.find_stalls() if self._controller is not None else ()),
            *self._find_silent(),
        ]

    def _find_silent(self) -> Sequence[str]:
        return [
            f"the watch of {each.kind} has been silent for {each.silence:.0f} s"
            for each in self._watches()
            if each.silence is not None and each.silence > WATCH_DEAD_AFTER
        ]

    def find_not_ready(self) -> Sequence[str]:
        """Return the caches that are not synced yet."""
        if self._unready:
            return [self._unready]
        own = [each for each in (*self._stacks.health(), *self._revisions.health()) if not each.is_synced]
        # If a kind cannot be watched or listed, only Stacks with that kind are affected. Roles of earlier versions do
        # not permit listing ResourceGroups.
        others = [each for each in (*self._groups.health(), *self._cluster.caches.health()) if not each.is_answered]
        return [f"the watch of {each.kind} is not complete" for each in (*own, *others)]

    def count_cached_objects(self) -> Mapping[str, float]:
        """Return the number of cached objects, by kind."""
        counted = collections.Counter[str]()
        others = (self._health_marks, self._snapshots, self._plans, self._sources, self._cluster.externals)
        for each in (*self._watches(), *(each for cache in others for each in cache.health())):
            counted[each.kind] += each.objects
        return {kind: float(count) for kind, count in counted.items()}

    def count_cached_bytes(self) -> Mapping[str, float]:
        """Return the bytes of cached contents, by kind."""
        own: dict[str, float] = {}
        for cache in self._management_cluster.caches:
            own |= cache.count_bytes()
        return {**self._cluster.caches.count_bytes(), **own}

    def count_elsewhere(self) -> int:
        """Count the Stacks of other clusters, which another process serves."""
        return sum(len(cache.others.elsewhere) for cache in self._management_cluster.caches)

    def count_stacks(self) -> Mapping[str, float]:
        """Return the number of Stacks, by phase."""
        return stack_measures.count_phases(self._list_stacks())

    def count_conditions(self) -> Mapping[str, float]:
        """Count the Stacks by true condition."""
        return stack_measures.count_conditions(self._list_stacks())

    def measure_actions(self) -> Mapping[str, float]:
        """Return the age of the oldest action in progress, by phase, in seconds."""
        return stack_measures.find_oldest(self._list_stacks(), now=time.time())

    def count_definitions(self) -> Mapping[str, float]:
        """Count the StackDefinitions by the reason of their condition `Ready`."""
        definitions = self._controller.definitions if self._controller is not None else None
        return definitions.count_reasons() if definitions is not None else {}

    def _list_stacks(self) -> Iterable[StackObject]:
        found = (self._management_cluster.find_stack(uid) for uid in self._management_cluster.stacks())
        return (stack for stack in found if stack is not None)

    def count_writes(self) -> Mapping[str, float]:
        """Count the writes of children by their state."""
        return self._controller.count_writes() if self._controller is not None else {}

    def measure_clusters(self) -> Mapping[str, Mapping[str, float]]:
        """Return measures of the other clusters, by name and then by host. Clusters with the same host are added up."""
        measured: dict[str, dict[str, float]] = {name: {} for name in remote_clusters.NAMES}
        for remote, users in self._remote_clusters.count_users() if self._remote_clusters is not None else ():
            for name, number in remote_clusters.measure(remote, users=users).items():
                by_host = measured[name]
                by_host[remote.host] = by_host.get(remote.host, 0.0) + number
        return measured

    def _watches(self) -> Iterable[WatchStatus]:
        # Omit the marks: if their kind is not installed or cannot be read, Stacks still converge. Omit the sources:
        # Stacks that name an unreadable source report it, and other Stacks are not affected.
        for cache in self._management_cluster.caches:
            yield from cache.health()
        yield from self._revisions.health()
        yield from self._cluster.caches.health()

    async def _start_up(self) -> None:
        hasher = await self._prepare()
        self._cluster.trust(hasher)
        self._unready = "waits for the first list of all Stacks"
        self._stacks.start()
        self._groups.start()
        self._revisions.start()
        self._health_marks.start()
        self._snapshots.start()
        self._plans.start()
        # A kind that is not served counts as a kind without objects.
        await asyncio.gather(self._stacks.wait_synced(), self._revisions.wait_synced())
        if denial := await self._groups.wait_answered():
            logger.warning(NO_GROUPS, detail=denial)
        # Otherwise, requests to restore a snapshot would be rejected for a moment. Without the permission to list
        # snapshots, they are rejected anyway.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._snapshots.wait_synced(), SNAPSHOTS_WITHIN)
        if self._controller is not None:
            # The previous start was incomplete.
            await self._controller.stop()
        if self._remote_clusters is not None:
            await self._remote_clusters.close()
        self._controller = self._build(hasher)
        await self._controller.start()
        self._unready = ""
        self._started.set()

    async def _prepare(self) -> KeyedHasher:
        """Connect to the server and discover its kinds, and retry until that succeeds."""
        while True:
            try:
                await self._connection.open()
                await self._cluster.open()
                await installed_crds.check(ApiClient(self._connection, self._observer))
                return KeyedHasher(await self._management_cluster.get_hash_key(self._settings.operator_namespace))
            except errors.HearthError as error:
                self._unready = f"startup failed: {error}"
                logger.warning("startup failed; retrying", error=str(error))
                await asyncio.sleep(retry_delays.START.first)

    def _build(self, hasher: KeyedHasher) -> StackController:
        if self._settings.serves_clusters:
            self._remote_clusters = KubeRemoteClusters(
                self._queue,
                signatures=hasher,
                share=self._settings.share,
                allows_loopback=self._settings.allow_loopback_clusters,
                on_limit=self._observer.on_limit,
            )
        services = Services(
            management_cluster=self._management_cluster,
            health_marks=self._health_marks,
            snapshots=self._snapshots,
            plans=self._plans,
            previews=KubeChangePreviews(self._connection, tenancy=self._settings.make_tenancy(), hashes=hasher),
            workload_cluster=self._cluster,
            clock=LoopClock(),
            hashes=hasher,
            queue=self._queue,
            only_namespace=self._settings.namespace or "",
            namespaced_watches=self._settings.namespaced_watches,
            definitions=self._definitions,
            definition_groups=self._settings.definition_groups,
            checks_authors=self._settings.check_authors,
            tenancy=self._settings.make_tenancy(),
            share=self._settings.share,
            health_rules=HealthRules(schemas=self._cluster.kinds, scripts=self._evaluations),
            evaluations=self._evaluations,
            own_namespace=self._settings.operator_namespace,
            backoff=self._make_backoff(),
            remote_clusters=self._remote_clusters,
            on_limit=self._observer.on_limit,
            notify=self._notifier.notify if self._notifier is not None else ignore_notice,
        )
        return StackController(
            services=services, observer=self._observer, concurrency=self._settings.max_concurrent_writes
        )

    def _make_backoff(self) -> BackoffPolicy:
        """Make the delays between retries."""
        return BackoffPolicy(max_backoff=self._settings.max_backoff.total_seconds(), jitter=random.random)
