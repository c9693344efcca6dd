"""Detection of changed values, regardless of the owner."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.state import altered_values

MANIFEST: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "w", "hearth.dev/resource": "web"}},
    "spec": {
        "replicas": 2,
        "args": ["a", "b"],
        "containers": [{"name": "x", "image": "i:1"}],
        "empty": [],
        "none": None,
    },
}
LIVE: dict[str, Any] = {
    "metadata": {"labels": {"app": "w", "more": "theirs", "hearth.dev/resource": "other"}},
    "spec": {
        "replicas": 2,
        "args": ["a", "b"],
        "containers": [{"name": "x", "image": "i:1", "pull": "Always"}, {"name": "sidecar"}],
    },
}


def change(**spec: Any) -> dict[str, Any]:
    """The live object with another spec."""
    return {**LIVE, "spec": {**LIVE["spec"], **spec}}


@pytest.mark.parametrize(
    ("live", "found"),
    [
        pytest.param(LIVE, [], id="all as stated, and more"),
        pytest.param(change(replicas=3), ["spec.replicas"], id="a number"),
        pytest.param(change(args=["a"]), ["spec.args"], id="a list of texts"),
        pytest.param(change(containers=[{"name": "x", "image": "evil"}]), ["spec.containers[0].image"], id="in a list"),
        pytest.param(change(containers=[]), ["spec.containers[0].name", "spec.containers[0].image"], id="an item gone"),
        pytest.param({**LIVE, "metadata": {}}, ["metadata.labels.app"], id="a label, and none of ours"),
        pytest.param({**LIVE, "spec": "odd"}, ["spec.replicas", "spec.args", "spec.containers[0].name",
                     "spec.containers[0].image"], id="another shape"),
    ],
)  # fmt: skip
def test_what_looks_changed(live: dict[str, Any], found: list[str]) -> None:
    assert [altered_values.write_path(place) for place in altered_values.find_candidates(MANIFEST, live)] == found


def test_what_every_apply_changes_is_no_change() -> None:
    live = {
        "metadata": {"name": "a", "resourceVersion": "1", "annotations": {"hearth.dev/requires": "a/1"}},
        "data": {},
    }
    applied = {"metadata": {"name": "a", "resourceVersion": "2", "managedFields": []}, "data": {}, "status": {}}
    assert not altered_values.is_changed_by(applied, live)
    assert altered_values.is_changed_by({**applied, "data": {"a": "b"}}, live)
    assert altered_values.is_changed_by({**applied, "metadata": {"labels": {"app": "x"}}}, live)
