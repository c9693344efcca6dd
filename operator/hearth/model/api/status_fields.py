"""Reduction of statuses that any client may have corrupted to fields of the expected types.

The API server validates a status against the CRD. This handles statuses that reach the operator without that
validation, and fields that the schema leaves open. Must not know the meaning of a status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import packing
from hearth.model.child import Object

TYPES: Mapping[str, type] = {
    **dict.fromkeys(("phase", "state"), str),
    **dict.fromkeys(("conditions", "warnings", "problems", "breakpoints"), list),
    **dict.fromkeys(("handled", "target", "controllerState", "check", "resources", "members", "outputs"), dict),
}
"""The fields that the operator reads."""


def keep_valid(status: Any) -> Object:
    """Return the fields of a status with the types of the CRD; the status itself if all are valid."""
    if not isinstance(status, dict):
        return {}
    # Runs for every event of a Stack, so it copies only if needed.
    found = [key for key, type_ in TYPES.items() if key in status and not isinstance(status[key], type_)]
    kept: Object = {key: value for key, value in status.items() if key not in found} if found else status
    conditions = kept.get("conditions")
    if conditions and not all(map(is_condition, conditions)):
        return {**kept, "conditions": [each for each in conditions if is_condition(each)]}
    return kept


def is_condition(value: Any) -> bool:
    """Return whether it is a condition with valid texts."""
    if not isinstance(value, dict):
        return False
    get = value.get
    return (
        isinstance(get("type"), str)
        and isinstance(get("status"), str)
        and isinstance(get("reason"), str)
        and isinstance(get("message"), str)
    )


def pack(status: Any) -> bytes:
    """Return the JSON of the valid fields, without those that are nested too deeply to be written."""
    kept = keep_valid(status)
    try:
        return packing.pack(kept)
    except TypeError:
        return packing.pack({key: value for key, value in kept.items() if is_writable(value)})


def is_writable(value: Any) -> bool:
    """Return whether it can be written as JSON."""
    try:
        packing.pack(value)
    except TypeError:
        return False
    return True
