"""Repeated steps are delayed more and more, for any cause; changes by users are free."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import CONFIG_MAP
from hearth.plan.resource import enforcement
from hearth.plan.retry import step_governor
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.retry.step_governor import StepGovernor, Work, WorkType
from hearth.plan.state import steps
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Apply

STEADY = BackoffPolicy(jitter=lambda: 0.0)
HOUR = 3600.0


def apply(content: str = "x", *, resource: str = "a", creates: bool = False) -> Work:
    return Work(resource=resource, type=WorkType.APPLY, content=content, creates=creates)


def take(governor: StepGovernor, work: Work, *, now: float) -> float:
    """Take the step as soon as it may start, and return that time."""
    due = max(now, governor.find_due(work))
    governor.count(work, now=due, backoff=STEADY)
    governor.note_done(work)
    return due


def repeat(governor: StepGovernor, times: int, *, now: float = 0.0, work: Work | None = None) -> list[float]:
    """The times of steps that are immediately undone."""
    found = []
    for _ in range(times):
        now = take(governor, work or apply(), now=now)
        found.append(now)
    return found


def test_the_first_few_are_free_and_the_next_ones_ever_later() -> None:
    assert repeat(StepGovernor(), 14) == [0, 0, 0, 0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811]


def test_after_completion_there_is_one_less() -> None:
    governor = StepGovernor()
    governor.settle()
    assert repeat(governor, 5) == [0, 0, 0, 1, 3]


def test_a_definition_that_the_user_changes_is_free() -> None:
    governor = StepGovernor()
    now = repeat(governor, 9)[-1]
    governor.on_edit({"a"})
    assert take(governor, apply("y"), now=now) == now


def test_an_edit_of_others_changes_nothing() -> None:
    governor = StepGovernor()
    now = repeat(governor, 9)[-1]
    governor.on_edit({"a"})
    assert take(governor, apply(), now=now) == now + 32


def test_a_request_lets_one_step_start() -> None:
    governor = StepGovernor()
    now = repeat(governor, 9)[-1]
    governor.allow(now=now)
    assert repeat(governor, 2, now=now) == [now, now + 64]


def test_a_long_quiet_time_resets_it() -> None:
    governor = StepGovernor()
    now = repeat(governor, 9)[-1] + HOUR
    assert repeat(governor, 4, now=now) == [now] * 4


def test_types_are_counted_apart() -> None:
    """A replacement both deletes and creates."""
    governor = StepGovernor()
    now = repeat(governor, 9)[-1]
    assert take(governor, Work(resource="a", type=WorkType.REMOVE, content="uid"), now=now) == now


def test_values_that_change_are_followed() -> None:
    governor = StepGovernor()
    assert [take(governor, apply(str(number)), now=0.0) for number in range(13)] == [0.0] * 13
    slow = [take(governor, apply(f"m{number}"), now=HOUR + 60.0 * number) for number in range(500)]
    assert slow == [HOUR + 60.0 * number for number in range(500)]


def test_values_that_change_all_the_time_are_followed_more_slowly() -> None:
    governor, now, count = StepGovernor(), 0.0, 0
    while now < HOUR:
        now = take(governor, apply(str(count)), now=now + 0.1)
        count += 1
    assert count < 16 + 4 * math.log2(HOUR) + HOUR / 30


@given(st.lists(st.sampled_from("abcd"), min_size=400, max_size=400), st.floats(0.001, 5.0))
def test_no_order_of_contents_costs_more(contents: list[str], pause: float) -> None:
    governor, now = StepGovernor(), 0.0
    for content in contents:
        now = take(governor, apply(content), now=now + pause)
    assert len(contents) <= 16 + 4 * math.log2(1 + now) + now / 30 + 4


def test_only_steps_that_succeed_are_reported() -> None:
    governor = StepGovernor()
    for _ in range(9):
        governor.count(apply(), now=0.0, backoff=STEADY)
    assert governor.find_problem("a", now=0.0) is None


@pytest.mark.parametrize(("creates", "expected"), [(True, True), (False, False)], ids=["created", "changed"])
def test_an_object_vanishes_if_it_is_created_again_and_again(creates: bool, expected: bool) -> None:
    governor = StepGovernor()
    now = repeat(governor, 6, work=apply(creates=creates))[-1]
    found = governor.find_problem("a", now=now)
    assert found is not None
    assert found.is_vanishing is expected


def test_nothing_is_kept_of_a_resource_at_rest() -> None:
    governor = StepGovernor()
    for name in "abc":
        take(governor, apply(resource=name), now=0.0)
    repeat(governor, 6, work=apply(resource="d"))
    governor.settle()
    assert [key[0] for key in governor.records] == ["d"]
    governor.prune(HOUR)
    assert governor.records == {}


def test_levels_are_above_the_delays_of_failures() -> None:
    assert step_governor.find_delay(9.0, STEADY) < STEADY.first_delay * 2.0**8 * 3 / 4


# ---------------------------------------------------------------- messages while a step is delayed

STEP = Apply(
    resource="web",
    kind=CONFIG_MAP,
    ref=ObjectRef(group="", kind="ConfigMap", namespace="default", name="web"),
    manifest={},
    hash="1",
    uid=None,
)
STATUS = ResourceStatus(
    state=ResourceState.PROGRESSING,
    reason="Applying",
    cause=Cause.APPLYING,
    message="is being applied",
    planned_ref=STEP.ref,
    step=STEP,
)


def test_a_change_that_waits_because_it_was_made_several_times_says_so() -> None:
    memory, backoff = InMemoryState(), BackoffPolicy(jitter=lambda: 0.0)
    assert enforcement.delay_repeated("web", STATUS, memory=memory, now=100.0) == STATUS
    for number in range(8):
        memory.governor.on_edit()
        memory.governor.count(steps.find_work(STEP), now=100.0 + number, backoff=backoff)

    held = enforcement.delay_repeated("web", STATUS, memory=memory, now=108.0)

    assert held.step is None
    assert held.message.startswith("was written several times recently with the same content")
    assert "request a retry to try again now" in held.message
    assert held.requeue_at is not None
    assert held.requeue_at > 108.0
