"""Whose an object is, as far as it says so itself: for messages only, never for decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_HELM_RELEASE = "meta.helm.sh/release-name"


def name_owner(raw: Mapping[str, Any]) -> str:
    """The best that is known of who made the object, to be read after «belongs to»."""
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    stack = next((manager for manager in _managers(metadata) if manager.startswith(names.MANAGER_PREFIX)), None)
    if stack is not None:
        return f"the Stack {stack.removeprefix(names.MANAGER_PREFIX)}"
    for owner in metadata.get("ownerReferences") or ():
        return f"{str(owner.get('kind', '')).lower()}/{owner.get('name', '')}"
    if LABEL_HELM_RELEASE in annotations:
        return f"the Helm release {annotations[LABEL_HELM_RELEASE]}"
    if LABEL_MANAGED_BY in labels:
        return f"{labels[LABEL_MANAGED_BY]!r} (its label {LABEL_MANAGED_BY})"
    managers = _managers(metadata)
    return f"{managers[0]!r} (its field manager)" if managers else "nobody who left a name"


def _managers(metadata: Mapping[str, Any]) -> list[str]:
    """Field managers in the order of the object, each once."""
    return list(dict.fromkeys(str(entry.get("manager", "")) for entry in metadata.get("managedFields") or ()))
