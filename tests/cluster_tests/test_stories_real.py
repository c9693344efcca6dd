"""Every story of tests/stories as it is, on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube import credentials
from hearth.kube.connection import Connection
from hearth.model import crd
from support import probe_player, real_user, story, story_runner
from support.real_user import RealUser
from support.real_world import RealWorld
from support.story import Story


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


@pytest.mark.parametrize("told", story.load_all(), ids=lambda told: told.slug)
async def test_story(told: Story, world: RealWorld) -> None:
    """The story goes as it is told, and leaves nothing behind."""
    await story_runner.Play(told, world).perform()
