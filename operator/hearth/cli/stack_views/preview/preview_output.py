"""A preview for programs, and the sources that a file states. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from hearth.cli import object_fields
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.preview.changes import Change, Preview
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
