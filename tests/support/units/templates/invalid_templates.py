"""Templates for tests of mistakes: a valid context for each mistake, and the compiler's messages.

The kinds come from `typed_kinds`.
"""

from __future__ import annotations

from typing import Any

import yaml

from hearth.model import errors
from hearth.template.blueprint import Definition, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()
RESOURCES = "spec.template.resources"
A = f"{RESOURCES}.a"
SPEC = f"{A}.manifest.spec"
META = f"{A}.manifest.metadata"
SOUND = "manifest: {apiVersion: v1, kind: ConfigMap}"


def find_mistakes(template: Any, parameters: Any = None) -> list[tuple[str, str]]:
    """Path and message of every mistake."""
    raw = yaml.safe_load(template) if isinstance(template, str) else template
    try:
        compiler.compile_template(Definition(template=raw, parameters=parameters or {}), stack=STACK, kinds=KINDS)
    except errors.InvalidDefinition as error:
        return [(mistake.path, mistake.message) for mistake in error.mistakes]
    return []


def in_resource(resource: str, more: str = "") -> str:
    """A template with the resource `a` as given, a sound ConfigMap `config`, and an absent one `gone`."""
    return f"""
parameters:
  count: {{type: integer, default: 3}}
  name: {{type: string, default: x}}
conditions: {{never: "params.count > 5"}}
resources:
  config: {{manifest: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: conf}}, data: {{k: v}}}}}}
  gone: {{when: conditions.never, manifest: {{apiVersion: v1, kind: ConfigMap}}}}
  a: {resource}
{more}
"""


def in_deployment(spec: str, metadata: str = "{}") -> str:
    """A template whose resource `a` is a Deployment of that spec."""
    return in_resource(f"{{manifest: {{apiVersion: apps/v1, kind: Deployment, metadata: {metadata}, spec: {spec}}}}}")
