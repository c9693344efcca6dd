"""Fields of a live object that make the API server reject an apply, and the result of the apply without them."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import child
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.ownership import apply_obstacles

OURS = "hearth:default/shop"
ITEM_80, ITEM_8080, ITEM_9090 = (
    'k:{"port":80,"protocol":"TCP"}',
    'k:{"port":8080,"protocol":"TCP"}',
    'k:{"port":9090}',
)
WEB = {"name": "http", "port": 80, "protocol": "TCP"}


def own(value: Any) -> Object:
    """The `fieldsV1` of maps; all else has one owner as a whole."""
    return {f"f:{key}": own(inner) for key, inner in value.items()} if isinstance(value, dict) else {}


def own_free_form(value: Any) -> Object:
    """The same of free-form fields, whose maps have an entry of their own."""
    if not isinstance(value, dict):
        return {}
    return {".": {}, **{f"f:{key}": own_free_form(inner) for key, inner in value.items()}}


def make_live(parts: Object, *, ours: Object, others: Object | None = None) -> Object:
    """An object with these owners."""
    entries = [{"manager": OURS, "operation": "Apply", "fieldsV1": ours}]
    if others is not None:
        entries.append({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": others})
    return {"metadata": {"managedFields": entries}, **parts}


@pytest.mark.parametrize(
    ("stated", "live", "others", "expected"),
    [
        pytest.param({"spec": {}}, {"x": 1}, None, {"spec": {"x": None}}, id="the last key"),
        pytest.param({"spec": {}}, {"x": 1, "y": 2}, None, {"spec": {"x": None, "y": None}}, id="the last two keys"),
        pytest.param({}, {"x": 1}, None, {"spec": None}, id="the whole map"),
        pytest.param({"spec": {"y": 2}}, {"x": 1, "y": 2}, None, {}, id="another key stays"),
        pytest.param({"spec": {}}, {"x": 1}, {"f:spec": {"f:x": {}}}, {}, id="another client has the key too"),
        pytest.param({"spec": {"a": {}}}, {"a": {"x": 1}}, None, {"spec": {"a": {"x": None}}}, id="within a map"),
        pytest.param(
            {"spec": {"y": 2}}, {"a": {"x": 1}, "y": 2}, None, {"spec": {"a": None}}, id="an inner map is gone"
        ),
        pytest.param({"spec": {}}, {"a": {"x": 1}}, None, {"spec": {"a": None}}, id="all inner maps are gone"),
        pytest.param({"spec": {"x": 2}}, {"x": 1}, None, {}, id="a change"),
    ],
)
def test_what_would_become_null(stated: Object, live: Object, others: Object | None, expected: Object) -> None:
    found = make_live({"spec": live}, ours=own({"spec": live}), others=others)
    assert apply_obstacles.find_emptied({"metadata": {}, **stated}, found) == expected


@pytest.mark.parametrize(
    ("stated", "applied", "expected"),
    [
        pytest.param({"a": {}}, {"a": {"x": 1}}, True, id="the last key goes"),
        pytest.param({"a": {"b": {}, "y": 1}}, {"a": {"b": {"x": 1}, "y": 1}}, True, id="within a map"),
        pytest.param({"a": {}}, {"a": {}}, False, id="it was empty before"),
        pytest.param({"a": {}}, {"b": 1}, False, id="it is new"),
        pytest.param({"a": {"y": 1}}, {"a": {"x": 1}}, False, id="it gets another key"),
        pytest.param({"y": 1}, {"a": {"x": 1}}, False, id="it is dropped as a whole"),
    ],
)
@pytest.mark.parametrize("group", ["apps", "example.com"])
def test_where_an_apply_alone_leaves_null(stated: Object, applied: Object, expected: bool, group: str) -> None:
    kind = Kind(group=group, version="v1", name="Thing", plural="things", namespaced=True)
    live = make_live({"spec": applied}, ours={"f:spec": own_free_form(applied)})
    live["metadata"] |= {"name": "web", "uid": "u", "resourceVersion": "1"}
    present = child.parse_child(live, kind=kind, paths=())
    found = apply_obstacles.leaves_null({"metadata": {}, "spec": stated}, present)
    assert found == (expected and group == "example.com")


def test_a_key_without_an_owner_keeps_its_map() -> None:
    live = make_live({"spec": {"x": 1, "default": True}}, ours=own({"spec": {"x": 1}}))
    assert apply_obstacles.find_emptied({"spec": {}}, live) == {}


VOLUME: Object = {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}
OTHER: Object = {"name": "w", "emptyDir": {"medium": "Memory"}}
NO_LIMIT: Object = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize(
    ("stated", "others", "expected"),
    [
        pytest.param([NO_LIMIT], {}, {"spec": {"volumes": [OTHER, NO_LIMIT]}}, id="its last key"),
        pytest.param([{"name": "v"}], {}, {"spec": {"volumes": [OTHER, {"name": "v"}]}}, id="the map itself"),
        pytest.param([VOLUME], {}, {}, id="it stays"),
        pytest.param([NO_LIMIT], {"f:emptyDir": {"f:sizeLimit": {}}}, {}, id="another client has the key too"),
    ],
)
def test_a_map_within_a_list_item_that_becomes_empty(stated: list[Object], others: Object, expected: Object) -> None:
    ours: Object = {'k:{"name":"v"}': {".": {}, "f:name": {}, "f:emptyDir": {"f:sizeLimit": {}}}}
    theirs = {'k:{"name":"w"}': {".": {}, "f:name": {}, "f:emptyDir": {"f:medium": {}}}, 'k:{"name":"v"}': others}
    live = make_live(
        {"spec": {"volumes": [OTHER, VOLUME], "x": 1}},
        ours={"f:spec": {"f:volumes": ours, "f:x": {}}},
        others={"f:spec": {"f:volumes": theirs}},
    )
    assert apply_obstacles.find_emptied({"spec": {"x": 1, "volumes": stated}}, live) == expected


@pytest.mark.parametrize(("stated", "expected"), [([], {"spec": {"ports": []}}), (None, {"spec": {"ports": None}})])
def test_a_list_that_becomes_empty(stated: list[Object] | None, expected: Object) -> None:
    ours: Object = {"f:spec": {"f:ports": {ITEM_80: {".": {}}}, "f:x": {}}}
    live = make_live({"spec": {"ports": [WEB], "x": 1}}, ours=ours)
    manifest = {"spec": {"x": 1, **({"ports": stated} if stated is not None else {})}}
    assert apply_obstacles.find_emptied(manifest, live) == expected


def service(*ports: Object) -> Object:
    """A Service with these ports; another client owns all but the first."""
    elements = {80: ITEM_80, 8080: ITEM_8080}
    ours: Object = {"f:spec": {"f:ports": {ITEM_80: {".": {}, "f:port": {}}}}}
    others: Object = {"f:spec": {"f:ports": {elements[port["port"]]: {".": {}, "f:name": {}} for port in ports[1:]}}}
    return make_live({"spec": {"clusterIP": "10.0.0.1", "ports": list(ports)}}, ours=ours, others=others)


def test_items_of_others_are_found_and_kept() -> None:
    other = {"name": "metrics", "port": 8080, "protocol": "TCP"}
    stated = {"name": "web", "port": 80}
    wanted, foreign = apply_obstacles.predict({"spec": {"ports": [stated]}}, service(WEB, other))
    assert wanted == {"spec": {"clusterIP": "10.0.0.1", "ports": [{**WEB, "name": "web"}, other]}}
    assert foreign == [("f:spec", "f:ports", ITEM_8080)]
    less, _ = apply_obstacles.predict({"spec": {"ports": [stated]}}, service(WEB, other), dropped=foreign)
    assert less["spec"]["ports"] == [{**WEB, "name": "web"}]


@pytest.mark.parametrize(
    ("live", "stated"),
    [
        pytest.param([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], id="another order"),
        pytest.param([{"name": "a"}], [{"name": "b"}, {"name": "a"}], id="a new first item"),
        pytest.param([{}], [{}], id="an item with an empty key"),
    ],
)
def test_a_list_without_items_of_others_becomes_as_the_manifest(live: list[Object], stated: list[Object]) -> None:
    owned: Object = {f'k:{{"name":"{item.get("name", "")}"}}': {".": {}, "f:name": {}} for item in live}
    present = make_live({"spec": {"items": live}}, ours={"f:spec": {"f:items": owned}})
    assert apply_obstacles.predict({"spec": {"items": stated}}, present) == ({"spec": {"items": stated}}, [])


def test_an_own_item_that_the_manifest_drops_is_no_obstacle() -> None:
    stated = {"name": "web", "port": 9090, "protocol": "TCP"}
    wanted, foreign = apply_obstacles.predict({"spec": {"ports": [stated]}}, service(WEB))
    assert (wanted["spec"]["ports"], foreign) == ([stated], [])


def test_a_long_list_is_not_compared() -> None:
    ports = [{"name": f"p{at}", "port": at, "protocol": "TCP"} for at in range(1, 1000)]
    others: Object = {"f:spec": {"f:ports": {f'k:{{"port":{at},"protocol":"TCP"}}': {} for at in range(1, 1000)}}}
    live = make_live({"spec": {"ports": ports}}, ours={"f:spec": {}}, others=others)
    assert apply_obstacles.predict({"spec": {"ports": [WEB]}}, live)[1] == []


def test_an_item_that_is_handed_over_is_ours_alone() -> None:
    entries = apply_obstacles.hand_over(service(WEB, {"port": 8080}), [("f:spec", "f:ports", ITEM_8080)])
    assert [entry["manager"] for entry in entries] == [OURS]
    assert entries[0]["fieldsV1"]["f:spec"]["f:ports"] == {ITEM_80: {".": {}, "f:port": {}}, ITEM_8080: {".": {}}}


def test_another_item_stays_with_its_owner() -> None:
    others: Object = {"f:spec": {"f:ports": {ITEM_8080: {}, ITEM_9090: {}}}}
    live = make_live({"spec": {}}, ours={"f:spec": {"f:x": {}}}, others=others)
    live["metadata"]["managedFields"].append({"manager": "m", "subresource": "status", "fieldsV1": {"f:status": {}}})
    entries = apply_obstacles.hand_over(live, [("f:spec", "f:ports", ITEM_8080)])
    assert [entry["fieldsV1"] for entry in entries[1:]] == [{"f:spec": {"f:ports": {ITEM_9090: {}}}}, {"f:status": {}}]


@pytest.mark.parametrize(
    ("answer", "is_expected"),
    [
        pytest.param({"x": 2, "y": 1}, True, id="as predicted"),
        pytest.param({"x": 2, "y": 7}, False, id="another field changed"),
        pytest.param({"x": 2}, False, id="another field gone"),
        pytest.param({"x": 2, "y": 1, "z": 1}, False, id="another field came"),
    ],
)
def test_a_dry_run_that_changes_anything_else_is_noticed(answer: Object, is_expected: bool) -> None:
    live = {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1, "y": 1}}
    wanted = {"spec": {"x": 2, "y": 1}}
    found = {"metadata": {"labels": {"a": "b"}, "resourceVersion": "9"}, "spec": answer, "status": {}}
    assert apply_obstacles.is_as_predicted(found, wanted, live) is is_expected
    found["metadata"]["labels"] = {"a": "c"}
    assert not apply_obstacles.is_as_predicted(found, wanted, live)


def test_an_item_that_is_missing_in_the_answer_is_noticed() -> None:
    live = {"metadata": {}, "spec": {"ports": [{"port": 1}, {"port": 2}]}}
    wanted = {"spec": {"ports": [{"port": 1}, {"port": 3}]}}
    good = {"metadata": {}, "spec": {"ports": [{"port": 1}, {"port": 3, "protocol": "TCP"}]}}
    bad = {"metadata": {}, "spec": {"ports": [{"port": 7}, {"port": 3, "protocol": "TCP"}]}}
    assert [apply_obstacles.is_as_predicted(each, wanted, live) for each in (good, bad)] == [True, False]
