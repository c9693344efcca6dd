"""The caches hold every labelled object of the followed kinds, and report changes that a reader can see."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from hearth.kube.cache import child_cache
from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.watch.reflector import METADATA, WatchOptions
from hearth.model import errors, names
from hearth.model.child import Object, Path
from hearth.model.kinds import Kind
from support.units import signing
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    CONFIG_MAP,
    ScriptedConnection,
    ServedKinds,
    Stream,
    added,
    deleted,
    elapse,
    list_end,
    make_object,
    modified,
)
from support.virtual_time import in_virtual_time

DATA = ("data",)
GREETING = ("data", "greeting")


class Listener:
    """Records the Stacks that it would wake."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_child(self, stack_uid: str, resource: str) -> None:
        self.heard.append(f"{stack_uid}/{resource}")

    def on_synced(self, kind: Kind) -> None:
        self.heard.append(f"synced {kind.api_version}")


class Bench:
    """Caches on a scripted connection, in virtual time."""

    def __init__(
        self, *streams: Stream | Exception, namespace: str = "", options: WatchOptions = scripted_watch.RULES
    ) -> None:
        self.connection = ScriptedConnection(streams=list(streams))
        self.kinds = ServedKinds()
        self.listener = Listener()
        self.caches = ChildCache(self.connection, self.kinds, self.listener, namespace=namespace, options=options)
        self.caches.trust(signing.Trusting())

    async def hear(self) -> list[str]:
        """Process all events; return the Stacks woken since the last call."""
        await elapse(0.5)
        heard, self.listener.heard = self.listener.heard, []
        return heard

    def versions(self) -> dict[str, int]:
        """Versions of the children of `s1`, by resource."""
        children = self.caches.children("s1")
        return {resource: child.resource_version for resource, group in children.items() for child in group}


async def follow(*streams: Stream | Exception, paths: Sequence[Path] = ()) -> Bench:
    """Caches of ConfigMaps, after all notifications about the first list."""
    bench = Bench(*streams)
    bench.caches.follow(CONFIG_MAP, paths)
    await bench.hear()
    return bench


def labelled(name: str, version: int, *, stack: str = "s1", resource: str, **parts: object) -> Object:
    """An object with these labels."""
    return make_object(name, version, labels={names.LABEL_STACK_UID: stack, names.LABEL_RESOURCE: resource}, **parts)


@in_virtual_time
async def test_a_followed_kind_is_there_once_it_was_listed() -> None:
    bench = Bench(Stream(added("a", 3), list_end(5)))
    assert not bench.caches.follow(CONFIG_MAP, [])
    assert await bench.hear() == ["s1/a", "synced v1"]
    assert bench.caches.follow(CONFIG_MAP, [])
    assert bench.versions() == {"a": 3}
    assert bench.connection.asked[0].query["labelSelector"] == "hearth.dev/stack-uid"


@in_virtual_time
async def test_children_are_found_by_stack_and_resource_across_kinds() -> None:
    secret = dataclasses.replace(CONFIG_MAP, name="Secret", plural="secrets")
    second = scripted_watch.event("ADDED", labelled("a2", 4, resource="a"))
    other = scripted_watch.event("ADDED", labelled("z", 5, stack="s2", resource="a"))
    bench = await follow(Stream(added("a", 3), second, other, list_end(5)), Stream(added("b", 3), list_end(6)))
    bench.caches.follow(secret, [])
    await bench.hear()
    assert {name: len(group) for name, group in bench.caches.children("s1").items()} == {"a": 2, "b": 1}
    assert [child.name for child in bench.caches.children_of("s1", "a")] == ["a", "a2"]
    assert bench.caches.children_of("s1", "b")[0].kind == secret
    assert bench.caches.children("ghost") == {}


@in_virtual_time
async def test_a_list_again_replaces_what_another_cluster_had() -> None:
    bench = await follow(Stream(added("a", 3), list_end(5)), Stream(added("b", 7), list_end(9)))
    bench.caches.list_again()
    assert bench.versions() == {"a": 3}
    assert await bench.hear() == ["s1/b", "s1/a"]
    assert bench.versions() == {"b": 7}
    assert bench.connection.asked[1].is_fresh


@in_virtual_time
async def test_metadata_alone_is_watched_where_nothing_else_is_read() -> None:
    bench = await follow(Stream(list_end(5)), paths=[("metadata", "ownerReferences"), ("metadata", "name")])
    assert [question.accept for question in bench.connection.asked] == [METADATA]


@in_virtual_time
async def test_a_request_for_more_fields_lists_afresh_and_keeps_the_old_ones_meanwhile() -> None:
    whole = added("a", 3, data={"greeting": "hello", "secret": "x"})
    bench = await follow(Stream(added("a", 3), list_end(5)), Stream(whole, list_end(6)))
    assert not bench.caches.follow(CONFIG_MAP, [GREETING])
    assert bench.versions() == {"a": 3}
    assert bench.caches.follow(CONFIG_MAP, [("metadata", "labels", "x")])
    assert await bench.hear() == ["synced v1"]
    assert bench.caches.follow(CONFIG_MAP, [GREETING])
    assert bench.caches.children_of("s1", "a")[0].fields["data"] == {"greeting": "hello"}
    assert bench.connection.asked[-1].accept == "application/json"


@in_virtual_time
async def test_requests_of_one_moment_cost_one_list() -> None:
    bench = Bench(Stream(list_end(5)), Stream(list_end(6)), Stream(list_end(7)))
    for key in "abc":
        bench.caches.follow(CONFIG_MAP, [("data", key)])
    await bench.hear()
    assert len(bench.connection.asked) == 1
    for key in "def":
        bench.caches.follow(CONFIG_MAP, [("data", key)])
    await bench.hear()
    assert len(bench.connection.asked) == 2


@in_virtual_time
async def test_a_trickle_of_requests_does_not_starve_a_list() -> None:
    slow = Stream()
    bench = await follow(slow, Stream(list_end(6)))
    for key in "abc":
        bench.caches.follow(CONFIG_MAP, [("data", key)])
        await bench.hear()
    slow.say(list_end(5))
    assert await bench.hear() == ["synced v1", "synced v1"]
    assert bench.caches.follow(CONFIG_MAP, [("data", "c")])
    assert len(bench.connection.asked) == 2


@in_virtual_time
async def test_what_is_covered_already_costs_nothing() -> None:
    bench = await follow(Stream(list_end(5)), paths=[DATA])
    assert bench.caches.follow(CONFIG_MAP, [GREETING, ("metadata", "name"), ("kind",)])
    await bench.hear()
    assert len(bench.connection.asked) == 1


@in_virtual_time
async def test_a_change_wakes_and_a_mere_version_does_not() -> None:
    stream = Stream(added("a", 3, data={"greeting": "hello"}), list_end(5))
    bench = await follow(stream, paths=[GREETING])
    stream.say(modified("a", 6, data={"greeting": "hello", "other": "ignored"}))
    assert await bench.hear() == []
    assert bench.versions() == {"a": 6}
    stream.say(modified("a", 7, data={"greeting": "bye"}))
    assert await bench.hear() == ["s1/a"]


@in_virtual_time
async def test_the_beginning_of_a_deletion_and_a_finalizer_wake() -> None:
    stream = Stream(added("a", 3), list_end(5))
    bench = await follow(stream)
    stream.say(modified("a", 6, finalizers=["x/y"]))
    assert await bench.hear() == ["s1/a"]
    stream.say(modified("a", 7, finalizers=["x/y"], deletionTimestamp="2026-01-01T00:00:00Z"))
    assert await bench.hear() == ["s1/a"]


@in_virtual_time
async def test_lost_ownership_wakes() -> None:
    """This drift appears only in managedFields."""
    entry = {"manager": "hearth:default/s", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}
    stream = Stream(added("a", 3, managedFields=[entry]), list_end(5))
    bench = await follow(stream)
    stream.say(modified("a", 6, managedFields=[{**entry, "fieldsV1": {"f:data": {"f:a": {}}}}]))
    assert await bench.hear() == ["s1/a"]


@in_virtual_time
async def test_our_own_writes_wake_no_stack() -> None:
    stream = Stream(added("a", 3, data={"greeting": "hello"}), list_end(5))
    bench = await follow(stream, paths=[GREETING])
    child = bench.caches.put(make_object("a", 6, data={"greeting": "bye"}), CONFIG_MAP)
    stream.say(modified("a", 6, data={"greeting": "bye"}))
    assert await bench.hear() == []
    assert bench.caches.children_of("s1", "a") == (child,)
    stream.say(modified("a", 7, data={"greeting": "hm"}))
    assert await bench.hear() == ["s1/a"]


@in_virtual_time
async def test_an_answer_keeps_no_more_than_the_watch_shows() -> None:
    entry = {"manager": "hearth:default/s", "operation": "Apply", "fieldsV1": {"f:data": {}}}
    stream = Stream(list_end(5))
    bench = await follow(stream)
    bench.caches.put(make_object("a", 6, data={}, managedFields=[entry]), CONFIG_MAP)
    stream.say(modified("a", 7, managedFields=[entry]))
    assert await bench.hear() == []


@in_virtual_time
async def test_our_own_deletion_is_done_at_once_and_wakes_no_stack() -> None:
    stream = Stream(added("a", 3), list_end(5))
    bench = await follow(stream)
    bench.caches.forget(bench.caches.children_of("s1", "a")[0])
    assert bench.versions() == {}
    stream.say(modified("a", 6, annotations={"late": "yes"}), deleted("a", 7))
    assert await bench.hear() == []
    stream.say(added("a", 8, uid="another"))
    assert await bench.hear() == ["s1/a"]


@in_virtual_time
async def test_a_label_that_names_another_resource_wakes_both() -> None:
    stream = Stream(added("a", 3), list_end(5))
    bench = await follow(stream)
    stream.say(scripted_watch.event("MODIFIED", labelled("a", 6, stack="s2", resource="b")))
    assert sorted(await bench.hear()) == ["s1/a", "s2/b"]
    assert bench.caches.children("s1") is child_cache.NOTHING
    assert len(bench.caches.children_of("s2", "b")) == 1


@in_virtual_time
async def test_what_went_while_unobserved_wakes() -> None:
    expired = scripted_watch.error(410)
    bench = Bench(Stream(added("a", 3), added("b", 4), list_end(5), expired), Stream(added("b", 4), list_end(9)))
    bench.caches.follow(CONFIG_MAP, [])
    assert await bench.hear() == ["s1/a", "s1/b", "synced v1", "s1/a"]
    assert bench.versions() == {"b": 4}


@in_virtual_time
async def test_a_kind_that_vanished_takes_its_objects_along_and_comes_back_at_once() -> None:
    gone = [errors.ApiStatusError(code=404, status=None) for _ in range(10)]
    first, again = Stream(added("a", 3), list_end(5)).end(), Stream(added("a", 30, uid="new"), list_end(31))
    bench = Bench(first, *gone, again)
    bench.caches.follow(CONFIG_MAP, [])
    await elapse(60.0)
    assert bench.versions() == {}
    assert bench.caches.follow(CONFIG_MAP, [])
    while len(bench.connection.streams) > 1:
        await elapse(1.0)
    bench.kinds.serve(CONFIG_MAP)
    bench.caches.on_kinds()
    await bench.hear()
    assert bench.versions() == {"a": 30}


@in_virtual_time
async def test_a_kind_served_under_two_versions_is_watched_once() -> None:
    newer = dataclasses.replace(CONFIG_MAP, version="v2")
    bench = Bench(Stream(added("a", 3), list_end(5)), Stream(added("a", 3), list_end(6)))
    bench.kinds.serve(CONFIG_MAP, newer)
    bench.caches.follow(CONFIG_MAP, [])
    await bench.hear()
    assert bench.caches.follow(newer, [])
    assert len(bench.connection.asked) == 1
    bench.kinds.serve(newer)
    bench.caches.follow(newer, [])
    await bench.hear()
    assert bench.connection.asked[-1].path == "/api/v2/configmaps"
    assert bench.caches.children_of("s1", "a")[0].kind == newer


@in_virtual_time
async def test_a_kind_that_moved_is_watched_where_it_is_now() -> None:
    moved = dataclasses.replace(CONFIG_MAP, plural="configs")
    bench = await follow(Stream(list_end(5)), Stream(list_end(6)))
    bench.kinds.serve(moved)
    bench.caches.on_kinds()
    await bench.hear()
    assert bench.connection.asked[-1].path == "/api/v1/configs"


@in_virtual_time
async def test_one_namespace_alone_can_be_watched() -> None:
    role = Kind(
        group="rbac.authorization.k8s.io", version="v1", name="ClusterRole", plural="clusterroles", namespaced=False
    )
    bench = Bench(namespace="shop")
    bench.caches.follow(CONFIG_MAP, [])
    bench.caches.follow(role, [])
    await bench.hear()
    paths = [question.path for question in bench.connection.asked]
    assert paths == ["/api/v1/namespaces/shop/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"]


@in_virtual_time
async def test_health_tells_of_each_watch() -> None:
    bench = Bench(Stream(added("a", 3), list_end(5)).end())
    bench.caches.follow(CONFIG_MAP, [])
    await bench.caches.wait_synced()
    await elapse(10.0)
    (health,) = bench.caches.health()
    assert (health.kind, health.objects, health.is_synced) == ("ConfigMap", 1, True)
    assert dict(health.restarts) == {"ended": 1}
    assert health.silence is not None
    assert 9.0 < health.silence <= 10.0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.Unreachable("away"), id="the server is away"),
        pytest.param(errors.ApiStatusError(code=404, status=None), id="the kind is gone"),
        pytest.param(errors.ApiStatusError(code=403, status=None), id="the right is gone"),
    ],
)
def test_a_watch_that_keeps_asking_is_not_silent(error: Exception) -> None:
    @in_virtual_time
    async def look() -> None:
        bench = Bench(Stream(added("a", 3), list_end(5)).end(), *[error] * 1000)
        bench.caches.follow(CONFIG_MAP, [])
        await elapse(1000.0)
        (health,) = bench.caches.health()
        assert health.silence is not None
        assert health.silence <= 30.0

    look()


@in_virtual_time
async def test_closing_before_the_first_list_asks_for_nothing() -> None:
    bench = Bench()
    for key in "abc":
        bench.caches.follow(CONFIG_MAP, [("data", key)])
    await bench.caches.close()
    await bench.hear()
    assert bench.connection.asked == []


@in_virtual_time
async def test_after_closing_no_stream_is_left() -> None:
    stream = Stream(list_end(5))
    bench = await follow(stream)
    await bench.caches.close()
    assert not stream.is_open


@in_virtual_time
async def test_a_list_of_our_own_brings_the_cache_up_to_date() -> None:
    other = scripted_watch.event("ADDED", labelled("z", 3, stack="s2", resource="a"))
    bench = await follow(Stream(added("a", 2), added("b", 3), added("c", 4), other, list_end(5)), paths=[DATA])
    found = [labelled("a", 2, resource="a"), labelled("b", 7, resource="b", data={"greeting": "bye"})]
    bench.caches.take_list([*found, labelled("d", 6, resource="d")], kind=CONFIG_MAP, stack_uid="s1", as_of=8)
    assert bench.versions() == {"a": 2, "b": 7, "d": 6}
    assert bench.caches.children_of("s1", "b")[0].fields["data"] == {"greeting": "bye"}
    assert bench.caches.children("s2").keys() == {"a"}
    assert await bench.hear() == []


@in_virtual_time
async def test_a_list_of_our_own_says_nothing_of_what_is_newer() -> None:
    stream = Stream(added("a", 2), added("b", 3), list_end(5))
    bench = await follow(stream)
    stream.say(deleted("b", 9))
    await bench.hear()
    bench.caches.put(labelled("c", 10, resource="c"), CONFIG_MAP)
    found = [labelled("a", 2, resource="a"), labelled("b", 3, resource="b")]
    bench.caches.take_list(found, kind=CONFIG_MAP, stack_uid="s1", as_of=8)
    assert bench.versions() == {"a": 2, "c": 10}


@in_virtual_time
async def test_a_late_event_brings_nothing_back_that_a_list_did_not_show() -> None:
    stream = Stream(added("a", 2), list_end(5))
    bench = await follow(stream)
    bench.caches.take_list([], kind=CONFIG_MAP, stack_uid="s1", as_of=8)
    assert bench.versions() == {}
    stream.say(modified("a", 6))
    stream.say(deleted("a", 7))
    await bench.hear()
    assert bench.versions() == {}


@in_virtual_time
async def test_a_list_of_a_kind_that_is_not_followed_is_not_kept() -> None:
    bench = Bench()
    bench.caches.take_list([labelled("a", 2, resource="a")], kind=CONFIG_MAP, stack_uid="s1", as_of=8)
    assert bench.versions() == {}
