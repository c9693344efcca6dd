"""An idle Stack is unloaded on a real API server, and still notices changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hearth.engine.stack.loaded_stacks import UNLOAD_AFTER
from hearth.model.child import Object
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

TIMEOUT = 45.0
"""Time limit in seconds for all waits, on a machine that is busy with other tests."""
POLL = 0.1


async def wait(world: RealWorld, address: Address, is_so: Callable[[Object], bool]) -> Object:
    """Wait until the condition holds for the object."""
    async with asyncio.timeout(TIMEOUT):
        while (found := await world.user.find(address)) is None or not is_so(found):  # noqa: ASYNC110 -- the server decides
            await asyncio.sleep(POLL)
    return found


@pytest.mark.cluster
async def test_an_unloaded_stack_is_repaired_restored_and_changed(world: RealWorld) -> None:
    await world.start_controller()
    stack = stack_manifests.address_in(world.namespace)
    child = Address(api_version="v1", kind="ConfigMap", namespace=world.namespace, name="shop-one")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}
    spec: Object = {"template": {"resources": {"one": {"manifest": manifest}}}}
    await world.user.create(stack_manifests.make_stack(spec, name=stack.name, namespace=world.namespace))
    complete = await wait(world, stack, lambda found: found.get("status", {}).get("phase") == "CreateComplete")
    await wait_unloaded(world)

    await world.user.patch_status(stack, dict.fromkeys(complete["status"]))
    restored = await wait(world, stack, lambda found: found.get("status", {}).get("phase") == "CreateComplete")
    assert restored["status"]["revision"] == complete["status"]["revision"]
    await world.user.patch(child, {"data": {"value": "mine"}})
    await wait(world, child, lambda found: bool(found["data"] == {"value": "one"}))
    manifest["data"] = {"value": "two"}
    await world.user.replace_spec(stack, spec)
    await wait(world, child, lambda found: bool(found["data"] == {"value": "two"}))


async def wait_unloaded(world: RealWorld) -> None:
    """Wait until the operator has no reconciler in memory."""
    async with asyncio.timeout(UNLOAD_AFTER + TIMEOUT):
        while world.count_reconcilers():  # noqa: ASYNC110 -- a timer, without an event
            await asyncio.sleep(POLL)
