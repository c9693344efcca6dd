"""Servers that tenants name: the account that the client charges, and the resolution of their names.

Addresses of the operator's own machine are refused. Each is checked after the resolution, since a name may resolve to
anything, and to something else each time. Must not know who pays. The home cluster has no account: nothing limits what it
takes but the sizes in `hearth.model.limits`.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

import aiohttp.abc

from hearth.kube.auth import network_addresses


class Traffic(Protocol):
    """The account of one tenant with all its servers."""

    slots: asyncio.Semaphore
    """The turns of requests in flight."""
    body_bytes: int
    """The largest body, inflated."""

    def on_connect(self) -> None:
        """Charge a new connection."""

    def on_answer(self, size: int) -> None:
        """Charge an answer. size: bytes of the inflated body."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, none of them denied. Raises OSError."""


class AddressDenied(OSError):
    """A name that resolves to an address that no Stack may use."""


def check_addresses(host: str, addresses: list[str]) -> None:
    """Raise AddressDenied if one of the addresses is denied: a server has no reason to be there as well."""
    for address in addresses:
        if denial := network_addresses.deny(address):
            raise AddressDenied(f"{host}: {denial}" if address != host else denial)


class GuardedResolver(aiohttp.abc.AbstractResolver):
    """The resolver of aiohttp's sessions with such servers."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the addresses of a host."""
        self._traffic.on_connect()
        addresses = await self._traffic.resolve(host, port)
        return [
            aiohttp.abc.ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
            if family in (socket.AF_UNSPEC, socket.AF_INET6 if ":" in address else socket.AF_INET)
        ]

    async def close(self) -> None:
        """Release nothing."""
