"""Sources that change all the time: each change may be a revision and an apply, so they are taken up ever more slowly."""

from __future__ import annotations

import asyncio

from hearth.model import limits
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address

STACK: Object = stack_manifests.make_stack(
    {
        "adoptionPolicy": "Adopt",
        "parametersFrom": [{"configMapRef": {"name": "counter"}}],
        "template": {"parameters": {"count": {"type": "integer"}}, "resources": {}},
    }
)
COUNTER: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "counter", "namespace": "default"},
    "data": {"count": "0"},
}


def make_stack(name: str, count: str) -> Object:
    """A Stack of one ConfigMap of that name."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"count": count}}
    template = {**STACK["spec"]["template"], "resources": {"a": {"manifest": manifest}}}
    return {**STACK, "spec": {**STACK["spec"], "template": template}}


def test_a_stack_whose_own_object_is_its_source_does_not_keep_the_operator_busy() -> None:
    """Every apply changes the value that the next one is made from."""

    async def story(world: FakeWorld) -> None:
        await world.user.create(COUNTER)
        await world.user.create(make_stack("counter", "${string(params.count + 1)}"))
        await world.start_controller()
        await asyncio.sleep(100.0)
        applied = world.traffic.count()["apply"]
        assert applied > limits.SOURCE_CHANGES
        assert applied <= limits.SOURCE_CHANGES + 100.0 / limits.SOURCE_CHANGES_EVERY + 2
        await world.user.delete(Address.of(STACK))
        await world.wait_rest()

    fake_world.run(story)


def test_of_too_many_changes_the_newest_takes_effect() -> None:
    """The first few at once, the others together."""

    async def story(world: FakeWorld) -> None:
        await world.user.create(COUNTER)
        await world.user.create(make_stack("copy", "${string(params.count)}"))
        await world.start_controller()
        await world.wait_rest()
        before = world.traffic.count()["revision"]
        for count in range(1, 51):
            await world.user.patch(Address.of(COUNTER), {"data": {"count": str(count)}})
            await asyncio.sleep(0.1)
        await world.wait_rest()
        copied = await world.user.find(Address.of({**COUNTER, "metadata": {**COUNTER["metadata"], "name": "copy"}}))
        assert copied is not None
        assert copied["data"] == {"count": "50"}
        assert world.traffic.count()["revision"] - before == limits.SOURCE_CHANGES + 1

    fake_world.run(story)
