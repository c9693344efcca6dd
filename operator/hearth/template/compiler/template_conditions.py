"""Conditions and `when`: tests on parameters and other conditions, which are decided once per definition."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.graph import order
from hearth.model import limits, value_class
from hearth.model.chunked_work import ChunkedWork
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.schema import shapes
from hearth.template.schema.shapes import Shape
from hearth.template.text import error_hints, interpolation

ALLOWED = AllowedNames(
    names=frozenset({"params", "conditions"}),
    rule="only params and conditions can be used here, because it is evaluated before any apply",
)
ROOT = "conditions"


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


@dataclass(slots=True)
class Conditions:
    """The conditions of one template."""

    path: str
    decided: dict[str, ConditionValue] = field(default_factory=dict)

    def examine(self, raw: Mapping[str, Any], validator: ExpressionValidator) -> ChunkedWork[None]:
        """Validate all conditions, including cycles among them."""
        for name, stated in raw.items():
            yield
            found = examine(stated, validator, path=f"{self.path}.{name}")
            if found is not None:
                self.decided[name] = found
        cycles = yield from order.find_cycles_in_pieces(self.edges(), most=limits.MISTAKES)
        for cycle in cycles:
            message = f"depends on itself: {order.describe(cycle)}; remove one of them"
            validator.note(f"{self.path}.{cycle[0]}", message)

    def edges(self) -> dict[str, list[str]]:
        """Return by condition the others that it uses."""
        return {name: sorted(used(decided, self.decided)) for name, decided in self.decided.items()}

    def decide(self, evaluator: PartialEvaluator, truths: dict[str, bool]) -> ChunkedWork[bool]:
        """Fill `truths`, the `conditions` of the PartialEvaluator; return whether all could be decided."""
        for name in order.sort(self.edges()):
            yield
            expression = self.decided[name].expression
            if expression is not None and evaluator.is_sensitive(expression):
                evaluator.sensitivity.conditions.add(name)
            truth = decide(self.decided[name], evaluator, path=f"{self.path}.{name}")
            if truth is None:
                return False
            truths[name] = truth
        return len(truths) == len(self.decided)


def used(value: ConditionValue, known: Mapping[str, ConditionValue]) -> set[str]:
    """Return the conditions that a test uses; all of them if it reads them as a whole."""
    found: set[str] = set()
    reads = value.expression.parsed.reads.reads if value.expression is not None else ()
    for read in reads:
        if read.root == ROOT:
            found.update([read.path[0]] if read.path else known)
    return found
