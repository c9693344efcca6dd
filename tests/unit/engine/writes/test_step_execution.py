"""The smallest change that makes a live object say what is stated."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.engine.writes import step_execution


@pytest.mark.parametrize(
    ("stated", "live", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {}),
        ({"a": 1}, {"a": 2}, {"a": 1}),
        ({"a": 1}, {}, {"a": 1}),
        ({"m": {"a": 1, "b": 2}}, {"m": {"a": 1, "b": 3, "c": 4}}, {"m": {"b": 2}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1]}),
        ({"m": {"a": 1}}, {"m": "text"}, {"m": {"a": 1}}),
    ],
    ids=["what is unstated stays", "changed", "missing", "within a map", "a list is taken whole", "another type"],
)
def test_only_what_is_stated_and_differs_is_changed(
    stated: dict[str, Any], live: dict[str, Any], expected: dict[str, Any]
) -> None:
    """As a JSON merge patch."""
    assert step_execution.make_merge_patch(stated, live) == expected
