"""The record of applied values separates drift of a field in `replaceOn` from a change of the definition."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.resource import replaced_fields

KEY = KeyedHasher(b"a key for tests, long enough")


@pytest.mark.parametrize(
    ("before", "live", "after", "expected"),
    [
        pytest.param(1, 9, 1, 9, id="a value drifted"),
        pytest.param(1, None, 1, None, id="a value was removed"),
        pytest.param(1, 1, 2, 2, id="the definition changed"),
        pytest.param(1, 9, 2, 2, id="both"),
        pytest.param({"x": 1, "y": 1}, {"x": 9, "y": 1}, {"x": 1, "y": 2}, {"x": 9, "y": 2}, id="one key each"),
        pytest.param({"x": 1}, None, {"x": 1}, None, id="a map was removed"),
        pytest.param({"x": 1}, None, {"x": 2}, {"x": 2}, id="a map was removed, and the definition changed"),
        pytest.param(["a"], ["b"], ["a"], ["b"], id="a list drifted"),
        pytest.param([{"name": "a"}], [], [{"name": "a"}], [{"name": "a"}], id="items are compared as they are"),
    ],
)
def test_drift_is_overlooked(before: Any, live: Any, after: Any, expected: Any) -> None:
    """What was applied with that value before is compared as it is now."""
    options: Any = {"whole": False, "ignored": (), "replacing": (("spec", "part"),), "owner": "uid/web", "hashes": KEY}
    old = applied_fields.make_applied_fields({"spec": {"part": before, "other": 1}}, **options)
    new = applied_fields.make_applied_fields({"spec": {"part": after, "other": 2}}, **options)
    assert old is not None
    assert new is not None
    known = applied_fields.split(old.record)
    assert replaced_fields.overlook_drift(after, live, ("spec", "part"), new, known) == expected


def test_a_field_that_the_manifest_does_not_set_needs_no_record() -> None:
    """Setting it later is a change in any case."""
    found = applied_fields.make_applied_fields(
        {"spec": {"other": 1}}, whole=False, ignored=(), replacing=(("spec", "part"),), owner="uid/web", hashes=KEY
    )
    assert found is None
