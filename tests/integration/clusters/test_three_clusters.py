"""A Stack with remote stacks in two other clusters, on three real API servers at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.model.child import Object
from support.real import control_plane_processes, other_cluster
from support.real.control_plane_processes import OwnPlane
from support.real.fault_scenario import API_VERSION
from support.real.other_cluster import Region, config, make_kubeconfig
from support.real.real_user import RealUser
from support.stories import stack_manifests

STACK = "world"


@pytest.fixture(scope="module")
def third_plane(worker_id: str) -> Iterator[OwnPlane]:
    with control_plane_processes.run_plane(f"third-{worker_id}") as plane:
        yield plane


def make_spec(value: str) -> Object:
    """A Stack in each cluster; the second requires the first."""

    def nest(cluster: str, above: str) -> Object:
        template = {"resources": {"db": config(above)}, "outputs": {"v": {"value": "${db.data.v}"}}}
        spec = {"kubeConfig": {"secretRef": {"name": cluster}}, "template": template}
        return {"manifest": {"apiVersion": API_VERSION, "kind": "Stack", "spec": spec}}

    west = nest("west", "${params.v}")
    west["manifest"]["spec"]["template"]["parameters"] = {"v": {"type": "string"}}
    west["manifest"]["spec"]["parameters"] = {"v": "${east.status.outputs.v}"}
    return {"template": {"resources": {"east": nest("east", value), "west": west}}}


@contextlib.asynccontextmanager
async def reach_west(region: Region, plane: OwnPlane) -> AsyncIterator[RealUser]:
    """A user of the third cluster, with the kubeconfig in the Secret `west`."""
    source = credentials.find_source(kubeconfig=str(plane.kubeconfig), context=None, environ={})
    await region.put_kubeconfig(make_kubeconfig(source.load()), name="west")
    async with Connection(source) as connection:
        await connection.request("POST", "/api/v1/namespaces", body={"metadata": {"name": region.namespace}})
        yield RealUser(connection, region.namespace)


async def create(region: Region, spec: Object) -> None:
    """Create the Stack without waiting for it."""
    await region.here.create(stack_manifests.make_stack(spec, name=STACK, namespace=region.namespace))


async def test_a_wave_over_two_clusters_of_which_one_is_away(
    region: Region, other_plane: OwnPlane, third_plane: OwnPlane
) -> None:
    async with reach_west(region, third_plane) as west:
        await create(region, make_spec("1"))
        await region.until(STACK, phase="CreateComplete")
        assert (await region.list_there(west))["world-west-db"]["data"]["v"] == "1"

        await asyncio.to_thread(third_plane.kill, "kube-apiserver")
        await region.edit(make_spec("2"), name=STACK)
        await region.until("world-east", phase="UpdateComplete")
        assert (await region.list_there())["world-east-db"]["data"]["v"] == "2"
        await region.until("world-west", reason="ClusterUnreachable")
        await region.until(STACK, phase="UpdateInProgress")
        await asyncio.to_thread(third_plane.restore)
        await region.until(STACK, phase="UpdateComplete")
        assert (await region.list_there(west))["world-west-db"]["data"]["v"] == "2"
        await region.operator.wait_metric("hearth_cluster_reachable", 2)

        await region.here.delete(region.address_of(STACK))
        await region.until_gone(STACK)
        assert await region.list_there(west) == await region.list_there() == {}
    region.check_operator()
    assert other_cluster.SECRET == "east"


def make_sites() -> Object:
    """The same two objects in each cluster, one cluster after the other, and one object here."""
    parameters = {"v": {"type": "string"}}
    db = {**config("${params.v}"), "updatePolicy": {"replace": "CreateFirst"}}
    db["manifest"]["immutable"] = True
    inner = {"parameters": parameters, "resources": {"db": db, "web": config("${params.v}", needs="db")}}
    spec = {
        "kubeConfig": {"secretRef": {"name": "${item}"}},
        "parameters": {"v": "${params.v}"},
        "template": {**inner, "outputs": {"v": {"value": "${web.data.above}"}}},
    }
    sites = {
        "forEach": "params.sites",
        "key": "item",
        "updatePolicy": {"rolling": {"maxBatchSize": 1}},
        "manifest": {"apiVersion": API_VERSION, "kind": "Stack", "spec": spec},
    }
    note = {"v": "${sites.map(each, each.status.outputs.v).join(',')}"}
    return {
        "parameters": {"sites": ["east", "west"], "v": "1"},
        "template": {
            "parameters": {"sites": {"type": "array", "items": {"type": "string"}}, **parameters},
            "resources": {
                "sites": sites,
                "note": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": note}},
            },
        },
    }


Held = Mapping[str, Mapping[str, Object]]
"""The objects of each cluster, by the last part of their names: `db`, `web`."""


def find_uids(held: Held, name: str) -> list[str]:
    """The UIDs of that object in all clusters."""
    return [found[name]["metadata"]["uid"] for found in held.values()]


@dataclass(frozen=True, slots=True)
class Sites:
    """The two other clusters."""

    region: Region
    west: RealUser

    @property
    def users(self) -> Mapping[str, RealUser]:
        """The users of the other clusters, by name."""
        return {"east": self.region.there, "west": self.west}

    async def until(self, is_right: Callable[[Held], bool]) -> Held:
        """Wait until both are complete and the condition holds; return the objects of both."""
        held: dict[str, Mapping[str, Object]] = {}
        async for _ in other_cluster.attempts():
            for site, user in self.users.items():
                listed = await self.region.list_there(user)
                held[site] = {raw["metadata"]["labels"][names.LABEL_RESOURCE]: raw for raw in listed.values()}
            if all(found.keys() == {"db", "web"} for found in held.values()) and is_right(held):
                return dict(held)
        raise AssertionError(f"found {held}")

    async def until_above(self, value: str) -> Held:
        """The same, once the Stack is complete, `web` has that value in both clusters, and the local object names both."""
        held = await self.until(lambda held: all(found["web"]["data"]["above"] == value for found in held.values()))
        assert (await self.region.list_there(self.region.here))["world-note"]["data"]["v"] == f"{value},{value}"
        return held


async def test_everything_that_happens_to_objects_happens_in_three_clusters_at_once(
    region: Region, third_plane: OwnPlane
) -> None:
    async with reach_west(region, third_plane) as west:
        sites = Sites(region, west)
        await create(region, make_sites())
        await region.until(STACK, phase="CreateComplete")
        made = await sites.until_above("1")

        for site, user in sites.users.items():
            name = made[site]["web"]["metadata"]["name"]
            await user.connection.request("DELETE", f"/api/v1/namespaces/{region.namespace}/configmaps/{name}")
        again = await sites.until(lambda held: not set(find_uids(held, "web")) & set(find_uids(made, "web")))
        assert find_uids(again, "db") == find_uids(made, "db")

        await region.edit({"parameters": {"v": "2"}}, name=STACK)
        await region.until(STACK, phase="UpdateComplete")
        replaced = await sites.until_above("2")
        assert not set(find_uids(replaced, "db")) & set(find_uids(made, "db"))
        assert find_uids(replaced, "web") == find_uids(again, "web")

        await region.edit({"rollback": {"toRevision": 1}}, name=STACK)
        await region.until(STACK, phase="RollbackComplete")
        back = await sites.until_above("1")

        spec = {"stackName": STACK, "resource": "sites[west]/web", "markUnhealthy": True, "reason": "it is bad"}
        metadata = {"name": "bad", "namespace": region.namespace}
        await region.here.create({"apiVersion": API_VERSION, "kind": "HealthMark", "metadata": metadata, "spec": spec})
        healed = await sites.until(lambda held: find_uids(held, "web")[1] != find_uids(back, "web")[1])
        assert find_uids(healed, "web")[0] == find_uids(back, "web")[0]
        assert find_uids(healed, "db") == find_uids(back, "db")

        await region.here.delete(region.address_of(STACK))
        await region.until_gone(STACK)
        assert await region.list_there(west) == await region.list_there() == {}
    region.check_operator()
