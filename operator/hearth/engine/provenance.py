"""Author and commit of a Stack's spec, from the Stack's own metadata, and the revision of its StackDefinition.

Source: the metadata that kubectl, Flux, Argo CD and Config Sync write; docs/decisions/0018-revision-provenance.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearth.engine.cluster_objects import StackObject
from hearth.model import names

COMMIT_ANNOTATIONS = (names.ANNOTATION_COMMIT, "configmanagement.gke.io/token")
"""In order of priority: the annotation for Hearth, then the one that Config Sync writes on all its objects."""
LONGEST_COMMIT = 256
"""Maximum characters; a commit has 40 or 64, a tag a few more."""


def find_author(managed_fields: Iterable[Mapping[str, Any]]) -> str:
    """Return the field manager with the newest write of the spec, "" if unknown."""
    newest, author = "", ""
    for entry in managed_fields:
        # A field manager that wrote only a status is not an author.
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {}):
            time = entry.get("time") or ""
            if time >= newest:
                newest, author = time, entry.get("manager") or ""
    return author


def find_commit(annotations: Mapping[str, str]) -> str:
    """Return the commit that the Stack was created from, "" if unknown."""
    stated = (annotations.get(key, "").strip() for key in COMMIT_ANNOTATIONS)
    return next((commit[:LONGEST_COMMIT] for commit in stated if commit), "")


def describe(stack: StackObject) -> dict[str, str]:
    """Return the annotations of a revision of the Stack in its current state."""
    found = {
        names.ANNOTATION_AUTHOR: stack.author,
        names.ANNOTATION_COMMIT: find_commit(stack.annotations),
        names.ANNOTATION_DEFINITION_REVISION: str(stack.definition_revision) if stack.definition else "",
    }
    return {key: value for key, value in found.items() if value}
