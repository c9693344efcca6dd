"""The words about whose an object is, read from templates that are sound or not."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.template.parser import policies


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"resources": {"a": {"deletionPolicy": "Retain"}, "b": {"deletionPolicy": "Delete"}, "c": {}}}, {"a"}),
        ({"resources": {"a": {"deletionPolicy": "Retain", "manifest": "${((("}, "b": 7, 3: {}}}, {"a"}),
        ({"resources": ["a"]}, set()),
        ("nonsense", set()),
        (None, set()),
    ],
    ids=["sound", "mistakes elsewhere", "no map of resources", "no template", "nothing"],
)
def test_what_must_be_retained_is_read_despite_other_errors(template: Any, expected: set[str]) -> None:
    """A broken template must still delete, and keep what it says."""
    assert policies.find_retained(template) == expected
