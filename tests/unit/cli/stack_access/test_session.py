"""Requests of one user, and the words for kinds of Stacks, including kinds of StackDefinitions."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.read_budgets import ForeignBudget, ListTooLarge
from hearth.cli.stack_access.session import NotInstalled, Session
from hearth.cli.stack_access.stack_locations import UnknownType
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import errors, limits
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK
from support.real.servers import stub_server
from support.real.servers.stub_server import Answer, says

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""
STACKS = "GET /apis/hearth.dev/v1alpha1/namespaces/shop/stacks"
NO_KIND = {
    "kind": "Status",
    "code": 404,
    "reason": "NotFound",
    "message": "the server could not find it",
    "details": {},
}
NO_OBJECT = {**NO_KIND, "message": 'stacks.hearth.dev "web" not found', "details": {"name": "web", "kind": "stacks"}}


@contextlib.asynccontextmanager
async def connect(
    folder: Path, answers: Mapping[str, Answer], *, body_bytes: int = limits.BODY_BYTES
) -> AsyncIterator[Session]:
    """A session with a server that sends this response."""
    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = folder / "config"
        kubeconfig.write_text(KUBECONFIG.format(url=server.url))
        source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
        async with Connection(source, body_bytes=body_bytes) as connection:
            yield Session(connection)


@pytest.mark.parametrize("body", [b"404 page not found\n", orjson.dumps(NO_KIND)], ids=["no group", "no kind"])
async def test_a_cluster_without_the_kinds_is_named_with_the_command(tmp_path: Path, body: bytes) -> None:
    async with connect(tmp_path, {path: says(body, code=404) for path in (STACKS, f"{STACKS}/web")}) as session:
        with pytest.raises(NotInstalled, match="hearth crds") as listed:
            await session.list(STACK, "shop")
        with pytest.raises(NotInstalled) as found:
            await session.find(STACK, "shop", "web")

    assert str(listed.value) == str(found.value)
    assert "does not serve stacks.hearth.dev" in str(found.value)


async def test_a_missing_object_is_none(tmp_path: Path) -> None:
    async with connect(tmp_path, {f"{STACKS}/web": says(orjson.dumps(NO_OBJECT), code=404)}) as session:
        assert await session.find(STACK, "shop", "web") is None
        with pytest.raises(errors.ApiStatusError):
            await session.get(STACK, "shop", "web")


async def test_a_server_that_always_announces_another_page_is_left(tmp_path: Path) -> None:
    page = orjson.dumps({"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "more"}})
    async with connect(tmp_path, {STACKS: says(page)}) as session:
        with pytest.raises(ListTooLarge, match="more than 200 pages"):
            await session.list(STACK, "shop")


async def test_foreign_servers_share_one_budget_of_bytes(tmp_path: Path) -> None:
    page = orjson.dumps({"items": [{"metadata": {"name": "a" * 1_000}}], "metadata": {}})
    budget = ForeignBudget(left=2_500)
    async with connect(tmp_path, {STACKS: says(page)}) as session:
        first, second = (Session(session.connection, budget=budget) for _ in range(2))
        await first.list(STACK, "shop")
        await second.list(STACK, "shop")
        with pytest.raises(ListTooLarge, match="MiB, together with the lists before it"):
            await first.list(STACK, "shop")
        budget.reset()
        await first.list(STACK, "shop")


# ---------------------------------------------------------------- words for kinds, as discovery describes them


def describe(group: str, kind: str, *, categories: tuple[str, ...] = ("hearth",), short: str = "") -> dict[str, Any]:
    resource = {
        "resource": f"{kind.lower()}s",
        "singularResource": kind.lower(),
        "responseKind": {"kind": kind},
        "categories": list(categories),
        "shortNames": [short] if short else [],
    }
    return {"metadata": {"name": group}, "versions": [{"version": "v1", "resources": [resource]}]}


class Server:
    """A connection to a server that serves these groups."""

    def __init__(self, *groups: Any) -> None:
        self.items = list(groups)
        self.connection = self
        self.asked = 0

    async def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        assert (method, path) == ("GET", "/apis")
        self.asked += 1
        return {"kind": "APIGroupDiscoveryList", "items": self.items}


GROUPS = (
    describe("platform.example", "WebApp", short="wa"),
    describe("other.example", "Site"),
    describe("more.example", "Site"),
    describe("apps.example", "Other", categories=()),
    describe("hearth.dev", "Stack"),
)


def locate(argument: str, *groups: Any) -> str:
    """The kind and name that an argument refers to."""
    session = cast("Session", Server(*(groups or GROUPS)))
    found = asyncio.run(stack_locations.locate(session, "prod", argument))
    return f"{found.kind.plural}.{found.kind.group}/{found.name}"


@pytest.mark.parametrize(
    "word", ["webapp", "webapps", "wa", "WebApp", "webapps.platform.example", "webapp.platform.example"]
)
def test_any_word_for_a_kind_means_it(word: str) -> None:
    assert locate(f"{word}/shop") == "webapps.platform.example/shop"


def test_a_name_alone_is_that_of_a_stack_and_costs_no_request() -> None:
    server = Server()
    found = asyncio.run(stack_locations.locate(cast("Session", server), "prod", "shop"))
    group = asyncio.run(stack_locations.locate(cast("Session", server), "prod", "rg/queue"))
    assert (found.kind, group.kind, server.asked) == (STACK, RESOURCE_GROUP, 0)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("site/shop", "use one of sites.more.example/shop, sites.other.example/shop"),
        ("other/shop", "the server has no Stack type 'other'; it has "),
        ("webapp/shop/page", "a name has no slash"),
    ],
)
def test_what_names_nothing_says_what_there_is(argument: str, words: str) -> None:
    with pytest.raises(UnknownType, match=words):
        locate(argument)


def test_a_resource_may_stand_behind_a_stack_or_an_instance() -> None:
    session = cast("Session", Server(*GROUPS))
    for argument, wanted in (("shop/web", ("shop", ["web"])), ("wa/shop/cache/db", ("shop", ["cache", "db"]))):
        found, path = asyncio.run(stack_locations.locate_within(session, "prod", argument, has_path=True))
        assert (found.name, list(path)) == wanted


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        {"metadata": None, "versions": [None, {"resources": [None, {"categories": "hearth"}]}]},
        {"metadata": {"name": "x"}, "versions": [{"version": "../v1", "resources": [{"categories": ["hearth"]}]}]},
        describe("../../api", "Web/App"),
    ],
)
def test_what_cannot_be_a_kind_is_none(hostile: Any) -> None:
    assert locate("wa/shop", hostile, *GROUPS) == "webapps.platform.example/shop"


RESOURCE_GROUPS = "GET /apis/hearth.dev/v1alpha1/namespaces/shop/resourcegroups"
SITES = "GET /apis/platform.example/v1/namespaces/shop/sites"
SITE = Kind(group="platform.example", version="v1", name="Site", plural="sites", namespaced=True)
FORBIDDEN = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "may not list this"}
ONE = {"metadata": {"name": "one", "namespace": "shop", "uid": "u-1"}}
FOUND = {"items": [ONE], "metadata": {}}


async def test_a_user_with_rights_on_one_kind_lists_that(tmp_path: Path) -> None:
    denied = says(orjson.dumps(FORBIDDEN), code=403)
    answers = {STACKS: denied, RESOURCE_GROUPS: denied, SITES: says(orjson.dumps(FOUND))}
    async with connect(tmp_path, answers) as session:
        found = await stack_locations.list_all(session, "shop", [STACK, RESOURCE_GROUP, SITE])
        assert [stack.name for stack in found] == ["one"]
        assert [kind for kind, _ in session.denied] == [STACK, RESOURCE_GROUP]
        with pytest.raises(errors.ApiStatusError, match="may not list this"):
            await stack_locations.list_all(session, "shop", [STACK, RESOURCE_GROUP])


async def test_what_a_user_may_not_list_is_no_empty_stack(tmp_path: Path) -> None:
    revisions = "GET /apis/apps/v1/namespaces/shop/controllerrevisions"
    raw = {**ONE, "apiVersion": "platform.example/v1", "kind": "Site", "spec": {}, "status": {}}
    async with connect(tmp_path, {revisions: says(orjson.dumps(FORBIDDEN), code=403)}) as session:
        objects = await StackReader(session).complete(stack_locations.parse(raw, SITE))
    assert [each.partition(":")[0] for each in objects.omissions] == [
        "the resources and objects of site/one are not shown"
    ]


async def test_huge_objects_are_read_in_smaller_pages(tmp_path: Path) -> None:
    count, size, asked = 40, 10_000, list[int]()

    async def answer(request: web.BaseRequest) -> web.Response:
        first, limit = int(request.query.get("continue") or 0), int(request.query["limit"])
        asked.append(limit)
        last = min(count, first + limit)
        items = [{"metadata": {"name": str(number)}, "spec": "x" * size} for number in range(first, last)]
        metadata = {"resourceVersion": "7", "continue": str(last) if last < count else ""}
        return web.Response(body=orjson.dumps({"items": items, "metadata": metadata}))

    async with connect(tmp_path, {STACKS: answer}, body_bytes=100_000) as session:
        pages = [page async for page in session.list_pages(STACK, "shop")]

    assert [raw["metadata"]["name"] for page in pages for raw in page.items] == [str(number) for number in range(count)]
    assert asked == [500, 62, 7, 7, 7, 7, 7, 7]
    assert {page.version for page in pages} == {"7"}


async def test_an_object_that_is_too_large_ends_the_list(tmp_path: Path) -> None:
    huge = {"items": [{"metadata": {"name": "huge"}, "spec": "x" * 1_000}], "metadata": {}}
    async with connect(tmp_path, {STACKS: says(orjson.dumps(huge))}, body_bytes=500) as session:
        with pytest.raises(errors.AnswerTooLarge):
            await session.list(STACK, "shop")


async def test_a_page_that_was_read_is_not_kept_until_the_next_one(tmp_path: Path) -> None:
    body = {"items": [ONE], "metadata": {"continue": "more"}}
    async with connect(tmp_path, {STACKS: says(orjson.dumps(body))}) as session:
        pages = session.list_pages(STACK, "shop")
        items = (await anext(pages)).items
        assert sys.getrefcount(items) == 2  # `items` and the argument
        await pages.aclose()
