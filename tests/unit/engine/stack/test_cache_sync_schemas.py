"""Health of objects whose kind changes its schema while they are watched."""

from __future__ import annotations

from typing import Any

from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

GADGETS = Address(
    api_version="apiextensions.k8s.io/v1",
    kind="CustomResourceDefinition",
    namespace="",
    name="gadgets.example.com",
)


def make_versions(**status: Any) -> list[Object]:
    """The only version, with these fields in the status."""
    properties = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": status},
    }
    return [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        }
    ]


def make_definition() -> Object:
    """A kind whose status says nothing of health."""
    return {
        "apiVersion": GADGETS.api_version,
        "kind": GADGETS.kind,
        "metadata": {"name": GADGETS.name},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
            "versions": make_versions(address={"type": "string"}),
        },
    }


def make_stack() -> Object:
    """A Stack of one gadget."""
    manifest = {"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"size": 1}}
    template = {"resources": {"a": {"manifest": manifest}}}
    return stack_manifests.make_stack({"template": template})


async def read_status(world: FakeWorld) -> tuple[bool, str]:
    """Whether the Stack is ready, and its message."""
    found = await world.user.find(STACK)
    assert found is not None
    (ready,) = (each for each in found["status"]["conditions"] if each["type"] == "Ready")
    return ready["status"] == "True", ready["message"]


def test_a_kind_that_begins_to_report_is_asked_from_then_on() -> None:
    """Its objects wait for their controller, and the cache holds what that writes."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(make_definition())
        await world.user.create(make_stack())
        await world.wait(5)
        assert (await read_status(world))[0]

        await world.user.patch(GADGETS, {"spec": {"versions": make_versions(phase={"type": "string"})}})
        await world.wait(5)
        is_ready, message = await read_status(world)
        assert not is_ready
        assert "the controller of example.com/Gadget has not set status.phase" in message

        gadget = Address(api_version="example.com/v1", kind="Gadget", namespace="default", name="shop-a")
        await world.user.patch_status(gadget, {"phase": "Running"})
        await world.wait(5)
        assert (await read_status(world))[0]

    fake_world.run(story)
