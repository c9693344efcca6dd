"""The objects that carry a Stack's label without its signature: which of them a resource may take up all the same.

Their signature was removed or spoilt, or a version before this one wrote them. What they say of themselves is a claim: it
finds the object, and nothing is deleted, held or ordered by it. Must not know what is done with what is found.
"""

from __future__ import annotations

from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.state.desired import DesiredResource

CLAIMS_READ = 16
"""Incarnations that are looked for because objects claim them: one resource has two or three at a time."""


class Unproven:
    """Those of one Stack, by where they are."""

    def __init__(self) -> None:
        self._found: tuple[Child, ...] = ()
        self._places: dict[ObjectRef, Child] = {}
        self._claims: dict[str, set[int]] = {}
        """By resource the incarnations that objects claim to be."""

    def look(self, found: tuple[Child, ...]) -> None:
        """Follow what the cache holds; free while that stays the same."""
        if found is self._found or not (found or self._found):
            return
        self._found = found
        self._places = {child.ref: child for child in found}
        self._claims = {}
        for child in found:
            claims = self._claims.setdefault(child.resource, set())
            if len(claims) < CLAIMS_READ:
                claims.add(child.incarnation)

    def find(self, wanted: DesiredResource) -> Child | None:
        """The object that stands just where the resource is to be, and that an apply of ours labelled."""
        if not self._found:
            return None
        claimed = self._claims.get(wanted.owner.resource, set())
        for incarnation in sorted({1, *claimed}, reverse=True):
            child = self._places.get(wanted.ref_at(incarnation))
            if child is not None and child.is_labelled_by_us:
                return child
        return None
