"""Resolution of the names of servers that tenants name: addresses of the operator's own machine are refused.

Every address is checked after the resolution, since a name may resolve to anything, and to something else each time.
"""

from __future__ import annotations

import asyncio
import socket

import aiohttp.abc
from aiohttp import resolver

from hearth.kube.auth import network_addresses


class AddressDenied(OSError):
    """A name that resolves to an address that no Stack may use."""


async def resolve(host: str, port: int) -> str:
    """Return the first address of a host. Raises OSError if it has none, or one that is denied."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    check(host, addresses)
    return addresses[0]


def check(host: str, addresses: list[str]) -> None:
    """Raise AddressDenied if one of the addresses is denied: a server has no reason to be there as well."""
    for address in addresses:
        if denial := network_addresses.deny(address):
            raise AddressDenied(f"{host}: {denial}" if address != host else denial)


class GuardedResolver(aiohttp.abc.AbstractResolver):
    """The resolver of aiohttp's sessions. Sessions do not ask it for hosts that are addresses."""

    def __init__(self) -> None:
        self._inner = resolver.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the addresses of a host."""
        found = await self._inner.resolve(host, port, family)
        check(host, [each["host"] for each in found])
        return found

    async def close(self) -> None:
        """Release nothing."""
        await self._inner.close()
