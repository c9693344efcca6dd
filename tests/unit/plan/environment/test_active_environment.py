"""What was passed is kept as it was, written as it was, and never grows beyond its limit."""

from __future__ import annotations

import dataclasses

from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import LIMIT, ClearedBreakpoints
from hearth.plan.target import target_choice, target_status
from hearth.plan.target.target import Target, TargetCause

SOME = active_environment.NONE_CLEARED.clear("web", "PreUpdate").add_post_delete({"db": ("config",)})
TARGET = Target(revision=3, cause=TargetCause.SPEC, since=60.0, cleared=SOME)


def test_a_status_tells_what_was_passed() -> None:
    """Read back it is the same."""
    assert target_status.encode(TARGET)["controllerState"]["clearedBreakpoints"] == ["web/PreUpdate"]
    assert target_status.encode(TARGET)["controllerState"]["postDelete"] == [{"resource": "db", "requires": ["config"]}]
    assert target_status.decode(target_status.encode(TARGET)) == TARGET


def test_a_status_that_makes_no_sense_tells_nothing() -> None:
    """A user has written into it."""
    assert (
        target_status.decode({**target_status.encode(TARGET), "controllerState": {"postDelete": [{"ghost": 1}]}})
        is None
    )


def test_the_next_target_begins_with_nothing_passed() -> None:
    """And the same one continues."""
    same = target_choice.start_target(
        target_choice.TargetChoice(cause=TargetCause.SPEC),
        revision=3,
        before=TARGET,
        context=target_choice.TargetContext(now=100.0),
    )
    other = target_choice.start_target(
        target_choice.TargetChoice(cause=TargetCause.SPEC),
        revision=4,
        before=TARGET,
        context=target_choice.TargetContext(now=100.0),
    )
    assert (same.cleared, other.cleared) == (SOME, active_environment.NONE_CLEARED)


def test_the_oldest_are_forgotten_first() -> None:
    """However many are passed one by one."""
    many = active_environment.NONE_CLEARED
    for number in range(LIMIT + 2):
        many = many.clear(f"r{number}", "PreCreate")
    assert (len(many.keys), many.keys[0]) == (LIMIT, "r2/PreCreate")


def test_passing_twice_is_passing_once() -> None:
    """Nothing is kept twice."""
    assert SOME.clear("web", "PreUpdate") == SOME


def test_who_must_be_looked_at_again() -> None:
    """Only who has passed something."""
    assert SOME.find_changed(SOME.clear("a", "PreCreate")) == {"a"}
    assert SOME.find_changed(ClearedBreakpoints()) == {"web"}


def test_a_target_with_cleared_breakpoints_differs_for_the_status() -> None:
    """Nothing follows from a passage before it is written."""
    assert dataclasses.replace(TARGET, cleared=active_environment.NONE_CLEARED) != TARGET
