"""A kind that the operator is not allowed to watch: a matter of the Stacks that have it, which say so, and can be deleted."""

from __future__ import annotations

import pytest

from hearth.model.child import Object
from hearth.plan.status import conditions
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

NAMESPACE = "default"
SECRET = Address(api_version="v1", kind="Secret", namespace=NAMESPACE, name="shop-denied")
RIGHTS = {("list", "Secret"), ("patch", "Secret"), ("apply", "Secret")}


def make_template(*, has_denied: bool = True) -> Object:
    """A ConfigMap, and an object of the kind that may not be watched."""
    resources: Object = {"good": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"}}}}
    if has_denied:
        resources["denied"] = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"v": "1"}}}
    return {"template": {"resources": resources}}


def make_stack() -> Object:
    """A Stack of both."""
    return stack_manifests.make_stack(make_template())


async def start(world: FakeWorld) -> Object:
    """An operator without the right, and the status of a Stack that needs it."""
    world.traffic.denied.update(RIGHTS)
    await world.start_controller()
    await world.user.create(make_stack())
    await world.wait_rest()
    return await read(world)


async def read(world: FakeWorld) -> Object:
    """The status."""
    status: Object = ((await world.user.find(STACK)) or {}).get("status", {})
    return status


def test_resource_names_the_right_that_is_missing() -> None:
    """In the server's words; the others are made."""

    async def test(world: FakeWorld) -> None:
        status = await start(world)
        [problem] = status["problems"]
        assert (problem["resource"], problem["reason"]) == ("denied", "Forbidden")
        assert 'cannot list resource "secrets"' in problem["message"]
        assert (status["phase"], conditions.find(status, "Ready")["reason"]) == ("CreateInProgress", "Forbidden")
        assert status["resources"]["ready"] == 1

    fake_world.run(test)


def test_right_that_comes_is_used() -> None:
    """Without any change of the Stack."""

    async def test(world: FakeWorld) -> None:
        await start(world)
        world.traffic.denied.clear()
        await world.wait(60)
        assert (await read(world))["phase"] == "CreateComplete"

    fake_world.run(test)


def test_kind_that_was_never_applied_holds_up_no_deletion() -> None:
    """Nothing of the Stack can be there."""

    async def test(world: FakeWorld) -> None:
        await start(world)
        await world.user.delete(STACK)
        await world.wait_rest()
        assert await world.user.find(STACK) is None

    fake_world.run(test)


def test_definition_without_the_kind_is_completed() -> None:
    """Though an earlier one had it, and the Stack can be deleted after that too."""

    async def test(world: FakeWorld) -> None:
        await start(world)
        await world.user.replace_spec(STACK, make_template(has_denied=False))
        await world.wait_rest()
        assert (await read(world))["phase"] == "UpdateComplete"
        await world.user.delete(STACK)
        await world.wait_rest()
        assert await world.user.find(STACK) is None

    fake_world.run(test)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_kind_that_was_applied_holds_up_the_deletion(is_restarted: bool) -> None:
    """It is named, with the right that is missing; once that is back the object goes, and then the Stack."""

    async def test(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(make_stack())
        await world.wait_rest()
        assert (await read(world))["phase"] == "CreateComplete"
        world.traffic.denied.update({*RIGHTS, ("delete", "Secret")})
        if is_restarted:
            await world.kill_controller()
            await world.start_controller()
            await world.wait(30)
        await world.user.delete(STACK)
        await world.wait(60)
        blocked = conditions.find(await read(world), "DeletionBlocked")
        assert blocked["status"] == "True"
        assert "secret" in blocked["message"].lower()
        assert "forbidden" in blocked["message"]
        world.traffic.denied.clear()
        await world.wait(600)
        assert (await world.user.find(STACK), await world.user.find(SECRET)) == (None, None)

    fake_world.run(test)
