"""Any bytes as a server's response: the result is an object or one of our own errors."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.kube.auth.credentials import Credentials
from hearth.kube.client import salvage
from hearth.kube.client.connection import Connection
from hearth.kube.remote.tenant_share import TenantShares
from hearth.model import errors
from support.real.servers.raw_server import run_raw_server
from support.units import fuzzing
from support.units.fuzzing import JSON, LONG, QUICK
from support.units.static_credentials import FixedSource

STATUS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.just("Status") | JSON,
        "code": JSON,
        "message": JSON,
        "reason": JSON,
        "details": JSON
        | st.fixed_dictionaries({}, optional={"causes": JSON | st.lists(JSON, max_size=2), "retryAfterSeconds": JSON}),
    },
)
BODIES = st.binary(max_size=40) | (STATUS | JSON).map(fuzzing.write)
CODES = st.sampled_from(
    ["200 OK", "204 No Content", "100 Continue", "302 Found", "401 No", "409 Conflict", "429", "503"]
)
DELAYS = st.sampled_from(["", "3", "-3", "NaN", "inf", "²", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT"])


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """An HTTP/1.1 response, and its expected contents."""
    body = draw(BODIES)
    lines = [f"HTTP/1.1 {draw(CODES)}"]
    if delay := draw(DELAYS):
        lines.append(f"Retry-After: {delay}")
    if draw(st.booleans()):
        body = gzip.compress(body, mtime=0)
        lines.append("Content-Encoding: gzip")
    match draw(st.sampled_from(["length", "chunks", "end"])):
        case "length":
            lines.append(f"Content-Length: {len(body)}")
        case "chunks":
            lines.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    head = "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace")
    return draw(fuzzing.damaged(head + body))


async def ask(raw: bytes, *, is_foreign: bool, as_stream: bool) -> None:
    """The result is an object or one of our own errors."""
    traffic = TenantShares(is_guarded=False).find("shop") if is_foreign else None
    async with (
        run_raw_server([raw], closes=True) as server,
        Connection(FixedSource(Credentials(server=server.url)), traffic) as connection,
    ):
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            if as_stream:
                async with connection.stream("/x", idle_timeout=2.0) as chunks:
                    assert all([isinstance(chunk, bytes) async for chunk in chunks])
            else:
                assert isinstance(await connection.request("GET", "/x", timeout=2.0), dict)


WAYS = [
    pytest.param(False, False, id="a request"),
    pytest.param(True, False, id="a request to another cluster"),
    pytest.param(True, True, id="a stream of another cluster"),
]


def over_a_socket(*, is_foreign: bool, as_stream: bool) -> Callable[[bytes], None]:
    """The test of one answer."""

    def check(raw: bytes) -> None:
        asyncio.run(ask(raw, is_foreign=is_foreign, as_stream=as_stream))

    return check


@pytest.mark.parametrize(("is_foreign", "as_stream"), WAYS)
def test_any_answer_is_one_of_two_errors_at_worst(*, is_foreign: bool, as_stream: bool) -> None:
    settings(QUICK, max_examples=60)(given(answers())(over_a_socket(is_foreign=is_foreign, as_stream=as_stream)))()


@pytest.mark.soak
@pytest.mark.parametrize(("is_foreign", "as_stream"), WAYS)
def test_any_answer_is_one_of_two_errors_at_worst_for_long(*, is_foreign: bool, as_stream: bool) -> None:
    settings(LONG, max_examples=1_000)(given(answers())(over_a_socket(is_foreign=is_foreign, as_stream=as_stream)))()


KEYS = st.sampled_from(["items", "metadata", "spec", "a"])
TEXTS = st.text(alphabet='a"\\{}[],: é', max_size=6)
NESTED = st.recursive(
    fuzzing.LEAVES | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(KEYS, NESTED, max_size=4))
@QUICK
def test_what_is_taken_apart_is_what_is_written_there(stated: dict[str, Any]) -> None:
    deep = orjson.dumps({**stated, "deep": "here"}).replace(b'"here"', b"[" * 300 + b"]" * 300)
    found = salvage.read_object(deep, 0)
    omission = salvage.find_omission(found)
    assert omission is not None
    assert list(omission.paths) == ["deep"]
    assert {key: value for key, value in found.items() if key != salvage.OMITTED} == stated
