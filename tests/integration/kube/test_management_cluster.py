"""Writes to Stacks themselves, and the parsing of their watch events, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.kube import management_cluster
from hearth.kube.cache.revision_cache import RevisionCache
from hearth.kube.cache.source_cache import SourceCache
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.management_cluster import KubeManagementCluster
from hearth.kube.watch import watch_events
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import CONTROLLER_REVISION, STACK

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
DEFINITION: Object = {"template": {"resources": {"web": {"manifest": MANIFEST}}}, "parameters": {"size": 1}}
FORGED: Object = {"metadata": {"resourceVersion": "9", "uid": "b"}, "spec": {}}
EVENTS = 4


class Ears:
    """Lets a test wait for the next change."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    def on_stack(self, uid: str) -> None:
        self.heard.set()

    def on_revision(self, stack_uid: str) -> None:
        self.heard.set()

    def on_source(self, ref: ObjectRef) -> None:
        self.heard.set()


@pytest.fixture
def ears() -> Ears:
    """The listeners of the caches."""
    return Ears()


@pytest.fixture
async def home(
    connection: Connection, serves_stacks: None, namespace: str, ears: Ears
) -> AsyncIterator[KubeManagementCluster]:
    """A home whose caches are filled, for one namespace."""
    stacks = StackCache(connection, ears.on_stack, namespace=namespace)
    revisions = RevisionCache(connection, ears.on_revision, namespace=namespace)
    sources = SourceCache(connection, ears.on_source)
    for cache in (stacks, revisions):
        cache.start()
        await cache.wait_synced()
    yield KubeManagementCluster(connection, stacks=stacks, revisions=revisions, sources=sources)
    await asyncio.gather(stacks.close(), revisions.close(), sources.close())


async def create_stack(connection: Connection, home: KubeManagementCluster, namespace: str) -> StackObject:
    """A Stack, as the cache holds it once it has seen it."""
    body = {
        "apiVersion": STACK.api_version,
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"template": DEFINITION["template"]},
    }
    raw = await connection.request("POST", api_requests.collection_path(STACK, namespace), body=body)
    return await wait_for_stack(home, raw["metadata"]["uid"])


async def wait_for_stack(home: KubeManagementCluster, uid: str) -> StackObject:
    """The Stack, once the cache holds it."""
    async with asyncio.timeout(20):
        while (found := home.find_stack(uid)) is None:  # noqa: ASYNC110 -- the cache notifies only its one listener
            await asyncio.sleep(0)
    return found


async def get(connection: Connection, path: str) -> Object | None:
    """The current object."""
    with contextlib.suppress(errors.ApiStatusError):
        return await connection.request("GET", path)
    return None


def path_of(stack: StackObject) -> str:
    """The path of the Stack."""
    return api_requests.object_path(STACK, stack.namespace, stack.name)


async def test_a_finalizer_holds_the_stack_until_it_is_taken_away(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    await home.add_finalizer(stack)
    held = home.find_stack(stack.uid)
    assert held is not None
    assert held.finalizers == (names.FINALIZER,)

    await connection.request("DELETE", path_of(stack))
    async with asyncio.timeout(20):
        while (held := home.find_stack(stack.uid)) is None or not held.deleting:  # noqa: ASYNC110 -- the same
            await asyncio.sleep(0)
    await home.remove_finalizer(held)
    assert home.find_stack(stack.uid) is None
    assert await get(connection, path_of(stack)) is None
    await home.remove_finalizer(held)


async def test_finalizers_of_others_that_came_meanwhile_are_kept(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    patch = {"metadata": {"finalizers": ["a.test/other"]}}
    await connection.request("PATCH", path_of(stack), body=patch, content_type=api_requests.MERGE_PATCH)
    with pytest.raises(errors.ApiStatusError) as caught:
        await home.add_finalizer(stack)
    assert caught.value.code == 409
    live = await get(connection, path_of(stack))
    assert live is not None
    assert live["metadata"]["finalizers"] == ["a.test/other"]
    await connection.request(
        "PATCH", path_of(stack), body={"metadata": {"finalizers": []}}, content_type=api_requests.MERGE_PATCH
    )


async def test_a_status_is_merged_and_never_meets_another_stack(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    await home.write_status(stack, {"phase": "CreateInProgress", "revision": 1})
    await home.write_status(stack, {"phase": None, "revision": 2})
    written = home.find_stack(stack.uid)
    assert written is not None
    assert written.status == {"observedGeneration": -1, "revision": 2}

    await connection.request("DELETE", path_of(stack))
    await home.write_status(stack, {"revision": 3})
    again = await create_stack(connection, home, namespace)
    await home.write_status(stack, {"revision": 4})
    live = await get(connection, path_of(again))
    assert live is not None
    assert live["status"] == {"observedGeneration": -1}


async def test_a_revision_is_stored_read_and_collected_with_its_stack(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    kinds = frozenset({"v1/ConfigMap"})
    revision = Revision(name="shop-abc", number=1, hash="k1:abc", kinds=kinds, namespace=namespace, owner=stack.uid)
    await home.create_revision(stack, revision, DEFINITION)
    assert home.revisions(stack.uid) == (revision,)
    more = Revision(name="shop-abc", number=2, hash="k1:abc", kinds=kinds | {"v1/Secret"})
    assert await home.create_revision(stack, more, DEFINITION) == revision
    assert home.revisions(stack.uid) == (revision,)
    assert await home.get_definition(stack, revision) == DEFINITION

    await connection.request("DELETE", path_of(stack))
    path = api_requests.object_path(CONTROLLER_REVISION, namespace, "shop-abc")
    async with asyncio.timeout(30):
        while await get(connection, path) is not None:
            pass


async def test_a_large_definition_comes_back(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    definition: Object = {"template": {"text": "ä" * 400_000}, "parameters": {"a": 1.5, "b": None, "c": [True]}}
    revision = Revision(
        name="shop-large", number=1, hash="k1:abc", kinds=frozenset(), namespace=namespace, owner=stack.uid
    )
    await home.create_revision(stack, revision, definition)
    assert await home.get_definition(stack, revision) == definition
    assert home.revisions(stack.uid) == (revision,)


async def test_a_source_is_read_and_watched(
    connection: Connection, home: KubeManagementCluster, namespace: str, ears: Ears
) -> None:
    ref = ObjectRef(group="", kind="ConfigMap", namespace=namespace, name="source")
    home.follow_sources("s1", [ref])
    with pytest.raises(errors.ApiStatusError) as caught:
        await home.get_source(ref)
    assert caught.value.code == 404
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"k": "v"}}
    ears.heard.clear()
    await connection.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=body)
    async with asyncio.timeout(30):
        await ears.heard.wait()
    assert await home.get_source(ref) == {"k": "v"}


async def test_an_event_is_one_object_however_often_it_is_said(
    connection: Connection, home: KubeManagementCluster, namespace: str
) -> None:
    stack = await create_stack(connection, home, namespace)
    for _ in range(2):
        await home.emit_event(stack, type_="Normal", reason="Ready", message="all resources are ready " + "x" * 2000)
    successor = KubeManagementCluster(
        connection, stacks=home._caches["Stack"], revisions=home._revisions, sources=home._sources
    )
    await successor.emit_event(stack, type_="Normal", reason="Ready", message="all resources are ready " + "x" * 2000)
    query = {"fieldSelector": f"involvedObject.uid={stack.uid}"}
    found = await connection.request("GET", f"/api/v1/namespaces/{namespace}/events", query=query)
    (event,) = found["items"]
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Ready", 3)
    assert event["message"].startswith("all resources are ready")


async def test_everybody_has_the_same_key(connection: Connection, home: KubeManagementCluster, namespace: str) -> None:
    own = f"{namespace}-operator"
    try:
        keys = await asyncio.gather(*(home.get_hash_key(own) for _ in range(10)))
        assert len(set(keys)) == 1
        assert len(keys[0]) == management_cluster.HASH_KEY_LENGTH
        assert await home.get_hash_key(own) == keys[0]
    finally:
        await connection.request("DELETE", f"/api/v1/namespaces/{own}")


async def read_lines(connection: Connection, path: str, version: str) -> list[bytes]:
    """The next events of a collection."""
    splitter, found = watch_events.LineSplitter(), list[bytes]()
    async with connection.stream(path, query={"watch": "1", "resourceVersion": version}) as chunks:
        async for chunk in chunks:
            found += splitter.feed(chunk)
            if len(found) >= EVENTS:
                break
    return found


@pytest.mark.usefixtures("serves_stacks")
async def test_the_state_of_a_stack_is_read_without_parsing_its_spec(connection: Connection, namespace: str) -> None:
    path = api_requests.collection_path(STACK, namespace)
    version = (await connection.request("GET", path))["metadata"]["resourceVersion"]
    template = {"resources": {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"spec": "{}"}}}}}
    notes = {"resourceVersion": "9", "uid": "b", "spec": '"},"spec":'}
    body = {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": names.STACK,
        "metadata": {"name": "shop", "labels": {"uid": "b", "resourceVersion": "9"}, "annotations": notes},
        "spec": {"template": template, "parameters": {"forged": FORGED}},
    }
    made = await connection.request("POST", path, body=body)
    patches: list[tuple[str, Any]] = [("", {"spec": {"paused": True}}), ("/status", {"status": {"phase": "x"}})]
    for subresource, patch in patches:
        where = f"{path}/shop{subresource}"
        await connection.request("PATCH", where, body=patch, content_type=api_requests.MERGE_PATCH)
    await connection.request("DELETE", f"{path}/shop")

    async with asyncio.timeout(30):
        lines = await read_lines(connection, path, version)
    wholes = [orjson.loads(line) for line in lines]
    assert {each["object"]["metadata"]["uid"] for each in wholes} == {made["metadata"]["uid"]}
    assert [watch_events.find_identity(line) for line in lines] == [
        (each["type"].encode(), each["object"]["metadata"]["uid"], int(each["object"]["metadata"]["resourceVersion"]))
        for each in wholes
    ]
