"""Readiness of one object: from `failedWhen` and `readyWhen` of its resource, or the health rule of its kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from hearth.model import limits, object_fields, well_known_kinds
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.model.text import finalizers
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.health import health_rules
from hearth.plan.health.health_result import HealthResult
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus, SilenceNoticed
from hearth.template.blueprint import Evaluable, EvaluationError, Known, Pending, ResourceBlueprint, Values
from hearth.template.cel import expressions

SOURCE_KINDS = frozenset(kind.key for kind in well_known_kinds.SOURCE_KINDS.values())
"""Kinds that a Stack reads its definition from."""
UNHEALTHY = "Unhealthy"
"""The reason for an object that is marked unhealthy."""


def assess(resource: ResourceBlueprint, child: Child, values: Values, rules: HealthRules) -> ResourceStatus:
    """Return the status of the child. values: fields of the required resources; rules: health rules by kind."""
    if child.deleting:
        hold = finalizers.describe_hold(child.finalizers)
        held = f" ({hold})" if hold else ""
        return make_status(
            child,
            ResourceState.PROGRESSING,
            "Terminating",
            f"is being deleted{held}; it will be recreated when the deletion completes",
        )
    if child.unhealthy_reason is not None:
        status = make_status(child, ResourceState.FAILED, UNHEALTHY, f"is marked unhealthy: {child.unhealthy_reason}")
        return dataclasses.replace(status, cause=Cause.MARKED_UNHEALTHY)
    if resource.failed_when or resource.ready_when:
        began = rules.turn.begin_work(resource.name)
        if began is None:
            rules.turn.put_off()
            return dataclasses.replace(interpret(health_rules.POSTPONED, child), cause=Cause.EVALUATING)
        # All rules of a resource belong to one turn: rules in the next turn could contradict those of this one.
        found = _evaluate(resource, child, values)
        rules.turn.end_work(began)
        if found is not None:
            return found
    verdict = rules.assess(child.fields, kind=child.kind, resource=resource.name)
    status = interpret(verdict, child)
    if verdict.is_pending or verdict.is_silent:
        return dataclasses.replace(status, cause=Cause.EVALUATING if verdict.is_pending else Cause.NOT_OBSERVED)
    return status


def _evaluate(resource: ResourceBlueprint, child: Child, values: Values) -> ResourceStatus | None:
    """Return the status by the rules of the resource, or None if the health rule of the kind decides."""
    seen = {**values, resource.own_name: expressions.enlarge(child.fields)}
    if failure := _find_failure(resource.failed_when, seen, child):
        return failure
    return _follow(resource.ready_when, seen, child) if resource.ready_when else None


def serves(child: Child, rules: HealthRules) -> bool:
    """Return whether an object that no resource describes is in service by the rules of its kind."""
    if child.deleting or child.unhealthy_reason is not None:
        return False
    verdict = rules.assess(child.fields, kind=child.kind)
    # The result of a slow rule arrives later, so the object is in service until then.
    return verdict.is_pending or verdict.state is health_rules.HealthState.READY


def interpret(result: HealthResult, child: Child) -> ResourceStatus:
    """Return the status of a child with this health."""
    match result.state:
        case health_rules.HealthState.READY:
            return make_status(child, ResourceState.READY, "Ready", result.message)
        case health_rules.HealthState.FAILED:
            return make_status(child, ResourceState.FAILED, result.reason, result.message, is_terminal=result.terminal)
        case _ if result.stops:
            status = make_status(child, ResourceState.STOPPED, result.reason, result.message)
            return dataclasses.replace(status, nested_stops=result.stops)
        case _:
            return make_status(child, ResourceState.PROGRESSING, result.reason, result.message)


def make_status(
    child: Child, state: ResourceState, reason: str, message: str, *, is_terminal: bool = False
) -> ResourceStatus:
    """Return a status that depends only on the child."""
    return ResourceStatus(state=state, reason=reason, message=message, child=child, is_terminal=is_terminal)


def explain_silence(child: Child, status: ResourceStatus, memory: InMemoryState, *, now: float) -> ResourceStatus:
    """Return the status of a silent child, with advice once it has been silent for long. now: monotonic seconds."""
    since = memory.silent_since.get(child.uid)
    if since is None:
        noticed = SilenceNoticed(uid=child.uid)
        return dataclasses.replace(status, requeue_at=now + limits.SILENCE, memory_updates=(noticed,))
    if now < since + limits.SILENCE:
        return dataclasses.replace(status, requeue_at=since + limits.SILENCE)
    kind = f"{child.kind.group}/{child.kind.name}" if child.kind.group else child.kind.name
    ways_out = (
        f"no report for {limits.SILENCE:g} s: check that the controller is running; if no controller reports on this "
        "kind, "
        f'set readyWhen: ["true"], or add a health rule for {kind} to the ConfigMap hearth-health-rules'
    )
    return dataclasses.replace(status, message=f"{status.message}; {ways_out}")


def _find_failure(rules: tuple[Evaluable, ...], values: Values, child: Child) -> ResourceStatus | None:
    """Evaluate the resource's own `failedWhen` rules. Returns None if no rule is met."""
    outcomes = [rule.evaluate(values) for rule in rules]
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Known) and outcome.value is True:
            message = f"its rule failedWhen[{number}] is met"
            return make_status(child, ResourceState.FAILED, "FailedWhen", message, is_terminal=True)
    for outcome in outcomes:
        if isinstance(outcome, EvaluationError):
            # A rule that cannot be evaluated would never detect a failure.
            return make_status(child, ResourceState.FAILED, "ExpressionFailed", f"{outcome.path}: {outcome.message}")
    return None


def _follow(rules: tuple[Evaluable, ...], values: Values, child: Child) -> ResourceStatus:
    """Evaluate the resource's own `readyWhen` rules."""
    if is_stale(child):
        return make_status(
            child, ResourceState.PROGRESSING, "Progressing", "its controller has not observed the latest change yet"
        )
    for number, rule in enumerate(rules):
        outcome = rule.evaluate(values)
        match outcome:
            case Known(value=True):
                continue
            case Known():
                message = f"its rule readyWhen[{number}] is not met yet"
                return make_status(child, ResourceState.PROGRESSING, "ReadyWhenNotMet", message)
            case Pending():
                return make_status(
                    child, ResourceState.PROGRESSING, "ReadyWhenNotMet", f"waits for {enumerate_names(outcome.missing)}"
                )
            case EvaluationError():
                return make_status(
                    child, ResourceState.FAILED, "ExpressionFailed", f"{outcome.path}: {outcome.message}"
                )
    return make_status(child, ResourceState.READY, "Ready", "its readyWhen rules are met")


def find_unread_source(
    child: Child, described: Mapping[ObjectRef, str], sources: Iterable[Child]
) -> ResourceStatus | None:
    """Return the status of a nested Stack or instance whose own status describes an older version of a source.

    Its definition, or one within it, is read from the source. A change of the source alone does not change the
    generation of the object. described: the versions that its status describes; sources: the objects that it requires.
    """
    by_ref = {dataclasses.replace(each.ref, group=""): each for each in sources if each.kind.key in SOURCE_KINDS}
    for ref, version in described.items():
        source = by_ref.get(ref)
        if source is not None and object_fields.is_older_version(version, str(source.resource_version)):
            message = f"its operator has not read the latest change of {source.ref} yet"
            return make_status(child, ResourceState.PROGRESSING, "Progressing", message)
    return None


def is_stale(child: Child) -> bool:
    """Return whether the object's status describes an older generation, so that rules would assess outdated data."""
    status = child.fields.get("status")
    observed = status.get("observedGeneration") if isinstance(status, dict) else None
    generation = child.fields["metadata"].get("generation")
    return isinstance(observed, int) and isinstance(generation, int) and observed < generation
