"""Sends HTTP requests with one set of credentials, and translates errors to those of `hearth.model.errors`.

aiohttp sends them. This module sets its limits and TLS rules. `hearth.kube.client.connection` reloads credentials and
repeats requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import aiohttp
import orjson
import yarl

import hearth
from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.kube.auth.foreign_servers import Traffic
from hearth.kube.client import api_status, guarded_connector, response_body, salvage
from hearth.model import errors, limits
from hearth.model.child import Object

AGENT = f"hearth/{hearth.__version__}"
CONNECT_TIMEOUT = 10.0
"""Seconds to connect, including the lookup of the name and TLS; a healthy server needs milliseconds."""
KEEP_ALIVE = 15.0
"""Seconds that an idle connection stays open. Each takes some 50 KiB, mostly TLS buffers, and a burst leaves up to 80.
The API server closes its side after 90 s, so it is never the first."""
FIRST_FINAL = 200
"""Lower codes do not complete a request."""
EXCERPT_LENGTH = 200
FOREIGN_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""With TLS 1.2; every API server since Kubernetes 1.9 has them."""
FOREIGN_CURVE = "prime256v1"
"""The only group that every server supports with TLS 1.2 and 1.3. The default groups include Diffie-Hellman with 8,192
bits."""
OPENAPI = "/openapi/"
NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
ReadAnswer: TypeAlias = Callable[[bytes], Object | None]
"""Reads the object in the body of a successful response; returns None if the body must be parsed as a whole."""
UNSENT = (*NO_ANSWER, ValueError)
"""ValueError: for input that cannot be sent, for example a malformed URL."""


class HttpTransport:
    """An HTTP client and the settings of its requests; after `close_when_idle`, the last user closes it."""

    def __init__(
        self,
        credentials: Credentials,
        context: ssl.SSLContext | None,
        traffic: Traffic | None = None,
        *,
        body_bytes: int | None = None,
    ) -> None:
        """Create the client; send nothing.

        context: for HTTPS; traffic: the account of a server that is not trusted; body_bytes: maximum size of one
        response; None for the usual one.
        """
        self._traffic = traffic
        self._body_bytes = traffic.body_bytes if traffic is not None else body_bytes or limits.BODY_BYTES
        self.credentials = credentials
        self.session = make_session(credentials, context, traffic)
        self._users = 0
        self._is_retired = False

    def update_token(self, credentials: Credentials) -> bool:
        """Use these credentials if the connections can stay, that is, if only the token differs."""
        if without_token(credentials) != without_token(self.credentials):
            return False
        self.credentials = credentials
        return True

    async def close_when_idle(self) -> None:
        """Close once there are no users."""
        self._is_retired = True
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close everything at once; pending requests raise `Unreachable`."""
        await self.session.close()

    async def send(
        self,
        method: str,
        target: str,
        *,
        headers: dict[str, str],
        data: bytes | None,
        seconds: float,
        read: ReadAnswer | None = None,
    ) -> Object:
        """Send a request and return the parsed response. read: reads one that need not be parsed as a whole."""
        self._users += 1
        if method == "GET":
            # Compression pays off for long lists. Responses to writes are short, or the server's CPU time matters more.
            headers["Accept-Encoding"] = "gzip"
        try:
            response = await self._begin(method, target, headers, data, make_timeouts(seconds))
            try:
                raw = await response_body.read(response, most=self._body_bytes)
            finally:
                # After a complete body, the connection is already back in the pool.
                response.close()
        except UNSENT as error:
            raise unreachable(method, target, error) from error
        finally:
            await self._leave()
        if self._traffic is not None:
            self._traffic.on_answer(len(raw))
        if response.status >= 300:
            raise refused(response.status, response.headers.get("Retry-After", ""), raw)
        if self.credentials.is_foreign and target.startswith(OPENAPI) and len(raw) > limits.CLUSTER_SCHEMA_BYTES:
            raise errors.AnswerTooLarge(
                f"{method} {target}: the document has more than {limits.CLUSTER_SCHEMA_BYTES} bytes"
            )
        found = read(raw) if read is not None else None
        return found if found is not None else await parse_answer(raw, method=method, target=target)

    @contextlib.asynccontextmanager
    async def watch(self, target: str, *, accept: str, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream the chunks of a response."""
        timeouts = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=idle_timeout)
        self._users += 1
        try:
            response = await self._open(target, accept, timeouts)
            try:
                yield read_pieces(response, target)
            finally:
                # Reuse the connection if the body was read completely, otherwise close it.
                response.release()
        finally:
            await self._leave()

    async def _open(self, target: str, accept: str, timeouts: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Return a 2xx response."""
        try:
            response = await self._begin("GET", target, {"Accept": accept}, None, timeouts)
            if response.status < 300:
                return response
            try:
                raw = await response_body.read(response, most=self._body_bytes)
            finally:
                response.close()
        except UNSENT as error:
            raise unreachable("GET", target, error) from error
        raise refused(response.status, response.headers.get("Retry-After", ""), raw)

    async def _leave(self) -> None:
        self._users -= 1
        if self._is_retired and not self._users:
            await self.close()

    async def _begin(
        self, method: str, target: str, headers: dict[str, str], data: bytes | None, timeouts: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Return a response whose body is still to be read."""
        if not target.isprintable() or " " in target:
            # aiohttp does not check an encoded path. A space would end it early.
            raise ValueError("the path contains a space or a line break")
        if self.credentials.authorization is not None:
            headers["Authorization"] = self.credentials.authorization
        if self.credentials.user:
            headers.setdefault("Impersonate-User", self.credentials.user)
        headers.setdefault("Accept-Encoding", "identity")
        response = await self.session.request(
            method,
            # The path is already quoted. Parsing it again would cost more than everything else here.
            yarl.URL(self.credentials.server + target, encoded=True),
            headers=headers,
            data=data,
            timeout=timeouts,
            server_hostname=self.credentials.server_name,
            # A token must never follow a redirect to another host; the API server does not redirect.
            allow_redirects=False,
        )
        if response.status < FIRST_FINAL:
            response.close()
            raise response_body.MalformedResponse(f"HTTP {response.status} is not the code of a complete response")
        return response


@functools.lru_cache(maxsize=16)
def make_timeouts(seconds: float) -> aiohttp.ClientTimeout:
    """Return the shared value for each duration, because creating one is expensive."""
    return aiohttp.ClientTimeout(total=seconds, connect=CONNECT_TIMEOUT)


def without_token(credentials: Credentials) -> Credentials:
    """Return the part of the credentials to which a session is bound."""
    return replace(credentials, authorization=None, expires_at=None, files={})


def make_session(
    credentials: Credentials, context: ssl.SSLContext | None, traffic: Traffic | None = None
) -> aiohttp.ClientSession:
    """Create a session without its own connection limit, which streams would exhaust."""
    return aiohttp.ClientSession(
        connector=guarded_connector.GuardedConnector(traffic, context=context, keep_alive=KEEP_ALIVE)
        if traffic is not None
        else aiohttp.TCPConnector(limit=0, ssl=context or True, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": AGENT},
        # The operator decompresses responses itself, up to a limit, as protection against decompression bombs.
        auto_decompress=False,
        proxy=credentials.proxy,
        trace_configs=[guarded_connector.make_meter(traffic)] if traffic is not None else None,
    )


def make_context(credentials: Credentials) -> ssl.SSLContext | None:
    """Return the TLS settings, None for plain HTTP. Blocks: Python reads client certificates only from files."""
    # A scheme may have upper-case letters. Without TLS, the credentials would be readable.
    if yarl.URL(credentials.server).scheme != "https":
        return None
    try:
        authority = credentials.authority.decode() if credentials.authority else None
        context = ssl.create_default_context(cadata=authority)
        # Newer Pythons set this flag, but the authorities of many clusters lack the extensions that it requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not credentials.is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credentials.is_foreign:
            restrict(context)
        if credentials.certificate:
            load_certificate(context, credentials.certificate, credentials.key or b"")
    except (OSError, ValueError) as error:
        raise NoCredentials(f"the certificates for {credentials.server} cannot be used: {error}") from error
    return context


def restrict(context: ssl.SSLContext) -> None:
    """Forbid algorithms whose cost the server chooses: with a custom Diffie-Hellman group, a handshake takes a second."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(FOREIGN_CIPHERS)
    context.set_ecdh_curve(FOREIGN_CURVE)


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate into `context`. Raises ssl.SSLError, also if the key is encrypted."""
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate.rstrip() + b"\n" + key)
        # Without this password, OpenSSL would prompt for one on the terminal and block this thread forever.
        context.load_cert_chain(file, password=lambda: "")


async def parse_answer(raw: bytes, *, method: str, target: str) -> Object:
    """Parse the object in a response, or the recoverable parts of it."""
    try:
        answer = await salvage_answer(raw) if is_too_large(raw, target) else orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        answer = await salvage_answer(raw)
        if answer is None:
            raise errors.Unreachable(f"{method} {target}: the response is not JSON: {excerpt(raw)}") from error
    if not isinstance(answer, dict):
        raise errors.Unreachable(f"{method} {target}: the response is not an object: {excerpt(raw)}")
    return answer


def is_too_large(raw: bytes, target: str) -> bool:
    """Return whether parsing a response at once would block the event loop; its parts are then parsed in a thread.

    OpenAPI documents are the exception: they do not consist of small parts, and only administrators write CRDs.
    """
    return len(raw) > limits.WIRE_VALUES and not target.startswith(OPENAPI) and salvage.has_too_many_values(raw)


async def salvage_answer(raw: bytes) -> Object | None:
    """Parse the recoverable parts of a response, in a thread if that takes long; return None without any."""
    try:
        if len(raw) <= limits.INLINE_BYTES:
            return salvage.read_answer(raw) or None
        return await asyncio.to_thread(salvage.read_answer, raw) or None
    except ValueError:
        return None


def refused(code: int, retry_after: str, raw: bytes) -> errors.ApiStatusError:
    """Create the error for a response other than 2xx. retry_after: the header, "" if missing."""
    try:
        # A larger body is not a Status.
        body = orjson.loads(raw) if len(raw) <= limits.WIRE_VALUES else None
    except orjson.JSONDecodeError:
        body = None
    status = api_status.clean(body) if isinstance(body, dict) and body.get("kind") == "Status" else None
    return errors.ApiStatusError(code=code, status=status, retry_after=api_status.find_delay(retry_after, status))


def unreachable(method: str, target: str, error: Exception) -> errors.Unreachable:
    """Create the error for a missing response."""
    path = target.partition("?")[0]
    reason = describe(error) or ("none came in time" if isinstance(error, TimeoutError) else type(error).__name__)
    made = errors.AnswerTooLarge if isinstance(error, response_body.TooLong) else errors.Unreachable
    return made(f"no response to {method} {path}: {reason}")


def describe(error: Exception) -> str:
    """Return the text of an error on one line, "" if it has none."""
    match error:
        case aiohttp.ClientConnectorError():
            # aiohttp's text lacks the reason of an error without a number, for example of a denied address.
            return str(error.os_error)
        case aiohttp.ClientResponseError():
            # aiohttp's text begins with a code that the server did not send.
            return f"the answer is not HTTP/1.1: {' '.join(error.message.split())[:EXCERPT_LENGTH]}"
        case _:
            return str(error)


async def read_pieces(response: aiohttp.ClientResponse, target: str) -> AsyncIterator[bytes]:
    """Stream the body."""
    try:
        async for piece in response.content.iter_any():
            yield piece
            # Free the memory: a watch waits here for minutes, and its first piece is large.
            del piece
    except NO_ANSWER as error:
        raise unreachable("GET", target, error) from error


def excerpt(raw: bytes) -> str:
    """Return the beginning of a response, safe for a message."""
    return repr(raw[:EXCERPT_LENGTH].decode(errors="replace"))
