"""Every story of tests/stories, unchanged, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hearth.model import errors
from support import process_lock
from support.real.real_world import RealWorld
from support.stories import probe_controller, story, story_runner
from support.stories.story import Story
from support.stories.world import Address

STORIES = [played for played in story.load_all() if "fake" not in played.needs]


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
async def test_story(played: Story, world: RealWorld) -> None:
    made = [step.what for step in played.steps if step.action == "create-kind"]
    world.follow_probes(set(played.kinds) - {"Probe"})
    is_alone = {"Latecomer", "Newcomer"} & set(played.kinds)
    async with process_lock.held_meanwhile(process_lock.KINDS) if is_alone else contextlib.nullcontext():
        await forget(world, made)
        try:
            await story_runner.Play(played, world).perform()
        finally:
            # Kinds are cluster-scoped, so the next run would start with a story's leftovers.
            await forget(world, made)


async def forget(world: RealWorld, kinds: list[str]) -> None:
    """Delete the kinds of a story and wait for the deletion."""
    for kind in kinds:
        address = Address.of(probe_controller.definition(kind))
        async with asyncio.timeout(60):
            while await world.user.find(address) is not None:
                with contextlib.suppress(errors.ApiStatusError):
                    await world.user.delete(address)
