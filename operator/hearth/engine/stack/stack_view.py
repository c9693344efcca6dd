"""Read-only view of one Stack in this process, for all that neither reconcile it nor plan for it."""

from __future__ import annotations

from typing import Protocol

from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model.child import Object
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status.ready_condition import StatusInput


class StackView(Protocol):
    """What others may know of the reconciler of one Stack."""

    @property
    def plan(self) -> StackPlan | None:
        """The result of planning; None without an accepted definition."""

    @property
    def is_refused(self) -> bool:
        """Whether the definition in the spec is refused."""

    @property
    def is_deleting(self) -> bool:
        """Whether the Stack is being deleted, as of the last sync."""

    @property
    def is_paused(self) -> bool:
        """Whether writes to children are forbidden."""


class ReportedStack(StackView, Protocol):
    """What the status writer needs besides: the input of a status, and whom to notify of the write."""

    @property
    def memory(self) -> InMemoryState:
        """The in-memory state of the Stack's steps. The status writer only reads it."""

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Texts that no user-visible output may contain."""

    @property
    def is_known(self) -> bool:
        """Whether a definition was accepted or refused, so that there is a status to write."""

    @property
    def is_faulty(self) -> bool:
        """Whether an internal error must be reported, even if nothing else is known of the Stack."""

    @property
    def is_superseded(self) -> bool:
        """Whether the operator is reading a newer spec, so that writes for the current target are wasted."""

    @property
    def is_status_overdue(self) -> bool:
        """Whether the next status write cannot wait for better news."""

    @property
    def has_outcome(self) -> bool:
        """Whether the target is complete, or a resource failed or stopped; checking this is cheap."""

    def cache_sync_grace(self) -> float:
        """Return the seconds left in which the status is withheld because the first list of children is in progress."""

    def make_status_input(self, *, is_writable: bool = True) -> StatusInput:
        """Make the input of the next status. is_writable: whether the complete status can be written."""

    def note_written(self, status: Object) -> None:
        """Record the written status."""

    def note_fault(self, work: str, *, what: DirtyItem = DirtyScope.ALL_RESOURCES) -> float:
        """Record an internal error for the status; enqueue `what` after the returned delay in seconds."""

    def clear_fault(self, work: str) -> None:
        """Record the success of work that may have failed."""

    def find_retry(self, work: str) -> float:
        """Return the monotonic time in seconds before which failed work is not retried; 0 if it did not fail."""
