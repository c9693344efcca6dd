"""Every story of tests/stories, on the fake cluster in virtual time."""

import pytest

from support.fake_world import crash_injection, fake_world
from support.stories import story, story_runner
from support.stories.story import Story

STORIES = story.load_all()


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.slug)
def test_story(told: Story) -> None:
    """The story goes as it is told, and leaves nothing behind."""
    fake_world.run(lambda world: story_runner.Play(told, world).perform())


@pytest.mark.parametrize("told", [told for told in STORIES if "whole" not in told.needs], ids=lambda told: told.slug)
def test_story_with_the_work_divided(told: Story) -> None:
    """Among three operators, each of which works on its share of the Stacks alone: nobody sees a difference."""
    fake_world.run(lambda world: story_runner.Play(told, world).perform(), shards=3)


@pytest.mark.parametrize("delay", [pytest.param(0.0, id="early"), pytest.param(3.0, id="late")])
@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.slug)
def test_story_with_events_out_of_time(told: Story, delay: float) -> None:
    """Events that come before the answers to the writes that they tell of, and others that come seconds after."""
    assert crash_injection.perform(told, delay=delay).wrong == ""


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.slug)
def test_story_disturbed_at_every_write(told: Story) -> None:
    """Killed before or after any write, an answer lost, or a write refused: the same end, and nothing made twice."""
    assert list(crash_injection.disturb(told)) == []
