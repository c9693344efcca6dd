"""A listener and an observer that do nothing, for tests that ignore them, and as base classes."""

from __future__ import annotations

from hearth.engine.cluster_objects import StackObject
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry.retry_triggers import RetryTrigger


class DeafListener:
    """Receives all notifications and ignores them."""

    def on_child(self, stack_uid: str, resource: str) -> None:
        """A child changed."""

    def on_synced(self, kind: Kind) -> None:
        """A kind is synced."""

    def on_stack(self, uid: str) -> None:
        """A Stack changed."""

    def on_revision(self, stack_uid: str) -> None:
        """A revision changed."""

    def on_source(self, ref: ObjectRef) -> None:
        """A source changed."""

    def on_retry_trigger(self, trigger: RetryTrigger) -> None:
        """The cause of a refusal changed."""

    def on_kinds(self) -> None:
        """Kinds changed."""


class SilentObserver:
    """The port `Observer` without any measurements; it only records limits."""

    def __init__(self) -> None:
        self.limits: list[str] = []
        """The limits that were reached, one entry each time."""

    def begin_reconcile(self) -> None:
        """As the port says."""

    def resume_reconcile(self, trace: object) -> None:
        """As the port says."""

    def on_reconcile(self, *, result: str, seconds: float, stack: StackObject | None = None) -> None:
        """As the port says."""

    def on_dequeue(self, seconds: float) -> None:
        """As the port says."""

    def on_event_to_write(self, seconds: float) -> None:
        """As the port says."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """As the port says."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Do nothing."""

    def on_watch_restart(self, *, kind: str, reason: str) -> None:
        """As the port says."""

    def on_limit(self, limit: str) -> None:
        """As the port says."""
        self.limits.append(limit)

    def on_notification(self, result: str) -> None:
        """As the port says."""
