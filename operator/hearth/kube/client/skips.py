"""The objects of one kind that cannot be read, wholly or in part: each is logged and counted once, however often it comes.

Must not know how they come, nor what is made of what can be read of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from hearth.model import limits

log = structlog.get_logger(__name__)


class Counter(Protocol):
    """Who counts."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """An object that was sent is not taken in, or not as a whole."""


class Skips:
    """Remembers which objects it has named."""

    def __init__(self, kind: str, observer: Counter | None) -> None:
        self._kind = kind
        self._observer = observer
        self._named: dict[tuple[object, str], None] = {}
        """By UID (or whatever else names it) and reason."""

    def note(self, metadata: Mapping[str, Any], *, reason: str, detail: str = "") -> None:
        """Say that an object cannot be read. metadata: of the object; empty where it has none."""
        key = (str(metadata.get("uid")), reason)
        if key in self._named:
            return
        if len(self._named) >= limits.SKIPPED_NAMES:
            self._named.clear()
        self._named[key] = None
        if self._observer is not None:
            self._observer.on_skipped_object(kind=self._kind, reason=reason)
        where = {each: metadata.get(each) for each in ("name", "namespace", "uid", "resourceVersion")}
        log.error("object cannot be read", kind=self._kind, **where, reason=reason, detail=detail)
