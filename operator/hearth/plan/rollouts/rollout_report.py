"""The rollout in the status of a StackDefinition: encoding, decoding, the condition `Ready` and the Events.

After a restart, the operator reads the rollout back from the status. Requests of users come from annotations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from hearth.model import limits, names, object_fields
from hearth.model.child import Object
from hearth.model.signatures import Signatures, Signer
from hearth.model.text import enumeration, times
from hearth.plan.rollouts.instance_state import UNHEALTHY_BEFORE, InstanceState
from hearth.plan.rollouts.rollout_decision import RolloutDecision, RolloutPhase, RolloutRecord, RolloutRequests
from hearth.plan.rollouts.rollout_gates import GateResult, GateState
from hearth.plan.rollouts.rollout_policy import RolloutPolicy
from hearth.plan.status import plan_status

LISTED: Final = 20
"""Instances that a status lists."""
NAMED: Final = 3
"""Instances that a message names."""
TEXT_LENGTH: Final = 253
"""Maximum characters of an annotation to read."""
RECORD: Final = "rollout of a StackDefinition"
"""The purpose of the signature of a rollout in a status."""
RECORD_FIELDS: Final = ("revision", "completed", "phase", "wave", "readySince", "startedAt", "restart", "forced")
EVIDENCE: Final = "results of the gates of a revision"
"""The purpose of the signature of the results that are stored with a revision."""
GATE_PASSED: Final = "GatePassed"
GATE_FAILED: Final = "GateFailed"


class DefinitionReason(enum.StrEnum):
    """Why a StackDefinition is ready, or not."""

    COMPLETE = "Complete"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_STOPPED = "RolloutStopped"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WAITING_FOR_PROMOTION = "WaitingForPromotion"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
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
    DefinitionReason.WAITING_FOR_APPROVAL,
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
        "startedAt": record.started or None,
        "restart": record.restart or None,
        "forced": record.forced or None,
        "instances": [encode_instance(each, each.message) for each in decision.failed[:LISTED]] or None,
        "heldInstances": [encode_instance(each.instance, each.reason) for each in decision.held[:LISTED]] or None,
        "gates": [encode_gate(each) for each in decision.gates] or None,
    }


def encode_instance(instance: InstanceState, message: str) -> Object:
    """Return an entry of a list of instances."""
    return {"namespace": instance.namespace, "name": instance.name, "message": message}


def encode_gate(gate: GateResult) -> Object:
    """Return an entry of the list of gates."""
    entry: Object = {"wave": gate.wave, "name": gate.name, "state": str(gate.state), "digest": gate.digest}
    if gate.approval is None:
        return entry
    reason = {"message": gate.approval.reason} if gate.approval.reason else {}
    return {**entry, "user": gate.approval.user, "time": gate.approval.time, **reason}


def list_new_results(decision: RolloutDecision, before: Any) -> list[GateResult]:
    """Return the gates with a decision that the previous status lacks. before: the previous `status.rollout`."""
    known = {(each.get("digest"), each.get("state")) for each in object_fields.entries(before, "gates")}
    return [each for each in decision.gates if each.approval is not None and (each.digest, each.state) not in known]


def write_evidence(rollout: Object, uid: str, *, signer: Signer) -> str:
    """Return the annotation of a revision with the results of its gates. rollout: as `encode` returns it; uid: of the
    StackDefinition.
    """
    gates = [each for each in rollout["gates"] if each["state"] != GateState.WAITING]
    evidence = {"revision": rollout["revision"], "startedAt": rollout["startedAt"], "gates": gates}
    signature = signer.sign(EVIDENCE, [uid, evidence])
    return orjson.dumps({**evidence, "signature": signature}).decode()


def list_signed(uid: str, rollout: Mapping[str, Any]) -> list[Any]:
    """Return the signed content of `status.rollout`: the fields that `decode` reads. uid: of the StackDefinition."""
    return [uid, *(rollout.get(each) for each in RECORD_FIELDS)]


def is_genuine(status: Any, uid: str, *, signatures: Signatures) -> bool:
    """Return whether the operator wrote `status.rollout` of that StackDefinition. Otherwise, it proves no passed gate."""
    rollout = object_fields.mapping(status, "rollout")
    return signatures.is_signed(RECORD, list_signed(uid, rollout), object_fields.text(rollout, "signature"))


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
            started=str(found.get("startedAt") or ""),
            restart=str(found.get("restart") or ""),
            forced=int(found.get("forced") or 0),
        )
    except (KeyError, TypeError, ValueError):
        return RolloutRecord()


def find_wave(name: Any, policy: RolloutPolicy, *, is_over: bool) -> int:
    """Return the index of a wave by its name; of the first wave if the name no longer exists."""
    known = [*policy.wave_names, UNHEALTHY_BEFORE]
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


def explain(
    decision: RolloutDecision, *, is_public: bool = False, is_approvable: bool = True
) -> tuple[DefinitionReason, str]:
    """Return the reason and the message of `Ready`.

    is_public: whether the message is for an Event, which users of other namespaces may read. It then neither names nor
    quotes instances, and quotes no reason of an approver; is_approvable: whether the operator serves the webhook that
    approvals need.
    """
    record = decision.record
    revision, where = record.revision, ""
    if decision.wave:
        where = (
            f"wave {decision.wave} ({decision.wave_size} {'instance' if decision.wave_size == 1 else 'instances'}): "
        )
    far = f"{where}{decision.ready} of {decision.instances} instances are ready with revision {revision}"
    held, failed = describe_held(decision, is_public=is_public), describe_failed(decision, is_public=is_public)
    failed_gates = enumeration.enumerate_clauses(
        iter([describe_gate(each, is_public=is_public) for each in decision.failed_gates]),
        count=len(decision.failed_gates),
        most=NAMED,
    )
    match record.phase:
        case RolloutPhase.COMPLETE:
            return (
                DefinitionReason.COMPLETE,
                f"{decision.updated} of {decision.instances} instances run revision {revision}{held}",
            )
        case RolloutPhase.PAUSED:
            return DefinitionReason.ROLLOUT_PAUSED, f"{far}; paused by the annotation {names.ROLLOUT_PAUSED}"
        case RolloutPhase.STOPPED if failed_gates:
            way = f"correct the definition, or restart the rollout with the annotation {names.ROLLOUT_RESTART}"
            return (
                DefinitionReason.ROLLOUT_STOPPED,
                f"{far}; {failed_gates}; no further instances are changed: {way}",
            )
        case RolloutPhase.STOPPED:
            way = (
                f"correct the definition, restart the rollout with the annotation {names.ROLLOUT_RESTART}, or continue "
                f'despite the failures with {names.ROLLOUT_FORCE}: "{revision}"'
            )
            return DefinitionReason.ROLLOUT_STOPPED, f"{far}; {failed}; no further instances are changed: {way}"
        case RolloutPhase.ROLLING_BACK:
            return (
                DefinitionReason.ROLLING_BACK,
                f"{decision.updated} instances still run revision {revision}; {failed_gates or failed}",
            )
        case RolloutPhase.ROLLED_BACK:
            others = "all other instances" if decision.updated else "all instances"
            left = f"{decision.updated} still have it{held}; " if decision.updated else ""
            back = f"{left}{others} are back at revision {record.completed}"
            cause = f" because {failed_gates}" if failed_gates else ""
            return (
                DefinitionReason.ROLLED_BACK,
                f"revision {revision} was rolled back{cause}: {back}; correct the definition",
            )
        case RolloutPhase.PROGRESSING:
            return explain_progress(decision, far=far, held=held, is_approvable=is_approvable)


def explain_progress(
    decision: RolloutDecision, *, far: str, held: str, is_approvable: bool
) -> tuple[DefinitionReason, str]:
    """Return the reason and the message of `Ready` of a rollout in progress. far, held: its progress, and the held
    instances.
    """
    if decision.is_at_gate:
        return DefinitionReason.WAITING_FOR_APPROVAL, f"{far}; {explain_gates(decision, is_approvable=is_approvable)}"
    if decision.waits_for_users:
        left = f"{decision.waiting} keep their revision until they are promoted (strategy: Manual)"
        return DefinitionReason.WAITING_FOR_PROMOTION, f"{far}; {left}{held}"
    if decision.is_window_closed:
        return DefinitionReason.ROLLING_OUT, f"{far}; {decision.waiting} wait for the window in spec.rollout.window"
    if decision.record.ready_since is not None:
        return DefinitionReason.ROLLING_OUT, f"{far}; the next wave begins after the pause of spec.rollout.pause"
    return DefinitionReason.ROLLING_OUT, f"{far}{held}"


def explain_gates(decision: RolloutDecision, *, is_approvable: bool) -> str:
    """Return what users can do about the gates that a rollout waits for."""
    waiting = decision.waiting_gates
    if not is_approvable:
        return f"it waits for the approval of {enumeration.enumerate_names([each.name for each in waiting])}; {plan_status.NO_WEBHOOK}"
    listed = enumeration.enumerate_names([f"{each.name} ({each.digest[: names.PLAN_DIGITS]})" for each in waiting])
    return (
        f"it waits for the approval of {listed}; a user with the verb approve on stackdefinitions.{names.GROUP} approves "
        f"with the annotation {names.REQUEST_APPROVE} and these digits, or rejects with {names.REQUEST_REJECT}"
    )


def describe_gate(gate: GateResult, *, is_public: bool) -> str:
    """Return who decided about a gate. is_public: see `explain`."""
    if gate.approval is None:
        return f"gate {gate.name} waits after wave {gate.wave}"
    reason = f": {gate.approval.reason}" if gate.approval.reason and not is_public else ""
    decided = f"{gate.approval.decision} by {gate.approval.user} at {gate.approval.time}{reason}"
    return f"gate {gate.name} after wave {gate.wave} was {decided}"


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
    for gate in list_new_results(decision, before):
        type_, reason = (NORMAL, GATE_PASSED) if gate.state is GateState.PASSED else (WARNING, GATE_FAILED)
        yield type_, reason, f"revision {record.revision}: {describe_gate(gate, is_public=True)}"
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
