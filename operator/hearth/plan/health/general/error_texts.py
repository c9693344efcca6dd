"""Text of a field that reports errors. Knows shapes of values, no kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.plan.health.general.status_fields import NO_ERRORS

TEXT_KEYS: Final = ("message", "description", "reason")
"""Fields of an error that is a map."""
EMPTY: Final[tuple[Any, ...]] = (None, "", 0, [], {})


def find_error(value: Any) -> str | None:
    """Return what a field of errors says, or None if it says that there is none. Of a list, its first entry counts."""
    if isinstance(value, list):
        value = next((item for item in value if item), None)
    if isinstance(value, Mapping):
        texts = (value.get(key) for key in TEXT_KEYS)
        # A map of empty fields is an error that did not happen.
        named = next((key for key, each in value.items() if each not in EMPTY), None)
        value = next((text for text in texts if isinstance(text, str) and text), named)
    if not isinstance(value, str) or not value.strip() or value.strip().lower() in NO_ERRORS:
        return None
    return value
