"""What a restarted operator reports while an answer is missing: nothing, unless the answer failed or the spec is new."""

from __future__ import annotations

from typing import Any

from hearth.model.child import Object
from hearth.plan.status import conditions
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_faults import WRITES
from support.stories import stack_manifests
from support.stories.world import Address

NAMESPACE = "default"
API_VERSION = "hearth.dev/v1alpha1"
SOON = 10.0
"""Seconds; longer than the grace period."""
LONG = 600.0


def find_address(name: str) -> Address:
    """The Stack of that name."""
    return Address(api_version=API_VERSION, kind="Stack", namespace=NAMESPACE, name=name)


def make_spec(kind: str, value: str = "1") -> Object:
    """One object of that kind."""
    field = "stringData" if kind == "Secret" else "data"
    return {"template": {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": kind, field: {"v": value}}}}}}


async def read(world: FakeWorld, name: str) -> Object:
    """The status."""
    status: Object = ((await world.user.find(find_address(name))) or {}).get("status", {})
    return status


async def restart_without_secrets(world: FakeWorld, *, is_failing: bool) -> int:
    """Two complete Stacks, and a new operator that gets no list of Secrets; the requests before that."""
    await world.start_controller()
    for name, kind in (("silent", "Secret"), ("served", "ConfigMap")):
        await world.user.create(stack_manifests.make_stack(make_spec(kind), name=name))
    await world.wait_rest()
    assert [(await read(world, name))["phase"] for name in ("silent", "served")] == ["CreateComplete"] * 2
    await world.kill_controller()
    before = len(world.traffic.requests)
    world.traffic.unanswered.add("Secret")
    world.traffic.failing.update({"Secret"} if is_failing else ())
    await world.start_controller()
    return before


def list_writes(world: FakeWorld, before: int) -> list[Any]:
    """What was written since."""
    return [str(each) for each in world.traffic.requests[before:] if each.verb in WRITES]


def test_list_that_does_not_come_is_no_news() -> None:
    """And no matter of other Stacks, which work on."""

    async def test(world: FakeWorld) -> None:
        before = await restart_without_secrets(world, is_failing=False)
        await world.wait(LONG)
        assert list_writes(world, before) == []
        await world.user.replace_spec(find_address("served"), make_spec("ConfigMap", "2"))
        await world.wait(SOON)
        assert (await read(world, "served"))["phase"] == "UpdateComplete"

    fake_world.run(test)


def test_new_spec_reports_what_it_waits_for() -> None:
    """Users wait for an answer to their change."""

    async def test(world: FakeWorld) -> None:
        await restart_without_secrets(world, is_failing=False)
        await world.wait(LONG)
        await world.user.replace_spec(find_address("silent"), make_spec("Secret", "2"))
        await world.wait(SOON)
        status = await read(world, "silent")
        assert (status["observedGeneration"], status["phase"]) == (2, "UpdateInProgress")
        assert "Secret objects cannot be watched yet" in conditions.find(status, "Ready")["message"]

    fake_world.run(test)


def test_deletion_reports_what_it_waits_for() -> None:
    """It changes what the Stack works towards."""

    async def test(world: FakeWorld) -> None:
        await restart_without_secrets(world, is_failing=False)
        await world.wait(LONG)
        await world.user.delete(find_address("silent"))
        await world.wait(SOON)
        assert (await read(world, "silent"))["phase"] == "DeleteInProgress"

    fake_world.run(test)


def test_list_that_fails_is_reported() -> None:
    """Though only after the grace period: the next attempt may succeed."""

    async def test(world: FakeWorld) -> None:
        before = await restart_without_secrets(world, is_failing=True)
        await world.wait(3.0)
        assert list_writes(world, before) == []
        await world.wait(SOON)
        message = conditions.find(await read(world, "silent"), "Ready")["message"]
        assert "Secret objects cannot be watched yet" in message
        assert (await read(world, "served"))["phase"] == "CreateComplete"

    fake_world.run(test)
