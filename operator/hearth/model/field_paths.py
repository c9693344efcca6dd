"""Field paths in the notation of the API server, for example `spec.template.spec.containers[name="web"].image`.

Parses paths as patterns, compares them, and reads and removes the fields of a manifest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson

from hearth.model import limits, value_class


@value_class.dataclass(frozen=True, slots=True)
class ListItem:
    """One item of a list, identified by some of its fields: `[name="web"]`."""

    keys: tuple[tuple[str, str], ...]
    """Names and values; a value that is not a string is written as JSON."""

    def fits(self, item: Any) -> bool:
        """Return whether the item has these fields and values."""
        return isinstance(item, dict) and all(
            name in item and write_value(item[name]) == value for name, value in self.keys
        )


PathPattern: TypeAlias = tuple[str | ListItem, ...]
"""A path into any manifest: keys of maps and items of lists."""
ElementPath: TypeAlias = tuple[str | int, ...]
"""A path into one manifest: keys of maps and indexes of lists."""

KEY = re.compile(r"[^.\[\]]+")
BRACKETS = re.compile(r'\[((?:"(?:[^"\\]|\\.)*"|[^\]"])+)\]')
PAIR = re.compile(r'\s*([^=,\s"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^,"]+?)\s*(?:,|\Z)')


def parse(text: str) -> PathPattern | None:
    """Parse the pattern in `text`. Returns None if it is invalid or too long.

    Keys that are not plain words are in brackets: `metadata.annotations[example.com/owner]`.
    """
    if len(text) > limits.FIELD_LENGTH:
        return None
    found: list[str | ListItem] = []
    position = 0
    while position < len(text):
        if text[position] == "[" and found:
            brackets = BRACKETS.match(text, position)
            inner = parse_brackets(brackets[1]) if brackets else None
            if brackets is None or inner is None:
                return None
            found.append(inner)
            position = brackets.end()
            continue
        if found and text[position] == ".":
            position += 1
        elif found:
            return None
        key = KEY.match(text, position)
        if key is None:
            return None
        found.append(key[0])
        position = key.end()
    return tuple(found) or None


def parse_brackets(text: str) -> str | ListItem | None:
    """Parse the content of brackets: the fields of an item, or a key."""
    if "=" not in text:
        return text
    keys: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        pair = PAIR.match(text, position)
        if pair is None:
            return None
        value = pair[2]
        try:
            keys.append((pair[1], orjson.loads(value) if value.startswith('"') else value))
        except orjson.JSONDecodeError:
            return None
        position = pair.end()
    return ListItem(tuple(keys))


def write_value(value: Any) -> str:
    """Format a key field's value as patterns write it, without quotes."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def covers(pattern: PathPattern, place: ElementPath, manifest: Any) -> bool:
    """Whether the path matches the pattern or lies below a match."""
    if len(place) < len(pattern):
        return False
    for wanted, key in zip(pattern, place, strict=False):
        manifest = manifest[key]
        if not (wanted.fits(manifest) if isinstance(wanted, ListItem) else wanted == key):
            return False
    return True


def leads_below(pattern: PathPattern, place: ElementPath, manifest: Any) -> bool:
    """Whether a match of the pattern lies below the path."""
    return len(pattern) > len(place) and covers(pattern[: len(place)], place, manifest)


def is_overlapping(left: ElementPath, right: ElementPath) -> bool:
    """Return whether one path contains the other."""
    return all(one == other for one, other in zip(left, right, strict=False))


def read(manifest: Any, place: ElementPath) -> Any:
    """Return the manifest's value at the path."""
    for key in place:
        manifest = manifest[key]
    return manifest


def without(value: Any, places: Sequence[ElementPath]) -> Any:
    """Return `value` without these paths and without maps and lists that become empty; `value` itself is unchanged."""
    if not places:
        return value
    below: dict[str | int, list[ElementPath]] = {}
    for place in places:
        below.setdefault(place[0], []).append(place[1:])
    if isinstance(value, dict):
        kept = ((key, prune(inner, below.get(key, ()))) for key, inner in value.items())
        return {key: inner for key, inner in kept if inner is not GONE}
    return [inner for at, item in enumerate(value) if (inner := prune(item, below.get(at, ()))) is not GONE]


GONE = object()
"""Marks a removed value."""


def prune(value: Any, places: Sequence[ElementPath]) -> Any:
    """Return `value` without the paths below it, or GONE if nothing remains."""
    if not places:
        return value
    return GONE if () in places else without(value, places) or GONE
