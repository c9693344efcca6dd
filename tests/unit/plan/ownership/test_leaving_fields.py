"""Fields that are removed from a definition, and owners that keep them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import names
from hearth.model.child import FieldOwnership, Object
from hearth.model.kinds import Kind
from hearth.plan.ownership import leaving_fields

SERVICE = Kind(group="", version="v1", name="Service", plural="services", namespaced=True)
OTHER = Kind(group="example.com", version="v1", name="Service", plural="services", namespaced=True)
PORTS: Object = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}, "f:nodePort": {}}}}
OWN = {"manager": f"{names.FIELD_MANAGER_PREFIX}a/b", "operation": "Apply", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("ours", "stated", "expected"),
    [
        pytest.param({"f:spec": {"f:a": {}, "f:b": {}}}, {"spec": {"a": 1}}, ["spec.b"], id="a field"),
        pytest.param({"f:spec": {"f:a": {}}}, {"spec": {"a": None}}, ["spec.a"], id="null is no value"),
        pytest.param({"f:spec": {"f:a": {"f:b": {}, "f:c": {}}}}, {}, ["spec.a.b", "spec.a.c"], id="a map with its fields"),
        pytest.param({"f:spec": {"f:a": {}}}, {"spec": {"a": {"b": 1}}}, [], id="a map with one owner"),
        pytest.param({"f:spec": PORTS}, {"spec": {"ports": [{"port": 80, "name": "x"}]}}, ['spec.ports[port=80,protocol="TCP"].nodePort'], id="a field of an item that omits a default key"),
        pytest.param({"f:spec": PORTS}, {"spec": {"ports": [{"port": 81}]}}, ['spec.ports[port=80,protocol="TCP"]'], id="an item as a whole"),
        pytest.param({"f:spec": {"f:hosts": {'v:"a"': {}, 'v:"b"': {}}}}, {"spec": {"hosts": ["b"]}}, ['spec.hosts[="a"]'], id="a member of a set"),
        pytest.param({"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}}, {}, ["metadata.labels.a", "metadata.labels.b"], id="labels"),
        pytest.param({"f:metadata": {"f:annotations": {"f:hearth.dev/last-applied-fields": {}}}}, {}, [], id="a record of the operator"),
        pytest.param({"f:metadata": {"f:name": {}}, "f:status": {"f:a": {}}}, {}, [], id="what no client applies"),
    ],
)  # fmt: skip
def test_what_leaves(ours: Object, stated: Object, expected: list[str]) -> None:
    found = leaving_fields.find_leaving(
        {"metadata": {"name": "a"}, **stated}, FieldOwnership(fields=orjson.dumps(ours))
    )
    assert [leaving_fields.describe_path(path) for path in found] == expected


@pytest.mark.parametrize(
    ("fields", "is_theirs"),
    [
        pytest.param({"f:spec": {"f:a": {"f:b": {}}}}, True, id="the field"),
        pytest.param({"f:spec": {"f:a": {"f:b": {"f:c": {}}}}}, True, id="a part of it"),
        pytest.param({"f:spec": {"f:a": {}}}, True, id="all around it"),
        pytest.param({"f:spec": {"f:a": {".": {}, "f:x": {}}}}, False, id="what is beside it"),
        pytest.param({}, False, id="nothing"),
    ],
)
@pytest.mark.parametrize("subresource", ["", "scale"])
def test_whose_a_field_is(fields: Object, subresource: str, *, is_theirs: bool) -> None:
    theirs = {"manager": "theirs", "operation": "Update", "subresource": subresource, "fieldsV1": fields}
    raw = {"metadata": {"managedFields": [{**OWN, "fieldsV1": {}}, theirs]}}
    assert leaving_fields.find_owners(raw, ("f:spec", "f:a", "f:b")) == ({"theirs"} if is_theirs else set())


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        (SERVICE, ("f:spec", "f:clusterIP"), "10.0.0.1", True),
        (SERVICE, ("f:spec", "f:clusterIP"), "None", False),
        (SERVICE, ("f:spec", "f:clusterIPs"), ["None"], False),
        (SERVICE, ("f:spec", "f:ipFamilyPolicy"), "PreferDualStack", False),
        (OTHER, ("f:spec", "f:clusterIP"), "10.0.0.1", False),
    ],
)
def test_what_the_server_may_choose(kind: Kind, path: tuple[str, ...], value: Any, *, expected: bool) -> None:
    assert leaving_fields.is_allocated(kind, path, value) is expected


def test_an_alias_is_equal_and_has_no_owner() -> None:
    spec = {"name": "x", "old": "x", "set": "x", "theirs": "x", "other": "y", "usual": "x"}
    theirs = {"manager": "theirs", "operation": "Update", "fieldsV1": {"f:spec": {"f:theirs": {}}}}
    live = {
        "metadata": {"managedFields": [{**OWN, "fieldsV1": {"f:spec": {"f:name": {}, "f:set": {}}}}, theirs]},
        "spec": spec,
    }
    created, manifest = {"spec": {"usual": "x", "set": "x"}}, {"spec": {"set": "x"}}
    found = leaving_fields.find_aliases([("f:spec", "f:name")], live, created, manifest)
    assert found == [("f:spec", "f:old")]


def test_fields_are_claimed_from_the_placeholder_only() -> None:
    entries = [
        {"manager": "before-first-apply", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}},
        {"manager": "theirs", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}},
    ]
    claimed = leaving_fields.claim(
        {"metadata": {"managedFields": entries}}, [("f:data", "f:a")], manager="hearth:a/b", version="v1"
    )
    assert {each["manager"]: each["fieldsV1"] for each in claimed} == {
        "before-first-apply": {"f:data": {"f:b": {}}},
        "theirs": {"f:data": {"f:c": {}}},
        "hearth:a/b": {"f:data": {"f:a": {}}},
    }


KEYS = st.sampled_from("abc")
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, 1, "x", [], {}]), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OWNED: st.SearchStrategy[Any] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(KEYS.map("f:{}".format) | st.just("."), inner, max_size=3), max_leaves=8
)


@given(ours=OWNED, stated=VALUES)
def test_the_quick_look_never_hides_what_leaves(ours: Object, stated: Any) -> None:
    if leaving_fields.states_all(ours, stated):
        assert list(leaving_fields.find_unstated(ours, stated, ())) == []
