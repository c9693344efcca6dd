"""Health rules that consist of cases. The first case that matches determines the result.

`rule_parser` parses the cases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from hearth.model import value_class
from hearth.model.child import Path
from hearth.plan.health.general import condition_types, general_rule
from hearth.plan.health.general.status_fields import SUSPEND
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    HealthRule,
    HealthRuleEntry,
    HealthState,
    assess_observed,
    is_outdated,
    read,
    read_items,
    unknown,
)
from hearth.template.blueprint import EvaluationError, Known
from hearth.template.cel import expressions, field_references
from hearth.template.cel.expressions import Expression

SELF = "self"
"""The name of the object in expressions."""
CONDITION = "condition"
"""The name of the case's condition in expressions."""
ALWAYS_READ: frozenset[Path] = frozenset({("status", "conditions"), ("status", "observedGeneration")})
METADATA = ("apiVersion", "kind", "metadata")
"""Fields that are present on every object without being requested."""

Text: TypeAlias = tuple[str | Expression, ...]
"""The parts of a text that contains `${…}`."""


@value_class.dataclass(frozen=True, slots=True)
class ConditionMatch:
    """Condition that a case requires."""

    type: str
    statuses: tuple[str, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RuleCase:
    """One case: a test and its result."""

    matches: tuple[ConditionMatch, ...] = ()
    """One of these must match. If empty, the case requires no condition."""
    when: Expression | None = None
    state: HealthState
    terminal: bool = False
    reason: Text = ()
    message: Text = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Return all expressions of the case."""
        parts = (self.when, *self.reason, *self.message)
        return tuple(part for part in parts if isinstance(part, Expression))


@value_class.dataclass(frozen=True, slots=True)
class RuleCases:
    """Health rule of a kind. If no case matches, the general rule applies."""

    cases: tuple[RuleCase, ...]
    rule: HealthRule = general_rule.OF_ANY_KIND
    """The general rule for the kind."""
    rests: tuple[str, ...] = ()
    """Spec fields that suspend the object and that the cases read. Many controllers ignore a suspended object."""
    forgives: bool = False
    """Whether a failure that the next reconcile is likely to fix counts as progressing."""

    @property
    def is_complete(self) -> bool:
        """Return whether a case matches every object."""
        return any(not case.matches and case.when is None for case in self.cases)

    def __call__(self, fields: Fields, /) -> HealthResult:
        """Assess the object. Never raises: if an expression fails, the result is unknown."""
        if any(read(fields, f"spec.{name}") is True for name in self.rests):
            return self._assess(fields)
        return assess_observed(fields, self._assess)

    def _assess(self, fields: Fields) -> HealthResult:
        conditions = read_conditions(fields)
        fields = expressions.enlarge(fields)
        for case in self.cases:
            verdict = assess_case(case, fields, conditions)
            if verdict is not None:
                return forgive(verdict) if self.forgives else verdict
        return self.rule(fields)


def make_entry(cases: tuple[RuleCase, ...]) -> HealthRuleEntry:
    """Create the rule of a kind from its cases."""
    paths = set(ALWAYS_READ)
    for case in cases:
        for expression in case.expressions:
            paths |= expression.reads.get(SELF, frozenset())
    return HealthRuleEntry(
        rule=RuleCases(
            cases, rests=tuple(name for name in SUSPEND if not paths.isdisjoint({("spec",), ("spec", name)}))
        ),
        paths=field_references.shorten(path for path in paths if path[0] not in METADATA),
    )


def complete(entry: HealthRuleEntry, general: HealthRuleEntry) -> HealthRuleEntry:
    """Return the rule of a kind that applies this general rule to objects that match no case."""
    assert isinstance(entry.rule, RuleCases)  # noqa: S101 -- tells the type checker
    return dataclasses.replace(
        entry,
        rule=dataclasses.replace(entry.rule, rule=general.rule),
        paths=field_references.shorten(entry.paths | general.paths),
    )


def make_forgiving(entry: HealthRuleEntry) -> HealthRuleEntry:
    """Return the rule of a kind that treats a conflict of two writers as progressing, like the general rule."""
    assert isinstance(entry.rule, RuleCases)  # noqa: S101 -- tells the type checker
    return dataclasses.replace(entry, rule=dataclasses.replace(entry.rule, forgives=True))


def forgive(result: HealthResult) -> HealthResult:
    """Turn a failure that the next reconcile is likely to fix into progressing."""
    if result.state is not HealthState.FAILED or result.terminal or not condition_types.passes(result.message):
        return result
    return dataclasses.replace(result, state=HealthState.PROGRESSING)


def read_conditions(fields: Fields) -> dict[str, Mapping[str, Any]]:
    """Return the raw conditions by type, without outdated ones."""
    found: dict[str, Mapping[str, Any]] = {}
    for item in read_items(fields, "status.conditions"):
        name = item.get("type")
        if isinstance(name, str) and not is_outdated(item, fields):
            found[name] = item
    return found


def assess_case(case: RuleCase, fields: Fields, conditions: Mapping[str, Mapping[str, Any]]) -> HealthResult | None:
    """Return the result of the case, or None if it does not match."""
    condition: Mapping[str, Any] | None = None
    if case.matches:
        condition = find_condition(case.matches, conditions)
        if condition is None:
            return None
    values: dict[str, Mapping[str, Any]] = {SELF: fields}
    if condition is not None:
        values[CONDITION] = {"reason": "", "message": "", **condition}
    if case.when is not None:
        outcome = case.when.evaluate(values)
        if isinstance(outcome, EvaluationError):
            return unknown("HealthRuleFailed", f"health rule of {outcome.path}: {outcome.message}")
        if not isinstance(outcome, Known) or outcome.value is not True:
            return None
    shown = values.get(CONDITION, {})
    reason = (
        write(case.reason, values)
        or read_word(shown, "reason")
        or read_word(shown, "type")
        or case.state.value.capitalize()
    )
    message = write(case.message, values) or read_word(shown, "message")
    return HealthResult(state=case.state, reason=reason, message=message, terminal=case.terminal)


def find_condition(
    matches: tuple[ConditionMatch, ...], conditions: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first condition that matches, if any."""
    for each in matches:
        condition = conditions.get(each.type)
        if condition is not None and condition.get("status") in each.statuses:
            return condition
    return None


def read_word(condition: Mapping[str, Any], word: str) -> str:
    """Return a field of a condition if it is a string, otherwise an empty string."""
    value = condition.get(word)
    return value if isinstance(value, str) else ""


def write(text: Text, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the text with the values of its expressions. An expression without a value adds nothing."""
    return "".join(part if isinstance(part, str) else evaluate(part, values) for part in text).strip()


def evaluate(expression: Expression, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the value of an expression as text."""
    outcome = expression.evaluate(values)
    return str(outcome.value) if isinstance(outcome, Known) and outcome.value is not None else ""
