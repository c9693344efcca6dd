"""An annotation on a child makes the operator write nothing unrequested."""

from __future__ import annotations

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.plan.status import conditions
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

CHILD = Address(api_version="apps/v1", kind="Deployment", namespace="default", name="shop-web")
ATTACK = '{"theirs":{"spec.paused":true,"spec.minReadySeconds":77}}'
OVERLAPPING = '{"theirs":{"spec.minReadySeconds":1,"spec.minReadySeconds.y":2}}'


def make_spec(replicas: int, **more: object) -> Object:
    """One Deployment."""
    labels = {"app": "web"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
        },
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return {"template": {"resources": {"web": {"manifest": manifest}}}, **more}


async def begin(world: FakeWorld) -> Object:
    """A Stack at rest; its child."""
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_spec(2)))
    await world.wait_rest()
    return await find(world, CHILD)


async def find(world: FakeWorld, address: Address) -> Object:
    """The object as it is."""
    found = await world.user.find(address)
    assert found is not None
    return found


async def annotate(world: FakeWorld, text: str | None) -> None:
    """Write the annotation as a user."""
    await world.user.patch(CHILD, {"metadata": {"annotations": {names.ANNOTATION_SUSPENDED: text}}})
    await world.wait_rest()


@pytest.mark.parametrize(
    "text", [ATTACK, OVERLAPPING, "{", "7", "[" * 3_000], ids=["any", "overlap", "no", "7", "deep"]
)
def test_a_forged_record_is_named_and_nothing_of_it_written(text: str) -> None:
    """The Stack converges as ever; the condition goes with the annotation."""

    async def play(world: FakeWorld) -> None:
        before = await begin(world)
        await annotate(world, text)
        assert (await find(world, CHILD))["spec"] == before["spec"]
        found = conditions.find((await find(world, STACK))["status"], "SuspendRecordInvalid")
        assert (found["status"], found["reason"]) == ("True", "SignatureInvalid")
        assert "kubectl annotate deployments.apps shop-web -n default hearth.dev/suspended-" in found["message"]
        await world.user.replace_spec(STACK, make_spec(3))
        await world.wait_rest()
        assert (await find(world, CHILD))["spec"] == {**before["spec"], "replicas": 3}
        await annotate(world, None)
        status = (await find(world, STACK))["status"]
        assert (status["phase"], conditions.find(status, "SuspendRecordInvalid")["status"]) == (
            "UpdateComplete",
            "False",
        )

    fake_world.run(play)


@pytest.mark.parametrize("text", [ATTACK, None], ids=["forged", "removed"])
def test_a_suspended_object_without_its_record_gets_what_its_definition_states(text: str | None) -> None:
    """And nothing else."""

    async def play(world: FakeWorld) -> None:
        before = await begin(world)
        await world.user.replace_spec(STACK, make_spec(2, suspended=True))
        await world.wait_rest()
        assert (await find(world, CHILD))["spec"]["replicas"] == 0
        await annotate(world, text)
        await world.user.replace_spec(STACK, make_spec(2))
        await world.wait_rest()
        stack = await find(world, STACK)
        assert ((await find(world, CHILD))["spec"], stack["status"]["phase"]) == (before["spec"], "ResumeComplete")

    fake_world.run(play)


def test_an_earlier_record_of_the_same_object_is_not_trusted_again() -> None:
    """Its signature is ours, and the annotation another writer's."""

    async def play(world: FakeWorld) -> None:
        await begin(world)
        await world.user.replace_spec(STACK, make_spec(2, suspended=True))
        await world.wait_rest()
        record = (await find(world, CHILD))["metadata"]["annotations"][names.ANNOTATION_SUSPENDED]
        await world.user.replace_spec(STACK, make_spec(2))
        await world.wait_rest()
        await annotate(world, record)
        found = conditions.find((await find(world, STACK))["status"], "SuspendRecordInvalid")
        assert found["status"] == "True"

    fake_world.run(play)
