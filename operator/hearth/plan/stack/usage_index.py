"""Which objects are still in use by resources that are not up to date: an index by what each of them was made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.plan.state.resource_status import ResourceStatus


@dataclass(slots=True)
class UsageIndex:
    """By place (`name/incarnation`) the resources whose object was made of what is there, and that may change yet.

    A resource that is ready was evaluated against the objects as they are now, whatever its record says.
    """

    _resources: dict[str, set[str]] = field(default_factory=dict)

    def update(self, name: str, before: ResourceStatus | None, after: ResourceStatus) -> set[str]:
        """Take in how a resource stands; the result: the places that nobody uses any more since."""
        old, new = _uses(before), _uses(after)
        if old == new:
            return set()
        left = set()
        for place in old:
            users = self._resources[place]
            users.discard(name)
            if not users:
                del self._resources[place]
                left.add(place)
        for place in new:
            self._resources.setdefault(place, set()).add(name)
            left.discard(place)
        return left

    def is_used(self, place: str) -> bool:
        """Whether somebody still uses what is there."""
        return place in self._resources


def _uses(standing: ResourceStatus | None) -> tuple[str, ...]:
    if standing is None or standing.is_ready or standing.child is None:
        return ()
    return standing.child.requires
