"""The conditions and values of a template: expressions on parameters and on each other, evaluated once per definition.

Both form one graph, because a condition may read a value and a value may read a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hearth.graph import order
from hearth.model import limits
from hearth.model.chunked_work import ChunkedWork
from hearth.template.cel import cel_environment, expressions
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.cel.expressions import Parsed
from hearth.template.cel.type_checker import TypeScope
from hearth.template.compiler import template_conditions
from hearth.template.compiler.manifest_template import Constant
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.parser.template_parser import VALUES
from hearth.template.schema import parameters
from hearth.template.schema.shapes import Schema, Shape
from hearth.template.text import bounds

CONDITIONS: Final = "conditions"
VALUE_NAMES = AllowedNames(
    names=(),
    rule="a value can use only params, conditions and other values, because it is evaluated before any apply; write "
    "this expression where it is used, or in an output",
)
VALUE_EXAMPLE: Final = "params.name + '-web'"


@dataclass(slots=True)
class Constants:
    """The conditions and values of one template."""

    path: str
    """The path of the template."""
    sections: Mapping[str, Mapping[str, Any]]
    """The conditions and values as written, by name."""
    texts: dict[str, str] = field(default_factory=dict)
    """The expressions by key: `conditions.large`."""
    literals: dict[str, bool] = field(default_factory=dict)
    """The conditions that are written as `true` or `false`."""
    edges: dict[str, list[str]] = field(default_factory=dict)
    """By key, the keys that it reads. The key of a whole section, `values`, requires all keys in it."""
    expressions: dict[str, ValidExpression] = field(default_factory=dict)
    """The expressions without errors."""
    schemas: dict[str, Schema] = field(default_factory=dict)
    """By name, the schema of a value whose type is known."""
    _written: int = 0
    """Characters of all schemas that were written for checks."""

    @property
    def roots(self) -> frozenset[str]:
        """Return the names under which expressions read constants. Otherwise, `values` may be a resource."""
        return frozenset({"params", CONDITIONS, *(root for root, stated in self.sections.items() if stated)})

    def read(self, validator: ExpressionValidator) -> ChunkedWork[None]:
        """Fill the texts, literals and edges."""
        for root, stated in self.sections.items():
            self.edges[root] = [f"{root}.{name}" for name in stated]
            for name, raw in stated.items():
                yield
                self._read_one(root, name, raw, validator)

    def _read_one(self, root: str, name: str, raw: Any, validator: ExpressionValidator) -> None:
        key = f"{root}.{name}"
        self.edges[key] = []
        if root == CONDITIONS and isinstance(raw, bool):
            self.literals[key] = raw
            return
        example = {"example": VALUE_EXAMPLE} if root == VALUES else {}
        text = template_conditions.read_test(raw, validator, path=f"{self.path}.{key}", **example)
        if text is None:
            return
        self.texts[key] = text
        parsed = find_parsed(text)
        if parsed is not None:
            self.edges[key] = sorted(self.find_used(parsed))

    def find_used(self, parsed: Parsed) -> set[str]:
        """Return the keys that an expression reads; the key of a section that it reads as a whole."""
        found: set[str] = set()
        for read in parsed.reads.reads:
            stated = self.sections.get(read.root)
            if stated is not None and not read.path:
                found.add(read.root)
            elif stated is not None and read.path[0] in stated:
                found.add(f"{read.root}.{read.path[0]}")
        return found

    def examine(self, validator: ExpressionValidator) -> ChunkedWork[None]:
        """Validate all conditions and values, including circles of them, and find the types of the values."""
        yield from self.read(validator)
        sorted_keys = yield from order.sort_in_pieces(self.edges)
        outer = validator.scope
        for key in dict.fromkeys([*sorted_keys, *self.edges]):
            if key in self.texts and len(validator.mistakes) <= limits.MISTAKES:
                yield
                self._examine_one(key, validator, outer)
        validator.scope = outer
        cycles = yield from order.find_cycles_in_pieces(self.edges, most=limits.MISTAKES)
        for cycle in cycles:
            message = f"depends on itself: {order.describe(cycle)}; remove one of them"
            validator.note(f"{self.path}.{cycle[0]}", message)

    def _examine_one(self, key: str, validator: ExpressionValidator, outer: TypeScope) -> None:
        text, path = self.texts[key], f"{self.path}.{key}"
        root, _, name = key.partition(".")
        validator.scope = self.make_scope(text, outer)
        if root == CONDITIONS:
            expression = validator.examine_test(text, path=path, allowed=template_conditions.ALLOWED)
        else:
            expression = validator.examine(text, path=path, allowed=VALUE_NAMES)
        if expression is None:
            return
        self.expressions[key] = expression
        # An optional may also give null, which no type of a field includes.
        if root == VALUES and expression.parsed.text == text:
            self.schemas[name] = validator.scope.find_schema(expression.result)

    def make_scope(self, text: str, outer: TypeScope) -> TypeScope:
        """Return the names that an expression of this template knows, with the values that it reads."""
        stated = self.sections.get(VALUES) or {}
        parsed = find_parsed(text)
        if parsed is None or VALUES not in parsed.roots or not stated:
            return outer
        names = {read.path[0] if read.path else "" for read in parsed.reads.reads if read.root == VALUES}
        # An error in a name lists all names.
        return outer.derive_object(VALUES, self.find_value_shape(names if names <= stated.keys() else stated))

    def find_value_shape(self, names: Mapping[str, Any] | set[str]) -> Shape:
        """Return the shape of `values` with these names. Values whose type is not known accept everything.

        The schemas of all shapes of one template have a limit, because many values may read the same large parameter.
        """
        found = {name: self.schemas.get(name, {}) for name in sorted(names)}
        if self._written <= limits.SHAPE_LENGTH:
            self._written += len(orjson.dumps(found))
        if self._written > limits.SHAPE_LENGTH:
            found = {name: {} for name in found}
        return parameters.find_shape(found, name=VALUES)

    def find_shapes(self, *, sound_only: bool = False) -> dict[str, Shape]:
        """Return the shapes of `conditions`, and of `values` if the template has some.

        sound_only: whether to leave out conditions and values with errors, and all that read them.
        """
        sound = self._find_sound() if sound_only else self.edges.keys()
        named = {root: [name for name in stated if f"{root}.{name}" in sound] for root, stated in self.sections.items()}
        found = {CONDITIONS: template_conditions.find_shape(tuple(named.get(CONDITIONS, ())))}
        if self.sections.get(VALUES):
            found[VALUES] = self.find_value_shape(set(named[VALUES]))
        return found

    def _find_sound(self) -> set[str]:
        sound: set[str] = set()
        for key in order.sort(self.edges):
            is_sound = key in self.sections or key in self.expressions or key in self.literals
            if is_sound and sound.issuperset(self.edges[key]):
                sound.add(key)
        return sound

    def evaluate(self, evaluator: PartialEvaluator) -> ChunkedWork[bool]:
        """Fill `conditions` and `values` of the evaluator's constants; return whether all could be evaluated."""
        done: set[str] = set()
        size = 0
        for key in (yield from order.sort_in_pieces(self.edges)):
            if not done.issuperset(self.edges[key]):
                continue
            root, _, name = key.partition(".")
            if name:
                yield
                found = self._evaluate_one(key, evaluator)
                if found is None:
                    continue
                if root == VALUES:
                    try:
                        size += measure_value(found.value)
                        bounds.refuse_large(size, what="makes the values of the template")
                    except bounds.TooLarge as error:
                        evaluator.note(f"{self.path}.{key}", str(error))
                        return False
                evaluator.constants[root][name] = found.value
            done.add(key)
        return len(done) == len(self.edges)

    def _evaluate_one(self, key: str, evaluator: PartialEvaluator) -> Constant | None:
        """Return the constant of a condition or value, or None in case of an error."""
        if key in self.literals:
            return Constant(self.literals[key])
        expression = self.expressions.get(key)
        if expression is None:
            return None
        root, _, name = key.partition(".")
        path = f"{self.path}.{key}"
        if evaluator.is_sensitive(expression):
            evaluator.sensitivity.constants.setdefault(root, set()).add(name)
        if root == CONDITIONS:
            truth = evaluator.decide(expression, path=path)
            return None if truth is None else Constant(truth)
        bound = evaluator.bind(expression, path=path)
        if not isinstance(bound, Constant):
            return None
        return Constant(parameters.adapt(self.schemas.get(name, {}), bound.value))


def find_parsed(text: str) -> Parsed | None:
    """Return a parsed expression, or None if it cannot be parsed."""
    try:
        return expressions.parse(text)
    except cel_environment.CelCompileError:
        return None


def measure_value(value: Any) -> int:
    """Return the bytes of a value as JSON. Raises bounds.TooLarge if no expression could read it."""
    if bounds.has_large_integer(value):
        raise bounds.TooLarge("must be a 64-bit integer, and so must all integers within it; convert it with string()")
    return bounds.measure(value)
