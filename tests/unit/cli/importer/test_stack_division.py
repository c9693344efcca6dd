"""A Stack that is too large for one object becomes compressed ConfigMaps and a Stack that names them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import cast

import pytest

from hearth.cli.importer import stack_assembly
from hearth.engine.definition import definition_sources
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import ManagementCluster
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import ObjectRef


def make_stack(resources: int, *, size: int) -> Object:
    """Make a Stack with so many resources, each of so many characters that gzip cannot shorten."""
    source = random.Random(7)
    manifests = {
        f"r{number}": {
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": source.randbytes(size).hex()}}
        }
        for number in range(resources)
    }
    template = {"outputs": {"count": {"value": resources}}, "resources": manifests}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": {"template": template, "paused": True},
    }


class Shelf:
    """The ConfigMaps that were written."""

    def __init__(self, maps: list[Object]) -> None:
        self._maps = {each["metadata"]["name"]: each for each in maps}

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._maps[ref.name]["binaryData"])


def test_a_stack_that_fits_stays_as_it_is() -> None:
    """One object is the easiest to read."""
    stack = make_stack(3, size=1_000)
    assert stack_assembly.divide(stack) == [stack]


def test_the_divided_stack_has_the_same_template() -> None:
    """Read back by the operator's own code; everything else of the spec stays."""
    whole = make_stack(40, size=10_000)
    *maps, stack = stack_assembly.divide(whole)

    read = definition_sources.read_template(SourceReader(cast("ManagementCluster", Shelf(maps))), "prod", stack["spec"])
    template, _ = asyncio.run(read)

    assert template == whole["spec"]["template"]
    assert list(template["resources"]) == list(whole["spec"]["template"]["resources"]), "in the same order"
    assert (stack["metadata"], stack["spec"]["paused"]) == ({"name": "shop", "namespace": "prod"}, True)
    assert [each["metadata"]["name"] for each in maps] == [f"shop-template-{at}" for at in range(1, len(maps) + 1)]


def test_no_source_has_the_name_of_an_imported_object() -> None:
    """A Stack would change its own template; an export of a namespace contains those of an earlier import."""
    whole = make_stack(40, size=10_000)
    resources = whole["spec"]["template"]["resources"]
    for at, name in enumerate(("shop-template-2", "shop-template2-1")):
        resources[f"r{at}"]["manifest"]["metadata"] = {"name": name}
    *maps, stack = stack_assembly.divide(whole)
    assert [each["metadata"]["name"] for each in maps] == [f"shop-template3-{at}" for at in range(1, len(maps) + 1)]
    assert [each["name"] for each in stack["spec"]["templateRefs"]] == [each["metadata"]["name"] for each in maps]


def test_more_sources_than_a_stack_can_name_are_refused() -> None:
    """The API server would reject the Stack."""
    with pytest.raises(
        InvalidDefinition, match="the template: takes 40 compressed ConfigMaps, and a Stack can name 32"
    ):
        stack_assembly.divide(make_stack(40, size=150_000))


def test_an_object_beyond_an_annotation_is_named() -> None:
    """One manifest cannot be divided."""
    objects = stack_assembly.divide(make_stack(2, size=250_000))
    assert list(stack_assembly.find_unapplicable(objects)) == ["configmap/shop-template-1", "configmap/shop-template-2"]


def test_every_object_can_be_applied_by_kubectl() -> None:
    """`kubectl apply` copies the object into an annotation, and all annotations together have 256 KiB."""
    objects = stack_assembly.divide(make_stack(100, size=9_000))
    assert max(len(json.dumps(each)) for each in objects) < stack_assembly.APPLIED_BYTES


def test_a_single_large_resource_is_not_divided() -> None:
    """It is one object in the cluster too; the API server has the last word about its size."""
    objects = stack_assembly.divide(make_stack(1, size=300_000))
    assert [each["kind"] for each in objects] == ["ConfigMap", "Stack"]
