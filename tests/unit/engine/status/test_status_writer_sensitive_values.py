"""A sensitive value that was replaced is as little to be seen as the new one."""

from __future__ import annotations

import base64

from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.server.request_faults import Trouble
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "account", "namespace": "default"},
    "data": {"password": base64.b64encode(b"the-first-word").decode()},
}
STACK: Object = stack_manifests.make_stack(
    {
        "template": {
            "parameters": {"password": {"sensitive": True}},
            "resources": {"login": {"manifest": probe_controller.manifest({"value": "${params.password}"})}},
            "outputs": {"seen": {"value": "${login.status.value}"}},
        },
        "parametersFrom": [{"secretRef": {"name": "account"}}],
    }
)


def test_a_replaced_value_stays_hidden() -> None:
    """While a child that could not be changed yet still shows it."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(SECRET)
        await world.user.create(STACK)
        await world.wait_rest()
        world.traffic.troubles.append(Trouble(refusal=request_faults.REFUSALS["policy"], resource="login"))
        second = base64.b64encode(b"the-second-word").decode()
        await world.user.patch(Address.of(SECRET), {"data": {"password": second}})
        await world.wait_rest()
        found = await world.user.find(Address.of(STACK))
        assert found is not None
        assert (found["status"]["revision"], found["status"]["outputs"]) == (2, {"seen": "(sensitive)"})

    fake_world.run(story)
