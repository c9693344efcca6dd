"""Owner of an object according to its own metadata, for messages. Must not decide anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_HELM_RELEASE = "meta.helm.sh/release-name"
UNMANAGED = "is not managed by any Stack"


def describe_owner(raw: Mapping[str, Any], *, is_proven: bool) -> str:
    """Describe the most likely owner of the object, as text that follows its name: `belongs to the Stack prod/shop`.

    is_proven: whether it proves that it is the child of a Stack.
    """
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    stack = _find_stack(metadata)
    if stack and names.ANNOTATION_IDENTITY in annotations:
        if is_proven:
            return f"belongs to the Stack {stack}"
        return f"was applied by the Stack {stack}, but its labels and annotations hearth.dev/… were changed since"
    for owner in metadata.get("ownerReferences") or ():
        return f"belongs to {str(owner.get('kind', '')).lower()}/{owner.get('name', '')}"
    if LABEL_HELM_RELEASE in annotations:
        return f"belongs to the Helm release {annotations[LABEL_HELM_RELEASE]}"
    if LABEL_MANAGED_BY in labels:
        return f"belongs to {labels[LABEL_MANAGED_BY]!r} (its label {LABEL_MANAGED_BY})"
    if stack:
        return f"{UNMANAGED} (released by the Stack {stack})"
    managers = _managers(metadata)
    return f"{UNMANAGED} (written by {managers[0]!r})" if managers else UNMANAGED


def find_stack_namespace(raw: Mapping[str, Any]) -> str:
    """Return the namespace of the Stack that applied the object, "" if none did."""
    return _find_stack(raw["metadata"]).partition("/")[0]


def _find_stack(metadata: Mapping[str, Any]) -> str:
    """Return `namespace/name` of the Stack that applied the object first, "" if none did."""
    found = (manager for manager in _managers(metadata) if manager.startswith(names.FIELD_MANAGER_PREFIX))
    return next(found, "").removeprefix(names.FIELD_MANAGER_PREFIX)


def _managers(metadata: Mapping[str, Any]) -> list[str]:
    """Return the field managers in the order of the object, each once."""
    return list(dict.fromkeys(str(entry.get("manager", "")) for entry in metadata.get("managedFields") or ()))
