"""Field ownership as the API server keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from support.server import field_sets, managed_fields
from support.server.field_sets import Shape

DEPLOYMENT = Shape(kind="Deployment")
CUSTOM = Shape(kind="Probe", is_custom=True)


def spec(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": fields}


@pytest.mark.parametrize(
    ("raw", "shape", "fields"),
    [
        pytest.param(spec(a=1, b={"c": 2}), DEPLOYMENT, {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}, id="maps"),
        pytest.param(spec(a={}, b=None), DEPLOYMENT, {"f:spec": {"f:a": {}, "f:b": {}}}, id="empty maps are leaves"),
        pytest.param(spec(args=["x", "y"]), DEPLOYMENT, {"f:spec": {"f:args": {}}}, id="atomic list"),
        pytest.param(
            spec(containers=[{"name": "web", "image": "x"}]),
            DEPLOYMENT,
            {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}}},
            id="keyed list",
        ),
        pytest.param(
            spec(containers=[{"name": "web", "ports": [{"containerPort": 80}]}]),
            DEPLOYMENT,
            {
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"web"}': {
                            ".": {},
                            "f:name": {},
                            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                        }
                    }
                }
            },
            id="a key that is left out takes its default",
        ),
        pytest.param(spec(containers=[]), DEPLOYMENT, {}, id="empty keyed lists are without an owner"),
        pytest.param(
            spec(containers=[{"name": "web"}]), CUSTOM, {"f:spec": {"f:containers": {}}}, id="custom: all lists atomic"
        ),
        pytest.param(
            spec(m={"a": {"b": 1}}),
            Shape(kind="Stack", is_custom=True, free=(("spec",),)),
            {"f:spec": {"f:m": {".": {}, "f:a": {".": {}, "f:b": {}}}}},
            id="free-form maps are members themselves",
        ),
        pytest.param(
            {"metadata": {"name": "x", "uid": "1", "finalizers": ["a/b"], "labels": {"l": "1"}}, "status": {"x": 1}},
            DEPLOYMENT,
            {"f:metadata": {"f:finalizers": {'v:"a/b"': {}}, "f:labels": {"f:l": {}}}},
            id="neither system fields nor status",
        ),
    ],
)
def test_fields_v1(raw: dict[str, Any], shape: Shape, fields: dict[str, Any]) -> None:
    found = field_sets.field_set(raw, shape)
    assert field_sets.to_fields_v1(found) == fields
    assert frozenset(field_sets.from_fields_v1(fields)) == found


def test_dotted_path() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"web"}', "f:image")
    assert field_sets.dotted(path) == '.spec.containers[name="web"].image'


def test_merge_of_keyed_lists() -> None:
    live = spec(containers=[{"name": "sidecar"}, {"name": "web", "image": "old", "tty": True}])
    wanted = spec(containers=[{"name": "web", "image": "new"}, {"name": "third"}])
    merged = field_sets.merge(live, wanted, DEPLOYMENT)
    assert merged["spec"]["containers"] == [
        {"name": "sidecar"},
        {"name": "web", "image": "new", "tty": True},
        {"name": "third"},
    ]


def test_item_that_is_no_longer_stated_goes() -> None:
    def apply(live: Any, *names: str, manager: str = "one") -> dict[str, Any]:
        manifest = spec(containers=[{"name": name} for name in names])
        return managed_fields.apply(live, manifest, DEPLOYMENT, manager=manager, force=True, time="")

    live = apply(apply(None, "a", "b", "c"), "b", manager="two")
    after = apply(live, "a")
    assert [item["name"] for item in after["spec"]["containers"]] == ["a", "b"]


def test_field_of_an_item_outlives_it() -> None:
    live = managed_fields.apply(
        None, spec(containers=[{"name": "a"}, {"name": "b"}]), DEPLOYMENT, manager="one", force=True, time=""
    )
    theirs = spec(containers=[{"name": "b", "tty": True}])
    live = managed_fields.apply(live, theirs, DEPLOYMENT, manager="two", force=True, time="")
    after = managed_fields.apply(live, spec(containers=[{"name": "a"}]), DEPLOYMENT, manager="one", force=True, time="")
    assert after["spec"]["containers"] == [{"name": "a"}, {"name": "b", "tty": True}]


def test_update_owns_what_it_changed() -> None:
    live = managed_fields.apply(None, spec(a=1, b=1), CUSTOM, manager="ours", force=True, time="")
    changed = managed_fields.record_update(live, {**live, "spec": {"a": 2, "b": 1}}, CUSTOM, manager="theirs", time="")
    found = {entry.name: field_sets.to_fields_v1(entry.fields) for entry in managed_fields.parse(changed)}
    assert found == {"ours": {"f:spec": {"f:b": {}}}, "theirs": {"f:spec": {"f:a": {}}}}
