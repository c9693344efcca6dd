"""Limits the CPU time, memory and name lookups that the API servers of one namespace's kubeconfigs cost.

The limits apply to a namespace rather than a kubeconfig, because a tenant can create any number of kubeconfigs. A
namespace gets at most half of the memory that the others leave free.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hearth.kube.auth import foreign_servers
from hearth.model import limits
from hearth.model.memory_shares import describe_excess, memory_shares

ANSWER_SECONDS = 0.0005
"""CPU time of a response, in addition to that of its bytes."""
BYTE_SECONDS = 30e-9
"""CPU time to decompress, parse and store a byte of a body."""
CONNECT_SECONDS = 0.01
"""CPU time of a connection, whose handshake verifies a certificate chain that the server chose."""


class TooMuchHeld(OSError):
    """Unfinished answers from the servers of a namespace use too much memory."""


class TenantShares:
    """The shares of all namespaces."""

    def __init__(self, *, is_guarded: bool = True, on_limit: Callable[[str], None] = lambda _limit: None) -> None:
        """is_guarded: whether addresses of the operator's own machine and network link are refused."""
        self.lookups = Lookups()
        self.is_guarded = is_guarded
        self.on_limit = on_limit
        self._shares: dict[str, TenantShare] = {}

    def find(self, namespace: str) -> TenantShare:
        """Return the share of a namespace."""
        found = self._shares.get(namespace)
        if found is None:
            found = self._shares[namespace] = TenantShare(namespace, self)
        return found

    def forget(self, namespace: str) -> None:
        """Drop the share of a namespace that no longer uses another cluster, unless it owes time."""
        found = self._shares.get(namespace)
        if found is not None and not found.held and not found.is_overdrawn:
            del self._shares[namespace]

    def find_cpu_share(self) -> float:
        """Return the share of a core that each namespace may take now, in the long run."""
        busy = sum(each.is_overdrawn for each in self._shares.values())
        return min(limits.TENANT_CPU_SHARE, limits.TENANTS_CPU_SHARE / max(1, busy))


class TenantShare:
    """The share of one namespace; implements `hearth.kube.auth.foreign_servers.Traffic`."""

    def __init__(self, namespace: str, shares: TenantShares, *, now: Callable[[], float] = time.monotonic) -> None:
        """now: monotonic seconds."""
        self.namespace = namespace
        self.held = 0
        """Bytes of unfinished lines and schemas."""
        self.streams = 0
        self._shares = shares
        self.on_limit = shares.on_limit
        """Counts a limit that was reached."""
        self._now = now
        self.slots = asyncio.Semaphore(limits.TENANT_REQUESTS)
        self.body_bytes = limits.CLUSTER_BODY_BYTES
        self._budget = CpuBudget(share=limits.TENANT_CPU_SHARE, burst=limits.TENANT_CPU_BURST)
        self._free_at = 0.0
        """Monotonic time in seconds until which no more data is accepted."""

    @property
    def is_overdrawn(self) -> bool:
        """Return whether the namespace used more CPU time than its share."""
        return self._free_at > self._now()

    def charge(self, seconds: float) -> None:
        """Charge CPU time that was used until now."""
        now = self._now()
        self._budget.share = self._shares.find_cpu_share()
        self._free_at = now + self._budget.charge(now - seconds, now)

    def on_connect(self) -> None:
        """Charge a new connection."""
        self.charge(CONNECT_SECONDS)

    def on_answer(self, size: int) -> None:
        """Charge an answer."""
        self.charge(ANSWER_SECONDS + size * BYTE_SECONDS)

    def on_part(self, seconds: float) -> None:
        """Charge the time that parsing a part of a response took."""
        self.charge(seconds)

    async def wait_turn(self) -> None:
        """Wait until the share is not overdrawn."""
        while (pause := self._free_at - self._now()) > 0:
            self.on_limit("clusters-cpu")
            await asyncio.sleep(min(pause, limits.TENANT_PAUSE))

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, none of them denied. Raises OSError."""
        found = await self._shares.lookups.resolve(self.namespace, host, port)
        if self._shares.is_guarded:
            foreign_servers.check_addresses(host, found)
        return found

    def hold(self, change: int) -> None:
        """Reserve more bytes, or release some. Raises TooMuchHeld, and reserves none, if the namespace has no room."""
        if change > 0 and change > memory_shares.find_room(self.namespace):
            self.on_limit("clusters-held-bytes")
            raise TooMuchHeld(f"{self.held} bytes are unfinished: {describe_excess(self.namespace)}")
        self.held += change
        memory_shares.add(self, self.namespace, change)


class CpuBudget:
    """The CPU time that one source of work may take: a bucket of seconds that refills at a share of the elapsed time."""

    def __init__(self, *, share: float, burst: float) -> None:
        """share: of one core; burst: seconds that a full bucket holds."""
        self.share = share
        self._burst = burst
        self._left = burst
        self._at = -math.inf
        """Time when the bucket was last refilled."""

    def charge(self, begun: float, now: float) -> float:
        """Take the time since `begun`; return the seconds to pause until the bucket is not overdrawn.

        begun, now: monotonic seconds.
        """
        elapsed = begun - self._at
        self._left = min(self._burst, self._left + elapsed * self.share) if elapsed > 0 else self._left
        self._at = max(self._at, begun)
        self._left -= now - begun
        return max(0.0, -self._left / self.share)


class Lookups:
    """Looks up the names of all tenants' servers in dedicated threads.

    A name server that does not answer blocks a thread for ten seconds, and a lookup cannot be interrupted. Each tenant
    therefore has only a few lookups at a time.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(limits.CLUSTER_LOOKUPS, thread_name_prefix="lookup")
        self._running: dict[tuple[str, str, int], asyncio.Future[list[str]]] = {}
        """Running lookups by tenant, host and port."""

    async def resolve(self, tenant: str, host: str, port: int) -> list[str]:
        """Return the addresses of a host. Raises OSError if there are none, or if the tenant has too many lookups."""
        key = (tenant, host, port)
        running = self._running.get(key)
        if running is None:
            if sum(each[0] == tenant for each in self._running) >= limits.CLUSTER_LOOKUPS_PER_NAMESPACE:
                raise OSError(f"{host} is not looked up: the look-ups of other servers have not ended yet")
            running = asyncio.get_running_loop().run_in_executor(self._threads, look_up, host, port)
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key, None))
        # If a caller gives up, the thread continues. The next caller waits for the same lookup.
        return await asyncio.shield(running)

    def close(self) -> None:
        """Start no further lookup; running ones finish."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Blocks. Raises OSError."""
    return [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
