"""What a resource says of fields that others change: its drift policy, and the fields that it leaves to others.

Reads them as they are stated and says what is wrong; must not know who owns what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from hearth.model import field_paths, names
from hearth.model.field_paths import ListItem, PathPattern
from hearth.template.blueprint import DriftPolicy
from hearth.template.text import error_hints

Note: TypeAlias = Callable[[str, str], None]
"""Takes a mistake: its path, and what is wrong."""

IDENTITY = frozenset({"apiVersion", "kind"})
OWN_METADATA = frozenset({"name", "namespace"})


def read_policy(stated: Any, *, path: str, note: Note) -> DriftPolicy:
    """The policy, Repair where none is stated."""
    known = {each.value: each for each in DriftPolicy}
    if stated is None:
        return DriftPolicy.REPAIR
    if not isinstance(stated, str) or stated not in known:
        note(path, f"must be one of {', '.join(known)}, found {error_hints.describe(stated)}")
        return DriftPolicy.REPAIR
    return known[stated]


def read_ignored(stated: Iterable[tuple[str, str]], manifest: Any, *, note: Note) -> tuple[PathPattern, ...]:
    """The fields that are left to others. stated: texts, each with its path; manifest: as the template states it."""
    found: list[PathPattern] = []
    for text, path in stated:
        pattern = field_paths.parse(text)
        if pattern is None:
            example = 'spec.replicas or spec.template.spec.containers[name="web"].image'
            note(path, f"'{error_hints.shorten(text)}' is no path to a field; write it as in {example}")
        elif wrong := find_wrong(pattern, manifest):
            note(path, f"'{text}' {wrong}")
        else:
            found.append(pattern)
    return tuple(found)


def find_wrong(pattern: PathPattern, manifest: Any) -> str:
    """Why a field cannot be left to others, "" where it can."""
    if pattern[0] in IDENTITY or (pattern[0] == "metadata" and len(pattern) > 1 and pattern[1] in OWN_METADATA):
        return "says which object it is, which nobody else can change; take it out"
    if pattern[0] == "metadata" and any(isinstance(key, str) and key.startswith(f"{names.GROUP}/") for key in pattern):
        return "is written by Hearth, which knows its objects by it; take it out"
    if isinstance(manifest, dict) and not is_stated(pattern, manifest):
        return "is not stated in the manifest, so it is left to others anyhow; take it out, or correct it"
    return ""


def is_stated(pattern: PathPattern, value: Any) -> bool:
    """Whether a manifest states the field, as far as that can be told before its expressions have values."""
    if not pattern or (isinstance(value, str) and "${" in value):
        return True
    wanted, rest = pattern[0], pattern[1:]
    if isinstance(wanted, ListItem):
        return isinstance(value, list) and any(fits(wanted, item) and is_stated(rest, item) for item in value)
    return isinstance(value, dict) and value.get(wanted) is not None and is_stated(rest, value[wanted])


def fits(wanted: ListItem, item: Any) -> bool:
    """Whether a list's item is the one that is meant, or may turn out to be."""
    if not isinstance(item, dict):
        return isinstance(item, str) and "${" in item
    stated = ((item.get(name), value) for name, value in wanted.keys)
    return all(
        found is not None and (field_paths.write_value(found) == value or "${" in str(found)) for found, value in stated
    )
