"""Every story, disturbed at one write: the operator killed before or after it, its answer lost, or refused.

The end must be the same as without, and nothing may be made twice. Must not know of any single story.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import fake_kinds, fake_world, story, story_runner, traffic, virtual_time
from support.fake_world import FakeWorld
from support.story import Story
from support.traffic import Interruption

KILLS = ("kill-before", "kill-after")
FAULTS = ("lost", "unreachable", "server-error", "internal", "unavailable", "busy", "conflict")
WAYS = (*KILLS, *FAULTS)


@dataclass(slots=True)
class Witness:
    """Sees every object that is made, by the Stack, the resource and the incarnation that it is made for."""

    made: Counter[tuple[str, ...]]
    at_once: int = 0
    """The most objects of one incarnation that were there at the same time."""

    def watch(self, world: FakeWorld) -> None:
        """See everything from now on."""
        there: Counter[tuple[str, ...]] = Counter()

        def on_change(kind: Kind, before: Object | None, after: Object | None) -> None:
            raw = after if after is not None else before
            metadata = (raw or {}).get("metadata", {})
            labels = metadata.get("labels") or {}
            if kind == fake_kinds.CONTROLLER_REVISION.kind or names.LABEL_RESOURCE not in labels:
                return
            incarnation = (metadata.get("annotations") or {}).get(names.ANNOTATION_INCARNATION, "")
            whose = (labels[names.LABEL_STACK], labels[names.LABEL_RESOURCE], incarnation)
            if before is None:
                self.made[whose] += 1
                there[whose] += 1
                self.at_once = max(self.at_once, there[whose])
            elif after is None:
                there[whose] -= 1

        world.server.watchers.append(on_change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a story comes to where nothing disturbs it."""

    writes: tuple[str, ...]
    """The verbs of its writes, in order."""
    made: Counter[tuple[str, ...]]


def perform(told: Story, *, interruption: Interruption | None = None) -> Undisturbed:
    """Play a story to its end in a world of its own. Raises StoryFailed."""
    witness = Witness(made=Counter())
    writes: list[str] = []

    async def play(world: FakeWorld) -> None:
        world.traffic.interruption = interruption
        witness.watch(world)
        await story_runner.Play(told, world, is_strict=interruption is None).perform()
        writes.extend(request.verb for request in world.traffic.requests if request.verb in traffic.WRITES)

    fake_world.run(play)
    if witness.at_once > 1:
        raise story_runner.StoryFailed(f"{told.slug}: two objects of one incarnation at the same time")
    return Undisturbed(writes=tuple(writes), made=witness.made)


def choose_ways(write: int, verb: str) -> tuple[str, ...]:
    """How to disturb one write in every run of the tests: each fault in its turn, as `main` tries all of them."""
    fault = FAULTS[write % len(FAULTS)]
    return ("kill-after", fault) if verb == "status" else (*KILLS, "lost", fault)


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
                    yield f"{how} at write {write} of {count} ({verb}): {'/'.join(whose)} was made {made} times"


def main(slugs: list[str]) -> None:
    """Disturb these stories (none: all) in every way at every write, and print what went wrong."""
    for told in story.load_all():
        if not slugs or told.slug in slugs:
            print(f"{told.slug}: {told.title}")
            for text in disturb(told, ways=WAYS):
                print(f"  {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
