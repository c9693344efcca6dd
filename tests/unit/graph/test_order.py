"""Every node comes after its requirements; if that is impossible, the cycle is reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.graph import order
from hearth.model import chunked_work

NAMES = st.sampled_from([f"n{number}" for number in range(12)])
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=12)


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({}, []),
        ({"a": [], "b": []}, ["a", "b"]),
        ({"a": ["b"], "b": []}, ["b", "a"]),
        ({"a": ["b", "b"], "b": []}, ["b", "a"]),
        ({"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}, ["a", "b", "c", "d"]),
        ({"a": ["elsewhere"]}, ["a"]),
        ({"a": ["a"], "b": ["a"], "c": []}, ["c"]),
    ],
    ids=[
        "nothing",
        "as written",
        "required first",
        "required twice",
        "diamond",
        "unknown names do not count",
        "a cycle holds up",
    ],
)
def test_what_is_required_comes_first(edges: dict[str, list[str]], expected: list[str]) -> None:
    assert order.sort(edges) == expected


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"]}, ["a → a"]),
        ({"a": ["b"], "b": ["a"]}, ["a → b → a"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}, ["a → b → c → a"]),
        ({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}, ["a → b → a", "c → d → c"]),
        ({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, ["a → b → a", "c → a → c"]),
        ({"a": ["b", "c"], "b": ["c"], "c": ["a"]}, ["a → c → a", "b → c → a → b"]),
        ({"a": ["zz"]}, []),
    ],
    ids=[
        "none",
        "itself",
        "two",
        "those behind are not on it",
        "two apart",
        "two through one name",
        "shortest first",
        "unknown names",
    ],
)
def test_every_cycle_is_named(edges: dict[str, list[str]], expected: list[str]) -> None:
    assert [order.describe(cycle) for cycle in order.find_cycles(edges)] == expected


@given(GRAPHS)
def test_either_sorted_or_behind_a_cycle(edges: dict[str, list[str]]) -> None:
    ordered = order.sort(edges)
    place = {name: at for at, name in enumerate(ordered)}
    for name in ordered:
        assert all(place[required] < place[name] for required in edges[name] if required in edges)
    left_out = edges.keys() - place.keys()
    assert all(any(required in left_out for required in edges[name]) for name in left_out)
    assert bool(left_out) == bool(order.find_cycles(edges))


@given(GRAPHS)
def test_cycles_are_cycles_and_cover_all_that_lie_on_one(edges: dict[str, list[str]]) -> None:
    cycles = order.find_cycles(edges)
    for cycle in cycles:
        assert all(after in edges[name] for name, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    assert {name for cycle in cycles for name in cycle} == {name for name in edges if name in reach(edges, name)}


def reach(edges: dict[str, list[str]], start: str) -> set[str]:
    """All direct and indirect requirements of `start`."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = {required for required in edges.get(waiting.pop(), []) if required in edges} - found
        found |= fresh
        waiting.extend(fresh)
    return found


def test_the_inverse_names_each_dependent_once() -> None:
    edges = {"a": ["b", "b", "zz"], "b": [], "c": ["b"]}
    assert chunked_work.finish(order.invert_in_pieces(edges)) == {"a": [], "b": ["a", "c"], "c": []}


def test_a_chain_longer_than_the_call_stack_is_sorted_and_searched() -> None:
    names = [f"n{number}" for number in range(20_000)]
    chain = {name: names[at + 1 : at + 2] for at, name in enumerate(names)}
    assert order.sort(chain) == names[::-1]
    assert order.find_cycles(chain) == []
    chain[names[-1]] = [names[0]]
    assert order.find_cycles(chain) == [tuple(names)]
