"""The fields with which a HealthMark or StackSnapshot names the Stack, the ResourceGroup or the instance that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import make_key


def write_owner(key: str) -> Object:
    """Return the fields that name the owner with that key, see `hearth.model.names.owner_key`."""
    kind, name = names.split_owner(key)
    if kind not in names.STACK_KINDS:
        kind, _, group = kind.partition(".")
        return {"stackRef": {"kind": kind, "group": group, "name": name}}
    return {"groupName" if kind == names.GROUP_KIND else "stackName": name}


def read_owner(fields: Mapping[str, Any]) -> str:
    """Return the key of the owner that a spec or status names; "" if it names none."""
    if group := fields.get("groupName", ""):
        return names.owner_key(names.GROUP_KIND, str(group))
    reference = fields.get("stackRef")
    if isinstance(reference, dict):
        kind, group = str(reference.get("kind", "")), str(reference.get("group") or "")
        is_own = kind in names.STACK_KINDS and group in ("", names.GROUP)
        return names.owner_key(kind if is_own else make_key(group, kind), str(reference.get("name", "")))
    return str(fields.get("stackName", ""))
