"""Reads fields of objects of any shape. A field with an unexpected type counts as absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

EMPTY: Final[Mapping[str, Any]] = {}
RESOURCE_VERSION: Final = re.compile("[0-9]{1,20}")


def find(value: Any, *path: str) -> Any:
    """Return the value at `path`, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text(value: Any, *path: str) -> str:
    """Return the text under `path`, or ""."""
    found = find(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Any, *path: str) -> int | None:
    """Return the whole number under `path`, or None."""
    found = find(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the map under `path`, or an empty map."""
    found = find(value, *path)
    return found if isinstance(found, Mapping) else EMPTY


def entries(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the maps in the list under `path`."""
    found = find(value, *path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def elements(value: Any, *path: str) -> list[Any]:
    """Return the list under `path`, or an empty list."""
    found = find(value, *path)
    return found if isinstance(found, list) else []


def texts(value: Any, *path: str) -> list[str]:
    """Return the texts in the list under `path`."""
    found = find(value, *path)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def is_older_version(version: str, than: str) -> bool:
    """Whether both texts are resource versions and the first one is lower. Any client may have written them."""
    are_versions = RESOURCE_VERSION.fullmatch(version) and RESOURCE_VERSION.fullmatch(than)
    return bool(are_versions) and int(version) < int(than)
