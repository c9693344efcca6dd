"""Many nested Stacks, and large trees, on a real API server."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

API_VERSION = f"{names.GROUP}/{names.VERSION}"
NESTED = 125
IN_THE_MIDDLE = 40
"""Number of nested Stacks with objects when their parent is deleted."""
COLLECTIONS = (
    f"/apis/{API_VERSION}/namespaces/{{}}/stacks",
    f"/apis/{API_VERSION}/namespaces/{{}}/resourcegroups",
    "/apis/apps/v1/namespaces/{}/controllerrevisions",
    "/api/v1/namespaces/{}/configmaps",
)
RESOURCES = "HEARTH_TREE_RESOURCES"
"""The variable with the number of resources in the large tree."""
GROUPS = 10
TREE_SECONDS = 3600.0


def make_nested(parameters: Object) -> Object:
    """A Stack of two ConfigMaps; one requires the other."""
    first = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "${params.v}"}}
    second = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "${first.data.v}"}}
    template = {
        "parameters": {"v": {"type": "string"}},
        "resources": {"first": {"manifest": first}, "second": {"manifest": second}},
        "outputs": {"v": {"value": "${second.data.v}"}},
    }
    return {"apiVersion": API_VERSION, "kind": "Stack", "spec": {"parameters": parameters, "template": template}}


async def create(world: RealWorld, spec: Object) -> Address:
    """Create a Stack with that spec without waiting."""
    await world.user.create(stack_manifests.make_stack(spec, namespace=world.namespace))
    return stack_manifests.address_in(world.namespace)


async def list_all(world: RealWorld, path: str) -> list[Object]:
    """The objects of a collection that are Stacks or belong to one."""
    page = await world.user.connection.request("GET", path.format(world.namespace))
    is_stack = "hearth.dev" in path
    found: list[Object] = page["items"]
    return [raw for raw in found if is_stack or names.LABEL_STACK_UID in (raw["metadata"].get("labels") or {})]


async def find_left(world: RealWorld) -> list[str]:
    """All remaining objects, by name."""
    return [raw["metadata"]["name"] for path in COLLECTIONS for raw in await list_all(world, path)]


async def find_stack(world: RealWorld, address: Address) -> list[str]:
    """The Stack, if it still exists. Listing a large tree repeatedly would disturb its deletion."""
    return ["it is still there"] if await world.user.find(address) is not None else []


async def wait_for(world: RealWorld, address: Address, **wanted: Any) -> Object:
    """Wait until the status reports this for the current spec; return the Stack."""

    async def look() -> list[str]:
        found = await world.user.find(address) or {}
        status = expectations.status_of(found)
        if status.get("observedGeneration") != (found.get("metadata") or {}).get("generation"):
            return ["it speaks of an older spec"]
        return [f"{name}: {status.get(name)}" for name, value in wanted.items() if status.get(name) != value]

    assert await world.wait_until(look) == []
    return await world.user.find(address) or {}


@pytest.mark.long
async def test_125_nested_stacks_deleted_in_the_middle_of_their_creation(world: RealWorld) -> None:
    declared = {"type": "array", "items": {"type": "string"}, "default": [f"s{number}" for number in range(NESTED)]}
    sites = {"forEach": "params.sites", "key": "item", "manifest": make_nested({"v": "${item}"})}
    await world.start_controller()
    address = await create(world, {"template": {"parameters": {"sites": declared}, "resources": {"sites": sites}}})

    async def look() -> list[str]:
        made = await list_all(world, COLLECTIONS[3])
        return [] if len(made) >= IN_THE_MIDDLE else [f"{len(made)} objects"]

    assert await world.wait_until(look) == []
    middle = await world.user.find(address) or {}
    assert expectations.status_of(middle).get("phase") != "CreateComplete"
    await world.user.delete(address)
    assert await world.wait_until(lambda: find_left(world)) == []


@pytest.mark.long
async def test_125_nested_stacks_follow_one_update(world: RealWorld) -> None:
    keys = {"type": "array", "items": {"type": "string"}, "default": [f"s{number}" for number in range(NESTED)]}
    sites = {"forEach": "params.sites", "key": "item", "manifest": make_nested({"v": "${params.v}"})}
    found = "${string(size(sites.filter(each, each.status.outputs.v == params.v)))}"
    count = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"found": found}}}
    template = {
        "parameters": {"sites": keys, "v": {"type": "string"}},
        "resources": {"sites": sites, "count": count},
        "outputs": {"found": {"value": "${count.data.found}"}},
    }
    await world.start_controller()
    address = await create(world, {"parameters": {"v": "one"}, "template": template})
    await wait_for(world, address, phase="CreateComplete", outputs={"found": str(NESTED)})

    async def look() -> list[str]:
        made = await list_all(world, COLLECTIONS[3])
        return [] if any((raw.get("data") or {}).get("v") == "two" for raw in made) else ["none has the first change"]

    await world.user.patch(address, {"spec": {"parameters": {"v": "two"}}})
    assert await world.wait_until(look) == []
    await world.user.patch(address, {"spec": {"parameters": {"v": "three"}}})
    await wait_for(world, address, phase="UpdateComplete", outputs={"found": str(NESTED)})
    made = await list_all(world, COLLECTIONS[3])
    assert {raw["data"]["v"] for raw in made if "v" in raw["data"]} == {"three"}
    assert len(made) == 2 * NESTED + 1

    await world.user.delete(address)
    assert await world.wait_until(lambda: find_left(world)) == []


@pytest.mark.soak
async def test_a_tree_of_many_resources_in_groups(world: RealWorld) -> None:
    size = int(os.environ.get(RESOURCES) or 5_000) // GROUPS
    world.timeout = TREE_SECONDS
    member = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "${key}", "v": "${params.v}"}}}
    spec = {"replicas": size, "parameters": {"v": "${params.v}"}, "template": member}
    group = {"apiVersion": API_VERSION, "kind": "ResourceGroup", "spec": spec}
    declared = {"type": "array", "items": {"type": "string"}, "default": [f"g{number}" for number in range(GROUPS)]}
    parts = {"forEach": "params.groups", "key": "item", "manifest": group}
    total = "${parts.map(each, string(each.status.readyReplicas)).join(',')}"
    ready = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ready": total}}}
    template = {
        "parameters": {"groups": declared, "v": {"type": "string"}},
        "resources": {"parts": parts, "ready": ready},
        "outputs": {"ready": {"value": "${ready.data.ready}"}},
    }
    await world.start_controller()
    address = await create(world, {"parameters": {"v": "one"}, "template": template})
    sizes = [str(size)] * GROUPS
    await wait_for(world, address, phase="CreateComplete", outputs={"ready": ",".join(sizes)})

    part = Address(api_version=API_VERSION, kind="ResourceGroup", namespace=world.namespace, name="shop-parts-g3")
    await world.user.scale(part, size + 1, manager="keda")
    sizes[3] = str(size + 1)
    await wait_for(world, address, phase="CreateComplete", outputs={"ready": ",".join(sizes)})

    await world.user.delete(address)
    assert await world.wait_until(lambda: find_stack(world, address)) == []
    assert await find_left(world) == []
