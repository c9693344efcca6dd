"""A connection to a server that a tenant chose."""

from __future__ import annotations

import json

import pytest

from hearth.kube.auth.credentials import Credentials
from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig
from hearth.kube.remote.remote_connection import RemoteConnection
from hearth.model import errors, limits
from support.real.servers import stub_server
from support.real.servers.stub_server import says

TOKEN = "canary-token-0123456789"
ECHO = f"who are you, Bearer {TOKEN}? " * 3


def connect(url: str) -> RemoteConnection:
    credentials = Credentials(server=url, authorization=f"Bearer {TOKEN}", is_foreign=True)
    return RemoteConnection(InlineKubeconfig(credentials=credentials, key="k", hidden_texts=frozenset({TOKEN})))


@pytest.mark.parametrize(
    "answer",
    [
        says(json.dumps({"kind": "Status", "message": ECHO, "details": {"name": ECHO}}), code=403),
        says(ECHO, code=200),
        says(json.dumps([ECHO]), code=200),
    ],
    ids=["status", "no JSON", "no object"],
)
async def test_a_server_that_repeats_the_credentials_puts_them_in_no_error(answer: stub_server.Answer) -> None:
    """Neither in its text nor in the Status, of a request or a stream."""
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises((errors.ApiStatusError, errors.Unreachable)) as raised:
            await connection.request("GET", "/api")
        assert TOKEN not in str(raised.value)
        assert TOKEN not in json.dumps(getattr(raised.value, "status", None))
        assert raised.value.__cause__ is None
        assert stub.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


async def test_a_stream_that_is_refused_repeats_nothing_either() -> None:
    """Watches are most of the traffic."""
    answer = says(json.dumps({"kind": "Status", "message": ECHO}), code=401)
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises(errors.ApiStatusError) as raised:
            async with connection.stream("/api/v1/pods"):
                pass
        assert TOKEN not in str(raised.value)


async def test_a_document_beyond_the_limit_is_not_parsed() -> None:
    """Parsing it at once would hold up all clusters."""
    answer = says(b'{"components": {"schemas": {"a": "' + b"x" * limits.CLUSTER_SCHEMA_BYTES + b'"}}}')
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises(errors.AnswerTooLarge):
            await connection.request("GET", "/openapi/v3/apis/apps/v1")
