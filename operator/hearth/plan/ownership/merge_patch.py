"""Minimal merge patch from a live object to a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object


def make_merge_patch(stated: Mapping[str, Any], live: Mapping[str, Any]) -> Object:
    """Make the JSON merge patch from `live` to `stated`. Fields not in `stated` stay. Lists are replaced as a whole."""
    change: Object = {}
    for key, value in stated.items():
        found = live.get(key)
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            if inner := make_merge_patch(value, found):
                change[key] = inner
        elif value != found:
            change[key] = value
    return change
