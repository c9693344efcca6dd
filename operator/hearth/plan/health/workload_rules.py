"""Health of what keeps a number of pods running: Deployment, ReplicaSet, StatefulSet, DaemonSet.

Each rule tells the first step of a rollout that is not done yet.
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


def judge_deployment(fields: Fields) -> HealthResult:
    """Ready when every wanted pod is of the current template and available, and no other is left."""
    conditions = read_conditions(fields)
    progress, available = conditions.get("Progressing"), conditions.get("Available")
    unobserved = find_unobserved(fields)
    if unobserved is not None:
        return unobserved
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        # Not the end: the controller goes on, and reports progress again once there is any.
        return failed(progress.reason, join(progress.message, tell_shortage(fields)))
    if read(fields, "spec.paused") is True:
        return judge_paused(fields)
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


def explain(waiting: HealthResult, blocked: ObjectCondition | None) -> HealthResult:
    """Why pods are missing (a quota, an admission webhook) says more than that they are."""
    if blocked is None or not blocked.is_true:
        return waiting
    return progressing(blocked.reason or waiting.reason, blocked.message or waiting.message)


def tell_shortage(fields: Fields) -> str:
    """What is missing of a rollout that takes too long; "" where nothing is."""
    waiting = find_rollout(fields)
    return explain(waiting, read_conditions(fields).get("ReplicaFailure")).message if waiting is not None else ""


def join(*sentences: str) -> str:
    """The sentences that there are as one."""
    return "; ".join(sentence.rstrip(".") for sentence in sentences if sentence)


def judge_paused(fields: Fields) -> HealthResult:
    """Ready unless pods are missing of those that it had: nobody waits for a rollout that is not to happen."""
    wanted, existing = read_count(fields, "spec.replicas", default=1), read_count(fields, "status.replicas")
    missing = find_missing("available", read_count(fields, "status.availableReplicas"), wanted) if existing else None
    return missing or ready("Suspended", "it is paused")


def find_rollout(fields: Fields) -> HealthResult | None:
    """Progressing while a Deployment's pods are not all new, up and alone."""
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
    """Progressing while pods are left that are to go."""
    if existing <= wanted:
        return None
    return progressing("PodsTerminating", f"{existing - wanted} pods are still to go")


def judge_replica_set(fields: Fields) -> HealthResult:
    """Ready when every wanted pod is available; fits a ReplicationController too."""
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


def judge_stateful_set(fields: Fields) -> HealthResult:
    """Ready when every wanted pod is ready and, as far as its strategy moves them, of the current revision."""
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
    """Progressing while pods are not ready for as long as is asked for, where that is anything."""
    if read_count(fields, "spec.minReadySeconds") <= 0:
        return None
    return find_missing("available", read_count(fields, "status.availableReplicas"), wanted)


def find_stateful_rollout(fields: Fields, wanted: int) -> HealthResult | None:
    """Progressing while pods that are to change have not changed."""
    if read_text(fields, "spec.updateStrategy.type") == "OnDelete":
        # Somebody deletes the pods by hand, one day: the rest of the rule has found enough of them ready. (Others
        # call such a set ready even without any pod, which is no use to what depends on it.)
        return None
    partition = read_count(fields, PARTITION)
    updated = read_count(fields, "status.updatedReplicas")
    if partition > 0:
        return find_missing("updated", updated, wanted - partition)
    if read_text(fields, "status.currentRevision") == read_text(fields, "status.updateRevision"):
        # The rollout is over; only now does the controller rename the revision.
        return None
    return find_missing("updated", updated, wanted) or progressing("RollingUpdate", "its rollout is being concluded")


def judge_daemon_set(fields: Fields) -> HealthResult:
    """Ready when every node that it selects runs an available pod of the current template."""
    # All counts of a new one are 0, which is not to be taken for a cluster in which no node is selected.
    unobserved = find_unobserved(fields, is_always_told=True)
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
    judge_deployment,
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
    judge_replica_set,
    "spec.replicas",
    "status.observedGeneration",
    "status.conditions",
    "status.replicas",
    "status.readyReplicas",
    "status.availableReplicas",
)
STATEFUL_SET = entry(
    judge_stateful_set,
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
    judge_daemon_set,
    "spec.updateStrategy.type",
    "status.observedGeneration",
    "status.desiredNumberScheduled",
    "status.currentNumberScheduled",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
    "status.numberReady",
)
