"""A preview as lines of styled text: one line for each resource, then its changed fields as kubectl diff colors them."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from hearth.cli.stack_views import safe_text
from hearth.model.kinds import ObjectRef
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.field_changes import Absent, FieldChange

Line: TypeAlias = list[tuple[str, str]]
"""Segments of text with their styles."""
MARKS: Final[Mapping[Action, tuple[str, str]]] = {
    Action.CREATE: ("+", "green"),
    Action.ADOPT: ("+", "green"),
    Action.UPDATE: ("~", "yellow"),
    Action.REPLACE: ("±", "magenta"),
    Action.DELETE: ("-", "red"),
    Action.KEEP: ("=", ""),
    Action.STOP: ("!", "yellow"),
    Action.FAIL: ("x", "red"),
    Action.WAIT: (".", "dim"),
}
"""The mark and the style of each action."""
WORDS: Final[Mapping[Action, str]] = {
    Action.CREATE: "create",
    Action.ADOPT: "adopt",
    Action.UPDATE: "change",
    Action.REPLACE: "replace",
    Action.DELETE: "delete",
    Action.KEEP: "keep",
    Action.STOP: "stop",
    Action.FAIL: "fail",
    Action.WAIT: "wait",
}
COUNTED: Final[Mapping[Action, str]] = {
    Action.CREATE: "created",
    Action.ADOPT: "adopted",
    Action.UPDATE: "changed",
    Action.REPLACE: "replaced",
    Action.DELETE: "deleted",
    Action.KEEP: "kept",
    Action.STOP: "stopped",
    Action.FAIL: "failed",
    Action.WAIT: "waiting",
}
LONGEST_VALUE: Final = 200
"""Characters of a value in a line."""


def list_lines(preview: Preview) -> Iterator[Line]:
    """Yield the lines of a preview."""
    yield [(describe(preview), "bold")]
    if preview.rejection:
        yield from list_mistakes(preview)
        return
    for change in join_causes(preview.changes):
        yield from list_change(change)
    for note in preview.notes:
        yield [(f"note: {safe_text.one_line(note)}", "")]
    yield [(count(preview), "")]


def join_causes(changes: Sequence[Change]) -> list[Change]:
    """Return the changes, as one those that fail or wait for the same cause."""
    joined: dict[tuple[Any, ...], Change] = {}
    for at, change in enumerate(changes):
        is_halted = change.action in (Action.FAIL, Action.WAIT) and change.reason
        cause = find_cause(change) if is_halted else ""
        key = (change.action, change.is_uncertain, cause) if cause else (at,)
        first = joined.get(key)
        if first is None:
            joined[key] = change
        else:
            both = f"{first.resource}, {change.resource}"
            joined[key] = dataclasses.replace(first, resource=both, ref=None, reason=cause)
    return list(joined.values())


def find_cause(change: Change) -> str:
    """Return the reason without the name of its own object: `namespaces "prod" not found`."""
    own = f"cannot apply {change.ref}: " if change.ref is not None else ""
    return change.reason.removeprefix(own)


def describe(preview: Preview) -> str:
    """Return the title."""
    name = safe_text.one_line(f"{preview.kind.lower()}/{preview.name} in {preview.namespace}")
    if preview.rejection:
        return f"{name}: the definition is refused"
    is_known = preview.revision is not None and not preview.is_new
    return f"{name}: new" if preview.is_new else f"{name}: to revision {preview.revision}" if is_known else name


def list_mistakes(preview: Preview) -> Iterator[Line]:
    """Yield a line for each mistake, else the reason of the refusal."""
    for mistake in preview.mistakes:
        yield [(f"x {safe_text.one_line(mistake)}", "red")]
    if not preview.mistakes:
        yield [(f"x {safe_text.one_line(preview.rejection)}", "red")]


def list_change(change: Change) -> Iterator[Line]:
    """Yield the line of a resource, and those of its fields."""
    mark, style = MARKS[change.action]
    place = change.resource + (f"/{change.hook}" if change.hook else "")
    word = f"may {WORDS[change.action]}" if change.is_uncertain else WORDS[change.action]
    line: Line = [(f"{mark} {word:<11} ", style), (safe_text.one_line(place), "bold")]
    if named := describe_objects(change):
        line.append((f" ({named})", ""))
    if change.reason:
        line.append((f": {safe_text.one_line(change.reason)}", ""))
    yield line
    for each in change.fields:
        yield from list_field(each)
    if change.unchecked:
        yield [(f"    not checked by the API server: {safe_text.one_line(change.unchecked)}", "dim")]


def describe_objects(change: Change) -> str:
    """Return the object, of a replacement both."""
    named = [write_ref(ref) for ref in (change.old_ref, change.ref) if ref is not None]
    return " → ".join(dict.fromkeys(named))


def write_ref(ref: ObjectRef) -> str:
    """Return an object as kubectl names it."""
    return safe_text.one_line(ref)


def list_field(change: FieldChange) -> Iterator[Line]:
    """Yield the old and the new value of a field."""
    path = safe_text.one_line(change.text)
    if not isinstance(change.old, Absent):
        yield [(f"    - {path}: {write_value(change.old)}", "red")]
    if not isinstance(change.new, Absent):
        yield [(f"    + {path}: {write_value(change.new)}", "green")]


def write_value(value: Any) -> str:
    """Return a value as one line of JSON, cut if it is long; a text without quotes where that is clear."""
    is_plain = isinstance(value, str) and value != "" and value == value.strip() and "\n" not in value
    text = value if is_plain else json.dumps(value, ensure_ascii=False)
    text = safe_text.one_line(text)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} … ({len(text)} characters)"


def count(preview: Preview) -> str:
    """Return how many of what, as a sentence."""
    found = collections.Counter((change.action, change.is_uncertain) for change in preview.changes)
    counted = [
        f"{found[action, is_uncertain]} {'perhaps ' if is_uncertain else ''}{word}"
        for action, word in COUNTED.items()
        for is_uncertain in (False, True)
        if found[action, is_uncertain]
    ]
    return ", ".join(counted) or "no change"
