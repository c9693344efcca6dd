"""What kopf's handlers call. Knows nothing of kopf, so that nobody waits for its import who only wants to be woken."""

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
