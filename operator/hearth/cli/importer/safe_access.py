"""Access to manifests of any shape without errors: a value of an unexpected type counts as missing.

The API server reports what is wrong with a manifest; an import must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMention:
    """A reference to an object. Its namespace is that of the referencing manifest unless the reference sets one."""

    kind: str
    name: Any
    """Return the name as found. A value that is not text names nothing."""
    group: str = ""
    namespace: Any = None
    """The namespace as found; a text if the reference sets it."""


def find(value: Any, *path: str) -> Any:
    """Return the value at `path`, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at `path`; empty if there is none."""
    found = find(value, *path)
    return found if isinstance(found, Mapping) else {}


def mappings(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at `path`."""
    found = find(value, *path)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
