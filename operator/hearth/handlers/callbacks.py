"""What kopf's handlers call. Must not know kopf, so that callers need not wait for its import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCallbacks:
    """Safe to be called from kopf's thread."""

    on_kinds: Callable[[], None]
    """Kinds may have come, gone or changed."""
    on_started: Callable[[], None]
    on_ended: Callable[[], None]
