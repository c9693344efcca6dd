"""Statuses that any writer may have spoilt, cut down to fields of the expected types.

The API server checks a status against the CRD; this is for what reaches the operator without that check, and for
fields that the schema leaves open. Must not know what a status means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import packing
from hearth.model.child import Object

TYPES: Mapping[str, type] = {
    "phase": str,
    "conditions": list,
    "warnings": list,
    "problems": list,
    "breakpoints": list,
    "handled": dict,
    "wish": dict,
    "check": dict,
    "resources": dict,
    "outputs": dict,
}
"""The fields that are looked into."""
CONDITION = ("type", "status", "reason", "message")
"""The fields of a condition that must be texts."""


def keep_valid(status: Any) -> Object:
    """The fields of a status that have the type that the CRD gives them."""
    if not isinstance(status, dict):
        return {}
    kept: Object = {key: value for key, value in status.items() if isinstance(value, TYPES.get(key, object))}
    conditions = kept.get("conditions")
    if conditions and not all(map(is_condition, conditions)):
        kept["conditions"] = [each for each in conditions if is_condition(each)]
    return kept


def is_condition(value: Any) -> bool:
    """Whether it is a condition with its texts."""
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in CONDITION)


def pack(status: Any) -> bytes:
    """The JSON of the valid fields; without those that are nested too deeply to be written."""
    kept = keep_valid(status)
    try:
        return packing.pack(kept)
    except TypeError:
        return packing.pack({key: value for key, value in kept.items() if is_writable(value)})


def is_writable(value: Any) -> bool:
    """Whether it can be written as JSON."""
    try:
        packing.pack(value)
    except TypeError:
        return False
    return True
