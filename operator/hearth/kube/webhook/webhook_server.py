"""The HTTPS server that the API server sends reviews to. Runs in kopf's event loop, and calls kopf for each review.

Only requests under a secret path are answered: the API server presents no credentials, and answers may quote objects
that a caller within the cluster network must not see. Must not know what is reviewed.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from hearth import supervision
from hearth.kube.client import http_transport
from hearth.kube.webhook.certificates import CertificateSet
from hearth.kube.webhook.connection_gate import ConnectionGate
from hearth.model import limits

SHUTDOWN_TIMEOUT = 1.0
"""Seconds for reviews in progress; the API server allows a write whose review is cut off."""
IDENTIFYING_FIELDS = ("apiVersion", "kind", "metadata")
current_request: ContextVar[dict[str, Any]] = ContextVar("current_request")
"""The whole `request` of the AdmissionReview that the handler is called for. kopf gets the metadata alone, since it
copies and compares whole objects, which takes longer than the review."""
Serve: TypeAlias = Callable[..., Awaitable[Any]]
"""Answers one AdmissionReview; kopf's function."""


class WebhookServer:
    """A server for kopf's `settings.admission.server`, started once there is a certificate."""

    def __init__(self, host: str, port: int, *, on_limit: Callable[[str], None] = lambda _limit: None) -> None:
        """on_limit: gets the name of a limit that is reached, for metrics; called in the loop that serves."""
        self._host, self._port = host, port
        self._on_limit = on_limit
        self._gate: ConnectionGate | None = None
        self._path = ""
        self._context = make_context()
        self._current: tuple[CertificateSet, str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loaded = asyncio.Event()
        self._lock = threading.Lock()
        self.is_serving = False

    def load(self, certificates: CertificateSet, *, path: str) -> None:
        """Serve this certificate from the next handshake on, under this path. Callable from any thread; blocks briefly.

        Raises OSError if certificate and key do not belong together.
        """
        http_transport.load_certificate(make_context(), certificates.certificate, certificates.key)
        with self._lock:
            self._current = certificates, path
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._use_current)

    def _use_current(self) -> None:
        """Use what was loaded. Runs in the loop of the handshakes: OpenSSL allows no change of a context beside one."""
        with self._lock:
            if self._current is not None:
                found, self._path = self._current
                http_transport.load_certificate(self._context, found.certificate, found.key)
                self._loaded.set()

    async def __call__(self, serve: Serve) -> AsyncIterator[dict[str, Any]]:
        """Serve until cancelled; what kopf expects of a server."""
        with self._lock:
            self._loop, self._loaded = asyncio.get_running_loop(), asyncio.Event()
        self._use_current()
        await self._loaded.wait()
        app = web.Application(client_max_size=limits.ADMISSION_BYTES)

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, serve)

        app.add_routes([web.post("/{path:.*}", answer)])
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
        await runner.setup()
        server = runner.server
        assert server is not None  # noqa: S101 -- it was just set up
        gate = self._gate = ConnectionGate(server, self._context, on_limit=self._on_limit)
        try:
            await gate.start(self._host, self._port)
            self.is_serving = True
            yield {}
            await asyncio.Event().wait()
        finally:
            self.is_serving = False
            await gate.stop()
            await runner.cleanup()

    async def _answer(self, request: web.Request, serve: Serve) -> web.StreamResponse:
        path, _, webhook = request.path.rpartition("/")
        if not hmac.compare_digest(path.encode(errors="replace"), self._path.encode()):
            raise web.HTTPNotFound
        if self._gate is not None:
            self._gate.trust(request.protocol)
        try:
            review = orjson.loads(await request.read())
            whole = review["request"]
            review = {
                **review,
                "request": {**whole, **{key: identify(whole.get(key)) for key in ("object", "oldObject")}},
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise web.HTTPBadRequest from error
        current_request.set(whole)
        try:
            answer = orjson.dumps(await serve(review, webhook=webhook))
        except Exception as error:
            # The API server then allows the write. The classes of kopf's errors are unknown here.
            supervision.report("admission", error)
            raise web.HTTPInternalServerError from error
        return web.Response(body=answer, content_type="application/json")


def make_context() -> ssl.SSLContext:
    """Return TLS settings of a server, without a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def identify(raw: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the object without anything but its identity and metadata."""
    return None if raw is None else {key: raw[key] for key in IDENTIFYING_FIELDS if key in raw}
