"""Validates a `Status` of an API server: keeps only parts with the types that the API specifies.

A tenant's API server can return any data. Readers of a validated `Status` need no further checks. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import limits
from hearth.model.child import Object


def clean(body: Any) -> Object:
    """Return the valid parts of a `Status`: a map of texts and numbers; details is a map, its causes are maps."""
    if not isinstance(body, dict):
        return {}
    cleaned = keep_texts(body, ("kind", "apiVersion", "status", "message", "reason"))
    if is_integer(body.get("code")):
        cleaned["code"] = body["code"]
    if isinstance(body.get("details"), dict):
        cleaned["details"] = clean_details(body["details"])
    return cleaned


def clean_details(details: Mapping[str, Any]) -> Object:
    """Return the valid parts of a `Status`'s details."""
    cleaned = keep_texts(details, ("name", "group", "kind", "uid"))
    causes = details.get("causes")
    if isinstance(causes, list):
        cleaned["causes"] = [
            keep_texts(cause, ("reason", "message", "field"))
            for cause in causes[: limits.MISTAKES]
            if isinstance(cause, dict)
        ]
    seconds = details.get("retryAfterSeconds")
    if isinstance(seconds, int) and is_integer(seconds) and seconds >= 0:
        cleaned["retryAfterSeconds"] = min(seconds, int(limits.RETRY_AFTER))
    return cleaned


def find_delay(header: str, status: Mapping[str, Any] | None) -> float | None:
    """Return the seconds until the server accepts a retry, if specified; status: a validated one."""
    digits = header.strip()
    if digits.isascii() and digits.isdigit():
        # Python does not convert thousands of digits, and a float of hundreds is infinite.
        return min(float(digits), limits.RETRY_AFTER) if len(digits) <= limits.INTEGER_DIGITS else limits.RETRY_AFTER
    seconds = ((status or {}).get("details") or {}).get("retryAfterSeconds")
    return float(seconds) if seconds is not None else None


def keep_texts(source: Mapping[str, Any], keys: tuple[str, ...]) -> Object:
    """Return the members with these names that are texts of limited length."""
    return {key: source[key][: limits.MESSAGE_LENGTH] for key in keys if isinstance(source.get(key), str)}


def is_integer(value: Any) -> bool:
    """Return whether it is an integer; `true` is not."""
    return isinstance(value, int) and not isinstance(value, bool)
