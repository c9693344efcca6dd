"""A Stack whose namespace uses too much memory reports it, and continues as soon as there is room."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from hearth.model import limits
from hearth.model.child import Object
from hearth.model.memory_shares import memory_shares
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address

LARGE = 300_000
"""Bytes of one definition."""
LATER = 2 * limits.KEPT_AGAIN
FIRST, SECOND = "first", "second"


def make_config_map(data: Object) -> Object:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}


LIST = {"externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"selector": {"matchLabels": {"a": "b"}}}}}
"""A Stack that reads others' objects is never unloaded."""
CONSTANT = {"template": {"resources": {"a": make_config_map({"k": "x" * LARGE}), "l": LIST}}}
EVALUATED = {
    "parameters": {"text": "x" * LARGE},
    "template": {
        "parameters": {"text": {"type": "string"}},
        "resources": {
            "a": make_config_map({"k": "v"}),
            "l": LIST,
            "b": make_config_map({"k": "${params.text + a.metadata.name}"}),
        },
    },
}


async def read_ready(world: FakeWorld, name: str, namespace: str = "default") -> Object:
    """The condition Ready of a Stack."""
    found: Any = await world.user.find(stack_manifests.address_in(namespace, name))
    return next(each for each in found["status"]["conditions"] if each["type"] == "Ready")


async def start_two(world: FakeWorld, monkeypatch: pytest.MonkeyPatch, spec: Object, *, kept_for_each: int) -> None:
    """Start two Stacks of that spec in a namespace with room for one of them."""
    # Worlds of earlier tests are reference cycles, and count until they are garbage-collected.
    gc.collect()
    monkeypatch.setattr(memory_shares, "total", memory_shares.total_held + 3 * kept_for_each)
    await world.start_controller()
    for name in (FIRST, SECOND):
        await world.user.create(stack_manifests.make_stack(spec, name=name))
        await world.wait_rest()


@fake_world.in_world
async def test_a_definition_without_room_waits_for_it(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await start_two(world, monkeypatch, CONSTANT, kept_for_each=LARGE)
    found = await read_ready(world, SECOND)
    assert found["reason"] == "LimitReached"
    assert "the Stacks of namespace default use their share of the operator's memory" in found["message"]
    assert "use smaller parameters and manifests, or fewer Stacks" in found["message"]
    other = stack_manifests.make_stack({"template": {"resources": {"a": make_config_map({"k": "v"})}}}, name="small")
    await world.user.create(other)
    await world.wait_rest()
    assert (await read_ready(world, "small"))["status"] == "True"

    await world.user.delete(stack_manifests.address_in("default", FIRST))
    await world.wait(LATER)

    assert (await read_ready(world, SECOND))["status"] == "True"


@fake_world.in_world
async def test_a_manifest_without_room_waits_for_it(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each parameter is in both the definition and the manifest.
    await start_two(world, monkeypatch, EVALUATED, kept_for_each=2 * LARGE)
    found: Any = await world.user.find(
        Address(api_version="v1", kind="ConfigMap", namespace="default", name="second-b")
    )
    assert found is None
    message = (await read_ready(world, SECOND))["message"]
    assert "the Stacks of namespace default use their share of the operator's memory" in message

    await world.user.delete(stack_manifests.address_in("default", FIRST))
    await world.wait(LATER)

    assert (await read_ready(world, SECOND))["status"] == "True"
