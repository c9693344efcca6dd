"""The imported manifests by object, kind and role: which of them another one references, serves or selects.

Must not know which references are dependencies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds, kind_references, pod_references
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.object_mention import ObjectMention
from hearth.model import value_class
from hearth.model.kinds import ObjectRef

DEFINITION: Final = "CustomResourceDefinition.apiextensions.k8s.io"


@value_class.dataclass(frozen=True, slots=True)
class ManifestIndex:
    """Index of the imported manifests."""

    documents: Sequence[ManifestDocument]
    default_namespace: str
    objects: dict[ObjectRef, int] = field(default_factory=dict)
    keys: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Positions by `Kind.group`."""
    served: dict[tuple[str, str], int] = field(default_factory=dict)
    """The CustomResourceDefinition of a group and kind."""
    bound: dict[ObjectRef, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The bindings that grant rights to an account."""

    def fill(self) -> None:
        """Index all documents."""
        for position, document in enumerate(self.documents):
            key = cluster_scoped_kinds.key_of(document.group, document.kind)
            self.keys[key].append(position)
            self.objects[document.locate(self.default_namespace)] = position
            if key == DEFINITION:
                group = object_fields.text(document.manifest, "spec", "group")
                self.served[group, object_fields.text(document.manifest, "spec", "names", "kind")] = position
            if key in kind_references.BINDINGS:
                for reference in self.locate_mentions(document):
                    if reference.kind == "ServiceAccount":
                        self.bound[reference].append(position)

    def is_cluster_wide(self, document: ManifestDocument) -> bool:
        """Return whether the object of a document has no namespace, also by a definition among the manifests."""
        definition = self.served.get((document.group, document.kind))
        if definition is not None:
            return object_fields.text(self.documents[definition].manifest, "spec", "scope") == "Cluster"
        return cluster_scoped_kinds.is_cluster_wide(document.group, document.kind)

    def locate_mentions(self, document: ManifestDocument) -> Iterator[ObjectRef]:
        """Return the objects that a document references."""
        for mention in kind_references.find_mentions(document.manifest):
            yield from self.locate(mention, document)

    def locate(self, mention: ObjectMention, document: ManifestDocument) -> Iterator[ObjectRef]:
        """Yield the object that a document mentions; none if the mention names none."""
        if isinstance(mention.name, str) and mention.name:
            stated = mention.namespace if isinstance(mention.namespace, str) else ""
            is_wide = cluster_scoped_kinds.is_cluster_wide(mention.group, mention.kind)
            namespace = "" if is_wide else stated or document.namespace or self.default_namespace
            yield ObjectRef(group=mention.group, kind=mention.kind, namespace=namespace, name=mention.name)


def find_answering(service: ObjectRef, index: ManifestIndex) -> Iterator[int]:
    """Return the workloads whose pods a Service selects."""
    position = index.objects.get(service)
    if service.kind != "Service" or position is None:
        return
    selector = object_fields.mapping(index.documents[position].manifest, "spec", "selector")
    for candidate, document in enumerate(index.documents):
        template = pod_references.find_template(document.manifest)
        namespace = document.namespace or index.default_namespace
        if template is not None and namespace == service.namespace and selects(selector, template):
            yield candidate


def selects(selector: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Return whether a Service's selector matches the pods of a template; an empty one matches none."""
    labels = object_fields.mapping(template, "metadata", "labels")
    return bool(selector) and selector.items() <= labels.items()
