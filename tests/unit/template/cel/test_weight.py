"""The size of values, measured as cheaply as there are many."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hearth.template.cel import weight
from hearth.template.cel.weight import Weight

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=8))
def test_the_largest_is_as_large_as_each(values: list[Any]) -> None:
    """Shortcuts for what is surely smaller change nothing."""
    found = [weight.weigh(each, most_nodes=12) for each in values]
    expected = Weight(max((each.nodes for each in found), default=1), max((each.text for each in found), default=0))
    assert weight.weigh_largest(values, most_nodes=12) == expected


def test_scalars_are_one_node_without_text() -> None:
    """Of any class."""
    assert weight.weigh([1, 2.0, True, None, "é"], most_nodes=100) == Weight(6, 2)
