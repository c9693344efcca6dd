"""The spec after an apply of a file: merged by kubectl, or applied by the Stack's earlier field manager."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.cli.stack_access import dry_runs
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.ownership import apply_obstacles


@pytest.mark.parametrize(
    ("old", "new", "now", "merged"),
    [
        pytest.param({"a": 1}, {"a": 2}, {"a": 1}, {"a": 2}, id="changed"),
        pytest.param({"a": 1, "b": 1}, {"a": 1}, {"a": 1, "b": 1}, {"a": 1}, id="removed from the file"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "c": 1}, {"a": 1, "c": 1}, id="set by another"),
        pytest.param({"a": {"x": 1, "y": 1}}, {"a": {"x": 2}}, {"a": {"x": 1, "y": 1, "z": 1}}, {"a": {"x": 2, "z": 1}}, id="within"),
        pytest.param({}, {"a": [1]}, {"a": [2, 3]}, {"a": [1]}, id="lists as a whole"),
        pytest.param({"a": {"x": 1}}, {"a": 3}, {"a": {"x": 1}}, {"a": 3}, id="another type"),
    ],
)  # fmt: skip
def test_a_file_is_merged_as_kubectl_does(old: Object, new: Object, now: Object, merged: Object) -> None:
    assert apply_obstacles.patched(now, dry_runs.merge_three(old, new, now)) == merged


def stack(*entries: Any, **annotations: str) -> Object:
    """A live Stack with these field managers."""
    return {"metadata": {"annotations": annotations, "managedFields": list(entries)}, "spec": {"paused": True}}


@pytest.mark.parametrize("field", ["f:template", "f:templateRef", "f:templateRefs"])
def test_the_field_manager_that_applied_the_template_applies_the_file(field: str) -> None:
    applied = {"manager": "flux", "operation": "Apply", "fieldsV1": {"f:spec": {field: {}}}}
    other = {"manager": "pauser", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}}
    updated = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {}}}}
    assert dry_runs.find_applier(stack(other, updated, applied)) == "flux"
    assert dry_runs.find_applier(stack(other, updated)) == ""
    last = orjson.dumps({"spec": {}}).decode()
    assert dry_runs.find_applier(stack(applied, **{names.KUBECTL_LAST_APPLIED: last})) == ""


def test_an_annotation_of_another_form_counts_for_nothing() -> None:
    for text in ("", "[]", "{", "null"):
        assert dry_runs.find_last_applied(stack(**{names.KUBECTL_LAST_APPLIED: text})) is None
