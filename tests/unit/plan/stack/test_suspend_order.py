"""The order in which resources are suspended: like a property, against a model that looks at everything each time."""

from __future__ import annotations

import random

import pytest

from hearth.plan.stack.suspend_order import SuspendOrder


def is_down(name: str, requires: dict[str, frozenset[str]], running: set[str]) -> bool:
    """Whether neither a resource nor anything above it runs, without circles."""
    above = [other for other, needed in requires.items() if name in needed and other != name]
    return name not in running and all(is_down(each, requires, running) for each in above)


def find_free(requires: dict[str, frozenset[str]], running: set[str]) -> set[str]:
    """What may go: it runs, and all above it is down."""
    return {
        name
        for name in running
        if all(is_down(other, requires, running) for other, needed in requires.items() if name in needed)
    }


@pytest.mark.parametrize("seed", range(30))
def test_one_goes_once_all_above_it_are_down(seed: int) -> None:
    """After any changes, reported one by one and in any order; and who may go since is reported."""
    chance = random.Random(seed)
    names = [f"r{number}" for number in range(8)]
    requires: dict[str, frozenset[str]] = dict.fromkeys(names, frozenset())
    running: set[str] = set()
    descent = SuspendOrder()
    known: set[str] = set()
    for _ in range(60):
        at = chance.randrange(len(names))
        name = names[at]
        requires[name] = frozenset(chance.sample(names[:at], k=min(at, chance.randrange(4))))
        running ^= {name} if chance.random() < 0.5 else set()
        descent.update(name, requires[name], is_running=name in running)
        free = find_free(requires, running)
        assert {each for each in names if descent.may_suspend(each)} == free
        assert known ^ free <= descent.take_changed()
        known = free


def test_a_circle_goes_as_a_whole_once_nothing_else_can() -> None:
    """Records of two revisions may turn a dependency round."""
    descent = SuspendOrder()
    descent.update("a", frozenset({"b"}), is_running=True)
    descent.update("b", frozenset({"a"}), is_running=True)
    descent.update("c", frozenset({"a"}), is_running=True)
    assert [name for name in "abc" if descent.may_suspend(name)] == ["c"]
    descent.take_changed()
    descent.update("c", frozenset({"a"}), is_running=False)
    assert [name for name in "abc" if descent.may_suspend(name)] == ["a", "b"]
    assert descent.take_changed() >= {"a", "b"}
    descent.update("a", frozenset({"b"}), is_running=False)
    descent.update("b", frozenset({"a"}), is_running=False)
    assert not descent.running


def test_a_long_chain_is_no_trouble() -> None:
    """Nothing here calls itself once a link."""
    descent = SuspendOrder()
    for number in range(5_000):
        descent.update(f"r{number}", frozenset({f"r{number + 1}"}), is_running=number == 0)
    assert descent.may_suspend("r0")
    descent.update("r5000", frozenset(), is_running=True)
    assert not descent.may_suspend("r5000")
    descent.update("r0", frozenset({"r1"}), is_running=False)
    assert descent.may_suspend("r5000")


def test_members_go_after_the_dependents_of_their_whole_collection() -> None:
    """Whether a member, or a dependent, is seen first."""
    descent = SuspendOrder()
    descent.update("w[a]", frozenset(), is_running=True)
    descent.update("front", frozenset({"w[*]"}), is_running=True)
    descent.update("w[b]", frozenset({"base"}), is_running=True)
    descent.update("base", frozenset(), is_running=True)
    assert [name for name in descent.running if descent.may_suspend(name)] == ["front"]
    descent.take_changed()
    descent.update("front", frozenset({"w[*]"}), is_running=False)
    assert descent.take_changed() >= {"w[a]", "w[b]"}
    assert [name for name in descent.running if descent.may_suspend(name)] == ["w[a]", "w[b]"]
    descent.update("w[b]", frozenset({"base"}), is_running=False)
    assert descent.may_suspend("base")
