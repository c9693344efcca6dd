"""An object beside the Stacks that is deleted, while its event is late, is written once at most."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories.world import Address

LATE = 3.0
"""Seconds until an event arrives."""


def make(kind: str, spec: dict[str, Any]) -> Object:
    """An object of Hearth."""
    metadata = {"name": "shop", "namespace": "default"}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "spec", "verb"),
    [
        pytest.param("StackSnapshot", {"stackName": "shop"}, "snapshot-status", id="a StackSnapshot"),
        pytest.param(
            "HealthMark",
            {"markUnhealthy": True, "stackName": "shop", "resource": "a"},
            "mark-status",
            id="a HealthMark",
        ),
    ],
)
def test_what_the_server_no_longer_has_is_not_written_again(kind: str, spec: dict[str, Any], verb: str) -> None:
    """The answer to the first write says so."""

    async def story(world: FakeWorld) -> None:
        world.event_delay = LATE
        await world.start_controller()
        address = Address.of(await world.user.create(make(kind, spec)))
        await asyncio.sleep(LATE / 2)
        await world.user.delete(address)
        await asyncio.sleep(3 * LATE)
        assert [each.name for each in world.traffic.requests if each.verb == verb] == ["shop"]

    fake_world.run(story)
