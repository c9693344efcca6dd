"""The home cluster's caches: Stacks, their revisions, and the ConfigMaps that definitions are read from."""

from __future__ import annotations

import pytest

from hearth.engine.cluster_objects import Revision
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.watch.reflector import METADATA
from hearth.model import errors, limits, names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from support.ports.silent_ports import SilentObserver
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    ScriptedConnection,
    Stream,
    added,
    deleted,
    elapse,
    list_end,
    make_object,
    modified,
)
from support.virtual_time import in_virtual_time

SOURCE = ObjectRef(group="", kind="ConfigMap", namespace="default", name="template")
FORBIDDEN = errors.ApiStatusError(code=403, status=None)


class Listener(SilentObserver):
    """Records the woken Stacks and the reached limits."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def on_stack(self, uid: str) -> None:
        self.heard.append(uid)

    def on_revision(self, stack_uid: str) -> None:
        self.heard.append(f"revision of {stack_uid}")

    def on_source(self, ref: ObjectRef) -> None:
        self.heard.append(str(ref))


def stack(name: str, version: int, *, phase: str = "", **metadata: object) -> Object:
    """A Stack as the server shows it."""
    status = {"status": {"phase": phase}} if phase else {}
    return {**make_object(name, version, generation=1, **metadata), "spec": {"parameters": {"n": 1}}, **status}


async def show(stream: Stream, *lines: bytes) -> None:
    """Let the server send these events, and process their consequences."""
    stream.say(*lines)
    await elapse(0.1)


async def follow_stacks(stream: Stream, *, namespace: str = "") -> tuple[StackCache, Listener, ScriptedConnection]:
    """A cache after its first list."""
    connection, listener = ScriptedConnection(streams=[stream]), Listener()
    cache = StackCache(connection, listener.on_stack, namespace=namespace, options=scripted_watch.RULES)
    cache.start()
    await cache.wait_synced()
    listener.heard.clear()
    return cache, listener, connection


@in_virtual_time
async def test_a_stack_is_found_with_all_that_a_pass_needs() -> None:
    raw = stack("shop", 3, phase="CreateComplete", annotations={"hearth.dev/retry": "1"}, finalizers=["x/y"])
    stream = Stream(scripted_watch.event("ADDED", raw), list_end(5))
    cache, listener, _ = await follow_stacks(stream)
    found = cache.find_stack("shop")
    assert found is not None
    assert (found.name, found.namespace, found.generation, found.resource_version) == ("shop", "default", 1, 3)
    assert (found.spec, found.status) == ({"parameters": {"n": 1}}, {"phase": "CreateComplete"})
    assert (found.finalizers, found.annotations) == (("x/y",), {"hearth.dev/retry": "1"})
    assert list(cache.stacks()) == ["shop"]
    await show(stream, deleted("shop", 6))
    assert (cache.find_stack("shop"), listener.heard) == (None, ["shop"])


@in_virtual_time
async def test_a_stack_that_is_handed_out_may_be_changed() -> None:
    cache, _, _ = await follow_stacks(Stream(scripted_watch.event("ADDED", stack("shop", 3)), list_end(5)))
    first = cache.find_stack("shop")
    assert first is not None
    first.spec.clear()
    second = cache.find_stack("shop")
    assert second is not None
    assert second.spec == {"parameters": {"n": 1}}


@in_virtual_time
async def test_our_own_status_writes_wake_no_stack() -> None:
    stream = Stream(scripted_watch.event("ADDED", stack("shop", 3)), list_end(5))
    cache, listener, _ = await follow_stacks(stream)
    cache.put(stack("shop", 6, phase="UpdateComplete"))
    await show(stream, scripted_watch.event("MODIFIED", stack("shop", 6, phase="UpdateComplete")))
    assert listener.heard == []
    await show(stream, scripted_watch.event("MODIFIED", stack("shop", 7, phase="Spoilt")))
    assert listener.heard == ["shop"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"generation": 2}, id="edit"),
        pytest.param({"annotations": {"hearth.dev/retry": "1"}}, id="annotation"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}, id="deletion"),
    ],
)
@in_virtual_time
async def test_what_our_own_answer_shows_of_others_is_reported(changed: Object) -> None:
    stream = Stream(scripted_watch.event("ADDED", stack("shop", 3)), list_end(5))
    cache, listener, _ = await follow_stacks(stream)
    answer = stack("shop", 7, phase="UpdateComplete")
    answer["metadata"].update(changed)
    cache.put(answer)
    assert listener.heard == ["shop"]


@in_virtual_time
async def test_a_version_alone_wakes_no_stack_and_is_kept() -> None:
    stream = Stream(scripted_watch.event("ADDED", stack("shop", 3)), list_end(5))
    cache, listener, _ = await follow_stacks(stream)
    await show(stream, scripted_watch.event("MODIFIED", stack("shop", 6)))
    found = cache.find_stack("shop")
    assert found is not None
    assert (found.resource_version, listener.heard) == (6, [])


@in_virtual_time
async def test_stacks_of_one_namespace_alone_can_be_watched() -> None:
    _, _, connection = await follow_stacks(Stream(list_end(5)), namespace="shop")
    assert connection.asked[0].path == "/apis/hearth.dev/v1alpha1/namespaces/shop/stacks"
    assert "labelSelector" not in connection.asked[0].query


def revision(name: str, version: int, *, number: int, kinds: str = "") -> Object:
    """A ControllerRevision of stack `s1`, by its metadata."""
    annotations = {names.ANNOTATION_REVISION: str(number), names.ANNOTATION_HASH: f"h{number}"}
    return make_object(name, version, annotations={**annotations, names.ANNOTATION_KINDS: kinds})


@in_virtual_time
async def test_revisions_are_read_off_their_metadata_in_order() -> None:
    second = revision("r2", 4, number=2, kinds="v1/ConfigMap,apps/v1/Deployment")
    stream = Stream(scripted_watch.event("ADDED", second), list_end(5))
    connection = ScriptedConnection(streams=[stream])
    listener = Listener()
    cache = RevisionCache(connection, listener.on_revision, options=scripted_watch.RULES)
    cache.start()
    await cache.wait_synced()
    cache.put(revision("r1", 6, number=1))
    assert cache.revisions("s1") == (
        Revision(name="r1", number=1, hash="h1", kinds=frozenset(), namespace="default"),
        Revision(
            name="r2",
            number=2,
            hash="h2",
            kinds=frozenset({"v1/ConfigMap", "apps/v1/Deployment"}),
            namespace="default",
        ),
    )
    assert connection.asked[0].accept == METADATA
    await show(stream, scripted_watch.event("ADDED", revision("r1", 6, number=1)))
    assert listener.heard == []
    await show(stream, scripted_watch.event("DELETED", revision("r2", 7, number=2)))
    assert listener.heard == ["revision of s1"]
    assert [each.name for each in cache.revisions("s1")] == ["r1"]
    assert cache.revisions("ghost") == ()


@in_virtual_time
async def test_a_source_is_read_once_and_watched_from_then_on() -> None:
    raw = make_object("template", 3, data={"stack.yaml": "a"})
    stream = Stream()
    connection, listener = ScriptedConnection(streams=[stream], pages=[raw]), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [SOURCE])
    assert await cache.get_source(SOURCE) == {"stack.yaml": "a"}
    await show(stream, added("template", 3, data={"stack.yaml": "a"}), list_end(5))
    assert listener.heard == []
    assert await cache.get_source(SOURCE) == {"stack.yaml": "a"}
    assert len(connection.asked) == 2
    await show(stream, modified("template", 7, data={"stack.yaml": "b"}))
    assert (listener.heard, await cache.get_source(SOURCE)) == (["configmap/template"], {"stack.yaml": "b"})


@in_virtual_time
async def test_a_version_of_a_source_is_reported_although_its_data_are_the_same() -> None:
    raw = make_object("template", 3, data={"stack.yaml": "a"})
    stream = Stream(added("template", 3, data={"stack.yaml": "a"}), list_end(5))
    connection, listener = ScriptedConnection(streams=[stream], pages=[raw]), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [SOURCE])
    assert (await cache.get_source(SOURCE)).version == "3"
    await show(stream, modified("template", 6, data={"stack.yaml": "a"}, annotations={"x": "y"}))
    assert (listener.heard, (await cache.get_source(SOURCE)).version) == (["configmap/template"], "6")


@in_virtual_time
async def test_a_source_that_is_missing_is_reported_when_it_comes() -> None:
    stream = Stream(list_end(5))
    connection, listener = (
        ScriptedConnection(streams=[stream], pages=[errors.ApiStatusError(code=404, status=None)]),
        Listener(),
    )
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [SOURCE])
    for _ in range(2):
        with pytest.raises(errors.ApiStatusError, match=r"404|not found"):
            await cache.get_source(SOURCE)
        await elapse(0.1)
    await show(stream, added("template", 6, data={"stack.yaml": "a"}))
    assert (listener.heard, await cache.get_source(SOURCE)) == (["configmap/template"], {"stack.yaml": "a"})


@in_virtual_time
async def test_a_source_that_is_made_again_under_its_name_is_the_new_one() -> None:
    stream = Stream(added("template", 3, uid="old", data={"a": "1"}), list_end(5))
    connection = ScriptedConnection(streams=[stream], pages=[make_object("template", 3, uid="old", data={"a": "1"})])
    cache = SourceCache(connection, Listener().on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [SOURCE])
    await cache.get_source(SOURCE)
    await show(stream, deleted("template", 6, uid="old"), added("template", 7, uid="new", data={"a": "2"}))
    assert await cache.get_source(SOURCE) == {"a": "2"}


@in_virtual_time
async def test_a_source_is_watched_for_as_long_as_it_is_followed() -> None:
    page = make_object("template", 3, data={"a": "1"})
    connection = ScriptedConnection(
        streams=[Stream(added("template", 3, data={"a": "1"}), list_end(5))], pages=[page] * 2
    )
    cache = SourceCache(connection, Listener().on_source, options=scripted_watch.RULES)
    await cache.get_source(SOURCE)
    assert cache.health() == []
    for uid in ("s1", "s2"):
        cache.follow_sources(uid, [SOURCE])
    await cache.get_source(SOURCE)
    await elapse(0.1)
    cache.follow_sources("s1", [])
    assert [each.objects for each in cache.health()] == [1]
    cache.follow_sources("s2", [])
    assert cache.health() == []
    await cache.close()


@in_virtual_time
async def test_of_a_secret_only_the_version_is_kept() -> None:
    ref = ObjectRef(group="", kind="Secret", namespace="default", name="template")
    page = make_object("template", 3, data={"a": "c2VzYW1l"})
    stream = Stream(added("template", 3, data={"a": "c2VzYW1l"}), list_end(5))
    connection, listener = ScriptedConnection(streams=[stream], pages=[page, page]), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [ref])
    for _ in range(2):
        assert await cache.get_source(ref) == {"a": "c2VzYW1l"}
        await elapse(0.1)
    assert "c2VzYW1l" not in repr(cache._sources[ref]._store.records)
    await show(stream, modified("template", 7, data={"a": "bmV3"}))
    assert listener.heard == ["secret/template"]


async def follow_many(
    count: int, *streams: Stream | Exception, pages: list[Object | Exception] | None = None
) -> tuple[SourceCache, Listener, ScriptedConnection, list[ObjectRef]]:
    """A cache where a Stack of one namespace follows this many sources; sources beyond the limit share the last
    stream.
    """
    refs = [ObjectRef(group="", kind="ConfigMap", namespace="default", name=f"n{number}") for number in range(count)]
    watched = refs[: limits.SOURCE_WATCHES_PER_NAMESPACE]
    own = [Stream(added(ref.name, 3, data={"a": "1"}), list_end(5)) for ref in watched]
    first = [make_object(ref.name, 3, data={"a": "1"}) for ref in refs]
    connection, listener = ScriptedConnection(streams=[*own, *streams], pages=[*first, *(pages or [])]), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES, observer=listener)
    cache.follow_sources("s1", refs)
    for ref in refs:
        assert await cache.get_source(ref) == {"a": "1"}
        await elapse(0)
    await elapse(0.1)
    return cache, listener, connection, refs


@in_virtual_time
async def test_many_sources_share_one_watch() -> None:
    most = limits.SOURCE_WATCHES_PER_NAMESPACE
    shared = Stream()
    cache, listener, connection, refs = await follow_many(most + 2, shared)
    await show(shared, added(f"n{most}", 3), added("other", 4), list_end(5))

    streams = [each for each in connection.asked if "watch" in each.query]
    assert [each.accept == METADATA for each in streams] == [False] * most + [True]
    assert (streams[-1].path, "fieldSelector" in streams[-1].query) == ("/api/v1/configmaps", False)
    assert listener.limits == ["source-watches"] * 2
    # Data that was already read triggers nothing. An object that is missing from the first list was deleted in the
    # meantime.
    assert listener.heard == [f"configmap/n{most + 1}"]
    assert (cache.find_uid(refs[most]), cache.find_uid(refs[-1])) == (f"n{most}", "")
    labels = {names.LABEL_STACK_UID: "s2"}
    await show(shared, modified("other", 6), modified(f"n{most}", 7, labels=labels))
    assert cache.find_creators("s1") == {"s1", "s2"}
    await show(shared, deleted("other", 8), deleted(f"n{most}", 9))
    assert listener.heard[1:] == [f"configmap/n{most}"] * 2
    await cache.close()


@in_virtual_time
async def test_the_watch_that_sources_share_ends_with_the_last_of_them() -> None:
    most = limits.SOURCE_WATCHES_PER_NAMESPACE
    first, second = Stream(added(f"n{most}", 3), list_end(5)), Stream(added(f"n{most}", 7), list_end(8))
    again = make_object(f"n{most}", 7)
    cache, listener, _, refs = await follow_many(most + 1, first, second, pages=[again])
    cache.follow_sources("s1", refs[:most])
    await elapse(0.1)
    assert not first.is_open
    cache.follow_sources("s1", refs)
    await cache.get_source(refs[most])
    await elapse(0.1)
    await show(second, modified(f"n{most}", 9))
    assert listener.heard == [f"configmap/n{most}"]
    await cache.close()


@in_virtual_time
async def test_a_source_that_is_followed_again_at_once_stays_watched() -> None:
    most = limits.SOURCE_WATCHES_PER_NAMESPACE
    shared = Stream(added(f"n{most}", 3), list_end(5))
    cache, listener, _, refs = await follow_many(most + 1, shared, pages=[make_object(f"n{most}", 3)])
    cache.follow_sources("s1", refs[:most])
    cache.follow_sources("s1", refs)
    await cache.get_source(refs[most])
    await elapse(0.1)
    await show(shared, modified(f"n{most}", 9))
    assert listener.heard == [f"configmap/n{most}"]
    await cache.close()


@in_virtual_time
async def test_sources_of_a_kind_that_may_not_be_watched_are_polled() -> None:
    most = limits.SOURCE_WATCHES_PER_NAMESPACE
    pages: list[Object | Exception] = [
        make_object(f"n{most}", 3),
        errors.ApiStatusError(code=503, status=None),
        make_object(f"n{most}", 8),
        errors.ApiStatusError(code=404, status=None),
        make_object(f"n{most}", 8),
        errors.ApiStatusError(code=404, status=None),
    ]
    cache, listener, _, refs = await follow_many(most + 2, *[FORBIDDEN] * 12, pages=pages)
    assert listener.heard == [f"configmap/n{most}"]
    assert cache.find_polled("s1") == sorted(refs[most:], key=str)
    listener.heard.clear()
    await elapse(limits.SOURCE_POLL)
    assert listener.heard == []
    await elapse(limits.SOURCE_POLL)
    assert listener.heard == [f"configmap/n{most}", f"configmap/n{most + 1}"]
    await elapse(limits.SOURCE_POLL)
    assert len(listener.heard) == 2
    await cache.close()


@in_virtual_time
async def test_there_is_a_cap_over_all_namespaces() -> None:
    refs = [
        ObjectRef(group="", kind="ConfigMap", namespace=f"n{number}", name="a")
        for number in range(limits.SOURCE_WATCHES + 1)
    ]
    connection, listener = ScriptedConnection(pages=[make_object("a", 3)] * len(refs)), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES, observer=listener)
    for ref in refs:
        cache.follow_sources(ref.namespace, [ref])
    for ref in refs[:-1]:
        await cache.get_source(ref)
    assert listener.limits == []
    cache.follow_sources(refs[0].namespace, [])
    await cache.get_source(refs[-1])
    assert listener.limits == []
    await cache.close()


@in_virtual_time
async def test_a_large_source_is_not_kept() -> None:
    data = {"a": "x" * limits.SOURCE_KEPT_BYTES}
    page = make_object("template", 3, data=data)
    stream = Stream(added("template", 3, data=data), list_end(5))
    connection, listener = ScriptedConnection(streams=[stream], pages=[page, page]), Listener()
    cache = SourceCache(connection, listener.on_source, options=scripted_watch.RULES)
    cache.follow_sources("s1", [SOURCE])
    for _ in range(2):
        assert await cache.get_source(SOURCE) == data
        await elapse(0.1)
    assert "xx" not in repr(cache._sources[SOURCE]._store.records)
    await show(stream, modified("template", 6, data={"a": "y" * limits.SOURCE_KEPT_BYTES}))
    assert listener.heard == ["configmap/template"]


@in_virtual_time
async def test_a_kind_that_may_not_be_listed_is_known_as_such_at_once() -> None:
    listed = Stream(scripted_watch.event("ADDED", stack("shop", 3)), list_end(5))
    connection, listener = ScriptedConnection(streams=[FORBIDDEN, listed]), Listener()
    cache = StackCache(connection, listener.on_stack, options=scripted_watch.RULES)
    cache.start()

    denial = await cache.wait_answered()
    assert (bool(denial), cache.is_synced) == (True, False)
    await cache.wait_synced()
    assert (await cache.wait_answered(), list(cache.stacks()), listener.heard) == ("", ["shop"], ["shop"])
    await cache.close()
