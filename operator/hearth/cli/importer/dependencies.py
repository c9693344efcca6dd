"""Dependencies between imported manifests: references to other imported objects, and rules by kind.

Must not name resources: a manifest is identified by its position among the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hearth.cli.importer import cluster_scoped_kinds, kind_references, manifest_index, pod_references, served_order
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_index import ManifestIndex

LIMITS: Final = frozenset({"LimitRange", "ResourceQuota"})
"""Kinds that affect only pods that are created after them."""
CALLED: Final = kind_references.WEBHOOKS | {kind_references.API_SERVICE}
"""Kinds that make the API server call a Service. Requests fail from then on until the Service responds."""


def find_dependencies(index: ManifestIndex) -> list[list[int]]:
    """Return for each document the positions of those that must be ready before it, in ascending order."""
    required = [set(find_required(each, index)) - {position} for position, each in enumerate(index.documents)]
    served_order.add(required, index)
    return [sorted(each) for each in required]


def find_required(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Return the positions of the dependencies of one document; may repeat, and may contain the document itself."""
    definition = index.served.get((document.group, document.kind))
    if definition is not None:
        yield definition
    runs_pods = pod_references.find_template(document.manifest) is not None
    for reference in index.locate_mentions(document):
        if reference in index.objects:
            yield index.objects[reference]
        if runs_pods and reference.kind == "ServiceAccount":
            # Rights that come later than the pods make programs fail that look once, when they start.
            yield from index.bound.get(reference, ())
    if runs_pods:
        yield from find_limits(document, index)
    if cluster_scoped_kinds.key_of(document.group, document.kind) in CALLED:
        for reference in index.locate_mentions(document):
            yield from manifest_index.find_answering(reference, index)


def find_limits(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Return the objects that limit the pods of the document's namespace."""
    namespace = document.namespace or index.default_namespace
    for kind in LIMITS:
        for position in index.keys.get(kind, ()):
            if (index.documents[position].namespace or index.default_namespace) == namespace:
                yield position
