"""Implements `RemoteCluster` on a real API server: connects, and detects outages and another cluster at its address."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from hearth import supervision
from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig, InlineSource
from hearth.kube.client.connection import Connection
from hearth.kube.remote.tenant_share import TenantShare, TooMuchHeld
from hearth.kube.watch.reflector import WatchConnection, WatchOptions
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, limits, retry_delays
from hearth.model.child import Object
from hearth.model.sharding import Share
from hearth.model.text import redaction
from hearth.plan.retry import retry_triggers
from hearth.plan.state.condition_types import ClusterReason

if TYPE_CHECKING:
    from hearth.engine.work_queue import ClusterListener
    from hearth.model.signatures import Signatures

log = structlog.get_logger(__name__)

LOOK_INTERVAL = 10.0
"""Seconds between two small requests to a cluster that answers."""
DISCOVERY_INTERVAL = 60.0
"""Seconds between two reads of the served kinds, because another cluster does not report their changes."""
LOOK_TIMEOUT = 10.0
UNAUTHORIZED = 401
UNAVAILABLE = 500
VERSION = "/version"
"""Every authenticated client may read this path. If the server denies it, it has still answered."""
IDENTITY_PATH = "/api/v1/namespaces/kube-system"
UID_LENGTH = 64
"""Maximum characters of a UID; real ones have 36."""
THROTTLED = 429


class KubeRemoteCluster:
    """One other cluster under one kubeconfig."""

    def __init__(
        self,
        kubeconfig: InlineKubeconfig,
        listener: ClusterListener,
        *,
        signatures: Signatures,
        share: Share,
        tenant: TenantShare,
        options: WatchOptions | None = None,
    ) -> None:
        """Create the cluster without connecting; `start` connects. tenant: the limits of the kubeconfig's namespace."""
        self.key, self.server, self.host = kubeconfig.key, kubeconfig.server, kubeconfig.host
        self.namespace, self.hidden_texts = kubeconfig.namespace, kubeconfig.hidden_texts
        self._listener = listener
        self.usage = usage = RemoteUsage(on_limit=tenant.on_limit)
        self._connection = RemoteConnection(kubeconfig, tenant)
        self.cluster = KubeWorkloadCluster(
            self._connection,
            listener,
            namespace=kubeconfig.namespace,
            share=share,
            observer=usage,
            options=bound(options or WatchOptions()),
            hold=tenant.hold,
            payer=tenant.namespace,
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

    async def wait_open(self, seconds: float) -> None:
        """Wait at most that long until the first attempt to reach the cluster ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._attempted.wait()

    def note_silence(self) -> None:
        """Examine now whether the cluster still answers."""
        if self.trouble is None:
            self._nudged.set()

    def start(self) -> None:
        """Start to reach the cluster."""
        self._task = supervision.spawn_forever("remote_cluster", self._run)

    async def close(self) -> None:
        """Close the connection and stop all watches."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.cluster.close()
        await self._connection.close()

    async def _run(self) -> None:
        while (excess := self._find_excess()) is None:
            trouble = await self._find_problem()
            self._attempted.set()
            self._failures = self._failures + 1 if trouble is not None else 0
            self._set_problem(trouble)
            await self._pause(self._find_pause())
        # Without watches, no more objects arrive. A new kubeconfig opens another cluster.
        await self.cluster.close()
        self._set_problem(excess)
        await asyncio.get_running_loop().create_future()

    async def _find_problem(self) -> tuple[str, str] | None:
        """Reach the cluster; return why that failed."""
        try:
            if not self.is_open:
                await self._connection.open()
                await self.cluster.open()
                self.identity = await read_identity(self._connection)
                self.is_open = True
                self._discover_at = time.monotonic() + DISCOVERY_INTERVAL
            else:
                await self._probe_again()
        except errors.ApiStatusError as error:
            return self._classify_error(error)
        except errors.Unreachable as error:
            return self._describe_silence(str(error))
        return None

    async def _probe_again(self) -> None:
        if self.trouble is not None or time.monotonic() >= self._discover_at:
            await self._identify()
            await self.cluster.refresh_kinds()
            self._discover_at = time.monotonic() + DISCOVERY_INTERVAL
        else:
            await self._connection.request("GET", VERSION, timeout=LOOK_TIMEOUT)

    async def _identify(self) -> None:
        """Discard cached objects if another cluster answers, or one that was away and may be another."""
        found = await read_identity(self._connection)
        before, self.identity = self.identity, found or self.identity
        is_other = bool(found and before and found != before)
        if is_other or (self.trouble is not None and not found):
            self.cluster.caches.list_again()
        if is_other:
            log.warning("another cluster answers", host=self.host)
        if found and found != before:
            # Right after its start, a new server has no namespace kube-system.
            self._listener.on_state()

    def _find_excess(self) -> tuple[str, str] | None:
        """Return the problem that the server sends more objects than any real cluster has for its Stacks."""
        count = sum(each.objects for each in self.cluster.caches.health())
        if count <= limits.CLUSTER_OBJECTS:
            return None
        return ClusterReason.TOO_LARGE, (
            f"cluster {self.host} sends {count} objects with labels of Hearth, but at most {limits.CLUSTER_OBJECTS} are "
            "cached; remove the label hearth.dev/stack-uid from objects that are not children, then change the "
            "kubeconfig"
        )

    def _classify_error(self, error: errors.ApiStatusError) -> tuple[str, str] | None:
        """Return the problem that an answer shows, or None if the cluster works."""
        said = redaction.redact(str(error), self.hidden_texts)[: limits.CLUSTER_ERROR_LENGTH]
        if error.code == UNAUTHORIZED:
            return ClusterReason.UNAUTHORIZED, (
                f"cluster {self.host} does not accept the credentials of the kubeconfig: {said}; renew them in the "
                f"Secret that spec.kubeConfig names"
            )
        if error.code >= UNAVAILABLE or not self.is_open:
            return self._describe_silence(f"HTTP {error.code}: {said}")
        return None

    def _describe_silence(self, said: str) -> tuple[str, str]:
        text = redaction.redact(said, self.hidden_texts)[: limits.CLUSTER_ERROR_LENGTH]
        return ClusterReason.UNREACHABLE, (
            f"cluster {self.host} cannot be reached: {text}; nothing in it is changed, and the operator continues when it "
            f"answers"
        )

    def _set_problem(self, trouble: tuple[str, str] | None) -> None:
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
            # Work that waits for its next attempt can now continue.
            self.cluster.caches.on_kinds()
            self._listener.on_retry_trigger(retry_triggers.SERVER)

    def _find_pause(self) -> float:
        longest = retry_delays.REMOTE_CLUSTER.find_seconds(self._failures)
        return (longest if self._failures else LOOK_INTERVAL) * random.uniform(0.75, 1.0)  # noqa: S311 -- spreads requests

    async def _pause(self, seconds: float) -> None:
        self._nudged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudged.wait()


async def read_identity(connection: WatchConnection) -> str:
    """Return the UID of the namespace `kube-system`, which is unique to a cluster, or "" if reading it is forbidden.

    Raises ApiStatusError or Unreachable if the server cannot answer now.
    """
    try:
        found = await connection.request("GET", IDENTITY_PATH)
    except errors.ApiStatusError as refused:
        if refused.code in (UNAUTHORIZED, THROTTLED) or refused.code >= UNAVAILABLE:
            raise
        return ""
    metadata = found.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) and len(uid) <= UID_LENGTH else ""


def bound(options: WatchOptions) -> WatchOptions:
    """Return the options of watches of a server that is not trusted."""
    return replace(options, line_bytes=limits.CLUSTER_LINE_BYTES, pages=limits.CLUSTER_PAGES)


@dataclass(slots=True)
class RemoteUsage:
    """The costs of one other cluster: the observer of its connection and watches.

    Its server chooses its kinds, reasons and objects, so none of them is a label.
    """

    on_limit: Callable[[str], None] = field(default=lambda _limit: None)
    """Counts a limit that was reached, for all other clusters together."""
    requests: int = 0
    failures: int = 0
    """Requests without an answer, or rejected because of a server error."""
    watch_restarts: int = 0
    skipped: int = 0
    is_reachable: bool = False

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:  # noqa: ARG002 -- the observer's parameters
        """Count a request."""
        self.requests += 1
        self.failures += code == 0 or code >= 500

    def on_watch_restart(self, *, kind: str, reason: str) -> None:  # noqa: ARG002 -- not a label, see above
        """Count the restart of a watch."""
        self.watch_restarts += 1

    def on_skipped_object(self, *, kind: str, reason: str) -> None:  # noqa: ARG002 -- not a label, see above
        """Count an object that cannot be read."""
        self.skipped += 1


class RemoteConnection(Connection):
    """The connection of one kubeconfig: no error repeats the credentials, even if the server does."""

    def __init__(self, kubeconfig: InlineKubeconfig, share: TenantShare) -> None:
        super().__init__(InlineSource(kubeconfig.credentials), share)
        self._hidden = kubeconfig.hidden_texts
        self._share = share

    async def request(self, method: str, path: str, **options: Any) -> Object:
        """Send a request and return the parsed response, as the base class does, when the namespace has time left."""
        await self._share.wait_turn()
        try:
            return await super().request(method, path, **options)
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise self._clean(error) from None

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream the body of a GET, as the base class does, if the namespace has a watch left."""
        share = self._share
        if share.streams >= limits.TENANT_STREAMS:
            raise errors.Unreachable(f"namespace {share.namespace} has {share.streams} watches, which is the limit")
        share.streams += 1
        try:
            await share.wait_turn()
            async with super().stream(path, **options) as pieces:
                yield self._slow_down(pieces)
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise self._clean(error) from None
        finally:
            share.streams -= 1

    async def _slow_down(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on the pieces no faster than the share allows; the server then has to wait. Bounds endless answers."""
        line = UnfinishedLine(self._share)
        try:
            async for piece in pieces:
                begun = time.monotonic()
                line.add(piece)
                # Execution continues here after the caller has processed the piece.
                yield piece
                self._share.charge(time.monotonic() - begun)
                await self._share.wait_turn()
        except TooMuchHeld as error:
            raise errors.Unreachable(str(error)) from error
        finally:
            line.release()

    def _clean(self, error: errors.ApiStatusError | errors.Unreachable) -> errors.ApiStatusError | errors.Unreachable:
        """Return the same error without the credentials."""
        if isinstance(error, errors.ApiStatusError):
            status = redaction.redact_within(error.status, self._hidden) if error.status is not None else None
            return errors.ApiStatusError(code=error.code, status=status, retry_after=error.retry_after)
        return type(error)(redaction.redact(str(error), self._hidden)[: limits.CLUSTER_ERROR_LENGTH])


class UnfinishedLine:
    """The line of a stream that has not ended yet."""

    def __init__(self, share: TenantShare) -> None:
        self._share = share
        self._held = 0
        self._since = 0.0
        """Monotonic time in seconds when the first bytes of the line arrived."""

    def add(self, piece: bytes) -> None:
        """Add a piece of the stream. Raises TooMuchHeld if the line takes too long, or the share too much memory."""
        rest = len(piece) - 1 - piece.rfind(b"\n")
        now = time.monotonic()
        if rest < len(piece) or not self._held:
            self._reserve_bytes(rest)
            self._since = now
        else:
            # Keep no more of a line that is too long.
            self._reserve_bytes(min(self._held + rest, limits.CLUSTER_LINE_BYTES))
        if self._held and now - self._since > limits.CLUSTER_LINE_SECONDS:
            raise TooMuchHeld(f"one event took more than {limits.CLUSTER_LINE_SECONDS:g} s to arrive")

    def release(self) -> None:
        """Release everything."""
        self._reserve_bytes(0)

    def _reserve_bytes(self, size: int) -> None:
        self._share.hold(size - self._held)
        self._held = size
