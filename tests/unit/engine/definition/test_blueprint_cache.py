"""One template for many Stacks: what is compiled once serves all, unless something of it is a Stack's own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection
from typing import Any

import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.model import packing
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kind
from hearth.template.blueprint import Blueprint, Definition, Known, Origin
from support.units.blueprints import CONFIG_MAP, HASHER, ServedKinds

FREE: dict[str, Any] = {"data": {"a": "${params.x}"}}


class Served:
    """As much of the port `Cluster` as compiling takes."""

    def __init__(self) -> None:
        self.kinds = ServedKinds(CONFIG_MAP)

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """As the port says; there are none."""


class Office:
    """Where definitions of Stacks are compiled."""

    def __init__(self) -> None:
        self.cluster = Served()
        self._builder = RevisionBuilder(management_cluster=None, cluster=self.cluster, hashes=HASHER)  # type: ignore[arg-type]  # only the parts that compiling uses

    def compile(self, name: str, *manifests: Any, namespace: str = "shop", x: object = "1", **spec: Any) -> Blueprint:
        """The blueprint of a Stack with these ConfigMaps."""
        resources = {f"r{at}": {"manifest": make(manifest)} for at, manifest in enumerate(manifests)}
        template = {"parameters": {"x": {}}, "resources": resources}
        return self.compile_definition(name, Definition(template=template, parameters={"x": x}), namespace, **spec)

    def compile_definition(self, name: str, definition: Definition, namespace: str = "shop", **spec: Any) -> Blueprint:
        """The blueprint of a Stack with that definition."""
        stack = StackObject(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            generation=1,
            resource_version=1,
            deleting=False,
            finalizers=(),
            annotations={},
            packed_spec=packing.pack(spec),
            packed_status=packing.pack({}),
        )
        return asyncio.run(self._builder.compile(definition, stack))


def make(manifest: dict[str, Any]) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", **manifest}


def named(name: str, **metadata: str) -> dict[str, Any]:
    """One that states its name."""
    return {"metadata": {"name": name, **metadata}}


def placed(namespace: str) -> dict[str, Any]:
    """One that states its namespace."""
    return {"metadata": {"namespace": namespace}}


@pytest.mark.parametrize(
    ("manifests", "within", "everywhere"),
    [
        ([FREE], True, True),
        ([{"data": {"a": "${stack.namespace}"}}], True, False),
        ([{"data": {"a": "${stack.name}"}}], False, False),
        ([{"data": {"a": "${r1.metadata.name}-${stack.uid}"}}, FREE], False, False),
        ([{"data": {"a": "${stack}"}}], False, False),
        ([named("a"), named("b")], True, True),
        ([named("a"), FREE], False, False),
        ([named("a"), named("a", namespace="other")], True, False),
        ([placed("other"), FREE], True, False),
    ],
    ids=[
        "nothing of the Stack in it",
        "its namespace",
        "its name",
        "its UID, beside another resource",
        "all of it",
        "every name stated",
        "a name that may be one made of a Stack's",
        "a name in two namespaces, one of them the Stack's",
        "a namespace that may be the Stack's",
    ],
)
def test_a_blueprint_serves_whom_it_fits(manifests: list[dict[str, Any]], *, within: bool, everywhere: bool) -> None:
    """Other Stacks of the namespace, and those of others."""
    office = Office()
    one = office.compile("one", *manifests)
    assert (office.compile("two", *manifests) is one) is within
    assert (office.compile("one", *manifests, namespace="other-shop") is one) is everywhere


def test_what_is_shared_is_what_would_be_compiled() -> None:
    """For a Stack that is given its own namespace."""
    manifest = {"data": {"a": "${stack.namespace}"}}
    office = Office()
    office.compile("one", manifest)
    found = office.compile("two", manifest, namespace="other").resources["r0"].manifest.evaluate({})
    assert found == Known(make({"data": {"a": "other"}}))


def test_two_of_one_name_are_found_in_the_namespace_where_they_meet() -> None:
    """Another Stack that compiled the same elsewhere."""
    office = Office()
    manifests = [named("a"), named("a", namespace="other")]
    kept = office.compile("one", *manifests)
    with pytest.raises(InvalidDefinition, match="which the resource 'r0' also names"):
        office.compile("one", *manifests, namespace="other")
    assert len(kept.resources) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"x": "2"},
        {"x": 1},
        {"adoptionPolicy": "Adopt"},
    ],
    ids=["another value", "one that only looks the same", "what the Stack says of adoption"],
)
def test_another_definition_is_compiled(change: dict[str, Any]) -> None:
    """Each of these goes into the blueprint."""
    office = Office()
    one = office.compile("one", FREE)
    assert office.compile("two", FREE, **change) is not one


def test_what_a_secret_gave_is_not_shared_as_if_it_were_plain() -> None:
    """The same value, which must not be visible."""
    office = Office()
    template = {"parameters": {"x": {"type": "string"}}, "resources": {"r0": {"manifest": make(FREE)}}}
    origin = Origin(kind="Secret", name="s", key="x", place="spec.parametersFrom[0]")
    plain = office.compile_definition("one", Definition(template=template, parameters={"x": "long-enough"}))
    sensitive = Definition(template=template, parameters={"x": "long-enough"}, origins={"x": origin})
    found = office.compile_definition("two", sensitive)
    assert (plain.sensitive_texts, found.sensitive_texts) == (frozenset(), frozenset({"long-enough"}))


def test_a_changed_kind_compiles_everything_again() -> None:
    """Its schema may be another one."""
    office = Office()
    one = office.compile("one", FREE)
    office.cluster.kinds.generation += 1
    assert office.compile("two", FREE) is not one


def test_the_order_of_the_resources_is_the_definitions_own() -> None:
    """Two templates that state the same in another order are two."""
    office = Office()
    manifests = {"b": {"manifest": make(FREE)}, "a": {"manifest": make(FREE)}}
    orders = [manifests, dict(sorted(manifests.items()))]
    kept = [
        office.compile_definition(
            "one", Definition(template={"parameters": {"x": {}}, "resources": each}, parameters={"x": "1"})
        )
        for each in orders
    ]
    assert [list(each.resources) for each in kept] == [["b", "a"], ["a", "b"]]


def test_what_no_stack_uses_is_forgotten() -> None:
    """It takes memory for as long as it is needed."""
    office = Office()
    one = office.compile("one", FREE)
    assert office.compile("two", FREE) is one
    resources = one.resources
    del one
    gc.collect()
    assert office.compile("three", FREE).resources is not resources
