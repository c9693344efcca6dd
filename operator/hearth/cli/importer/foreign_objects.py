"""Manifests that no Stack may have: objects that controllers and the API server make, and files of programs, which are no
objects at all.

Knows kinds and owners; must not know what becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.importer.manifest_documents import ManifestDocument

MADE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")})
"""Objects that each namespace, or the cluster, has by itself."""
RECORDS: Final = frozenset({"Event", "Event.events.k8s.io", "ControllerRevision.apps", "PodMetrics.metrics.k8s.io"})
"""Kinds of which people write none."""
TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 -- a type of Secret

PROGRAMS: Final[Mapping[str, str]] = {
    "kustomize.config.k8s.io": "kustomize: import what `kubectl kustomize` makes of it",
    "kpt.dev": "kpt: import what `kpt fn render` makes of it",
    "kapp.k14s.io": "kapp",
    "kbld.k14s.io": "kbld",
    "vendir.k14s.io": "vendir",
    "skaffold": "Skaffold",
    "kind.x-k8s.io": "kind",
    "k3d.io": "k3d",
    "kubeadm.k8s.io": "kubeadm",
    "kubelet.config.k8s.io": "the kubelet",
    "kubeproxy.config.k8s.io": "kube-proxy",
    "kubescheduler.config.k8s.io": "kube-scheduler",
    "apiserver.config.k8s.io": "the API server",
    "apiserver.k8s.io": "the API server",
    "audit.k8s.io": "the API server",
    "client.authentication.k8s.io": "kubectl",
    "kubectl.config.k8s.io": "kubectl",
}
"""The groups in which programs write the apiVersion of their files. No API server serves them."""
KUBECONFIG: Final = "Config"
"""The kind of a kubeconfig, in the core group, which has none of that name."""


def find_program(document: ManifestDocument) -> str:
    """Return the program whose file the document is; "" if it is an object."""
    if not document.group and document.kind == KUBECONFIG:
        return "kubectl: it holds credentials"
    return PROGRAMS.get(document.group, "")


def find_maker(document: ManifestDocument, documents: Sequence[ManifestDocument]) -> str:
    """Return who makes the object: `its owner ReplicaSet web-7d4`; "" if that may be a person. documents: all of them."""
    kind = cluster_scoped_kinds.key_of(document.group, document.kind)
    for owner in object_fields.entries(document.metadata, "ownerReferences"):
        if owner.get("controller") is True or kind == "EndpointSlice.discovery.k8s.io":
            return f"its owner {owner.get('kind')} {owner.get('name')}"
    if (kind, document.name) in MADE:
        return "the control plane"
    if kind in RECORDS:
        return "the control plane"
    if kind == "Secret" and document.manifest.get("type") == TOKEN:
        return "the control plane"
    if kind == "Endpoints" and any(_has_selector(each, document) for each in documents):
        return f"Service {document.name}"
    return ""


def _has_selector(service: ManifestDocument, endpoints: ManifestDocument) -> bool:
    """Return whether a Service makes these Endpoints: one without a selector does not."""
    is_its = (service.kind, service.name, service.namespace) == ("Service", endpoints.name, endpoints.namespace)
    return is_its and bool(object_fields.mapping(service.manifest, "spec", "selector"))
