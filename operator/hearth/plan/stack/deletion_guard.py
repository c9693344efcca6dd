"""Obsolete objects that a breakpoint or a denied Delete protects, and deletions after which a resource stops.

Covers only objects of removed resources: the deletion of an earlier incarnation is part of a replacement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from hearth.model import members, value_class
from hearth.model.child import Child
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import Action, EnvironmentRule
from hearth.plan.resource import enforcement
from hearth.plan.stack import cleanup
from hearth.plan.state.steps import Delete, Release


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeldDeletion:
    """A deletion that the environment prevents."""

    child: Child
    rule: EnvironmentRule | None = None
    """The rule that denies the deletion; None: it waits at a breakpoint."""


@dataclass(slots=True)
class DeletionGuard:
    """Deletions of one Stack that its environment prevents."""

    desired: Collection[str]
    """The resources of the target."""
    environment: ActiveEnvironment = active_environment.UNRESTRICTED
    held_deletions: dict[str, HeldDeletion] = field(default_factory=dict)
    """By UID."""
    unrecorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The dependencies of resources whose deletion must be recorded first, because they are unknown afterwards."""

    def filter(self, uid: str, step: Delete | Release | None) -> Delete | Release | None:
        """Return the step for an obsolete object, or None if the environment prevents it."""
        self.held_deletions.pop(uid, None)
        if self.environment.is_unrestricted or not isinstance(step, Delete) or step.child.resource in self.desired:
            return step
        child = step.child
        rule = self.environment.rules.find_restriction(child.resource, Action.DELETE)
        if rule is not None or self.environment.stops_at(child.resource, enforcement.BEFORE[Action.DELETE]):
            self.held_deletions[uid] = HeldDeletion(child=child, rule=rule)
            return None
        is_recorded = child.resource in self.environment.cleared.post_delete or not self.environment.can_record
        if self._stops_after(child.resource) and not is_recorded:
            requires = map(cleanup.resource_of, child.requires)
            self.unrecorded[child.resource] = tuple(dict.fromkeys(requires))
            return None
        return step

    def take_unrecorded(self) -> dict[str, tuple[str, ...]]:
        """Return the deletions to record, and clear the list."""
        taken, self.unrecorded = self.unrecorded, {}
        return taken

    def find_post_delete(self, obsolete: Collection[str]) -> Iterator[str]:
        """Find the resources that stop after their deletion. obsolete: those that still have an object."""
        if not self.environment.is_unrestricted:
            for name in self.environment.cleared.post_delete:
                if name not in obsolete and name not in self.desired and self._stops_after(name):
                    yield name

    def is_required(self, resource: str, obsolete: Collection[str]) -> bool:
        """Return whether a resource that stops after its deletion required that resource."""
        post_delete = self.environment.cleared.post_delete
        stopped = self.find_post_delete(obsolete) if post_delete else ()
        return any(members.is_among(resource, post_delete[name]) for name in stopped)

    @property
    def denied(self) -> list[HeldDeletion]:
        """Return the deletions that a rule denies, in a stable order."""
        found = (held for held in self.held_deletions.values() if held.rule is not None)
        return sorted(found, key=lambda held: (held.child.resource, held.child.name))

    def _stops_after(self, resource: str) -> bool:
        return self.environment.stops_at(resource, enforcement.AFTER[Action.DELETE])
