"""StatefulSets that are replaced on a real API server, with their real controller; a test plays what binds volumes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.server import fake_kinds
from support.stories import probe_controller, set_replacement_scenarios
from support.stories.set_replacement_scenarios import Scenario
from support.stories.snapshot_scene import Scene
from support.stories.volume_driver import VolumeBinder


@pytest.fixture
async def scene(kubeconfig: Path, namespace: str) -> AsyncIterator[Scene]:
    """A scene in a namespace of its own, with an operator."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install(user, [*fake_kinds.make_crds(), probe_controller.definition()])
        world = RealWorld(user, source)
        world.open()
        await world.start_controller()
        yield Scene(world, VolumeBinder(world))
        await world.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["undisturbed", "restarted"])
@pytest.mark.parametrize("scenario", set_replacement_scenarios.SCENARIOS, ids=lambda each: each.__name__)
async def test_scenario(scenario: Scenario, scene: Scene, *, restarts: bool) -> None:
    """Each scenario happens as written, also with a new operator after every step."""
    scene.restarts = restarts
    await scenario(scene)
