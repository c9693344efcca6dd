"""Every story of tests/stories as it is, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.model import errors
from support.real.real_world import RealWorld
from support.stories import probe_controller, story, story_runner
from support.stories.story import Story
from support.stories.world import Address

LOCK = Path(tempfile.gettempdir()) / "hearth-tests-kinds.lock"
STORIES = [played for played in story.load_all() if "fake" not in played.needs]


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
async def test_story(played: Story, world: RealWorld) -> None:
    """The story goes as written, and leaves nothing behind."""
    made = [step.what for step in played.steps if step.action == "create-kind"]
    world.follow_probes(set(played.kinds) - {"Probe"})
    async with alone() if {"Latecomer", "Newcomer"} & set(played.kinds) else contextlib.nullcontext():
        await forget(world, made)
        try:
            await story_runner.Play(played, world).perform()
        finally:
            # Kinds belong to no namespace: what a story leaves of them the next run would begin with.
            await forget(world, made)


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    """While no other story, in whichever process, makes kinds or wants them missing."""
    with LOCK.open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield


async def forget(world: RealWorld, kinds: list[str]) -> None:
    """Take the kinds of a story away, and wait until they are gone."""
    for kind in kinds:
        address = Address.of(probe_controller.definition(kind))
        async with asyncio.timeout(60):
            while await world.user.find(address) is not None:
                with contextlib.suppress(errors.ApiStatusError):
                    await world.user.delete(address)
