"""D2, D12, D15: an unreadable object affects no other object; it is reported by name, and its owner is notified."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.threats.api import MERGE, Object, find_path
from support.threats.world import ThreatWorld, make_config_map, make_stack

GROUP = "unreadable.hearth.test"
NEST = json.dumps("the deep part goes here")
RESOURCES = {"a": make_config_map()}


def nest(levels: int, *, in_maps: bool) -> str:
    """A value with that many levels, as JSON."""
    return '{"a":' * levels + "1" + "}" * levels if in_maps else "[" * levels + "]" * levels


def write_deep(manifest: Object, levels: int, *, in_maps: bool = False) -> bytes:
    """The JSON of `manifest` with a deep value for the text that marks its place."""
    return json.dumps(manifest).replace(NEST, nest(levels, in_maps=in_maps)).encode()


def read(threats: ThreatWorld, path: str) -> str:
    """An object as text, since it may be too deep for this process, too."""
    return threats.api.send("GET", path).text


def find_conditions(text: str) -> dict[str, tuple[str, str, str]]:
    """Parse the text of a Stack: status, reason and message by type of condition."""
    found = re.search(r'"conditions":(\[\{.*?\}\])', text)
    conditions: list[dict[str, Any]] = json.loads(found[1]) if found else []
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in conditions}


@contextlib.contextmanager
def removed(threats: ThreatWorld, *paths: str) -> Iterator[None]:
    """Remove these objects at the end, because the tests' clean-up cannot read them."""
    try:
        yield
    finally:
        threats.operator.kill()
        for path in paths:
            threats.api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE)
            threats.api.send("DELETE", path)
            threats.wait_for(lambda path=path: threats.api.send("GET", path).code == 404)  # type: ignore[misc]  # mypy cannot type a default that binds a loop variable


@pytest.mark.parametrize(
    ("levels", "in_maps"),
    [
        pytest.param(1_100, False, id="too deep to be read (D2)"),
        pytest.param(1_100, True, id="in maps, so that its managed fields are as deep"),
        pytest.param(300, False, id="too deep to be written again (D12)"),
        pytest.param(900, True, id="the same in maps"),
    ],
)
def test_a_stack_that_is_too_deep_is_reported_and_does_no_harm(
    threats: ThreatWorld, levels: int, *, in_maps: bool
) -> None:
    tenant = threats.tenant()
    stack = make_stack(tenant.namespace, "deep", RESOURCES, parameters={"p": "the deep part goes here"})
    path = find_path("Stack", tenant.namespace, "deep")
    with removed(threats, path):
        made = tenant.author().send(
            "POST", find_path("Stack", tenant.namespace), body=write_deep(stack, levels, in_maps=in_maps)
        )
        assert made.is_accepted, made.text[:500]
        threats.canary()
        reported = threats.wait_for(lambda: find_conditions(read(threats, path)), what="the status of the deep Stack")
        assert reported["Ready"][:2] == ("False", "SpecUnreadable")
        assert reported["Stalled"][:2] == ("True", "SpecUnreadable")
        assert "spec.parameters" in reported["Ready"][2]
        assert "100 levels" in reported["Ready"][2]
        assert threats.operator.read_metric("hearth_skipped_objects_total", kind="Stack.hearth.dev") == 1
        assert threats.operator.read_metric("hearth_watch_restarts_total", reason="broken") == 0

        threats.operator.restart()
        threats.canary()
        assert threats.operator.get("/readyz").is_ok
        assert threats.operator.read_metric("hearth_watch_restarts_total", reason="broken") == 0
        named = [each for each in threats.operator.read_events("object cannot be read") if each["name"] == "deep"]
        assert len(named) == 2, "once by each process"

        mended = {"spec": {"parameters": None}}
        assert threats.api.patch("Stack", tenant.namespace, "deep", mended).is_accepted
        threats.wait_phase(tenant.namespace, "deep", "CreateComplete")


def make_kind(schema: Object) -> Object:
    """A CustomResourceDefinition with that schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Free", "listKind": "FreeList", "plural": "frees", "singular": "free"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"frees.{GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


@contextlib.contextmanager
def served(threats: ThreatWorld, schema: Object) -> Iterator[None]:
    """Serve a kind with that schema, and let Stacks use it."""
    crd, collection = find_path("CustomResourceDefinition", "", f"frees.{GROUP}"), f"/apis/{GROUP}/v1/frees"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"children-{GROUP}", "labels": {"hearth.dev/aggregate-to-children": "true"}},
        "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}],
    }
    threats.api.try_create(role)
    made = threats.api.try_create(make_kind(schema))
    assert made.is_accepted, made.text[:500]
    try:
        threats.wait_for(lambda: threats.api.send("GET", collection).is_accepted, what="the kind")
        yield
    finally:
        threats.operator.kill()
        threats.api.send("DELETE", crd)
        threats.wait_for(lambda: threats.api.send("GET", crd).code == 404)


def find_unreadable_schemas(threats: ThreatWorld) -> list[Object]:
    """The operator's log lines about unreadable schemas."""
    return [each for each in threats.operator.read_events("cannot be read") if each["kind"] == "OpenAPI"]


FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_child_that_becomes_too_deep_is_reported_and_the_others_go_on(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    free = {"manifest": {"apiVersion": f"{GROUP}/v1", "kind": "Free", "metadata": {"name": "f"}, "spec": {"a": "b"}}}
    # Without a reader, only the metadata of a kind without a status are watched.
    reader = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${free.spec.a}"}}}
    path = f"/apis/{GROUP}/v1/namespaces/{tenant.namespace}/frees/f"
    with served(threats, FREE), removed(threats, path):
        tenant.author().create(make_stack(tenant.namespace, "shop", {"free": free, "reader": reader, **RESOURCES}))
        threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
        deep = {"spec": {"theirs": "the deep part goes here"}}
        editor = tenant.editor("frees", group=GROUP)
        patched = editor.send("PATCH", path, body=write_deep(deep, 1_100), content_type=MERGE)
        assert patched.is_accepted, patched.text[:500]

        stack = threats.wait_phase(tenant.namespace, "shop", "UpdateFailed", "CreateFailed", "Failed", "Degraded")
        assert "ObjectUnreadable" in json.dumps(stack["status"])
        assert "spec.theirs" in json.dumps(stack["status"])

        # Other objects of the same kind are served, also by an operator that begins with a list.
        other.author().create(make_stack(other.namespace, "mine", {"free": free}))
        threats.wait_phase(other.namespace, "mine", "CreateComplete")
        threats.operator.restart()
        other.author().create(make_stack(other.namespace, "again", {"free": {**free, "manifest": rename(free, "g")}}))
        threats.wait_phase(other.namespace, "again", "CreateComplete")
        threats.canary()
        assert threats.operator.read_metric("hearth_watch_restarts_total", reason="broken") == 0

        mended = editor.send("PATCH", path, body={"spec": {"theirs": None}}, content_type=MERGE)
        assert mended.is_accepted, mended.text[:500]
        threats.wait_phase(tenant.namespace, "shop", "CreateComplete", "UpdateComplete")


def rename(resource: Object, name: str) -> Object:
    """The manifest under another name."""
    return {**resource["manifest"], "metadata": {"name": name}}


def test_a_schema_that_is_too_deep_is_none(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    schema: Object = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    free = {"manifest": {"apiVersion": f"{GROUP}/v1", "kind": "Free", "metadata": {"name": "f"}}}
    uses = make_config_map("uses", {"name": "${free.metadata.name}"})
    document = f"/openapi/v3/apis/{GROUP}/v1"
    with served(threats, {"type": "object", "properties": {"spec": schema}}):
        # Not the schema of an earlier kind with this name, which the server shows for a while.
        threats.wait_for(lambda: threats.api.send("GET", document).text.count('"properties"') > 200, what="its schema")
        tenant.author().create(make_stack(tenant.namespace, "shop", {"free": free, "uses": uses}))
        threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
        threats.canary()
        # A busy server lists the document long after it serves the kind, which counts as untyped until then.
        named = threats.wait_for(lambda: find_unreadable_schemas(threats), what="the schema that is named")
        assert len(named) == 1
        assert threats.operator.read_metric("hearth_skipped_objects_total", kind="OpenAPI") == 1
        threats.api.delete("Stack", tenant.namespace, "shop")
        threats.wait_for(lambda: threats.api.get("Stack", tenant.namespace, "shop") is None)
