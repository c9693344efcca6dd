"""The fields that differ between two states of an object: none if and only if the states are equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.child import Object
from hearth.plan.ownership import field_changes


def find(old: Any, new: Any) -> list[str]:
    """The texts of the changed fields within a spec."""
    return [change.text for change in field_changes.find_changes(make(old), make(new))]


def make(value: Any) -> Object:
    """An object with this field."""
    return {"metadata": {"name": "a"}, "spec": {"a": value}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], ["spec.a[order]"], id="another order"),
        pytest.param([{"name": "a"}], [{"name": "b"}, {"name": "a"}], ["spec.a[name=b]", "spec.a[order]"], id="a new first item"),
        pytest.param([{"name": "a"}], [{"name": "a"}, {"name": "b"}], ["spec.a[name=b]"], id="a new last item"),
        pytest.param([{"name": "a"}, {"name": "b"}], [{"name": "b"}], ["spec.a[name=a]"], id="a first item less"),
        pytest.param(["a", "b"], ["b", "a"], ["spec.a[0]", "spec.a[1]"], id="another order of texts"),
        pytest.param([{"x": {"name": "a"}}, {}], [{}, {"x": {"name": "a"}}], ["spec.a[0].x", "spec.a[1].x"], id="another order of items without names"),
        pytest.param({}, None, ["spec.a"], id="an empty map becomes null"),
        pytest.param({}, [], ["spec.a"], id="an empty map becomes an empty list"),
        pytest.param([{}], [], ["spec.a"], id="a list loses its empty item"),
        pytest.param(1, True, ["spec.a"], id="a number becomes a truth value"),
        pytest.param([1], [True], ["spec.a[0]"], id="the same within a list"),
        pytest.param("1", 1, ["spec.a"], id="a text becomes a number"),
        pytest.param("a", "a ", ["spec.a"], id="white space"),
    ],
)  # fmt: skip
def test_every_difference_is_a_change(old: Any, new: Any, expected: list[str]) -> None:
    assert find(old, new) == expected


def test_a_field_that_appears_empty_is_a_change_if_both_are_stored() -> None:
    before: dict[str, Any] = {"metadata": {}, "spec": {}}
    after: dict[str, Any] = {"metadata": {}, "spec": {"selector": {}}}
    assert [change.text for change in field_changes.find_changes(before, after)] == ["spec.selector"]
    assert field_changes.find_changes(before, after, is_stored=False) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "1", "a "]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "port", "a", "b.c"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(old=VALUES, new=VALUES)
def test_there_is_no_change_only_between_equal_values(old: Any, new: Any) -> None:
    is_equal = field_changes.is_same(old, new)
    assert (find(old, new) == []) == is_equal


def make_service(*ports: Object, **spec: object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": list(ports), **spec}}


def test_only_new_allocated_values_are_hidden() -> None:
    before = make_service({"port": 80, "nodePort": 30001}, clusterIP="10.0.0.1")
    stated = make_service({"port": 80}, {"port": 81, "nodePort": 30002}, {"port": 82})
    after = make_service(
        {"port": 80, "nodePort": 30001},
        {"port": 81, "nodePort": 30002},
        {"port": 82, "nodePort": 30003},
        clusterIP="10.0.0.1",
        healthCheckNodePort=30004,
    )
    assert field_changes.hide_allocated(after, (before, stated)) == make_service(
        {"port": 80, "nodePort": 30001},
        {"port": 81, "nodePort": 30002},
        {"port": 82, "nodePort": field_changes.NOT_ALLOCATED},
        clusterIP="10.0.0.1",
        healthCheckNodePort=field_changes.NOT_ALLOCATED,
    )


def test_fields_of_the_same_name_in_other_kinds_are_shown() -> None:
    raw = {"apiVersion": "example.com/v1", "kind": "Balancer", "spec": {"nodePort": 30001}}
    assert field_changes.hide_allocated(raw, ()) == raw
