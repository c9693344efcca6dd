"""Health rules of Pods, Jobs, Deployments, ReplicaSets, StatefulSets and DaemonSets.

For kinds with replicas, the result describes the first unfinished part of the rollout.
"""

from __future__ import annotations

from hearth.plan.health.general import condition_types
from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    ObjectCondition,
    entry,
    failed,
    find_missing,
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

PARTITION = "spec.updateStrategy.rollingUpdate.partition"
UNCONFIGURED = "CreateContainerConfigError"
"""Waiting reason of a container whose ConfigMap or Secret is missing or wrong. Its message is the API server's."""
STUCK = frozenset(
    {
        "CrashLoopBackOff", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", UNCONFIGURED,
        "CreateContainerError", "RunContainerError",
    }
)  # fmt: skip
"""Waiting reasons of a container that is unlikely to start without intervention. `ErrImagePull` is missing because it
is only the first attempt."""


def assess_job(fields: Fields) -> HealthResult:
    """Return ready when the Job is complete.

    Other tools report a Job as ready once it has started, because nothing is wrong with it. But dependents of a Job
    (for example a migration) need it finished. A suspended Job is ready: it runs nothing, as requested.
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
                # The same Stack may create the missing object a moment later.
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
    """Return the status of all containers, in the order they start."""
    return read_items(fields, "status.initContainerStatuses") + read_items(fields, "status.containerStatuses")


JOB = entry(assess_job, "spec.suspend", "spec.completions", "status.conditions", "status.succeeded", "status.failed")
POD = entry(
    assess_pod, "status.observedGeneration", "status.phase", "status.reason", "status.message", "status.conditions",
    "status.initContainerStatuses", "status.containerStatuses",
)  # fmt: skip


def assess_deployment(fields: Fields) -> HealthResult:
    """Return ready when every desired pod uses the current template and is available, and no other pod remains."""
    conditions = read_conditions(fields)
    progress, available = conditions.get("Progressing"), conditions.get("Available")
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        # Not terminal: the controller continues, and reports progress again as soon as there is any.
        return failed(progress.reason, join(progress.message, describe_shortage(fields)))
    if read(fields, "spec.paused") is True:
        return assess_paused(fields)
    waiting = find_rollout(fields)
    if waiting is not None:
        return explain(waiting, conditions.get("ReplicaFailure"))
    if available is None or not available.is_true:
        return progressing(
            "NotAvailable", available.message if available else "its controller has not counted its pods"
        )
    if progress is not None and progress.reason != "NewReplicaSetAvailable":
        return progressing(progress.reason or "Progressing", progress.message)
    return ready(available.reason or "Available", available.message)


def explain(waiting_result: HealthResult, blocking_condition: ObjectCondition | None) -> HealthResult:
    """Return the cause of missing pods (a quota, an admission webhook) if it is known, otherwise their number."""
    if blocking_condition is None or not blocking_condition.is_true:
        return waiting_result
    return progressing(
        blocking_condition.reason or waiting_result.reason, blocking_condition.message or waiting_result.message
    )


def describe_shortage(fields: Fields) -> str:
    """Describe the missing parts of an overdue rollout. Returns "" if nothing is missing."""
    waiting = find_rollout(fields)
    return explain(waiting, read_conditions(fields).get("ReplicaFailure")).message if waiting is not None else ""


def join(*sentences: str) -> str:
    """Join the sentences that are not empty."""
    return "; ".join(sentence.rstrip(".") for sentence in sentences if sentence)


def assess_paused(fields: Fields) -> HealthResult:
    """Return ready unless existing pods are unavailable. Nothing waits for a rollout that is paused."""
    wanted, existing = read_count(fields, "spec.replicas", default=1), read_count(fields, "status.replicas")
    missing = find_missing("available", read_count(fields, "status.availableReplicas"), wanted) if existing else None
    return missing or ready("Suspended", "it is paused")


def find_rollout(fields: Fields) -> HealthResult | None:
    """Return progressing until a Deployment's pods are all updated and available, and no others remain."""
    wanted = read_count(fields, "spec.replicas", default=1)
    existing = read_count(fields, "status.replicas")
    return (
        find_missing("updated", read_count(fields, "status.updatedReplicas"), wanted)
        or find_old(existing, read_count(fields, "status.updatedReplicas"))
        or find_missing("ready", read_count(fields, "status.readyReplicas"), wanted)
        or find_missing("available", read_count(fields, "status.availableReplicas"), wanted)
        or find_surplus(existing, wanted)
    )


def find_old(existing: int, updated: int) -> HealthResult | None:
    """Return progressing while pods of an earlier template run: the controller deletes them as new ones become ready."""
    old = existing - updated
    if old <= 0:
        return None
    return progressing(
        "PodsNotReady", f"{old} old {'pod runs' if old == 1 else 'pods run'} until the new pods are ready"
    )


def find_surplus(existing: int, wanted: int) -> HealthResult | None:
    """Return progressing while surplus pods remain."""
    surplus = existing - wanted
    if surplus <= 0:
        return None
    return progressing(
        "PodsTerminating", f"{surplus} surplus {'pod is' if surplus == 1 else 'pods are'} not deleted yet"
    )


def assess_replica_set(fields: Fields) -> HealthResult:
    """Return ready when every desired pod is available. Applies to a ReplicationController too."""
    wanted = read_count(fields, "spec.replicas", default=1)
    waiting = (
        find_unobserved(fields)
        or find_missing("created", read_count(fields, "status.replicas"), wanted)
        or find_missing("ready", read_count(fields, "status.readyReplicas"), wanted)
        or find_missing("available", read_count(fields, "status.availableReplicas"), wanted)
        or find_surplus(read_count(fields, "status.replicas"), wanted)
    )
    if waiting is not None:
        return explain(waiting, read_conditions(fields).get("ReplicaFailure"))
    return ready("Available", f"{wanted} pods are available")


def assess_stateful_set(fields: Fields) -> HealthResult:
    """Return ready when every desired pod is ready and, if the strategy updates it, of the current revision."""
    wanted = read_count(fields, "spec.replicas", default=1)
    waiting = (
        find_unobserved(fields)
        or find_missing("created", read_count(fields, "status.replicas"), wanted)
        or find_stuck_pod(fields, wanted)
        or find_missing("ready", read_count(fields, "status.readyReplicas"), wanted)
        or find_unavailable(fields, wanted)
        or find_surplus(read_count(fields, "status.replicas"), wanted)
        or find_stateful_rollout(fields, wanted)
    )
    return waiting or ready("Available", f"{wanted} pods are ready")


def find_stuck_pod(fields: Fields, wanted: int) -> HealthResult | None:
    """Return progressing while the controller waits for a pod that it should replace."""
    pod = name_stuck_pod(fields, wanted)
    if not pod:
        return None
    namespace = read_text(fields, "metadata.namespace")
    return progressing(
        "PodNotReplaced",
        f"waits for pod/{pod}, which has another revision of the template and is not ready; its controller does not "
        f"replace it until it is ready; if it does not start, delete it: kubectl delete pod {pod}"
        + (f" -n {namespace}" if namespace else ""),
    )


def name_stuck_pod(fields: Fields, wanted: int) -> str:
    """Return the pod that blocks the rollout, of neither the current nor the next revision; "" for none.

    The controller updates pods one by one, from the last, and waits for each to become ready, even if the template was
    changed or reverted in the meantime. So a pod that never starts stays until a user deletes it
    (kubernetes/kubernetes#67250).
    """
    if (
        read_text(fields, "spec.podManagementPolicy") == "Parallel"
        or read_text(fields, "spec.updateStrategy.type") == "OnDelete"
    ):
        return ""
    current, updated = read_count(fields, "status.currentReplicas"), read_count(fields, "status.updatedReplicas")
    is_over = read_text(fields, "status.currentRevision") == read_text(fields, "status.updateRevision")
    settled = current if is_over else current + updated
    missing = wanted - read_count(fields, "status.readyReplicas")
    is_whole = read_count(fields, "status.replicas") == wanted and "currentReplicas" in (fields.get("status") or {})
    if not is_whole or missing <= 0 or settled >= wanted or read_count(fields, PARTITION) > 0:
        return ""
    return f"{read_text(fields, 'metadata.name')}-{read_count(fields, 'spec.ordinals.start') + current}"


def find_unavailable(fields: Fields, wanted: int) -> HealthResult | None:
    """Return progressing while too few pods have been ready for `minReadySeconds`, if that is set."""
    if read_count(fields, "spec.minReadySeconds") <= 0:
        return None
    return find_missing("available", read_count(fields, "status.availableReplicas"), wanted)


def find_stateful_rollout(fields: Fields, wanted: int) -> HealthResult | None:
    """Return progressing while pods that must change have not changed."""
    if read_text(fields, "spec.updateStrategy.type") == "OnDelete":
        # The user deletes the pods by hand later. The earlier checks found enough of them ready. (Other tools call this
        # set ready even without any pod, which does not help its dependents.)
        return None
    partition = read_count(fields, PARTITION)
    updated = read_count(fields, "status.updatedReplicas")
    if partition > 0:
        return find_missing("updated", updated, wanted - partition)
    if read_text(fields, "status.currentRevision") == read_text(fields, "status.updateRevision"):
        # The rollout is over: the controller makes both revisions equal only at the end.
        return None
    return find_missing("updated", updated, wanted) or progressing("RollingUpdate", "its rollout is finishing")


def assess_daemon_set(fields: Fields) -> HealthResult:
    """Return ready when every node that it selects runs an available pod of the current template."""
    # All counts of a new DaemonSet are 0, even if the cluster has matching nodes.
    unobserved = find_unobserved(fields, is_always_reported=True)
    if unobserved is not None:
        return unobserved
    wanted = read_count(fields, "status.desiredNumberScheduled")
    is_by_hand = read_text(fields, "spec.updateStrategy.type") == "OnDelete"
    updated = wanted if is_by_hand else read_count(fields, "status.updatedNumberScheduled")
    waiting = (
        find_missing("scheduled", read_count(fields, "status.currentNumberScheduled"), wanted)
        or find_missing("updated", updated, wanted)
        or find_missing("available", read_count(fields, "status.numberAvailable"), wanted)
        or find_missing("ready", read_count(fields, "status.numberReady"), wanted)
    )
    return waiting or ready("Available", f"{wanted} pods are available")


DEPLOYMENT = entry(
    assess_deployment, "spec.replicas", "spec.paused", "status.observedGeneration", "status.conditions",
    "status.replicas", "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas",
)  # fmt: skip
REPLICA_SET = entry(
    assess_replica_set, "spec.replicas", "status.observedGeneration", "status.conditions", "status.replicas",
    "status.readyReplicas", "status.availableReplicas",
)  # fmt: skip
STATEFUL_SET = entry(
    assess_stateful_set, "spec.replicas", "spec.updateStrategy.type", PARTITION, "status.observedGeneration",
    "status.replicas", "status.readyReplicas", "status.updatedReplicas", "status.currentRevision",
    "status.updateRevision", "spec.minReadySeconds", "status.availableReplicas", "status.currentReplicas",
    "spec.podManagementPolicy", "spec.ordinals.start",
)  # fmt: skip
DAEMON_SET = entry(
    assess_daemon_set, "spec.updateStrategy.type", "status.observedGeneration", "status.desiredNumberScheduled",
    "status.currentNumberScheduled", "status.updatedNumberScheduled", "status.numberAvailable",
    "status.numberReady",
)  # fmt: skip
