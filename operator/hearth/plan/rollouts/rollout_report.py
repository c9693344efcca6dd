"""The rollout in the status of a StackDefinition: encoding, decoding, the condition `Ready` and the Events.

After a restart, the operator reads the rollout back from the status. Requests of users come from annotations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hearth.model import limits, names, object_fields
from hearth.model.child import Object
from hearth.model.text import enumeration, times
from hearth.plan.rollouts.instance_state import UNHEALTHY_BEFORE, InstanceState
from hearth.plan.rollouts.rollout_decision import RolloutDecision, RolloutPhase, RolloutRecord, RolloutRequests
from hearth.plan.rollouts.rollout_policy import PROGRESSIVE, REST, RolloutPolicy

LISTED: Final = 20
"""Instances that a status lists."""
NAMED: Final = 3
"""Instances that a message names."""
TEXT_LENGTH: Final = 253
"""Maximum characters of an annotation to read."""


class DefinitionReason(enum.StrEnum):
    """Why a StackDefinition is ready, or not."""

    COMPLETE = "Complete"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_STOPPED = "RolloutStopped"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WAITING_FOR_PROMOTION = "WaitingForPromotion"
    INVALID_DEFINITION = "InvalidDefinition"
    SOURCE_NOT_FOUND = "SourceNotFound"
    REVISION_TAMPERED = "RevisionTampered"
    KIND_TAKEN = "KindTaken"
    KIND_NOT_SERVED = "KindNotServed"
    ROLES_REFUSED = "RolesRefused"
    DELETION_BLOCKED = "DeletionBlocked"


NORMAL: Final = "Normal"
WARNING: Final = "Warning"
HELD = "InstancesHeld"
"""The reason of the Event about instances that cannot follow."""
FORCED = "RolloutForced"
"""The reason of the Event about a rollout that failures do not stop."""
PROGRESS: Final = (
    DefinitionReason.COMPLETE,
    DefinitionReason.ROLLING_OUT,
    DefinitionReason.ROLLOUT_PAUSED,
    DefinitionReason.WAITING_FOR_PROMOTION,
)
EVENT_TYPES: Final[Mapping[DefinitionReason, str]] = {
    reason: NORMAL if reason in PROGRESS else WARNING
    for reason in DefinitionReason
    if reason is not DefinitionReason.KIND_NOT_SERVED
}
"""The type of the Event for a new reason; reasons without one last less than a second."""


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
        "forced": record.forced or None,
        "instances": [encode_instance(each, each.message) for each in decision.failed[:LISTED]] or None,
        "heldInstances": [encode_instance(each.instance, each.reason) for each in decision.held[:LISTED]] or None,
    }


def encode_instance(instance: InstanceState, message: str) -> Object:
    """Return an entry of a list of instances."""
    return {"namespace": instance.namespace, "name": instance.name, "message": message}


def decode(status: Any, policy: RolloutPolicy) -> RolloutRecord:
    """Return the record in a status that any client may have changed; an empty record without one."""
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
            forced=int(found.get("forced") or 0),
        )
    except (KeyError, TypeError, ValueError):
        return RolloutRecord()


def find_wave(name: Any, policy: RolloutPolicy, *, is_over: bool) -> int:
    """Return the index of a wave by its name; of the first wave if the name no longer exists."""
    waves = policy.waves if policy.strategy == PROGRESSIVE else ()
    known = [*(wave.name for wave in waves), REST, UNHEALTHY_BEFORE]
    if is_over:
        return len(known)
    return known.index(name) if name in known else 0


def read_requests(annotations: Mapping[str, Any]) -> RolloutRequests:
    """Return the requests in the annotations of a StackDefinition."""
    return RolloutRequests(
        is_paused=annotations.get(names.ROLLOUT_PAUSED) == "true",
        undo=read_number(annotations.get(names.ROLLOUT_UNDO, "")),
        restart=str(annotations.get(names.ROLLOUT_RESTART, ""))[:TEXT_LENGTH],
        promote=str(annotations.get(names.ROLLOUT_PROMOTE, ""))[:TEXT_LENGTH],
        force=read_number(annotations.get(names.ROLLOUT_FORCE, "")),
    )


def read_number(text: Any) -> int:
    """Return the number of a revision in a text; 0 for any other text."""
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS
    return int(text) if is_number else 0


def explain(decision: RolloutDecision, *, is_public: bool = False) -> tuple[DefinitionReason, str]:
    """Return the reason and the message of `Ready`.

    is_public: whether the message is for an Event, which users of other namespaces may read. It then neither names nor
    quotes instances.
    """
    record = decision.record
    revision, where = record.revision, ""
    if decision.wave:
        where = (
            f"wave {decision.wave} ({decision.wave_size} {'instance' if decision.wave_size == 1 else 'instances'}): "
        )
    far = f"{where}{decision.ready} of {decision.instances} instances are ready with revision {revision}"
    held, failed = describe_held(decision, is_public=is_public), describe_failed(decision, is_public=is_public)
    match record.phase:
        case RolloutPhase.COMPLETE:
            return (
                DefinitionReason.COMPLETE,
                f"{decision.updated} of {decision.instances} instances run revision {revision}{held}",
            )
        case RolloutPhase.PAUSED:
            return DefinitionReason.ROLLOUT_PAUSED, f"{far}; paused by the annotation {names.ROLLOUT_PAUSED}"
        case RolloutPhase.STOPPED:
            way = (
                f"correct the definition, restart the rollout with the annotation {names.ROLLOUT_RESTART}, or continue "
                f'despite the failures with {names.ROLLOUT_FORCE}: "{revision}"'
            )
            return DefinitionReason.ROLLOUT_STOPPED, f"{far}; {failed}; no further instances are changed: {way}"
        case RolloutPhase.ROLLING_BACK:
            return (
                DefinitionReason.ROLLING_BACK,
                f"{decision.updated} instances still run revision {revision}; {failed}",
            )
        case RolloutPhase.ROLLED_BACK:
            others = "all other instances" if decision.updated else "all instances"
            left = f"{decision.updated} still have it{held}; " if decision.updated else ""
            back = f"{left}{others} are back at revision {record.completed}"
            return DefinitionReason.ROLLED_BACK, f"revision {revision} was rolled back: {back}; correct the definition"
        case RolloutPhase.PROGRESSING:
            return explain_progress(decision, far=far, held=held)


def explain_progress(decision: RolloutDecision, *, far: str, held: str) -> tuple[DefinitionReason, str]:
    """Return the reason and the message of `Ready` of a rollout in progress. far, held: its progress, and the held
    instances.
    """
    if decision.waits_for_users:
        left = f"{decision.waiting} keep their revision until they are promoted (strategy: Manual)"
        return DefinitionReason.WAITING_FOR_PROMOTION, f"{far}; {left}{held}"
    if decision.is_window_closed:
        return DefinitionReason.ROLLING_OUT, f"{far}; {decision.waiting} wait for the window in spec.rollout.window"
    if decision.record.ready_since is not None:
        return DefinitionReason.ROLLING_OUT, f"{far}; the next wave begins after the pause of spec.rollout.pause"
    return DefinitionReason.ROLLING_OUT, f"{far}{held}"


def find_events(decision: RolloutDecision, before: Any) -> Iterator[tuple[str, str, str]]:
    """Find the Events other than the Event of a new reason: type, reason and message of each.

    before: the previous `status.rollout`. The Events name no instance, because users of any namespace can read Events
    of a StackDefinition.
    """
    record = decision.record
    if record.forced and object_fields.number(before, "forced") != record.forced:
        yield (
            WARNING,
            FORCED,
            (
                f"revision {record.revision} is rolled out to all instances even if some fail, as {names.ROLLOUT_FORCE} "
                "requests"
            ),
        )
    count = len(decision.held)
    if count > (object_fields.number(before, "held") or 0):
        yield (
            WARNING,
            HELD,
            f"{count} instances do not move to revision {record.revision}; status.rollout.heldInstances gives the reasons",
        )


def describe_failed(decision: RolloutDecision, *, is_public: bool = False) -> str:
    """Describe the instances that failed. is_public: see `explain`."""
    if not decision.failed:
        return "none failed"
    count = f"{len(decision.failed)} failed"
    return count if is_public else f"{count}: {list_instances((each, each.message) for each in decision.failed)}"


def describe_held(decision: RolloutDecision, *, is_public: bool = False) -> str:
    """Describe the instances that stay unchanged; "" without any. is_public: see `explain`."""
    if not decision.held:
        return ""
    count = f"; {len(decision.held)} held"
    return count if is_public else f"{count}: {list_instances((each.instance, each.reason) for each in decision.held)}"


def list_instances(found: Iterable[tuple[InstanceState, str]]) -> str:
    """List the first instances, each with the first line of a text."""
    clauses = [f"{instance}: {text.partition(chr(10))[0]}" for instance, text in found]
    return enumeration.enumerate_clauses(iter(clauses), count=len(clauses), most=NAMED)
