"""Index of all cached children of a cluster, across kinds, by the Stack and resource in their labels.

Must not know where children come from or which component reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hearth.model.child import Child

NOTHING: Mapping[str, tuple[Child, ...]] = MappingProxyType({})


class ChildIndex:
    """Children by Stack UID, then by resource name."""

    def __init__(self) -> None:
        self._stacks: dict[str, dict[str, tuple[Child, ...]]] = {}

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return the children of one Stack by resource; a live view without copying, invalid after an await."""
        resources = self._stacks.get(stack_uid)
        return NOTHING if resources is None else MappingProxyType(resources)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """Return the children of one resource."""
        resources = self._stacks.get(stack_uid)
        return () if resources is None else resources.get(resource, ())

    def replace(self, old: Child | None, new: Child | None) -> None:
        """Replace `old` with `new`; either may be None, and their labels may differ."""
        if old is not None and new is not None and place(old) == place(new):
            resources, key = self._stacks[new.stack_uid], new.index_key
            siblings = resources[key]
            resources[key] = tuple(new if child is old else child for child in siblings)
            return
        if old is not None:
            self._remove(old)
        # A child has no Stack label if another client removed it before the operator's own write.
        if new is not None and new.stack_uid:
            resources = self._stacks.setdefault(new.stack_uid, {})
            resources[new.index_key] = (*resources.get(new.index_key, ()), new)

    def _remove(self, old: Child) -> None:
        resources = self._stacks.get(old.stack_uid)
        if resources is None:
            return
        key = old.index_key
        rest = tuple(child for child in resources.get(key, ()) if child is not old)
        if rest:
            resources[key] = rest
        else:
            resources.pop(key, None)
            if not resources:
                del self._stacks[old.stack_uid]


def place(child: Child) -> tuple[str, str]:
    """Return the index position from the signed labels of the child."""
    return child.stack_uid, child.index_key
