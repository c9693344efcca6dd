"""The result of a check by a planner that has seen everything: its findings, its age and its message."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model import names
from hearth.model.child import Object
from hearth.model.phases import Phase
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.steps import Apply
from hearth.plan.status import check_result, conditions, problems, status_builder, status_changes
from hearth.plan.status.check_result import CheckResult
from hearth.plan.status.ready_condition import DefinitionRejection, StatusInput
from hearth.plan.target.target import Target, TargetCause
from support.checks import phases_page
from support.units import blueprints, changed_children
from support.units.blueprints import World

REACHED = Target(revision=1, cause=TargetCause.SPEC, since=0.0, is_first=True, is_completed=True)
CLEAN = CheckResult(at=1_000.0, objects=2, problem_count=0, is_current=True)
ENTRY = {"resource": "a", "kind": "ConfigMap", "name": "shop-a", "reason": "Missing", "message": "does not exist"}
FOUND = CheckResult(at=1_000.0, objects=2, problem_count=1, problems=(ENTRY,), is_current=True)


def make(*resources: str, settled: bool = True) -> tuple[World, StackPlanner]:
    """A world and its planner, everything ready unless it is not settled."""
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({name: [] for name in resources}))
    if settled:
        world.settle(planner)
    else:
        world.refresh(planner)
    return world, planner


def conclude(planner: StackPlanner) -> CheckResult:
    """The result at a fixed time."""
    return check_result.conclude(planner, objects=2, now=1_000.7, is_reached=True)


def build(planner: StackPlanner, **subject: object) -> Object:
    """The status, at a fixed time."""
    described = dataclasses.replace(StatusInput(generation=1, target=REACHED), **subject)  # type: ignore[arg-type]  # mypy cannot type keyword arguments of several fields
    return status_builder.build_status(
        described, planner, memory=InMemoryState(), before={}, now=1_000.0, monotonic=0.0
    )


def test_where_all_is_ready_nothing_is_found() -> None:
    _, planner = make("a", "b")
    outcome = conclude(planner)
    assert outcome == CLEAN
    status = build(planner, check=outcome)
    assert (status["phase"], conditions.find(status, "Ready")["status"]) == ("CheckComplete", "True")
    assert "the last check examined 2 objects and found no problem" in conditions.find(status, "Ready")["message"]
    assert status["check"] == {"checkedAt": "1970-01-01T00:16:40Z", "objects": 2, "problemCount": 0}


def test_what_is_not_there_is_found() -> None:
    _, planner = make("a", settled=False)
    assert isinstance(planner.ready_steps["a"], Apply)
    outcome = conclude(planner)
    assert [(entry["resource"], entry["reason"], entry["message"]) for entry in outcome.problems] == [
        ("a", "Missing", "does not exist")
    ]


def test_a_mark_is_found_also_on_what_waits() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": ["a"]}))
    world.settle(planner)
    (child,) = world.of("b")
    metadata = {**child.fields["metadata"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), names.ANNOTATION_UNHEALTHY: "answers 500"}
    world.children["b"] = [changed_children.with_fields(child, {**child.fields, "metadata": metadata})]
    del world.children["a"]
    world.refresh(planner, "a", "b")
    found = {name: (status.reason, status.message) for name, status in check_result.find(planner)}
    assert found == {"a": ("Missing", "does not exist"), "b": ("Unhealthy", "is marked unhealthy: answers 500")}


def test_the_list_is_bounded_and_the_count_is_not() -> None:
    _, planner = make(*(f"r{number}" for number in range(50)), settled=False)
    outcome = conclude(planner)
    assert (outcome.problem_count, len(outcome.problems)) == (50, problems.AT_MOST)
    assert check_result.describe(outcome).count("does not exist") == 5
    assert check_result.describe(outcome).endswith("; and 45 more")


def test_an_outcome_is_read_as_it_was_written() -> None:
    for outcome in (CLEAN, FOUND):
        status = {"phase": "CheckFailed", **check_result.encode(outcome)}
        assert check_result.decode(status) == outcome
        assert check_result.decode({**status, "phase": "UpdateComplete"}) == dataclasses.replace(
            outcome, is_current=False
        )


@pytest.mark.parametrize("said", [None, {}, {"objects": 1}, {"checkedAt": "never", "objects": 1, "problemCount": 0}])
def test_what_makes_no_sense_tells_nothing(said: object) -> None:
    assert check_result.decode({"phase": "CheckComplete", "check": said}) is None


def test_what_was_found_stands_until_nothing_of_the_kind_is_left() -> None:
    world, planner = make("a", settled=False)
    assert check_result.is_still_current(FOUND, planner, is_complete=False)
    assert not check_result.is_still_current(CLEAN, planner, is_complete=False)
    world.settle(planner)
    assert not check_result.is_still_current(FOUND, planner, is_complete=True)
    assert check_result.is_still_current(CLEAN, planner, is_complete=True)


def test_an_outcome_is_reported_by_its_numbers() -> None:
    hidden = {**ENTRY, "message": "(sensitive)"}
    status = check_result.encode(dataclasses.replace(FOUND, problems=(hidden,)))
    assert check_result.is_reported(FOUND, status)
    assert not check_result.is_reported(CLEAN, status)
    assert not check_result.is_reported(FOUND, {})


def test_no_word_of_a_check_covers_what_was_not_reached() -> None:
    targets = [dataclasses.replace(REACHED, is_completed=False), None]
    subjects = [StatusInput(generation=1, target=target, check=CLEAN) for target in targets]
    subjects += [StatusInput(generation=1, target=REACHED, check=CLEAN, is_deleting=True)]
    subjects += [StatusInput(generation=1, target=REACHED, check=CLEAN, is_recorded=False)]
    subjects += [
        StatusInput(
            generation=1,
            target=REACHED,
            check=CLEAN,
            rejection=DefinitionRejection(reason="SourceNotFound", message=""),
        )
    ]
    assert [subject.checked for subject in subjects] == [None] * 5


def test_what_does_not_stand_is_reported_beside_the_phase_of_the_action() -> None:
    _, planner = make("a")
    status = build(planner, check=dataclasses.replace(FOUND, is_current=False))
    assert (status["phase"], status["check"]["problemCount"]) == ("CreateComplete", 1)


def test_a_check_is_no_failure_of_the_revision() -> None:
    _, planner = make("a")
    status = build(planner, check=FOUND)
    assert (status["phase"], "lastFailedRevision" in status) == ("CheckFailed", False)
    assert [conditions.find(status, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")] == ["False"] * 3


def test_a_clean_bill_is_no_success_of_what_was_given_up() -> None:
    _, planner = make("a")
    target = dataclasses.replace(REACHED, cause=TargetCause.AUTOMATIC, failure="it broke")
    status = build(planner, target=target, check=CLEAN)
    ready, stalled = conditions.find(status, "Ready"), conditions.find(status, "Stalled")
    assert (status["phase"], ready["status"], ready["reason"], stalled["status"]) == (
        "CheckComplete", "False", "RolledBack", "True"
    )  # fmt: skip


def test_a_refused_definition_is_said_before_anything() -> None:
    _, planner = make("a")
    refusal = DefinitionRejection(reason="InvalidTemplate", message="a mistake")
    status = build(planner, rejection=refusal, check=dataclasses.replace(CLEAN, is_current=False))
    assert (status["phase"], conditions.find(status, "Ready")["reason"]) == ("UpdateFailed", "InvalidTemplate")


def test_a_check_that_cannot_be_done_says_why() -> None:
    _, planner = make("a")
    status = build(planner, check_error="the check '1' cannot list ConfigMap objects: no")
    assert status["phase"] == "CreateComplete"
    assert conditions.find(status, "CheckPending")["message"] == "the check '1' cannot list ConfigMap objects: no"


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        pytest.param(
            {}, {"handled": {"check": "1"}, **check_result.encode(CLEAN)}, ("Normal", "CheckComplete"), id="clean"
        ),
        pytest.param(
            {}, {"handled": {"check": "1"}, **check_result.encode(FOUND)}, ("Warning", "CheckFailed"), id="found"
        ),
        pytest.param(
            {"handled": {"check": "1"}}, {"handled": {"check": "1"}, **check_result.encode(CLEAN)}, None, id="reported"
        ),
        pytest.param({}, {"handled": {"retry": "1"}}, None, id="no check"),
    ],
)
def test_each_check_is_announced_once(before: Object, after: Object, event: tuple[str, str] | None) -> None:
    found = status_changes.find_check(before, after)
    assert [(each.severity, each.reason) for each in found] == ([event] if event else [])


def test_an_announcement_names_the_action_that_continues() -> None:
    after = {"phase": "UpdateInProgress", "handled": {"check": "1"}, **check_result.encode(FOUND)}
    (said,) = status_changes.find_check({}, after)
    assert said.message == (
        "the check '1' examined 2 objects and found 1 problem: a (configmap/shop-a): does not exist; meanwhile the Stack is "
        "UpdateInProgress"
    )


@pytest.mark.parametrize("phase", [phase for phase in Phase if not phase.startswith("Delete")])
def test_a_check_may_follow_and_be_followed_by_all_but_a_deletion(phase: Phase) -> None:
    assert phases_page.is_legal(phase, Phase.CHECK_COMPLETE)
    assert phases_page.is_legal(Phase.CHECK_FAILED, phase)
    assert not phases_page.is_legal(Phase.DELETE_IN_PROGRESS, Phase.CHECK_COMPLETE)
