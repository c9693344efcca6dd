"""What must be known of kinds without asking a cluster: which of them live in no namespace.

An import works without any cluster; a kind that is not listed here is taken for one that lives in a namespace.
"""

from __future__ import annotations

from typing import Final

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
    """`apps` of `apps/v1`, "" of `v1`."""
    return api_version.rpartition("/")[0]


def key_of(group: str, kind: str) -> str:
    """`Deployment.apps`, `Service`."""
    return f"{kind}.{group}" if group else kind


def is_cluster_wide(group: str, kind: str) -> bool:
    """Whether objects of that kind live in no namespace."""
    return key_of(group, kind) in CLUSTER_WIDE
