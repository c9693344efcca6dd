"""Look-ups of the names of tenants' servers, in threads of their own.

A name server that does not answer holds a thread for ten seconds, and nothing ends it. So no look-up shares threads with
anything else, and each tenant has a few at a time. Must not know what the addresses are for.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from hearth.model import limits


class Lookups:
    """The look-ups of all tenants."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(limits.CLUSTER_LOOKUPS, thread_name_prefix="lookup")
        self._running: dict[tuple[str, str, int], asyncio.Future[list[str]]] = {}
        """By tenant, host and port."""

    async def resolve(self, tenant: str, host: str, port: int) -> list[str]:
        """Return the addresses of a host. Raises OSError if it has none, or if the tenant has too many look-ups."""
        key = (tenant, host, port)
        running = self._running.get(key)
        if running is None:
            if sum(each[0] == tenant for each in self._running) >= limits.CLUSTER_LOOKUPS_PER_NAMESPACE:
                raise OSError(f"{host} is not looked up: the look-ups of other servers have not ended yet")
            running = asyncio.get_running_loop().run_in_executor(self._threads, look_up, host, port)
            self._running[key] = running
            running.add_done_callback(lambda _: self._running.pop(key, None))
        # A caller that gives up does not end the thread. The next one waits for the same look-up.
        return await asyncio.shield(running)

    def close(self) -> None:
        """Start no further look-up; those that run end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Blocks. Raises OSError."""
    return [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
