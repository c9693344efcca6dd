"""Objects merged without an API server: where it may not be asked, or cannot answer yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model.child import Object
from hearth.plan.ownership import apply_obstacles
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


def without_removed(result: Object, stated: Object, before: Object) -> Object:
    """Return the result of an apply without what it removes by the owners of fields in `before`.

    result: of a dry run on an object that has the same fields and other owners.
    """
    wanted, present = apply_obstacles.predict_whole(stated, before)
    left: Object = without_gone(result, wanted, present)
    return left


def without_gone(result: Any, wanted: Any, before: Any) -> Any:
    """Return `result` without what is in `before` and not in `wanted`."""
    if isinstance(result, Mapping) and isinstance(wanted, Mapping) and isinstance(before, Mapping):
        return {
            key: without_gone(value, wanted.get(key), before.get(key))
            for key, value in result.items()
            if key not in before or key in wanted
        }
    if isinstance(result, list) and isinstance(wanted, list) and isinstance(before, list) and wanted != before:
        # With the items that are left as they are; only new ones lack their defaults.
        return wanted
    return result
