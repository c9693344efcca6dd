"""Health of single objects by what they say of themselves: the general rule, and the kinds that bend it."""

from __future__ import annotations

from hearth.plan.health_verdict import (
    Fields,
    Verdict,
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


def judge_any(fields: Fields) -> Verdict:
    """By the conditions that most controllers keep; an object that says nothing of itself is ready by being there."""
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    conditions = read_conditions(fields)
    stalled, reconciling = conditions.get("Stalled"), conditions.get("Reconciling")
    if stalled is not None and stalled.is_true:
        return failed(stalled.reason or "Stalled", stalled.message)
    if reconciling is not None and reconciling.is_true:
        return progressing(reconciling.reason or "Reconciling", reconciling.message)
    for name in DECISIVE:
        condition = conditions.get(name)
        if condition is None:
            continue
        if condition.is_true:
            return ready(condition.reason or name, condition.message)
        if condition.is_false:
            return progressing(condition.reason or f"Not{name}", condition.message)
        return unknown(condition.reason or f"{name}Unknown", condition.message)
    return ready("Exists")


def judge_reporting(fields: Fields) -> Verdict:
    """Like any other, but silence means that it was not looked at yet."""
    if "Ready" not in read_conditions(fields):
        return progressing("NotObserved", "its controller has not reported on it")
    return judge_any(fields)


def judge_existing(fields: Fields) -> Verdict:  # noqa: ARG001 -- a rule takes the fields, and this one needs none
    """Ready by being there."""
    return ready("Exists")


def judge_service(fields: Fields) -> Verdict:
    """Ready at once, except that a load balancer needs its address."""
    if read_text(fields, "spec.type") == "LoadBalancer" and not read(fields, "status.loadBalancer.ingress"):
        return progressing("NoLoadBalancer", "its load balancer has no address")
    return ready("Exists")


def judge_claim(fields: Fields) -> Verdict:
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


def judge_definition(fields: Fields) -> Verdict:
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
    return progressing(established.reason or "NotEstablished", established.message)


def judge_namespace(fields: Fields) -> Verdict:
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
