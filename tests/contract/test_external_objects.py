"""Objects that a Stack only reads: followed by name or by labels, and reported when a field it reads changes."""

from __future__ import annotations

from typing import Any

from contract.bench import CONFIG_MAP, Bench
from hearth.model import label_selectors
from hearth.model.child import Object
from hearth.model.external_objects import ExternalQuery
from support.stories.world import Address

READER, NAME = "reader-uid", "gateway"
DATA = frozenset({("data", "a")})


def foreign(bench: Bench, name: str, labels: Object | None = None, **data: str) -> Object:
    """A ConfigMap that does not belong to a Stack."""
    metadata = {"name": name, "namespace": bench.namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def by_name(bench: Bench, name: str = "gateway", **options: Any) -> ExternalQuery:
    return ExternalQuery(kind=CONFIG_MAP, namespace=bench.namespace, name=name, paths=options.get("paths", DATA))


def by_labels(bench: Bench, **labels: str) -> ExternalQuery:
    """The ConfigMaps with these labels."""
    selector = label_selectors.parse({"matchLabels": labels})
    return ExternalQuery(kind=CONFIG_MAP, namespace=bench.namespace, selector=selector, paths=DATA)


async def follow(bench: Bench, query: ExternalQuery, *, name: str = NAME) -> None:
    """Follow one query until its objects are known."""
    bench.cluster.follow_externals(READER, {name: query}, namespace=bench.namespace)
    await bench.until(lambda: bench.cluster.find_external(READER, name).is_known)
    bench.ears.children.clear()


def names_of(bench: Bench, name: str = NAME) -> list[str]:
    """The objects that are known."""
    return [each.name for each in bench.cluster.find_external(READER, name).objects]


async def test_nothing_is_known_before_it_was_read(bench: Bench) -> None:
    assert not bench.cluster.find_external(READER, NAME).is_known
    bench.cluster.follow_externals(READER, {NAME: by_name(bench)}, namespace=bench.namespace)
    assert not bench.cluster.find_external(READER, NAME).is_known
    await bench.until(lambda: (READER, NAME) in bench.ears.children)
    assert bench.cluster.find_external(READER, NAME).is_known
    assert names_of(bench) == []


async def test_an_object_appears_changes_and_vanishes(bench: Bench) -> None:
    await follow(bench, by_name(bench))
    made = await bench.user.create(foreign(bench, "gateway", a="1", b="1"))
    await bench.until(lambda: names_of(bench) == ["gateway"])
    (found,) = bench.cluster.find_external(READER, NAME).objects
    assert (found.uid, found.fields["data"]) == (made["metadata"]["uid"], {"a": "1"})
    await bench.until(lambda: (READER, NAME) in bench.ears.children)
    bench.ears.children.clear()
    await bench.user.patch(Address.of(made), {"data": {"a": "2"}})
    await bench.until(lambda: (READER, NAME) in bench.ears.children)
    (found,) = bench.cluster.find_external(READER, NAME).objects
    assert found.fields["data"] == {"a": "2"}
    bench.ears.children.clear()
    await bench.user.delete(Address.of(made))
    await bench.until(lambda: (READER, NAME) in bench.ears.children)
    assert names_of(bench) == []


async def test_a_change_of_what_is_not_read_is_no_news(bench: Bench) -> None:
    made = await bench.user.create(foreign(bench, "gateway", a="1"))
    await follow(bench, by_name(bench))
    await bench.user.patch(Address.of(made), {"data": {"unread": "x"}})
    marker = {NAME: by_name(bench), "marker": by_name(bench, "other")}
    bench.cluster.follow_externals(READER, marker, namespace=bench.namespace)
    await bench.user.create(foreign(bench, "other"))
    await bench.until(lambda: names_of(bench, "marker") == ["other"])
    assert (READER, NAME) not in bench.ears.children


async def test_a_list_follows_labels_and_is_in_order(bench: Bench) -> None:
    two = await bench.user.create(foreign(bench, "two", {"tier": "tenant"}, a="2"))
    none = await bench.user.create(foreign(bench, "none", a="0"))
    await follow(bench, by_labels(bench, tier="tenant"))
    assert names_of(bench) == ["two"]
    await bench.user.create(foreign(bench, "one", {"tier": "tenant"}, a="1"))
    await bench.until(lambda: names_of(bench) == ["one", "two"])
    await bench.user.patch(Address.of(none), {"metadata": {"labels": {"tier": "tenant"}}})
    await bench.until(lambda: names_of(bench) == ["none", "one", "two"])
    await bench.user.patch(Address.of(two), {"metadata": {"labels": {"tier": "other"}}})
    await bench.until(lambda: names_of(bench) == ["none", "one"])


async def test_two_readers_of_one_object(bench: Bench) -> None:
    made = await bench.user.create(foreign(bench, "gateway", a="1", b="1"))
    other = by_name(bench, paths=frozenset({("data", "b")}))
    bench.cluster.follow_externals("other-uid", {"b": other}, namespace=bench.namespace)
    await follow(bench, by_name(bench))
    await bench.until(lambda: bench.cluster.find_external("other-uid", "b").is_known)
    bench.ears.children.clear()
    await bench.user.patch(Address.of(made), {"data": {"b": "2"}})
    await bench.until(lambda: ("other-uid", "b") in bench.ears.children)
    assert (READER, NAME) not in bench.ears.children
    bench.cluster.follow_externals("other-uid", {}, namespace=bench.namespace)
    assert not bench.cluster.find_external("other-uid", "b").is_known
    await bench.user.patch(Address.of(made), {"data": {"a": "2"}})
    await bench.until(lambda: (READER, NAME) in bench.ears.children)


async def test_another_object_of_the_name(bench: Bench) -> None:
    made = await bench.user.create(foreign(bench, "gateway", a="1"))
    await follow(bench, by_name(bench))
    await bench.user.delete(Address.of(made))
    again = await bench.user.create(foreign(bench, "gateway", a="1"))
    uid = again["metadata"]["uid"]
    await bench.until(lambda: [each.uid for each in bench.cluster.find_external(READER, NAME).objects] == [uid])
    assert (READER, NAME) in bench.ears.children
