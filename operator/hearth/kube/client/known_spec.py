"""Reading of a custom resource whose spec is known already: only what stands before and after the spec is parsed.

The answer to each write of a status is such a text. Pure; must not know which specs are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson

from hearth.model import limits
from hearth.model.child import Object

FindSpec: TypeAlias = Callable[[Object], object | None]
"""Returns what takes the place of the spec of an object with that metadata; None if its spec is unknown."""

LARGE = 16 * 1024
"""Bytes from which this costs less than parsing everything."""
HEAD = frozenset({"apiVersion", "kind", "metadata"})
SPEC, STATUS = b',"spec":{', b',"status":{'
"""The API server writes the fields of a custom resource in the order of the alphabet, and a quote within a text with a
backslash. So the first one ends the metadata, whose own members of that name are texts, and the last one begins the
status, unless it is within the status; then what follows it is not JSON."""


def read(text: bytes, find: FindSpec) -> Object | None:
    """Return the object in a text, with what `find` returns in the place of its spec.

    Returns None if it must be parsed as a whole: it is small, its fields are in another order, its spec is not known, or
    it has no status.
    """
    if len(text) < LARGE:
        return None
    spec, status = text.find(SPEC), text.rfind(STATUS)
    if not 0 <= spec < status or len(text) - status + spec > limits.WIRE_VALUES:
        return None
    try:
        head: Any = orjson.loads(text[:spec] + b"}")
        metadata = head["metadata"]
        known = find(metadata) if isinstance(metadata, dict) else None
        if known is None:
            return None
        tail: Any = orjson.loads(b"{" + text[status + 1 :])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    # A text with other fields behind the status comes from another writer of JSON.
    return {**head, "spec": known, **tail} if head.keys() <= HEAD and tail.keys() == {"status"} else None
