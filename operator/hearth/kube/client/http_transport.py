"""What speaks HTTP under one set of credentials, and its answers in the words of `hearth.model.errors`.

Streams, and all that goes through a proxy, go through aiohttp; requests through a pool of our own, which takes a quarter of
the CPU. Must not know when credentials change or requests are repeated: `hearth.kube.client.connection` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import yarl

import hearth
from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.kube.client import api_status, http_response, salvage
from hearth.kube.client.connection_pool import CONNECT_TIMEOUT, KEEP_ALIVE, ConnectionPool
from hearth.model import errors, limits
from hearth.model.child import Object

AGENT = f"hearth/{hearth.__version__}"
EXCERPT_LENGTH = 200
NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
UNSENT = (*NO_ANSWER, ValueError)
"""ValueError: of what cannot be sent, as a malformed URL."""


class HttpTransport:
    """Two clients and what goes into each of their requests; once retired they close when the last user leaves."""

    def __init__(self, credentials: Credentials, session: aiohttp.ClientSession, pool: ConnectionPool | None) -> None:
        """pool: None where there is a proxy."""
        self.credentials = credentials
        self.session = session
        self._pool = pool
        self._users = 0
        self._is_retired = False
        self._limits: dict[float, aiohttp.ClientTimeout] = {}

    def update_token(self, credentials: Credentials) -> bool:
        """Use these from now on, if the connections can stay: when only the token is another one."""
        if without_token(credentials) != without_token(self.credentials):
            return False
        self.credentials = credentials
        return True

    async def close_when_idle(self) -> None:
        """Close as soon as nobody uses it."""
        self._is_retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """End everything at once; whoever still waits for an answer gets `Unreachable`."""
        if self._pool is not None:
            self._pool.close()
        await self.session.close()

    async def send(
        self, method: str, target: str, *, headers: dict[str, str], data: bytes | None, seconds: float
    ) -> Object:
        """The parsed answer."""
        self._users += 1
        if method == "GET":
            # Lists are long; of what is written the answer is short, or the server's CPU is worth more.
            headers["Accept-Encoding"] = "gzip"
        try:
            if self._pool is None:
                code, retry_after, raw = await self._send_by_session(method, target, headers, data, seconds)
            else:
                self._log_in(headers)
                answer = await self._pool.send(method, target, headers=headers, body=data, seconds=seconds)
                code, retry_after, raw = answer.code, answer.fields.get("retry-after", ""), answer.body
        except UNSENT as error:
            raise unreachable(method, target, error) from error
        finally:
            await self._leave()
        if code >= 300:
            raise refused(code, retry_after, raw)
        return await parse_answer(raw, method=method, target=target)

    async def _send_by_session(
        self, method: str, target: str, headers: dict[str, str], data: bytes | None, seconds: float
    ) -> tuple[int, str, bytes]:
        """Code, `Retry-After` and body of the answer."""
        response = await self._begin(method, target, headers, data, self._get_limits(seconds))
        async with response:
            body = http_response.decode(await read_body(response), response.headers.get("Content-Encoding", ""))
            return response.status, response.headers.get("Retry-After", ""), body

    @contextlib.asynccontextmanager
    async def watch(self, target: str, *, accept: str, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of an answer as they come."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle_timeout)
        self._users += 1
        try:
            response = await self._open(target, accept, limits)
            try:
                yield read_pieces(response, target)
            finally:
                # Gives the connection back where the body was read to its end, else closes it.
                response.release()
        finally:
            await self._leave()

    async def _open(self, target: str, accept: str, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """A response that is 2xx."""
        try:
            response = await self._begin("GET", target, {"Accept": accept}, None, limits)
            if response.status < 300:
                return response
            async with response:
                raise refused(response.status, response.headers.get("Retry-After", ""), await read_body(response))
        except UNSENT as error:
            raise unreachable("GET", target, error) from error

    async def _leave(self) -> None:
        self._users -= 1
        if self._is_retired and not self._users:
            await self.close()

    def _log_in(self, headers: dict[str, str]) -> None:
        if self.credentials.authorization is not None:
            headers["Authorization"] = self.credentials.authorization

    async def _begin(
        self, method: str, target: str, headers: dict[str, str], data: bytes | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        self._log_in(headers)
        headers.setdefault("Accept-Encoding", "identity")
        return await self.session.request(
            method,
            # Already quoted by whoever made the path; parsing it anew would cost more than all the rest here.
            yarl.URL(self.credentials.server + target, encoded=True),
            headers=headers,
            data=data,
            timeout=limits,
            server_hostname=self.credentials.server_name,
            # A token must never follow a redirect to another host; the API server does not redirect.
            allow_redirects=False,
        )

    def _get_limits(self, seconds: float) -> aiohttp.ClientTimeout:
        """One value for each length in use, since making it is not cheap."""
        limits = self._limits.get(seconds)
        if limits is None:
            limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)
            self._limits[seconds] = limits
        return limits


def without_token(credentials: Credentials) -> Credentials:
    """What a session is bound to."""
    return replace(credentials, authorization=None, expires_at=None, files={})


def make_wire(credentials: Credentials, context: ssl.SSLContext | None) -> HttpTransport:
    """Nothing is sent yet. context: for HTTPS."""
    server, name = credentials.server, credentials.server_name
    pool = ConnectionPool(server, context=context, server_name=name, agent=AGENT) if credentials.proxy is None else None
    return HttpTransport(credentials, make_session(credentials, context), pool)


def make_session(credentials: Credentials, context: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """A session without a limit of its own: streams would use it up."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context or True, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": AGENT},
        # What little inflates to a lot is inflated by us, up to a limit.
        auto_decompress=False,
        proxy=credentials.proxy,
    )


def make_context(credentials: Credentials) -> ssl.SSLContext | None:
    """The TLS settings, None for plain HTTP. Blocks: Python reads client certificates from files only."""
    if not credentials.server.startswith("https:"):
        return None
    try:
        authority = credentials.authority.decode() if credentials.authority else None
        context = ssl.create_default_context(cadata=authority)
        # Newer Pythons set it, and many a cluster's own authority lacks the extensions that it asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not credentials.is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credentials.certificate:
            load_certificate(context, credentials.certificate, credentials.key or b"")
    except (OSError, ValueError) as error:
        raise NoCredentials(f"the certificates for {credentials.server} cannot be used: {error}") from error
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let `context` show a client certificate."""
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.rstrip() + b"\n" + key)
        context.load_cert_chain(file)


async def parse_answer(raw: bytes, *, method: str, target: str) -> Object:
    """The object that the API server answered, or what can be read of it."""
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        answer = await salvage_answer(raw)
        if answer is None:
            raise errors.Unreachable(f"{method} {target}: the answer is not JSON: {excerpt(raw)}") from error
    if not isinstance(answer, dict):
        raise errors.Unreachable(f"{method} {target}: the answer is not an object: {excerpt(raw)}")
    return answer


async def salvage_answer(raw: bytes) -> Object | None:
    """What can be read of an answer that cannot be read as a whole, read apart where that takes time; None where that is nothing."""
    try:
        if len(raw) <= limits.INLINE_BYTES:
            return salvage.read_answer(raw) or None
        return await asyncio.to_thread(salvage.read_answer, raw) or None
    except ValueError:
        return None


def refused(code: int, retry_after: str, raw: bytes) -> errors.ApiStatusError:
    """The error for an answer other than 2xx. retry_after: the header, "" where there is none."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    status = api_status.clean(body) if isinstance(body, dict) and body.get("kind") == "Status" else None
    return errors.ApiStatusError(code=code, status=status, retry_after=api_status.find_delay(retry_after, status))


def unreachable(method: str, target: str, error: Exception) -> errors.Unreachable:
    """The error for an answer that did not come."""
    path = target.partition("?")[0]
    made = errors.AnswerTooLarge if isinstance(error, http_response.TooLong) else errors.Unreachable
    return made(f"no answer to {method} {path}: {str(error) or type(error).__name__}")


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """The body as it was sent. Raises `TooLong`."""
    pieces: list[bytes] = []
    length = 0
    async for piece in response.content.iter_any():
        length += len(piece)
        http_response.check_body(length)
        pieces.append(piece)
    return b"".join(pieces)


async def read_pieces(response: aiohttp.ClientResponse, target: str) -> AsyncIterator[bytes]:
    """The body as it comes."""
    try:
        async for piece in response.content.iter_any():
            yield piece
    except NO_ANSWER as error:
        raise unreachable("GET", target, error) from error


def excerpt(raw: bytes) -> str:
    """The beginning of an answer, fit for a message."""
    return repr(raw[:EXCERPT_LENGTH].decode(errors="replace"))
