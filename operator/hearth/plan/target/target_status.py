"""Stores the target in the status of a Stack, with a signature, and reads it back after a restart.

`status.target` is for users. `status.controllerState` is private to the operator and not part of the API.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hearth.model import limits
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.environment import active_environment
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.target.target import (
    CompletedRevisions,
    DetachedSet,
    LastBatch,
    RestoredClaim,
    RollbackRequest,
    SuspendTransition,
    Target,
    TargetCause,
)
from hearth.plan.target.target_choice import MAX_PROTECTED_REVISIONS

TOO_HIGH = 10**limits.COUNT_DIGITS
"""Exclusive upper bound of revision numbers."""
BATCHES_KEPT = 500
"""Maximum rolling updates whose last batch a status stores. All others pause once more after a restart."""
DETACHED_KEPT = 500
"""Maximum StatefulSets without successors that a status stores. Any others wait for these."""
TARGET = "target"
CONTROLLER_STATE = "controllerState"


def encode(target: Target) -> Object:
    """Encode a target as fields of a status; omit false and empty ones."""
    shown: Object = {"revision": target.revision, "cause": str(target.cause), "since": times.format_time(target.since)}
    if target.is_completed:
        shown["completed"] = True
    if target.failure:
        shown["message"] = target.failure
    if target.failure_reason:
        shown["reason"] = target.failure_reason
    state = _encode_state(target)
    return {TARGET: shown, CONTROLLER_STATE: state} if state else {TARGET: shown}


def _encode_state(target: Target) -> Object:
    """Encode the fields that only the operator reads."""
    values = {
        "initial": target.is_first,
        "cleanupWaived": target.is_cleanup_waived,
        "protectedRevisions": list(target.protected_revisions),
        "failedHash": target.failed_hash,
        "cluster": target.cluster,
        "breakpointKey": target.breakpoint_key,
        "earlierRevision": target.earlier_revision,
        "removedMembers": list(target.removed),
        "surge": target.surge,
        "definitionRevision": target.definition_revision,
    }
    state: Object = {key: value for key, value in values.items() if value}
    if (rollback := target.rollback) is not None:
        state["rollback"] = _encode_rollback(rollback)
    if (suspend := target.suspend) is not None:
        state["suspend"] = {"suspended": suspend.is_suspended, "since": times.format_time(suspend.since)}
        state["suspend"].update({"completed": True} if suspend.is_completed else {})
    if target.batches:
        state["batches"] = [
            {"resource": each.collection, "completedAt": times.format_time(each.since), "updated": each.updated}
            for each in target.batches[:BATCHES_KEPT]
        ]
    if target.detached:
        state["detachedSets"] = [*map(_encode_detached, target.detached[:DETACHED_KEPT])]
    return {**state, **active_environment.encode_cleared(target.cleared)}


def _encode_rollback(rollback: RollbackRequest) -> Object:
    """Encode a rollback request."""
    encoded: Object = {
        "toRevision": rollback.to_revision, "specHash": rollback.spec_hash, "revision": rollback.revision
    }  # fmt: skip
    if rollback.is_ended:
        encoded["ended"] = True
    if not rollback.snapshot:
        return encoded
    flags = {"halted": rollback.is_halted, "restored": rollback.is_restored}
    return {
        **encoded,
        "toSnapshot": rollback.snapshot,
        "snapshotUID": rollback.snapshot_uid,
        "token": rollback.token,
        "claims": [
            {"resource": each.resource, "snapshot": each.snapshot, **({"claim": each.claim} if each.claim else {})}
            for each in rollback.claims
        ],
        **{key: True for key, is_set in flags.items() if is_set},
    }


def decode(status: Mapping[str, Any]) -> Target | None:
    """Decode the target from a status. Returns None if it is absent or invalid."""
    shown = status.get(TARGET)
    if not shown:
        return None
    try:
        state = status.get(CONTROLLER_STATE) or {}
        protected = tuple(read_number(each) for each in state.get("protectedRevisions") or ())
        return Target(
            revision=read_number(shown["revision"]),
            cause=TargetCause(shown["cause"]),
            since=times.parse_time(shown["since"]),
            is_first=bool(state.get("initial")),
            is_completed=bool(shown.get("completed")),
            is_cleanup_waived=bool(state.get("cleanupWaived")),
            protected_revisions=protected[:MAX_PROTECTED_REVISIONS],
            rollback=_read_rollback(state.get("rollback")),
            failed_hash=read_text(state.get("failedHash", "")),
            failure=read_text(shown.get("message", "")),
            failure_reason=read_text(shown.get("reason", "")),
            cleared=active_environment.decode_cleared(state),
            suspend=_read_suspend(state.get("suspend")),
            cluster=read_text(state.get("cluster", "")),
            definition_revision=read_number(state.get("definitionRevision", 0)),
            removed=tuple(read_number(each) for each in state.get("removedMembers") or ())[: limits.REMOVED_MEMBERS],
            breakpoint_key=read_text(state.get("breakpointKey", "")),
            earlier_revision=read_number(state.get("earlierRevision", 0)),
            surge=min(read_number(state.get("surge", 0)), limits.GROUP_MEMBERS),
            detached=tuple(map(_read_detached, state.get("detachedSets") or ()))[:DETACHED_KEPT],
            batches=tuple(map(_read_batch, state.get("batches") or ()))[:BATCHES_KEPT],
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        # Another writer changed the status: the stored target is lost, and the spec is the target.
        return None


def read_number(value: Any) -> int:
    """Decode a revision number. Raises ValueError if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TOO_HIGH:
        raise ValueError("is not a revision number")
    return value


def read_text(value: Any) -> str:
    """Decode a string. Raises ValueError if it is not a string."""
    if not isinstance(value, str):
        raise ValueError("is not a string")  # noqa: TRY004 -- one error type for all invalid values
    return value


def _read_rollback(encoded: Mapping[str, Any] | None) -> RollbackRequest | None:
    """Decode the rollback request. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    if not encoded:
        return None
    stated, revision = read_number(encoded["toRevision"]), read_number(encoded["revision"])
    return RollbackRequest(
        to_revision=stated,
        spec_hash=read_text(encoded["specHash"]),
        revision=revision,
        snapshot=read_text(encoded.get("toSnapshot", "")),
        snapshot_uid=read_text(encoded.get("snapshotUID", "")),
        token=read_text(encoded.get("token", "")),
        claims=tuple(_read_claim(each) for each in encoded.get("claims") or ()),
        is_halted=bool(encoded.get("halted")),
        is_restored=bool(encoded.get("restored")),
        is_ended=bool(encoded.get("ended")),
    )


def _read_claim(encoded: Mapping[str, Any]) -> RestoredClaim:
    """Decode a claim of a restore. Raises KeyError, TypeError or ValueError if it is invalid."""
    return RestoredClaim(
        resource=read_text(encoded["resource"]),
        snapshot=read_text(encoded["snapshot"]),
        claim=read_text(encoded.get("claim", "")),
    )


def _read_suspend(encoded: Mapping[str, Any] | None) -> SuspendTransition | None:
    """Decode the suspend transition. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    if not encoded:
        return None
    since = times.parse_time(encoded["since"])
    return SuspendTransition(
        is_suspended=bool(encoded["suspended"]), since=since, is_completed=bool(encoded.get("completed"))
    )


def _encode_detached(detached: DetachedSet) -> Object:
    """Encode a StatefulSet that is being replaced, without fields that have no value."""
    return {key: value for key, value in dataclasses.asdict(detached).items() if value is not None}


def _read_detached(encoded: Mapping[str, Any]) -> DetachedSet:
    """Decode a StatefulSet that is being replaced. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    return DetachedSet(
        resource=read_text(encoded["resource"]),
        incarnation=read_number(encoded["incarnation"]),
        namespace=read_text(encoded["namespace"]),
        name=read_text(encoded["name"]),
        uid=read_text(encoded["uid"]),
        replicas=read_number(encoded["replicas"]) if "replicas" in encoded else None,
    )


def _read_batch(encoded: Mapping[str, Any]) -> LastBatch:
    """Decode the last batch of a rolling update. Raises AttributeError, KeyError, TypeError or ValueError if it is invalid."""
    return LastBatch(
        collection=read_text(encoded["resource"]),
        since=times.parse_time(encoded["completedAt"]),
        updated=read_number(encoded["updated"]),
    )


def write_completed(completed: CompletedRevisions) -> Object:
    """Encode the completed revisions for a status."""
    numbers = {"lastCompletedRevision": completed.last, "previousCompletedRevision": completed.previous}
    encoded: Object = {key: number for key, number in numbers.items() if number is not None}
    return encoded if completed.is_known else {**encoded, "historyUnknown": True}


def read_completed(memory: Mapping[str, Any] | None) -> CompletedRevisions:
    """Decode the completed revisions. memory: None if it was lost."""
    if memory is None:
        return CompletedRevisions(is_known=False)
    last, previous = (find_number(memory, key) for key in ("lastCompletedRevision", "previousCompletedRevision"))
    return CompletedRevisions(last=last, previous=previous, is_known=not memory.get("historyUnknown"))


def find_number(memory: Mapping[str, Any], key: str) -> int | None:
    """Return the revision number in that field; None without one."""
    try:
        return read_number(memory[key])
    except (KeyError, ValueError):
        return None


def read_handled(memory: Mapping[str, Any]) -> dict[str, str]:
    """Return the last handled token of each request."""
    handled = memory.get("handled")
    found = handled.items() if isinstance(handled, dict) else ()
    return {verb: token for verb, token in found if isinstance(token, str)}


# The signature. The operator ignores changes of other writers to the fields that it reads back. It never reads back the
# other fields of the status.

SIGNATURE = "signature"
MEMORY = (
    "target", "controllerState", "lastCompletedRevision", "previousCompletedRevision", "lastFailedRevision",
    "historyUnknown", "handled", "check", "finished",
)  # fmt: skip
"""The status fields that the next process reads."""
UNWRITTEN = frozenset({"observedGeneration"})
"""The fields that the API server sets in a status before the operator writes it."""
PURPOSE = "status"


def sign(status: Object, *, uid: str, hashes: HashFunction) -> Object:
    """Add the signature over the controller state to a status. uid: of the Stack."""
    return {**status, SIGNATURE: hashes.sign(PURPOSE, _describe(status, uid))}


def read_memory(status: Mapping[str, Any], *, uid: str, hashes: HashFunction) -> Mapping[str, Any] | None:
    """Return the controller state that this operator wrote into the status of that Stack, or None if it wrote none."""
    signature = status.get(SIGNATURE)
    if not isinstance(signature, str):
        return None
    memory = {key: status[key] for key in MEMORY if key in status}
    try:
        is_signed = hashes.is_signed(PURPOSE, _describe(memory, uid), signature)
    except (TypeError, ValueError, RecursionError):
        # The operator did not write it: it is nested too deeply, or contains a number that JSON cannot represent.
        return None
    return memory if is_signed else None


def is_written(status: Mapping[str, Any]) -> bool:
    """Return whether the status contains more than the API server's defaults."""
    return not status.keys() <= UNWRITTEN


def _describe(status: Mapping[str, Any], uid: str) -> list[Any]:
    """Return the signed value."""
    return [uid, {key: status[key] for key in MEMORY if key in status}]
