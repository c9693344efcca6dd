"""What one other cluster costs: the observer of its connection, without labels that its server could choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import StackObject


@dataclass(slots=True)
class RemoteUsage:
    """The counts of one cluster. Its kinds, reasons and objects are those of its server, so none is a label."""

    on_limit: Callable[[str], None] = field(default=lambda _limit: None)
    """Counts a limit that was reached, with all other clusters."""
    requests: int = 0
    failures: int = 0
    """Requests without an answer, or refused for a reason in the server."""
    watch_restarts: int = 0
    skipped: int = 0
    is_reachable: bool = False

    def begin_reconcile(self) -> None:
        """Ignore it: no other cluster is reconciled."""

    def resume_reconcile(self, trace: object) -> None:
        """Ignore it."""

    def on_reconcile(self, *, result: str, seconds: float, stack: StackObject | None = None) -> None:
        """Ignore it: no other cluster is reconciled."""

    def on_dequeue(self, seconds: float) -> None:
        """Ignore it."""

    def on_event_to_write(self, seconds: float) -> None:
        """Ignore it."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:  # noqa: ARG002 -- the observer's parameters
        """Count a request."""
        self.requests += 1
        self.failures += code == 0 or code >= 500

    def on_watch_restart(self, *, kind: str, reason: str) -> None:  # noqa: ARG002 -- likewise
        """Count the restart of a watch."""
        self.watch_restarts += 1

    def on_skipped_object(self, *, kind: str, reason: str) -> None:  # noqa: ARG002 -- likewise
        """Count an object that cannot be read."""
        self.skipped += 1
