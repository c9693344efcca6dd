"""A list of cluster-scoped kinds, because an import does not ask a cluster. Other kinds count as namespaced."""

from __future__ import annotations

from typing import Final

from hearth.model import kinds

CLUSTER_WIDE: Final = frozenset(
    {
        "APIService.apiregistration.k8s.io",
        "CertificateSigningRequest.certificates.k8s.io",
        "ClusterRole.rbac.authorization.k8s.io",
        "ClusterRoleBinding.rbac.authorization.k8s.io",
        "CSIDriver.storage.k8s.io",
        "CustomResourceDefinition.apiextensions.k8s.io",
        "DeviceClass.resource.k8s.io",
        "FlowSchema.flowcontrol.apiserver.k8s.io",
        "IngressClass.networking.k8s.io",
        "GatewayClass.gateway.networking.k8s.io",
        "MutatingAdmissionPolicy.admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        "MutatingWebhookConfiguration.admissionregistration.k8s.io",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass.scheduling.k8s.io",
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
        "RuntimeClass.node.k8s.io",
        "StackDefinition.hearth.dev",
        "StackTemplate.hearth.dev",
        "StorageClass.storage.k8s.io",
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
        "VolumeAttributesClass.storage.k8s.io",
        "VolumeSnapshotClass.snapshot.storage.k8s.io",
    }
)
"""`Kind.group`, the core group without the dot."""


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: `apps` for `apps/v1`, "" for `v1`."""
    return api_version.rpartition("/")[0]


def is_cluster_wide(group: str, kind: str) -> bool:
    """Return whether objects of that kind have no namespace."""
    return kinds.make_key(group, kind) in CLUSTER_WIDE
