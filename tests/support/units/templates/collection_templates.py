"""Templates with collections, and their compilation."""

from __future__ import annotations

from typing import Any

import yaml

from hearth.template.blueprint import Blueprint, Definition, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates import invalid_templates
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()
ZONES = [{"name": "b", "size": 2}, {"name": "a", "size": 1}]
GIVEN: dict[str, Any] = {
    "zones": ZONES,
    "secret": ["hidden-one", "hidden-two"],
    "secrets": {"x": "hidden-one"},
}
RESOURCES = "spec.template.resources"


def write(workers: str, more: str = "", outputs: str = "{}") -> str:
    """A template with that collection, and other resources."""
    return f"""
parameters:
  zones: {{type: array, items: {{type: object, properties: {{name: {{type: string}}, size: {{type: integer}}}}}}}}
  free: {{default: null}}
  secret: {{type: array, sensitive: true}}
  secrets: {{type: object, sensitive: true}}
resources:
  workers: {workers}
{more}
outputs: {outputs}
"""


def config(data: str = "{}", words: str = "") -> str:
    return f"{{manifest: {{apiVersion: v1, kind: ConfigMap, data: {data}}}, {words}}}"


def each_zone(data: str = "{}", words: str = "") -> str:
    """One ConfigMap for each zone, by its name."""
    return config(data, f"forEach: params.zones, key: item.name, {words}")


def compile_text(template: str, **parameters: Any) -> Blueprint:
    """The blueprint with the two zones, and other parameters."""
    given = GIVEN | parameters
    definition = Definition(template=yaml.safe_load(template), parameters=given)
    return compiler.compile_template(definition, stack=STACK, kinds=KINDS)


def find_mistakes(template: str, **parameters: Any) -> list[tuple[str, str]]:
    """Path and message of every mistake, with the two zones."""
    return invalid_templates.find_mistakes(template, GIVEN | parameters)
