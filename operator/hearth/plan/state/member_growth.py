"""Limits the members of a collection whose list contains objects that its own members created.

For example, two Stacks that select each other's objects by label would create members forever, because each new member
adds an object to the other list.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hearth.model import members, value_class
from hearth.plan.state.memory import ObservedChildren
from hearth.template.blueprint import Blueprint


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GrowthLimit:
    """The limit of one collection."""

    most: int
    """Maximum number of members with objects, including obsolete ones."""
    makers: str
    """The Stacks that create elements of the collection from its own members, as named in messages."""


class MemberGrowth:
    """The growth limits of the collections of one Stack."""

    def __init__(self) -> None:
        self._limits: Mapping[str, GrowthLimit] = MappingProxyType({})
        """By collection."""
        self._held: frozenset[str] = frozenset()
        """The members that are not created."""

    def update(
        self, blueprint: Blueprint, children: ObservedChildren, limits: Mapping[str, GrowthLimit]
    ) -> frozenset[str]:
        """Decide which members to create; return the members whose decision changed. limits: by collection."""
        self._limits = limits
        held, before = frozenset[str](), self._held
        if limits:
            present = set(children.resources())
            held = frozenset(name for root in limits for name in self._find_excess(root, blueprint, present))
        self._held = held
        return held ^ before

    def _find_excess(self, root: str, blueprint: Blueprint, present: set[str]) -> list[str]:
        collection = blueprint.collections.get(root)
        missing = [name for name in collection.members if name not in present] if collection is not None else []
        number = sum(members.root_of(name) == root for name in present)
        return missing[max(0, self._limits[root].most - number) :]

    def explain(self, name: str) -> str:
        """Return why a member is not created, or "" if it is."""
        if name not in self._held:
            return ""
        root = members.root_of(name)
        limit = self._limits[root]
        return (
            f"is not created: {root} would grow forever, because its elements come from objects of {limit.makers} that "
            f"are made from members of {root}; it may have at most {limit.most} members; let the selector of the list "
            "exclude these objects"
        )
