"""What a repair reverts, for messages: each field with its value, who set it, and the value that it gets back.

Reads the live object as it was just before the repair. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from hearth.model import field_paths
from hearth.model.child import Child
from hearth.model.field_paths import GONE, ListItem
from hearth.model.text import redaction
from hearth.model.text.enumeration import NAMED_AT_MOST
from hearth.plan.ownership.field_ownership import LostField
from hearth.plan.resource.drift_messages import field_managers
from hearth.plan.state import altered_values
from hearth.plan.state.resource_conditions import ManagerQuery

VALUE_LENGTH: Final = 60
"""Characters of a value in a message: numbers, images and names are shorter."""
MISSING: Final = "removed"


def describe(live: Mapping[str, Any], child: Child, manifest: Any, lost: Sequence[LostField], *, shows: bool) -> str:
    """Describe the fields `lost` of the manifest: `spec.replicas: 5 → 3, was owned by 'kubectl-edit'`.

    live: the whole object before the repair; child: the same, as parsed; shows: whether values may be shown.
    """
    named = "; ".join(_describe_field(live, manifest, each, shows=shows) for each in lost[:NAMED_AT_MOST])
    more = f"; and {len(lost) - NAMED_AT_MOST} more fields" if len(lost) > NAMED_AT_MOST else ""
    managers = field_managers.describe_managers(live, ManagerQuery(child=child, lost=tuple(lost), manifest=manifest))
    return f"{named}{more}, {managers}"


def _describe_field(live: Mapping[str, Any], manifest: Any, lost: LostField, *, shows: bool) -> str:
    text = lost.text.removesuffix(f", {altered_values.NOTE}")
    pattern = field_paths.parse(text)
    before = _read(live, pattern) if pattern is not None else GONE
    try:
        after = field_paths.read(manifest, lost.path)
    except (KeyError, IndexError, TypeError):
        return text
    return f"{text}: {_write(before, shows=shows)} → {_write(after, shows=shows)}"


def _read(value: Any, pattern: field_paths.PathPattern) -> Any:
    """Return the value at a path, or GONE."""
    for key in pattern:
        if isinstance(key, ListItem):
            items = value if isinstance(value, list) else ()
            value = next((item for item in items if key.fits(item)), GONE)
        else:
            value = value.get(key, GONE) if isinstance(value, dict) else GONE
    return value


def _write(value: Any, *, shows: bool) -> str:
    """Return a value as text, in one line of bounded length."""
    if value is GONE:
        return MISSING
    if not shows:
        return redaction.SENSITIVE
    text = orjson.dumps(value).decode()
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"
