"""The phases of a Stack: one table of what each says of the conditions, and of which may follow it.

Whoever writes a phase asks this table, and `docs/phases.md` is drawn from it; a new phase is a name and a row.
Must not know how a phase is arrived at.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Answer: TypeAlias = Literal["True", "False", "Unknown"]


class Phase(enum.StrEnum):
    """What is being done for a Stack, and how far it has come."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseConditions:
    """What a phase says in the conditions, in the sense of kstatus."""

    ready: Answer
    reconciling: bool
    stalled: bool
    reason: str | None
    """Of the condition `Ready`; None where the first problem gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One line of the table."""

    meaning: str
    conditions: PhaseConditions
    next: tuple[Phase, ...]
    """The phases that may follow. Staying is always possible, listed or not."""
    conditions_if_automatic: PhaseConditions | None = None
    """What it says where it was not the user's wish, if that is something else."""


WORKING = PhaseConditions(ready="False", reconciling=True, stalled=False, reason="Progressing")
DONE = PhaseConditions(ready="True", reconciling=False, stalled=False, reason="Complete")
FAILED = PhaseConditions(ready="False", reconciling=False, stalled=True, reason=None)
STOPPED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Stopped")
"""An end that is neither success nor failure: the user wanted it so, and nobody waits for anything but him."""
DELETING = PhaseConditions(ready="False", reconciling=True, stalled=False, reason="Deleting")
ROLLED_BACK = PhaseConditions(ready="False", reconciling=False, stalled=True, reason="RolledBack")
"""What `RollbackComplete` says where nobody ordered it: whoever waits for the new definition must not take it for a success."""
FOUND = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="CheckFailed")
FOUND_ROLLED_BACK = PhaseConditions(ready="False", reconciling=False, stalled=True, reason="CheckFailed")
SUSPENDED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Suspended")
"""An end as the user wanted it, and yet nobody who needs what runs may go on."""
DELETED = PhaseConditions(ready="False", reconciling=False, stalled=False, reason="Deleted")

CHECK = (Phase.CHECK_COMPLETE, Phase.CHECK_FAILED)
"""What a check says of a Stack that was as wanted once. It stands until something is done, or is no longer so; then the
phase is again that of what is wanted. It may follow any phase, since what came in between may not have been written.
"""
CREATION = (Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED)
SUSPENSION = (
    *(Phase.SUSPEND_IN_PROGRESS, Phase.SUSPEND_COMPLETE, Phase.SUSPEND_FAILED),
    *(Phase.RESUME_IN_PROGRESS, Phase.RESUME_COMPLETE, Phase.RESUME_FAILED, Phase.RESUME_STOPPED),
)
"""Where `spec.suspended` leads from any phase but those of a deletion; that it was true may have gone unwritten."""
FIRST = (*CREATION, *SUSPENSION, Phase.ROLLBACK_IN_PROGRESS, Phase.DELETE_IN_PROGRESS, *CHECK)
"""Where a Stack begins: complete at once where all was ready before the first status could be written, even checked then,
rolled back where that failed as quickly, deleted where that happens before it was ever seen.
"""
UPDATE = (Phase.UPDATE_IN_PROGRESS, Phase.UPDATE_COMPLETE, Phase.UPDATE_FAILED, Phase.UPDATE_STOPPED)
DELETION = (Phase.DELETE_IN_PROGRESS, Phase.DELETE_FAILED, Phase.DELETE_STOPPED)
"""Where a deletion leads from any other phase: the second and the third where it is refused, or stopped, before the first
could be written.
"""
ROLLBACK = (
    *(Phase.ROLLBACK_IN_PROGRESS, Phase.ROLLBACK_COMPLETE),
    *(Phase.ROLLBACK_FAILED, Phase.ROLLBACK_STOPPED),
)
NEW_TARGET = (*UPDATE, *SUSPENSION, Phase.ROLLBACK_IN_PROGRESS, *DELETION, *CHECK)
"""Where a change of what is wanted leads from any phase but those of a deletion: `…Failed` at once if it is refused,
`UpdateComplete` at once if nothing had to be done for it, `…Stopped` and `DeleteFailed` at once if a breakpoint or a
denied Delete holds all that is left. A rollback always begins with `RollbackInProgress`.
"""
AFTER_REJECTION = (
    *(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED),
    *(Phase.ROLLBACK_COMPLETE, Phase.ROLLBACK_FAILED, Phase.ROLLBACK_STOPPED),
)
"""What a refused definition may have come over: taken back, it leaves the Stack in what it was before."""

TABLE: Mapping[Phase, PhaseRow] = {
    Phase.CREATE_IN_PROGRESS: PhaseRow(
        meaning="The first revision is being created, or repaired.",
        conditions=WORKING,
        next=(Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, Phase.CREATE_STOPPED, *NEW_TARGET),
    ),
    Phase.CREATE_COMPLETE: PhaseRow(
        meaning="All resources of the first revision are ready.",
        conditions=DONE,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_FAILED, Phase.CREATE_STOPPED, *NEW_TARGET),
    ),
    Phase.CREATE_FAILED: PhaseRow(
        meaning="The definition was refused, or a resource has used up its attempts; trying goes on.",
        conditions=FAILED,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_STOPPED, *NEW_TARGET),
    ),
    Phase.CREATE_STOPPED: PhaseRow(
        meaning="The creation has come to a breakpoint, and nothing else can go on.",
        conditions=STOPPED,
        next=(Phase.CREATE_IN_PROGRESS, Phase.CREATE_COMPLETE, Phase.CREATE_FAILED, *NEW_TARGET),
    ),
    Phase.UPDATE_IN_PROGRESS: PhaseRow(
        meaning="A later revision is being brought about, or repaired.",
        conditions=WORKING,
        next=NEW_TARGET,
    ),
    Phase.UPDATE_COMPLETE: PhaseRow(
        meaning="All resources of the newest revision are ready, and nothing obsolete is left.",
        conditions=DONE,
        next=NEW_TARGET,
    ),
    Phase.UPDATE_FAILED: PhaseRow(
        meaning="The new definition was refused, or a resource has used up its attempts; trying goes on.",
        conditions=FAILED,
        next=(*AFTER_REJECTION, *NEW_TARGET),
    ),
    Phase.UPDATE_STOPPED: PhaseRow(
        meaning="The update has come to a breakpoint, and nothing else can go on.",
        conditions=STOPPED,
        next=NEW_TARGET,
    ),
    Phase.ROLLBACK_IN_PROGRESS: PhaseRow(
        meaning="An earlier revision is being brought back, by order or because a later one failed.",
        conditions=WORKING,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.ROLLBACK_COMPLETE: PhaseRow(
        meaning="The earlier revision is reached, and nothing of the later one is left.",
        conditions=DONE,
        conditions_if_automatic=ROLLED_BACK,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.ROLLBACK_FAILED: PhaseRow(
        meaning="Going back has used up its attempts at a resource; trying goes on.",
        conditions=FAILED,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.ROLLBACK_STOPPED: PhaseRow(
        meaning="Going back has come to a breakpoint, and nothing else can go on.",
        conditions=STOPPED,
        next=(*ROLLBACK, *UPDATE, *SUSPENSION, *DELETION, *CHECK),
    ),
    Phase.CHECK_COMPLETE: PhaseRow(
        meaning="A check has looked at everything afresh and found nothing, and nothing happened since.",
        conditions=DONE,
        conditions_if_automatic=ROLLED_BACK,
        next=(*AFTER_REJECTION, *NEW_TARGET),
    ),
    Phase.CHECK_FAILED: PhaseRow(
        meaning="A check has found something that is still so, and nothing was done about it since.",
        conditions=FOUND,
        conditions_if_automatic=FOUND_ROLLED_BACK,
        next=(*AFTER_REJECTION, *NEW_TARGET),
    ),
    Phase.SUSPEND_IN_PROGRESS: PhaseRow(
        meaning="Workloads are being brought to nothing, dependents first.",
        conditions=WORKING,
        next=(*CREATION, *NEW_TARGET),
    ),
    Phase.SUSPEND_COMPLETE: PhaseRow(
        meaning="All workloads are at nothing.", conditions=SUSPENDED, next=(*CREATION, *NEW_TARGET)
    ),
    Phase.SUSPEND_FAILED: PhaseRow(
        meaning="A workload cannot be brought to nothing; trying goes on.",
        conditions=FAILED,
        next=(*CREATION, *NEW_TARGET),
    ),
    Phase.RESUME_IN_PROGRESS: PhaseRow(
        meaning="Workloads are being brought back in order, with what was changed meanwhile.",
        conditions=WORKING,
        next=NEW_TARGET,
    ),
    Phase.RESUME_COMPLETE: PhaseRow(
        meaning="All resources are ready again.", conditions=DONE, conditions_if_automatic=ROLLED_BACK, next=NEW_TARGET
    ),
    Phase.RESUME_FAILED: PhaseRow(
        meaning="Resuming has used up its attempts at a resource; trying goes on.", conditions=FAILED, next=NEW_TARGET
    ),
    Phase.RESUME_STOPPED: PhaseRow(
        meaning="Resuming has come to a breakpoint of what was changed meanwhile, and nothing else can go on.",
        conditions=STOPPED,
        next=NEW_TARGET,
    ),
    Phase.DELETE_IN_PROGRESS: PhaseRow(
        meaning="The children are being deleted, dependents first.",
        conditions=DELETING,
        next=(*DELETION, Phase.DELETE_COMPLETE),
    ),
    Phase.DELETE_COMPLETE: PhaseRow(
        meaning="No child is left; the Stack goes at the same moment.",
        conditions=DELETED,
        next=(),
    ),
    Phase.DELETE_FAILED: PhaseRow(
        meaning="A child cannot be deleted; trying goes on.",
        conditions=FAILED,
        next=(*DELETION, Phase.DELETE_COMPLETE),
    ),
    Phase.DELETE_STOPPED: PhaseRow(
        meaning="The deletion has come to a breakpoint, and nothing else can go on.",
        conditions=STOPPED,
        next=(*DELETION, Phase.DELETE_COMPLETE),
    ),
}

BY_NAME: Mapping[str, Phase] = {str(phase): phase for phase in Phase}


def find(text: object) -> Phase | None:
    """The phase that `text` names, or None where it names none."""
    return BY_NAME.get(text) if isinstance(text, str) else None


def find_conditions(phase: Phase, *, is_unasked: bool = False) -> PhaseConditions:
    """What a phase says. is_unasked: whether it came about against the user's wish."""
    row = TABLE[phase]
    return row.conditions_if_automatic if is_unasked and row.conditions_if_automatic is not None else row.conditions


def is_legal(before: Phase | None, after: Phase) -> bool:
    """Whether `after` may be written over `before` (None: no phase was ever written)."""
    if before is None:
        return after in FIRST
    return after == before or after in TABLE[before].next


def document() -> str:
    """`docs/phases.md`: the table, and the diagram of which phase may follow which."""
    rows = "\n".join(write_row(phase, row) for phase, row in TABLE.items())
    return f"""\
# Phases of a Stack

Drawn from the table in `operator/hearth/model/phases.py`; a test says when it is stale, and how to write it anew.

| phase | means | Ready | Reconciling | Stalled |
|---|---|---|---|---|
{rows}

A dash: the condition is False or not there. The message of `Ready` names what is waited for, or what is wrong.

```mermaid
{draw()}
```
"""


def write_row(phase: Phase, row: PhaseRow) -> str:
    """The lines of one phase in the table, in Markdown."""
    lines = [write_line(f"`{phase}`", row.meaning, row.conditions)]
    if row.conditions_if_automatic is not None:
        lines.append(write_line(f"`{phase}`, automatic", row.meaning, row.conditions_if_automatic))
    return "\n".join(lines)


def write_line(phase: str, meaning: str, says: PhaseConditions) -> str:
    """One line of the table in Markdown."""
    ready = says.ready if says.ready == "True" else f"{says.ready}, {says.reason or 'the first problem'}"
    return (
        f"| {phase} | {meaning} | {ready} | {'True' if says.reconciling else '–'} | {'True' if says.stalled else '–'} |"
    )


def draw() -> str:
    """The diagram, in the language of Mermaid."""
    edges = [("[*]", str(phase)) for phase in FIRST]
    edges += [(str(phase), str(after)) for phase, row in TABLE.items() for after in row.next if after is not phase]
    edges += [(str(phase), "[*]") for phase, row in TABLE.items() if not row.next]
    return "\n".join(["stateDiagram-v2", *(f"    {before} --> {after}" for before, after in edges)])
