"""Health of kinds that run to completion or have no controller: Pod and Job."""

from __future__ import annotations

from hearth.plan.health.general import condition_types
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    entry,
    failed,
    find_unobserved,
    progressing,
    read,
    read_conditions,
    read_count,
    read_items,
    read_text,
    ready,
    unknown,
)

UNCONFIGURED = "CreateContainerConfigError"
"""Waiting reason of a container whose ConfigMap or Secret is missing or wrong. Its message is the API server's."""
STUCK = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        UNCONFIGURED,
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Waiting reasons of a container that hardly starts without intervention. `ErrImagePull` is only the first attempt."""


def assess_job(fields: Fields) -> HealthResult:
    """Return ready when the Job is complete.

    Other tools call a Job ready once it has started, since nothing is wrong with it. A dependent of a Job (a migration)
    needs it finished. A suspended Job is ready: it runs nothing, as requested.
    """
    conditions = read_conditions(fields)
    complete, broken = conditions.get("Complete"), conditions.get("Failed")
    if broken is not None and broken.is_true:
        return failed(broken.reason or "Failed", broken.message, terminal=True)
    if complete is not None and complete.is_true:
        return ready(complete.reason or "Complete", complete.message)
    if read(fields, "spec.suspend") is True:
        return ready("Suspended", "it is suspended")
    return progressing("NotComplete", count_job(fields))


def count_job(fields: Fields) -> str:
    """Describe the progress of a Job."""
    succeeded = read_count(fields, "status.succeeded")
    wanted = read_count(fields, "spec.completions", default=max(1, succeeded))
    counts = f"{succeeded} of {wanted} pods succeeded"
    broken = read_count(fields, "status.failed")
    return f"{counts}, {broken} failed" if broken else counts


def assess_pod(fields: Fields) -> HealthResult:
    """Return ready when the pod is running and Ready, or has succeeded."""
    phase = read_text(fields, "status.phase")
    message = read_text(fields, "status.message")
    match phase:
        case "Succeeded":
            return ready("Succeeded", message)
        case "Failed":
            return failed(
                read_text(fields, "status.reason") or "Failed", message or describe_exit(fields), terminal=True
            )
        case "Unknown":
            return unknown(read_text(fields, "status.reason") or "Unknown", message or "its node does not report")
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    condition = read_conditions(fields).get("Ready")
    if phase == "Running" and condition is not None and condition.is_true:
        return ready("Running")
    return find_stuck(fields) or assess_start(fields, phase)


def find_stuck(fields: Fields) -> HealthResult | None:
    """Return failed if a container cannot start, unless it waits for another object. The node keeps retrying, so another pod would not help."""
    for container in containers(fields):
        reason = read_text(container, "state.waiting.reason")
        if reason in STUCK:
            words = read_text(container, "state.waiting.message")
            name = read_text(container, "name")
            problem = f"container {name}: {words}" if words else f"container {name} does not start"
            if reason == UNCONFIGURED and condition_types.passes(words):
                # What is not there yet may come in the same Stack, a moment later.
                return progressing(reason, problem)
            last = describe_last_exit(container)
            return failed(reason, f"{problem}; {last}" if last else problem)
    return None


def describe_last_exit(container: Fields) -> str:
    """Describe the last exit of a container that restarts repeatedly."""
    code = read_count(container, "lastState.terminated.exitCode", default=-1)
    if code < 0:
        return ""
    ended = "lastState.terminated"
    why = read_text(container, f"{ended}.message") or read_text(container, f"{ended}.reason")
    return f"its last exit code is {code}" + (f": {why.strip()}" if why else "")


def assess_start(fields: Fields, phase: str) -> HealthResult:
    """Return progressing with the cause of the delay."""
    conditions = read_conditions(fields)
    scheduled, condition = conditions.get("PodScheduled"), conditions.get("Ready")
    if scheduled is not None and scheduled.is_false:
        # Not failed: a node may appear or gain capacity at any time, and the object does not show how long that takes.
        return progressing(scheduled.reason or "NotScheduled", scheduled.message or "it is not scheduled to a node")
    for container in containers(fields):
        words = read_text(container, "state.waiting.message")
        if words:
            reason = read_text(container, "state.waiting.reason")
            return progressing(reason or "NotReady", f"container {read_text(container, 'name')}: {words}")
    if condition is not None and condition.message:
        return progressing(condition.reason or "NotReady", condition.message)
    return progressing("NotReady", f"it is {phase.lower()}" if phase else "no node has reported on it yet")


def describe_exit(fields: Fields) -> str:
    """Describe the exit of the first container that failed."""
    for container in containers(fields):
        code = read_count(container, "state.terminated.exitCode")
        if code:
            why = read_text(container, "state.terminated.message") or read_text(container, "state.terminated.reason")
            return f"container {read_text(container, 'name')} exited with code {code}" + (f": {why}" if why else "")
    return "it failed without a message"


def containers(fields: Fields) -> list[Fields]:
    """Return the status of all containers, in the order in which they start."""
    return read_items(fields, "status.initContainerStatuses") + read_items(fields, "status.containerStatuses")


JOB = entry(assess_job, "spec.suspend", "spec.completions", "status.conditions", "status.succeeded", "status.failed")
POD = entry(
    assess_pod,
    "status.observedGeneration",
    "status.phase",
    "status.reason",
    "status.message",
    "status.conditions",
    "status.initContainerStatuses",
    "status.containerStatuses",
)
