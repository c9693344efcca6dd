"""Failure reasons that do not count against a StackDefinition, by cause: the user of a Stack, or an outage."""

from __future__ import annotations

from typing import Final

OF_TENANT: Final = frozenset(
    {"NotOwned", "Forbidden", "NamespaceNotAllowed", "ServiceAccountRequired", "SourceNotFound", "SourceForbidden"}
    | {"RevisionNotFound", "NamespaceTerminating", "Restricted"}
)
"""Causes on the side of a Stack's user: objects with the same name, permissions, the namespace, Secrets, the user's own
rules."""
OUTAGES: Final = frozenset({"Unavailable", "Unreachable", "RevisionStoreFailed"})
"""Causes on the side of the API server: a webhook or component is unavailable, it is overloaded, or a quota is full."""
