"""One watch serves all reads of a kind in a namespace, with shares of watches and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.kube.cache.external_cache import ExternalCache
from hearth.kube.watch.reflector import WatchContext
from hearth.model import label_selectors, limits
from hearth.model.child import Object
from hearth.model.external_objects import ExternalQuery
from hearth.model.kinds import Kind
from hearth.model.memory_shares import memory_shares
from support.ports.silent_ports import DeafListener
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    CONFIG_MAP,
    ScriptedConnection,
    Stream,
    elapse,
    event,
    list_end,
    make_object,
)
from support.virtual_time import in_virtual_time

DATA = frozenset({("data", "a")})


class Listener(DeafListener):
    """Records the Stacks that it would wake."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_child(self, stack_uid: str, resource: str) -> None:
        """An external object changed."""
        self.heard.append(f"{stack_uid}/{resource}")


class Bench:
    """The cache on a scripted connection, in virtual time."""

    def __init__(self, *streams: Stream | Exception, **options: Any) -> None:
        self.connection = ScriptedConnection(streams=list(streams))
        self.listener = Listener()
        context = WatchContext(connection=self.connection, options=scripted_watch.RULES, observer=None)
        self.cache = ExternalCache(context, self.listener, **options)

    def follow(self, uid: str, *, tenant: str = "default", **queries: ExternalQuery) -> None:
        """Follow exactly these queries."""
        self.cache.follow(uid, queries, namespace=tenant)

    async def hear(self, seconds: float = 0.5) -> list[str]:
        """Process all events; return the Stacks woken since the last call."""
        await elapse(seconds)
        heard, self.listener.heard = self.listener.heard, []
        return heard

    def selectors(self) -> list[dict[str, str]]:
        """The selectors of all requests except the watch."""
        asked = [each.query for each in self.connection.asked]
        return [{key: value for key, value in each.items() if key.endswith("Selector")} for each in asked]


def one(name: str, *, kind: Kind = CONFIG_MAP, namespace: str = "shared", paths: Any = DATA) -> ExternalQuery:
    return ExternalQuery(kind=kind, namespace=namespace, name=name, paths=paths)


def some(**labels: str) -> ExternalQuery:
    """A list of objects."""
    selector = label_selectors.parse({"matchLabels": labels})
    return ExternalQuery(kind=CONFIG_MAP, namespace="shared", selector=selector, paths=DATA)


def config(name: str, version: int, a: str = "1", unread: str = "x", **labels: str) -> Object:
    """A ConfigMap of another namespace."""
    data = {"a": a, "unread": unread}
    return make_object(name, version, namespace="shared", labels=labels, annotations={}, data=data)


def added(name: str, version: int, a: str = "1", **labels: str) -> bytes:
    """The line that shows an object for the first time."""
    return event("ADDED", config(name, version, a, **labels))


def modified(name: str, version: int, a: str = "1", unread: str = "x") -> bytes:
    """The line that shows it changed."""
    return event("MODIFIED", config(name, version, a, unread))


@in_virtual_time
async def test_many_stacks_share_one_watch() -> None:
    bench = Bench(Stream(added("gateway", 5), list_end(6)))
    for number in range(100):
        bench.follow(f"s{number}", gateway=one("gateway"))
    assert sorted(await bench.hear()) == sorted(f"s{number}/gateway" for number in range(100))
    assert len(bench.cache.health()) == 1
    assert bench.selectors() == [{"fieldSelector": "metadata.name=gateway"}]
    (found,) = bench.cache.find("s7", "gateway").objects
    assert found.fields["data"] == {"a": "1"}


@in_virtual_time
async def test_another_query_lists_again_and_keeps_only_what_is_meant() -> None:
    bench = Bench(
        Stream(added("gateway", 5), list_end(6)),
        Stream(added("gateway", 5), added("x", 4, tier="t"), added("y", 3), list_end(7)),
    )
    bench.follow("s1", gateway=one("gateway"))
    await bench.hear()
    bench.follow("s2", tenants=some(tier="t"))
    assert bench.cache.find("s1", "gateway").is_known
    assert not bench.cache.find("s2", "tenants").is_known
    assert await bench.hear() == ["s2/tenants"]
    assert [each.name for each in bench.cache.find("s2", "tenants").objects] == ["x"]
    assert (bench.cache.health()[0].objects, bench.selectors()[-1]) == (2, {})


@in_virtual_time
async def test_a_burst_counts_together() -> None:
    """The first change is reported at once, all others together after two seconds, unread fields never."""
    stream = Stream(added("gateway", 5), list_end(6))
    bench = Bench(stream)
    bench.follow("s1", gateway=one("gateway"))
    await bench.hear()
    stream.say(modified("gateway", 7, "2"))
    assert await bench.hear(0.1) == ["s1/gateway"]
    for version in range(8, 12):
        stream.say(modified("gateway", version, str(version)))
    assert await bench.hear(0.5) == []
    assert await bench.hear(limits.EXTERNAL_BURST) == ["s1/gateway"]
    stream.say(modified("gateway", 20, "11", "y"))
    assert await bench.hear(5.0) == []


@in_virtual_time
async def test_watches_end_with_their_readers() -> None:
    before = memory_shares.total_held
    bench = Bench(Stream(added("gateway", 5), list_end(6)))
    bench.follow("s1", gateway=one("gateway"))
    await bench.hear()
    assert memory_shares.total_held > before
    bench.follow("s1")
    await bench.hear()
    assert (bench.cache.health(), memory_shares.total_held) == ([], before)


@in_virtual_time
async def test_a_namespace_has_a_share_of_the_watches() -> None:
    bench = Bench(*(Stream(list_end(6)) for _ in range(100)))
    most = limits.EXTERNAL_WATCHES_PER_NAMESPACE
    many = {f"r{number}": one("a", namespace=f"n{number}") for number in range(most + 1)}
    bench.follow("greedy", tenant="greedy", **many)
    bench.follow("modest", tenant="modest", a=one("a", namespace="own"))
    await bench.hear()
    assert bench.cache.find("modest", "a").is_known
    assert "16 kinds and namespaces" in bench.cache.find("greedy", f"r{most}").excess
    less = {name: query for name, query in many.items() if name != "r0"}
    bench.follow("greedy", tenant="greedy", **less)
    assert f"greedy/r{most}" in await bench.hear()
    bench.follow("greedy", tenant="greedy", **less)
    await bench.hear()
    assert bench.cache.find("greedy", f"r{most}").is_known


@pytest.mark.parametrize("is_refused", [False, True])
@in_virtual_time
async def test_large_fields_are_left_out(monkeypatch: pytest.MonkeyPatch, *, is_refused: bool) -> None:
    if is_refused:
        monkeypatch.setattr(memory_shares, "total", memory_shares.total_held)
    text = "x" * (10 if is_refused else limits.EXTERNAL_OBJECT_BYTES + 1)
    bench = Bench(Stream(added("gateway", 5, text), list_end(6)))
    bench.follow("s1", gateway=one("gateway"))
    await bench.hear()
    (found,) = bench.cache.find("s1", "gateway").objects
    assert ("data", "a") in found.omitted
    assert "data" not in found.fields
