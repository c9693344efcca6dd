"""Defaults within the rules of a parameter, applied as the API server applies those of a CustomResourceDefinition.

Knows JSON Schema. Must not know parameters or expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from hearth.template.schema.json_schema import Budget
from hearth.template.text import error_hints

Rules: TypeAlias = Mapping[str, Any]


def fill(rules: Any, value: Any, budget: Budget) -> Any:
    """Return `value` with the default of each property that a map in it lacks; a map that is missing itself is not made.

    Unchanged parts are shared with `value`, which stays as it is. Raises json_schema.Exhausted.
    """
    if not isinstance(rules, dict):
        return value
    budget.spend()
    if isinstance(value, dict):
        return fill_map(rules, value, budget)
    if isinstance(value, list) and isinstance(items := rules.get("items"), dict) and has_defaults(items):
        return [fill(items, each, budget) for each in value]
    return value


def fill_map(rules: Rules, value: Mapping[str, Any], budget: Budget) -> Any:
    """Fill a map, and the values in it."""
    properties = rules.get("properties")
    known: Rules = properties if isinstance(properties, dict) else {}
    further = rules.get("additionalProperties")
    filled = {name: fill(known.get(name, further), each, budget) for name, each in value.items()}
    for name, inner in known.items():
        if name not in value and isinstance(inner, dict) and "default" in inner:
            filled[name] = fill(inner, inner["default"], budget)
            # The whole default counts at each of its places: a list may have many elements, and a default be large.
            budget.spend(count(filled[name]))
    return filled


def has_defaults(rules: Any) -> bool:
    """Return whether there is a default within these rules, besides their own."""
    return next(find_all(rules), None) is not None


def find_all(rules: Any, path: str = "") -> Iterator[tuple[str, Rules]]:
    """Yield the rules of each property with a default within these rules, with its path in them."""
    if not isinstance(rules, dict):
        return
    properties = rules.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        place = f"{path}.properties{error_hints.write_key(str(name))}"
        if isinstance(inner, dict) and "default" in inner:
            yield place, inner
        yield from find_all(inner, place)
    for word in ("additionalProperties", "items"):
        yield from find_all(rules.get(word), f"{path}.{word}")


def count(value: Any) -> int:
    """Count the values within a value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1
