"""The first field of a manifest that the operator no longer owns, as tests of field ownership compare it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import field_paths
from hearth.model.child import FieldOwnership
from hearth.plan.ownership import field_ownership

WHOLE_ENTRY = "metadata.managedFields"
"""The field to report if the operator's entry is missing and the manifest applies no other nameable field."""


def find_first_lost(manifest: Mapping[str, Any], ownership: FieldOwnership | None) -> str | None:
    """Find the first field of `manifest` that the operator no longer owns, or None if it owns all.

    The path is in the API server's form: `spec.template.spec.containers[name="web"].image`. Without our entry, all
    fields are lost.
    """
    lost = next(field_ownership.find_all_lost(manifest, ownership), None)
    if lost is None:
        return WHOLE_ENTRY if ownership is None else None
    is_item = isinstance(lost.path[-1], int)
    return (
        lost.text
        if is_item
        else field_ownership.find_first_field(field_paths.read(manifest, lost.path), path=lost.text)
    )
