"""Health of kinds that run a number of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet.

Each rule reports the first unfinished step of a rollout.
"""

from __future__ import annotations

from hearth.plan.health.health_result import (
    Fields,
    HealthResult,
    ObjectCondition,
    entry,
    failed,
    find_missing,
    find_unobserved,
    first,
    progressing,
    read,
    read_conditions,
    read_count,
    read_text,
    ready,
)

PARTITION = "spec.updateStrategy.rollingUpdate.partition"


def assess_deployment(fields: Fields) -> HealthResult:
    """Return ready when every desired pod uses the current template and is available, and no other pod remains."""
    conditions = read_conditions(fields)
    progress, available = conditions.get("Progressing"), conditions.get("Available")
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        # Not terminal: the controller continues, and reports progress again once there is any.
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
    """Prefer the cause of missing pods (a quota, an admission webhook) over their number."""
    if blocking_condition is None or not blocking_condition.is_true:
        return waiting_result
    return progressing(
        blocking_condition.reason or waiting_result.reason, blocking_condition.message or waiting_result.message
    )


def describe_shortage(fields: Fields) -> str:
    """Describe what an overdue rollout lacks, or "" if it lacks nothing."""
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
    return first(
        (
            find_missing("updated", read_count(fields, "status.updatedReplicas"), wanted),
            find_surplus(existing, read_count(fields, "status.updatedReplicas")),
            find_missing("ready", read_count(fields, "status.readyReplicas"), wanted),
            find_missing("available", read_count(fields, "status.availableReplicas"), wanted),
            find_surplus(existing, wanted),
        )
    )


def find_surplus(existing: int, wanted: int) -> HealthResult | None:
    """Return progressing while surplus pods remain."""
    if existing <= wanted:
        return None
    return progressing("PodsTerminating", f"{existing - wanted} surplus pods are not deleted yet")


def assess_replica_set(fields: Fields) -> HealthResult:
    """Return ready when every desired pod is available. Applies to a ReplicationController too."""
    wanted = read_count(fields, "spec.replicas", default=1)
    waiting = first(
        (
            find_unobserved(fields),
            find_missing("created", read_count(fields, "status.replicas"), wanted),
            find_missing("ready", read_count(fields, "status.readyReplicas"), wanted),
            find_missing("available", read_count(fields, "status.availableReplicas"), wanted),
            find_surplus(read_count(fields, "status.replicas"), wanted),
        )
    )
    if waiting is not None:
        return explain(waiting, read_conditions(fields).get("ReplicaFailure"))
    return ready("Available", f"{wanted} pods are available")


def assess_stateful_set(fields: Fields) -> HealthResult:
    """Return ready when every desired pod is ready and, if the strategy updates it, of the current revision."""
    wanted = read_count(fields, "spec.replicas", default=1)
    waiting = first(
        (
            find_unobserved(fields),
            find_missing("created", read_count(fields, "status.replicas"), wanted),
            find_missing("ready", read_count(fields, "status.readyReplicas"), wanted),
            find_unavailable(fields, wanted),
            find_surplus(read_count(fields, "status.replicas"), wanted),
            find_stateful_rollout(fields, wanted),
        )
    )
    return waiting or ready("Available", f"{wanted} pods are ready")


def find_unavailable(fields: Fields, wanted: int) -> HealthResult | None:
    """Return progressing while too few pods have been ready for `minReadySeconds`, if that is set."""
    if read_count(fields, "spec.minReadySeconds") <= 0:
        return None
    return find_missing("available", read_count(fields, "status.availableReplicas"), wanted)


def find_stateful_rollout(fields: Fields, wanted: int) -> HealthResult | None:
    """Return progressing while pods that must change have not changed."""
    if read_text(fields, "spec.updateStrategy.type") == "OnDelete":
        # The user deletes the pods by hand later. The rest of the rule has found enough of them ready. (Other tools
        # call such a set ready even without any pod, which does not help its dependents.)
        return None
    partition = read_count(fields, PARTITION)
    updated = read_count(fields, "status.updatedReplicas")
    if partition > 0:
        return find_missing("updated", updated, wanted - partition)
    if read_text(fields, "status.currentRevision") == read_text(fields, "status.updateRevision"):
        # The rollout is over. Only now does the controller rename the revision.
        return None
    return find_missing("updated", updated, wanted) or progressing("RollingUpdate", "its rollout is finishing")


def assess_daemon_set(fields: Fields) -> HealthResult:
    """Return ready when every node that it selects runs an available pod of the current template."""
    # All counts of a new DaemonSet are 0, which does not mean that the cluster has no selected node.
    unobserved = find_unobserved(fields, is_always_reported=True)
    if unobserved is not None:
        return unobserved
    wanted = read_count(fields, "status.desiredNumberScheduled")
    is_by_hand = read_text(fields, "spec.updateStrategy.type") == "OnDelete"
    updated = wanted if is_by_hand else read_count(fields, "status.updatedNumberScheduled")
    waiting = first(
        (
            find_missing("scheduled", read_count(fields, "status.currentNumberScheduled"), wanted),
            find_missing("updated", updated, wanted),
            find_missing("available", read_count(fields, "status.numberAvailable"), wanted),
            find_missing("ready", read_count(fields, "status.numberReady"), wanted),
        )
    )
    return waiting or ready("Available", f"{wanted} pods are available")


DEPLOYMENT = entry(
    assess_deployment,
    "spec.replicas",
    "spec.paused",
    "status.observedGeneration",
    "status.conditions",
    "status.replicas",
    "status.updatedReplicas",
    "status.readyReplicas",
    "status.availableReplicas",
)
REPLICA_SET = entry(
    assess_replica_set,
    "spec.replicas",
    "status.observedGeneration",
    "status.conditions",
    "status.replicas",
    "status.readyReplicas",
    "status.availableReplicas",
)
STATEFUL_SET = entry(
    assess_stateful_set,
    "spec.replicas",
    "spec.updateStrategy.type",
    PARTITION,
    "status.observedGeneration",
    "status.replicas",
    "status.readyReplicas",
    "status.updatedReplicas",
    "status.currentRevision",
    "status.updateRevision",
    "spec.minReadySeconds",
    "status.availableReplicas",
)
DAEMON_SET = entry(
    assess_daemon_set,
    "spec.updateStrategy.type",
    "status.observedGeneration",
    "status.desiredNumberScheduled",
    "status.currentNumberScheduled",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
    "status.numberReady",
)
