"""Reasons why another cluster cannot be used, and which of them need a user."""

from __future__ import annotations

from typing import Final

UNREACHABLE: Final = "ClusterUnreachable"
"""It does not answer. The Stack continues by itself when it does."""
UNAUTHORIZED: Final = "ClusterUnauthorized"
"""It does not accept the credentials."""
REPLACED: Final = "ClusterReplaced"
"""Another cluster answers at the address of the one that has the objects. Only the reason of an Event."""
ABANDONED: Final = "ClusterAbandoned"
"""The credentials are gone with the namespace, so the objects are left behind. Only the reason of an Event."""
CHANGED: Final = "ClusterChanged"
"""The spec names another cluster than the one that has the objects."""
INVALID: Final = "KubeConfigInvalid"
NOT_FOUND: Final = "SourceNotFound"
FORBIDDEN: Final = "SourceForbidden"
TOO_MANY: Final = "TooManyClusters"
TOO_LARGE: Final = "ClusterTooLarge"
"""Its server sends more objects than are cached."""


def is_away(reason: str) -> bool:
    """Return whether only time, or the cluster, can end it."""
    return reason == UNREACHABLE
