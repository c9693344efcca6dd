"""Implements `RemoteClusters`: opens a cluster for its first Stack, and closes it a minute after its last one.

Stacks of one namespace with equal kubeconfigs share a cluster. Different kubeconfigs share nothing, even for the same
API server.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hearth import supervision
from hearth.engine.work_queue import ClusterListener, WorkQueue
from hearth.kube.auth import inline_kubeconfig
from hearth.kube.remote.remote_cluster import KubeRemoteCluster
from hearth.kube.remote.tenant_share import TenantShares
from hearth.model import errors, limits, turns
from hearth.model.sharding import WHOLE, Share

if TYPE_CHECKING:
    from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig
    from hearth.kube.watch.reflector import WatchOptions
    from hearth.model.signatures import Signatures


CLOSE_AFTER = 60.0
"""Seconds until the connection is closed after its last Stack was deleted. A Stack that is recreated can still use it.
"""
LIMIT = "clusters"
NAMES: Final = ("reachable", "stacks", "cached_objects", "cached_bytes", "requests", "failed_requests")
"""The names of the metrics of one cluster, see `measure`."""


@dataclass(slots=True)
class OpenCluster:
    """A cluster and its users."""

    remote: KubeRemoteCluster
    namespace: str
    """The namespace of the kubeconfig."""
    users: dict[str, str] = field(default_factory=dict)
    """Namespaces of the Stacks that use the cluster, by UID of the Stack."""
    cancel_close: Callable[[], None] | None = None


class KubeRemoteClusters:
    """All other clusters of this process."""

    def __init__(
        self,
        queue: WorkQueue,
        *,
        signatures: Signatures,
        share: Share = WHOLE,
        allows_loopback: bool = False,
        on_limit: Callable[[str], None] = lambda _limit: None,
        options: WatchOptions | None = None,
    ) -> None:
        """Create it without connecting; `use` connects. allows_loopback: whether a server may be on this machine."""
        self._queue = queue
        self._signatures = signatures
        self._share = share
        self._allows_loopback = allows_loopback
        self._on_limit = on_limit
        self._rules = options
        self._shares = TenantShares(is_guarded=not allows_loopback, on_limit=on_limit)
        self._open: dict[str, OpenCluster] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def use(self, stack_uid: str, namespace: str, kubeconfig: str) -> KubeRemoteCluster:
        """Return the cluster of that kubeconfig; open it for its first Stack."""
        config = inline_kubeconfig.parse(kubeconfig, allows_loopback=self._allows_loopback, owner=namespace)
        found = self._open.get(config.key)
        if found is None:
            self._check_limits(namespace)
            config.check_keys()
            found = self._open[config.key] = OpenCluster(self._make(config, namespace), namespace)
            found.remote.start()
        found.users[stack_uid] = namespace
        if found.cancel_close is not None:
            found.cancel_close()
            found.cancel_close = None
        return found.remote

    def leave(self, stack_uid: str, *, besides: str = "") -> None:
        """Release the clusters of a Stack except one."""
        for key, each in self._open.items():
            if key != besides and each.users.pop(stack_uid, None) is not None and not each.users:
                each.cancel_close = supervision.call_later(CLOSE_AFTER, functools.partial(self._close, key))

    def count_users(self) -> list[tuple[KubeRemoteCluster, int]]:
        """Return each open cluster with the number of its Stacks."""
        return [(each.remote, len(each.users)) for each in self._open.values()]

    async def close(self) -> None:
        """Close all."""
        for each in self._open.values():
            if each.cancel_close is not None:
                each.cancel_close()
        closing, self._open = list(self._open.values()), {}
        await asyncio.gather(*(each.remote.close() for each in closing), *self._closing)
        self._shares.lookups.close()

    def _make(self, kubeconfig: InlineKubeconfig, namespace: str) -> KubeRemoteCluster:
        def is_user(uid: str) -> bool:
            found = self._open.get(kubeconfig.key)
            return found is not None and uid in found.users

        listener = ClusterListener(self._queue, kubeconfig.key, is_user=is_user)
        return KubeRemoteCluster(
            kubeconfig,
            listener,
            signatures=self._signatures,
            share=self._share,
            tenant=self._shares.find(namespace),
            options=self._rules,
        )

    def _check_limits(self, namespace: str) -> None:
        """Check that the namespace may use one more cluster. Raises TooManyClusters.

        A namespace may use at most half of the clusters that the others leave, so that later namespaces find some.
        """
        free = limits.CLUSTERS - len(self._open)
        if free <= 0 and not self._close_unused():
            self._on_limit(LIMIT)
            raise errors.TooManyClusters(
                f"the operator already uses {limits.CLUSTERS} other clusters, which is the limit; "
                f"it continues when one of them is free"
            )
        used = sum(namespace in found.users.values() for found in self._open.values())
        most = turns.find_share(used, free=max(1, free), most=limits.CLUSTERS_PER_NAMESPACE)
        if used >= most:
            self._on_limit(LIMIT)
            raise errors.TooManyClusters(
                f"the Stacks of namespace {namespace} already use {used} other clusters, and at most {most} are possible "
                f"now; use fewer kubeconfigs, or another namespace"
            )

    def _close_unused(self) -> bool:
        """Close a cluster without Stacks before its time; return whether there was one."""
        unused = next((key for key, each in self._open.items() if not each.users), None)
        if unused is not None:
            self._close(unused)
        return unused is not None

    def _close(self, key: str) -> None:
        found = self._open.get(key)
        if found is None or found.users:
            return
        if found.cancel_close is not None:
            found.cancel_close()
        del self._open[key]
        self._shares.forget(found.namespace)
        task = supervision.spawn("remote_cluster", found.remote.close, name="end of a connection to another cluster")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def measure(remote: KubeRemoteCluster, *, users: int) -> Mapping[str, float]:
    """Return the numbers of one cluster by name. users: number of its Stacks."""
    caches, usage = remote.cluster.caches, remote.usage
    return {
        "reachable": float(usage.is_reachable),
        "stacks": float(users),
        "cached_objects": float(sum(each.objects for each in caches.health())),
        "cached_bytes": sum(caches.count_bytes().values()),
        "requests": float(usage.requests),
        "failed_requests": float(usage.failures),
    }
