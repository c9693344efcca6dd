"""The obsolete objects that a breakpoint or a denied Delete holds back, and the deletions after which a resource stops.

Only objects of resources that nobody wants any more are meant: an earlier incarnation goes as part of a replacement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from hearth.model.child import Child
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import Action, EnvironmentRule
from hearth.plan.resource import enforcement
from hearth.plan.stack import cleanup
from hearth.plan.state.steps import Delete, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDeletion:
    """One object that is held back."""

    child: Child
    rule: EnvironmentRule | None = None
    """What denies its deletion; None: it waits at a breakpoint."""


@dataclass(slots=True)
class DeletionGuard:
    """What of the clean-up of one Stack is held back by its environment."""

    desired: Collection[str]
    """The resources that are there now."""
    gates: ActiveEnvironment = active_environment.UNRESTRICTED
    held_deletions: dict[str, HeldDeletion] = field(default_factory=dict)
    """By UID."""
    unrecorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource what it required, where its deletion must be recorded before it: afterwards nobody could tell."""

    def filter(self, uid: str, step: Delete | Release | None) -> Delete | Release | None:
        """What is left of the step that lets an obsolete object go."""
        self.held_deletions.pop(uid, None)
        if self.gates.is_unrestricted or not isinstance(step, Delete) or step.child.resource in self.desired:
            return step
        child = step.child
        rule = self.gates.rules.find_restriction(child.resource, Action.DELETE)
        if rule is not None or self.gates.stops_at(child.resource, enforcement.BEFORE[Action.DELETE]):
            self.held_deletions[uid] = HeldDeletion(child=child, rule=rule)
            return None
        is_recorded = child.resource in self.gates.cleared.post_delete or not self.gates.can_record
        if self._stops_after(child.resource) and not is_recorded:
            requires = map(cleanup.resource_of, child.requires)
            self.unrecorded[child.resource] = tuple(dict.fromkeys(requires))
            return None
        return step

    def take_unrecorded(self) -> dict[str, tuple[str, ...]]:
        """What is to be recorded, which then counts as known."""
        taken, self.unrecorded = self.unrecorded, {}
        return taken

    def find_parted(self, obsolete: Collection[str]) -> Iterator[str]:
        """The resources that stop after their deletion. obsolete: those that have an object yet."""
        if not self.gates.is_unrestricted:
            for name in self.gates.cleared.post_delete:
                if name not in obsolete and name not in self.desired and self._stops_after(name):
                    yield name

    def is_required(self, resource: str, obsolete: Collection[str]) -> bool:
        """Whether somebody who stops after his deletion required that resource."""
        parted = self.gates.cleared.post_delete
        return any(resource in parted[name] for name in self.find_parted(obsolete)) if parted else False

    @property
    def denied(self) -> list[HeldDeletion]:
        """What a rule denies, in a stable order."""
        found = (held for held in self.held_deletions.values() if held.rule is not None)
        return sorted(found, key=lambda held: (held.child.resource, held.child.name))

    def _stops_after(self, resource: str) -> bool:
        return self.gates.stops_at(resource, enforcement.AFTER[Action.DELETE])
