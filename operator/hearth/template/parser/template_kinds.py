"""Finds the kinds that a template uses, before the template is validated. Accepts any input."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from hearth.model import chunked_work
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.template.blueprint import Definition, Known
from hearth.template.cel import cel_environment, cel_values, expressions
from hearth.template.schema import json_schema, parameters
from hearth.template.schema.json_schema import Budget
from hearth.template.text import interpolation


def find_kinds(definition: Definition) -> tuple[tuple[str, str], ...]:
    """Return `apiVersion` and `kind` of every manifest that has them; never raises, for any input."""
    return chunked_work.finish(find_kinds_in_pieces(definition))


def find_kinds_in_pieces(definition: Definition) -> ChunkedWork[tuple[tuple[str, str], ...]]:
    """Find the kinds in pieces, with a pause after each manifest."""
    # User input: it may differ from its declared type.
    stated: Any = definition.template
    template = stated if isinstance(stated, dict) else {}
    params = guess_parameters(template.get("parameters"), definition.parameters)
    found: dict[tuple[str, str], None] = {}
    for manifest in find_manifests(template.get("resources")):
        yield
        pair = tuple(read_word(manifest.get(word), params) for word in ("apiVersion", "kind"))
        if pair[0] and pair[1]:
            found[(pair[0], pair[1])] = None
    return tuple(found)


def guess_parameters(stated: Any, given: Any) -> Object:
    """Return the values that the parameters will have if they are valid."""
    rules = stated if isinstance(stated, dict) else {}
    defaults = {name: rule["default"] for name, rule in rules.items() if isinstance(rule, dict) and "default" in rule}
    values: Object = {**defaults, **(given if isinstance(given, dict) else {})}
    budget = Budget()
    with contextlib.suppress(json_schema.Exhausted):
        values = {name: parameters.fill_defaults(rules.get(name), value, budget) for name, value in values.items()}
    return values


def find_manifests(resources: Any) -> list[Mapping[str, Any]]:
    """Return every manifest, and every reference to an external object, that is a map."""
    entries = resources.values() if isinstance(resources, dict) else ()
    found = (entry.get(word) for entry in entries if isinstance(entry, dict) for word in ("manifest", "externalRef"))
    return [stated for stated in found if isinstance(stated, dict)]


def read_word(stated: Any, params: Object) -> str:
    """Read an `apiVersion` or `kind`. Returns "" if it cannot be determined."""
    if not isinstance(stated, str) or not interpolation.has_expressions(stated):
        return stated if isinstance(stated, str) else ""
    try:
        pieces = [
            part if isinstance(part, str) else evaluate(part.text, params) for part in interpolation.parse(stated)
        ]
    except (interpolation.UnterminatedExpression, cel_environment.CelCompileError):
        return ""
    return "" if None in pieces else "".join(piece for piece in pieces if piece is not None)


def evaluate(expression: str, params: Object) -> str | None:
    """Evaluate an expression on parameters to text. Returns None if there is no result."""
    parsed = expressions.parse(expression)
    outcome = expressions.bind(parsed, path="", constants={"params": expressions.enlarge(params)}).evaluate({})
    if not isinstance(outcome, Known) or outcome.value is None:
        return None
    return cel_values.write_text(outcome.value)
