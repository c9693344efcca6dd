"""The resources of a template whose `when` is false, as far as the spec of the Stack tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.cli import object_fields
from hearth.cli.stack_views.stack_state import StackState


def find_excluded(template: Mapping[str, Any], stack: StackState) -> frozenset[str]:
    """Return their names. What depends on values that the spec does not contain counts as present.

    template: of the target revision. In a rollback the parameters in the spec are others.
    """
    stated = {
        name: resource["when"]
        for name, resource in object_fields.mapping(template, "resources").items()
        if isinstance(resource, Mapping) and "when" in resource
    }
    found = {name for name, when in stated.items() if when is False}
    if any(isinstance(when, str) for when in stated.values()) and not stack.is_rolled_back:
        constants = evaluate_conditions(template, stack)
        found |= {name for name, when in stated.items() if evaluate(when, constants) is False}
    return frozenset(found)


def evaluate_conditions(template: Mapping[str, Any], stack: StackState) -> dict[str, Any]:
    """Return parameters and conditions as expressions read them, without those that are not known."""
    # It takes some time to import, and most trees need none of it.
    from hearth.template.parser import template_kinds

    given = dict(object_fields.mapping(stack.spec, "parameters"))
    # A value from a source takes the place of a default.
    rules = {} if stack.spec.get("parametersFrom") else dict(object_fields.mapping(template, "parameters"))
    params = template_kinds.guess_parameters(rules, given)
    known: dict[str, bool] = {}
    stated = object_fields.mapping(template, "conditions")
    for _ in stated:
        for name, text in stated.items():
            truth = evaluate(text, {"params": params, "conditions": known}) if name not in known else None
            known |= {name: truth} if truth is not None else {}
    return {"params": params, "conditions": known}


def evaluate(text: Any, constants: Mapping[str, Any]) -> bool | None:
    """Return whether a condition is met; None if that is not known here."""
    from hearth.template.blueprint import Known
    from hearth.template.cel import cel_environment, expressions

    if not isinstance(text, str):
        return text if isinstance(text, bool) else None
    try:
        parsed = expressions.parse(text.strip().removeprefix("${").removesuffix("}") if text.startswith("${") else text)
    except cel_environment.CelCompileError:
        return None
    if not expressions.is_bounded(parsed) or set(parsed.roots) - {"params", "conditions"}:
        return None
    given = {name: expressions.enlarge(dict(constants[name])) for name in parsed.roots}
    outcome = expressions.bind(parsed, path="", constants=given).evaluate({})
    return outcome.value if isinstance(outcome, Known) and isinstance(outcome.value, bool) else None
