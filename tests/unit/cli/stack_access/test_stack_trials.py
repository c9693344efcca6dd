"""`kubectl stack test` runs the engine: story steps that need no special cluster end as the stories expect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.stack_access import stack_trials
from hearth.cli.stack_views.stack_tests import stack_test_models
from hearth.model import names, object_fields
from support.stories import story
from support.stories.story import STACK_NAME, Step, Story

UNPLAYED = {"finished-at-once": "its objects delete themselves"}
"""Stories whose first steps need more than a simulated cluster."""


def find_steps(played: Story) -> Iterator[tuple[Mapping[str, Any], Step]]:
    """Yield the spec and the step of each edit of the only Stack, up to another action, a failure or a mistake."""
    spec: Mapping[str, Any] = {}
    if played.stacks != {STACK_NAME: names.STACK} or played.clusters:
        return
    for step in played.steps:
        if step.action not in ("apply", "edit") or step.until or not isinstance(step.what, dict):
            return
        spec = story.edit(spec, step.what) if step.action == "edit" else step.what
        phase, message = (step.expect.get(word) or "" for word in ("phase", "message"))
        fails = phase == "RollbackComplete" and object_fields.find(spec, "rollback", "onFailure")
        if not isinstance(phase, str) or not phase.endswith("Complete") or "rejected" in message or fails:
            return
        yield spec, step


def find_played() -> Iterator[Any]:
    """The stories that have such steps."""
    for each in story.load_all():
        if each.slug not in UNPLAYED and (steps := list(find_steps(each))):
            yield pytest.param(each, steps, id=each.slug)


@pytest.mark.parametrize(("played", "steps"), list(find_played()))
async def test_steps_of_a_story_end_as_it_says(
    played: Story, steps: list[tuple[Mapping[str, Any], Step]], tmp_path: Path
) -> None:
    cases: list[dict[str, Any]] = []
    for number, (spec, step) in enumerate(steps):
        stack = {"metadata": {"name": STACK_NAME}, "spec": story.set_window(story.expand(spec), now=0.0)}
        content = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": names.STACK, **stack}
        (tmp_path / f"{number}.yaml").write_text(json.dumps(content))
        compared = ("phase", "exist", "same") if cases else ("phase", "exist")
        expected = {word: step.expect[word] for word in compared if word in step.expect}
        cases.append({"files": [f"{number}.yaml"], "expect": expected})
    first = cases[0] | {"name": played.title, "tenancy": played.tenancy.value, "then": cases[1:] or None}
    document = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": stack_test_models.KIND, "tests": [first]}

    file = stack_test_models.parse(str(tmp_path / "a.stacktest.yaml"), document)

    assert (await stack_trials.run_case(file, file.stack_test.tests[0])).differences == ()
