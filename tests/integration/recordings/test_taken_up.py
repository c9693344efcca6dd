"""Objects of released versions on a real API server: written to its store unchanged, and adopted without a write."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import re
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model.child import Object
from support import process_lock
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.recordings import recordings
from support.server import request_faults
from support.stories.world import Address

CORE = {"ConfigMap": "configmaps", "Secret": "secrets", "PersistentVolumeClaim": "persistentvolumeclaims"}
PLURALS = CORE | {
    "Deployment": "deployments",
    "ControllerRevision": "controllerrevisions",
    "StatefulSet": "statefulsets",
    "Job": "jobs",
    "Stack": "hearth.dev/stacks",
    "ResourceGroup": "hearth.dev/resourcegroups",
    "HealthMark": "hearth.dev/healthmarks",
    "StackSnapshot": "hearth.dev/stacksnapshots",
}
"""Path segments below `/registry`; the API server omits the groups of built-in kinds."""

FOUND = frozenset({"Stack", "ConfigMap", "PersistentVolumeClaim", "Deployment", "StatefulSet", "Job"})
"""Kinds whose objects are looked up by their names."""


def find_store(kubeconfig: Path) -> str:
    """Return the address of etcd from the API server's command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        found = re.search(r"--etcd-servers=([^,\s]+)", " ".join(words))
        if found and str(kubeconfig.parent) in " ".join(words):
            return found[1]
    pytest.fail(f"no API server runs from {kubeconfig.parent}: this test needs a control plane of its own")


def store(url: str, raw: Object) -> None:
    """Write an object with its UID directly into etcd, because the API server would not accept it. Blocks."""
    ask(url, "put", {"key": encode(key_of(raw)), "value": encode(json.dumps(raw))})


def remove(url: str, raw: Object) -> None:
    """Remove it from etcd, regardless of its finalizers, so that no other operator of this server sees it. Blocks."""
    ask(url, "deleterange", {"key": encode(key_of(raw))})


def ask(url: str, action: str, body: Object) -> None:
    """Send a request to etcd's gateway."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", f"/v3/kv/{action}", body=json.dumps(body))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()


def key_of(raw: Object) -> str:
    """Return where the API server stores an object."""
    metadata = raw["metadata"]
    return f"/registry/{PLURALS[raw['kind']]}/{metadata['namespace']}/{metadata['name']}"


def encode(text: str) -> str:
    """Return the text as etcd's gateway expects it."""
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
async def world(kubeconfig: Path) -> AsyncIterator[RealWorld]:
    """A world in the namespace of the recordings, used by one test at a time."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with process_lock.held_meanwhile(process_lock.RECORDINGS), Connection(source) as connection:
        user = RealUser(connection, recordings.NAMESPACE)
        await real_user.install_all(user)
        await create_namespace(user)
        made = RealWorld(user, source)
        yield made
        await made.close()


async def create_namespace(user: RealUser) -> None:
    """Create the namespace after the previous test's namespace is deleted."""
    raw = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": recordings.NAMESPACE}}
    address = Address(api_version="v1", kind="Namespace", namespace="", name=recordings.NAMESPACE)
    async with asyncio.timeout(60):
        while "deletionTimestamp" in (await user.find(address) or raw)["metadata"]:  # noqa: ASYNC110 -- of another process
            await asyncio.sleep(0.2)
    await user.apply(raw)


@pytest.mark.parametrize("folder", recordings.list_versions(), ids=lambda folder: folder.name)
async def test_nothing_is_written(kubeconfig: Path, world: RealWorld, folder: Path) -> None:
    """Stacks, their children, revisions, groups, marks and snapshots stay exactly as they are.

    Only a status with a reworded message is written once, without other changes.
    """
    objects = recordings.load(folder)
    url = find_store(kubeconfig)
    for raw in objects:
        await asyncio.to_thread(store, url, raw)
    own = [Address.of(raw) for raw in objects if raw["kind"] in {"Stack", "ResourceGroup", "ConfigMap", "HealthMark"}]
    try:
        before = [await read(world.user, address) for address in own]
        await world.start_controller()
        await world.wait_rest(no_objection)

        writes = [str(each) for each in world.traffic.requests if each.verb in request_faults.WRITES]
        assert [each for each in writes if not each.startswith("status ")] == []
        assert len(set(writes)) == len(writes)
        assert [await read(world.user, address) for address in own] == before
        assert {} not in before
    finally:
        await world.kill_controller()
        for raw in objects:
            await asyncio.to_thread(remove, url, raw)


@pytest.mark.parametrize("folder", recordings.list_versions(recordings.WRITTEN), ids=lambda folder: folder.name)
async def test_what_is_written_once(kubeconfig: Path, world: RealWorld, folder: Path) -> None:
    """Every such object is listed in docs/upgrading.md."""
    objects = recordings.load(folder)
    url = find_store(kubeconfig)
    for raw in objects:
        await asyncio.to_thread(store, url, raw)
    try:
        await world.start_controller()
        await world.wait_rest(no_objection)

        writes = [str(each) for each in world.traffic.requests if each.verb in recordings.WRITES]
        assert sorted(writes) == sorted(each for row in recordings.WRITTEN_ONCE.values() for each in row)
        assert {each.name for each in world.traffic.requests if each.verb == "status"} <= recordings.TOLD_IN
        for raw in objects:
            found = await world.user.find(Address.of(raw)) if raw["kind"] in FOUND else None
            assert raw["kind"] not in FOUND or (found or {})["metadata"]["uid"] == raw["metadata"]["uid"]

        await world.kill_controller()
        sent = len(world.traffic.requests)
        await world.start_controller()
        await world.wait_rest(no_objection)
        assert [str(each) for each in world.traffic.requests[sent:] if each.verb in request_faults.WRITES] == []
    finally:
        await world.kill_controller()
        for raw in objects:
            await asyncio.to_thread(remove, url, raw)


async def read(user: RealUser, address: Address) -> Object:
    """Return an object without the texts of its messages; empty if it does not exist."""
    found: Object = recordings.mask_words(await user.find(address) or {})
    return found


async def no_objection() -> list[str]:
    """Accepts any status."""
    return []
