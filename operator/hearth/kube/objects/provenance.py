"""Who wrote a Stack's spec, and from which commit, as the Stack's own metadata tell it.

Source: what kubectl, Flux, Argo CD and Config Sync write; docs/decisions/0018-who-wrote-a-revision.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearth.engine.ports import StackObject
from hearth.model import names

COMMIT_ANNOTATIONS = (names.ANNOTATION_COMMIT, "configmanagement.gke.io/token")
"""In this order: what somebody wrote for us, then what Config Sync writes on all its objects."""
LONGEST_COMMIT = 256
"""Characters; a commit has 40 or 64, a tag a few more."""


def find_author(managed_fields: Iterable[Mapping[str, Any]]) -> str:
    """The field manager whose write of the spec is the newest, "" where none is known."""
    newest, author = "", ""
    for entry in managed_fields:
        # Whoever wrote a status alone is no author.
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {}):
            time = entry.get("time") or ""
            if time >= newest:
                newest, author = time, entry.get("manager") or ""
    return author


def find_commit(annotations: Mapping[str, str]) -> str:
    """The commit that the Stack was made of, "" where nobody says."""
    stated = (annotations.get(key, "").strip() for key in COMMIT_ANNOTATIONS)
    return next((commit[:LONGEST_COMMIT] for commit in stated if commit), "")


def describe(stack: StackObject) -> dict[str, str]:
    """The annotations of a revision that is made of the Stack as it is now."""
    found = {names.ANNOTATION_AUTHOR: stack.author, names.ANNOTATION_COMMIT: find_commit(stack.annotations)}
    return {key: value for key, value in found.items() if value}
