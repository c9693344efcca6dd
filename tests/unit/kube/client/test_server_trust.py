"""Redirects, certificates and encryption: a server gets the token only if it is the right one."""

from __future__ import annotations

import re

import pytest

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import http_transport
from hearth.kube.client.connection import Connection
from hearth.model import errors
from support import repository
from support.real.servers.stub_server import run_stub, says
from support.units.static_credentials import FixedSource

CERTIFICATE = repository.DATA / "loopback.pem"
TOKEN = "Bearer token-of-the-operator"


async def test_a_redirect_is_refused_and_not_followed() -> None:
    async with run_stub(says("{}")) as elsewhere:
        moved = says("moved", code=307, headers={"Location": f"{elsewhere.url}/api"})
        async with run_stub(moved) as stub, Connection(find_source(stub.url)) as connection:
            for method in ("GET", "PATCH"):
                with pytest.raises(errors.ApiStatusError) as refused:
                    await connection.request(method, "/api")
                assert refused.value.code == 307
            with pytest.raises(errors.ApiStatusError):
                async with connection.stream("/api"):
                    pass
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("authority", "name", "is_trusted"),
    [
        pytest.param(True, None, True, id="its own authority"),
        pytest.param(True, "localhost", True, id="a name of its certificate"),
        pytest.param(False, None, False, id="an unknown authority"),
        pytest.param(True, "kubernetes.default.svc", False, id="another name"),
    ],
)
async def test_a_server_is_verified_before_it_hears_anything(
    authority: bool, name: str | None, is_trusted: bool
) -> None:
    own = re.search("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", CERTIFICATE.read_text(), re.DOTALL)
    assert own is not None
    async with run_stub(says("{}"), certificate=CERTIFICATE) as stub:
        source = find_source(stub.url, authority=own.group().encode() if authority else None, server_name=name)
        async with Connection(source) as connection:
            if is_trusted:
                assert await connection.request("GET", "/api") == {}
            else:
                with pytest.raises(errors.Unreachable):
                    await connection.request("GET", "/api")
                with pytest.raises(errors.Unreachable):
                    async with connection.stream("/api"):
                        pass
        assert [request.headers["Authorization"] for request in stub.requests] == [TOKEN] * is_trusted


def find_source(url: str, *, authority: bytes | None = None, server_name: str | None = None) -> FixedSource:
    """Credentials for that server."""
    return FixedSource(Credentials(server=url, authority=authority, authorization=TOKEN, server_name=server_name))


@pytest.mark.parametrize(
    ("server", "is_encrypted"), [("https://east", True), ("HTTPS://east", True), ("http://east", False)]
)
def test_no_spelling_of_the_scheme_turns_encryption_off(server: str, is_encrypted: bool) -> None:
    assert (http_transport.make_context(Credentials(server=server)) is not None) is is_encrypted
