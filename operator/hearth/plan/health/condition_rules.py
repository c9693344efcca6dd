"""Health rules of core kinds and nested Stacks, based on their status.

Pods, Jobs and workloads are in `workload_rules`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from hearth.plan.environment.environment_rules import Action
from hearth.plan.health.general import condition_types
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    HealthState,
    NestedStop,
    ObjectCondition,
    entry,
    failed,
    find_unobserved,
    progressing,
    read,
    read_conditions,
    read_items,
    read_text,
    ready,
    unknown,
)

DECISIVE = ("Ready", "Available")
"""Conditions that decide whether an object is ready. The first one present counts."""

SELECTS_WRONGLY = frozenset({"InvalidSelector", "AmbiguousSelector"})
"""Reasons for an inactive autoscaler that only the user can fix."""


def assess_reporting(fields: Fields) -> HealthResult:
    """Assess by the conditions of kstatus. A missing one means that the controller has not observed the object yet."""
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    conditions = read_conditions(fields)
    unseen = progressing("NotObserved", "its controller has not reported on it")
    return find_exception(conditions) or find_decision(conditions) or unseen


def find_exception(conditions: Mapping[str, ObjectCondition]) -> HealthResult | None:
    """Assess by the conditions that are present only in abnormal states."""
    stalled, reconciling = conditions.get("Stalled"), conditions.get("Reconciling")
    if stalled is not None and stalled.is_true:
        return failed(stalled.reason or "Stalled", stalled.message)
    if reconciling is not None and reconciling.is_true:
        return progressing(reconciling.reason or "Reconciling", reconciling.message)
    return None


def refuse(reason: str, message: str) -> HealthResult:
    """Return failed, or progressing if the controller's next reconcile is likely to fix the error in the message."""
    return (progressing if condition_types.passes(message) else failed)(reason, message)


def find_decision(conditions: Mapping[str, ObjectCondition]) -> HealthResult | None:
    """Assess by the decisive condition."""
    name = next((name for name in DECISIVE if name in conditions), None)
    if name is None:
        return None
    condition = conditions[name]
    if condition.is_outdated:
        return progressing(
            "NotObserved", f"its controller has not reported whether it is {name.lower()} since the last change"
        )
    if condition.is_true:
        return ready(condition.reason or name, condition.message)
    if condition.is_false:
        return progressing(condition.reason or f"Not{name}", condition.message)
    return unknown(condition.reason or f"{name}Unknown", condition.message)


def assess_existing(fields: Fields) -> HealthResult:  # noqa: ARG001 -- a rule takes the fields, and this one needs none
    """Return ready because the object exists."""
    return ready("Exists")


def assess_service(fields: Fields) -> HealthResult:
    """Return ready immediately, except that a load balancer needs its address."""
    if read_text(fields, "spec.type") == "LoadBalancer" and not read(fields, "status.loadBalancer.ingress"):
        return progressing("NoLoadBalancer", "its load balancer has no address")
    return ready("Exists")


def assess_claim(fields: Fields) -> HealthResult:
    """Return ready when the claim is bound.

    A class that binds on first use leaves a claim pending until a pod uses it. So does a class without free volumes,
    and the claim does not show which applies. Therefore pending is never ready, and the message names the remedy.
    """
    phase = read_text(fields, "status.phase")
    if phase == "Bound":
        return ready("Bound")
    if phase == "Lost":
        # Not terminal: a new claim would be empty, and restoring the volume repairs this one.
        return failed("Lost", "its volume is lost")
    where = read_text(fields, "spec.storageClassName")
    of_class = f" of class {where}" if where else ""
    hint = 'if its class binds on first use, skip the wait with readyWhen: ["true"]'
    return progressing("NotBound", f"it is waiting for a volume{of_class}; {hint}")


def assess_volume(fields: Fields) -> HealthResult:
    """Return ready when the volume can be claimed or is claimed."""
    phase, message = read_text(fields, "status.phase"), read_text(fields, "status.message")
    match phase:
        case "Available" | "Bound":
            return ready(phase)
        case "Released":
            return ready(phase, "its claim is deleted; no other claim can bind it until it is released by hand")
        case "Failed":
            # The volume still has its data, so a new volume would not help.
            return failed(read_text(fields, "status.reason") or phase, message or "it could not be reclaimed")
    return progressing("NotAvailable", message or "its controller has not processed it yet")


def assess_budget(fields: Fields) -> HealthResult:
    """Return ready when the PodDisruptionBudget's pods are counted, whether it allows a disruption now or not."""
    unobserved = find_unobserved(fields, is_always_reported=True)
    if unobserved is not None:
        return unobserved
    allowed = read_conditions(fields).get("DisruptionAllowed")
    if allowed is not None and allowed.is_false and allowed.reason == "SyncFailed":
        return refuse(allowed.reason, allowed.message)
    return ready("Counted", allowed.message if allowed is not None else "")


def assess_autoscaler(fields: Fields) -> HealthResult:
    """Return ready unless the HorizontalPodAutoscaler cannot scale its target.

    A missing target counts as progressing. Missing metrics are not a failure, because they are missing whenever the
    pods are new. The message reports them.
    """
    conditions = read_conditions(fields)
    able, active = conditions.get("AbleToScale"), conditions.get("ScalingActive")
    if able is not None and able.is_false and able.reason != "BackoffBoth":
        return refuse(able.reason or "UnableToScale", able.message)
    if active is not None and active.is_false:
        if active.reason in SELECTS_WRONGLY:
            return failed(active.reason, active.message)
        return ready(active.reason or "NotActive", active.message)
    return ready("Active" if active is not None else "Exists", active.message if active is not None else "")


def assess_definition(fields: Fields) -> HealthResult:
    """Return ready when the CustomResourceDefinition's kind is served."""
    conditions = read_conditions(fields)
    names, established = conditions.get("NamesAccepted"), conditions.get("Established")
    if names is not None and names.is_false:
        # Not terminal: the definition is accepted as soon as the conflicting one releases the names.
        return failed(names.reason or "NamesNotAccepted", names.message)
    if established is None:
        return progressing("NotEstablished", "its names are not checked yet")
    if established.is_true:
        return ready(established.reason or "Established", established.message)
    if established.is_false and established.reason not in ("", "Installing"):
        return failed(established.reason, established.message)
    return progressing(established.reason or "NotEstablished", established.message)


def assess_quota(fields: Fields) -> HealthResult:
    """Return ready when the ResourceQuota's status contains its limits. Until then, it counts and rejects nothing."""
    limits, stated = read(fields, "spec.hard"), read(fields, "status.hard")
    if not isinstance(limits, dict) or not limits:
        return ready("Exists")
    if stated == limits:
        return ready("Counted")
    return progressing(
        "NotCounted", "its limits are not in force yet: its controller has not counted the objects in use"
    )


def assess_namespace(fields: Fields) -> HealthResult:
    """Return ready while the namespace is active."""
    if read_text(fields, "status.phase") == "Terminating":
        return progressing("Terminating", "it is terminating")
    return ready("Active")


# Health of nested Stacks, from their conditions and their resources that wait at a breakpoint.

HOOKS = frozenset(f"{when}{action}" for when in ("Pre", "Post") for action in Action)


def assess_stack(fields: Fields) -> HealthResult:
    """Assess like any reporting kind. A stopped Stack's result includes the resources that wait for a user."""
    verdict = assess_reporting(fields)
    if verdict.state is HealthState.PROGRESSING and verdict.reason == "Stopped":
        return dataclasses.replace(verdict, stops=tuple(read_stops(fields)))
    return verdict


def read_stops(fields: Fields) -> Iterator[NestedStop]:
    """Yield the waiting resources from the Stack's own list, which includes resources of deeper Stacks."""
    for item in read_items(fields, "status.breakpoints"):
        resource, hook = read_text(item, "resource"), read_text(item, "hook")
        if resource and hook in HOOKS:
            yield NestedStop(
                resource=resource,
                hook=hook,
                kind=read_text(item, "kind"),
                name=read_text(item, "name"),
                stack=read_text(item, "stack") or read_text(fields, "metadata.name"),
            )


QUOTA = entry(assess_quota, "spec.hard", "status.hard")
REPORTING = entry(assess_reporting, "status.observedGeneration", "status.conditions")
EXISTING = entry(assess_existing)
SERVICE = entry(assess_service, "spec.type", "status.loadBalancer.ingress")
CLAIM = entry(assess_claim, "spec.storageClassName", "status.phase")
DEFINITION = entry(assess_definition, "status.conditions")
NAMESPACE = entry(assess_namespace, "status.phase", "status.conditions")
VOLUME = entry(assess_volume, "status.phase", "status.reason", "status.message")
BUDGET = entry(assess_budget, "status.observedGeneration", "status.conditions")
AUTOSCALER = entry(assess_autoscaler, "status.conditions")
STACK = entry(assess_stack, "status.observedGeneration", "status.conditions", "status.breakpoints", "status.sources")
