"""Objects of Hearth's kinds as the operator reports them: recorded while stories are played on the fake cluster.

Tests of tools that wait for a Stack (Argo CD, Flux, Helm, kubectl) use these instead of invented statuses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.phases import Phase
from hearth.plan.status import conditions
from support.checks import phases_page
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import instance_play, snapshot_scenarios, story, story_runner, volume_driver
from support.stories.instance_play import InstancePlay
from support.stories.snapshot_scene import Scene
from support.stories.story import Story
from support.stories.story_runner import StoryFailed
from support.stories.volume_driver import StatusBinder

STORIES = (
    *("create", "update", "delete", "rollback-automatic", "rollback-by-user", "rollback-first-create"),
    *(
        "E04-rollback-fails",
        "E04-deletion-fails",
        "failed-on-update",
        "create-fails-and-recovers",
        "E24-mended-creation",
    ),
    *("breakpoint-create", "breakpoint-update", "breakpoint-rollback", "breakpoint-delete-stack", "suspend-breakpoint"),
    *("K01-check", "check-drift", "check-rolled-back", "P01-suspend-and-resume", "P04-suspend-fails", "paused"),
    *("suspend-paused", "suspend-and-roll-back", "group-create", "group-suspend", "group-breakpoint", "group-delete"),
    *("group-failed-member", "group-mark", "M01-mark-by-name", "M09-mark-on-nothing", "X08-snapshot-restore"),
    *("X09-snapshot-refused",),
)
"""Stories that together show every phase."""
KINDS = frozenset({*names.STACK_KINDS, "HealthMark", "StackSnapshot"})

Performance: TypeAlias = Callable[[FakeWorld], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Situation:
    """A status, reduced to the fields that waiting tools can read."""

    kind: str
    phase: str
    """The phase. For a HealthMark, the reason of `Ready`; "" before the first status."""
    ready: str = ""
    reconciling: str = ""
    stalled: str = ""
    paused: str = ""
    is_current: bool = True
    """Whether the status describes the current generation."""

    @property
    def is_automatic(self) -> bool:
        """Whether a Stack rolled back without a request."""
        found = phases_page.find(self.phase)
        return found is not None and self.stalled == "True" and phases.TABLE[found].conditions.stalled is False


def describe(raw: Object) -> Situation:
    """Return the situation of an object."""
    status = raw.get("status") or {}

    def read(type_: str) -> str:
        return str(conditions.find(status, type_).get("status", ""))

    reason = str(conditions.find(status, "Ready").get("reason", ""))
    return Situation(
        kind=raw["kind"],
        phase=str(status.get("phase", reason)),
        ready=read("Ready"),
        reconciling=read("Reconciling"),
        stalled=read("Stalled"),
        paused=read("Paused"),
        is_current=status.get("observedGeneration") == raw["metadata"]["generation"],
    )


@functools.cache
def record() -> Mapping[Situation, Object]:
    """Return the first object of each situation that the stories show, in order."""
    by_slug = {each.slug: each for each in story.load_all()}
    found: dict[Situation, Object] = {}
    performances: list[Performance] = [*(functools.partial(play, by_slug[slug]) for slug in STORIES), lose_volume]
    for perform in performances:
        for raw in watch(perform):
            found.setdefault(describe(raw), raw)
    return dict(sorted(found.items()))


@functools.cache
def record_instances() -> Mapping[Situation, Object]:
    """Return the definitions, and the first instance in each situation, converted to the kind Stack."""
    by_slug = {each.slug: each for each in story.load_all()}
    found: dict[Situation, Object] = {}
    for slug in STORIES:
        if instance_play.can_be_played(by_slug[slug]):
            for raw in watch(functools.partial(play_instance, by_slug[slug]), is_of_definition):
                situation = describe(raw)
                is_instance = raw["kind"] != names.DEFINITION_KIND
                found.setdefault(replace(situation, kind=names.STACK) if is_instance else situation, raw)
    return dict(sorted(found.items()))


def is_of_definition(kind: Kind) -> bool:
    """Return whether it is the kind StackDefinition, or a kind that a definition creates."""
    return kind.group == fake_kinds.DEFINED_GROUP or (kind.group, kind.name) == (names.GROUP, names.DEFINITION_KIND)


def is_of_stacks(kind: Kind) -> bool:
    """Return whether it is one of the kinds that users of Stacks write."""
    return kind.group == names.GROUP and kind.name in KINDS


async def play_instance(played: Story, world: FakeWorld) -> None:
    """Play a story with instances of StackDefinitions, up to the first difference, which a few stories have."""
    with contextlib.suppress(StoryFailed):
        await InstancePlay(played, world).perform()


async def play(played: Story, world: FakeWorld) -> None:
    await story_runner.Play(played, world).perform()


async def lose_volume(world: FakeWorld) -> None:
    """Take a snapshot whose driver fails, and then recovers."""
    await world.start_controller()
    await world.user.create(volume_driver.definition())
    await snapshot_scenarios.failed_volume(Scene(world, StatusBinder(world)))


def watch(perform: Performance, is_wanted: Callable[[Kind], bool] = is_of_stacks) -> list[Object]:
    """Record every object of these kinds that is stored within the block, in order."""
    seen: list[Object] = []

    def keep(kind: Kind, _before: Object | None, after: Object | None) -> None:
        if after is not None and is_wanted(kind):
            seen.append(after)

    async def in_world(world: FakeWorld) -> None:
        world.server.watchers.append(keep)
        await perform(world)

    # Some stories make the operator log errors.
    fake_world.find_mistakes(in_world)
    return seen


def find(kind: str, phase: Phase | str, *, is_automatic: bool = False) -> Object:
    """Return an object that is in that phase. Raises LookupError."""
    wanted = (kind, str(phase), True, is_automatic)
    for situation, raw in record().items():
        found = (situation.kind, situation.phase, situation.is_current, situation.is_automatic)
        if found == wanted and not situation.paused:
            return raw
    raise LookupError(f"no story shows a {kind} in phase {phase}{', automatic' * is_automatic}")
