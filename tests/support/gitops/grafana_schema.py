"""Validates dashboards against the models that Grafana generates from its schema.

The models accept any JSON without checks, so fields and types are compared here.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard as models

PACKAGE = "grafana_foundation_sdk."
NUMBERS = {int: (int,), float: (int, float)}


def find_mistakes(dashboard: Mapping[str, Any]) -> list[str]:
    """Each field that the schema does not have, and each value of another type, with its path."""
    plugins.register_default_plugins()
    try:
        read = models.Dashboard.from_json(dict(dashboard))
    except (KeyError, TypeError, AttributeError) as error:
        return [f"it cannot be read: {error!r}"]
    known = json.loads(json.dumps(read, cls=encoder.JSONEncoder))
    return [*find_unknown(dashboard, known, "$"), *find_wrong(read, models.Dashboard, "$")]


def find_unknown(given: Any, known: Any, path: str) -> Iterator[str]:
    """Fields that the models dropped because they are unknown."""
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        for name, value in given.items():
            if name in known:
                yield from find_unknown(value, known[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}: no such field"
    elif isinstance(given, list) and isinstance(known, list):
        for index, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from find_unknown(one, other, f"{path}[{index}]")
    elif given != known:
        yield f"{path}: {given!r} is read as {known!r}"


def find_wrong(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Values of a wrong type. hint: the type in the models."""
    if type(value).__module__.startswith(PACKAGE) and not isinstance(value, enum.Enum):
        for name, inner in typing.get_type_hints(type(value)).items():
            yield from find_wrong(getattr(value, name), inner, f"{path}.{name.removesuffix('_val')}")
    elif typing.get_origin(hint) is list and isinstance(value, list):
        for index, each in enumerate(value):
            yield from find_wrong(each, typing.get_args(hint)[0], f"{path}[{index}]")
    elif typing.get_origin(hint) is dict and isinstance(value, dict):
        for name, each in value.items():
            yield from find_wrong(each, typing.get_args(hint)[1], f"{path}.{name}")
    elif typing.get_origin(hint) in {typing.Union, types.UnionType}:
        choices = [list(find_wrong(value, each, path)) for each in typing.get_args(hint)]
        # Prefer a choice with invalid parts to a choice that does not match at all.
        yield from min(choices, key=lambda found: (any(each.startswith(f"{path}: ") for each in found), len(found)))
    elif not is_allowed(value, hint):
        yield f"{path}: {value!r} is no {getattr(hint, '__name__', hint)}"


def is_allowed(value: Any, hint: Any) -> bool:
    """Whether a value without further parts is of the type."""
    if hint in {object, Any}:
        return True
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in {each.value for each in hint}
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint]) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)
