"""Verdicts and their texts, by kind, on objects from real clusters and on malformed objects."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.health import condition_rules, health_rules, object_reports
from hearth.plan.health.health_result import NestedStop
from hearth.plan.health.health_rules import HealthState

READY, PROGRESSING, FAILED, UNKNOWN = (
    HealthState.READY,
    HealthState.PROGRESSING,
    HealthState.FAILED,
    HealthState.UNKNOWN,
)


def kind(key: str) -> Kind:
    name, _, group = key.partition(".")
    return Kind(group=group, version="v1", name=name, plural=name.lower() + "s", namespaced=True)


DEPLOYMENT, STATEFUL_SET, DAEMON_SET = kind("Deployment.apps"), kind("StatefulSet.apps"), kind("DaemonSet.apps")
REPLICA_SET, JOB, POD, SERVICE = kind("ReplicaSet.apps"), kind("Job.batch"), kind("Pod"), kind("Service")
CLAIM, NAMESPACE, STACK = kind("PersistentVolumeClaim"), kind("Namespace"), kind("Stack.hearth.dev")
DEFINITION = kind("CustomResourceDefinition.apiextensions.k8s.io")
API_SERVICE, BUDGET = kind("APIService.apiregistration.k8s.io"), kind("PodDisruptionBudget.policy")
SCALER, VOLUME = kind("HorizontalPodAutoscaler.autoscaling"), kind("PersistentVolume")
CUSTOM, CONFIG_MAP = kind("Widget.example.com"), kind("ConfigMap")


def cond(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def make(spec: dict[str, Any] | None = None, *, generation: int = 2, **status: Any) -> dict[str, Any]:
    """An object's fields."""
    return {"metadata": {"name": "a", "generation": generation}, "spec": spec or {}, "status": status}


def deployment(
    *,
    wanted: int = 2,
    conditions: tuple[dict[str, str], ...] | None = None,
    spec: dict[str, Any] | None = None,
    **changed: Any,
) -> dict[str, Any]:
    """A Deployment that has rolled out, except for these changes."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
    usual = (
        cond("Available", "True", "MinimumReplicasAvailable", "fine"),
        cond("Progressing", "True", "NewReplicaSetAvailable"),
    )
    chosen = list(usual if conditions is None else conditions)
    stated = {"replicas": wanted, **(spec or {})}
    return make(stated, **{"observedGeneration": 2, **counts, "conditions": chosen, **changed})


def stateful_set(spec: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """A StatefulSet that has rolled out, except for these changes."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "currentReplicas"), 3)
    status = {"observedGeneration": 2, "currentRevision": "r2", "updateRevision": "r2", **counts, **changed}
    return make({"replicas": 3, **(spec or {})}, **status)


def daemon_set(spec: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """A DaemonSet that has rolled out, except for these changes."""
    names = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberReady",
    )
    return make(spec, **{"observedGeneration": 2, **dict.fromkeys(names, 2), **changed})


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The status of a container that does not run."""
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


DEADLINE = (cond("Progressing", "False", "ProgressDeadlineExceeded", "it took too long"), cond("Available", "False"))
BLOCKED = (cond("ReplicaFailure", "True", "FailedCreate", "exceeded quota"), cond("Available", "False"))
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
MOVING: dict[str, Any] = {"currentRevision": "r1"}
EXITED = {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}

NO_TARGET = """the HPA controller was unable to get the target's current scale: deployments.apps "web" not found"""
CONFLICT = 'Operation cannot be fulfilled on deployments.apps "web": the object has been modified'

STOPPED = make(
    conditions=[cond("Ready", "False", "Stopped", "db waits")],
    breakpoints=[{"resource": "db", "hook": "PreCreate", "kind": "Probe", "name": "shop-db", "stack": "shop"}],
)
"""A Stack with a waiting attempt inside."""

ROWS: list[tuple[str, Kind, dict[str, Any], HealthState, str, str]] = [
    ("rolled out", DEPLOYMENT, deployment(), READY, "MinimumReplicasAvailable", "fine"),
    ("scaled to nothing", DEPLOYMENT, deployment(wanted=0, replicas=0, updatedReplicas=0, readyReplicas=0, availableReplicas=0), READY, "MinimumReplicasAvailable", "fine"),
    ("just made", DEPLOYMENT, make({"replicas": 2}, generation=1), PROGRESSING, "LessThanUpdated", "0 of 2 pods are updated"),
    ("one pod unless stated", DEPLOYMENT, make(generation=1), PROGRESSING, "LessThanUpdated", "0 of 1 pods are updated"),
    ("spec not seen yet", DEPLOYMENT, deployment(observedGeneration=1), PROGRESSING, "NotObserved", "its controller has observed generation 1 of 2"),
    ("past its deadline", DEPLOYMENT, deployment(conditions=DEADLINE, readyReplicas=0), FAILED, "ProgressDeadlineExceeded", "it took too long; 0 of 2 pods are ready"),
    ("past its deadline, by a quota", DEPLOYMENT, deployment(conditions=(*DEADLINE, BLOCKED[0]), updatedReplicas=0), FAILED, "ProgressDeadlineExceeded", "it took too long; exceeded quota"),
    ("paused", DEPLOYMENT, deployment(wanted=2, spec={"paused": True}, updatedReplicas=0), READY, "Suspended", "it is paused"),
    ("paused before it had pods", DEPLOYMENT, deployment(spec={"paused": True}, replicas=0, availableReplicas=0), READY, "Suspended", "it is paused"),
    ("paused, and a pod is lost", DEPLOYMENT, deployment(spec={"paused": True}, availableReplicas=1), PROGRESSING, "LessThanAvailable", "1 of 2 pods are available"),
    ("all there, but not reported", DEPLOYMENT, deployment(conditions=(cond("Available", "True"), cond("Progressing", "True", "ReplicaSetUpdated", "soon"))), PROGRESSING, "ReplicaSetUpdated", "soon"),
    ("past the deadline of the spec before", DEPLOYMENT, deployment(conditions=DEADLINE, observedGeneration=1), PROGRESSING, "NotObserved", "its controller has observed generation 1 of 2"),
    ("pods of the old template", DEPLOYMENT, deployment(updatedReplicas=1), PROGRESSING, "LessThanUpdated", "1 of 2 pods are updated"),
    ("an old pod is left", DEPLOYMENT, deployment(replicas=3), PROGRESSING, "PodsNotReady", "1 old pod runs until the new pods are ready"),
    ("a pod is not ready", DEPLOYMENT, deployment(readyReplicas=1), PROGRESSING, "LessThanReady", "1 of 2 pods are ready"),
    ("a pod is not ready for long enough", DEPLOYMENT, deployment(availableReplicas=1), PROGRESSING, "LessThanAvailable", "1 of 2 pods are available"),
    ("scaled down, pods left", DEPLOYMENT, deployment(wanted=1), PROGRESSING, "PodsTerminating", "1 surplus pod is not deleted yet"),
    ("pods cannot be made", DEPLOYMENT, deployment(conditions=BLOCKED, replicas=0, updatedReplicas=0), PROGRESSING, "FailedCreate", "exceeded quota"),
    ("not available", DEPLOYMENT, deployment(conditions=(cond("Available", "False", "Min", "too few"),)), PROGRESSING, "NotAvailable", "too few"),
    ("no conditions yet", DEPLOYMENT, deployment(conditions=()), PROGRESSING, "NotAvailable", "its controller has not counted its pods"),
    ("all pods available", REPLICA_SET, deployment(), READY, "Available", "2 pods are available"),
    ("too few pods", REPLICA_SET, deployment(replicas=1), PROGRESSING, "LessThanCreated", "1 of 2 pods are created"),
    ("pods cannot be made either", REPLICA_SET, deployment(conditions=BLOCKED, replicas=0), PROGRESSING, "FailedCreate", "exceeded quota"),
    ("rolled out", STATEFUL_SET, stateful_set(), READY, "Available", "3 pods are ready"),
    ("just made", STATEFUL_SET, make({"replicas": 3}), PROGRESSING, "LessThanCreated", "0 of 3 pods are created"),
    ("spec not seen yet", STATEFUL_SET, stateful_set(observedGeneration=1), PROGRESSING, "NotObserved", "its controller has observed generation 1 of 2"),
    ("a pod is not ready", STATEFUL_SET, stateful_set(readyReplicas=2), PROGRESSING, "LessThanReady", "2 of 3 pods are ready"),
    ("a pod that is not replaced", STATEFUL_SET, stateful_set({"ordinals": {"start": 1}}, readyReplicas=2, currentReplicas=2, updatedReplicas=2), PROGRESSING, "PodNotReplaced", "waits for pod/a-3, which has another revision of the template and is not ready; its controller does not replace it until it is ready; if it does not start, delete it: kubectl delete pod a-3"),
    ("a pod is not ready for long enough", STATEFUL_SET, stateful_set({"minReadySeconds": 9}, availableReplicas=2), PROGRESSING, "LessThanAvailable", "2 of 3 pods are available"),
    ("a pod too many", STATEFUL_SET, stateful_set(replicas=4), PROGRESSING, "PodsTerminating", "1 surplus pod is not deleted yet"),
    ("old pods", STATEFUL_SET, stateful_set(**MOVING, updatedReplicas=1), PROGRESSING, "LessThanUpdated", "1 of 3 pods are updated"),
    ("rollout not concluded", STATEFUL_SET, stateful_set(**MOVING), PROGRESSING, "RollingUpdate", "its rollout is finishing"),
    ("old pods below the partition", STATEFUL_SET, stateful_set(PARTITION, **MOVING, updatedReplicas=1), READY, "Available", "3 pods are ready"),
    ("old pods above the partition", STATEFUL_SET, stateful_set(PARTITION, **MOVING, updatedReplicas=0), PROGRESSING, "LessThanUpdated", "0 of 1 pods are updated"),
    ("a partition beyond all pods", STATEFUL_SET, stateful_set({**PARTITION, "replicas": 1}, **MOVING, replicas=1, readyReplicas=1, updatedReplicas=0), READY, "Available", "1 pods are ready"),
    ("old pods that are replaced by hand", STATEFUL_SET, stateful_set(ON_DELETE, **MOVING, updatedReplicas=0), READY, "Available", "3 pods are ready"),
    ("by hand, but not enough", STATEFUL_SET, stateful_set(ON_DELETE, readyReplicas=0), PROGRESSING, "LessThanReady", "0 of 3 pods are ready"),
    ("on every node", DAEMON_SET, daemon_set(), READY, "Available", "2 pods are available"),
    ("no node selected", DAEMON_SET, daemon_set(desiredNumberScheduled=0, currentNumberScheduled=0), READY, "Available", "0 pods are available"),
    ("just made", DAEMON_SET, make(), PROGRESSING, "NotObserved", "its controller has not processed it yet"),
    ("just made, as the server shows it", DAEMON_SET, daemon_set(observedGeneration=None, desiredNumberScheduled=0), PROGRESSING, "NotObserved", "its controller has not processed it yet"),
    ("spec not seen yet", DAEMON_SET, daemon_set(observedGeneration=1), PROGRESSING, "NotObserved", "its controller has observed generation 1 of 2"),
    ("a node without", DAEMON_SET, daemon_set(currentNumberScheduled=1), PROGRESSING, "LessThanScheduled", "1 of 2 pods are scheduled"),
    ("old pods", DAEMON_SET, daemon_set(updatedNumberScheduled=1), PROGRESSING, "LessThanUpdated", "1 of 2 pods are updated"),
    ("old pods that are replaced by hand", DAEMON_SET, daemon_set(ON_DELETE, updatedNumberScheduled=0), READY, "Available", "2 pods are available"),
    ("a pod is not available", DAEMON_SET, daemon_set(numberAvailable=1), PROGRESSING, "LessThanAvailable", "1 of 2 pods are available"),
    ("a pod is not ready", DAEMON_SET, daemon_set(numberReady=1), PROGRESSING, "LessThanReady", "1 of 2 pods are ready"),
    ("just made", JOB, make(), PROGRESSING, "NotComplete", "0 of 1 pods succeeded"),
    ("half done", JOB, make({"completions": 3}, succeeded=1, failed=2), PROGRESSING, "NotComplete", "1 of 3 pods succeeded, 2 failed"),
    ("done", JOB, make(conditions=[cond("Complete", "True", "CompletionsReached", "all")]), READY, "CompletionsReached", "all"),
    ("given up", JOB, make(conditions=[cond("Failed", "True", "BackoffLimitExceeded", "too often")]), FAILED, "BackoffLimitExceeded", "too often"),
    ("about to be given up", JOB, make(conditions=[cond("FailureTarget", "True")], failed=1), PROGRESSING, "NotComplete", "0 of 1 pods succeeded, 1 failed"),
    ("suspended", JOB, make({"suspend": True}), READY, "Suspended", "it is suspended"),
    ("failed before it was suspended", JOB, make({"suspend": True}, conditions=[cond("Failed", "True")]), FAILED, "Failed", "its controller has not reported why"),
    ("not seen by a node", POD, make(), PROGRESSING, "NotReady", "no node has reported on it yet"),
    ("runs and is ready", POD, make(phase="Running", conditions=[cond("Ready", "True")]), READY, "Running", ""),
    ("runs and is not ready", POD, make(phase="Running", conditions=[cond("Ready", "False", "ContainersNotReady", "main")]), PROGRESSING, "ContainersNotReady", "main"),
    ("starts", POD, make(phase="Pending"), PROGRESSING, "NotReady", "it is pending"),
    ("no node has room", POD, make(phase="Pending", conditions=[cond("PodScheduled", "False", "Unschedulable", "0/2 nodes")]), PROGRESSING, "Unschedulable", "0/2 nodes"),
    ("crashes", POD, make(phase="Running", containerStatuses=[waiting("CrashLoopBackOff", "back-off 5m")]), FAILED, "CrashLoopBackOff", "container main: back-off 5m"),
    ("crashes at its start", POD, make(phase="Pending", initContainerStatuses=[waiting("CrashLoopBackOff")]), FAILED, "CrashLoopBackOff", "container main does not start"),
    ("no image", POD, make(phase="Pending", containerStatuses=[waiting("ImagePullBackOff", "no such")]), FAILED, "ImagePullBackOff", "container main: no such"),
    ("its secret is not there yet", POD, make(phase="Pending", containerStatuses=[waiting("CreateContainerConfigError", 'secret "a" not found')]), PROGRESSING, "CreateContainerConfigError", 'container main: secret "a" not found'),
    ("its secret has no such key", POD, make(phase="Pending", containerStatuses=[waiting("CreateContainerConfigError", "couldn't find key a")]), FAILED, "CreateContainerConfigError", "container main: couldn't find key a"),
    ("first try at an image", POD, make(phase="Pending", containerStatuses=[waiting("ErrImagePull", "no such")]), PROGRESSING, "ErrImagePull", "container main: no such"),
    ("crashes, and says why", POD, make(phase="Running", containerStatuses=[{**waiting("CrashLoopBackOff", "back-off 5m"), "lastState": EXITED["state"]}]), FAILED, "CrashLoopBackOff", "container main: back-off 5m; its last exit code is 3: Error"),
    ("done", POD, make(phase="Succeeded"), READY, "Succeeded", ""),
    ("evicted", POD, make(phase="Failed", reason="Evicted", message="low on memory"), FAILED, "Evicted", "low on memory"),
    ("failed", POD, make(phase="Failed", containerStatuses=[EXITED]), FAILED, "Failed", "container main exited with code 3: Error"),
    ("failed silently", POD, make(phase="Failed"), FAILED, "Failed", "it failed without a message"),
    ("its node is lost", POD, make(phase="Unknown", reason="NodeLost"), UNKNOWN, "NodeLost", "its node does not report"),
    ("inside the cluster", SERVICE, make({"type": "ClusterIP"}), READY, "Exists", ""),
    ("a name for something else", SERVICE, make({"type": "ExternalName"}), READY, "Exists", ""),
    ("a load balancer without address", SERVICE, make({"type": "LoadBalancer"}, loadBalancer={}), PROGRESSING, "NoLoadBalancer", "its load balancer has no address"),
    ("a load balancer", SERVICE, make({"type": "LoadBalancer"}, loadBalancer={"ingress": [{"ip": "1.2.3.4"}]}), READY, "Exists", ""),
    ("bound", CLAIM, make(phase="Bound"), READY, "Bound", ""),
    ("its volume is lost", CLAIM, make(phase="Lost"), FAILED, "Lost", "its volume is lost"),
    ("pending", CLAIM, make({"storageClassName": "ssd"}, phase="Pending"), PROGRESSING, "NotBound", 'it is waiting for a volume of class ssd; if its class binds on first use, skip the wait with readyWhen: ["true"]'),
    ("active", NAMESPACE, make(phase="Active"), READY, "Active", ""),
    ("being deleted", NAMESPACE, make(phase="Terminating"), PROGRESSING, "Terminating", "it is terminating"),
    ("just made", DEFINITION, make(), PROGRESSING, "NotEstablished", "its names are not checked yet"),
    ("served", DEFINITION, make(conditions=[cond("NamesAccepted", "True"), cond("Established", "True", "InitialNamesAccepted", "ok")]), READY, "InitialNamesAccepted", "ok"),
    ("being installed", DEFINITION, make(conditions=[cond("NamesAccepted", "True"), cond("Established", "False", "Installing", "soon")]), PROGRESSING, "Installing", "soon"),
    ("names are taken", DEFINITION, make(conditions=[cond("NamesAccepted", "False", "KindConflict", "taken")]), FAILED, "KindConflict", "taken"),
    ("not established", DEFINITION, make(conditions=[cond("NamesAccepted", "True"), cond("Established", "False", "NotAccepted", "no")]), FAILED, "NotAccepted", "no"),
    ("just made", API_SERVICE, make(), PROGRESSING, "NotObserved", "its controller has not reported on it"),
    ("not reached", API_SERVICE, make(conditions=[cond("Available", "False", "MissingEndpoints", "no endpoints")]), PROGRESSING, "MissingEndpoints", "no endpoints"),
    ("reached", API_SERVICE, make(conditions=[cond("Available", "True", "Passed", "all checks passed")]), READY, "Passed", "all checks passed"),
    ("just made", BUDGET, make(disruptionsAllowed=0), PROGRESSING, "NotObserved", "its controller has not processed it yet"),
    ("allows nothing now", BUDGET, make(observedGeneration=2, conditions=[cond("DisruptionAllowed", "False", "InsufficientPods")]), READY, "Counted", ""),
    ("its pods belong to what is not there yet", BUDGET, make(observedGeneration=2, conditions=[cond("DisruptionAllowed", "False", "SyncFailed", NO_TARGET)]), PROGRESSING, "SyncFailed", NO_TARGET),
    ("cannot be counted", BUDGET, make(observedGeneration=2, conditions=[cond("DisruptionAllowed", "False", "SyncFailed", "two budgets")]), FAILED, "SyncFailed", "two budgets"),
    ("just made", SCALER, make(), READY, "Exists", ""),
    ("scales", SCALER, make(conditions=[cond("AbleToScale", "True"), cond("ScalingActive", "True", "ValidMetricFound", "ok")]), READY, "Active", "ok"),
    ("has no target yet", SCALER, make(conditions=[cond("AbleToScale", "False", "FailedGetScale", NO_TARGET)]), PROGRESSING, "FailedGetScale", NO_TARGET),
    ("meets another writer", SCALER, make(conditions=[cond("AbleToScale", "False", "FailedUpdateScale", CONFLICT)]), PROGRESSING, "FailedUpdateScale", CONFLICT),
    ("cannot scale its target", SCALER, make(conditions=[cond("AbleToScale", "False", "FailedGetScale", "no scale subresource")]), FAILED, "FailedGetScale", "no scale subresource"),
    ("waits after a change", SCALER, make(conditions=[cond("AbleToScale", "False", "BackoffBoth")]), READY, "Exists", ""),
    ("has no metrics yet", SCALER, make(conditions=[cond("AbleToScale", "True"), cond("ScalingActive", "False", "FailedGetResourceMetric", "no metrics")]), READY, "FailedGetResourceMetric", "no metrics"),
    ("selects wrongly", SCALER, make(conditions=[cond("ScalingActive", "False", "InvalidSelector", "empty")]), FAILED, "InvalidSelector", "empty"),
    ("just made", VOLUME, make(), PROGRESSING, "NotAvailable", "its controller has not processed it yet"),
    ("can be claimed", VOLUME, make(phase="Available"), READY, "Available", ""),
    ("claimed", VOLUME, make(phase="Bound"), READY, "Bound", ""),
    ("let go of", VOLUME, make(phase="Released"), READY, "Released", "its claim is deleted; no other claim can bind it until it is released by hand"),
    ("cannot be reclaimed", VOLUME, make(phase="Failed", reason="VolumeFailedDelete", message="busy"), FAILED, "VolumeFailedDelete", "busy"),
    ("says nothing", CUSTOM, {"metadata": {"generation": 5}}, READY, "Exists", ""),
    ("spec not seen yet", CUSTOM, make(observedGeneration=1), PROGRESSING, "NotObserved", "its controller has observed generation 1 of 2"),
    ("has seen a generation from before a restore", CUSTOM, make(observedGeneration=7), READY, "Exists", ""),
    ("ready", CUSTOM, make(conditions=[cond("Ready", "True", "AllGood", "fine")]), READY, "AllGood", "fine"),
    ("not ready", CUSTOM, make(conditions=[cond("Ready", "False", "Installing", "soon")]), PROGRESSING, "Installing", "soon"),
    ("not known yet", CUSTOM, make(conditions=[cond("Ready", "Unknown", "", "hm")]), PROGRESSING, "NotReady", "hm"),
    ("out of reach", CUSTOM, make(conditions=[cond("Ready", "Unknown", "NodeStatusUnknown", "hm")]), UNKNOWN, "NodeStatusUnknown", "hm"),
    ("stalled", CUSTOM, make(conditions=[cond("Stalled", "True", "NoQuota", "full"), cond("Ready", "False")]), FAILED, "NoQuota", "full"),
    ("no longer stalled", CUSTOM, make(conditions=[cond("Stalled", "False"), cond("Ready", "True")]), READY, "Ready", ""),
    ("ready, and at work again", CUSTOM, make(conditions=[cond("Reconciling", "True", "Rollout", "2 of 3"), cond("Ready", "True")]), PROGRESSING, "Rollout", "2 of 3"),
    ("available", CUSTOM, make(conditions=[cond("Available", "True", "Passed")]), READY, "Passed", ""),
    ("not available", CUSTOM, make(conditions=[cond("Available", "False", "", "no")]), PROGRESSING, "NotAvailable", "no"),
    ("ready counts before available", CUSTOM, make(conditions=[cond("Available", "False"), cond("Ready", "True")]), READY, "Ready", ""),
    ("ready before it changed", CUSTOM, make(conditions=[{**cond("Ready", "True"), "observedGeneration": 1}]), PROGRESSING, "NotObserved", "its controller has not reported whether it is ready since the last change"),
    ("ready since it changed", CUSTOM, make(conditions=[{**cond("Ready", "True"), "observedGeneration": 2}]), READY, "Ready", ""),
    ("ready, but refused since", CUSTOM, make(conditions=[cond("Synced", "False", "ReconcileError", "denied"), cond("Ready", "True")]), FAILED, "ReconcileError", "denied"),
    ("asked to rest", CUSTOM, make(conditions=[cond("Synced", "False", "ReconcilePaused"), cond("Ready", "True")]), READY, "Suspended", ""),
    ("other conditions only", CUSTOM, make(conditions=[cond("Synced", "False")]), PROGRESSING, "NotSynced", "its controller has not reported why"),
    ("an inner stack that is not observed yet", STACK, make(), PROGRESSING, "NotObserved", "its controller has not reported on it"),
    ("an inner stack", STACK, make(conditions=[cond("Ready", "True")]), READY, "Ready", ""),
    ("an inner stack at a breakpoint", STACK, STOPPED, PROGRESSING, "Stopped", "db waits"),
    ("there", CONFIG_MAP, {"metadata": {}}, READY, "Exists", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("of", "fields", "state", "reason", "message"), [row[1:] for row in ROWS], ids=[f"{row[1].name}: {row[0]}" for row in ROWS]
)  # fmt: skip
def test_a_verdict(of: Kind, fields: dict[str, Any], state: HealthState, reason: str, message: str) -> None:
    verdict = health_rules.assess(fields, kind=of)
    assert (verdict.state, verdict.reason, verdict.message) == (state, reason, message)


TERMINAL = {
    "Job: given up",
    "Job: failed before it was suspended",
    "Pod: evicted",
    "Pod: failed",
    "Pod: failed silently",
}


def test_only_what_another_object_alone_can_mend_is_terminal() -> None:
    found = {f"{row[1].name}: {row[0]}" for row in ROWS if health_rules.assess(row[2], kind=row[1]).terminal}
    assert found == TERMINAL


class Recorder(Mapping[str, Any]):
    """A map that records the paths that were read."""

    def __init__(self, value: Mapping[str, Any], seen: set[tuple[str, ...]], path: tuple[str, ...] = ()) -> None:
        self._value, self._seen, self._path = value, seen, path

    def __getitem__(self, key: str) -> Any:
        path = (*self._path, key)
        self._seen.add(path)
        value = self._value[key]
        return Recorder(value, self._seen, path) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)


def paths_read(of: Kind) -> set[tuple[str, ...]]:
    """The longest paths that judging every row of a kind reads."""
    seen: set[tuple[str, ...]] = set()
    for row in ROWS:
        if row[1] == of:
            health_rules.assess(Recorder(row[2], seen), kind=of)
    return {
        path
        for path in seen
        if path[0] != "metadata" and not any(path == more[: len(path)] and path != more for more in seen)
    }


JUDGED = sorted({row[1] for row in ROWS}, key=lambda of: of.key)


@pytest.mark.parametrize("of", JUDGED, ids=lambda of: of.key)
def test_exactly_what_is_read_is_kept(of: Kind) -> None:
    kept = health_rules.DEFAULT_RULES.paths(of)
    if of == CUSTOM:
        # Without a schema, the whole status is kept, and a field of the spec is read if the corresponding count exists.
        assert {path for path in paths_read(of) if path[:1] not in kept and path not in kept} == set()
    else:
        # The cause that holds up a deletion is also read, and the sources of a nested Stack.
        reported = {("status", "conditions")} if of.key in object_reports.HOLDING else set()
        sources = {("status", "sources")} if of.key == "Stack.hearth.dev" else set()
        assert paths_read(of) | reported | sources == kept


@pytest.mark.parametrize(
    "key", ["ConfigMap", "Secret", "ServiceAccount", "Role.rbac.authorization.k8s.io", "StorageClass.storage.k8s.io"]
)
def test_some_kinds_need_nothing_but_metadata(key: str) -> None:
    assert health_rules.DEFAULT_RULES.paths(kind(key)) == frozenset()


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "True", "False", "Running", "x"])
)
keys = st.sampled_from(
    "metadata spec status conditions type generation observedGeneration replicas phase state updateStrategy rollingUpdate "
    "partition containerStatuses waiting reason message loadBalancer ingress suspend completions succeeded failed "
    "desiredNumberScheduled terminated exitCode".split()
)
garbage = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)


@given(st.dictionaries(keys, garbage), st.sampled_from(sorted({row[1] for row in ROWS}, key=lambda of: of.key)))
def test_any_shape_is_judged(fields: dict[str, Any], of: Kind) -> None:
    verdict = health_rules.assess(fields, kind=of)
    assert verdict.reason
    assert verdict.state is FAILED or not verdict.terminal


# ---------------------------------------------------------------- a message that lists all unready objects

WORDS = st.sampled_from(
    ["", " ", "Ready", "Failed", "Progressing", "Pending", "Degraded", "True", "False", "Error", "Running"]
)
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "Synced", "Available", "Healthy", "Failed", "Progressing", "Stalled"])},
    optional={"status": st.sampled_from(["True", "False", "Unknown"]), "reason": WORDS, "message": st.just("")},
)  # fmt: skip
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(CONDITION, max_size=3),
        "phase": WORDS,
        "state": WORDS,
        "message": st.just(""),
        "health": st.fixed_dictionaries({}, optional={"status": WORDS, "message": st.just("")}),
        "observedGeneration": st.integers(1, 2),
        "replicas": st.integers(0, 2),
    },
)
OTHERS = (Kind(group="example.org", version="v1", name="Widget", plural="widgets", namespaced=True),)


def list_kinds() -> list[Kind]:
    """Every kind with a rule, in code or in the shipped table, and one that only the general rule judges."""
    keys = [*health_rules.TABLE, *list_shipped()]
    found = []
    for key in dict.fromkeys(keys):
        name, _, group = key.partition(".")
        found.append(Kind(group=group, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True))
    return [*found, *OTHERS]


def list_shipped() -> list[str]:
    """The kinds of the shipped table, each as `Kind.group`."""
    from hearth.template.text import kubectl_yaml

    text = health_rules.read_built_in()["health_rules.yaml"]
    entries = [each for document in kubectl_yaml.parse_documents(text) for each in document.value]
    named = [kind for entry in entries for kind in entry["kinds"]]
    return [f"{name}.{group}" for group, _, name in (each.rpartition("/") for each in named if "*" not in each)]


KINDS = list_kinds()


def assert_told(kind: Kind, fields: dict[str, Any]) -> None:
    verdict = health_rules.assess(fields, kind=kind)
    assert verdict.reason
    if verdict.state is not HealthState.READY:
        assert verdict.message.strip(), f"{kind.key}: {verdict}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
def test_an_object_without_a_status_waits_for_something(kind: Kind) -> None:
    without: tuple[dict[str, Any], ...] = ({}, {"status": {}}, {"status": {"conditions": []}})
    for status in without:
        assert_told(kind, {"metadata": {"name": "a", "uid": "1", "generation": 1}, "spec": {}, **status})


@given(kind=st.sampled_from(KINDS), status=STATUS)
def test_no_status_leaves_the_reader_without_a_text(kind: Kind, status: dict[str, Any]) -> None:
    assert_told(
        kind, {"metadata": {"name": "a", "uid": "1", "generation": 2}, "spec": {"replicas": 1}, "status": status}
    )


# ---------------------------------------------------------------- how failed work ended

SECRET = "unspeakable-word"


def make_pod(name: str, *ends: tuple[str, int, str]) -> Object:
    """A pod whose containers ended. ends: name, exit code, time."""
    statuses = [
        {"name": container, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}
        for container, code, at in ends
    ]
    return {"metadata": {"name": name, "namespace": "prod"}, "status": {"containerStatuses": statuses}}


def test_the_container_that_failed_last_is_named() -> None:
    pods = [
        make_pod("a", ("main", 1, "2026-01-01T00:00:00Z")),
        make_pod("b", ("side", 0, "2026-01-03T00:00:00Z"), ("main", 3, "2026-01-02T00:00:00Z")),
        {"metadata": {"name": "c"}},
    ]
    end = object_reports.find_run_end(pods)
    assert end is not None
    assert (end.pod, end.container, end.exit_code) == ("b", "main", 3)
    assert object_reports.describe_run_end(end, "first\nno such table: orders\n") == (
        "container main of pod/b ended with exit code 3: no such table: orders"
    )
    assert object_reports.find_run_end([make_pod("a", ("main", 0, ""))]) is None


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        pytest.param("", "", id="nothing was said"),
        pytest.param("a\nb\n\n  \n", "b", id="empty lines are no words"),
        pytest.param("\x1b[31mred\x07\u202eback", "[31mred back", id="no character that a terminal obeys"),
        pytest.param("x" * 1000, "x" * object_reports.LINE_LENGTH + "…", id="a long line is cut"),
        pytest.param("x" * object_reports.LOG_BYTES, "", id="a line that was cut by the read may end within a secret"),
        pytest.param(f"cannot log in with {SECRET}", "cannot log in with …", id="a sensitive value is redacted"),
        pytest.param(f"sent {base64.b64encode(SECRET.encode()).decode()}", "", id="in base 64 the line is left out"),
    ],
)
def test_the_last_line_of_a_log_is_safe_to_show(log: str, shown: str) -> None:
    assert object_reports.find_last_line(log, hidden={SECRET}) == shown


# ---------------------------------------------------------------- waiting resources in a nested Stack


def stack(reason: str, *waiting: Any, generation: int = 1) -> dict[str, Any]:
    """A Stack called `inner` that is not ready for that reason, with these breakpoint entries."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": "m"}
    status = {"observedGeneration": 1, "conditions": [condition], "breakpoints": list(waiting)}
    return {"metadata": {"name": "inner", "generation": generation}, "status": status}


DB = {"resource": "db", "hook": "PreCreate", "kind": "Probe", "name": "inner-db"}
DEEP = {"resource": "deep/db", "hook": "PostUpdate", "stack": "inner-deep"}


@pytest.mark.parametrize(
    ("fields", "stops"),
    [
        pytest.param(
            stack("Stopped", DB, DEEP),
            (
                NestedStop(resource="db", hook="PreCreate", kind="Probe", name="inner-db", stack="inner"),
                NestedStop(resource="deep/db", hook="PostUpdate", stack="inner-deep"),
            ),
            id="one of its own, and one further within",
        ),
        pytest.param(stack("Progressing", DB), (), id="while something else moves it is no stop"),
        pytest.param(stack("Stopped", DB, generation=2), (), id="what it said before it was changed counts no more"),
        pytest.param(
            stack("Stopped", {"resource": "db", "hook": "Tomorrow"}, {"hook": "PreCreate"}, "x", None),
            (),
            id="what makes no sense is passed over",
        ),
    ],
)
def test_who_waits(fields: dict[str, Any], stops: tuple[NestedStop, ...]) -> None:
    verdict = condition_rules.assess_stack(fields)
    assert (verdict.state, verdict.stops) == (HealthState.PROGRESSING, stops)
