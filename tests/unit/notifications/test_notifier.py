"""Notifications to a played receiver: one that works, is slow, is away, lies, or attacks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest
import structlog
from aiohttp import web

from hearth.notifications import fair_queue, receiver
from hearth.notifications.messages import Message
from hearth.notifications.notifier import Notifier
from hearth.notifications.receiver import Attempt, Verdict
from hearth.plan.status.stack_notices import NoticeType, StackNotice
from support import free_port, repository
from support.real.servers import stub_server
from support.units import stack_objects

PATH = "/services/T0/B0/hunter2"
KEY = b"k" * 32
CERTIFICATE = repository.DATA / "loopback.pem"
"""For 127.0.0.1, and its own authority."""
WAIT = 10.0
"""Seconds, on a busy machine."""
MESSAGE = Message(id="1", namespace="a", type="", content=b"{}", content_type="application/json")
Raw: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(code: int, **headers: str) -> stub_server.Answer:
    async def send(_request: web.BaseRequest) -> web.Response:
        return web.Response(status=code, headers=headers)

    return send


async def never(_request: web.BaseRequest) -> web.Response:
    await asyncio.sleep(60)
    raise AssertionError


def configure(folder: Path, url: str) -> Path:
    """The files of the Secret."""
    (folder / "url").write_text(f"{url}{PATH}\n")
    (folder / "key").write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
    return folder


def make_notice(message: str = "web: denied") -> StackNotice:
    return StackNotice(type=NoticeType.FAILED, reason="Denied", message=message, phase="CreateFailed", revision=1)


@contextlib.asynccontextmanager
async def notifying(folder: Path) -> AsyncIterator[tuple[Notifier, list[str]]]:
    """A notifier at work, and its results."""
    results: list[str] = []
    notifier = Notifier(str(folder), is_slack=False, source="/hearth", on_result=results.append)
    notifier.start()
    try:
        yield notifier, results
    finally:
        await notifier.stop()


async def wait_for(count: Callable[[], int], number: int) -> None:
    async with asyncio.timeout(WAIT):
        while count() < number:  # noqa: ASYNC110 -- another program's state has no event
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def raw_receiver(send: Raw) -> AsyncIterator[str]:
    """A receiver that sends any bytes once it got a request."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            await send(writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def send_once(folder: Path, *, seconds: float = WAIT) -> Attempt:
    async with receiver.make_session(seconds) as session:
        return await receiver.send(session, folder, MESSAGE, is_signed=True, now=time.time())


@pytest.fixture
def lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """The log."""
    with structlog.testing.capture_logs() as captured:
        yield captured


async def test_a_notification_arrives_with_a_signature_that_its_receiver_can_verify(tmp_path: Path) -> None:
    async with (
        stub_server.run_stub(answer(204)) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        notifier.notify(stack_objects.make_stack(), make_notice())
        await wait_for(lambda: len(results), 1)

    (request,), (body,) = stub.requests, stub.bodies
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{signature}"
    assert abs(time.time() - int(request.headers["webhook-timestamp"])) < WAIT
    assert orjson.loads(body)["id"] == request.headers["webhook-id"]
    assert (stub.asked, results) == ([f"POST {PATH}"], ["sent"])


async def test_a_failed_attempt_is_repeated_with_the_same_id(
    tmp_path: Path, lines: list[MutableMapping[str, Any]]
) -> None:
    stub_answers = (answer(500), answer(200))
    async with (
        stub_server.run_stub(*stub_answers) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        notifier.notify(stack_objects.make_stack(), make_notice())
        await wait_for(lambda: len(results), 1)

    assert (results, len({each.headers["webhook-id"] for each in stub.requests}), len(stub.requests)) == (
        ["sent"],
        1,
        2,
    )
    assert [(each["event"], each["reason"]) for each in lines] == [("notification not sent; retrying", "HTTP 500")]


async def test_a_rejected_notification_is_not_repeated(tmp_path: Path, lines: list[MutableMapping[str, Any]]) -> None:
    async with (
        stub_server.run_stub(answer(403)) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        notifier.notify(stack_objects.make_stack(), make_notice())
        await wait_for(lambda: len(results), 1)

    assert (results, len(stub.requests)) == (["failed"], 1)
    assert [(each["event"], each["reason"]) for each in lines] == [("notification lost", "HTTP 403")]


async def test_a_tenant_who_flaps_delays_no_other_and_nobody_waits(
    tmp_path: Path, lines: list[MutableMapping[str, Any]]
) -> None:
    async with (
        stub_server.run_stub(answer(200)) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        started = time.monotonic()
        for number in range(2000):
            notifier.notify(stack_objects.make_stack(resource_version=number), make_notice())
        notifier.notify(stack_objects.make_stack(namespace="quiet"), make_notice())
        assert (results, len(stub.requests)) == (["dropped"] * (2000 - fair_queue.RATE), 0)
        assert time.monotonic() - started < 2.0
        await wait_for(lambda: len(stub.bodies), 2)

        assert [orjson.loads(each)["data"]["namespace"] for each in stub.bodies[:2]] == ["a", "quiet"]
    assert [each["result"] for each in lines if each["event"] == "notification lost"] == ["dropped"]


async def test_a_message_that_makes_the_receiver_fail_delays_no_other(tmp_path: Path) -> None:
    async def fail_first(request: web.BaseRequest) -> web.Response:
        body = await request.text()
        return web.Response(status=500 if "poison" in body else 204)

    async with (
        stub_server.run_stub(fail_first) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        for number in range(5):
            notifier.notify(stack_objects.make_stack(namespace="hostile"), make_notice(f"poison {number}"))
        await wait_for(lambda: len(stub.requests), 5)
        notifier.notify(stack_objects.make_stack(namespace="shop"), make_notice())
        async with asyncio.timeout(1):
            await wait_for(lambda: len(results), 1)

    assert results[0] == "sent"


async def test_a_notification_is_not_sent_after_its_lifetime(tmp_path: Path) -> None:
    results, times = list[str](), [0.0]
    async with stub_server.run_stub(answer(204)) as stub:
        notifier = Notifier(
            str(configure(tmp_path, stub.url)),
            is_slack=False,
            source="/hearth",
            on_result=results.append,
            monotonic=lambda: times[0],
        )
        notifier.notify(stack_objects.make_stack(), make_notice())
        times[0] = fair_queue.LIFETIME + 1
        notifier.start()
        await wait_for(lambda: len(results), 1)
        await notifier.stop()

    assert (results, stub.requests) == (["failed"], [])


async def test_one_notification_is_sent_at_a_time(tmp_path: Path) -> None:
    async with (
        stub_server.run_stub(answer(200)) as stub,
        notifying(configure(tmp_path, stub.url)) as (notifier, results),
    ):
        for number in range(10):
            notifier.notify(stack_objects.make_stack(namespace=f"n{number}"), make_notice())
        await wait_for(lambda: len(results), 10)

    assert stub.in_flight_most == 1


async def test_a_new_receiver_needs_no_restart(tmp_path: Path) -> None:
    async with (
        stub_server.run_stub(answer(200)) as old,
        stub_server.run_stub(answer(200)) as new,
        notifying(configure(tmp_path, old.url)) as (notifier, results),
    ):
        notifier.notify(stack_objects.make_stack(), make_notice())
        await wait_for(lambda: len(results), 1)
        configure(tmp_path, new.url)
        notifier.notify(stack_objects.make_stack(resource_version=8), make_notice())
        await wait_for(lambda: len(results), 2)

    assert (len(old.requests), len(new.requests)) == (1, 1)


async def test_a_slow_receiver_is_given_up(tmp_path: Path) -> None:
    async with stub_server.run_stub(never) as stub:
        attempt = await send_once(configure(tmp_path, stub.url), seconds=0.2)

    assert attempt == Attempt(verdict=Verdict.RETRY, problem="no answer: TimeoutError")


async def test_a_receiver_that_is_away_is_tried_again(tmp_path: Path) -> None:
    attempt = await send_once(configure(tmp_path, f"http://127.0.0.1:{free_port.find_free_port()}"))

    assert attempt == Attempt(verdict=Verdict.RETRY, problem="no answer: ClientConnectorError")


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with stub_server.run_stub(answer(200)) as other:
        async with stub_server.run_stub(answer(307, Location=f"{other.url}/steal")) as stub:
            attempt = await send_once(configure(tmp_path, stub.url))
        assert other.requests == []

    assert attempt == Attempt(verdict=Verdict.REJECTED, problem="HTTP 307; redirects are not followed")


async def test_a_body_without_end_is_not_read(tmp_path: Path) -> None:
    written = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            written += 65536
            await writer.drain()

    async with raw_receiver(flood) as url:
        attempt = await send_once(configure(tmp_path, url))

    assert attempt == Attempt(verdict=Verdict.SENT)
    assert written < 32 * 2**20


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", id="interim responses"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, id="headers"),
        pytest.param(b"not HTTP at all\r\n", id="another protocol"),
    ],
)
async def test_an_answer_without_end_is_given_up_at_once(tmp_path: Path, flood: bytes) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        for _ in range(10_000):
            writer.write(flood)
            await writer.drain()
        await asyncio.sleep(60)

    async with raw_receiver(send) as url:
        started = time.process_time()
        attempt = await send_once(configure(tmp_path, url))

    assert (attempt.verdict, "Timeout" in attempt.problem) == (Verdict.RETRY, False)
    assert time.process_time() - started < 2.0


async def test_only_a_receiver_with_a_trusted_certificate_gets_notifications(tmp_path: Path) -> None:
    async with stub_server.run_stub(answer(204), certificate=CERTIFICATE) as stub:
        attempt = await send_once(configure(tmp_path, stub.url))
        assert attempt == Attempt(verdict=Verdict.RETRY, problem="no answer: ClientConnectorCertificateError")
        assert stub.requests == []

        (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
        assert await send_once(tmp_path) == Attempt(verdict=Verdict.SENT)


async def test_notifications_use_the_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stub_server.run_stub(answer(200)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        attempt = await send_once(configure(tmp_path, "http://hooks.example"))

    assert attempt == Attempt(verdict=Verdict.SENT)
    assert proxy.requests[0].headers["Host"] == "hooks.example"


@pytest.mark.parametrize(
    ("code", "retry_after", "expected"),
    [
        (201, "", Attempt(verdict=Verdict.SENT)),
        (304, "", Attempt(verdict=Verdict.REJECTED, problem="HTTP 304; redirects are not followed")),
        (410, "", Attempt(verdict=Verdict.REJECTED, problem="HTTP 410")),
        (429, "7", Attempt(verdict=Verdict.RETRY, problem="HTTP 429", pause=7.0)),
        (503, "86400", Attempt(verdict=Verdict.RETRY, problem="HTTP 503", pause=60.0)),
        (503, "9" * 100_000, Attempt(verdict=Verdict.RETRY, problem="HTTP 503", pause=60.0)),
        (503, "-1", Attempt(verdict=Verdict.RETRY, problem="HTTP 503", pause=0.0)),
        (503, "²", Attempt(verdict=Verdict.RETRY, problem="HTTP 503", pause=0.0)),
        (503, "Fri, 31 Dec 2027 23:59:59 GMT", Attempt(verdict=Verdict.RETRY, problem="HTTP 503", pause=0.0)),
    ],
)
def test_the_code_of_the_answer_decides(code: int, retry_after: str, expected: Attempt) -> None:
    assert receiver.judge(code, retry_after) == expected


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("url", b"", "must contain the URL of the receiver"),
        ("url", b"hooks.example/hunter2", "must contain the URL of the receiver"),
        ("url", b"file:///etc/hunter2", "must contain the URL of the receiver"),
        ("url", b"https://[hunter2", "must contain the URL of the receiver"),
        ("url", b"\xff", "cannot be read: UnicodeDecodeError"),
        ("url", b"x" * 300_000, "has more than 262144 bytes"),
        ("key", b"", "must contain the key of the signatures"),
        ("key", b"hunter2", "must be whsec_ and 24 to 64 bytes in base64"),
        ("ca.crt", b"hunter2", "must contain certificates as PEM"),
        ("ca.crt", "hünter2".encode(), "must contain certificates as PEM"),
    ],
)
async def test_a_mistake_in_a_file_is_reported_without_its_content(
    tmp_path: Path, file: str, content: bytes, problem: str
) -> None:
    (configure(tmp_path, "https://hooks.example") / file).write_bytes(content)

    attempt = await send_once(tmp_path)

    assert attempt.verdict is Verdict.RETRY
    assert f"{tmp_path / file} {problem}" in attempt.problem
    assert "hunter2" not in attempt.problem


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nowhere.invalid", "http://127.0.0.1:99999"])
async def test_the_log_never_contains_the_url(tmp_path: Path, url: str, lines: list[MutableMapping[str, Any]]) -> None:
    async with notifying(configure(tmp_path, url)) as (notifier, _):
        notifier.notify(stack_objects.make_stack(), make_notice())
        await wait_for(lambda: len(lines), 1)

    assert "hunter2" not in str(lines)
    assert lines[0]["event"] == "notification not sent; retrying"
