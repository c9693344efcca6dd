"""Every story of tests/stories as it is, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube import credentials
from hearth.kube.connection import Connection
from hearth.model import crd, errors
from support import probe_player, real_user, story, story_runner
from support.real_user import RealUser
from support.real_world import RealWorld
from support.story import Story
from support.world import Address


@pytest.fixture
async def world(kubeconfig: Path, namespace: str) -> AsyncIterator[RealWorld]:
    """A world in a namespace of its own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install(user, [crd.make_stack_crd(), probe_player.definition()])
        made = RealWorld(user, source)
        made.open()
        yield made
        await made.close()


STORIES = [told for told in story.load_all() if "fake" not in told.needs]


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.slug)
async def test_story(told: Story, world: RealWorld) -> None:
    """The story goes as it is told, and leaves nothing behind."""
    made = [step.what for step in told.steps if step.action == "create-kind"]
    await forget(world, made)
    try:
        await story_runner.Play(told, world).perform()
    finally:
        # Kinds belong to no namespace: what a story leaves of them the next run would begin with.
        await forget(world, made)


async def forget(world: RealWorld, kinds: list[str]) -> None:
    """Take the kinds of a story away, and wait until they are gone."""
    for kind in kinds:
        address = Address.of(probe_player.definition(kind))
        async with asyncio.timeout(60):
            while await world.user.find(address) is not None:
                with contextlib.suppress(errors.Refused):
                    await world.user.delete(address)
