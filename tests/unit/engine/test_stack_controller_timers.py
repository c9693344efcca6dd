"""Timers of real loops are not exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.fake_world import fake_world
from support.stories import story, story_runner
from support.virtual_time import VirtualClock

EARLY = 0.0005
"""Seconds: uvloop counts milliseconds."""


def test_a_retry_whose_timer_fires_early_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is due yet when it fires, and nothing else happens that would set the next one."""
    exact = VirtualClock.call_later

    def call_early(clock: VirtualClock, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        return exact(clock, delay - EARLY if delay > 2 * EARLY else delay, action)

    monkeypatch.setattr(VirtualClock, "call_later", call_early)
    played = story.load(story.FOLDER / "create-fails-and-recovers.yaml")
    fake_world.run(lambda world: story_runner.Play(played, world).perform())
