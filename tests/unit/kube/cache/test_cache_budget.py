"""The caches' memory is bounded no matter who fills them; skipped objects are reported."""

from __future__ import annotations

import pytest

from hearth.kube.cache.child_cache import ChildCache
from hearth.model import limits, names
from hearth.model.child import Child, Object, Path
from hearth.model.memory_shares import memory_shares
from support.ports.silent_ports import DeafListener, SilentObserver
from support.units import signing
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    CONFIG_MAP,
    ScriptedConnection,
    ServedKinds,
    Stream,
    elapse,
    list_end,
    make_object,
)
from support.virtual_time import in_virtual_time

BIG = limits.OBJECT_KEPT_BYTES
UNPROVEN = "?"


class Bench:
    """A cache of ConfigMaps that reads some fields, behind a scripted watch."""

    def __init__(self, *paths: Path) -> None:
        self.observer = SilentObserver()
        self.stream = Stream()
        self._paths = paths
        connection = ScriptedConnection(streams=[self.stream])
        self.caches = ChildCache(
            connection, ServedKinds(), DeafListener(), options=scripted_watch.RULES, observer=self.observer
        )
        self.caches.trust(signing.Trusting())

    async def show(self, *objects: Object) -> None:
        """The first list."""
        self.stream.say(*(scripted_watch.event("ADDED", raw) for raw in objects), list_end(1000))
        self.caches.follow(CONFIG_MAP, self._paths)
        await self.caches.wait_synced()

    async def change(self, raw: Object) -> None:
        self.stream.say(scripted_watch.event("MODIFIED", raw))
        await elapse(0.1)

    def find(self, name: str, resource: str | None = None) -> Child:
        """The child of that name."""
        [child] = [each for each in self.caches.children_of("s1", resource or name) if each.name == name]
        return child


def ours(name: str, version: int, **parts: object) -> Object:
    """A ConfigMap with its own labels or annotations, and Hearth's signature over them."""
    raw = make_object(name, version, **parts)
    annotations = {
        key: value for key, value in raw["metadata"]["annotations"].items() if key != names.ANNOTATION_SIGNATURE
    }
    return signing.sign({**raw, "metadata": {**raw["metadata"], "annotations": annotations}})


def in_namespace(namespace: str, raw: Object) -> Object:
    """The same object in another namespace, with a valid signature."""
    annotations = raw["metadata"]["annotations"]
    unsigned = {key: value for key, value in annotations.items() if key != names.ANNOTATION_SIGNATURE}
    return signing.sign({**raw, "metadata": {**raw["metadata"], "namespace": namespace, "annotations": unsigned}})


def forged(name: str, version: int, **parts: object) -> Object:
    """The same object without Hearth's signature."""
    raw = make_object(name, version, **parts)
    return {**raw, "metadata": {**raw["metadata"], "annotations": {}}}


@in_virtual_time
async def test_a_large_field_is_left_out_and_the_others_stay() -> None:
    bench = Bench(("data", "a"), ("data", "b"))
    await bench.show(make_object("one", 1, data={"a": "x" * BIG, "b": "y"}))
    child = bench.find("one")
    assert (child.omitted, child.fields["data"]) == ((("data", "a"),), {"b": "y"})
    await bench.change(make_object("one", 1001, data={"a": "x" * BIG, "b": "z"}))
    assert (bench.find("one").fields["data"], bench.observer.limits) == ({"b": "z"}, ["object-bytes"])
    await bench.change(make_object("one", 1002, data={"a": "x", "b": "z"}))
    child = bench.find("one")
    assert (child.omitted, child.fields["data"]) == ((), {"a": "x", "b": "z"})


@in_virtual_time
async def test_ours_among_large_annotations_and_labels_stay() -> None:
    annotations = {
        f"{names.GROUP}/looks-like-ours": "x",
        "example.org/big": "x" * BIG,
        names.ANNOTATION_UNHEALTHY: "answers 500",
        names.ANNOTATION_POST_BREAKPOINT: "x" * BIG,
    }
    bench = Bench()
    await bench.show(ours("one", 1, annotations=annotations, finalizers=[f"example.org/{n}" for n in range(99)]))
    child = bench.find("one")
    kept = child.fields["metadata"]["annotations"]
    assert child.is_identified
    assert child.omitted == (("metadata", "annotations"), ("metadata", "finalizers"))
    assert (child.unhealthy_reason, set(kept) & set(annotations)) == ("answers 500", {names.ANNOTATION_UNHEALTHY})
    assert len(child.finalizers) == limits.FINALIZERS_KEPT


@in_virtual_time
async def test_objects_that_prove_nothing_fill_no_memory() -> None:
    count = 400
    bench = Bench(("data",))
    labels = {names.LABEL_STACK_UID: "s1", names.LABEL_RESOURCE: "r"}
    size = limits.OBJECT_KEPT_BYTES - 2048
    await bench.show(
        make_object("real", 1, data={"a": "x" * size}),
        *(forged(f"n{number}", 2, labels=labels, data={"a": "x" * size}) for number in range(count)),
    )
    found = bench.caches.children_of("s1", UNPROVEN)
    kept = sum(len(child.fields.get("data", {}).get("a", "")) for child in found)
    assert len(found) == count
    assert limits.UNPROVEN_KEPT_BYTES * 0.9 < kept <= limits.UNPROVEN_KEPT_BYTES
    assert "cache-bytes" in bench.observer.limits
    assert bench.find("real").omitted == ()


@in_virtual_time
async def test_the_budget_is_free_again_when_objects_go_or_shrink() -> None:
    bench = Bench(("data",))
    size = limits.OBJECT_KEPT_BYTES - 2048
    whole = limits.UNPROVEN_KEPT_BYTES // limits.OBJECT_KEPT_BYTES
    names_ = [f"n{number}" for number in range(whole)]
    await bench.show(*(forged(name, 2, data={"a": "x" * size}) for name in names_))
    for round_ in range(3):
        for at, name in enumerate(names_):
            version = 2000 + round_ * 10_000 + at * 4
            await bench.change(forged(name, version, data={"a": "y" * size}))
            await bench.change(forged(name, version + 1, data={"a": "z"}))
            signed_for_another = {names.LABEL_STACK_UID: "s2", names.LABEL_RESOURCE: name}
            await bench.change(make_object(name, version + 2, labels=signed_for_another, data={"a": "y" * size}))
            await bench.change(forged(name, version + 3, data={"a": "x" * size}))
    assert [child.omitted for child in bench.caches.children_of("s1", UNPROVEN)] == [()] * whole


@in_virtual_time
async def test_one_namespace_has_a_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 4 * 1024 * 1024
    monkeypatch.setattr(memory_shares, "total", memory_shares.total_held + 2 * room)
    bench = Bench(("data",))
    size = limits.OBJECT_KEPT_BYTES - 2048
    count = 2 * room // limits.OBJECT_KEPT_BYTES
    labels = {names.LABEL_STACK_UID: "s2", names.LABEL_RESOURCE: "r"}
    await bench.show(
        *(make_object(f"n{number}", 2, data={"a": "x" * size}) for number in range(count)),
        make_object("small", 2, data={"a": "x" * 1024}),
        in_namespace("b", ours("other", 3, labels=labels, data={"a": "x" * size})),
    )
    children = [child for found in bench.caches.children("s1").values() for child in found if child.name != "small"]
    kept = sum(len(child.fields.get("data", {}).get("a", "")) for child in children)
    assert room * 0.9 < kept <= room
    assert all(child.is_identified for child in children)
    assert bench.find("small").omitted == ()
    [other] = bench.caches.children_of("s2", "r")
    assert other.omitted == ()


@in_virtual_time
async def test_bytes_are_counted_by_kind_while_objects_come_and_go() -> None:
    bench = Bench(("data",))
    await bench.show(make_object("one", 1, data={"a": "x" * 20_000}), make_object("two", 2, data={"a": "x"}))
    [(kind, begun)] = bench.caches.count_bytes().items()
    assert kind == CONFIG_MAP.key
    assert 20_000 < begun < 24_000
    await bench.change(make_object("one", 1001, data={"a": "x"}))
    assert 0 < bench.caches.count_bytes()[kind] <= 2048
    bench.stream.say(scripted_watch.event("DELETED", make_object("one", 1002)))
    bench.stream.say(scripted_watch.event("DELETED", make_object("two", 1003)))
    await elapse(0.1)
    assert bench.caches.count_bytes() == {kind: 0}
