"""The next namespace in turn, and the places that are reserved for others."""

from __future__ import annotations

import time
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import turns
from hearth.model.turns import FairTurns, NamespaceLine


def take_all(fair: FairTurns, room: int) -> list[str]:
    """The keys that may start now, in order."""
    return list(iter(lambda: fair.take(room), None))


def test_namespaces_take_turns_in_a_line() -> None:
    line = NamespaceLine()
    for number in range(1000):
        line.add("a", f"a{number}")
    line.add("b", "b0")
    line.add("b", "b1")
    assert [line.pop() for _ in range(5)] == ["a0", "b0", "a1", "b1", "a2"]


def test_a_uid_keeps_its_place_and_can_leave() -> None:
    line = NamespaceLine()
    for uid in ("x", "y", "x"):
        line.add("a", uid)
    assert line.has("a", "x")
    line.discard("a", "y")
    line.discard("b", "y")
    assert line.pop() == "x"
    assert not line


def test_many_stacks_of_one_namespace_leave_places_to_others() -> None:
    fair = FairTurns()
    for number in range(100):
        fair.add("a", f"a{number}")
    assert len(take_all(fair, 32)) == 30
    fair.add("b", "b0")
    assert take_all(fair, 32) == ["b0"]
    fair.add("c", "c0")
    assert take_all(fair, 32) == ["c0"]


def test_a_large_stack_leaves_places_to_others_of_its_namespace() -> None:
    fair = FairTurns()
    fair.add("a", "large")
    started = 0
    while fair.take(32) is not None:
        started += 1
        fair.add("a", "large")
    assert started == 28
    for number in range(5):
        fair.add("a", f"small{number}")
    assert take_all(fair, 32) == ["small0", "small1"]


@pytest.mark.parametrize(("room", "started"), [(1, 1), (2, 2), (3, 3), (4, 3), (8, 7), (16, 15)])
def test_at_least_one_place_of_four_is_left(room: int, started: int) -> None:
    fair = FairTurns()
    for number in range(100):
        fair.add("a", f"a{number}")
    assert len(take_all(fair, room)) == started


def test_namespaces_that_are_busy_take_turns() -> None:
    fair = FairTurns()
    for number in range(100):
        fair.add("a", f"a{number}")
    served: Counter[str] = Counter()
    fair.add("b", "b")
    running: deque[str] = deque()
    for _ in range(200):
        while (member := fair.take(8)) is not None:
            running.append(member)
            served[member[0]] += 1
            fair.add(member[0], member)
        fair.end(running.popleft())
    assert abs(served["a"] - served["b"]) <= 10


@given(
    st.lists(st.tuples(st.sampled_from("ABCD"), st.integers(0, 3), st.sampled_from(["add", "take", "end", "discard"])))
)
def test_nobody_is_lost_or_counted_twice(moves: list[tuple[str, int, str]]) -> None:
    fair, waiting, running = FairTurns(), set[str](), Counter[str]()
    for namespace, number, move in moves:
        member = f"{namespace}{number}"
        match move:
            case "add":
                fair.add(namespace, member)
                waiting.add(member)
            case "discard":
                fair.discard(member)
                waiting.discard(member)
            case "take":
                taken = fair.take(5)
                if taken is not None:
                    waiting.remove(taken)
                    running[taken] += 1
            case _ if running[member]:
                fair.end(member)
                running[member] -= 1
        assert {each for each in waiting if each in fair} == waiting
        assert fair.in_flight == running.total() <= 5
    for member in running.elements():
        fair.end(member)
    taken_now = take_all(fair, 1000)
    assert sorted(taken_now) == sorted(waiting)
    for member in taken_now:
        fair.end(member)
    assert not fair
    assert not fair._namespaces


@given(st.lists(st.integers(0, 9), max_size=400))
def test_who_comes_late_finds_something(order: list[int]) -> None:
    held: Counter[int] = Counter()
    for namespace in order:
        share = turns.find_share(held[namespace], free=1000 - held.total(), most=400)
        held[namespace] += max(0, share - held[namespace])
    assert held.total() < 1000
    assert turns.find_share(0, free=1000 - held.total(), most=400) >= 1


def test_small_portions_take_no_more_than_a_large_one() -> None:
    held = 0
    while held < turns.find_share(held, free=100 - held, most=100):
        held += 1
    assert held == 50


def test_a_turn_takes_as_long_with_many_in_line() -> None:
    def measure(count: int) -> float:
        fair = FairTurns()
        for number in range(count):
            fair.add(f"n{number % (count // 10)}", f"m{number}")
        began = time.perf_counter()
        for _ in range(500):
            member = fair.take(32)
            assert member is not None
            fair.end(member)
        return time.perf_counter() - began

    assert min(measure(20_000) for _ in range(3)) < 20 * min(measure(1_000) for _ in range(3))
