"""Clients and Stacks that undo the operator's writes: its requests for one object grow with the logarithm of time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from hearth.model import retry_delays
from support import soak
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stateful import adversaries, adversary_costs
from support.stateful.fake_adversary import FakeAdversary
from support.stories import stack_manifests, story, story_runner
from support.stories.story import Story

STORIES = story.load_all()
WITHIN = ("collect", "mutate", "deny")
"""Actions inside the server."""
ALONE = [[each] for each in (*adversaries.DEEDS, *WITHIN)]
TOGETHER = [
    ["deny", "delete"], ["deny", "revert"], ["late", "alternate"], ["collect", "mutate"], ["strip", "delete"],
    ["revert", "flap"], ["lock", "strip"], ["hold", "prune", "deny"],
]  # fmt: skip
SPEC = {
    "template": {
        "resources": {
            "a": {"config": {"value": "1"}},
            "b": {"probe": {"value": 1}},
            "c": {"probe": {"value": "${b.status.value}"}},
        }
    }
}
SECONDS = 90.0
"""How long adversaries act: until values that change all the time are reported, a little over a minute."""
DENIALS = 3
"""How much more may be sent where a right is granted and denied all the time: each grant is worth a try."""


def find_excess(world: FakeWorld, since: int, seconds: float, deeds: Collection[str]) -> dict[str, int]:
    """The objects that cost more than they may, with their writes or requests."""
    beginnings = DENIALS if "deny" in deeds else 1
    return adversary_costs.find_excess(world.traffic.requests[since:], seconds, beginnings=beginnings)


@pytest.mark.parametrize("deeds", [*ALONE, *TOGETHER], ids="+".join)
@fake_world.in_world
async def test_what_an_object_costs_is_bounded_for_any_cause(world: FakeWorld, deeds: list[str]) -> None:
    adversary = FakeAdversary(world, deeds)
    adversary.start()
    await start_stack(world)
    await asyncio.sleep(SECONDS)
    excess, status = find_excess(world, 0, SECONDS, deeds), find_stack(world)["status"]
    await adversary.stop()

    assert excess == {}
    reported = {each["type"] for each in status["conditions"] if each["status"] == "True"} & {
        "WritesDelayed",
        "DriftConflict",
    }
    is_as_wanted = status["phase"] == "CreateComplete"
    assert reported or status.get("problems") or is_as_wanted


async def start_stack(world: FakeWorld) -> None:
    """Start an operator, and create the Stack."""
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(story.expand(SPEC)))


def find_stack(world: FakeWorld) -> Any:
    return next(raw for kind, raw in world.server.everything() if kind.name == "Stack")


@pytest.mark.parametrize("deed", ["collect", "mutate"])
@fake_world.in_world
async def test_what_an_object_costs_in_a_day_hardly_grows(world: FakeWorld, deed: str) -> None:
    counts: list[int] = []
    adversary = FakeAdversary(world, [deed])
    adversary.start()
    await start_stack(world)
    for seconds in (600.0, 3000.0, 82800.0):
        since = len(world.traffic.requests)
        await asyncio.sleep(seconds)
        sent = [each for each in world.traffic.requests[since:] if each.verb == "apply"]
        counts.append(max(adversaries.count_by_object(sent).values()))
    await adversary.stop()

    longest = retry_delays.STEP.longest * (1 - 0.5 / 4)
    assert [
        count <= most for count, most in zip(counts, (14, 3000 / longest + 1, 82800 / longest + 1), strict=True)
    ] == [True] * 3


@fake_world.in_world
async def test_the_status_is_steady_while_objects_vanish(world: FakeWorld) -> None:
    phases: list[tuple[str, str]] = []
    adversary = FakeAdversary(world, ["alternate"])
    await start_stack(world)
    await asyncio.sleep(5.0)
    adversary.start()
    for _ in range(240):
        await asyncio.sleep(0.5)
        stack = find_stack(world)
        phases.append((stack["status"]["phase"], expectations.find_condition(stack, "WritesDelayed").get("status", "")))
    await adversary.stop()

    reported = [phase for phase, delayed in phases[phases.index(next(each for each in phases if each[1] == "True")) :]]
    assert {delayed for _, delayed in phases[len(phases) - len(reported) :]} == {"True"}
    assert "CreateComplete" not in reported


CIRCLE = """
story: two Stacks that read and change each other's objects are slowed down
steps:
  - stack: other
    apply:
      template:
        resources:
          theirs: {externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shop-a}}, optional: true}
          b: {config: {n: "${string(int(theirs.?data.?n.orValue('0')) + 1)}"}}
    expect: {phase: CreateComplete, objects: {b: {data.n: "1"}}}
  - apply:
      template:
        resources:
          theirs: {externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: other-b}}, optional: true}
          a: {config: {n: "${string(int(theirs.?data.?n.orValue('0')) + 1)}"}}
    until: {}
  - wait: 60m
    until: {requests: {apply: <=250}}
  - stack: other
    edit: {template: {resources: {theirs: null, b: {config: {n: "0"}}}}}
    expect: {phase: UpdateComplete, objects: {b: {data.n: "0"}}}
"""


@fake_world.in_world
async def test_stacks_that_feed_each_other_are_slowed_down(world: FakeWorld, tmp_path: Path) -> None:
    file = tmp_path / "circle.yaml"
    file.write_text(CIRCLE)
    await story_runner.Play(story.load(file), world).perform()


class HarassedPlay(story_runner.Play):
    """A story after whose last step adversaries come upon its children."""

    deeds: tuple[str, ...] = ()
    excess: dict[str, int]

    async def before_end(self) -> None:
        """The adversaries act for a while; then the Stacks are deleted as usual."""
        world = self.world
        assert isinstance(world, FakeWorld)
        chance = random.Random(self._story.slug)
        # They, and not the operator, take members out of service.
        world.oversight.forget_service()
        self.deeds = tuple(chance.sample([*adversaries.DEEDS, *WITHIN], 2))
        adversary = FakeAdversary(world, self.deeds, chance=chance, kinds=("ConfigMap", "Probe", "Deployment"))
        since = len(world.traffic.requests)
        adversary.start()
        await asyncio.sleep(SECONDS)
        self.excess = find_excess(world, since, SECONDS, self.deeds)
        await adversary.stop()


def harass(played: Story) -> None:
    """Play a story so."""
    plays: list[HarassedPlay] = []

    async def perform(world: FakeWorld) -> None:
        plays.append(HarassedPlay(played, world))
        await plays[0].perform()

    fake_world.run(perform)
    assert (plays[0].deeds, plays[0].excess) == (plays[0].deeds, {})


@pytest.mark.parametrize("played", STORIES[::40], ids=lambda played: played.slug)
def test_story_with_adversaries_at_its_end(played: Story) -> None:
    harass(played)


@pytest.mark.soak
def test_every_story_with_adversaries_at_its_end() -> None:
    soak.PROGRESS.start(len(STORIES))
    for played in STORIES:
        harass(played)
        soak.PROGRESS.advance()
