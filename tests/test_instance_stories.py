"""The stories of tests/stories once more, with instances of StackDefinitions in the place of Stacks."""

from collections.abc import Callable, Iterator

import pytest

from support.fake_world import crash_injection, fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import request_faults
from support.stories import story
from support.stories.instance_play import InstancePlay, can_be_played
from support.stories.story import Story

HELD = "an instance that is paused, suspended, stopped or rolled back by its user keeps its revision of the definition"
REFUSED = "a template with mistakes is refused with its definition, and no instance hears of it"
SCHEMA = "the API server refuses a value that the schema does not allow"
OTHERWISE = {
    "C21-update-user-replace-rollback-update": HELD,
    "E12-two-updates-at-once": "a change of the template is no change of the instance, whose generation stays",
    "breakpoint-create": "the commands that it offers name another kind",
    "breakpoint-rejected": REFUSED,
    "check-unfinished": REFUSED,
    "cleanup-stopped": HELD,
    "cleanup-with-its-change": "the definition is read before the instance, so that a cleanup is of the template before",
    "collection-mistakes": REFUSED,
    "delete-broken": REFUSED,
    "element-stated-twice": REFUSED,
    "external-of-itself": REFUSED,
    "invalid-template": SCHEMA,
    "keep-claims": "the status has the revision of the definition, too",
    "mistake-taken-back": REFUSED,
    "name-pinned": REFUSED,
    "named-rules": REFUSED,
    "nested-in-itself": "an instance is of another kind than the Stack in it",
    "nested-sensitive-output": SCHEMA,
    "paused": HELD,
    "paused-plan": HELD,
    "replace-on-drift": HELD,
    "replace-on-parts": REFUSED,
    "retain-deleted": REFUSED,
    "rollback-by-user": HELD,
    "rollback-from-mistake": REFUSED,
    "rollback-overridden": HELD,
    "rollback-retried": "the commands that it offers name another kind",
    "sensitive-said": SCHEMA,
    "suspend-alone-in-map": HELD,
    "suspend-and-edit": HELD,
    "suspend-breakpoint": HELD,
    "suspend-mistaken": REFUSED,
    "suspend-scaled-and-replaced": HELD,
    "values": SCHEMA,
    "vanishing-object": "the definition reports the failure too, so that it takes longer until nothing moves",
}
"""Stories that are not so with instances, and why."""
HURRIED = frozenset({"breakpoint-timeout"})
"""Stories with a timeout that does not wait for a definition whose write is refused for a moment."""
OF_NAMES = frozenset({"HealthMark", "StackSnapshot"})
"""Kinds that name a Stack, and cannot name an instance."""
STORIES = [
    played
    for played in story.load_all()
    if can_be_played(played) and played.slug not in OTHERWISE and not played.kinds & OF_NAMES
]


def disturb(played: Story, *, choose: Callable[[int, str], tuple[str, ...]]) -> Iterator[str]:
    """The failures of a story with instances, disturbed at the chosen writes.

        A change of both the template and the options is two writes with instances. A definition whose own write is
    refused takes seconds longer; until then the instance has the new template and the old options.
    """
    changes = [step.what for step in played.steps if step.action == "edit"]
    is_apart = any("template" in what and len(what) > 1 for what in changes)
    unrefused = request_faults.DEFINITION_WRITES if is_apart or played.slug in HURRIED else ()
    return crash_injection.disturb(played, choose=choose, play_as=InstancePlay, unrefused=unrefused)


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
@fake_world.in_world
async def test_story_with_instances(world: FakeWorld, played: Story) -> None:
    await InstancePlay(played, world).perform()


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
def test_story_with_instances_disturbed_at_some_writes(played: Story) -> None:
    assert list(disturb(played, choose=crash_injection.choose_some)) == []


def test_most_stories_are_played_with_instances() -> None:
    assert len(STORIES) > 200
