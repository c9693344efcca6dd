"""Expressions in a table of health rules: validated once, with the location of every error, and bound for evaluation.

Must not know how the table is written.
"""

from __future__ import annotations

from hearth.model import value_class
from hearth.plan.health.rule_cases import CONDITION, SELF, Text
from hearth.template.cel import cel_environment, expressions, type_checker
from hearth.template.cel.expression_validator import ExpressionValidator
from hearth.template.cel.expressions import Expression
from hearth.template.compiler.partial_evaluation import TOO_COSTLY
from hearth.template.schema import shapes
from hearth.template.text import error_hints, interpolation

BOOLEAN = ("BOOL", "DYN")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionLocation:
    """Location of an expression."""

    path: str
    """For example `rules.yaml, line 12`."""
    owner: str
    """The kind of the rule, for example `cert-manager.io/Certificate`."""
    names: tuple[str, ...]
    """The names that the expression may use."""


def make_examiner() -> ExpressionValidator:
    """Create a validator that knows the names in expressions of health rules."""
    return ExpressionValidator(scope=type_checker.TypeScope({SELF: shapes.OPEN, CONDITION: shapes.OPEN}))


def read_test(source: str, validator: ExpressionValidator, location: ExpressionLocation) -> Expression | None:
    """Parse the test, or return None if it has errors."""
    found = _examine(source, validator, location)
    if found is None:
        return None
    expression, result = found
    if result not in BOOLEAN:
        gives = type_checker.describe_result(result)
        message = (
            f"must give true or false, {error_hints.quote_expression(source)} gives {gives}; compare it with something"
        )
        validator.note(location.path, message)
    return expression


def read_text(source: str, validator: ExpressionValidator, location: ExpressionLocation) -> Text:
    """Parse a text that contains expressions as `${…}`."""
    try:
        parts = interpolation.parse(source)
    except interpolation.UnterminatedExpression:
        validator.note(location.path, f"a ${{ has no closing brace in {error_hints.quote(source)}")
        return ()
    read = (part if isinstance(part, str) else _read_part(part.text, validator, location) for part in parts)
    return tuple(part for part in read if part is not None)


def _read_part(source: str, validator: ExpressionValidator, location: ExpressionLocation) -> Expression | None:
    found = _examine(source, validator, location)
    return found[0] if found is not None else None


def _examine(
    source: str, validator: ExpressionValidator, location: ExpressionLocation
) -> tuple[Expression, str] | None:
    """Parse the expression and return it with its result type in CEL notation."""
    try:
        parsed = expressions.parse(source)
        judgement = validator.scope.check(parsed)
        if judgement.is_optional:
            parsed = expressions.parse_optional(source)
    except cel_environment.CelCompileError as refusal:
        validator.note_faults(refusal.faults, source, location.path)
        return None
    if not expressions.is_bounded(parsed):
        validator.note(location.path, f"{error_hints.quote_expression(source)} {TOO_COSTLY}")
        return None
    strangers = [root for root in parsed.roots if root not in location.names]
    for root in strangers:
        validator.note(location.path, describe_unknown_name(root, source))
    validator.note_faults(judgement.faults, source, location.path)
    if strangers or judgement.faults:
        return None
    return expressions.bind(parsed, path=location.owner, constants={}), judgement.result


def describe_unknown_name(name: str, source: str) -> str:
    """Explain why an expression may not use a name."""
    where = error_hints.quote_expression(source)
    if name == CONDITION:
        return f"{where} uses {CONDITION}, but its case matches no condition; add e.g. condition: Ready=False"
    return f"the name '{name}' is not defined in {where}; the object is {SELF}, the condition that the case matches is {CONDITION}"
