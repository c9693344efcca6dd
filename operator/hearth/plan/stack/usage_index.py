"""Index of the objects that resources which are not up to date still use."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.plan.state.resource_status import ResourceStatus


@dataclass(slots=True)
class UsageIndex:
    """Resources by incarnation key (`name/incarnation`) of the objects that their own object was made from.

    A ready resource does not count: its manifest was evaluated against the current objects, regardless of its record.
    """

    _resources: dict[str, set[str]] = field(default_factory=dict)

    def update(self, name: str, before: ResourceStatus | None, after: ResourceStatus) -> set[str]:
        """Update the status of a resource; return the incarnation keys that no resource uses any longer."""
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
        """Return whether any resource still uses that incarnation."""
        return place in self._resources


def _uses(status: ResourceStatus | None) -> tuple[str, ...]:
    if status is None or status.is_ready or status.child is None:
        return ()
    return status.child.requires
