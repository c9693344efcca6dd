"""Children with other fields, as a watch would bring them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hearth.model import child_fields
from hearth.model.child import Child


def with_fields(child: Child, fields: Mapping[str, Any], **changes: Any) -> Child:
    """The child with these fields and attributes."""
    changed = dataclasses.replace(child, **changes)
    return dataclasses.replace(changed, packed_fields=child_fields.pack(fields, changed.known_texts))
