"""StatefulSets that are replaced on a real API server, with their real controller; a test plays what binds volumes."""

from __future__ import annotations

import pytest

from support.stories import set_replacement_scenarios
from support.stories.set_replacement_scenarios import Scenario
from support.stories.snapshot_scene import Scene


@pytest.mark.parametrize("restarts", [False, True], ids=["undisturbed", "restarted"])
@pytest.mark.parametrize("scenario", set_replacement_scenarios.SCENARIOS, ids=lambda each: each.__name__)
async def test_scenario(scenario: Scenario, scene: Scene, *, restarts: bool) -> None:
    """Each scenario happens as written, also with a new operator after every step."""
    scene.restarts = restarts
    await scenario(scene)
