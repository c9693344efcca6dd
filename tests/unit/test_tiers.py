"""The selection of tests for `make test`."""

from __future__ import annotations

import re
from typing import get_args

import pytest
import yaml

from hearth.engine.writes.step_execution import StepExecutor
from hearth.plan.state import steps
from support import repository, tiers
from support.fake_world import fake_world
from support.stories import story, story_runner


def test_the_smoke_stories_take_every_type_of_step(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[type] = set()
    execute = StepExecutor.execute_step

    async def note(executor: StepExecutor, step: steps.Step) -> object:
        taken.add(type(step))
        return await execute(executor, step)

    monkeypatch.setattr(StepExecutor, "execute_step", note)
    for played in story.load_all():
        if played.slug in tiers.SMOKE_STORIES:
            fake_world.run(lambda world, played=played: story_runner.Play(played, world).perform())  # type: ignore[misc]  # mypy cannot type a default that binds a loop variable

    # Only scenarios of snapshots take the remaining steps, on both servers.
    assert taken == set(get_args(steps.Step)) - set(get_args(steps.PartStep))


def test_the_smoke_stories_are_played_on_a_real_server() -> None:
    real = {played.slug for played in story.load_all() if "fake" not in played.needs}

    assert real >= tiers.SMOKE_STORIES


def test_a_broken_rule_is_noticed_by_the_tests_of_every_change() -> None:
    rules = yaml.safe_load((repository.TESTS / "mutants" / "rules.yaml").read_text())
    named = {each["noticed_by"] for each in rules if each.get("noticed_by")}

    units = {each for each in named if each.startswith("tests/unit/")}
    assert {each.partition("::")[2] for each in named - units} == tiers.NOTICING


def test_the_choice_is_made_in_one_place_of_tests_that_exist() -> None:
    sources = {path: path.read_text() for path in repository.TESTS.rglob("*.py")}
    chosen = {each.partition("[")[0] for each in (*tiers.SLOW, *tiers.SETTINGS, *tiers.DISTURBED, *tiers.NOTICING)}
    defined = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(sources.values()), flags=re.MULTILINE))

    assert [str(path) for path, source in sources.items() if re.search(r"pytest\.mark\.more\b", source)] == []
    assert chosen - defined == set()
