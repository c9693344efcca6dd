"""The end of a Stack: its finalizer goes although its status is written at the same time."""

from __future__ import annotations

import asyncio

import pytest

from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.stories import stack_manifests
from support.stories.world import Address


@pytest.mark.parametrize(
    ("word", "slowest"),
    [pytest.param("conflict", 0.5, id="the Stack changed"), pytest.param("webhook", 4.0, id="a request is rejected")],
)
def test_a_finalizer_that_could_not_be_taken_away(word: str, slowest: float) -> None:
    """At once again where the Stack only changed meanwhile; that is not reported."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        template = {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
        address = Address.of(await world.user.create(stack_manifests.make_stack({"template": template})))
        await asyncio.sleep(5)
        refusal = request_faults.REFUSALS[word]
        world.traffic.troubles.append(request_faults.Trouble(refusal=refusal, verbs=frozenset({"finalizer"}), times=1))
        begun = asyncio.get_running_loop().time()
        await world.user.delete(address)
        while await world.user.find(address) is not None:  # noqa: ASYNC110 -- in virtual time
            await asyncio.sleep(0.01)
        seconds = asyncio.get_running_loop().time() - begun
        assert seconds < slowest
        assert (word == "conflict") is (seconds < 1.0)

    fake_world.run(story)
