"""The objects that must survive their Stack: those that say so, and those without which they would not.

Must not know what other tools write: `tool_annotations` does.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearth.cli.importer import tool_annotations
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_index import ManifestIndex
from hearth.model.kinds import ObjectRef


def find_survivors(index: ManifestIndex) -> dict[int, str]:
    """Return the positions of the manifests whose objects stay, each with the reason."""
    stated = {position: tool_annotations.find_keeper(document) for position, document in enumerate(index.documents)}
    kept = {position: annotation for position, annotation in stated.items() if annotation}
    for position in tuple(kept):
        document = index.documents[position]
        for holder in find_holders(document, index):
            kept.setdefault(holder, f"{document.kind} {document.name} would go with it".replace("  ", " "))
    return dict(sorted(kept.items()))


def find_holders(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Yield the Namespace of an object and the definition of its kind: a deletion of one of them is one of the object."""
    if not index.is_cluster_wide(document):
        name = document.namespace or index.default_namespace
        holder = index.objects.get(ObjectRef(group="", kind="Namespace", namespace="", name=name))
        yield from () if holder is None else (holder,)
    definition = index.served.get((document.group, document.kind))
    yield from () if definition is None else (definition,)
