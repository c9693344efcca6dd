"""Another cluster that is rebuilt at the same address, on real API servers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from hearth.model import errors
from support.real import control_plane_processes, other_cluster
from support.real.control_plane_processes import OwnPlane
from support.real.other_cluster import Region, config

pytestmark = pytest.mark.long
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def other_plane(worker_id: str) -> Iterator[OwnPlane]:
    """A cluster that no other test needs afterward."""
    with control_plane_processes.run_plane(f"rebuilt-{worker_id}") as made:
        yield made


def stop_and_empty(plane: OwnPlane) -> None:
    """Stop the API server and etcd, and delete the stored data."""
    plane.kill("kube-apiserver")
    plane.kill("etcd")
    folder = next(each for each in plane.stopped["etcd"].arguments if each.startswith("--data-dir="))
    shutil.rmtree(folder.partition("=")[2])


async def create_namespace(region: Region) -> None:
    """Create the namespace of the Stack in the other cluster; a new API server refuses it for a moment."""
    async for _ in other_cluster.attempts():
        try:
            await region.there.connection.request("POST", NAMESPACES, body={"metadata": {"name": region.namespace}})
        except (errors.ApiStatusError, errors.Unreachable):
            continue
        return


async def pass_version(region: Region, version: int) -> None:
    """Write to the other cluster until its resource versions are higher."""
    path = f"{NAMESPACES}/default/configmaps"
    reached = 0
    while reached <= version:
        made = await region.there.connection.request("POST", path, body={"metadata": {"generateName": "any-"}})
        reached = int(made["metadata"]["resourceVersion"])


async def until_replaced(region: Region) -> None:
    """Until an Event says that another cluster answers."""
    found: list[str] = []
    async for _ in other_cluster.attempts():
        page = await region.here.connection.request("GET", f"{NAMESPACES}/{region.namespace}/events")
        found = [raw["reason"] for raw in page["items"] if raw["involvedObject"]["name"] == "shop"]
        if "ClusterReplaced" in found:
            return
    raise AssertionError(f"found {found}")


@pytest.mark.parametrize("change", ["lower versions", "higher versions"])
async def test_objects_are_created_in_a_cluster_that_was_built_again(
    region: Region, other_plane: OwnPlane, change: str
) -> None:
    await region.create({"db": config("1"), "web": config("1", needs="db")})
    await region.until(phase="CreateComplete")
    made = await region.list_there()
    assert region.operator.process is not None
    if change == "higher versions":
        # The operator must not see the lower versions.
        os.kill(region.operator.process.pid, signal.SIGSTOP)
    await asyncio.to_thread(stop_and_empty, other_plane)
    await asyncio.to_thread(other_plane.restore)
    await create_namespace(region)
    if change == "higher versions":
        await pass_version(region, max(int(raw["metadata"]["resourceVersion"]) for raw in made.values()) + 500)
        os.kill(region.operator.process.pid, signal.SIGCONT)
    again = await region.until_there(db="1", web="1")
    assert again["shop-web"]["metadata"]["uid"] != made["shop-web"]["metadata"]["uid"]
    await until_replaced(region)
    await region.until(phase="CreateComplete")
    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    region.check_operator()
