"""The HTTP server of the page, on loopback only. It checks the access rules before it calls a handler."""

from __future__ import annotations

import asyncio
import functools
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from aiohttp import web

from hearth.cli.page import access_rules, routes
from hearth.cli.page.access_rules import AccessRules, Secrets
from hearth.cli.page.handlers import FRAGMENT, Handlers
from hearth.cli.page.rendering import Renderer
from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views import safe_text
from hearth.model import errors, limits

LOOPBACK: Final = "127.0.0.1"
SECRET_BYTES: Final = 32
SHUTDOWN_TIMEOUT: Final = 0.5
"""Seconds for requests in progress when the user ends the command."""
LOST_HINT: Final = "is `kubectl stack ui` still running?"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CannotListen(errors.HearthError):
    """The port is not available; the user must choose another."""


@asynccontextmanager
async def serve(session: Session, *, namespace: str, port: int) -> AsyncIterator[str]:
    """Serve the page, and report its address with the token. namespace: "" for all; port: 0 for a free one.

    Raises CannotListen.
    """
    listening = listen(port)
    rules = AccessRules(secrets=make_secrets(), port=listening.getsockname()[1])
    source = StackSource(session, namespace=namespace)
    runner = web.AppRunner(
        make_application(source, rules),
        handle_signals=False,
        access_log=None,
        shutdown_timeout=SHUTDOWN_TIMEOUT,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield rules.address
    finally:
        await runner.cleanup()
        await source.close()
        listening.close()


def listen(port: int) -> socket.socket:
    """Return a socket on loopback."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK, port))
    except OSError as error:
        found.close()
        raise CannotListen(
            f"cannot listen on {LOOPBACK}:{port}: {error.strerror or error}; choose another --port"
        ) from error
    return found


def make_secrets() -> Secrets:
    """Return random texts."""
    token, folder, cookie, action_token = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(4))
    return Secrets(token=token, folder=folder, cookie=cookie, action_token=action_token)


def make_application(source: StackSource, rules: AccessRules) -> web.Application:
    """Return the application."""
    renderer = Renderer(root=rules.root, action_token=rules.secrets.action_token, lost_hint=LOST_HINT)
    handlers = Handlers(source, renderer)

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check(request, rules)
            return await handler(request)
        except (web.HTTPException, errors.HearthError) as error:
            return show_error(request, renderer, error)

    app = web.Application(client_max_size=limits.PAGE_FORM_BYTES, middlewares=[answer])
    app.on_response_prepare.append(add_headers)
    app.add_routes(
        [web.get("/", functools.partial(enter, rules=rules)), *routes.list_routes(rules.root, lambda _: handlers)]
    )
    return app


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every response."""
    response.headers.update(access_rules.HEADERS)
    response.headers.pop("Server", None)


def show_error(request: web.Request, renderer: Renderer, error: web.HTTPException | errors.HearthError) -> web.Response:
    """Return a page with the message of an error. Raises redirects."""
    match error:
        case web.HTTPException():
            if error.status < HTTPStatus.BAD_REQUEST:
                raise error
            status, message = error.status, error.text or ""
        case errors.ApiStatusError():
            status, message = (error.code if 400 <= error.code < 500 else 502), f"the API server: {error}"
        case _:
            status, message = HTTPStatus.BAD_GATEWAY, str(error)
    is_fragment = FRAGMENT in request.headers
    values = {"layout": "fragment.html" if is_fragment else "plain.html", "message": safe_text.clean(message)}
    return web.Response(text=renderer.render("error.html", values), content_type="text/html", status=status)


def check(request: web.Request, rules: AccessRules) -> None:
    """Raise an error if the request must be refused. The handler of the printed address checks its own requests."""
    if request.headers.get("Host", "") not in rules.hosts:
        raise web.HTTPMisdirectedRequest(text="this server has another name")
    cookie = request.cookies.get(access_rules.COOKIE, "")
    if request.path != "/" and (
        refusal := rules.find_refusal(request.method, request.path, request.headers, cookie=cookie)
    ):
        raise web.HTTPForbidden(text=refusal)


async def enter(request: web.Request, *, rules: AccessRules) -> web.StreamResponse:
    """Exchange the token for the cookie, and redirect to an address without the token."""
    if not rules.is_token(request.query.get(access_rules.TOKEN, "")):
        raise web.HTTPForbidden(text="open the address that `kubectl stack ui` printed: it ends with a token")
    headers = {"Location": rules.root, "Set-Cookie": rules.make_cookie()}
    return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)


async def serve_forever(session: Session, *, namespace: str, port: int, show: Callable[[str], None]) -> None:
    """Serve until cancelled. show: receives the address."""
    async with serve(session, namespace=namespace, port=port) as address:
        show(address)
        await asyncio.Event().wait()
