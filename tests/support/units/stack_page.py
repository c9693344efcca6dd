"""The page of `kubectl stack ui` on a scripted API server, and a browser's requests to it, without a browser."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib import parse

import aiohttp

from hearth.cli.page import server
from hearth.cli.stack_access.session import Session
from support.units.scripted_api.scripted_connection import ScriptedConnection

HOSTILE = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7 * 7 }}"
STACKS = "/apis/hearth.dev/v1alpha1/namespaces/prod/stacks"
SHOP = f"{STACKS}/shop"


def make_stack(**status: Any) -> dict[str, Any]:
    """A Stack with hostile text in every field that a tenant can write."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": HOSTILE}}
    template = {
        "parameters": {"password": {"type": "string", "sensitive": True}},
        "resources": {
            "db": {"manifest": config},
            "web": {"dependsOn": ["db"], "manifest": config | {"data": {"a": "geheim-1", "b": "${params.password}"}}},
            HOSTILE: {"manifest": {"kind": HOSTILE}},
        },
    }
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1},
        "spec": {"template": template, "parameters": {"password": "geheim-1"}},
        "status": {
            "phase": HOSTILE,
            "summary": "0/3",
            "observedGeneration": 1,
            "problems": [{"resource": "db", "reason": "Forbidden", "message": HOSTILE}],
            "breakpoints": [{"resource": "web", "hook": HOSTILE}],
            "outputs": {"out": HOSTILE},
            "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": HOSTILE}],
        }
        | status,
    }


def make_script(stack: dict[str, Any]) -> dict[str, Any]:
    """The responses of an API server that has only that Stack."""
    discovery = {"kind": "APIGroupDiscoveryList", "items": []}
    return {
        "GET /api": discovery,
        "GET /apis": discovery,
        "GET /openapi/v3": {"paths": {}},
        f"GET {STACKS}": {"items": [stack]},
        f"GET {SHOP}": stack,
        f"PATCH {SHOP}": stack,
        "GET /apis/apps/v1/namespaces/prod/controllerrevisions": {"items": []},
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]


@dataclasses.dataclass(slots=True)
class Visitor:
    """Sends requests; each header may be replaced or left out (None)."""

    address: str
    api: ScriptedConnection
    client: aiohttp.ClientSession
    root: str = ""
    cookie: str = ""

    async def enter(self) -> Reply:
        """Open the address that the command printed, as a browser does."""
        reply = await self.send("GET", self.address)
        self.root = reply.headers.get("Location", "")
        self.cookie = reply.headers.get("Set-Cookie", "").partition(";")[0]
        return reply

    async def get(self, path: str, **headers: str | None) -> Reply:
        """Ask for a page under the root."""
        return await self.send("GET", f"{self.root}{path}", None, **{"Cookie": self.cookie, **headers})

    async def act(self, form: Mapping[str, str], **headers: str | None) -> Reply:
        """Send the form of an action on the Stack."""
        usual: dict[str, str | None] = {"Cookie": self.cookie, "Origin": self.origin}
        return await self.send("POST", f"{self.root}stacks/prod/shop/act", form, **{**usual, **headers})

    async def find_action_token(self) -> str:
        """Read the token that the page's own form contains."""
        reply = await self.get("stacks/prod/shop/confirm?action=pause")
        return reply.text.partition('name="action_token" value="')[2].partition('"')[0]

    async def send(
        self, method: str, address: str, form: Mapping[str, str] | None = None, **headers: str | None
    ) -> Reply:
        stated = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        url = parse.urljoin(self.address, address)
        async with self.client.request(method, url, data=form, headers=stated, allow_redirects=False) as answer:
            return Reply(answer.status, await answer.text(), answer.headers)

    @property
    def origin(self) -> str:
        """The page's own origin."""
        found = parse.urlsplit(self.address)
        return f"{found.scheme}://{found.netloc}"


@contextlib.asynccontextmanager
async def visit(stack: dict[str, Any] | None = None) -> AsyncIterator[Visitor]:
    """A visitor of a page about one Stack."""
    api = ScriptedConnection(make_script(stack or make_stack()))
    async with (
        server.serve(Session(api), namespace="prod", port=0) as address,  # type: ignore[arg-type]  # answers alike
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
    ):
        yield Visitor(address, api, client)
