"""Signed controller state in the status of a Stack. The operator ignores what other writers put there.

The rest of the status describes observed state and is never read back. Must not know the meaning of that state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import HashFunction

FIELD = "signature"
MEMORY = (
    "target",
    "controllerState",
    "lastCompletedRevision",
    "previousCompletedRevision",
    "lastFailedRevision",
    "historyUnknown",
    "handled",
    "check",
    "finished",
)
"""The status fields that the next process reads."""
UNWRITTEN = frozenset({"observedGeneration"})
"""The fields that the API server sets in a status before the operator writes it."""
PURPOSE = "status"


def sign(status: Object, *, uid: str, hashes: HashFunction) -> Object:
    """Add the signature over the controller state to a status. uid: of the Stack."""
    return {**status, FIELD: hashes.sign(PURPOSE, _describe(status, uid))}


def read_memory(status: Mapping[str, Any], *, uid: str, hashes: HashFunction) -> Mapping[str, Any] | None:
    """Return the controller state that this operator wrote into the status of that Stack; None if it wrote none."""
    signature = status.get(FIELD)
    if not isinstance(signature, str):
        return None
    memory = {key: status[key] for key in MEMORY if key in status}
    try:
        is_signed = hashes.is_signed(PURPOSE, _describe(memory, uid), signature)
    except (TypeError, ValueError, RecursionError):
        # Nested too deeply, or a number that JSON cannot represent: the operator did not write it.
        return None
    return memory if is_signed else None


def is_written(status: Mapping[str, Any]) -> bool:
    """Return whether the status contains more than the API server's defaults."""
    return not status.keys() <= UNWRITTEN


def _describe(status: Mapping[str, Any], uid: str) -> list[Any]:
    """Return the signed value."""
    return [uid, {key: status[key] for key in MEMORY if key in status}]
