"""The controller's memory within a Stack's status, with a signature: what another writer put there is not read back.

The rest of the status describes what is there and is never read back. Must not know what the memory means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import HashFunction

FIELD = "signature"
MEMORY = (
    "wish",
    "lastCompletedRevision",
    "previousCompletedRevision",
    "lastFailedRevision",
    "historyUnknown",
    "handled",
    "check",
)
"""The fields of a status that the next process reads."""
UNWRITTEN = frozenset({"observedGeneration"})
"""The fields that the API server sets in a status that no operator has written."""
PURPOSE = "status"


def sign(status: Object, *, uid: str, hashes: HashFunction) -> Object:
    """The status with the signature over its memory. uid: of the Stack."""
    return {**status, FIELD: hashes.sign(PURPOSE, _describe(status, uid))}


def read_memory(status: Mapping[str, Any], *, uid: str, hashes: HashFunction) -> Mapping[str, Any] | None:
    """The memory that this operator wrote into the status of that Stack; None where it wrote none."""
    signature = status.get(FIELD)
    if not isinstance(signature, str):
        return None
    memory = {key: status[key] for key in MEMORY if key in status}
    try:
        is_signed = hashes.is_signed(PURPOSE, _describe(memory, uid), signature)
    except (TypeError, ValueError, RecursionError):
        # Nested too deeply, or a number that no JSON holds: nothing that the operator wrote.
        return None
    return memory if is_signed else None


def is_written(status: Mapping[str, Any]) -> bool:
    """Whether anything but the API server's defaults is in the status."""
    return not status.keys() <= UNWRITTEN


def _describe(status: Mapping[str, Any], uid: str) -> list[Any]:
    """What is signed."""
    return [uid, {key: status[key] for key in MEMORY if key in status}]
