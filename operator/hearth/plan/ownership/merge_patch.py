"""What would have to change of a live object for it to say what a manifest states, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object


def make_merge_patch(stated: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
    """The JSON merge patch that turns `live` into what is stated; what is not stated stays. Lists are taken whole."""
    change: Object = {}
    for key, value in stated.items():
        found = live.get(key)
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            if inner := make_merge_patch(value, found):
                change[key] = inner
        elif value != found:
            change[key] = value
    return change
