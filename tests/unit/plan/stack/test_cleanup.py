"""Obsolete children are deleted in reverse dependency order, regardless of the order of events, unless something holds
them.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.child import Child
from hearth.plan.retry.backoff import Attempt, RemovalAttempt
from hearth.plan.stack.cleanup import ObsoleteChildren, incarnation_key
from hearth.plan.stack.cleanup_planner import UsageIndex
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.memory import RefusedChange
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from support.units import blueprints, signing


def child(resource: str, *requires: str, incarnation: int = 1) -> Child:
    """An obsolete child that was evaluated against `requires`, each `name/incarnation`."""
    manifest = {
        "metadata": {
            "name": f"{resource}-{incarnation}",
            "labels": {"hearth.dev/resource": resource},
            "annotations": {
                "hearth.dev/requires": ",".join(requires),
                "hearth.dev/incarnation": str(incarnation),
            },
        }
    }
    signed = signing.sign(manifest, kind=blueprints.CONFIG_MAP, signer=blueprints.HASHER)
    return blueprints.make_child(signed, uid=f"{resource}-{incarnation}")


def test_a_child_that_another_obsolete_one_requires_stays_until_that_is_gone() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("a"), child("b", "a/1"), child("c", "b/1")])
    order = []
    while cleanup.children:
        order.append(sorted(cleanup.deletable))
        for uid in order[-1]:
            cleanup.replace([cleanup.children[uid]], [])
    assert order == [["c-1"], ["b-1"], ["a-1"]]


def test_what_is_not_obsolete_holds_nothing() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("web", "config/1")])
    assert set(cleanup.deletable) == {"web-1"}


def test_incarnations_are_distinguished() -> None:
    """A dependency that was reversed between two incarnations is not a cycle."""
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("a"), child("b", "a/1"), child("b", incarnation=2), child("a", "b/2", incarnation=2)])
    assert set(cleanup.deletable) == {"b-1", "a-2"}


def test_a_circle_does_not_hold_itself_for_ever() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("a", "b/1"), child("b", "a/1")])
    assert [cleanup.may_delete(uid) for uid in ("a-1", "b-1")] == [True, True]


def test_a_circle_waits_for_what_is_free() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("a", "b/1"), child("b", "a/1"), child("c", "a/1")])
    assert {uid for uid in cleanup.children if cleanup.may_delete(uid)} == {"c-1"}


def test_what_a_circle_requires_waits_for_it() -> None:
    cleanup = ObsoleteChildren()
    first = [child("c", incarnation=2), child("a", "b/1"), child("b", "a/1", "c/2")]
    others = [child("d", "e/1"), child("e", "d/1"), child("x", "y/1", "d/1"), child("y", "x/1")]
    cleanup.replace([], [*first, *others])
    assert {uid for uid in cleanup.children if cleanup.may_delete(uid)} == {"a-1", "b-1", "x-1", "y-1"}
    cleanup.changed.clear()
    cleanup.replace([], [child("z", "x/1")])
    assert {"a-1", "b-1", "x-1", "y-1"} <= cleanup.changed.keys()
    assert {uid for uid in cleanup.children if cleanup.may_delete(uid)} == {"z-1"}


def test_what_became_free_is_reported() -> None:
    cleanup = ObsoleteChildren()
    first, second = child("a"), child("b", "a/1")
    cleanup.replace([], [first, second])
    cleanup.changed.clear()
    cleanup.replace([second], [])
    assert set(cleanup.changed) == {"a-1", "b-1"}


def test_a_changed_record_counts_from_then_on() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("a"), child("b"), old := child("c", "a/1")])
    cleanup.replace([old], [dataclasses.replace(old, requires=("b/1",))])
    assert set(cleanup.deletable) == {"a-1", "c-1"}


CHILDREN = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from([f"{name}/1" for name in "abcdef"]), max_size=3)),
    unique_by=lambda pair: pair[0],
    max_size=6,
)


@given(first=CHILDREN, second=CHILDREN)
def test_going_step_by_step_arrives_where_a_fresh_start_does(
    first: list[tuple[str, list[str]]], second: list[tuple[str, list[str]]]
) -> None:
    olds = [child(name, *requires) for name, requires in first]
    news = [child(name, *requires) for name, requires in second]
    stepwise, fresh = ObsoleteChildren(), ObsoleteChildren()
    stepwise.replace([], olds)
    stepwise.replace(olds, news)
    fresh.replace([], news)
    assert (stepwise.deletable, stepwise.children) == (fresh.deletable, fresh.children)


@pytest.mark.parametrize(("incarnation", "expected"), [(1, "web/1"), (7, "web/7")], ids=["first", "later"])
def test_a_place_is_the_resource_and_its_incarnation(incarnation: int, expected: str) -> None:
    assert incarnation_key(child("web", incarnation=incarnation)) == expected


def test_a_record_of_a_whole_collection_holds_each_member() -> None:
    cleanup = ObsoleteChildren()
    members = [child("w[a]"), child("w[b]", incarnation=2), child("x[a]"), child("w")]
    cleanup.replace([], [*members, child("all", "w[*]/1"), child("more", "w[*]/1")])
    assert set(cleanup.deletable) == {"x[a]-1", "w-1", "all-1", "more-1"}
    cleanup.replace([cleanup.children["all-1"]], [])
    assert "w[a]-1" not in cleanup.deletable
    cleanup.changed.clear()
    cleanup.replace([cleanup.children["more-1"]], [])
    assert set(cleanup.deletable) >= {"w[a]-1", "w[b]-2"}
    assert set(cleanup.changed) >= {"w[a]-1", "w[b]-2"}


def test_a_member_that_becomes_obsolete_later_is_held_as_well() -> None:
    cleanup = ObsoleteChildren()
    cleanup.replace([], [child("all", "w[*]/1")])
    cleanup.replace([], [child("w[a]")])
    assert set(cleanup.deletable) == {"all-1"}
    assert set(cleanup.at("w[*]/1")) == {"w[a]-1"}


def test_thousands_of_dependents_of_thousands_of_members_go_in_linear_time() -> None:
    import time

    cleanup = ObsoleteChildren()
    cleanup.replace(
        [], [child(f"w[{at}]") for at in range(2_000)] + [child(f"d[{at}]", "w[*]/1") for at in range(2_000)]
    )
    begun = time.thread_time()
    for at in range(2_000):
        cleanup.replace([cleanup.children[f"d[{at}]-1"]], [])
    assert time.thread_time() - begun < 1
    assert len(cleanup.deletable) == 2_000


# ---------------------------------------------------------------- delayed and kept objects

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
    assert CleanupPolicy().protects(child, present=[child, beside]) is expected


def test_data_is_spared_only_where_no_deletion_was_requested() -> None:
    automatic, requested = (CleanupPolicy(preserves_data=said) for said in (True, False))
    assert [each.preserves(CLAIM, is_retained=False) for each in (automatic, requested)] == [True, False]
    assert [each.preserves(OLD, is_retained=True) for each in (automatic, requested)] == [True, False]
    assert not automatic.preserves(OLD, is_retained=False)


def test_who_is_not_ready_continues_to_use_what_it_was_made_of() -> None:
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
