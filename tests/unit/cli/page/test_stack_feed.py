"""The list of Stacks that a watch keeps up to date, and attacks on its memory and on the rights of its user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import pytest

from hearth.cli.page import stack_feed
from hearth.cli.page.stack_feed import StackFeed
from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_access import read_budgets
from hearth.cli.stack_access.read_budgets import ListTooLarge, MemoryInUse, PageMemory, ReadMemory
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, limits
from hearth.model.child import Object
from support.server import api_errors
from support.units.scripted_api.scripted_connection import ScriptedConnection

STACKS = "/apis/hearth.dev/v1alpha1/stacks"
GROUPS = "/apis/hearth.dev/v1alpha1/resourcegroups"
FORBIDDEN = api_errors.refuse(403, "Forbidden", "stacks is forbidden")


@dataclass(slots=True)
class WatchedConnection(ScriptedConnection):
    """A scripted API server with a watch of Stacks."""

    events: asyncio.Queue[Object] = field(default_factory=asyncio.Queue)

    def stream(self, path: str, **rest: object) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if path != STACKS:
            raise errors.Unreachable(f"nothing streams from {path}")
        return self._watch()

    @contextlib.asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[bytes]]:
        async def read() -> AsyncIterator[bytes]:
            while True:
                yield orjson.dumps(await self.events.get()) + b"\n"

        yield read()

    def change(self, type_: str, raw: Object, *, version: str = "2") -> None:
        raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}}
        self.events.put_nowait({"type": type_, "object": raw})


def make_stack(name: str, phase: str = "CreateComplete", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "prod", "uid": f"u-{name}"}
    return {"metadata": metadata, "spec": {"template": {"resources": {}}, **spec}, "status": {"phase": phase}}


def draw(stack: StackState) -> bytes:
    return f"{stack.name}={stack.phase}".encode()


@dataclass(slots=True)
class Reader:
    """A feed with its server, and what one browser has of it."""

    api: WatchedConnection
    feed: StackFeed
    memory: PageMemory
    version: int | None = None

    async def read(self) -> dict[str, str | None]:
        """The changes since the last call; None for a removed row."""
        await self.feed.wait_listed()
        change = self.feed.find_row_change(self.version)
        if change is None:
            return {}
        self.version = change.version
        return {**change.rows, **dict.fromkeys(change.removed)}

    async def read_forever(self) -> None:
        while True:
            await self.read()
            await asyncio.sleep(0)

    async def wait_change(self) -> dict[str, str | None]:
        while not (change := await self.read()):  # noqa: ASYNC110 -- the feed draws it in a task of its own
            await asyncio.sleep(0)
        return change


@contextlib.asynccontextmanager
async def reading(
    stacks: Sequence[Object] = (),
    *,
    answers: list[Any] | None = None,
    draw: Callable[[StackState], bytes] = draw,
    rows: int = 2**20,
) -> AsyncIterator[Reader]:
    listed = answers or {"items": stacks, "metadata": {"resourceVersion": "1"}}
    discovery = {"kind": "APIGroupDiscoveryList", "items": []}
    api = WatchedConnection({"GET /apis": discovery, f"GET {STACKS}": listed, f"GET {GROUPS}": {"items": []}})
    reads = ReadMemory(limits.PAGE_USER_READ_BYTES)
    memory = PageMemory(row_memory=ReadMemory(rows), read_memory=reads, list_turns=asyncio.Semaphore(1))
    feed = StackFeed(Session(cast(Any, api)), "", draw=draw, memory=memory)
    async with asyncio.timeout(10):
        with feed.use():
            yield Reader(api, feed, memory)
        await feed.close()
    assert (memory.row_memory.used, reads.used) == (0, 0)


async def test_a_change_is_drawn_once_and_no_list_is_read_for_it() -> None:
    async with reading([make_stack("a"), make_stack("b")]) as reader:
        assert await reader.read() == {"stacks/prod/a": "a=CreateComplete", "stacks/prod/b": "b=CreateComplete"}
        reader.api.change("MODIFIED", make_stack("b", "UpdateFailed"))
        assert await reader.wait_change() == {"stacks/prod/b": "b=UpdateFailed"}
        reader.api.change("DELETED", make_stack("a"))
        assert await reader.wait_change() == {"stacks/prod/a": None}

        assert reader.feed.list_rows() == [b"b=UpdateFailed"]
        assert reader.api.asked.count(f"GET {STACKS}") == 1


async def test_a_browser_that_comes_back_gets_only_what_it_missed() -> None:
    async with reading([make_stack("a"), make_stack("b")]) as reader:
        await reader.read()
        cursor = reader.feed.cursor
        reader.api.change("MODIFIED", make_stack("b", "UpdateFailed"))
        await reader.wait_change()

        change = reader.feed.find_row_change(reader.feed.find_version(cursor))
        assert change is not None
        assert (list(change.rows), change.all) == (["stacks/prod/b"], None)
        for strange in ("", "x", "0.1", f"{cursor}9", cursor.replace(".", ".-"), f"{cursor[:-1]}²"):
            change = reader.feed.find_row_change(reader.feed.find_version(strange))
            assert change is not None
            assert change.all == ["stacks/prod/a", "stacks/prod/b"]


async def test_a_browser_that_missed_many_removals_gets_the_names_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "REMOVALS", 1)
    async with reading([make_stack(name) for name in "abc"]) as reader:
        await reader.read()
        cursor = reader.feed.cursor
        for name in "ab":
            reader.api.change("DELETED", make_stack(name))
            await reader.wait_change()

        change = reader.feed.find_row_change(reader.feed.find_version(cursor))
        assert change is not None
        assert change.all == ["stacks/prod/c"]


async def test_many_rows_are_sent_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "BATCH", 2)
    async with reading([make_stack(name) for name in "abcde"]) as reader:
        sizes = [len(await reader.read()) for _ in range(4)]
        assert sizes == [2, 2, 1, 0]


async def test_a_list_that_is_read_again_sends_only_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "RELIST_PAUSE", 0.0)
    monkeypatch.setattr(stack_feed, "PAUSE_FACTOR", 0)
    away = errors.Unreachable("connection refused")
    lists = [{"items": [make_stack("a"), make_stack("b")]}, away, {"items": [make_stack("b"), make_stack("c")]}]
    async with reading(answers=lists) as reader:
        changes: list[dict[str, str | None]] = []
        while len(changes) < 2 or "stacks/prod/c" not in changes[-1]:
            with contextlib.suppress(errors.Unreachable):
                if change := await reader.read():
                    changes.append(change)
            await asyncio.sleep(0)
        assert changes == [
            {"stacks/prod/a": "a=CreateComplete", "stacks/prod/b": "b=CreateComplete"},
            {"stacks/prod/a": None, "stacks/prod/c": "c=CreateComplete"},
        ]


async def test_rows_end_when_the_right_to_list_them_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "CHECK_SECONDS", 0.01)
    async with reading([make_stack("a")]) as reader:
        assert await reader.read() == {"stacks/prod/a": "a=CreateComplete"}

        # The watch stays open, as the API server checks a watch only at its start.
        reader.api.script[f"GET {STACKS}"] = FORBIDDEN

        assert await reader.wait_change() == {"stacks/prod/a": None}
        reader.api.script[f"GET {GROUPS}"] = FORBIDDEN
        with pytest.raises(errors.ApiStatusError) as refused:
            await reader.read_forever()
        assert refused.value.is_forbidden
        assert (reader.feed.list_rows(), reader.memory.row_memory.used) == ([], 0)


async def test_nothing_is_shown_while_the_right_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "CHECK_SECONDS", 0.01)
    async with reading([make_stack("a")]) as reader:
        await reader.read()
        reader.api.script[f"GET {STACKS}"] = errors.Unreachable("connection refused")

        with pytest.raises(errors.Unreachable):
            await reader.read_forever()


@pytest.mark.parametrize(
    ("limit", "value", "sentence"),
    [
        pytest.param("PAGE_ROWS", 3, "more than 3 objects", id="many objects"),
        pytest.param("PAGE_LIST_BYTES", 2_000, "more than 0 MiB", id="large objects"),
    ],
)
async def test_a_list_that_is_too_large_takes_no_memory(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, sentence: str
) -> None:
    monkeypatch.setattr(limits, limit, value)
    async with reading([make_stack(name, padding="x" * 1_000) for name in "abcd"]) as reader:
        with pytest.raises(ListTooLarge, match=sentence):
            await reader.read()
        assert reader.memory.row_memory.used == 0


async def test_objects_that_are_created_later_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_ROWS", 1)
    async with reading([make_stack("a")]) as reader:
        await reader.read()
        for name in "bcd":
            reader.api.change("ADDED", make_stack(name))
        with pytest.raises(ListTooLarge):
            await reader.read_forever()


async def test_rows_beyond_the_memory_of_a_user_are_refused() -> None:
    async with reading([make_stack(name) for name in "abcd"], rows=1_000) as reader:
        with pytest.raises(MemoryInUse):
            await reader.read()
        assert reader.memory.row_memory.used == 0


async def test_a_stack_that_cannot_be_drawn_hides_no_other() -> None:
    def draw_some(stack: StackState) -> bytes:
        if stack.name == "bad":
            raise TypeError(stack.name)
        return draw(stack)

    async with reading([make_stack("a"), make_stack("bad"), make_stack("z")], draw=draw_some) as reader:
        await reader.read()
        assert reader.feed.list_rows() == [b"a=CreateComplete", b"z=CreateComplete"]


async def test_objects_are_freed_page_by_page() -> None:
    pages: list[Any] = [
        {"items": [make_stack(name)], "metadata": {"resourceVersion": "1", "continue": token}}
        for name, token in (("a", "more"), ("b", ""))
    ]
    largest, used = max(map(read_budgets.measure, pages)), list[int]()
    async with reading(answers=pages) as reader:

        def draw_and_measure(stack: StackState) -> bytes:
            used.append(reader.memory.read_memory.used if reader.memory.read_memory is not None else 0)
            return draw(stack)

        reader.feed._draw = draw_and_measure
        await reader.read()
    assert len(used) == 2
    assert max(used) == largest


async def test_watches_end_without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_feed, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(stack_feed, "IDLE_SECONDS", 0.0)
    async with reading([make_stack("a")]) as reader:
        await reader.read()
        cursor = reader.feed.cursor
        reader.feed._users = 0
        while reader.feed.is_running:  # noqa: ASYNC110 -- it ends in a task of its own
            await asyncio.sleep(0)
        assert reader.memory.row_memory.used == 0
        reader.feed._users = 1

        await reader.feed.wait_listed()
        assert reader.feed.find_version(cursor) is None


async def test_a_session_keeps_few_lists_and_those_in_use_stay() -> None:
    api = WatchedConnection({})
    source = StackSource(Session(cast(Any, api)), namespace="")
    with contextlib.ExitStack() as used:
        for number in range(limits.PAGE_FEEDS):
            used.enter_context((await source.find_feed(f"n{number}", draw)).use())
        with pytest.raises(MemoryInUse, match="close some tabs"):
            await source.find_feed("another", draw)
        assert (await source.find_feed("n0", draw)).is_in_use
    assert not (await source.find_feed("another", draw)).is_in_use


def test_rows_are_sorted_like_the_list_of_the_command() -> None:
    paths = ["resourcegroups/a/x", "webapps.example/a/b", "stacks/a/z", "stacks/a/b", "stacks/Z/a"]
    assert sorted(paths, key=stack_feed.find_place) == [
        "stacks/Z/a",
        "stacks/a/b",
        "stacks/a/z",
        "webapps.example/a/b",
        "resourcegroups/a/x",
    ]
