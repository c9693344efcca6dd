"""A rollout in the status of its StackDefinition: written for people, read back after a restart; and what users ask of it.

With the reasons of the condition `Ready` of a StackDefinition, and which of them deserve an Event.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.text import enumeration, times
from hearth.plan.rollouts.rollout_decision import UNWELL, RolloutDecision, RolloutPhase, RolloutRecord, RolloutRequests
from hearth.plan.rollouts.rollout_policy import PROGRESSIVE, REST, RolloutPolicy

LISTED: Final = 20
"""Instances that a status lists."""
NAMED: Final = 3
"""Instances that a message names."""
TEXT_LENGTH: Final = 253
"""Characters of an annotation that are read."""


class DefinitionReason(enum.StrEnum):
    """Why a StackDefinition is ready, or not."""

    COMPLETE = "Complete"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_STOPPED = "RolloutStopped"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    INVALID_DEFINITION = "InvalidDefinition"
    SOURCE_NOT_FOUND = "SourceNotFound"
    INSTANCES_DO_NOT_FIT = "InstancesDoNotFit"
    REVISION_TAMPERED = "RevisionTampered"
    KIND_TAKEN = "KindTaken"
    KIND_NOT_SERVED = "KindNotServed"
    ROLES_REFUSED = "RolesRefused"
    DELETION_BLOCKED = "DeletionBlocked"


NORMAL: Final = "Normal"
WARNING: Final = "Warning"
PROGRESS: Final = (DefinitionReason.COMPLETE, DefinitionReason.ROLLING_OUT, DefinitionReason.ROLLOUT_PAUSED)
EVENT_TYPES: Final[Mapping[DefinitionReason, str]] = {
    reason: NORMAL if reason in PROGRESS else WARNING
    for reason in DefinitionReason
    if reason is not DefinitionReason.KIND_NOT_SERVED
}
"""The type of the Event that is posted once a reason comes; those without one pass by themselves within a second."""


def encode(decision: RolloutDecision) -> Object:
    """Return `status.rollout`. A field that has no value is null, so that a merge removes it."""
    record = decision.record
    return {
        "revision": record.revision,
        "completed": record.completed or None,
        "phase": str(record.phase),
        "wave": decision.wave or None,
        "updated": decision.updated,
        "ready": decision.ready,
        "failed": len(decision.failed),
        "waiting": decision.waiting,
        "held": len(decision.held),
        "readySince": times.format_time(record.ready_since) if record.ready_since is not None else None,
        "restart": record.restart or None,
        "instances": [
            {"namespace": each.namespace, "name": each.name, "message": each.message}
            for each in decision.failed[:LISTED]
        ]
        or None,
    }


def decode(status: Any, policy: RolloutPolicy) -> RolloutRecord:
    """Return what a status remembers, as any client may have changed it; an empty record if it remembers nothing."""
    found = status.get("rollout") if isinstance(status, dict) else None
    if not isinstance(found, dict):
        return RolloutRecord()
    try:
        since = found.get("readySince")
        return RolloutRecord(
            revision=int(found["revision"]),
            completed=int(found.get("completed") or 0),
            phase=RolloutPhase(found["phase"]),
            wave=find_wave(found.get("wave"), policy, is_over=found["phase"] == RolloutPhase.COMPLETE),
            ready_since=times.parse_time(since) if since is not None else None,
            restart=str(found.get("restart") or ""),
        )
    except (KeyError, TypeError, ValueError):
        return RolloutRecord()


def find_wave(name: Any, policy: RolloutPolicy, *, is_over: bool) -> int:
    """Return the index of a wave by its name; that of the first one if there is none of that name any more."""
    waves = policy.waves if policy.strategy == PROGRESSIVE else ()
    known = [*(wave.name for wave in waves), REST, UNWELL]
    if is_over:
        return len(known)
    return known.index(name) if name in known else 0


def read_requests(annotations: Mapping[str, Any]) -> RolloutRequests:
    """Return what the annotations of a StackDefinition ask for."""
    return RolloutRequests(
        is_paused=annotations.get(names.ROLLOUT_PAUSED) == "true",
        undo=read_number(annotations.get(names.ROLLOUT_UNDO, "")),
        restart=str(annotations.get(names.ROLLOUT_RESTART, ""))[:TEXT_LENGTH],
        promote=str(annotations.get(names.ROLLOUT_PROMOTE, ""))[:TEXT_LENGTH],
    )


def read_number(text: Any) -> int:
    """Return the number of a revision in a text; 0 if it is none."""
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS
    return int(text) if is_number else 0


def explain(decision: RolloutDecision) -> tuple[DefinitionReason, str]:
    """Return the reason and the message of `Ready`."""
    record = decision.record
    revision, where = record.revision, f"wave {decision.wave}: " if decision.wave else ""
    far = f"{where}{decision.ready} of {decision.instances} objects are ready with revision {revision}"
    match record.phase:
        case RolloutPhase.COMPLETE:
            held = f"; {len(decision.held)} stay as they are" if decision.held else ""
            return (
                DefinitionReason.COMPLETE,
                f"revision {revision} is with {decision.updated} of {decision.instances} objects{held}",
            )
        case RolloutPhase.PAUSED:
            return DefinitionReason.ROLLOUT_PAUSED, f"{far}; paused by the annotation {names.ROLLOUT_PAUSED}"
        case RolloutPhase.STOPPED:
            way = f"correct the definition, or begin again with the annotation {names.ROLLOUT_RESTART}"
            return (
                DefinitionReason.ROLLOUT_STOPPED,
                f"{far}; {describe_failed(decision)}; no further object is changed: {way}",
            )
        case RolloutPhase.ROLLING_BACK:
            return (
                DefinitionReason.ROLLING_BACK,
                f"{decision.updated} objects still have revision {revision}; {describe_failed(decision)}",
            )
        case RolloutPhase.ROLLED_BACK:
            back = f"all objects are back at revision {record.completed}"
            return DefinitionReason.ROLLED_BACK, f"revision {revision} was taken back: {back}; correct the definition"
        case RolloutPhase.PROGRESSING:
            if decision.is_window_closed:
                return (
                    DefinitionReason.ROLLING_OUT,
                    f"{far}; {decision.waiting} wait for the window in spec.rollout.window",
                )
            if record.ready_since is not None:
                return (
                    DefinitionReason.ROLLING_OUT,
                    f"{far}; the next wave begins after the pause of spec.rollout.pause",
                )
            return DefinitionReason.ROLLING_OUT, far


def describe_failed(decision: RolloutDecision) -> str:
    """Describe the instances that failed."""
    if not decision.failed:
        return "none failed"
    clauses = (f"{each}: {each.message.partition(chr(10))[0]}" for each in decision.failed)
    listed = enumeration.enumerate_clauses(clauses, count=len(decision.failed), most=NAMED)
    return f"{len(decision.failed)} failed: {listed}"
