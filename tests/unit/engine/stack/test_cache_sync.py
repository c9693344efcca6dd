"""The state of a Stack while the caches sync: missing responses, denied kinds, changed schemas."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model.child import Object
from hearth.plan.status import conditions
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_faults import WRITES
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

SOON = 10.0
"""Seconds; longer than the grace period."""
LONG = 600.0


def find_address(name: str) -> Address:
    """The Stack of that name."""
    return dataclasses.replace(STACK, name=name)


def make_spec(kind: str, value: str = "1") -> Object:
    """One object of that kind."""
    field = "stringData" if kind == "Secret" else "data"
    return {"template": {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": kind, field: {"v": value}}}}}}


async def read_status(world: FakeWorld, name: str) -> Object:
    """The status."""
    status: Object = ((await world.user.find(find_address(name))) or {}).get("status", {})
    return status


async def restart_without_secrets(world: FakeWorld, *, is_failing: bool) -> int:
    """Two complete Stacks, and a new operator that gets no list of Secrets; returns the number of earlier requests."""
    await world.start_controller()
    for name, kind in (("silent", "Secret"), ("served", "ConfigMap")):
        await world.user.create(stack_manifests.make_stack(make_spec(kind), name=name))
    await world.wait_rest()
    assert [(await read_status(world, name))["phase"] for name in ("silent", "served")] == ["CreateComplete"] * 2
    await world.kill_controller()
    before = len(world.traffic.requests)
    world.traffic.unanswered.add("Secret")
    world.traffic.failing.update({"Secret"} if is_failing else ())
    await world.start_controller()
    return before


def list_writes(world: FakeWorld, before: int) -> list[Any]:
    """The writes since the last call."""
    return [str(each) for each in world.traffic.requests[before:] if each.verb in WRITES]


@fake_world.in_world
async def test_list_that_does_not_come_is_no_news(world: FakeWorld) -> None:
    before = await restart_without_secrets(world, is_failing=False)
    await world.wait(LONG)
    assert list_writes(world, before) == []
    await world.user.replace_spec(find_address("served"), make_spec("ConfigMap", "2"))
    await world.wait(SOON)
    assert (await read_status(world, "served"))["phase"] == "UpdateComplete"


@fake_world.in_world
async def test_new_spec_reports_what_it_waits_for(world: FakeWorld) -> None:
    await restart_without_secrets(world, is_failing=False)
    await world.wait(LONG)
    await world.user.replace_spec(find_address("silent"), make_spec("Secret", "2"))
    await world.wait(SOON)
    status = await read_status(world, "silent")
    assert (status["observedGeneration"], status["phase"]) == (2, "UpdateInProgress")
    assert "Secret objects cannot be watched yet" in conditions.find(status, "Ready")["message"]


@fake_world.in_world
async def test_deletion_reports_what_it_waits_for(world: FakeWorld) -> None:
    await restart_without_secrets(world, is_failing=False)
    await world.wait(LONG)
    await world.user.delete(find_address("silent"))
    await world.wait(SOON)
    assert (await read_status(world, "silent"))["phase"] == "DeleteInProgress"


@fake_world.in_world
async def test_list_that_fails_is_reported(world: FakeWorld) -> None:
    before = await restart_without_secrets(world, is_failing=True)
    await world.wait(3.0)
    assert list_writes(world, before) == []
    await world.wait(SOON)
    message = conditions.find(await read_status(world, "silent"), "Ready")["message"]
    assert "Secret objects cannot be watched yet" in message
    assert (await read_status(world, "served"))["phase"] == "CreateComplete"


# ---------------------------------------------------------------- kinds without the right to watch

SECRET = Address(api_version="v1", kind="Secret", namespace="default", name="shop-denied")
RIGHTS = {("list", "Secret"), ("patch", "Secret"), ("apply", "Secret")}


def make_template(*, has_denied: bool = True) -> Object:
    """A ConfigMap, and an object of the kind without the right to watch."""
    resources: Object = {"good": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"}}}}
    if has_denied:
        resources["denied"] = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"v": "1"}}}
    return {"template": {"resources": resources}}


def make_stack() -> Object:
    return stack_manifests.make_stack(make_template())


async def start(world: FakeWorld) -> Object:
    """An operator without the right, and the status of a Stack that needs it."""
    world.traffic.denied.update(RIGHTS)
    await world.start_controller()
    await world.user.create(make_stack())
    await world.wait_rest()
    return await read_status(world, STACK.name)


@fake_world.in_world
async def test_resource_names_the_right_that_is_missing(world: FakeWorld) -> None:
    status = await start(world)
    [problem] = status["problems"]
    assert (problem["resource"], problem["reason"]) == ("denied", "Forbidden")
    assert 'cannot list resource "secrets"' in problem["message"]
    assert (status["phase"], conditions.find(status, "Ready")["reason"]) == ("CreateInProgress", "Forbidden")
    assert status["resources"]["ready"] == 1


@fake_world.in_world
async def test_right_that_comes_is_used(world: FakeWorld) -> None:
    await start(world)
    world.traffic.denied.clear()
    await world.wait(60)
    assert (await read_status(world, STACK.name))["phase"] == "CreateComplete"


@fake_world.in_world
async def test_kind_that_was_never_applied_holds_up_no_deletion(world: FakeWorld) -> None:
    await start(world)
    await world.user.delete(STACK)
    await world.wait_rest()
    assert await world.user.find(STACK) is None


@fake_world.in_world
async def test_definition_without_the_kind_is_completed(world: FakeWorld) -> None:
    await start(world)
    await world.user.replace_spec(STACK, make_template(has_denied=False))
    await world.wait_rest()
    assert (await read_status(world, STACK.name))["phase"] == "UpdateComplete"
    await world.user.delete(STACK)
    await world.wait_rest()
    assert await world.user.find(STACK) is None


@pytest.mark.parametrize("is_restarted", [False, True])
@fake_world.in_world
async def test_kind_that_was_applied_holds_up_the_deletion(world: FakeWorld, is_restarted: bool) -> None:
    await world.start_controller()
    await world.user.create(make_stack())
    await world.wait_rest()
    assert (await read_status(world, STACK.name))["phase"] == "CreateComplete"
    world.traffic.denied.update({*RIGHTS, ("delete", "Secret")})
    if is_restarted:
        await world.kill_controller()
        await world.start_controller()
        await world.wait(30)
    await world.user.delete(STACK)
    await world.wait(60)
    blocked = conditions.find(await read_status(world, STACK.name), "DeletionBlocked")
    assert blocked["status"] == "True"
    assert "secret" in blocked["message"].lower()
    assert "forbidden" in blocked["message"]
    world.traffic.denied.clear()
    await world.wait(600)
    assert (await world.user.find(STACK), await world.user.find(SECRET)) == (None, None)


# ---------------------------------------------------------------- kinds whose schema changes while they are watched

GADGETS = Address(
    api_version="apiextensions.k8s.io/v1",
    kind="CustomResourceDefinition",
    namespace="",
    name="gadgets.example.com",
)


def make_versions(**status: Any) -> list[Object]:
    """The only version of a kind, with these fields in the status."""
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
    """A kind whose status has no health fields."""
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


def make_gadget_stack() -> Object:
    manifest = {"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"size": 1}}
    template = {"resources": {"a": {"manifest": manifest}}}
    return stack_manifests.make_stack({"template": template})


async def read_ready(world: FakeWorld) -> tuple[bool, str]:
    """Whether the Stack is ready, and its message."""
    found = await world.user.find(STACK)
    assert found is not None
    (ready,) = (each for each in found["status"]["conditions"] if each["type"] == "Ready")
    return ready["status"] == "True", ready["message"]


@fake_world.in_world
async def test_a_kind_that_begins_to_report_is_asked_from_then_on(world: FakeWorld) -> None:
    await world.start_controller()
    await world.user.create(make_definition())
    await world.user.create(make_gadget_stack())
    await world.wait(5)
    assert (await read_ready(world))[0]

    await world.user.patch(GADGETS, {"spec": {"versions": make_versions(phase={"type": "string"})}})
    await world.wait(5)
    is_ready, message = await read_ready(world)
    assert not is_ready
    assert "the controller of example.com/Gadget has not set status.phase" in message

    gadget = Address(api_version="example.com/v1", kind="Gadget", namespace="default", name="shop-a")
    await world.user.patch_status(gadget, {"phase": "Running"})
    await world.wait(5)
    assert (await read_ready(world))[0]
