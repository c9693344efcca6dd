"""Names of servers that resolve to the operator's own machine."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hearth.kube.auth import foreign_servers
from hearth.kube.auth.credentials import Credentials
from hearth.kube.auth.foreign_servers import AddressDenied
from hearth.kube.client.guarded_connector import GuardedResolver
from hearth.kube.client.http_transport import HttpTransport
from hearth.kube.remote.tenant_share import TenantShares
from hearth.model import errors


async def test_a_name_of_this_machine_is_denied() -> None:
    with pytest.raises(AddressDenied, match="which no Stack may use"):
        await TenantShares().find("shop").resolve("localhost", 443)


async def test_one_denied_address_among_others_is_enough() -> None:
    with pytest.raises(AddressDenied):
        foreign_servers.check_addresses("east.example.com", ["203.0.113.9", "169.254.169.254"])


async def test_sessions_are_guarded_too() -> None:
    with pytest.raises(AddressDenied):
        await GuardedResolver(TenantShares().find("shop")).resolve("localhost", 443, socket.AF_INET)


async def test_no_byte_reaches_a_denied_address() -> None:
    seen: list[object] = []
    server = await asyncio.start_server(lambda _reader, writer: seen.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for is_guarded in (True, False):
            share = TenantShares(is_guarded=is_guarded).find("shop")
            transport = HttpTransport(Credentials(server=f"http://localhost:{port}"), None, share)
            with pytest.raises(errors.Unreachable, match="which no Stack may use" if is_guarded else "in time"):
                await transport.send("GET", "/", headers={}, data=None, seconds=0.2)
            assert bool(seen) is not is_guarded
            await transport.close()
