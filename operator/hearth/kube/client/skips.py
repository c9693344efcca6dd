"""Objects of one kind that cannot be read, wholly or in part: each is logged and counted only once.

Must not know how they arrive or how their readable parts are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from hearth.model import limits

log = structlog.get_logger(__name__)


class Counter(Protocol):
    """The metrics of skipped objects."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Count an object that was received and not stored, or not stored completely."""


class Skips:
    """Record of the objects that were already reported."""

    def __init__(self, kind: str, observer: Counter | None) -> None:
        self._kind = kind
        self._observer = observer
        self._named: dict[tuple[object, str], None] = {}
        """By UID (or another identity) and reason."""

    def note(self, metadata: Mapping[str, Any], *, reason: str, detail: str = "") -> None:
        """Report that an object cannot be read. metadata: of the object; empty if it has none."""
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
