"""The port `RemoteCluster` on a real API server: reaches it, and notices when it is away and back.

Must not know which Stacks use it.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from hearth import supervision
from hearth.kube.remote import cluster_identity
from hearth.kube.remote.remote_connection import RemoteConnection
from hearth.kube.remote.remote_usage import RemoteUsage
from hearth.kube.remote.tenant_share import TenantShare
from hearth.kube.watch.watch_context import WatchOptions
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, limits
from hearth.model.sharding import Share
from hearth.model.text import redaction
from hearth.plan.retry import retry_triggers
from hearth.plan.status import cluster_state

if TYPE_CHECKING:
    from hearth.engine.work_queue import ClusterListener
    from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig
    from hearth.model.signatures import Signatures

log = structlog.get_logger(__name__)

LOOK_INTERVAL = 10.0
"""Seconds between two requests to a cluster that answers: one small answer each."""
FIRST_RETRY = 0.5
LONGEST_RETRY = 10.0
"""Seconds between two attempts to reach a cluster that is away: the first, and at most."""
DISCOVERY_INTERVAL = 60.0
"""Seconds between two looks at the served kinds, of whose changes another cluster sends no event here."""
LOOK_TIMEOUT = 10.0
UNAUTHORIZED = 401
UNAVAILABLE = 500
VERSION = "/version"
"""Every authenticated client may read it; an answer that denies it is an answer too."""


class KubeRemoteCluster:
    """One other cluster under one kubeconfig."""

    def __init__(
        self,
        config: InlineKubeconfig,
        listener: ClusterListener,
        *,
        signatures: Signatures,
        share: Share,
        tenant: TenantShare,
        rules: WatchOptions | None = None,
    ) -> None:
        """Send nothing before `start`. tenant: what the namespace of the kubeconfig may take."""
        self._config = config
        self._listener = listener
        self.usage = usage = RemoteUsage(on_limit=tenant.on_limit)
        self._connection = RemoteConnection(config, tenant)
        self.cluster = KubeWorkloadCluster(
            self._connection,
            listener,
            namespace=config.namespace,
            share=share,
            observer=usage,
            rules=bound(rules or WatchOptions()),
            hold=tenant.hold,
        )
        self.cluster.trust(signatures)
        self.is_open = False
        self.trouble: tuple[str, str] | None = None
        self.identity = ""
        self._attempted = asyncio.Event()
        self._nudged = asyncio.Event()
        self._failures = 0
        self._discover_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def key(self) -> str:
        """Return what distinguishes the credentials."""
        return self._config.key

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._config.server

    @property
    def host(self) -> str:
        """Return host and port of the API server."""
        return self._config.host

    @property
    def namespace(self) -> str:
        """Return the only namespace that objects may be in; "" for all."""
        return self._config.namespace

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Return the credentials."""
        return self._config.hidden_texts

    async def wait_open(self, seconds: float) -> None:
        """Wait at most that long until the first attempt to reach the cluster ends."""
        try:
            async with asyncio.timeout(seconds):
                await self._attempted.wait()
        except TimeoutError:
            return

    def note_silence(self) -> None:
        """Examine now whether the cluster still answers."""
        if self.trouble is None:
            self._nudged.set()

    def start(self) -> None:
        """Start to reach the cluster."""
        self._task = supervision.spawn_forever("remote_cluster", self._run)

    async def close(self) -> None:
        """Stop everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.cluster.close()
        await self._connection.close()

    async def _run(self) -> None:
        while (excess := self._find_excess()) is None:
            trouble = await self._look()
            self._attempted.set()
            self._failures = self._failures + 1 if trouble is not None else 0
            self._note(trouble)
            await self._pause(self._find_pause())
        # Without watches, no more objects arrive. The next kubeconfig is another cluster.
        await self.cluster.close()
        self._note(excess)
        await asyncio.get_running_loop().create_future()

    async def _look(self) -> tuple[str, str] | None:
        """Reach the cluster; return why that failed."""
        try:
            if not self.is_open:
                await self._connection.open()
                await self.cluster.open()
                self.identity = await cluster_identity.read(self._connection)
                self.is_open = True
                self._discover_at = time.monotonic() + DISCOVERY_INTERVAL
            else:
                await self._look_again()
        except errors.ApiStatusError as error:
            return self._judge(error)
        except errors.Unreachable as error:
            return self._describe_silence(str(error))
        return None

    async def _look_again(self) -> None:
        if self.trouble is not None or time.monotonic() >= self._discover_at:
            await self._identify()
            await self.cluster.refresh_kinds()
            self._discover_at = time.monotonic() + DISCOVERY_INTERVAL
        else:
            await self._connection.request("GET", VERSION, timeout=LOOK_TIMEOUT)

    async def _identify(self) -> None:
        """Discard what is cached if another cluster answers, or one that was away and may be another."""
        found = await cluster_identity.read(self._connection)
        before, self.identity = self.identity, found or self.identity
        is_other = bool(found and before and found != before)
        if is_other or (self.trouble is not None and not found):
            self.cluster.caches.list_again()
        if is_other:
            log.warning("another cluster answers", host=self.host)
        if found and found != before:
            # A new server has no namespace kube-system in its first moments.
            self._listener.on_state()

    def _find_excess(self) -> tuple[str, str] | None:
        """Return the problem that the server sends more objects than any real cluster has for its Stacks."""
        count = sum(each.objects for each in self.cluster.caches.health())
        if count <= limits.CLUSTER_OBJECTS:
            return None
        return cluster_state.TOO_LARGE, (
            f"cluster {self.host} sends {count} objects with labels of Hearth, but at most {limits.CLUSTER_OBJECTS} are "
            f"cached; remove the label hearth.dev/stack-uid from objects that are no children, then change the kubeconfig"
        )

    def _judge(self, error: errors.ApiStatusError) -> tuple[str, str] | None:
        """Return the problem that an answer shows; None if the cluster works."""
        said = str(error)[: limits.CLUSTER_ERROR_LENGTH]
        if error.code == UNAUTHORIZED:
            return cluster_state.UNAUTHORIZED, (
                f"cluster {self.host} does not accept the credentials of the kubeconfig: {said}; renew them in the "
                f"Secret that spec.kubeConfig names"
            )
        if error.code >= UNAVAILABLE or not self.is_open:
            return self._describe_silence(f"HTTP {error.code}: {said}")
        return None

    def _describe_silence(self, said: str) -> tuple[str, str]:
        text = redaction.redact(said, self.hidden_texts)[: limits.CLUSTER_ERROR_LENGTH]
        return cluster_state.UNREACHABLE, (
            f"cluster {self.host} cannot be reached: {text}; nothing in it is changed, and the operator continues when it "
            f"answers"
        )

    def _note(self, trouble: tuple[str, str] | None) -> None:
        """Keep the last error, and report a change."""
        before, was_reachable = self.trouble, self.usage.is_reachable
        self.trouble = trouble
        self.usage.is_reachable = trouble is None
        is_same = (before or ("",))[0] == (trouble or ("",))[0]
        if is_same and was_reachable == self.usage.is_reachable:
            return
        log.info("cluster changed", host=self.host, reason=trouble[0] if trouble is not None else "Reachable")
        self._listener.on_state()
        if trouble is None:
            # What waits for its next attempt need not wait any longer.
            self.cluster.caches.on_kinds()
            self._listener.on_retry_trigger(retry_triggers.SERVER)

    def _find_pause(self) -> float:
        longest = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** min(self._failures - 1, 16))
        return (longest if self._failures else LOOK_INTERVAL) * random.uniform(0.75, 1.0)  # noqa: S311 -- spreads requests

    async def _pause(self, seconds: float) -> None:
        self._nudged.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        except TimeoutError:
            return


def bound(rules: WatchOptions) -> WatchOptions:
    """Return the options of watches of a server that is not trusted."""
    return replace(rules, line_bytes=limits.CLUSTER_LINE_BYTES, pages=limits.CLUSTER_PAGES)
