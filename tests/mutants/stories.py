"""Plays every story once on the fake cluster, undisturbed, until one fails; its last line then says which and why."""

from __future__ import annotations

import sys

from support.fake_world import fake_world
from support.stories import story, story_runner
from support.stories.story import Story


def find_failure(played: Story) -> str:
    """Why a story does not go as written; "" where it does."""
    try:
        fake_world.run(lambda world: story_runner.Play(played, world).perform())
    except Exception as error:  # noqa: BLE001 -- any failure counts
        return " ".join(str(error).split())[:160] or type(error).__name__
    return ""


if __name__ == "__main__":
    for each in story.load_all():
        if failure := find_failure(each):
            print(f"{each.slug}: {failure}")
            sys.exit(1)
