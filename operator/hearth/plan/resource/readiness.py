"""How one object does that is as it was asked to be: by its resource's own rules, else by those of its kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hearth.model.child import Child
from hearth.plan.health import health_rules
from hearth.plan.health.health_rules import Rulebook
from hearth.plan.state.resource_status import Standing, State
from hearth.template.blueprint import Broken, Evaluable, Known, Pending, ResourceBlueprint, Values
from hearth.template.cel import expressions

UNHEALTHY = "Unhealthy"
"""The reason of an object that somebody has marked."""
NAMED_AT_MOST = 5
"""Names in a message; a person reads no more, and the rest shows as a number."""


def judge(resource: ResourceBlueprint, child: Child, values: Values, rules: Rulebook) -> Standing:
    """The standing of the child. values: the fields of what the resource requires; rules: those of kinds."""
    if child.deleting:
        held = f" (held by {', '.join(child.finalizers)})" if child.finalizers else ""
        return stand(child, State.PROGRESSING, "Terminating", f"is being deleted{held}; it comes back when it is gone")
    if child.mark is not None:
        return stand(child, State.FAILED, UNHEALTHY, f"is marked unhealthy: {child.mark}")
    seen = values
    if resource.failed_when or resource.ready_when:
        seen = {**values, resource.name: expressions.enlarge(child.fields)}
    for rule in resource.failed_when:
        outcome = rule.evaluate(seen)
        if isinstance(outcome, Known) and outcome.value is True:
            return stand(child, State.FAILED, "FailedWhen", "its failedWhen rule holds", is_terminal=True)
    if resource.ready_when:
        return _follow(resource.ready_when, seen, child)
    verdict = rules.judge(child.fields, kind=child.kind)
    match verdict.state:
        case health_rules.State.READY:
            return stand(child, State.READY, "Ready", verdict.message)
        case health_rules.State.FAILED:
            return stand(child, State.FAILED, verdict.reason, verdict.message, is_terminal=verdict.terminal)
        case _ if verdict.stops:
            standing = stand(child, State.STOPPED, verdict.reason, verdict.message)
            return dataclasses.replace(standing, stops_within=verdict.stops)
        case _:
            return stand(child, State.PROGRESSING, verdict.reason, verdict.message)


def stand(child: Child, state: State, reason: str, message: str, *, is_terminal: bool = False) -> Standing:
    """A standing that follows from the child alone."""
    return Standing(state=state, reason=reason, message=message, child=child, is_terminal=is_terminal)


def _follow(rules: tuple[Evaluable, ...], values: Values, child: Child) -> Standing:
    """The standing by a resource's own `readyWhen`."""
    if is_stale(child):
        return stand(child, State.PROGRESSING, "Progressing", "its controller has not seen the latest change yet")
    for rule in rules:
        outcome = rule.evaluate(values)
        match outcome:
            case Known(value=True):
                continue
            case Known():
                return stand(child, State.PROGRESSING, "NotReadyYet", "its readyWhen rule does not hold yet")
            case Pending():
                return stand(child, State.PROGRESSING, "NotReadyYet", f"waits for {enumerate_names(outcome.missing)}")
            case Broken():
                return stand(child, State.FAILED, "ExpressionFailed", f"{outcome.path}: {outcome.message}")
    return stand(child, State.READY, "Ready", "its readyWhen rules hold")


def is_stale(child: Child) -> bool:
    """Whether its status speaks of an older generation, so that rules on it would judge the past."""
    status = child.fields.get("status")
    observed = status.get("observedGeneration") if isinstance(status, dict) else None
    generation = child.fields["metadata"].get("generation")
    return isinstance(observed, int) and isinstance(generation, int) and observed < generation


def enumerate_names(names: Sequence[str]) -> str:
    """`a, b, c and 12 more`."""
    if len(names) <= NAMED_AT_MOST:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED_AT_MOST])} and {len(names) - NAMED_AT_MOST} more"
