"""Every story of tests/stories, on the fake cluster in virtual time."""

import random
import zlib

import pytest

from hearth.kube.objects import controller_revision
from hearth.model import limits
from support import tiers
from support.fake_world import crash_injection, fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import story, story_runner
from support.stories.story import Story

STORIES = story.load_all()
ACCOUNT = "deployer"
USER = f"system:serviceaccount:default:{ACCOUNT}"
ABOUT_CHILDREN = frozenset({"apply", "change", "delete", "release", "mark", "dry-run", "get", "source"})
"""The verbs of requests about children and sources."""
OWN_KINDS = frozenset({"Namespace", "ControllerRevision", "StackTemplate"})
OWN_SOURCES = frozenset({"hearth-health-rules"})
"""Objects that the operator reads for itself."""
WITHOUT_ACCOUNT = frozenset(
    {
        "external-forbidden",
        "isolated",
        "isolated-later",
        "rights-granted",
        "account",
        "account-blind",
        "account-nested",
        "retain-in-instance",
        "retain-nested-stack",
        "strict",
    }
)
"""Stories with different results under an account."""
IN_PARTS = frozenset({"rollback-half-way", "rollback-sensitive", "revisions-gone", "template-source-deleted"})
"""Stories that store, read and delete revisions, and count no requests about them."""
FORGOTTEN = {
    "leaves-after-ownership-was-cleared-while-paused": "only the process that saw the record knows what it had",
    "external-members-turnover": "only the process that deleted members knows how many it deleted lately",
    "approval-sensitive": "only the process that used the former sensitive value can repair it without an approval",
    "renamed-set": "only the process that saw the definition change compares it with the one before",
}
"""Stories that depend on data in the process's memory, with the reason; docs/drift.md, docs/plans.md and
docs/external-objects.md describe it.
"""
RACES = frozenset({"adopt-at-once"})
"""Stories whose end depends on which of two Stacks comes first."""
IN_ORDER = [played for played in STORIES if played.slug not in RACES]
DISTURBED = [played for played in STORIES if played.slug not in FORGOTTEN]
FEW = [played for played in DISTURBED if zlib.crc32(played.slug.encode()) % tiers.DISTURBED_FRACTION == 0]
"""Stories that the quick tests disturb at some writes; a long test disturbs all of them at more."""


@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
@fake_world.in_world
async def test_story(world: FakeWorld, played: Story) -> None:
    await story_runner.Play(played, world).perform()


@pytest.mark.parametrize(
    "played", [played for played in IN_ORDER if "whole" not in played.needs], ids=lambda played: played.slug
)
def test_story_with_the_work_divided(played: Story) -> None:
    fake_world.run(lambda world: story_runner.Play(played, world).perform(), shards=3)


@pytest.mark.parametrize(
    "played", [played for played in STORIES if played.slug not in WITHOUT_ACCOUNT], ids=lambda played: played.slug
)
@fake_world.in_world
async def test_story_as_an_account(world: FakeWorld, played: Story) -> None:
    """All requests about children and sources use the account of the Stack; no request is added."""
    world.default_account = ACCOUNT
    await story_runner.Play(played, world).perform()
    requests = [each for each in world.traffic.requests if each.verb in ABOUT_CHILDREN]
    others = [each for each in requests if each.kind.name not in OWN_KINDS and each.name not in OWN_SOURCES]
    assert {str(each): each.user for each in others if each.user != USER} == {}


@pytest.mark.parametrize("delay", [pytest.param(0.0, id="early"), pytest.param(3.0, id="late")])
@pytest.mark.parametrize("played", STORIES, ids=lambda played: played.slug)
def test_story_with_events_out_of_time(played: Story, delay: float) -> None:
    assert crash_injection.perform(played, delay=delay).wrong == ""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("played", IN_ORDER, ids=lambda played: played.slug)
def test_story_with_requests_of_any_length(played: Story, seed: int) -> None:
    assert crash_injection.perform(played, lengths=random.Random(f"{played.slug} {seed}")).wrong == ""


@pytest.mark.parametrize("played", FEW, ids=lambda played: played.slug)
def test_story_disturbed_at_some_writes(played: Story) -> None:
    assert list(crash_injection.disturb(played, choose=crash_injection.choose_some)) == []


@pytest.mark.parametrize(
    "played", [played for played in STORIES if played.slug in IN_PARTS], ids=lambda played: played.slug
)
def test_story_with_revisions_in_several_objects(played: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_revision, "COMPRESSED_FROM", 0)
    monkeypatch.setattr(limits, "PART_BYTES", 60)
    monkeypatch.setattr(limits, "REVISION_PARTS", 100)
    assert list(crash_injection.disturb(played, choose=crash_injection.choose_some)) == []


@pytest.mark.long
@pytest.mark.parametrize("played", DISTURBED, ids=lambda played: played.slug)
def test_story_disturbed_between_any_two_writes(played: Story) -> None:
    assert list(crash_injection.disturb(played)) == []
