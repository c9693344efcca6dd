"""Hides sensitive values in changes: where a manifest has one, neither the old nor the new value is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.preview import field_changes
from hearth.preview.changes import Change
from hearth.preview.field_changes import ABSENT, Absent, FieldChange, FieldPath
from hearth.preview.preview_world import PreviewWorld

SECRET_FIELDS: Final = ("data", "stringData")


def make_filter(
    world: PreviewWorld, *, before: Mapping[str, Sequence[Object]], applied: Mapping[str, Sequence[Object]]
) -> Callable[[Change], Change]:
    """Return the function that hides the sensitive values of a change. Call it once everything was compiled.

    before: by resource, the manifests of the present target; applied: those of the preview.
    """
    texts = frozenset(world.builder.sensitive_texts)
    hidden = set(world.builder.hidden)
    is_blind = not before and any(stored.get("sensitive") for _, stored in world.request.revisions)
    tainted: dict[str, list[FieldPath] | None] = {}
    for resource in hidden:
        manifests = [*before.get(resource, ()), *applied.get(resource, ())]
        found = [path for manifest in manifests for path in find_sensitive(manifest, texts)]
        tainted[resource] = found or None

    def hide(change: Change) -> Change:
        fields = tuple(hide_field(change, each) for each in change.fields)
        reason, unchecked = (redaction.redact(text, texts) for text in (change.reason, change.unchecked))
        return dataclasses.replace(change, fields=fields, reason=reason, unchecked=unchecked)

    def hide_field(change: Change, each: FieldChange) -> FieldChange:
        is_secret = change.ref is not None and (change.ref.group, change.ref.kind) == ("", "Secret")
        if is_secret and each.path[0] in SECRET_FIELDS:
            return conceal(each)
        paths = tainted.get(change.resource, [])
        if is_blind or paths is None or any(is_overlapping(each.path, path) for path in paths):
            return conceal(each)
        old, new = (
            value if isinstance(value, Absent) else redaction.redact_within(value, texts)
            for value in (each.old, each.new)
        )
        return dataclasses.replace(each, old=old, new=new)

    return hide


def find_sensitive(manifest: Object, texts: frozenset[str]) -> list[FieldPath]:
    """Return the paths of the values that contain a sensitive text."""
    return [
        path
        for path, value in field_changes.find_leaves(field_changes.prune(manifest))
        if redaction.redact_within(value, texts) != value
    ]


def is_overlapping(one: FieldPath, other: FieldPath) -> bool:
    """Return whether one path leads into the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def conceal(change: FieldChange) -> FieldChange:
    """Return the change without its values."""

    def replace(value: Any) -> Any:
        return ABSENT if isinstance(value, Absent) else redaction.SENSITIVE

    return dataclasses.replace(change, old=replace(change.old), new=replace(change.new))
