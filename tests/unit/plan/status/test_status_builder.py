"""The status: phase, conditions, counts, problems, outputs and revisions; bounded, correct, and without sensitive
values.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model import limits
from hearth.model.child import Object
from hearth.plan.retry.backoff import ApplyAttempt, Attempt
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.steps import Apply
from hearth.plan.status import conditions, problems, status_builder
from hearth.plan.status.ready_condition import DefinitionRejection, StatusInput
from hearth.plan.target.target import CompletedRevisions, Target, TargetCause
from support.units import blueprints
from support.units.blueprints import Constant, Reading, World

FIRST = Target(revision=1, cause=TargetCause.SPEC, since=0.0, is_first=True)
LATER = Target(revision=4, cause=TargetCause.SPEC, since=0.0)
SUBJECT = StatusInput(generation=3, target=FIRST)
REFUSAL = DefinitionRejection(reason="InvalidTemplate", message="the definition has an error")


def build(
    planner: StackPlanner | None,
    *,
    status_input: StatusInput = SUBJECT,
    memory: InMemoryState | None = None,
    before: Object | None = None,
) -> Object:
    """The status, at a fixed time."""
    return status_builder.build_status(
        status_input, planner, memory=memory or InMemoryState(), before=before or {}, now=1_000.0, monotonic=0.0
    )


def headline(status: Object) -> tuple[str, str, str]:
    """Phase, and reason and message of Ready."""
    ready = conditions.find(status, "Ready")
    return status["phase"], ready["reason"], ready["message"]


def refuse(world: World, planner: StackPlanner, name: str, *, failures: int) -> None:
    """Let the apply of a resource be refused."""
    step = planner.ready_steps[name]
    assert isinstance(step, Apply)
    world.memory.attempts[name] = Attempt(
        attempt_id=ApplyAttempt(hash=step.hash, uid=step.uid),
        failures=failures,
        retry_at=30.0,
        reason="Denied",
        message="cannot apply configmap/shop-a: no",
        is_final=False,
    )
    world.refresh(planner, name)


def test_everything_ready_is_complete() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": []}))
    world.settle(planner)
    status = build(planner, memory=world.memory)
    assert headline(status) == ("CreateComplete", "Complete", "all 2 resources are ready")
    assert (status["revision"], status["summary"], status["problems"]) == (1, "2/2", [])


def test_a_later_revision_is_an_update() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.settle(planner)
    status = build(planner, status_input=dataclasses.replace(SUBJECT, target=LATER))
    assert (status["phase"], status["revision"]) == ("UpdateComplete", 4)


def test_the_message_names_what_is_waited_for() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}, kind=blueprints.GADGET))
    world.settle(planner)
    step = Apply(
        resource="a",
        kind=blueprints.GADGET,
        ref=world.of("a")[0].ref,
        manifest=planner.find_desired("a").manifest,  # type: ignore[union-attr]  # it was evaluated above
        hash="",
        uid=None,
    )
    waiting = {"type": "Ready", "status": "False", "message": "boiling water"}
    world.carry_out(step, status={"conditions": [waiting]})
    world.refresh(planner, "a")
    phase, reason, message = headline(build(planner))
    assert (phase, reason) == ("CreateInProgress", "Progressing")
    assert message.startswith("waits for a (gadget.example.org/shop-a)")
    assert "boiling water" in message


@pytest.mark.parametrize(
    ("failures", "phase"), [(1, "CreateInProgress"), (5, "CreateFailed")], ids=["still tried", "limit used up"]
)
def test_a_refusal_is_reported_at_once_and_called_failed_later(failures: int, phase: str) -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": [], "b": []}))
    world.refresh(planner)
    refuse(world, planner, "a", failures=failures)
    status = build(planner, memory=world.memory)
    assert status["phase"] == phase
    assert status["problems"] == [
        {
            "resource": "a",
            "kind": "ConfigMap",
            "name": "shop-a",
            "namespace": "default",
            "reason": "Denied",
            "message": "cannot apply configmap/shop-a: no",
            "nextRetryTime": "1970-01-01T00:17:10Z",
        }
    ]


def test_problems_are_bounded_and_the_counts_are_not() -> None:
    names = [f"r{number}" for number in range(50)]
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({name: [] for name in names}))
    world.refresh(planner)
    for name in names:
        refuse(world, planner, name, failures=5)
    status = build(planner, memory=world.memory)
    assert (len(status["problems"]), status["resources"]["failed"]) == (problems.AT_MOST, 50)


@pytest.mark.parametrize("step", [pytest.param(1, id="the first first"), pytest.param(-1, id="the last first")])
def test_problems_are_those_of_the_first_names_whichever_failed_first(step: int) -> None:
    given = [f"r{number:02}" for number in range(50)]
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({name: [] for name in given}))
    world.refresh(planner)
    for name in given[::step]:
        refuse(world, planner, name, failures=9)
    status = build(planner, memory=world.memory)
    assert [each["resource"] for each in status["problems"]] == given[: problems.AT_MOST]
    assert headline(status)[2].startswith("r00")


def test_a_refused_definition_is_stalled_while_the_rest_is_reported_as_it_is() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.settle(planner)
    status = build(
        planner,
        status_input=dataclasses.replace(
            SUBJECT, rejection=REFUSAL, target=LATER, completed=CompletedRevisions(last=1)
        ),
    )
    assert headline(status) == ("UpdateFailed", "InvalidTemplate", REFUSAL.message)
    assert conditions.find(status, "Stalled")["status"] == "True"
    assert (status["summary"], status["lastCompletedRevision"]) == ("1/1", 1)


def test_before_anything_was_accepted_there_is_a_status_all_the_same() -> None:
    status = build(None, status_input=dataclasses.replace(SUBJECT, target=None, rejection=REFUSAL))
    assert (status["phase"], "summary" in status, "revision" in status) == ("CreateFailed", False, False)


def test_a_deletion_names_what_is_left() -> None:
    world = World()
    world.settle(blueprints.make_planner(blueprints.make_blueprint({"a": []})))
    world.children["a"] = [dataclasses.replace(world.of("a")[0], deleting=True, finalizers=("x/y",))]
    planner = blueprints.make_planner(blueprints.make_blueprint({}))
    world.refresh(planner)
    status = build(planner, status_input=dataclasses.replace(SUBJECT, is_deleting=True))
    assert headline(status) == (
        "DeleteInProgress",
        "Deleting",
        "waits for the deletion of configmap/shop-a (held by x/y)",
    )


def test_outputs_are_the_values_that_are_known() -> None:
    host = Reading(make=lambda values: values["a"]["status"]["host"], reads={"a": frozenset({("status", "host")})})
    name = Reading(make=lambda values: values["a"]["metadata"]["name"], reads={"a": frozenset({("metadata", "name")})})
    blueprint = blueprints.make_blueprint({"a": []}, outputs={"host": host, "name": name, "one": Constant(1)})
    world, planner = World(), blueprints.make_planner(blueprint)
    world.settle(planner)
    assert build(planner)["outputs"] == {"name": "shop-a", "one": 1}


def test_a_condition_keeps_its_time_while_its_status_lasts() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.refresh(planner)
    first = status_builder.build_status(SUBJECT, planner, memory=InMemoryState(), before={}, now=1.0, monotonic=0.0)
    second = status_builder.build_status(
        SUBJECT, planner, memory=InMemoryState(), before=first, now=99.0, monotonic=0.0
    )
    assert second == first


def test_sources_that_are_polled_are_named() -> None:
    world, planner = World(), blueprints.make_planner(blueprints.make_blueprint({"a": []}))
    world.settle(planner)
    polled = dataclasses.replace(SUBJECT, polled=("secret/db",))

    [warning] = build(planner, status_input=polled)["warnings"]

    assert warning.startswith(
        "secret/db: changes are detected by polling every 30 s because the operator is not allowed to watch"
    )
    assert "warnings" not in build(planner, status_input=dataclasses.replace(polled, is_deleting=True))
    assert "warnings" not in build(planner)


# ---------------------------------------------------------------- revisions that completed


@pytest.mark.parametrize(
    ("before", "completed", "expected"),
    [
        pytest.param({}, CompletedRevisions(last=1), [], id="the first"),
        pytest.param({"lastCompletedRevision": 1}, CompletedRevisions(last=2, previous=1), [], id="the second"),
        pytest.param(
            {"lastCompletedRevision": 2, "previousCompletedRevision": 1},
            CompletedRevisions(last=5, previous=2),
            [1],
            id="a third",
        ),
        pytest.param(
            {"lastCompletedRevision": 5, "previousCompletedRevision": 2, "earlierCompletedRevisions": [1]},
            CompletedRevisions(last=1, previous=5),
            [2],
            id="back to an earlier one",
        ),
        pytest.param(
            {"earlierCompletedRevisions": ["3", None, -1, 2, {"a": 1}], "lastCompletedRevision": "x"},
            CompletedRevisions(last=4),
            [2],
            id="written by another client",
        ),
        pytest.param({"earlierCompletedRevisions": 7}, CompletedRevisions(last=4), [], id="no list"),
    ],
)
def test_earlier_revisions_stay_known(
    before: dict[str, Any], completed: CompletedRevisions, expected: list[int]
) -> None:
    assert status_builder.find_earlier_completed(completed, before) == expected


def test_only_so_many_are_kept() -> None:
    many = {"earlierCompletedRevisions": list(range(1, 1000))}
    found = status_builder.find_earlier_completed(CompletedRevisions(last=1000), many)
    assert found == list(range(1000 - limits.REVISION_HISTORY, 1000))


# ---------------------------------------------------------------- messages of other components


def make_status(reason: str, message: str) -> dict[str, Any]:
    """A status with the same text wherever it quotes objects."""
    entry = {"reason": reason, "message": message}
    return {"phase": "CreateFailed", "conditions": [entry], "problems": [entry], "check": {"problems": [entry]}}


def test_no_part_shows_a_sensitive_text() -> None:
    status = make_status("hunter22", "no hunter22 here")
    assert status_builder.redact_status(status, ["hunter22"]) == make_status("…", "no … here")
    assert status_builder.redact_status(status, []) is status


def test_long_texts_are_cut() -> None:
    """Otherwise the API server would reject the whole status. A condition has room for the messages of many problems."""
    found = status_builder.shorten_status(make_status("r" * 9_000, "m" * 9_000))
    reason, message = "r" * limits.REASON_SHOWN, "m" * limits.PROBLEM_SHOWN
    expected = make_status(reason, message)
    assert found == {**expected, "conditions": [{"reason": reason, "message": "m" * 9_000}]}
    assert status_builder.shorten_status(expected) == expected
