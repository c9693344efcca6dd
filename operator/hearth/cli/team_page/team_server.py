"""The HTTP server of the page for a team. It finds the user of each request before a handler of the page runs.

The server has no rights of its own: it reads no ServiceAccount token and no kubeconfig, and every request to the API
server carries the token of the user who sent the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import prometheus_client
from aiohttp import web
from prometheus_client import exposition, gc_collector, platform_collector, process_collector

from hearth import supervision
from hearth.cli.page import access_rules, handlers, routes, server
from hearth.cli.page.access_rules import ACTION_TOKEN
from hearth.cli.page.handlers import FRAGMENT, NAME, VERB, Handlers
from hearth.cli.page.rendering import Renderer
from hearth.cli.stack_access import read_budgets
from hearth.cli.stack_access.read_budgets import MemoryInUse, ReadMeter
from hearth.cli.team_page import request_rules, sealed_cookies
from hearth.cli.team_page.request_rules import BadHeaders, FailedSignIns, PageAddress, Verdict
from hearth.cli.team_page.sealed_cookies import CookieRefused, PageKey
from hearth.cli.team_page.user_sessions import ServerBusy, SessionOptions, TokenRefused, UserSession, UserSessions
from hearth.kube.auth import credentials
from hearth.kube.webhook.webhook_server import ConnectionGate, make_context
from hearth.model import errors, limits, value_class
from hearth.serve import process_upkeep
from hearth.serve.http_server import CannotListen, Endpoints, HttpServer
from hearth.serve.process_upkeep import HeapTrimmer
from hearth.settings import Address

log = logging.getLogger("hearth.page")
SESSION: Final = web.RequestKey("session", UserSession)
"""The key of a request for the session of its user."""
SIGN_IN, SIGN_OUT, SESSION_PATH, STATIC = "/sign-in", "/sign-out", "/session", "/static/"
VIEW: Final = "view"
EXPIRED: Final = "The cluster no longer accepts your token: it has expired or was revoked. Sign in again."
UPKEEP_SECONDS: Final = 10.0
"""Seconds between two looks at old sessions and at the files of the certificate."""
UPKEEP_IDLE: Final = 2.0
"""Seconds of CPU between two such looks of a server that only keeps lists up to date."""
SHUTDOWN_TIMEOUT: Final = 8.0
"""Seconds for requests in progress when the server ends. Streams end at once, and browsers open them again elsewhere."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TokenMounted(errors.HearthError):
    """The pod has a ServiceAccount token; the administrator must remove it."""


class CannotServe(errors.HearthError):
    """The address or the certificate cannot be used."""


class SignInRequired(errors.HearthError):
    """The request has no valid token. The message is for the user."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The options of the server."""

    addresses: Sequence[PageAddress]
    """Where browsers reach the page."""
    address: Address
    http_address: Address
    """Where to serve health and metrics."""
    key: PageKey
    certificate: Path | None = None
    """None for plain HTTP behind a proxy."""
    certificate_key: Path | None = None
    session_seconds: float
    is_read_only: bool = False
    trusts_forwarded_for: bool = False
    sign_out_path: str = ""
    """Where the authenticating proxy signs a user out; "" if there is none."""


def check_no_token(folder: Path = credentials.SERVICE_ACCOUNT_FOLDER) -> None:
    """Raise TokenMounted if this pod could act as its ServiceAccount."""
    if (token := folder / "token").exists():
        raise TokenMounted(
            f"a ServiceAccount token is mounted at {token}, but the page must not have rights of its own; "
            "set automountServiceAccountToken: false in the Pod"
        )


class PageMetrics:
    """Prometheus metrics. No label contains the name of a user or an object."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry(auto_describe=True)
        self._requests = prometheus_client.Counter(
            "hearth_page_requests",
            "Requests of browsers, by verb and HTTP code.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._sign_ins = prometheus_client.Counter(
            "hearth_page_sign_ins", "Checks of tokens, by result.", ["result"], registry=self.registry
        )
        self._limits = prometheus_client.Counter(
            "hearth_page_limit_reached", "Times that a limit was reached.", ["limit"], registry=self.registry
        )
        process_collector.ProcessCollector(registry=self.registry)
        platform_collector.PlatformCollector(registry=self.registry)
        gc_collector.GCCollector(registry=self.registry)

    def count_request(self, verb: str, code: int) -> None:
        """Count a request. verb: an action, or one of a few fixed words."""
        self._requests.labels(verb, str(code)).inc()

    def count_sign_in(self, result: str) -> None:
        """Count the check of a token: `accepted`, `refused` or `limited`."""
        self._sign_ins.labels(result).inc()

    def count_limit(self, limit: str) -> None:
        """Count that a limit was reached."""
        self._limits.labels(limit).inc()

    def sample(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Read a gauge at each scrape."""
        prometheus_client.Gauge(name, documentation, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return exposition.generate_latest(self.registry)


class TeamServer:
    """Answers requests of browsers."""

    def __init__(self, options: PageOptions, sessions: UserSessions, metrics: PageMetrics) -> None:
        self._options = options
        self._sessions = sessions
        self._metrics = metrics
        self._failures = FailedSignIns()
        self._renderer = Renderer(root="/", is_read_only=options.is_read_only, sign_out_path=options.sign_out_path)
        self.on_user: Callable[[web.Request], None] = lambda _: None
        """Called for each request of a signed-in user."""

    def make_application(self) -> web.Application:
        """Return the application."""

        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._answer(request, handler)

        app = web.Application(client_max_size=limits.PAGE_FORM_BYTES, middlewares=[answer])
        app.on_response_prepare.append(server.add_headers)
        app.add_routes(
            [
                web.get(SIGN_IN, self._show_sign_in),
                web.post(SIGN_IN, self._sign_in),
                web.post(SIGN_OUT, self._sign_out),
                web.get(SESSION_PATH, self._show_session),
                web.get(f"{STATIC}{{name}}", handlers.get_static),
                *routes.list_routes("/", find_handlers),
            ]
        )
        return app

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer, log and count a request."""
        began = asyncio.get_running_loop().time()
        code = 0
        try:
            response = await self._respond(request, handler)
            code = response.status
            return response
        except web.HTTPException as redirect:
            code = redirect.status
            raise
        except Exception:
            code = HTTPStatus.INTERNAL_SERVER_ERROR
            raise
        finally:
            if not request.path.startswith(STATIC):
                self._report(request, code, asyncio.get_running_loop().time() - began)

    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, errors included."""
        try:
            match request_rules.judge(request.method, request.headers, self._options.addresses):
                case Verdict.WRONG_HOST:
                    raise web.HTTPMisdirectedRequest(text="this server has another name")
                case Verdict.FOREIGN:
                    raise web.HTTPForbidden(text="the request comes from another site")
                case Verdict.RELOAD:
                    return web.Response(text=self._renderer.render("reload.html", {}), content_type="text/html")
                case Verdict.ALLOWED:
                    return await self._handle(request, handler)
        except (web.HTTPException, errors.HearthError) as error:
            return self._explain(request, error)

    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Call the handler with the session of the user, if the path needs one."""
        # Not by path: /static/prod/shop is the address of an object of a kind `static`.
        if request.match_info.handler in (self._show_sign_in, self._sign_in, handlers.get_static):
            return await handler(request)
        session = await self._find_session(request)
        request[SESSION] = session
        self.on_user(request)
        if self._sessions.requests >= limits.PAGE_REQUESTS:
            raise ServerBusy("too many people use this page right now; try again later")
        if self._sessions.count_requests(session.user) >= limits.PAGE_USER_REQUESTS:
            raise ServerBusy("you have too many requests in progress; close some tabs")
        meter = ReadMeter(session.memory, most=limits.PAGE_READ_BYTES)
        with session.use(asyncio.get_running_loop().time), read_budgets.metering(meter):
            return await handler(request)

    def _explain(self, request: web.Request, error: web.HTTPException | errors.HearthError) -> web.Response:
        """Return the page for an error. Raises redirects."""
        match error:
            case SignInRequired():
                return self._render_sign_in(request, str(error), status=HTTPStatus.UNAUTHORIZED)
            case errors.ApiStatusError(code=HTTPStatus.UNAUTHORIZED):
                return self._render_sign_in(request, EXPIRED, status=HTTPStatus.UNAUTHORIZED)
            case ServerBusy() | MemoryInUse():
                self._metrics.count_limit("page-requests" if isinstance(error, ServerBusy) else "page-memory")
                return server.show_error(request, self._renderer, web.HTTPServiceUnavailable(text=str(error)))
            case _:
                return server.show_error(request, self._renderer, error)

    async def _find_session(self, request: web.Request) -> UserSession:
        """Return the session of a request's user. Raises SignInRequired, HTTPException, ServerBusy and errors of the API."""
        try:
            token = request_rules.find_header_token(request.headers)
        except BadHeaders as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        is_cookie = token is None
        if token is None:
            cookie = request.cookies.get(sealed_cookies.COOKIE)
            if cookie is None:
                raise SignInRequired("")
            try:
                token = self._options.key.open(cookie, now=time.time())
            except CookieRefused as error:
                raise SignInRequired(str(error)) from error
        return await self._open_session(request, token, is_cookie=is_cookie, is_sealed=is_cookie)

    async def _open_session(
        self, request: web.Request, token: str, *, is_cookie: bool, is_sealed: bool = False
    ) -> UserSession:
        """Return the session of a token. is_sealed: whether the token comes from our cookie.

        Raises SignInRequired, HTTPTooManyRequests, ServerBusy and errors of the API.
        """
        is_token = request_rules.is_token(token)
        if is_token and (session := self._sessions.find(token, can_sign_out=is_cookie)) is not None:
            return session
        client = request_rules.find_client(
            request.remote, request.headers, is_behind_proxy=self._options.trusts_forwarded_for
        )
        # A sealed token was valid once, so it is no guess: other people's failures at the same address must not block it.
        counted = self._options.key.make_action_token(token) if is_sealed else client
        self._check_limit(counted)
        try:
            if not is_token:
                raise TokenRefused("This is not a token.")
            # The check is repeated at the attempt's turn: attempts sent at the same time must not escape the limit.
            session = await self._sessions.open(
                token, can_sign_out=is_cookie, check_turn=lambda: self._check_limit(counted)
            )
        except TokenRefused as error:
            self._failures.add(counted, now=asyncio.get_running_loop().time())
            self._metrics.count_sign_in("refused")
            log.warning("sign-in refused", extra={"client": client})
            raise SignInRequired(str(error)) from error
        self._metrics.count_sign_in("accepted")
        log.info("session opened", extra={"user": session.user, "client": client})
        return session

    def _check_limit(self, counted: str) -> None:
        """Raise HTTPTooManyRequests after too many failed sign-ins. counted: as what they are counted together."""
        if delay := self._failures.find_delay(counted, now=asyncio.get_running_loop().time()):
            self._metrics.count_sign_in("limited")
            text = f"too many failed sign-ins from your address; try again in {int(delay) + 1} seconds"
            raise web.HTTPTooManyRequests(text=text)

    def _render_sign_in(self, request: web.Request, message: str, *, status: int, next_: str = "") -> web.Response:
        """Return the sign-in page. It forgets a cookie that no longer signs in anybody."""
        layout = "fragment.html" if FRAGMENT in request.headers else "page.html"
        is_page = request.method == "GET" and layout == "page.html" and request.path != SIGN_IN
        path = next_ or (request.path_qs if is_page else "/")
        values = {
            "layout": layout,
            "message": message,
            "next": request_rules.find_local_path(path),
            "is_behind_proxy": "Authorization" in request.headers,
        }
        response = web.Response(
            text=self._renderer.render("sign_in.html", values), content_type="text/html", status=status
        )
        if sealed_cookies.COOKIE in request.cookies:
            response.headers["Set-Cookie"] = sealed_cookies.REMOVAL
        return response

    async def _show_sign_in(self, request: web.Request) -> web.StreamResponse:
        return self._render_sign_in(request, "", status=HTTPStatus.OK)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        """Check the token, and seal it in a cookie."""
        request[VERB] = "sign-in"
        form = await handlers.read_form(request)
        token, next_ = (form.get(key, "").strip() for key in ("token", "next"))
        next_ = request_rules.find_local_path(next_)
        try:
            sealed_cookies.check_size(token)
            session = await self._open_session(request, token.removeprefix("Bearer "), is_cookie=True)
        except (SignInRequired, CookieRefused) as error:
            return self._render_sign_in(request, str(error), status=HTTPStatus.UNAUTHORIZED, next_=next_)
        request[SESSION] = session
        seconds = self._options.session_seconds
        sealed = self._options.key.seal(token.removeprefix("Bearer "), now=time.time(), seconds=seconds)
        headers = {"Location": next_, "Set-Cookie": sealed_cookies.make_cookie(sealed, seconds=seconds)}
        return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        """Remove the cookie, and close the session."""
        request[VERB] = "sign-out"
        session = request[SESSION]
        form = await handlers.read_form(request)
        if refusal := access_rules.find_action_refusal(form.get(ACTION_TOKEN, ""), session.action_token):
            raise web.HTTPForbidden(text=refusal)
        self._sessions.drop(session)
        headers = {"Location": SIGN_IN, "Set-Cookie": sealed_cookies.REMOVAL}
        return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)

    async def _show_session(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002 -- it is only called for users
        """Return no content. Anybody who is not signed in gets the sign-in page instead."""
        return web.Response(status=HTTPStatus.NO_CONTENT)

    def _report(self, request: web.Request, code: int, seconds: float) -> None:
        """Log a request, without its query, headers and form, and count it."""
        verb = request.get(VERB, VIEW)
        self._metrics.count_request(verb, code)
        session = request.get(SESSION)
        # StackDefinitions have no namespace.
        words = [request.match_info[key] for key in ("kind", "namespace", "name") if key in request.match_info]
        fields: dict[str, object] = {"user": session.user if session is not None else "", "verb": verb, "code": code}
        fields |= (
            {"object": "/".join(words)} if "kind" in request.match_info and all(map(NAME.fullmatch, words)) else {}
        )
        log.info("request", extra={**fields, "seconds": round(seconds, 3)})


def find_handlers(request: web.Request) -> Handlers:
    """Return the handlers of a request's user."""
    return request[SESSION].handlers


class PageCertificate:
    """TLS settings of the server, with a certificate that is loaded again when its files change."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the certificate. Raises CannotServe."""
        self._files = certificate, key
        self.context = make_context()
        self._stamp = self._make_stamp()
        self._load()

    def _make_stamp(self) -> dict[str, float]:
        return credentials.stamp(map(str, self._files))

    def _load(self) -> None:
        try:
            # Without this password, OpenSSL would prompt for one on the terminal.
            # First into another context: a certificate that does not fit its key would stay in this one.
            for context in (make_context(), self.context):
                context.load_cert_chain(*self._files, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise CannotServe(
                f"cannot load the certificate {self._files[0]} with key {self._files[1]}: {error}"
            ) from error

    def reload(self) -> None:
        """Load changed files. Keeps the present certificate if they cannot be used. Runs in the loop of the handshakes."""
        stamp = self._make_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._load()
        except CannotServe as error:
            log.error("certificate not loaded", extra={"problem": str(error)})  # noqa: TRY400 -- the message has it all
        else:
            log.info("certificate loaded again")


@contextlib.asynccontextmanager
async def serve(options: PageOptions, sessions: UserSessions) -> AsyncIterator[tuple[int, int]]:
    """Serve within the block; report the ports of the page, and of health and metrics. Raises CannotServe."""
    metrics = PageMetrics()
    metrics.sample("hearth_page_sessions", "Open sessions: one per token.", lambda: len(sessions))
    metrics.sample(
        "hearth_page_requests_in_progress", "Requests in progress, streams included.", lambda: sessions.requests
    )
    problems: list[str] = []
    health = HttpServer(Endpoints(alive=lambda: (), ready=lambda: problems, metrics=metrics.render))
    certificate = load_certificate(options)
    team = TeamServer(options, sessions, metrics)
    runner = web.AppRunner(
        team.make_application(), handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT
    )
    await runner.setup()
    gate = make_gate(runner, certificate, metrics)
    team.on_user = lambda request: gate.trust(request.protocol, request[SESSION].user)
    upkeep = supervision.start(keep_up(sessions, certificate), name="upkeep of the page")
    try:
        yield await listen(gate, health, options)
        problems.append("the server is shutting down")
        log.info("shutting down")
    finally:
        upkeep.cancel()
        await gate.stop()
        sessions.end_streams()
        await runner.cleanup()
        await sessions.close()
        await health.stop()


def load_certificate(options: PageOptions) -> PageCertificate | None:
    """Return the certificate, or None for plain HTTP. Raises CannotServe."""
    if options.certificate is None or options.certificate_key is None:
        return None
    return PageCertificate(options.certificate, options.certificate_key)


def make_gate(runner: web.AppRunner, certificate: PageCertificate | None, metrics: PageMetrics) -> ConnectionGate:
    """Return the gate that accepts the connections of browsers."""
    assert runner.server is not None  # noqa: S101 -- it was set up
    return ConnectionGate(
        runner.server,
        certificate.context if certificate is not None else None,
        most=limits.PAGE_CONNECTIONS,
        most_of_owner=limits.PAGE_USER_CONNECTIONS,
        on_limit=lambda _: metrics.count_limit("page-connections"),
    )


async def listen(gate: ConnectionGate, health_server: HttpServer, options: PageOptions) -> tuple[int, int]:
    """Return the ports of the page, and of health and metrics. Raises CannotServe."""
    try:
        port = await gate.start(options.address.host, options.address.port)
    except OSError as error:
        raise CannotServe(
            f"cannot listen on {options.address}: {error.strerror or error}; choose another --address"
        ) from error
    try:
        http = await health_server.start(options.http_address)
    except CannotListen as error:
        raise CannotServe(str(error)) from error
    log.info("serving", extra={"address": str(options.address), "tls": options.certificate is not None})
    return port, http.port


async def keep_up(sessions: UserSessions, certificate: PageCertificate | None) -> None:
    """Close old sessions, load changed certificates, and return free memory to the system, until cancelled."""
    heap = HeapTrimmer(process_upkeep.find_trim(), idle=UPKEEP_IDLE)
    while True:
        await asyncio.sleep(UPKEEP_SECONDS)
        heap.look()
        sessions.drop_old()
        if certificate is not None:
            certificate.reload()


async def serve_until(options: PageOptions, session_options: SessionOptions, stop: asyncio.Event) -> None:
    """Serve until the event is set."""
    async with serve(options, UserSessions(session_options)):
        await stop.wait()
