"""A preview for programs, and the sources that a file states. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.preview import preview_lines
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.preview.changes import Action, Change, Preview
from hearth.preview.field_changes import Absent, FieldChange


def to_output(preview: Preview) -> Object:
    """Return the preview as JSON."""
    return {
        "kind": preview.kind,
        "namespace": preview.namespace,
        "name": preview.name,
        "new": preview.is_new,
        "revision": preview.revision,
        "changed": preview.has_changes,
        "changes": [write_change(each) for each in preview.changes],
        "notes": list(preview.notes),
        **({"rejection": preview.rejection} if preview.rejection else {}),
        **({"mistakes": [{"path": each.path, "message": each.message} for each in preview.mistakes]} if preview.mistakes else {}),
    }  # fmt: skip


def write_change(change: Change) -> Object:
    """Return one change; empty parts are omitted."""
    written = {
        "action": str(change.action),
        "resource": change.resource,
        "object": write_ref(change.ref),
        "oldObject": write_ref(change.old_ref),
        "uncertain": change.is_uncertain,
        "breakpoint": change.hook,
        "reason": change.reason,
        "fields": [write_field(each) for each in change.fields],
        "unchecked": change.unchecked,
    }
    return {key: value for key, value in written.items() if value}


def write_ref(ref: ObjectRef | None) -> Object | None:
    """Return the object that a reference names."""
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name} if ref else None


def write_field(change: FieldChange) -> Object:
    """Return a changed field; an absent value has no key."""
    values = {"old": change.old, "new": change.new}
    return {"path": change.text, **{key: each for key, each in values.items() if not isinstance(each, Absent)}}


def encode_secret(document: Mapping[str, Any]) -> Object:
    """Return a ConfigMap or Secret as the API server stores it: with `stringData` in `data`."""
    stated = object_fields.mapping(document, "stringData")
    if object_fields.text(document, "kind") != "Secret" or not stated:
        return dict(document)
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in stated.items()}
    return {**document, "data": {**object_fields.mapping(document, "data"), **encoded}}


# A preview as Markdown, for the comment of a pull request. Pure.

FENCES: Final = re.compile(r"`{3,}")
DIFF_MARKS: Final = {Action.CREATE: "+", Action.ADOPT: "+", Action.DELETE: "-", Action.FAIL: "-"}
"""The first character by which a `diff` block colors a line; ` !` for what changes."""
CHANGED: Final = frozenset({Action.UPDATE, Action.REPLACE, Action.STOP})


def write(preview: Preview) -> str:
    """Return a title, the count, and one block in the syntax of a diff."""
    title, summary = preview_lines.describe(preview), preview_lines.count(preview)
    lines = [f"### {escape(title)}", ""]
    if preview.rejection:
        body = ["".join(text for text, _ in line) for line in preview_lines.list_mistakes(preview)]
    else:
        lines += [f"**{summary}**", ""]
        body = [line for change in preview_lines.join_causes(preview.changes) for line in list_change(change)]
    if body:
        # Longer than any run in a value, so that no value ends the block.
        fence = "`" * max([3, *(len(run) + 1 for line in body for run in FENCES.findall(line))])
        lines += [f"{fence}diff", *body, fence]
    notes = [f"- {escape(note)}" for note in preview.notes] if not preview.rejection else []
    return "\n".join([*lines, *([""] if notes else []), *notes])


def list_change(change: Change) -> list[str]:
    """Return the lines of a change; the first character decides on the color."""
    first, *fields = ("".join(text for text, _ in line) for line in preview_lines.list_change(change))
    mark = DIFF_MARKS.get(change.action) or ("!" if change.action in CHANGED else " ")
    return [
        f"{mark} {first[2:]}",
        *(f"{line[4:5]}   {line[4:]}" if line[4:5] in "+-" else f" {line}" for line in fields),
    ]


def escape(text: str) -> str:
    """Return a text in which Markdown and HTML find nothing to interpret."""
    cleaned = safe_text.one_line(text)
    return re.sub(r"([\\`*_{}\[\]<>()#+!|@~&-])", r"\\\1", cleaned)
