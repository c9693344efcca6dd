"""The format of stories, how results are judged, and the table of covered behavior."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations, template_verification
from support.checks.expectations import Seen
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_server
from support.stories import story, story_runner


def write(folder: Path, text: str) -> Path:
    """A story file."""
    path = folder / "written.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{story: x, steps: []}", id="no steps"),
        pytest.param("{story: x, steps: [{apply: {}, remove: [a]}]}", id="two actions"),
        pytest.param("{story: x, steps: [{dance: {}}]}", id="unknown action"),
        pytest.param("{story: x, steps: [{recover: , expect: {phasee: X}}]}", id="unknown expectation"),
        pytest.param("{story: x, steps: [{recover: , patience: soon}]}", id="bad duration"),
        pytest.param("{story: x, moral: y, steps: [{recover: }]}", id="unknown key"),
    ],
)
def test_bad_story(tmp_path: Path, text: str) -> None:
    with pytest.raises(story.BadStory):
        story.load(write(tmp_path, text))


def test_short_forms() -> None:
    spec = {"template": {"resources": {"a": {"probe": {"deleteAfter": 1}, "dependsOn": ["b"]}, "b": {"config": {}}}}}
    resources = story.expand(spec)["template"]["resources"]
    assert resources["a"]["dependsOn"] == ["b"]
    assert resources["a"]["manifest"]["metadata"]["finalizers"] == ["testing.hearth.dev/hold"]
    assert resources["b"]["manifest"] == {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}


def test_edit_merges() -> None:
    """Maps are merged, null removes, and lists replace."""
    assert story.edit({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }


def make_child(uid: str = "u1", **fields: Any) -> Object:
    """A ConfigMap of a Stack."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "shop-a",
            "uid": uid,
            "labels": {names.LABEL_STACK: "shop"},
            "annotations": {names.ANNOTATION_IDENTITY: "s1//ConfigMap/default/shop-a"},
        },
        **fields,
    }


def make_stack(**status: Any) -> Object:
    metadata = {"name": "shop", "namespace": "default", "uid": "s1", "generation": 2}
    return {"metadata": metadata, "status": {"observedGeneration": 2, **status}}


def make_seen(stack: Object | None = None, **fields: Any) -> Seen:
    """The observed state."""
    usual: dict[str, Any] = {"children": {}, "before": {}, "requests": Counter(), "events": [], "others": {}}
    return Seen(stack=stack, **{**usual, **fields})


ONE = {"a": [make_child(spec={"value": 1})]}
FAILED = make_stack(
    phase="UpdateFailed",
    summary="1/2",
    problems=[{"resource": "a", "reason": "Denied", "message": "no quota"}],
    conditions=[{"type": "Ready", "status": "False", "reason": "Denied", "message": "a: no quota"}],
)


@pytest.mark.parametrize(
    ("expected", "seen", "holds"),
    [
        pytest.param({"phase": "UpdateFailed"}, make_seen(FAILED), True, id="phase"),
        pytest.param({"phase": "UpdateComplete"}, make_seen(FAILED), False, id="another phase"),
        pytest.param(
            {"phase": "X"}, make_seen(make_stack(phase="X", observedGeneration=1)), False, id="phase of an older spec"
        ),
        pytest.param({"ready": False, "stalled": False}, make_seen(FAILED), True, id="absent conditions are false"),
        pytest.param({"ready": True}, make_seen(FAILED), False, id="condition differs"),
        pytest.param({"message": ["quota", "a:"], "reason": "Denied"}, make_seen(FAILED), True, id="message"),
        pytest.param({"message": "disk"}, make_seen(FAILED), False, id="another message"),
        pytest.param({"problems": {"a": "quota"}}, make_seen(FAILED), True, id="problems"),
        pytest.param({"problems": {}}, make_seen(FAILED), False, id="a problem too many"),
        pytest.param({"problems": {"a": "disk"}}, make_seen(FAILED), False, id="another problem"),
        pytest.param({"summary": "1/2"}, make_seen(FAILED), True, id="summary"),
        pytest.param({"exist": ["a"]}, make_seen(children=ONE), True, id="exist"),
        pytest.param({"exist": ["a", "b"]}, make_seen(children=ONE), False, id="one is missing"),
        pytest.param({"exist": []}, make_seen(children=ONE), False, id="one too many"),
        pytest.param({"objects": {"a": {"spec.value": 1, "spec.x": None}}}, make_seen(children=ONE), True, id="fields"),
        pytest.param({"objects": {"a": {"spec.value": 2}}}, make_seen(children=ONE), False, id="field differs"),
        pytest.param({"objects": {"b": {}}}, make_seen(children=ONE), False, id="fields of nothing"),
        pytest.param({"same": ["a"]}, make_seen(children=ONE, before={"a": "u1"}), True, id="same"),
        pytest.param({"same": ["a"]}, make_seen(children=ONE, before={"a": "u0"}), False, id="not the same"),
        pytest.param({"new": ["a"]}, make_seen(children=ONE, before={"a": "u0"}), True, id="new"),
        pytest.param({"new": ["a"]}, make_seen(children=ONE, before={"a": "u1"}), False, id="not new"),
        pytest.param({"gone": ["b"]}, make_seen(children=ONE), True, id="gone"),
        pytest.param({"gone": ["a"]}, make_seen(children=ONE), False, id="not gone"),
        pytest.param({"requests": {"apply": 1, "get": 0}}, make_seen(requests=Counter(apply=1)), True, id="requests"),
        pytest.param({"requests": {"apply": 2}}, make_seen(requests=Counter(apply=1)), False, id="too few requests"),
        pytest.param({"requests": {"apply": "<=2"}}, make_seen(requests=Counter(apply=1)), True, id="within a limit"),
        pytest.param({"requests": {"apply": "<=2"}}, make_seen(requests=Counter(apply=3)), False, id="above a limit"),
        pytest.param({"stack": "gone"}, make_seen(), True, id="stack gone"),
        pytest.param({"stack": "gone"}, make_seen(FAILED), False, id="stack still there"),
        pytest.param({"nothing-left": True}, make_seen(children=ONE), False, id="something left"),
        pytest.param({"others": {"x": None}}, make_seen(others={"x": {}}), False, id="other object not expected"),
        pytest.param({"events": ["Ready"]}, make_seen(events=["Ready"]), True, id="events"),
    ],
)
def test_expectations(expected: dict[str, Any], seen: Seen, holds: bool) -> None:
    assert (expectations.find_wrong(expected, seen) == []) is holds


def spec(value: Any, **others: Any) -> Object:
    """A spec with one resource, and parameters."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": value}}
    template = {"parameters": {"size": {"default": 3}}, "resources": {"a": {"manifest": manifest}, **others}}
    return {"template": template, "parameters": {"name": "n"}}


@pytest.mark.parametrize(
    ("spec", "children", "wrong"),
    [
        pytest.param(
            spec("v"), {"a": [make_child(data={"x": "v", "y": "more"})]}, 1, id="as stated, and what no writer states"
        ),
        pytest.param(spec("v"), {"a": [make_child(data={"x": "w"})]}, 1, id="another value"),
        pytest.param(spec("v"), {}, 1, id="no object"),
        pytest.param(spec("v"), {"a": [make_child(data={"x": "v"})] * 2}, 1, id="two objects"),
        pytest.param(
            spec("v"), {"a": [make_child(data={"x": "v"})], "b": [make_child()]}, 1, id="one that is not wanted"
        ),
        pytest.param(spec("${params.size}"), {"a": [make_child(data={"x": 3})]}, 0, id="a default"),
        pytest.param(spec("is ${params.name}"), {"a": [make_child(data={"x": "is n"})]}, 0, id="embedded"),
        pytest.param(spec("${a.data.y}"), {"a": [make_child(data={"x": 1, "y": 2})]}, 2, id="a reference"),
        pytest.param(spec("${1 + 1}"), {"a": [make_child(data={"x": 9})]}, 0, id="what only the engine can read"),
        pytest.param(
            spec("v"),
            {"a": [make_child(data={"x": "v"}, status={"ready": False})]},
            1,
            id="an object that is not ready",
        ),
        pytest.param(
            spec("v", b={"manifest": {}, "when": "false"}),
            {"a": [make_child(data={"x": "v"})]},
            0,
            id="a resource that may be absent",
        ),
    ],
)
def test_verification(spec: Object, children: dict[str, list[Object]], wrong: int) -> None:
    assert len(template_verification.find_wrong(spec, make_stack(), children)) == wrong


def test_story_that_is_not_so_fails(tmp_path: Path) -> None:
    played = story.load(
        write(
            tmp_path,
            "{story: x, steps: [{apply: {template: {resources: {a: {config: {x: y}}}}}, expect: {summary: 2/2}}]}",
        )
    )

    async def perform(world: FakeWorld) -> None:
        await story_runner.Play(played, world).perform()

    with pytest.raises(
        story_runner.StoryFailed, match=r"step 1 \(apply\):\n  summary: expected \"2/2\", found \"1/1\""
    ):
        fake_world.run(perform)


def test_what_is_left_fails_a_story(tmp_path: Path) -> None:
    played = story.load(write(tmp_path, "{story: x, steps: [{apply: {template: {resources: {a: {config: {x: y}}}}}}]}"))

    async def perform(world: FakeWorld) -> None:
        play = story_runner.Play(played, world)
        await world.user.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "x", "namespace": "default", "labels": leftover},
            }
        )
        await play.perform()

    # The uid of the Stack that the story is about to make: the fake server counts them.
    leftover = {names.LABEL_STACK_UID: fake_server.make_uid(5), names.LABEL_RESOURCE: "forgotten"}
    with pytest.raises(story_runner.StoryFailed, match="forgotten"):
        fake_world.run(perform)


MISSED = """
story: a middle that a disturbed performance does not meet
steps:
  - apply: {template: {resources: {a: {probe: {value: 1}}}}}
    expect: {phase: CreateComplete}
  - edit: {template: {resources: {a: {probe: {value: 2}}}}}
    until: {phase: UpdateInProgress, objects: {a: {spec.value: 99}}}
  - edit: {paused: true}
    expect: {phase: UpdateInProgress}
  - edit: {paused: null}
    expect: {phase: UpdateComplete, objects: {a: {spec.value: VALUE}}}
"""


@pytest.mark.parametrize(
    ("value", "is_strict", "complaint"),
    [("2", False, None), ("3", False, "step 4.*spec.value"), ("2", True, "step 2.*UpdateComplete")],
)
def test_missed_middle(tmp_path: Path, value: str, is_strict: bool, complaint: str | None) -> None:
    """A step that should act in the middle of an update is skipped if the update is over; the final state must still
    match.
    """
    played = story.load(write(tmp_path, MISSED.replace("VALUE", value)))

    async def play(world: FakeWorld) -> None:
        await story_runner.Play(played, world, is_strict=is_strict).perform()

    if complaint is None:
        fake_world.run(play)
        return
    with pytest.raises(story_runner.StoryFailed, match=f"(?s){complaint}"):
        fake_world.run(play)


# `tests/stories/COVERAGE.md` says where each scenario is played, and so do the titles of the stories.


TABLE = (story.FOLDER / "COVERAGE.md").read_text()
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| ([CEFHR]\d\d) \|(.*)\|$", TABLE, re.MULTILINE)}
TITLES = {played.slug: re.findall(r"[CEFHR]\d\d", played.title.partition(":")[0]) for played in story.load_all()}


def test_every_story_in_the_table_is_there() -> None:
    named = {slug for row in ROWS.values() for slug in re.findall(r"`([\w-]+)`", row) if "-" in slug}

    assert sorted(named - TITLES.keys()) == []


def test_the_titles_say_the_same_as_the_table() -> None:
    missing = [
        f"{slug} in {number}" for slug, numbers in TITLES.items() for number in numbers if slug not in ROWS[number]
    ]

    assert missing == []
