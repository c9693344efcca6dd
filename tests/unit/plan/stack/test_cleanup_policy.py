"""What is held back, what is spared, and who still uses what."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.model.child import Child
from hearth.plan.retry.backoff import Attempt, RemovalAttempt
from hearth.plan.stack.cleanup import CleanupPolicy
from hearth.plan.stack.cleanup_planner import UsageIndex
from hearth.plan.state.memory import RefusedChange
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from support.units import blueprints

CHILD = blueprints.make_child(
    {"metadata": {"name": "shop-a", "namespace": "default", "labels": {}, "annotations": {}}}, uid="u"
)
OLD = dataclasses.replace(CHILD, resource="a", incarnation=1)


CLAIM = dataclasses.replace(OLD, kind=dataclasses.replace(OLD.kind, name="PersistentVolumeClaim"))
LATER = dataclasses.replace(OLD, incarnation=2)
LATER_CLAIM = dataclasses.replace(CLAIM, incarnation=2)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (CleanupPolicy(), True),
        (CleanupPolicy(protected_names=(frozenset({"x"}), {"a"})), True),
        (CleanupPolicy(protected_names=(frozenset({"x"}), {"b"})), False),
        (CleanupPolicy(is_waived=True), False),
    ],
    ids=["unknown", "wanted then", "made since", "waived"],
)
@pytest.mark.parametrize("child", [OLD, CLAIM], ids=["old", "claim"])
def test_what_was_reached_is_held_back(policy: CleanupPolicy, expected: bool, child: Child) -> None:
    """By the name of its resource."""
    assert policy.protects(child, present=[child]) is expected


@pytest.mark.parametrize(
    ("child", "beside", "expected"),
    [
        (OLD, LATER, True),
        (LATER, OLD, False),
        (LATER, CLAIM, True),
        (LATER_CLAIM, CLAIM, True),
        (LATER_CLAIM, OLD, True),
    ],
    ids=["first", "made since", "beside a claim that was left", "a claim beside another", "a claim"],
)
def test_what_was_made_since_is_not_held_back(child: Child, beside: Child, expected: bool) -> None:
    """By its incarnation, unless it holds data, or what is older was preserved by a rollback."""
    assert CleanupPolicy().protects(child, present=[child, beside]) is expected


def test_data_is_spared_only_where_no_deletion_was_requested() -> None:
    """By kind."""
    assert [CleanupPolicy(preserves_data=said).preserves(CLAIM) for said in (True, False)] == [True, False]
    assert not CleanupPolicy(preserves_data=True).preserves(OLD)


def test_who_is_not_ready_continues_to_use_what_it_was_made_of() -> None:
    """Until it is, or was made of something else."""
    users = UsageIndex()
    child = dataclasses.replace(OLD, requires=("c/2",))
    waiting = ResourceStatus(state=ResourceState.PROGRESSING, reason="", message="", child=child)
    moved = dataclasses.replace(waiting, child=dataclasses.replace(child, requires=("c/3",)))
    ready = dataclasses.replace(moved, state=ResourceState.READY)

    assert users.update("a", None, waiting) == set()
    assert users.is_used("c/2")
    assert users.update("a", waiting, moved) == {"c/2"}
    assert (users.is_used("c/2"), users.is_used("c/3")) == (False, True)
    assert users.update("a", moved, ready) == {"c/3"}


def test_a_retry_makes_everything_due() -> None:
    """And forgets how often it failed, not what."""
    attempt = Attempt(
        attempt_id=RemovalAttempt(uid="s"), failures=7, retry_at=900.0, reason="Denied", message="no", is_final=True
    )
    world = blueprints.World()
    world.memory.attempts["a"] = attempt
    world.memory.immutable["u"] = RefusedChange("hash", "spec.x")
    world.memory.retry(10.0)
    renewed = world.memory.attempts["a"]
    assert (renewed.failures, renewed.retry_at, renewed.is_exhausted, renewed.message) == (0, 10.0, False, "no")
    assert world.memory.immutable == {}
