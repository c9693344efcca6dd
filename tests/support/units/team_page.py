"""The page of `hearth page` on a scripted API server, and requests of several browsers to it, without a browser."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from hearth.cli.team_page import request_rules, sealed_cookies, team_server
from hearth.cli.team_page.sealed_cookies import PageKey
from hearth.cli.team_page.team_server import PageOptions
from hearth.cli.team_page.user_sessions import ApiServer, SessionOptions, TokenSource, UserSessions
from hearth.kube.auth.credentials import Credentials
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.child import Object
from hearth.settings import Address
from support.units import stack_page
from support.units.scripted_api.scripted_connection import ScriptedConnection
from support.units.stack_page import Reply

HOST = "hearth.example.com"
ORIGIN = f"https://{HOST}"
REVIEW = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"
STACKS = "/apis/hearth.dev/v1alpha1/stacks"
KEY = PageKey(b"k" * 32)
ANNA, BEN, EXPIRED = "token-of-anna", "token-of-ben", "token-that-expired"
USERS = {ANNA: "anna@example.com", BEN: "ben@example.com"}


class UserApi(ScriptedConnection):
    """The API server for one token."""

    is_open = False
    credentials: Credentials

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


@dataclasses.dataclass(slots=True)
class Cluster:
    """The API server for all tokens."""

    apis: list[tuple[str, UserApi]] = dataclasses.field(default_factory=list)
    """Each connection with its token, in the order in which they were opened."""
    users: dict[str, str] = dataclasses.field(default_factory=lambda: dict(USERS))
    stacks: dict[str, list[Object]] = dataclasses.field(default_factory=dict)
    """The Stacks that the owner of a token sees."""
    script: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further answers."""

    def connect(self, source: TokenSource) -> Connection:
        """The connection of one user."""
        credentials = source.load()
        token = (credentials.authorization or "").removeprefix("Bearer ")
        user = self.users.get(token)
        unauthorized = errors.ApiStatusError(code=401, status={"message": "Unauthorized"})
        review = {"status": {"userInfo": {"username": user}}} if user is not None else unauthorized
        script = stack_page.make_script(stack_page.make_stack())
        script |= {REVIEW: review, f"GET {STACKS}": {"items": self.stacks.get(token, [])}, **self.script}
        api = UserApi(script)
        api.credentials = credentials
        self.apis.append((token, api))
        return api  # type: ignore[return-value]  # answers alike

    def find(self, token: str) -> UserApi:
        """The latest connection of a token."""
        return [api for each, api in self.apis if each == token][-1]

    def count_reviews(self) -> int:
        return sum(api.asked.count(REVIEW) for _, api in self.apis)


@dataclasses.dataclass(slots=True)
class Team:
    """Sends requests; each header may be replaced or left out (None)."""

    url: str
    health_url: str
    cluster: Cluster
    sessions: UserSessions
    client: aiohttp.ClientSession

    async def send(self, method: str, path: str, form: Mapping[str, str] | None = None, **headers: str | None) -> Reply:
        sent: list[tuple[str, str]] = [("Host", HOST)] if "Host" not in headers else []
        sent += [("Origin", ORIGIN)] if method == "POST" and "Origin" not in headers else []
        sent += [(name.replace("_", "-"), value) for name, value in headers.items() if value is not None]
        async with self.client.request(
            method, self.url + path, data=form, headers=sent, allow_redirects=False
        ) as answer:
            return Reply(answer.status, await answer.text(), answer.headers)

    async def get(self, path: str, token: str | None = None, **headers: str | None) -> Reply:
        """Ask for a page. token: of the authenticating proxy."""
        more = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return await self.send("GET", path, None, **{**more, **headers})

    async def sign_in(self, token: str, next_: str = "/", **headers: str | None) -> Reply:
        """Send the sign-in form."""
        return await self.send("POST", "/sign-in", {"token": token, "next": next_}, **headers)

    async def get_cookie(self, token: str) -> str:
        """Sign in, and return the header Cookie."""
        reply = await self.sign_in(token)
        assert reply.status == 303, reply.text
        return reply.headers["Set-Cookie"].partition(";")[0]


@contextlib.asynccontextmanager
async def serve(cluster: Cluster | None = None, *, key: PageKey = KEY, **options: Any) -> AsyncIterator[Team]:
    """A page for a team, with plain HTTP."""
    cluster = cluster or Cluster()
    local = Address(host="127.0.0.1", port=0)
    stated: dict[str, Any] = {"session_seconds": 3_600.0, "addresses": [request_rules.parse_address(ORIGIN)]}
    page = PageOptions(address=local, http_address=local, key=key, **{**stated, **options})
    shared = SessionOptions(
        server=ApiServer(url="https://api.example"),
        make_action_token=key.make_action_token,
        is_read_only=page.is_read_only,
        sign_out_path=page.sign_out_path,
    )
    sessions = UserSessions(shared, connect=cluster.connect)
    async with (
        team_server.serve(page, sessions) as (port, http),
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
    ):
        yield Team(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{http}", cluster, sessions, client)


def make_cookie(value: str) -> str:
    """The header Cookie with this value."""
    return f"{sealed_cookies.COOKIE}={value}"
