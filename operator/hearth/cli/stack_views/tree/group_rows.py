"""The members that a ResourceGroup has, by its spec and what its status records. Pure; accepts objects of any shape."""

from __future__ import annotations

from hearth.cli import object_fields
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import limits
from hearth.model.groups import group_members


def list_members(group: StackState) -> dict[str, None]:
    """Return the names of the members in ascending order: all that are wanted, with those added for an update."""
    state = object_fields.mapping(group.status, "controllerState")
    listed = object_fields.find(state, "removedMembers")
    known = [each for each in listed if isinstance(each, int)] if isinstance(listed, list) else []
    size = group_members.make_size(
        {**group.spec, "replicas": limit(object_fields.number(group.spec, "replicas"), default=1)},
        known=known[: limits.REMOVED_MEMBERS],
    )
    surge = limit(object_fields.number(state, "surge"), default=0)
    return dict.fromkeys(map(str, size.find_indices(surge=surge)))


def limit(number: int | None, *, default: int) -> int:
    """Return the number of members within what the API server accepts."""
    return default if number is None else max(0, min(number, limits.GROUP_MEMBERS))
