"""Reading manifests of any shape without an error: what is not as expected counts as not there.

The API server will say what is wrong with a manifest; an import must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMention:
    """A mention of an object: where it is follows from the manifest that mentions it, unless stated."""

    kind: str
    name: Any
    """Return the name as found. A value that is not text names nothing."""
    group: str = ""
    namespace: Any = None
    """As found; a text where the mention states it."""


def find(value: Any, *path: str) -> Any:
    """What lies under `path`, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping under `path`, empty where there is none."""
    found = find(value, *path)
    return found if isinstance(found, Mapping) else {}


def mappings(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings in the list under `path`."""
    found = find(value, *path)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
