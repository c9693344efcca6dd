"""Reasons of failures by who can end them. A StackDefinition must not be judged by a failure that it did not cause.

Reasons, never texts. Must not know what follows from a failure.
"""

from __future__ import annotations

from typing import Final

OF_TENANT: Final = frozenset(
    {"NotOwned", "Forbidden", "NamespaceNotAllowed", "ServiceAccountRequired", "SourceNotFound", "SourceForbidden"}
    | {"RevisionNotFound", "NamespaceTerminating", "Restricted"}
)
"""What belongs to the user of a Stack: objects of the same name, rights, its namespace, its Secrets, its own rules."""
OUTAGES: Final = frozenset({"Unavailable", "Unreachable", "RevisionStoreFailed"})
"""What the API server could not do: a webhook or a component is away, it is overloaded, or a quota is full."""
