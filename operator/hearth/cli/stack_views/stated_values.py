"""Redacts the sensitive values that a Stack or its template states in texts about it.

Values from Secrets are unknown here; the operator redacts them in everything that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import object_fields
from hearth.model.child import Object
from hearth.model.text import redaction


def redact(text: str, objects: StackObjects) -> str:
    """Return a text about a Stack or its objects without sensitive values."""
    return redaction.redact(text, find_stated_values(objects))


def find_stated_values(objects: StackObjects) -> list[str]:
    """Return the texts of sensitive parameters that the spec or the template contains."""
    _, defaults = hide_defaults(objects.template)
    stated = object_fields.mapping(objects.stack.spec, "parameters")
    values = [stated.get(name) for name in find_sensitive_parameters(objects)]
    return [*defaults, *redaction.find_texts(values), *stack_list.find_hidden(objects.stack)]


def find_sensitive_parameters(objects: StackObjects) -> set[str]:
    """Return the parameters that are declared sensitive, or whose value may come from a Secret."""
    spec = objects.stack.spec
    stated = object_fields.mapping(spec, "parameters")
    has_secret = any("secretRef" in source for source in object_fields.entries(spec, "parametersFrom"))
    found = set()
    for name, rule in object_fields.mapping(objects.template, "parameters").items():
        declared = object_fields.find(rule, "sensitive")
        if declared is True or (has_secret and declared is not False and name not in stated):
            found.add(name)
    return found


def hide_defaults(template: Mapping[str, Any]) -> tuple[Object, list[str]]:
    """Return the template without the defaults of sensitive parameters, and the texts of these defaults."""
    hidden: list[str] = []
    parameters: Object = {}
    for name, rule in object_fields.mapping(template, "parameters").items():
        is_hidden = object_fields.find(rule, "sensitive") is True and "default" in rule
        hidden += redaction.find_texts(rule["default"]) if is_hidden else []
        parameters[name] = {**rule, "default": redaction.SENSITIVE} if is_hidden else rule
    return {**template, **({"parameters": parameters} if parameters else {})}, hidden
