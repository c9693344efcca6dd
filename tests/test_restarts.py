"""An operator that restarts while a story is at rest: it finds everything unchanged, and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports import fake_connection
from support.server.request_faults import WRITES
from support.stories import story, story_runner
from support.stories.story import Step, Story
from test_stories import ACCOUNT, WITHOUT_ACCOUNT

SLOW = 4.0
"""Seconds that a request travels one way to a server that is overloaded: an answer takes longer than any grace period."""
DUE = {
    "breakpoint-immutable": "a refused change is tried again",
    "check-refused": "a check that is refused is tried again",
    "check-unseen": "only the restart shows what the watch withheld",
    "cluster-away": "objects in a cluster that cannot be reached are not counted",
    "delete-kind-gone": "the scope of a kind that is not served is not known, and so no name of an object",
    "external-kind-unseen": "which members there are is not known while the list cannot be read",
    "immutable-field": "a refused change is tried again",
    "isolated-later": "the new mode refuses the definition, so that nothing is planned",
    "kind-appears-later": "the scope of a kind that is not served is not known, and so no name of an object",
    "name-pinned": "a refused change is tried again",
    "not-observed": "how long a controller has been silent is counted from the start",
    "P04-suspend-fails": "a refused change is tried again",
    "replace-data-warned": "a refused change is tried again",
    "retain-pinned": "a refused change is tried again",
    "rights-granted": "a refused change is tried again",
    "rollback-pods-said": "without its source no definition is known, so that nothing is planned",
    "sensitive": "a refused change is tried again",
    "source-missing": "without its source no definition is known, so that nothing is planned",
    "suspend-contested": "how often field managers changed a field is counted from the start",
    "strict": "the new mode refuses the definition, so that nothing is planned",
}
"""Stories where a restart costs a write, with the reason."""
STORIES = [played for played in story.load_all() if played.slug not in DUE]
DUE_BETWEEN = {
    "approval-sensitive": "the sensitive value that runs is only in memory, so that its drift waits for an approval",
    "external-kind-emptied": "which members there are is not known while the list cannot be read",
    "external-members-kind": "which members there are is not known while the list cannot be read",
    "external-members-map": "which members there are is not known while the list cannot be read",
    "external-members-turnover": "how many members were deleted lately is not known",
    "renamed-set": "the definition before is not known, so that a warning about the change ends",
    "external-nested": "which members there are is not known while what they are made of does not exist",
    "breakpoint-replace-rolled-back": "a refused change is tried again",
    "E27-nested-limit": "a Stack that is refused, since it is nested too deeply, is tried again",
    "group-surge-dropped": "a refused change is tried again",
    "keep-claims": "a refused change is tried again",
    "leaves-after-ownership-was-cleared-while-paused": "what was owned before another client cleared the record is not known",
    "leaves-headless-pinned": "a refused change is tried again",
    "retry-nested": "a refused write is tried again",
    "suspend-source-missing": "without its source no definition is known, so that only a suspension is planned",
    "rollback-source-returns": "without its source the revision in use is not known, so that nothing is planned",
}
"""Stories where a restart in the middle costs a write, with the reason."""


class RestartedPlay(story_runner.Play):
    """A performance that restarts the operator after each of these steps, once at rest."""

    def __init__(self, played: Story, world: FakeWorld, *, steps: Sequence[Step]) -> None:
        super().__init__(played, world)
        self.wrong: list[str] = []
        self._steps = steps
        self._fake = world

    async def _play_step(self, step: Step, *, where: str) -> None:
        await super()._play_step(step, where=where)
        # Failed steps are always retried.
        is_retried = any(each.is_retried for each in self.stacks.values())
        if step in self._steps and step.until is None and self._fake.controllers and not is_retried:
            await self._restart(where)

    async def _restart(self, where: str) -> None:
        fake = self._fake
        await fake.kill_controller()
        before = len(fake.traffic.requests)
        fake.latency = SLOW
        await fake.start_controller()
        await fake.wait_rest()
        fake.latency = None
        for each in fake.controllers:
            each.wire.latency = fake_connection.LATENCY
        written = [str(each) for each in fake.traffic.requests[before:] if each.verb in WRITES]
        self.wrong += [f"{where}: {written}"] if written else []


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
def test_restart_at_the_end_writes_nothing(played: Story) -> None:
    assert find_writes(played, steps=played.steps[-1:]) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "played", [each for each in STORIES if each.slug not in DUE_BETWEEN], ids=lambda played: played.slug
)
def test_restart_after_any_step_writes_nothing(played: Story) -> None:
    assert find_writes(played, steps=played.steps) == []


def test_restart_after_a_change_of_one_of_many_writes_nothing(tmp_path: Path) -> None:
    template = {
        "parameters": {"members": {"type": "array", "items": {"type": "object"}}},
        "resources": {"m": {"forEach": "params.members", "key": "item.name", "config": {"value": "${item.value}"}}},
    }
    values = [{"name": f"m{number}", "value": "x" * 40} for number in range(20)]
    changed = [*values[:7], {**values[7], "value": "changed"}, *values[8:]]
    lists = [values, changed, [*changed, {"name": "one-more", "value": "new"}], values]
    first, *others = [{"parameters": {"members": members}} for members in lists]
    steps = [
        {"apply": {"template": template, **first}, "expect": {"phase": "CreateComplete"}},
        *({"edit": each, "expect": {"phase": "UpdateComplete"}} for each in others),
    ]
    (tmp_path / "many.yaml").write_text(yaml.safe_dump({"story": "one of many members changes", "steps": steps}))
    played = story.load(tmp_path / "many.yaml")
    assert find_writes(played, steps=played.steps) == []


def find_writes(played: Story, *, steps: Sequence[Step]) -> list[str]:
    """The writes of operators that are restarted after these steps."""
    found: list[str] = []

    async def perform(world: FakeWorld) -> None:
        world.default_account = ACCOUNT if played.slug not in WITHOUT_ACCOUNT else ""
        play = RestartedPlay(played, world, steps=steps)
        await play.perform()
        found.extend(play.wrong)

    fake_world.run(perform)
    return found
