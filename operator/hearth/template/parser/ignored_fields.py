"""A resource's settings for fields that others change: its drift policy, and the fields that it leaves to others.

Parses and validates the settings. Must not know who owns which field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from hearth.model import field_paths, names
from hearth.model.child import Path
from hearth.model.field_paths import ListItem, PathPattern
from hearth.template.blueprint import DriftPolicy
from hearth.template.text import error_hints

Note: TypeAlias = Callable[[str, str], None]
"""Records a mistake: its path and message."""

IDENTITY = frozenset({"apiVersion", "kind"})
OWN_METADATA = frozenset({"name", "namespace"})
ITEM_BY_POSITION = re.compile(r"\[(\*|\d+)\]|(^|\.)\*(\.|$)")
"""`containers[0]`, `containers[*]`, `containers.*`."""


def read_policy(stated: Any, *, path: str, note: Note) -> DriftPolicy:
    """Parse the policy; Repair if none is set."""
    if stated is None:
        return DriftPolicy.REPAIR
    known = {each.value: each for each in DriftPolicy}
    if not isinstance(stated, str) or stated not in known:
        note(path, f"must be one of {', '.join(known)}, found {error_hints.describe(stated)}")
        return DriftPolicy.REPAIR
    return known[stated]


def read_ignored(stated: Iterable[tuple[str, str]], manifest: Any, *, note: Note) -> tuple[PathPattern, ...]:
    """Parse the fields that are left to others. stated: texts, each with its path; manifest: as in the template."""
    found: list[PathPattern] = []
    for text, path in stated:
        pattern = field_paths.parse(text)
        if pattern is None:
            example = 'spec.replicas or spec.template.spec.containers[name="web"].image'
            note(path, f"'{error_hints.shorten(text)}' is not a field path; write e.g. {example}")
        elif wrong := find_wrong(pattern, manifest):
            note(path, f"'{text}' {wrong}")
        else:
            found.append(pattern)
    return tuple(found)


def read_replaced(stated: Iterable[tuple[str, str]], *, note: Note) -> tuple[Path, ...]:
    """Parse the fields of `replaceOn`: maps, lists and values, but no single item of a list."""
    found: list[Path] = []
    for text, path in stated:
        pattern = field_paths.parse(text)
        if pattern is None:
            note(path, f"'{error_hints.shorten(text)}' is not a field path; write e.g. spec.storageClassName")
        elif ITEM_BY_POSITION.search(text) or any(isinstance(key, ListItem) for key in pattern):
            note(path, f"'{text}' names an item of a list; name the list as a whole")
        else:
            found.append(tuple(map(str, pattern)))
    return tuple(found)


def find_wrong(pattern: PathPattern, manifest: Any) -> str:
    """Return why a field cannot be left to others, "" if it can."""
    if pattern[0] in IDENTITY or (pattern[0] == "metadata" and len(pattern) > 1 and pattern[1] in OWN_METADATA):
        return "identifies the object and cannot change; remove it"
    if pattern[0] == "metadata" and any(isinstance(key, str) and key.startswith(f"{names.GROUP}/") for key in pattern):
        return "is written by Hearth to identify its objects; remove it"
    if isinstance(manifest, dict) and not (is_stated(pattern, manifest) or is_stated_as_text(pattern, manifest)):
        return "is not in the manifest, so Hearth never changes it; remove it, or correct it"
    return ""


def is_stated(pattern: PathPattern, value: Any) -> bool:
    """Return whether a manifest sets the field, or may set it once its expressions have values."""
    if not pattern or (isinstance(value, str) and "${" in value):
        return True
    wanted, rest = pattern[0], pattern[1:]
    if isinstance(wanted, ListItem):
        return isinstance(value, list) and any(fits(wanted, item) and is_stated(rest, item) for item in value)
    return isinstance(value, dict) and value.get(wanted) is not None and is_stated(rest, value[wanted])


def is_stated_as_text(pattern: PathPattern, manifest: dict[str, Any]) -> bool:
    """Return whether a Secret sets the field of its `data` in `stringData`."""
    return (
        pattern[0] == "data" and manifest.get("kind") == "Secret" and is_stated(("stringData", *pattern[1:]), manifest)
    )


def fits(wanted: ListItem, item: Any) -> bool:
    """Return whether a list's item matches, or may match once its expressions have values."""
    if not isinstance(item, dict):
        return isinstance(item, str) and "${" in item
    stated = ((item.get(name), value) for name, value in wanted.keys)
    return all(
        found is not None and (field_paths.write_value(found) == value or "${" in str(found)) for found, value in stated
    )
