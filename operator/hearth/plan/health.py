"""How an object does, by a table of rules: kind → rule.

Knows what kinds mean; must not know of Stacks, nor of time: a verdict hangs on the object alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.model import names
from hearth.model.child import Path
from hearth.model.kinds import Kind
from hearth.plan import health_conditions, health_pods, health_workloads
from hearth.plan.health_verdict import Entry, State, Verdict

__all__ = ["State", "Verdict", "judge", "paths"]

EXISTING_KINDS: Final = (
    "ConfigMap",
    "ControllerRevision.apps",
    "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    "CronJob.batch",
    "CSIDriver.storage.k8s.io",
    "CSINode.storage.k8s.io",
    "EndpointSlice.discovery.k8s.io",
    "Endpoints",
    # It reports on its target's metrics, which come and go; scaling by a fixed number is no failure of the object.
    "HorizontalPodAutoscaler.autoscaling",
    # An address is written by some controllers only.
    "Ingress.networking.k8s.io",
    "IngressClass.networking.k8s.io",
    "Lease.coordination.k8s.io",
    "LimitRange",
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "MutatingWebhookConfiguration.admissionregistration.k8s.io",
    "NetworkPolicy.networking.k8s.io",
    "PodTemplate",
    "PriorityClass.scheduling.k8s.io",
    "ResourceQuota",
    "Role.rbac.authorization.k8s.io",
    "RoleBinding.rbac.authorization.k8s.io",
    "RuntimeClass.node.k8s.io",
    "Secret",
    "ServiceAccount",
    "StorageClass.storage.k8s.io",
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
    "VolumeAttributesClass.storage.k8s.io",
)
"""Kinds that are ready by being there: a watch of their metadata is enough."""

TABLE: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(EXISTING_KINDS, health_conditions.EXISTING),
    "CustomResourceDefinition.apiextensions.k8s.io": health_conditions.DEFINITION,
    "DaemonSet.apps": health_workloads.DAEMON_SET,
    "Deployment.apps": health_workloads.DEPLOYMENT,
    "Job.batch": health_pods.JOB,
    "Namespace": health_conditions.NAMESPACE,
    "PersistentVolumeClaim": health_conditions.CLAIM,
    "Pod": health_pods.POD,
    "ReplicaSet.apps": health_workloads.REPLICA_SET,
    "ReplicationController": health_workloads.REPLICA_SET,
    "Service": health_conditions.SERVICE,
    f"Stack.{names.GROUP}": health_conditions.REPORTING,
    "StatefulSet.apps": health_workloads.STATEFUL_SET,
}
"""By `Kind.key`; a kind without a row is judged by its conditions."""


def judge(fields: Mapping[str, Any], *, kind: Kind) -> Verdict:
    """How the object with these fields does. Takes any shape and never raises."""
    return find_entry(kind).rule(fields)


def paths(kind: Kind) -> frozenset[Path]:
    """The fields that `judge` reads of objects of this kind, besides the metadata; empty: metadata are enough."""
    return find_entry(kind).paths


def find_entry(kind: Kind) -> Entry:
    """The table's row for a kind."""
    return TABLE.get(kind.key, health_conditions.ANY)
