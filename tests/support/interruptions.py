"""Every story, disturbed at one write: the operator killed before or after it, its answer lost, or refused.

The end must be the same as without, and nothing may be made twice. Must not know of any single story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import fake_kinds, story_runner, virtual_time
from support.fake_world import FakeWorld
from support.story import Story
from support.traffic import Interruption

KILLS = ("kill-before", "kill-after")
FAULTS = ("lost", "unreachable", "server-error", "internal", "unavailable", "busy", "conflict")
WAYS = (*KILLS, *FAULTS)


@dataclass(slots=True)
class Witness:
    """Sees every object that is made, by the Stack and the resource that it is made for."""

    made: Counter[tuple[str, str]]
    at_once: int = 0
    """The most objects of one resource that were there at the same time."""

    def watch(self, world: FakeWorld) -> None:
        """See everything from now on."""
        there: Counter[tuple[str, str]] = Counter()

        def on_change(kind: Kind, before: Object | None, after: Object | None) -> None:
            raw = after if after is not None else before
            labels = (raw or {}).get("metadata", {}).get("labels") or {}
            if kind == fake_kinds.CONTROLLER_REVISION.kind or names.LABEL_RESOURCE not in labels:
                return
            whose = (labels[names.LABEL_STACK], labels[names.LABEL_RESOURCE])
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

    writes: int
    made: Counter[tuple[str, str]]


def perform(told: Story, *, interruption: Interruption | None = None) -> Undisturbed:
    """Play a story to its end in a world of its own. Raises StoryFailed."""
    witness = Witness(made=Counter())
    writes = 0

    async def play() -> None:
        nonlocal writes
        world = FakeWorld()
        world.traffic.interruption = interruption
        witness.watch(world)
        await story_runner.Play(told, world, is_strict=interruption is None).perform()
        writes = world.traffic.writes

    virtual_time.run(play)
    if witness.at_once > 1:
        raise story_runner.StoryFailed(f"{told.slug}: two objects of one resource at the same time")
    return Undisturbed(writes=writes, made=witness.made)


def disturb(told: Story, *, ways: tuple[str, ...] = WAYS) -> Iterator[str]:
    """Play a story disturbed at every write, in each of these ways; what went wrong, a line each."""
    usual = perform(told)
    for write in range(1, usual.writes + 1):
        for how in ways:
            interruption = Interruption(write=write, how=how)
            try:
                found = perform(told, interruption=interruption)
            except (AssertionError, virtual_time.NothingLeft) as error:
                yield f"{how} at write {write} of {usual.writes}: {error}"
                continue
            for whose, count in found.made.items():
                if count > max(1, usual.made[whose]):
                    yield f"{how} at write {write} of {usual.writes}: {'/'.join(whose)} was made {count} times"
