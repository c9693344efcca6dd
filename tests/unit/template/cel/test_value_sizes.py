"""The size of values is measured as cheaply as there are many, and bounds caches and what expressions take."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hearth.model import limits
from hearth.template.cel import expressions, value_sizes
from hearth.template.cel.value_sizes import Weight
from hearth.template.cel.weighted_cache import WeightedCache

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=8))
def test_the_largest_is_as_large_as_each(values: list[Any]) -> None:
    """Shortcuts for what is surely smaller change nothing."""
    found = [value_sizes.weigh(each, most_nodes=12) for each in values]
    expected = Weight(max((each.nodes for each in found), default=1), max((each.text for each in found), default=0))
    assert value_sizes.weigh_largest(values, most_nodes=12) == expected


def test_scalars_are_one_node_without_text() -> None:
    """Of any class."""
    assert value_sizes.weigh([1, 2.0, True, None, "é"], most_nodes=100) == Weight(6, 2)


def make_full() -> WeightedCache[str, int]:
    """With room for no more."""
    cache: WeightedCache[str, int] = WeightedCache(most=3, most_weight=100)
    for number, key in enumerate("abc"):
        cache.keep(key, number, weight=30)
    return cache


def test_what_was_not_used_for_longest_gives_way_to_what_is_heavy() -> None:
    """As many as it takes."""
    cache = make_full()
    cache.find("a")
    cache.keep("d", 3, weight=60)

    assert [cache.find(key) for key in "abcd"] == [0, None, None, 3]
    assert cache.weight == 90


def test_entries_are_counted_too() -> None:
    """However light they are."""
    cache = make_full()
    cache.keep("d", 3, weight=0)

    assert (len(cache), cache.weight) == (3, 60)


def test_what_is_too_heavy_alone_is_not_kept() -> None:
    """The caller has it all the same."""
    cache = make_full()

    assert cache.keep("d", 3, weight=101) == 3
    assert (len(cache), cache.weight) == (0, 0)


def test_parsed_expressions_take_a_bounded_part_of_the_memory() -> None:
    """Thousands of ordinary ones are kept, dozens of the largest."""
    for number in range(100):
        expressions.parse("[" + ",".join(["a.map(x, x, x)"] * 250) + f", {number}]")

    assert expressions._parsed.weight <= limits.PARSED_BYTES
    assert 10 < len(expressions._parsed) < 100
