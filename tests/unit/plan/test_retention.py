"""What is held back, what is spared, and who still uses what."""

from __future__ import annotations

import dataclasses

import pytest

from hearth.plan.retry.backoff import Attempt
from hearth.plan.stack.cleanup_policy import Retention
from hearth.plan.stack.usage_index import Users
from hearth.plan.state.resource_status import Standing, State
from support.units import blueprints

CHILD = blueprints.make_child(
    {"metadata": {"name": "shop-a", "namespace": "default", "labels": {}, "annotations": {}}}, uid="u"
)
OLD = dataclasses.replace(CHILD, resource="a", incarnation=1)


@pytest.mark.parametrize(
    ("retention", "oldest", "expected"),
    [
        (Retention(), 1, True),
        (Retention(names=frozenset({"a"})), 1, True),
        (Retention(names=frozenset({"b"})), 1, False),
        (Retention(names=frozenset({"a"})), 0, False),
        (Retention(is_waived=True), 1, False),
    ],
    ids=["nobody knows", "wanted then", "made since", "a later incarnation", "waived"],
)
def test_what_was_reached_is_held_back(retention: Retention, oldest: int, expected: bool) -> None:
    """By the name of its resource and its incarnation."""
    assert retention.keeps(OLD, oldest=oldest) is expected


def test_data_is_spared_only_where_nobody_asked() -> None:
    """By kind."""
    claim = dataclasses.replace(OLD, kind=dataclasses.replace(OLD.kind, name="PersistentVolumeClaim"))
    assert [Retention(spares_data=said).spares(claim) for said in (True, False)] == [True, False]
    assert not Retention(spares_data=True).spares(OLD)


def test_who_is_not_ready_goes_on_to_use_what_it_was_made_of() -> None:
    """Until it is, or was made of something else."""
    users = Users()
    child = dataclasses.replace(OLD, requires=("c/2",))
    waiting = Standing(state=State.PROGRESSING, reason="", message="", child=child)
    moved = dataclasses.replace(waiting, child=dataclasses.replace(child, requires=("c/3",)))
    ready = dataclasses.replace(moved, state=State.READY)

    assert users.note("a", None, waiting) == set()
    assert users.has("c/2")
    assert users.note("a", waiting, moved) == {"c/2"}
    assert (users.has("c/2"), users.has("c/3")) == (False, True)
    assert users.note("a", moved, ready) == {"c/3"}


def test_a_retry_makes_everything_due() -> None:
    """And forgets how often it failed, not what."""
    attempt = Attempt(subject="s", failures=7, next_try=900.0, reason="Denied", message="no", is_final=True)
    world = blueprints.World()
    world.memory.attempts["a"] = attempt
    world.memory.immutable["u"] = ("hash", "spec.x")
    world.memory.retry(10.0)
    renewed = world.memory.attempts["a"]
    assert (renewed.failures, renewed.next_try, renewed.is_exhausted, renewed.message) == (0, 10.0, False, "no")
    assert world.memory.immutable == {}
