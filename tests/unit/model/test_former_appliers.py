"""The fields that former appliers of an adopted object lose, and the owners of the other fields."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import former_appliers
from hearth.model.child import Object

OURS = "hearth:prod/shop"
WEB, SIDE = 'k:{"name":"web"}', 'k:{"name":"side"}'
LIVE = {"apiVersion": "apps/v1", "kind": "Deployment"}


def entry(manager: str, fields: Any, operation: str = "Update", **more: Any) -> Object:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields, **more}


def live(*entries: Object, **fields: Any) -> Object:
    """An object with these owners."""
    return {**LIVE, "metadata": {"managedFields": list(entries)}, **fields}


def take(*entries: Object, **manifest: Any) -> dict[str, Any] | None:
    """The fields that each manager owns after the adoption; None if nothing changes."""
    found = former_appliers.take_over(live(*entries), manifest, manager=OURS)
    return None if found is None else {each["manager"]: each["fieldsV1"] for each in found}


TWO: Object = {"f:data": {"f:a": {}, "f:b": {}}}


@pytest.mark.parametrize(
    "manager",
    [
        *former_appliers.APPLIERS,
        "pulumi-kubernetes-1a2b",
        "terraform-provider-helm_v2.9.0_x5",
        "hearth:prod/former",
    ],
)
@pytest.mark.parametrize("operation", ["Update", "Apply"])
def test_an_applier_loses_all(manager: str, operation: str) -> None:
    """Including fields that the manifest does not set, so that they are removed."""
    assert take(entry(manager, TWO, operation), data={"a": "1"}) == {OURS: TWO}


@pytest.mark.parametrize(
    ("manager", "operation"),
    [("before-first-apply", "Update"), ("kubectl-edit", "Update"), ("kubectl-create", "Update"), ("kubectl", "Update")],
)
def test_a_person_loses_what_the_manifest_states(manager: str, operation: str) -> None:
    found = take(entry(manager, TWO, operation), data={"a": "1"})
    assert found == {OURS: {"f:data": {"f:a": {}}}, manager: {"f:data": {"f:b": {}}}}


@pytest.mark.parametrize("manager", ["kube-controller-manager", "a-controller", "hearth-suspend", OURS, "Helmsman"])
def test_nobody_else_loses_anything(manager: str) -> None:
    assert take(entry(manager, TWO, "Apply"), data={"a": "1"}) is None


def test_a_subresource_is_left_alone() -> None:
    assert take(entry("kubectl-client-side-apply", {"f:status": {"f:a": {}}}, subresource="status")) is None


def test_what_a_controller_may_rely_on_stays_unless_it_is_stated() -> None:
    kept = {"f:spec": {"f:replicas": {}}, "f:metadata": {"f:finalizers": {'v:"x"': {}}}}
    fields = {"f:spec": {"f:replicas": {}, "f:paused": {}}, "f:metadata": {"f:finalizers": {'v:"x"': {}}}}
    assert take(entry("helm", fields), spec={}) == {OURS: {"f:spec": {"f:paused": {}}}, "helm": kept}
    stated = take(entry("helm", fields), spec={"replicas": 2}, metadata={"finalizers": ["x"]})
    assert stated is not None
    assert stated.keys() == {OURS}


def test_it_joins_what_the_stack_owns_already() -> None:
    mine = entry(OURS, {"f:data": {"f:c": {}}}, "Apply")
    assert take(mine, entry("helm", TWO)) == {OURS: {"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}}
    assert take(entry(OURS, TWO, "Apply"), entry("a-controller", TWO)) is None


def test_several_former_ones_and_versions() -> None:
    old = {**entry("helm", {"f:data": {"f:a": {}}}), "apiVersion": "apps/v1beta1"}
    new = entry("kubectl-client-side-apply", {"f:data": {"f:b": {}}})
    for entries in ([old, new], [new, old]):
        found = former_appliers.take_over(live(*entries), {}, manager=OURS)
        assert found is not None
        assert [(each["fieldsV1"], each["apiVersion"]) for each in found] == [(TWO, "apps/v1")]
    found = former_appliers.take_over(live(old), {}, manager=OURS)
    assert found is not None
    assert found[0]["apiVersion"] == "apps/v1beta1"


CONTAINERS: Object = {
    "f:spec": {"f:containers": {WEB: {".": {}, "f:name": {}, "f:image": {}}, SIDE: {".": {}, "f:name": {}}}}
}


def test_items_of_lists() -> None:
    found = take(entry("kubectl-edit", CONTAINERS), spec={"containers": [{"name": "web", "image": "a"}]})
    assert found == {
        OURS: {"f:spec": {"f:containers": {WEB: {".": {}, "f:name": {}, "f:image": {}}}}},
        "kubectl-edit": {"f:spec": {"f:containers": {SIDE: {".": {}, "f:name": {}}}}},
    }


def test_an_item_whose_key_has_a_default() -> None:
    port = 'k:{"port":80,"protocol":"TCP"}'
    fields: Object = {"f:spec": {"f:ports": {port: {".": {}, "f:port": {}}}}}
    assert take(entry("kubectl-edit", fields), spec={"ports": [{"port": 80}]}) == {OURS: fields}


def test_texts_of_a_secret_count_as_its_data() -> None:
    fields: Object = {"f:stringData": {"f:a": {}}, "f:type": {}}
    assert take(entry("kubectl", fields, "Apply")) == {OURS: {"f:data": {"f:a": {}}, "f:type": {}}}


def test_a_refused_removal_leaves_what_is_stated() -> None:
    there = live(entry(OURS, TWO, "Apply"), entry("x", {"f:a": {}}))
    found = former_appliers.reduce_claims(there, {"data": {"a": "1"}}, manager=OURS)
    assert found is not None
    assert [each["fieldsV1"] for each in found] == [{"f:data": {"f:a": {}}}, {"f:a": {}}]
    assert former_appliers.reduce_claims(there, {"data": {"a": "1", "b": "2"}}, manager=OURS) is None


def test_an_owner_beside_the_stack_gives_up_what_both_own() -> None:
    theirs: Object = {"f:data": {".": {}, "f:b": {}, "f:c": {}}}
    there = live(entry(OURS, TWO, "Apply"), entry("kustomize-controller", theirs, "Apply"))
    found = former_appliers.give_up_claims(there, {"data": {"a": "1"}}, manager=OURS)
    assert found is not None
    assert [each["fieldsV1"] for each in found] == [TWO, {"f:data": {".": {}, "f:c": {}}}]
    alone = live(entry(OURS, TWO, "Apply"), entry("a-controller", theirs, "Apply"))
    assert former_appliers.give_up_claims(alone, {}, manager=OURS) is None
    assert former_appliers.is_shared(there["metadata"]["managedFields"], there["metadata"]["managedFields"][0])
    assert not former_appliers.is_shared(alone["metadata"]["managedFields"], alone["metadata"]["managedFields"][0])


def test_a_secret_that_was_applied_with_texts() -> None:
    mine = entry(OURS, {"f:stringData": {"f:a": {}}, "f:type": {}}, "Apply")
    other = entry("someone", {"f:data": {"f:theirs": {}}})
    there = {**live(mine, other, data={"a": "eA==", "stale": "eA==", "theirs": "eA=="}), "kind": "Secret"}
    found = former_appliers.give_up_claims(there, {"data": {"a": "eQ=="}}, manager=OURS)
    assert found is not None
    assert [each["fieldsV1"] for each in found] == [
        {"f:type": {}, "f:data": {"f:stale": {}}},
        {"f:data": {"f:theirs": {}}},
    ]
    current = {**there, "data": {"a": "eA==", "theirs": "eA=="}}
    assert former_appliers.give_up_claims(current, {"data": {"a": "eQ=="}}, manager=OURS) is None


KEYS = st.sampled_from(["f:a", "f:b", "f:c", WEB, 'v:"x"'])
FIELDS: st.SearchStrategy[Any] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


def leaves(fields: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The paths of all leaf fields."""
    return {path} if not fields else {leaf for key, inner in fields.items() for leaf in leaves(inner, (*path, key))}


@given(one=FIELDS, other=FIELDS)
def test_sets_of_fields(one: Object, other: Object) -> None:
    before = orjson.dumps([one, other])
    both = former_appliers.merge(one, other)
    assert {leaf for leaf in leaves(one) | leaves(other) if leaf} >= {
        leaf for leaf in leaves(both) if "." not in leaf and leaf
    }
    rest = former_appliers.subtract(both, other)
    assert not leaves(rest) & (leaves(other) - {()}) - leaves(one)
    assert former_appliers.subtract(one, one) == {}
    assert orjson.dumps([one, other]) == before
