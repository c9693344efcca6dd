"""Every story, disturbed at one write: the operator killed before or after it, its answer lost, or refused.

The end must be the same as without, and nothing may be made twice. Must not know of any single story.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from support import fake_world, story, story_runner, traffic, virtual_time
from support.fake_world import FakeWorld
from support.story import Story
from support.traffic import Interruption

KILLS = ("kill-before", "kill-after")
FAULTS = ("lost", "unreachable", "server-error", "internal", "unavailable", "busy", "conflict")
WAYS = (*KILLS, *FAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a story comes to where nothing disturbs it."""

    writes: tuple[str, ...]
    """The verbs of its writes, in order."""
    made: Counter[tuple[str, ...]]


def perform(told: Story, *, interruption: Interruption | None = None, delay: float | None = None) -> Undisturbed:
    """Play a story to its end in a world of its own; delay: seconds that events travel. Raises AssertionError."""
    worlds: list[FakeWorld] = []

    async def play(world: FakeWorld) -> None:
        worlds.append(world)
        world.traffic.interruption = interruption
        world.event_delay = delay
        is_usual = interruption is None and delay is None
        await story_runner.Play(told, world, is_strict=is_usual).perform()

    fake_world.run(play)
    (world,) = worlds
    verbs = tuple(request.verb for request in world.traffic.requests if request.verb in traffic.WRITES)
    return Undisturbed(writes=verbs, made=world.witness.made)


def choose_ways(write: int, verb: str) -> tuple[str, ...]:
    """How to disturb one write in every run of the tests: each fault in its turn, as `main` tries all of them."""
    fault = FAULTS[write % len(FAULTS)]
    return ("kill-after", fault) if verb == "status" else (*KILLS, fault)


def disturb(told: Story, *, ways: tuple[str, ...] = ()) -> Iterator[str]:
    """Play a story disturbed at every write; what went wrong, a line each.

    ways: all to try at each write; none: those that `choose_ways` says.
    """
    usual = perform(told)
    count = len(usual.writes)
    # What is tried again and again even undisturbed is tried as often as time allows.
    retried = {whose[:2] for whose, made in usual.made.items() if made > 1}
    for write, verb in enumerate(usual.writes, 1):
        for how in ways or choose_ways(write, verb):
            interruption = Interruption(write=write, how=how)
            try:
                found = perform(told, interruption=interruption)
            except (AssertionError, virtual_time.NothingLeft) as error:
                yield f"{how} at write {write} of {count} ({verb}): {error}"
                continue
            for whose, made in found.made.items():
                if made > max(1, usual.made[whose]) and whose[:2] not in retried:
                    yield f"{how} at write {write} of {count} ({verb}): {whose[1]} was made {made} times"


def main(slugs: list[str]) -> None:
    """Disturb these stories (none: all) in every way at every write, and print what went wrong."""
    for told in story.load_all():
        if not slugs or told.slug in slugs:
            print(f"{told.slug}: {told.title}")
            for text in disturb(told, ways=WAYS):
                print(f"  {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
