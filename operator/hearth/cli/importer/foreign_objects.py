"""Exported objects that belong to others: controllers and the API server make them, so a Stack must not.

Knows kinds and owners; must not know what becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.importer.manifest_documents import ManifestDocument

MADE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")})
"""Objects that each namespace, or the cluster, has by itself."""
RECORDS: Final = frozenset({"Event", "Event.events.k8s.io", "ControllerRevision.apps", "PodMetrics.metrics.k8s.io"})
"""Kinds of which people write none."""
TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 -- a type of Secret


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
