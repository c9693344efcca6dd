"""What an object that is being deleted reports about what holds it up, besides its finalizers. Pure.

A Namespace and a CustomResourceDefinition have conditions of their own for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hearth.plan.health import health_result
from hearth.plan.health.health_result import Fields

NAMESPACE: Final = "Namespace"
HOLDING: Final[Mapping[str, tuple[str, ...]]] = {
    NAMESPACE: (
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceFinalizersRemaining",
    ),
    "CustomResourceDefinition.apiextensions.k8s.io": ("Terminating",),
}
"""By `Kind.key`, the types of conditions that are True only if more than time is needed."""
REMAINING: Final = "NamespaceContentRemaining"
"""Says which objects are left; true also while these only need time."""


def find_messages(kind: str, fields: Fields) -> dict[str, str]:
    """Return by type the messages of the conditions that hold up the deletion. kind: `Kind.key`."""
    found = {
        type_: " ".join(health_result.read_text(each, "message").split())
        for each in health_result.read_items(fields, "status.conditions")
        for type_ in [health_result.read_text(each, "type")]
        if type_ in (*HOLDING.get(kind, ()), REMAINING) and each.get("status") == "True"
    }
    # What is left explains what holds, and nothing by itself.
    return found if found.keys() - {REMAINING} else {}


def explain(kind: str, fields: Fields) -> str:
    """Return what holds up the deletion in one sentence; "" if the object does not report it. kind: `Kind.key`."""
    return "; ".join(message.rstrip(".") for message in find_messages(kind, fields).values() if message)
