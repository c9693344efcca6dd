"""Requests and streams against a server that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web

from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.kube.client import connection as connection_module
from hearth.kube.client import salvage
from hearth.kube.client.connection import Connection
from hearth.model import errors, limits
from support.real.servers import stub_server
from support.real.servers.stub_server import hangs_up, run_stub, says, streams, waits
from support.units import waiting


@dataclass
class FixedSource:
    """Returns sets of credentials in order; the last one repeatedly."""

    queue: list[Credentials | NoCredentials]
    loads: int = 0

    def load(self) -> Credentials:
        self.loads += 1
        found = self.queue.pop(0) if len(self.queue) > 1 else self.queue[0]
        if isinstance(found, NoCredentials):
            raise found
        return found


def source_of(url: str, *tokens: str) -> FixedSource:
    """Credentials for that server, with these tokens in order."""
    return FixedSource([Credentials(server=url, authorization=f"Bearer {token}") for token in tokens or ("first",)])


UNAUTHORIZED = says(b'{"kind": "Status", "code": 401, "message": "Unauthorized"}', code=401)


async def test_a_request_gives_the_parsed_answer() -> None:
    async with run_stub(says('{"kind": "Pong"}')) as stub, Connection(source_of(stub.url)) as connection:
        answer = await connection.request(
            "PATCH",
            "/api/v1/things/a",
            query={"fieldManager": "hearth:a/b c", "force": "true"},
            body={"kind": "Ping"},
            content_type="application/apply-patch+yaml",
            impersonate="system:serviceaccount:a:b",
        )
    sent = stub.requests[0]
    assert answer == {"kind": "Pong"}
    assert (sent.method, sent.path, dict(sent.query)) == (
        "PATCH",
        "/api/v1/things/a",
        {"fieldManager": "hearth:a/b c", "force": "true"},
    )
    assert stub.bodies == [b'{"kind":"Ping"}']
    assert sent.headers["Content-Type"] == "application/apply-patch+yaml"
    assert sent.headers["Impersonate-User"] == "system:serviceaccount:a:b"
    assert sent.headers["Authorization"] == "Bearer first"
    assert sent.headers["User-Agent"].startswith("hearth/")


async def test_each_request_acts_as_the_user_of_the_credentials() -> None:
    async with run_stub(says("{}")) as stub:
        source = FixedSource([Credentials(server=stub.url, authorization="Bearer t", user="ada")])
        async with Connection(source) as connection:
            await connection.request("GET", "/api")
            await connection.request("GET", "/api", impersonate="bob")
            async with connection.stream("/api"):
                pass
    assert [each.headers["Impersonate-User"] for each in stub.requests] == ["ada", "bob", "ada"]


async def test_a_path_is_sent_as_it_was_quoted() -> None:
    async with run_stub(says("{}")) as stub, Connection(source_of(stub.url)) as connection:
        await connection.request("GET", "/apis/rbac/roles/system%3Aa%2Fb")
    assert stub.requests[0].raw_path == "/apis/rbac/roles/system%3Aa%2Fb"


@pytest.mark.parametrize(
    ("body", "code", "headers", "status", "retry_after"),
    [
        pytest.param(
            '{"kind": "Status", "message": "no"}', 422, {}, {"kind": "Status", "message": "no"}, None, id="status"
        ),
        pytest.param("404 page not found", 404, {}, None, None, id="plain text"),
        pytest.param('{"kind": "Other"}', 500, {}, None, None, id="an object that is no Status"),
        pytest.param("[1]", 500, {}, None, None, id="a list"),
        pytest.param("busy", 429, {"Retry-After": "7"}, None, 7.0, id="the header's delay"),
        pytest.param(
            '{"kind": "Status", "details": {"retryAfterSeconds": 2}}',
            504,
            {},
            {"kind": "Status", "details": {"retryAfterSeconds": 2}},
            2.0,
            id="the status' delay",
        ),
        pytest.param("", 302, {"Location": "http://elsewhere.invalid/"}, None, None, id="a redirect is not followed"),
    ],
)
async def test_anything_but_2xx_is_refused(
    body: str, code: int, headers: dict[str, str], status: object, retry_after: float | None
) -> None:
    async with run_stub(says(body, code=code, headers=headers)) as stub, Connection(source_of(stub.url)) as connection:
        with pytest.raises(errors.ApiStatusError) as caught:
            await connection.request("GET", "/x")
    assert (caught.value.code, caught.value.status, caught.value.retry_after) == (code, status, retry_after)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hangs_up, id="the connection is torn"),
        pytest.param(streams(b'{"a":', breaks=True), id="torn in the middle of the body"),
        pytest.param(says("<html>welcome</html>"), id="not JSON"),
        pytest.param(says("[]"), id="JSON, but no object"),
    ],
)
async def test_an_answer_that_is_none_is_unreachable(answer: stub_server.Answer) -> None:
    async with run_stub(answer) as stub, Connection(source_of(stub.url)) as connection:
        with pytest.raises(errors.Unreachable, match="GET /x"):
            await connection.request("GET", "/x")


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with run_stub(says("{}")) as stub:
        url = stub.url
    async with Connection(source_of(url)) as connection:
        with pytest.raises(errors.Unreachable, match="GET /x"):
            await connection.request("GET", "/x")


async def test_a_proxy_is_asked_in_the_server_s_stead() -> None:
    async with run_stub(says('{"kind": "Pong"}'), says("busy", code=429, headers={"Retry-After": "7"})) as stub:
        source = FixedSource([Credentials(server="http://elsewhere.invalid", proxy=stub.url)])
        async with Connection(source) as connection:
            assert await connection.request("PATCH", "/x", body={"kind": "Ping"}) == {"kind": "Pong"}
            with pytest.raises(errors.ApiStatusError) as caught:
                await connection.request("GET", "/x")
    assert [request.headers["Host"] for request in stub.requests] == ["elsewhere.invalid"] * 2
    assert (stub.bodies[0], caught.value.code, caught.value.retry_after) == (b'{"kind":"Ping"}', 429, 7.0)


async def test_an_answer_that_takes_too_long_is_unreachable() -> None:
    gate = asyncio.Event()
    async with run_stub(waits(gate, says("{}"))) as stub, Connection(source_of(stub.url)) as connection:
        with pytest.raises(errors.Unreachable, match="GET /x"):
            await connection.request("GET", "/x", timeout=0.05)
        gate.set()


async def test_after_one_401_the_credentials_are_read_again_and_the_request_is_repeated() -> None:
    async with (
        run_stub(UNAUTHORIZED, says('{"kind": "Pong"}')) as stub,
        Connection(source_of(stub.url, "old", "new")) as connection,
    ):
        answer = await connection.request("POST", "/x", body={"a": 1})
    assert answer == {"kind": "Pong"}
    assert [request.headers["Authorization"] for request in stub.requests] == ["Bearer old", "Bearer new"]
    assert stub.bodies == [b'{"a":1}', b'{"a":1}']


async def test_a_second_401_is_refused_and_not_asked_a_third_time() -> None:
    async with run_stub(UNAUTHORIZED) as stub, Connection(source_of(stub.url, "old", "new")) as connection:
        with pytest.raises(errors.ApiStatusError) as caught:
            await connection.request("GET", "/x")
    assert (caught.value.code, len(stub.requests)) == (401, 2)


async def test_many_401_at_once_read_the_credentials_once() -> None:
    answers = [UNAUTHORIZED] * 20 + [says("{}")]
    async with run_stub(*answers) as stub:
        source = source_of(stub.url, "old", "new")
        async with Connection(source) as connection:
            await asyncio.gather(*(connection.request("GET", "/x") for _ in range(20)))
    assert (source.loads, len(stub.requests)) == (2, 40)


async def test_credentials_for_another_server_replace_the_session() -> None:
    async with run_stub(UNAUTHORIZED) as old, run_stub(says('{"kind": "New"}')) as new:
        source = FixedSource([Credentials(server=old.url), Credentials(server=new.url)])
        async with Connection(source) as connection:
            assert await connection.request("GET", "/x") == {"kind": "New"}


async def test_a_stream_survives_the_replacement_of_its_session() -> None:
    gate = asyncio.Event()
    async with run_stub(says("{}")) as other:

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/x":
                return await UNAUTHORIZED(request)
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one")
            await gate.wait()
            await response.write(b"two")
            return response

        async with run_stub(answer) as stub:
            source = FixedSource([Credentials(server=stub.url), Credentials(server=other.url)])
            async with Connection(source) as connection:
                old = connection._get_transport().session
                async with connection.stream("/w") as pieces:
                    first = await anext(pieces)
                    await connection.request("GET", "/x")
                    gate.set()
                    assert [first, *[piece async for piece in pieces]] == [b"one", b"two"]
                    assert not old.closed
                assert old.closed


async def test_a_rotated_token_file_is_noticed_by_the_periodic_look(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a")
    async with run_stub(says("{}")) as stub:
        old = Credentials(server=stub.url, authorization="Bearer old", files={str(token): 1.0})
        new = replace(old, authorization="Bearer new", files={str(token): token.stat().st_mtime})
        async with Connection(FixedSource([old, new])) as connection:
            await connection.request("GET", "/x")
            connection._check_at = 0.0
            await connection.request("GET", "/x")
    assert [request.headers["Authorization"] for request in stub.requests] == ["Bearer old", "Bearer new"]


async def test_credentials_that_cannot_be_read_for_now_leave_the_old_ones_in_use() -> None:
    async with run_stub(says("{}")) as stub:
        old = Credentials(server=stub.url, authorization="Bearer old", expires_at=1.0)
        source = FixedSource([old, NoCredentials("plugin broken")])
        async with Connection(source) as connection:
            connection._check_at = 0.0
            await connection.request("GET", "/x")
    assert (source.loads, stub.requests[0].headers["Authorization"]) == (2, "Bearer old")


async def test_after_a_401_unreadable_credentials_are_unreachable_with_the_reason() -> None:
    async with run_stub(UNAUTHORIZED) as stub:
        source = FixedSource([Credentials(server=stub.url), NoCredentials("plugin broken")])
        async with Connection(source) as connection:
            with pytest.raises(errors.Unreachable, match="plugin broken"):
                await connection.request("GET", "/x")


async def test_requests_beyond_the_limit_wait_for_a_place() -> None:
    gate = asyncio.Event()
    async with run_stub(waits(gate, says("{}"))) as stub, Connection(source_of(stub.url)) as connection:
        tasks = [asyncio.create_task(connection.request("GET", "/x")) for _ in range(100)]
        await waiting.wait_until(lambda: stub.in_flight == connection_module.REQUESTS_IN_FLIGHT)
        gate.set()
        await asyncio.gather(*tasks)
    assert (stub.in_flight_most, len(stub.requests)) == (connection_module.REQUESTS_IN_FLIGHT, 100)


async def test_streams_leave_the_requests_their_places() -> None:
    gate = asyncio.Event()
    answers = [*[streams_until(gate)] * 100, says('{"kind": "Pong"}')]
    async with run_stub(*answers) as stub, Connection(source_of(stub.url)) as connection:
        tasks = [asyncio.create_task(collect(connection, "/w")) for _ in range(100)]
        await waiting.wait_until(lambda: stub.in_flight == 100)
        assert await connection.request("GET", "/x") == {"kind": "Pong"}
        gate.set()
        await asyncio.gather(*tasks)


async def test_connections_are_kept_and_used_again() -> None:
    async with run_stub(says("{}")) as stub, Connection(source_of(stub.url)) as connection:
        ports = set()
        for _ in range(5):
            await connection.request("GET", "/x")
            ports.add(stub.requests[-1].transport.get_extra_info("peername")[1])  # type: ignore[union-attr]  # because a served request has its transport
    assert len(ports) == 1


async def test_a_stream_gives_the_bytes_as_they_come() -> None:
    async with run_stub(streams(b"one\n", b"tw", b"o\n")) as stub, Connection(source_of(stub.url)) as connection:
        assert await collect(connection, "/w", query={"watch": "1"}) == b"one\ntwo\n"
    assert stub.requests[0].query["watch"] == "1"


async def test_a_stream_that_is_left_early_is_closed() -> None:
    gate = asyncio.Event()
    async with run_stub(streams_until(gate, b"one")) as stub, Connection(source_of(stub.url)) as connection:
        async with connection.stream("/w") as pieces:
            assert await anext(pieces) == b"one"
        await waiting.wait_until(
            lambda: (stub.requests[0].transport is None) or stub.requests[0].transport.is_closing()
        )
        gate.set()


async def test_a_stream_that_is_refused_says_so_on_entering() -> None:
    async with run_stub(says('{"kind": "Status"}', code=410)) as stub, Connection(source_of(stub.url)) as connection:
        with pytest.raises(errors.ApiStatusError) as caught:
            await collect(connection, "/w")
    assert (caught.value.code, caught.value.status) == (410, {"kind": "Status"})


async def test_a_stream_renews_the_credentials_after_a_401() -> None:
    async with (
        run_stub(UNAUTHORIZED, streams(b"one")) as stub,
        Connection(source_of(stub.url, "old", "new")) as connection,
    ):
        assert await collect(connection, "/w") == b"one"


async def test_a_stream_that_breaks_is_unreachable() -> None:
    async with (
        run_stub(streams(b"one", breaks=True)) as stub,
        Connection(source_of(stub.url)) as connection,
        connection.stream("/w") as pieces,
    ):
        assert await anext(pieces) == b"one"
        with pytest.raises(errors.Unreachable, match="GET /w"):
            await anext(pieces)


async def test_a_stream_that_falls_silent_is_unreachable() -> None:
    gate = asyncio.Event()
    async with run_stub(streams_until(gate)) as stub, Connection(source_of(stub.url)) as connection:
        async with connection.stream("/w", idle_timeout=0.05) as pieces:
            with pytest.raises(errors.Unreachable, match="GET /w"):
                await anext(pieces)
        gate.set()


async def test_a_closed_connection_is_unreachable() -> None:
    gate = asyncio.Event()
    async with run_stub(waits(gate, says("{}"))) as stub:
        connection = Connection(source_of(stub.url))
        await connection.open()
        task = asyncio.create_task(connection.request("GET", "/x"))
        await waiting.wait_until(lambda: stub.in_flight == 1)
        await connection.close()
        with pytest.raises(errors.Unreachable):
            await task
        with pytest.raises(errors.Unreachable, match="closed"):
            await connection.request("GET", "/x")
        gate.set()


async def test_a_cancelled_request_leaves_its_place() -> None:
    gate = asyncio.Event()
    async with run_stub(waits(gate, says("{}"))) as stub, Connection(source_of(stub.url)) as connection:
        for _ in range(connection_module.REQUESTS_IN_FLIGHT + 5):
            task = asyncio.create_task(connection.request("GET", "/x"))
            await waiting.wait_until(lambda: stub.in_flight >= 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        gate.set()
        assert await connection.request("GET", "/x") == {}


def test_credentials_never_show_their_secrets() -> None:
    shown = repr(Credentials(server="https://a", authorization="Bearer secret-token", key=b"secret-key"))
    assert "secret" not in shown


async def collect(connection: Connection, path: str, *, query: dict[str, str] | None = None) -> bytes:
    """All bytes of a stream."""
    async with connection.stream(path, query=query) as pieces:
        return b"".join([piece async for piece in pieces])


def streams_until(gate: asyncio.Event, *pieces: bytes) -> stub_server.Answer:
    """An answer that begins with these pieces, and ends when `gate` is set."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await gate.wait()
        return response

    return answer


async def test_opening_again_ends_what_was_open() -> None:
    connection = Connection(source_of("http://127.0.0.1:1"))
    await connection.open()
    session = connection._get_transport().session
    await connection.open()
    assert session.closed
    await connection.close()


DEEP = b'{"metadata":{"name":"a"},"spec":' + b"[" * 1_100 + b"]" * 1_100 + b"}"


@pytest.mark.parametrize("is_proxied", [False, True])
async def test_of_an_answer_that_is_too_deep_the_rest_is_read(*, is_proxied: bool) -> None:
    async with run_stub(says(DEEP)) as stub:
        stated = Credentials(server="http://elsewhere.invalid", proxy=stub.url) if is_proxied else None
        source = FixedSource([stated]) if stated is not None else source_of(stub.url)
        async with Connection(source) as connection:
            answer = await connection.request("GET", "/x")
    assert answer["metadata"] == {"name": "a"}
    assert str(salvage.find_omission(answer)).startswith("spec is nested too deeply")


@pytest.mark.parametrize("is_proxied", [False, True])
async def test_an_answer_that_inflates_to_too_much_is_too_large(*, is_proxied: bool) -> None:
    bomb = says(gzip.compress(bytes(limits.BODY_BYTES + 1)), headers={"Content-Encoding": "gzip"})
    async with run_stub(bomb) as stub:
        stated = Credentials(server="http://elsewhere.invalid", proxy=stub.url) if is_proxied else None
        source = FixedSource([stated]) if stated is not None else source_of(stub.url)
        async with Connection(source) as connection:
            with pytest.raises(errors.AnswerTooLarge, match="GET /x"):
                await connection.request("GET", "/x")
