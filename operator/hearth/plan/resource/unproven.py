"""Objects with a Stack's label but without its signature, of which a resource may reclaim some.

Their signature was removed or damaged, or an earlier version of the operator wrote them. Their own metadata is only a
claim: it finds the object, but never causes a deletion, a hold or an order. Must not know how the result is used.
"""

from __future__ import annotations

from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.state.desired import DesiredResource

CLAIMS_READ = 16
"""Limit of claimed incarnations to look up per resource. A resource has two or three at a time."""


class Unproven:
    """Index of one Stack's unproven objects by reference."""

    def __init__(self) -> None:
        self._found: tuple[Child, ...] = ()
        self._places: dict[ObjectRef, Child] = {}
        self._claims: dict[str, set[int]] = {}
        """By resource, the incarnations that objects claim."""

    def update(self, found: tuple[Child, ...]) -> None:
        """Update from the cache. Costs nothing while the objects are unchanged."""
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
        """Find an object at one of the resource's references that an apply of the operator labelled."""
        if not self._found:
            return None
        claimed = self._claims.get(wanted.owner.resource, set())
        for incarnation in sorted({1, *claimed}, reverse=True):
            for ref in wanted.refs_at(incarnation):
                child = self._places.get(ref)
                if child is not None and child.is_labelled_by_us:
                    return child
        return None
