"""Manifests and live objects on the page: everything is shown except sensitive values."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.stack_views import shown_objects, stated_values
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model.kinds import Kind

SECRET_TEXT = "geheim-1"


def manifest(kind: str = "ConfigMap", **fields: Any) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": kind} | fields}


RESOURCES = {
    "copy": manifest(data={"from": "${key.data.password}", "size": "${params.size}"}),
    "further": manifest(data={"whole": "${copy.data.from}", "size": "${copy.data.size}"}),
    "key": manifest("Secret", stringData={"password": "${params.password}"}),
    "stated": manifest("Secret", data={"literal": "Z2VoZWlt"}),
    "web": manifest(
        "Deployment", spec={"containers": [{"name": "app", "env": [{"name": "A", "value": "${params.password}"}]}]}
    ),
    "odd": manifest(data={"broken": "${params.}"}),
    "many": manifest(data={"each": "${item.text}"}) | {"forEach": "params.items"},
    "plain": manifest(data={"text": "nothing"}),
}


def take(**spec: Any) -> StackObjects:
    parameters = {
        "password": {"type": "string", "sensitive": True},
        "items": {"type": "array", "sensitive": True},
        "size": {"type": "string"},
    }
    stack = StackState({"metadata": {"name": "shop", "uid": "u-1"}, "spec": spec})
    return StackObjects(stack=stack, template={"parameters": parameters, "resources": RESOURCES}, children=[])


def show(resource: str, kind: str = "ConfigMap", /, objects: StackObjects | None = None, **fields: Any) -> Any:
    """The live object on the page."""
    metadata = {"name": resource, "labels": {"hearth.dev/resource": resource}, "managedFields": [{"a": 1}]}
    raw = {"apiVersion": "v1", "kind": kind, "metadata": metadata | fields.pop("metadata", {})} | fields
    kind_ = Kind(group="", version="v1", name=kind, plural="x", namespaced=True)
    return shown_objects.show_object(objects or take(), FoundChild(kind_, raw))


def test_values_are_followed_from_resource_to_resource() -> None:
    assert shown_objects.find_sensitive_fields(take()) == {
        "copy": {("data", "from")},
        "further": {("data", "whole")},
        "key": {("data",), ("stringData",), ("stringData", "password")},
        "stated": {("data",), ("stringData",)},
        "web": {("spec", "containers", 0, "env", 0, "value")},
        "odd": {("data", "broken")},
        "many": {("data", "each")},
        "plain": set(),
    }


def test_secrets_that_are_only_read_are_sensitive() -> None:
    reference = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    resources = {
        "db": {"externalRef": reference},
        "all": {"externalRef": {**reference, "metadata": {"selector": {}}}},
        "any": {"externalRef": {**reference, "kind": "${params.kind}"}},
        "public": {"externalRef": {**reference, "kind": "ConfigMap"}},
        "one": manifest(data={"a": "${db.data.key}", "b": "${db.metadata.name}", "c": "${public.data.key}"}),
        "many": manifest(data={"a": "${all.map(each, each.data.key).join()}"}),
        "each": manifest(data={"a": "${item.data.key}"}) | {"forEach": "all"},
        "maybe": manifest(data={"a": "${any.data.key}"}),
    }
    stack = StackState({"metadata": {"name": "shop", "uid": "u-1"}, "spec": {}})
    found = shown_objects.find_sensitive_fields(
        StackObjects(stack=stack, template={"resources": resources}, children=[])
    )
    read = ("one", "many", "each", "maybe")
    assert {name: found[name] for name in read} == {name: {("data", "a")} for name in read}


def test_a_sensitive_value_is_hidden_wherever_the_object_has_it() -> None:
    annotations = {"copied": f"it is {SECRET_TEXT}", "kubectl.kubernetes.io/last-applied-configuration": SECRET_TEXT}
    shown = show("further", metadata={"annotations": annotations}, data={"whole": SECRET_TEXT, "size": "small"})

    assert SECRET_TEXT not in str(shown)
    assert shown["data"] == {"whole": "(sensitive)", "size": "small"}
    assert "managedFields" not in shown["metadata"]


@pytest.mark.parametrize("resource", ["key", "stated", "plain"])
def test_a_secret_is_shown_by_its_keys(resource: str) -> None:
    shown = show(resource, "Secret", data={"password": "Z2VoZWlt"}, type="Opaque")

    assert shown["data"] == {"password": "(sensitive)"}
    assert shown["type"] == "Opaque"
    assert "Z2VoZWlt" not in str(shown_objects.show_manifest(take(), "stated"))


def test_admission_may_insert_before_a_sensitive_item() -> None:
    first, mine = {"name": "proxy", "env": []}, {"name": "app", "env": [{"name": "A", "value": SECRET_TEXT}]}
    shown = show("web", "Deployment", spec={"containers": [first, mine]})
    assert shown["spec"]["containers"][0] == first
    assert shown["spec"]["containers"][1]["env"] == [{"name": "A", "value": "(sensitive)"}]

    renamed = show("web", "Deployment", spec={"containers": [first, mine | {"name": "other"}]})
    assert renamed["spec"] == {"containers": "(sensitive)"}


def test_a_parameter_from_a_secret_is_sensitive_by_itself() -> None:
    source = [{"secretRef": {"name": "db"}}]
    assert stated_values.find_sensitive_parameters(take(parametersFrom=source)) == {"password", "items", "size"}
    stated = take(parametersFrom=source, parameters={"size": "s"})
    assert stated_values.find_sensitive_parameters(stated) == {"password", "items"}


def test_a_value_in_the_spec_is_hidden_in_the_manifest() -> None:
    snapshot = take(parameters={"password": "nothing"})

    assert shown_objects.show_manifest(snapshot, "plain")["manifest"]["data"] == {"text": "(sensitive)"}
    assert shown_objects.show_manifest(take(), "copy")["manifest"]["data"]["from"] == "${key.data.password}"


@pytest.mark.parametrize("raw", [{"data": None}, {"data": "text"}, {"data": ["a"]}, {"spec": 1}])
def test_objects_of_any_shape_are_shown(raw: Any) -> None:
    for resource in RESOURCES:
        assert show(resource, **raw)["kind"] == "ConfigMap"
