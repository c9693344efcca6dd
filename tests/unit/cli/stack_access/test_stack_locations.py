"""Which kinds are those of StackDefinitions, as discovery describes them, and which words mean one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hearth.cli.stack_access import stack_locations
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import UnknownType
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK


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
    """What an argument names, as kind and name."""
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
        ("site/shop", "name one of sites.more.example/shop, sites.other.example/shop"),
        ("other/shop", "the server has no type 'other' of Stacks; it has "),
        ("webapp/shop/page", "names have no slash"),
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
