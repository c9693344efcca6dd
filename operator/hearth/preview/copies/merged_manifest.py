"""Objects merged without an API server: where it may not be asked, or cannot answer yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object
from hearth.preview import field_changes


def merge(live: Any, stated: Any) -> Any:
    """Return `live` with the fields of `stated`. Lists are replaced; nothing is removed or defaulted."""
    if not isinstance(stated, Mapping):
        return stated
    found = live if isinstance(live, Mapping) else {}
    return {**found, **{key: merge(found.get(key), value) for key, value in stated.items()}}


def patch(live: Any, change: Any) -> Any:
    """Return the result of a JSON merge patch (RFC 7396)."""
    if not isinstance(change, Mapping):
        return change
    found = dict(live) if isinstance(live, Mapping) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = patch(found.get(key), value)
    return found


def is_changed(before: Object, after: Object) -> bool:
    """Return whether the definition of the object differs, besides its metadata and status."""
    one, other = (
        {key: value for key, value in field_changes.prune(raw).items() if key != "metadata"} for raw in (before, after)
    )
    return one != other
