"""Tests on parameters, conditions and values, which are decided once per definition: conditions and `when`."""

from __future__ import annotations

import functools
from typing import Any

from hearth.model import limits, value_class
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.schema import shapes
from hearth.template.schema.shapes import Shape
from hearth.template.text import error_hints, interpolation

ALLOWED = AllowedNames(
    names=(),
    rule="only params, conditions and values can be used here, because it is evaluated before any apply",
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ConditionValue:
    """A condition that is decided during compilation: a literal boolean, or a valid test."""

    literal: bool | None = None
    expression: ValidExpression | None = None


@functools.lru_cache(maxsize=1_024)
def find_shape(names: tuple[str, ...]) -> Shape:
    """Return the shape of `conditions`."""
    return shapes.make_closed({name: {"type": "boolean"} for name in names}, name="conditions")


def read_test(
    raw: Any, validator: ExpressionValidator, *, path: str, example: str = "params.replicas > 1"
) -> str | None:
    """Return the text of an expression, written bare or within `${…}`, or None if it is not text."""
    if not isinstance(raw, str):
        validator.note(path, f'must be an expression, found {error_hints.describe(raw)}; write e.g. "{example}"')
        return None
    if len(raw) > limits.EXPRESSION_LENGTH:
        message = f"has {len(raw)} characters, but an expression may have at most {limits.EXPRESSION_LENGTH}; split it"
        validator.note(path, message)
        return None
    if not interpolation.has_expressions(raw):
        return raw.strip()
    try:
        parts = interpolation.parse(raw.strip())
    except interpolation.UnterminatedExpression:
        parts = ()
    if len(parts) != 1 or not isinstance(parts[0], interpolation.ExpressionSource):
        validator.note(path, f"must be one expression, found {error_hints.quote(raw)}; write it without ${{…}}")
        return None
    return parts[0].text


def examine(
    raw: Any, validator: ExpressionValidator, *, path: str, allowed: AllowedNames = ALLOWED
) -> ConditionValue | None:
    """Validate a condition or `when`. Returns None if it contains an error."""
    if isinstance(raw, bool):
        return ConditionValue(literal=raw)
    written = read_test(raw, validator, path=path)
    expression = None if written is None else validator.examine_test(written, path=path, allowed=allowed)
    return None if expression is None else ConditionValue(expression=expression)


def decide(value: ConditionValue, evaluator: PartialEvaluator, *, path: str) -> bool | None:
    """Decide whether it is true; None in case of an error."""
    if value.expression is None:
        return value.literal
    return evaluator.decide(value.expression, path=path)
