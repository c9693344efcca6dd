"""A namespace that is deleted with a Stack whose objects are in another cluster, and with its kubeconfig."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from hearth.model import names
from support.real import fault_scenario, other_cluster
from support.real.other_cluster import Region, config


@pytest.fixture
async def own(region: Region) -> AsyncIterator[Region]:
    """An operator whose own namespace is another one than that of the Stacks, as in an installation."""
    await region.operator.kill()
    async with contextlib.AsyncExitStack() as parts:
        region.operator.operator_namespace = await fault_scenario.make_namespace(region.here.connection, parts)
        await region.operator.start()
        yield region


async def delete_namespace(region: Region) -> None:
    """As `kubectl delete namespace --wait=false`."""
    await region.here.connection.request("DELETE", f"/api/v1/namespaces/{region.namespace}")


async def until_namespace_is_gone(region: Region) -> None:
    """Until nothing holds it."""
    async for _ in other_cluster.attempts():
        found = await region.here.connection.request("GET", "/api/v1/namespaces")
        if region.namespace not in {raw["metadata"]["name"] for raw in found["items"]}:
            return


async def test_it_ends_and_the_objects_there_are_deleted(own: Region) -> None:
    """The Secret is gone before them; the connection that is open suffices."""
    await own.create({"db": config("1"), "web": config("1", needs="db")})
    await own.until(phase="CreateComplete")
    await delete_namespace(own)
    await until_namespace_is_gone(own)
    assert await own.list_there() == {}
    own.check_operator()


async def test_without_an_open_connection_it_ends_and_names_what_is_left(own: Region) -> None:
    """The operator did not run when the Secret went; no user can create another one in that namespace."""
    await own.create({"db": config("1")})
    await own.until(phase="CreateComplete")
    made = await own.list_there()
    uid = made["shop-db"]["metadata"]["labels"][names.LABEL_STACK_UID]
    await own.operator.kill()
    await delete_namespace(own)
    async for _ in other_cluster.attempts():
        found = await own.here.connection.request("GET", f"/api/v1/namespaces/{own.namespace}/secrets")
        if not found["items"]:
            break
    await own.operator.start()
    await until_namespace_is_gone(own)

    assert (await own.list_there()).keys() == made.keys()
    events = await own.here.connection.request("GET", "/api/v1/namespaces/default/events")
    found = [each for each in events["items"] if each["involvedObject"]["name"] == own.namespace]
    (event,) = (each for each in found if each["reason"] == "ClusterAbandoned")
    assert not [each["message"] for each in found if "create it" in each["message"]]
    assert f"{names.LABEL_STACK_UID}={uid}" in event["message"]
    assert own.other.server in event["message"]
    own.check_operator()
