"""The goals of `wait`: reached, in progress, or impossible without a user."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.steering import goals
from hearth.cli.stack_views.steering.goals import Goal, GoalType, GoalVerdict


def make(ready: str = "False", *, stalled: str = "False", spec: Any = None, **status: Any) -> StackState:
    conditions = [
        {"type": "Ready", "status": ready, "reason": "R", "message": "waits for web"},
        {"type": "Stalled", "status": stalled, "reason": "R", "message": ""},
        *status.pop("more", []),
    ]
    metadata = {"name": "shop", "namespace": "prod", "generation": 2} | status.pop("metadata", {})
    known = {"observedGeneration": 2, "phase": "UpdateInProgress", "summary": "1/2", "conditions": conditions}
    return StackState({"metadata": metadata, "spec": spec or {}, "status": known | status})


STOPPED = {"type": "Stopped", "status": "True", "reason": "Breakpoint", "message": "web/PreUpdate"}


@pytest.mark.parametrize(
    ("stack", "goal", "verdict"),
    [
        pytest.param(make("True"), "ready", GoalVerdict.REACHED, id="ready"),
        pytest.param(make(), "ready", GoalVerdict.WAITING, id="in progress"),
        pytest.param(make("True", target={"cause": "Rollback"}), "ready", GoalVerdict.FAILED, id="rolled back by hand"),
        pytest.param(make(target={"cause": "Rollback"}), "ready", GoalVerdict.WAITING, id="a rollback in progress"),
        pytest.param(
            make("True", observedGeneration=1), "ready", GoalVerdict.WAITING, id="the old generation is ready"
        ),
        pytest.param(make(stalled="True"), "ready", GoalVerdict.FAILED, id="failed"),
        pytest.param(make(phase="UpdateStopped"), "ready", GoalVerdict.FAILED, id="at a breakpoint"),
        pytest.param(make(spec={"suspended": True}), "ready", GoalVerdict.FAILED, id="suspended"),
        pytest.param(make(spec={"paused": True}), "ready", GoalVerdict.FAILED, id="paused"),
        pytest.param(make("True", spec={"paused": True}), "ready", GoalVerdict.REACHED, id="paused and ready"),
        pytest.param(make(metadata={"deletionTimestamp": "now"}), "ready", GoalVerdict.FAILED, id="in deletion"),
        pytest.param(None, "ready", GoalVerdict.FAILED, id="deleted meanwhile"),
        pytest.param(None, "deleted", GoalVerdict.REACHED, id="deleted"),
        pytest.param(make(), "deleted", GoalVerdict.FAILED, id="its deletion was not requested"),
        pytest.param(make(metadata={"deletionTimestamp": "now"}), "deleted", GoalVerdict.WAITING, id="being deleted"),
        pytest.param(make(more=[STOPPED]), "stopped", GoalVerdict.REACHED, id="stopped"),
        pytest.param(make(phase="SuspendComplete"), "suspended", GoalVerdict.REACHED, id="down"),
        pytest.param(make(), "phase=UpdateInProgress", GoalVerdict.REACHED, id="a phase"),
        pytest.param(make(more=[STOPPED]), "condition=Stopped", GoalVerdict.REACHED, id="a condition"),
        pytest.param(make("False"), "condition=Ready=false", GoalVerdict.REACHED, id="a condition that is False"),
        pytest.param(make(), "condition=Stopped", GoalVerdict.WAITING, id="a condition that is absent"),
    ],
)
def test_a_goal_is_reached_or_not(stack: StackState | None, goal: str, verdict: GoalVerdict) -> None:
    assert goals.assess(stack, goals.parse(goal)).verdict is verdict


def test_a_request_must_be_handled_first() -> None:
    ready = Goal(type=GoalType.READY)

    assert goals.assess(make("True"), ready, handled=("retry", "t")).verdict is GoalVerdict.WAITING
    assert (
        goals.assess(make("True", handled={"retry": "t"}), ready, handled=("retry", "t")).verdict is GoalVerdict.REACHED
    )


def test_a_verb_that_rolls_back_has_reached_its_goal() -> None:
    rolled_back = make("True", target={"cause": "Rollback"})

    assert goals.assess(rolled_back, Goal(type=GoalType.SETTLED)).verdict is GoalVerdict.REACHED


@pytest.mark.parametrize(
    ("present", "verdict"),
    [("7", GoalVerdict.REACHED), ("6", GoalVerdict.REACHED), ("8", GoalVerdict.WAITING), ("10", GoalVerdict.WAITING)],
)
@pytest.mark.parametrize("goal", ["ready", "phase=UpdateComplete", "condition=Ready"])
def test_a_status_of_an_earlier_template_does_not_count(goal: str, present: str, verdict: GoalVerdict) -> None:
    source = {"kind": "ConfigMap", "namespace": "prod", "name": "app", "resourceVersion": "7"}
    stack = make("True", phase="UpdateComplete", sources=[source])
    reached = goals.assess(stack, goals.parse(goal), sources={("ConfigMap", "prod", "app"): present})

    assert reached.verdict is verdict
    assert verdict is GoalVerdict.REACHED or reached.message.endswith("the change of configmap/app")


def test_a_check_with_problems_fails_and_names_them() -> None:
    problem = {"resource": "web", "kind": "Deployment", "name": "shop-web", "reason": "Drifted", "message": "image"}
    found = goals.assess(
        make(check={"problemCount": 1, "objects": 2, "problems": [problem]}), Goal(type=GoalType.CHECKED)
    )

    assert found.verdict is GoalVerdict.FAILED
    assert found.message == "checked 2 objects: 1 problem\n  web (deployment/shop-web): Drifted: image"


@pytest.mark.parametrize("text", ["", "happy", "phase", "ready=1", "checked", "settled"])
def test_what_is_no_goal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ready, suspended|value after ="):
        goals.parse(text)


@pytest.mark.parametrize("status", [None, [], {"conditions": 5, "handled": "x", "breakpoints": [1]}])
def test_a_status_of_any_shape_is_read(status: Any) -> None:
    stack = StackState({"metadata": {"generation": 1}, "spec": 3, "status": status})

    assert goals.assess(stack, Goal(type=GoalType.READY)).verdict is GoalVerdict.WAITING
    assert stack.breakpoints == []


@pytest.mark.parametrize(
    ("changes", "is_awaited"),
    [
        ({}, True),
        ({"target": {"cause": "AutomaticRollback"}}, False),
        ({"state": "definition rejected"}, False),
        ({"historyUnknown": True}, False),
        ({"phase": "RollbackFailed"}, False),
    ],
)
def test_a_failure_that_is_rolled_back_is_not_the_end(changes: dict[str, Any], *, is_awaited: bool) -> None:
    status = {"phase": "UpdateFailed", "target": {"cause": "Spec"}, **changes}
    stack = make(stalled="True", spec={"rollback": {"onFailure": True}}, **status)

    assert (goals.assess(stack, goals.parse("ready")).verdict is GoalVerdict.WAITING) is is_awaited
