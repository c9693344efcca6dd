"""Objects with explicit names that move at random, within a Stack and within its tree, are never recreated."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hearth.model.child import Object
from support.checks import invariants
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK

PLACES = ("shop", "shop-east", "shop-west")
OBJECTS = ("one", "two", "three")
RESOURCES = ("a", "b", "c", "d", "e")
PATIENCE = 900.0
"""Virtual seconds until every object belongs to its new resource."""

Plan = dict[str, tuple[str, str, bool]]
"""By object: the Stack and resource that name it, and whether that resource waits for one that is not ready."""


def draw_plan() -> st.SearchStrategy[Plan]:
    """Where each object is: no two have one resource."""
    pairs = [(place, resource) for place in PLACES for resource in RESOURCES]
    places = st.lists(st.sampled_from(pairs), min_size=len(OBJECTS), max_size=len(OBJECTS), unique=True)
    waits = st.lists(st.booleans(), min_size=len(OBJECTS), max_size=len(OBJECTS))
    return st.builds(
        lambda found, late: {
            name: (*place, is_late) for name, place, is_late in zip(OBJECTS, found, late, strict=True)
        },
        places,
        waits,
    )


def make_resources(place: str, plan: Plan, *, is_pending: bool) -> Object:
    api = "testing.hearth.dev/v1"
    found: Object = {
        "gate": {"manifest": {"apiVersion": api, "kind": "Probe", "spec": {"silent": is_pending, "value": "1"}}}
    }
    for name, (stack, resource, is_late) in plan.items():
        if stack == place:
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {resource: "1"}}
            found[resource] = {"manifest": manifest, **({"dependsOn": ["gate"]} if is_late else {})}
    return found


def make_spec(plan: Plan, *, is_pending: bool) -> Object:
    """A Stack with two others in it."""
    resources = make_resources("shop", plan, is_pending=is_pending)
    for place in PLACES[1:]:
        spec = {"template": {"resources": make_resources(place, plan, is_pending=is_pending)}}
        resources[place.removeprefix("shop-")] = {
            "manifest": {"apiVersion": STACK.api_version, "kind": "Stack", "spec": spec}
        }
    return {"template": {"resources": resources}}


def find_uids(world: FakeWorld) -> dict[str, str]:
    """The UIDs of the objects that exist."""
    found = ((name, world.server.find(fake_kinds.CONFIG_MAP.kind, "default", name)) for name in OBJECTS)
    return {name: raw["metadata"]["uid"] for name, raw in found if raw is not None}


def find_misplaced(world: FakeWorld, plan: Plan) -> list[str]:
    """The objects that do not belong to the resource that names them."""
    uids = {
        place: (world.server.find(fake_kinds.STACK.kind, "default", place) or {}).get("metadata", {}).get("uid")
        for place in PLACES
    }
    wrong = []
    for name, (place, resource, _) in plan.items():
        raw = world.server.find(fake_kinds.CONFIG_MAP.kind, "default", name)
        if raw is None or invariants.whose(raw) != (uids[place], resource) or set(raw["data"]) != {resource}:
            wrong.append(f"{name} is not {resource} of {place}: {raw and (invariants.whose(raw), raw['data'])}")
    return wrong


@pytest.mark.parametrize("shards", [1, 3])
@hypothesis.seed(1)
@settings(max_examples=25, database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@hypothesis.given(
    plans=st.lists(
        st.tuples(draw_plan(), st.booleans(), st.sampled_from([0.0, 0.01, 0.5, 3.0]), st.booleans()),
        min_size=2,
        max_size=4,
    )
)
def test_an_object_that_moves_is_never_made_again(shards: int, plans: list[tuple[Plan, bool, float, bool]]) -> None:
    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        first = make_spec(
            {name: (place, resource, False) for name, (place, resource, _) in plans[0][0].items()}, is_pending=False
        )
        await world.user.create(stack_manifests.make_stack(first))

        async def settle(plan: Plan) -> Any:
            async def look() -> list[str]:
                return find_misplaced(world, plan)

            return await world.wait_rest(look, patience=PATIENCE)

        assert await settle(plans[0][0]) == []
        before = find_uids(world)
        for plan, is_pending, pause, is_killed in plans[1:]:
            spec = make_spec(plan, is_pending=is_pending)
            await world.user.replace_spec(STACK, spec)
            await asyncio.sleep(pause)
            if is_killed:
                await world.kill_controller()
                await world.start_controller()
            assert find_uids(world) == before
        await world.user.replace_spec(STACK, make_spec(plans[-1][0], is_pending=False))
        assert await settle(plans[-1][0]) == []
        assert find_uids(world) == before

    fake_world.run(story, shards=shards)
