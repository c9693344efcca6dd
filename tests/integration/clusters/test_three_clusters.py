"""A Stack with remote stacks in two other clusters, on three real API servers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model.child import Object
from support.real import control_plane_processes, other_cluster
from support.real.control_plane_processes import OwnPlane
from support.real.fault_scenario import API_VERSION
from support.real.other_cluster import Region, config, make_kubeconfig
from support.real.real_user import RealUser

STACK = "world"


@pytest.fixture
def third_plane(request: pytest.FixtureRequest) -> Iterator[OwnPlane]:
    """One more."""
    worker = str(getattr(request.config, "workerinput", {}).get("workerid", "alone"))
    with control_plane_processes.run_plane(f"third-{worker}") as plane:
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


async def test_a_wave_over_two_clusters_of_which_one_is_away(
    region: Region, other_plane: OwnPlane, third_plane: OwnPlane
) -> None:
    """The wave stops at the one that is away and continues when it is back; the other one is up to date meanwhile."""
    source = credentials.find_source(kubeconfig=str(third_plane.kubeconfig), context=None, environ={})
    await region.put_kubeconfig(make_kubeconfig(source.load()), name="west")
    async with Connection(source) as connection:
        west = RealUser(connection, region.namespace)
        await connection.request("POST", "/api/v1/namespaces", body={"metadata": {"name": region.namespace}})
        metadata = {"name": STACK, "namespace": region.namespace}
        await region.here.create(
            {"apiVersion": API_VERSION, "kind": "Stack", "metadata": metadata, "spec": make_spec("1")}
        )
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
        assert await asyncio.to_thread(region.operator.read_metric, "hearth_cluster_reachable") == 2

        await region.here.delete(region.address_of(STACK))
        await region.until_gone(STACK)
        assert await region.list_there(west) == await region.list_there() == {}
    region.check_operator()
    assert other_cluster.SECRET == "east"
