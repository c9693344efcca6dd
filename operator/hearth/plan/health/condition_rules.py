"""Health of single objects by what they say of themselves: the general rule, and the kinds that bend it."""

from __future__ import annotations

from collections.abc import Mapping

from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    ObjectCondition,
    entry,
    failed,
    find_unobserved,
    progressing,
    read,
    read_conditions,
    read_text,
    ready,
    unknown,
)

DECISIVE = ("Ready", "Available")
"""The conditions that tell whether an object is as it was asked to be; the first that is there counts."""

SELECTS_WRONGLY = frozenset({"InvalidSelector", "AmbiguousSelector"})
"""Why an autoscaler does nothing that only somebody's change can mend."""


def judge_any(fields: Fields) -> HealthResult:
    """By the conditions that most controllers keep; an object that says nothing of itself is ready by being there."""
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    conditions = read_conditions(fields)
    return find_exception(conditions) or find_decision(conditions) or ready("Exists")


def find_exception(conditions: Mapping[str, ObjectCondition]) -> HealthResult | None:
    """What those conditions say that are only there while something is not as usual."""
    stalled, reconciling = conditions.get("Stalled"), conditions.get("Reconciling")
    if stalled is not None and stalled.is_true:
        return failed(stalled.reason or "Stalled", stalled.message)
    if reconciling is not None and reconciling.is_true:
        return progressing(reconciling.reason or "Reconciling", reconciling.message)
    synced = conditions.get("Synced")
    if synced is not None and synced.is_false and "Ready" in conditions:
        # As Crossplane says it, whose kinds may be of any group: what is wanted was refused, and Ready speaks of before.
        return judge_unsynced(synced)
    return None


def find_decision(conditions: Mapping[str, ObjectCondition]) -> HealthResult | None:
    """What the decisive condition says."""
    name = next((name for name in DECISIVE if name in conditions), None)
    if name is None:
        return None
    condition = conditions[name]
    if condition.is_outdated:
        return progressing("NotObserved", f"its controller has not said whether it is {name.lower()} since it changed")
    if condition.is_true:
        return ready(condition.reason or name, condition.message)
    if condition.is_false:
        return progressing(condition.reason or f"Not{name}", condition.message)
    return unknown(condition.reason or f"{name}Unknown", condition.message)


def judge_unsynced(synced: ObjectCondition) -> HealthResult:
    """Failed, unless it was asked to do nothing."""
    if synced.reason == "ReconcilePaused":
        return ready("Suspended", "it is paused")
    return failed(synced.reason or "NotSynced", synced.message)


def judge_reporting(fields: Fields) -> HealthResult:
    """Like any other, but silence means that it was not looked at yet."""
    if not any(name in read_conditions(fields) for name in DECISIVE):
        return progressing("NotObserved", "its controller has not reported on it")
    return judge_any(fields)


def judge_existing(fields: Fields) -> HealthResult:  # noqa: ARG001 -- a rule takes the fields, and this one needs none
    """Ready by being there."""
    return ready("Exists")


def judge_service(fields: Fields) -> HealthResult:
    """Ready at once, except that a load balancer needs its address."""
    if read_text(fields, "spec.type") == "LoadBalancer" and not read(fields, "status.loadBalancer.ingress"):
        return progressing("NoLoadBalancer", "its load balancer has no address")
    return ready("Exists")


def judge_claim(fields: Fields) -> HealthResult:
    """Ready when it is bound.

    A class that binds on first use leaves a claim pending until a pod wants it, which the claim itself does not show;
    so does a class that has run out of volumes. Hence pending is never ready here, and the message says what to do.
    """
    phase = read_text(fields, "status.phase")
    if phase == "Bound":
        return ready("Bound")
    if phase == "Lost":
        # Not terminal: another claim would come up empty, and whoever restores the volume mends this one.
        return failed("Lost", "its volume is gone")
    where = read_text(fields, "spec.storageClassName")
    of_class = f" of class {where}" if where else ""
    hint = 'if that binds on first use, do not wait for it: readyWhen: ["true"]'
    return progressing("NotBound", f"it is waiting for a volume{of_class}; {hint}")


def judge_volume(fields: Fields) -> HealthResult:
    """Ready when it can be claimed, or is."""
    phase, message = read_text(fields, "status.phase"), read_text(fields, "status.message")
    match phase:
        case "Available" | "Bound":
            return ready(phase)
        case "Released":
            return ready(phase, "its claim is gone; nobody else can claim it before it is released by hand")
        case "Failed":
            # What it holds is still there, so another one would be no help.
            return failed(read_text(fields, "status.reason") or phase, message or "it could not be reclaimed")
    return progressing("NotAvailable", message or "it has not been looked at")


def judge_budget(fields: Fields) -> HealthResult:
    """A PodDisruptionBudget is ready when its pods were counted, whether it allows a disruption at the moment or not."""
    unobserved = find_unobserved(fields, is_always_told=True)
    if unobserved is not None:
        return unobserved
    allowed = read_conditions(fields).get("DisruptionAllowed")
    if allowed is not None and allowed.is_false and allowed.reason == "SyncFailed":
        return failed(allowed.reason, allowed.message)
    return ready("Counted", allowed.message if allowed is not None else "")


def judge_autoscaler(fields: Fields) -> HealthResult:
    """A HorizontalPodAutoscaler is ready unless it cannot find or scale its target.

    Metrics come and go, at the latest whenever its pods are new: that it has none just now is said, and fails nothing.
    """
    conditions = read_conditions(fields)
    able, active = conditions.get("AbleToScale"), conditions.get("ScalingActive")
    if able is not None and able.is_false and able.reason != "BackoffBoth":
        return failed(able.reason or "UnableToScale", able.message)
    if active is not None and active.is_false:
        if active.reason in SELECTS_WRONGLY:
            return failed(active.reason, active.message)
        return ready(active.reason or "NotActive", active.message)
    return ready("Active" if active is not None else "Exists", active.message if active is not None else "")


def judge_definition(fields: Fields) -> HealthResult:
    """A CustomResourceDefinition is ready when its kind is served."""
    conditions = read_conditions(fields)
    names, established = conditions.get("NamesAccepted"), conditions.get("Established")
    if names is not None and names.is_false:
        # Not terminal: it is accepted as soon as whoever holds the names gives them up.
        return failed(names.reason or "NamesNotAccepted", names.message)
    if established is None:
        return progressing("NotEstablished", "its names have not been looked at")
    if established.is_true:
        return ready(established.reason or "Established", established.message)
    if established.is_false and established.reason not in ("", "Installing"):
        return failed(established.reason, established.message)
    return progressing(established.reason or "NotEstablished", established.message)


def judge_namespace(fields: Fields) -> HealthResult:
    """Ready while it is active."""
    if read_text(fields, "status.phase") == "Terminating":
        return progressing("Terminating", "it is on its way out")
    return ready("Active")


ANY = entry(judge_any, "status.observedGeneration", "status.conditions")
REPORTING = entry(judge_reporting, "status.observedGeneration", "status.conditions")
EXISTING = entry(judge_existing)
SERVICE = entry(judge_service, "spec.type", "status.loadBalancer.ingress")
CLAIM = entry(judge_claim, "spec.storageClassName", "status.phase")
DEFINITION = entry(judge_definition, "status.conditions")
NAMESPACE = entry(judge_namespace, "status.phase")
VOLUME = entry(judge_volume, "status.phase", "status.reason", "status.message")
BUDGET = entry(judge_budget, "status.observedGeneration", "status.conditions")
AUTOSCALER = entry(judge_autoscaler, "status.conditions")
