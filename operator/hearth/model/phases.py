"""The phases of a Stack: one table with the conditions of each phase and the phases that may follow it.

Code that writes a phase gets its conditions from this table, tests check the transitions, and `docs/phases.md` is
generated from it. To add a phase, add a member and a row. `hearth.plan.status.ready_condition` derives the phase.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, TypeAlias

from hearth.model import value_class

Answer: TypeAlias = Literal["True", "False", "Unknown"]


class Phase(enum.StrEnum):
    """The current operation of a Stack and its progress."""

    CREATE_IN_PROGRESS = "CreateInProgress"
    CREATE_COMPLETE = "CreateComplete"
    CREATE_FAILED = "CreateFailed"
    CREATE_STOPPED = "CreateStopped"
    UPDATE_IN_PROGRESS = "UpdateInProgress"
    UPDATE_COMPLETE = "UpdateComplete"
    UPDATE_FAILED = "UpdateFailed"
    UPDATE_STOPPED = "UpdateStopped"
    ROLLBACK_IN_PROGRESS = "RollbackInProgress"
    ROLLBACK_COMPLETE = "RollbackComplete"
    ROLLBACK_FAILED = "RollbackFailed"
    ROLLBACK_STOPPED = "RollbackStopped"
    CHECK_COMPLETE = "CheckComplete"
    CHECK_FAILED = "CheckFailed"
    SUSPEND_IN_PROGRESS = "SuspendInProgress"
    SUSPEND_COMPLETE = "SuspendComplete"
    SUSPEND_FAILED = "SuspendFailed"
    RESUME_IN_PROGRESS = "ResumeInProgress"
    RESUME_COMPLETE = "ResumeComplete"
    RESUME_FAILED = "ResumeFailed"
    RESUME_STOPPED = "ResumeStopped"
    DELETE_IN_PROGRESS = "DeleteInProgress"
    DELETE_COMPLETE = "DeleteComplete"
    DELETE_FAILED = "DeleteFailed"
    DELETE_STOPPED = "DeleteStopped"


class ConditionType(enum.StrEnum):
    """The types of conditions other than those of kstatus, in display order."""

    PAUSED = "Paused"
    CHANGE_HELD = "ChangeHeld"
    EXPIRING = "Expiring"
    STOPPED = "Stopped"
    ROLLING_BACK = "RollingBack"
    DRIFTED = "Drifted"
    DRIFT_CONFLICT = "DriftConflict"
    WRITES_DELAYED = "WritesDelayed"
    UNHEALTHY = "Unhealthy"
    DELETION_BLOCKED = "DeletionBlocked"
    CHECK_PENDING = "CheckPending"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    REVISION_TAMPERED = "RevisionTampered"
    INTERNAL_ERROR = "InternalError"
    SUSPEND_RECORD_INVALID = "SuspendRecordInvalid"


KSTATUS_CONDITIONS = ("Ready", "Reconciling", "Stalled")
"""The condition types that follow from the phase."""
RESERVED_CONDITIONS = (*KSTATUS_CONDITIONS, *ConditionType)
"""The condition types that a template cannot define."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseConditions:
    """The conditions of a phase, as kstatus defines them."""

    ready: Answer
    reconciling: bool
    stalled: bool
    reason: str | None
    """The reason of the condition `Ready`, or None if the first problem gives it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One row of the table."""

    meaning: str
    conditions: PhaseConditions
    next: tuple[Phase, ...]
    """The phases that may follow. The same phase may always follow, listed or not."""
    conditions_if_automatic: PhaseConditions | None = None
    """Conditions that differ if the user did not request the phase, if any."""
    drawn: tuple[Phase, ...] = ()
    """The phases in `next` that the diagram in `docs/phases.md` shows: the usual course.

    A diagram with all edges would be unreadable.
    """


WORKING = PhaseConditions(ready="False", reconciling=True, stalled=False, reason="Progressing")
DONE = PhaseConditions(ready="True", reconciling=False, stalled=False, reason="Complete")
FAILED = PhaseConditions(ready="False", reconciling=False, stalled=True, reason=None)
STOPPED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Stopped")
"""An end that is neither success nor failure. The user requested it, and only the user can continue."""
DELETING = PhaseConditions(ready="False", reconciling=True, stalled=False, reason="Deleting")
ROLLED_BACK = PhaseConditions(ready="False", reconciling=False, stalled=True, reason="RolledBack")
"""The conditions of `RollbackComplete` after an automatic rollback. Clients that wait for the new definition must not
see success."""
FOUND = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="CheckFailed")
FOUND_ROLLED_BACK = PhaseConditions(ready="False", reconciling=False, stalled=True, reason="CheckFailed")
SUSPENDED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Suspended")
"""An end that the user requested. Clients that need the workload must not continue."""
DELETED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Deleted")

CHECK = (Phase.CHECK_COMPLETE, Phase.CHECK_FAILED)
"""The result of a check of a Stack that once matched its target. It lasts until an operation starts or the result is
outdated. Then the phase follows from the target again. It may follow any phase, since intermediate phases may be
unwritten.
"""
CREATION = (Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED)
SUSPENSION = (
    *(Phase.SUSPEND_IN_PROGRESS, Phase.SUSPEND_COMPLETE, Phase.SUSPEND_FAILED),
    *(Phase.RESUME_IN_PROGRESS, Phase.RESUME_COMPLETE, Phase.RESUME_FAILED, Phase.RESUME_STOPPED),
)
"""The phases that `spec.suspended` leads to from any phase except during a deletion. A true value may be unwritten.
"""
FIRST = (*CREATION, *SUSPENSION, Phase.UPDATE_FAILED, Phase.ROLLBACK_IN_PROGRESS, Phase.DELETE_IN_PROGRESS, *CHECK)
"""The first phases of a Stack. It is complete or even checked if all was ready before the first status write. It is
rolled back if that failed as quickly, and deleted if this happens before the operator first sees it. Its update failed
if the first definition was accepted, and a rejected one replaced it before the first status write."""
UPDATE = (Phase.UPDATE_IN_PROGRESS, Phase.UPDATE_COMPLETE, Phase.UPDATE_FAILED, Phase.UPDATE_STOPPED)
DELETION = (Phase.DELETE_IN_PROGRESS, Phase.DELETE_FAILED, Phase.DELETE_STOPPED)
"""The phases that a deletion leads to from any other phase. The second and third follow directly if the deletion is
denied or stopped before the first write."""
ROLLBACK = (
    *(Phase.ROLLBACK_IN_PROGRESS, Phase.ROLLBACK_COMPLETE),
    *(Phase.ROLLBACK_FAILED, Phase.ROLLBACK_STOPPED),
)
NEW_TARGET = (*UPDATE, *SUSPENSION, Phase.ROLLBACK_IN_PROGRESS, *DELETION, *CHECK)
"""The phases that a change of target leads to from any phase except during a deletion. `…Failed` follows directly if
the definition is rejected, and `UpdateComplete` if there is nothing to do. `…Stopped` and `DeleteFailed` follow
directly if a breakpoint or a denied Delete blocks all remaining steps. A rollback always begins with
`RollbackInProgress`.
"""
AFTER_REJECTION = (
    *(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED),
    *(Phase.ROLLBACK_COMPLETE, Phase.ROLLBACK_FAILED, Phase.ROLLBACK_STOPPED),
)
"""The phases that a rejected or held definition may have interrupted. Reverting it returns the Stack to the earlier phase.
"""

TABLE: Mapping[Phase, PhaseRow] = {
    Phase.CREATE_IN_PROGRESS: PhaseRow(
        meaning="The first revision is being created, or repaired.",
        conditions=WORKING,
        next=(Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED, *NEW_TARGET),
        drawn=(Phase.CREATE_COMPLETE, Phase.CREATE_FAILED),
    ),
    Phase.CREATE_COMPLETE: PhaseRow(
        meaning="All resources of the first revision are ready.",
        conditions=DONE,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_FAILED, Phase.CREATE_STOPPED, *NEW_TARGET),
        drawn=(Phase.UPDATE_IN_PROGRESS,),
    ),
    Phase.CREATE_FAILED: PhaseRow(
        meaning="The definition was rejected, or a resource reached its retry limit; retries continue.",
        conditions=FAILED,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_STOPPED, *NEW_TARGET),
    ),
    Phase.CREATE_STOPPED: PhaseRow(
        meaning="The creation waits, at a breakpoint or for an approval, and nothing else can progress.",
        conditions=STOPPED,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, *NEW_TARGET),
    ),
    Phase.UPDATE_IN_PROGRESS: PhaseRow(
        meaning="A later revision is being applied, or repaired.",
        conditions=WORKING,
        next=NEW_TARGET,
        drawn=(Phase.UPDATE_COMPLETE, Phase.UPDATE_FAILED, Phase.UPDATE_STOPPED),
    ),
    Phase.UPDATE_COMPLETE: PhaseRow(
        meaning="All resources of the newest revision are ready, and no obsolete object is left.",
        conditions=DONE,
        next=NEW_TARGET,
        drawn=(Phase.SUSPEND_IN_PROGRESS, Phase.DELETE_IN_PROGRESS),
    ),
    Phase.UPDATE_FAILED: PhaseRow(
        meaning="The new definition was rejected, or a resource reached its retry limit; retries continue.",
        conditions=FAILED,
        next=(*AFTER_REJECTION, *NEW_TARGET),
        drawn=(Phase.ROLLBACK_IN_PROGRESS,),
    ),
    Phase.UPDATE_STOPPED: PhaseRow(
        meaning="The update waits, at a breakpoint, for its window or for an approval, and nothing else can progress.",
        conditions=STOPPED,
        next=(*AFTER_REJECTION, *NEW_TARGET),
        drawn=(Phase.UPDATE_IN_PROGRESS,),
    ),
    Phase.ROLLBACK_IN_PROGRESS: PhaseRow(
        meaning="An earlier revision is being applied, on request or because a later one failed.",
        conditions=WORKING,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
        drawn=(Phase.ROLLBACK_COMPLETE,),
    ),
    Phase.ROLLBACK_COMPLETE: PhaseRow(
        meaning="The earlier revision is complete, and nothing of the later one is left.",
        conditions=DONE,
        conditions_if_automatic=ROLLED_BACK,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.ROLLBACK_FAILED: PhaseRow(
        meaning="A resource reached its retry limit during the rollback; retries continue.",
        conditions=FAILED,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.ROLLBACK_STOPPED: PhaseRow(
        meaning="The rollback waits at a breakpoint, and nothing else can progress.",
        conditions=STOPPED,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.CHECK_COMPLETE: PhaseRow(
        meaning="A check listed everything afresh and found no problem, and nothing happened since.",
        conditions=DONE,
        conditions_if_automatic=ROLLED_BACK,
        next=(*AFTER_REJECTION, *NEW_TARGET),
    ),
    Phase.CHECK_FAILED: PhaseRow(
        meaning="A check found problems that still exist, and no step ran since.",
        conditions=FOUND,
        conditions_if_automatic=FOUND_ROLLED_BACK,
        next=(*AFTER_REJECTION, *NEW_TARGET),
    ),
    Phase.SUSPEND_IN_PROGRESS: PhaseRow(
        meaning="Workloads are being scaled to nothing, dependents first.",
        conditions=WORKING,
        next=(*CREATION, *NEW_TARGET),
        drawn=(Phase.SUSPEND_COMPLETE,),
    ),
    Phase.SUSPEND_COMPLETE: PhaseRow(
        meaning="All workloads are scaled to nothing.",
        conditions=SUSPENDED,
        next=(*CREATION, *NEW_TARGET),
        drawn=(Phase.RESUME_IN_PROGRESS,),
    ),
    Phase.SUSPEND_FAILED: PhaseRow(
        meaning="A workload cannot be scaled to nothing; retries continue.",
        conditions=FAILED,
        next=(*CREATION, *NEW_TARGET),
    ),
    Phase.RESUME_IN_PROGRESS: PhaseRow(
        meaning="Workloads are being restored in order, with the changes made meanwhile.",
        conditions=WORKING,
        next=NEW_TARGET,
        drawn=(Phase.RESUME_COMPLETE,),
    ),
    Phase.RESUME_COMPLETE: PhaseRow(
        meaning="All resources are ready again.", conditions=DONE, conditions_if_automatic=ROLLED_BACK, next=NEW_TARGET
    ),
    Phase.RESUME_FAILED: PhaseRow(
        meaning="A resource reached its retry limit during the resume; retries continue.",
        conditions=FAILED,
        next=NEW_TARGET,
    ),
    Phase.RESUME_STOPPED: PhaseRow(
        meaning="The resume waits at a breakpoint of a change made meanwhile, and nothing else can progress.",
        conditions=STOPPED,
        next=NEW_TARGET,
    ),
    Phase.DELETE_IN_PROGRESS: PhaseRow(
        meaning="The children are being deleted, dependents first.",
        conditions=DELETING,
        next=(*DELETION, Phase.DELETE_COMPLETE),
        drawn=(Phase.DELETE_COMPLETE,),
    ),
    Phase.DELETE_COMPLETE: PhaseRow(
        meaning="No child is left; the Stack is removed at the same moment.",
        conditions=DELETED,
        next=(),
    ),
    Phase.DELETE_FAILED: PhaseRow(
        meaning="A child cannot be deleted; retries continue.",
        conditions=FAILED,
        next=(*DELETION, Phase.DELETE_COMPLETE),
    ),
    Phase.DELETE_STOPPED: PhaseRow(
        meaning="The deletion waits at a breakpoint, and nothing else can progress.",
        conditions=STOPPED,
        next=(*DELETION, Phase.DELETE_COMPLETE),
    ),
}


def find_conditions(phase: Phase, *, is_unasked: bool = False) -> PhaseConditions:
    """Find the conditions of a phase. is_unasked: whether the user did not request it."""
    row = TABLE[phase]
    return row.conditions_if_automatic if is_unasked and row.conditions_if_automatic is not None else row.conditions
