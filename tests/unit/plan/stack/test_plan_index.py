"""The resources of a Stack by state, and conditions of the Stack about single resources."""

from __future__ import annotations

from hearth.model.phases import DONE, ConditionType
from hearth.plan.stack.plan_index import NAMED_AT_MOST, ConditionAggregator, NamesByState, PlanIndex
from hearth.plan.state.condition_types import ExtraCondition
from hearth.plan.state.resource_status import ResourceCondition, ResourceState, ResourceStatus
from hearth.plan.status import conditions


def make_status(state: ResourceState) -> ResourceStatus:
    return ResourceStatus(state=state, reason="Test", message="")


def test_a_state_without_resources_is_not_kept() -> None:
    index = PlanIndex()
    waiting, ready = make_status(ResourceState.WAITING), make_status(ResourceState.READY)
    for name in ("a", "b"):
        index.note(name, None, waiting)
    index.note("a", waiting, ready)
    assert {state: list(names) for state, names in index.by_state.items()} == {
        ResourceState.WAITING: ["b"],
        ResourceState.READY: ["a"],
    }

    index.note("b", waiting, ready)
    assert {state: list(names) for state, names in index.by_state.items()} == {ResourceState.READY: ["a", "b"]}

    index.forget("a")
    index.forget("b")
    assert index.by_state == {}


def test_reading_an_empty_state_keeps_nothing() -> None:
    names = NamesByState()
    assert [len(names[state]) for state in ResourceState] == [0] * len(ResourceState)
    assert names == {}


# ---------------------------------------------------------------- conditions about single resources


def condition(message: str, *, type_: ConditionType = ConditionType.DRIFTED) -> ResourceCondition:
    return ResourceCondition(type=type_, reason="FieldOwnershipLost", message=message)


def assess(*extras: ExtraCondition, before: list[dict[str, object]] | None = None) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of the conditions, by type."""
    found = conditions.build_conditions(
        DONE,
        headline=("Complete", "all"),
        generation=1,
        before=before or (),
        now="2026-01-01T00:00:00Z",
        extras=extras,
    )
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def test_nothing_to_say_says_nothing() -> None:
    assert set(assess()) == {"Ready", "Reconciling", "Stalled"}


def test_what_is_true_is_said_and_taken_back() -> None:
    assert assess(ExtraCondition(type=ConditionType.DRIFTED, reason="FieldOwnershipLost", message="web"))[
        "Drifted"
    ] == (
        "True",
        "FieldOwnershipLost",
        "web",
    )
    before: list[dict[str, object]] = [
        {"type": "Drifted", "status": "True"},
        {"type": "SomethingElse", "status": "True"},
    ]
    after = assess(before=before)
    assert after["Drifted"] == ("False", "NotDrifted", "")
    assert "SomethingElse" not in after


def test_remarks_follow_the_resources() -> None:
    aggregator = ConditionAggregator()
    aggregator.replace("a", (), (condition("a: x"),))
    aggregator.replace("b", (), (condition("b: y"), condition("b: z", type_=ConditionType.DRIFT_CONFLICT)))
    assert [(each.type, each.message) for each in aggregator.conditions()] == [
        ("Drifted", "a: x; b: y"),
        ("DriftConflict", "b: z"),
    ]
    aggregator.replace("a", (condition("a: x"),), ())
    aggregator.replace(
        "b", (condition("b: y"), condition("b: z", type_=ConditionType.DRIFT_CONFLICT)), (condition("b: w"),)
    )
    assert [(each.type, each.message) for each in aggregator.conditions()] == [("Drifted", "b: w")]


def test_a_thousand_resources_make_a_short_message() -> None:
    aggregator = ConditionAggregator()
    for number in reversed(range(1000)):
        aggregator.replace(f"r{number:03}", (), (condition(f"r{number:03}: spec"),))
    [found] = aggregator.conditions()
    assert found.message.startswith("r000: spec; r001: spec;")
    assert found.message.endswith(f"r004: spec; and {1000 - NAMED_AT_MOST} more")
