"""Resource names of the active and the protected revisions, and what follows from them.

Must not know how a revision is read.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Set

from hearth.engine.cluster_objects import StackObject
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.plan.stack.cleanup_policy import CleanupPolicy
from hearth.plan.target.target import Target, TargetCause

NAMES_SHARED = 1_000
"""Sets of names that unloaded Stacks share."""


class RevisionResources:
    """The resource names by revision number."""

    version = 0
    """Number of updates."""

    def __init__(self, read: Callable[[StackObject, int], Awaitable[Set[str] | None]]) -> None:
        """read: reads the names of a stored revision; None if it is unavailable."""
        self._read = read
        self._names: dict[int, Set[str]] = {}

    async def update(self, stack: StackObject, target: Target, *, names: Set[str]) -> None:
        """Record the names of the active revision, and keep those of the revisions that the target protects."""
        for kept in target.protected_revisions:
            if kept not in self._names and (found := await self._read(stack, kept)) is not None:
                self._names[kept] = found
        self._names = {each: found for each, found in self._names.items() if each in target.protected_revisions}
        self._names[target.revision] = names
        self.version += 1

    @property
    def known(self) -> Mapping[int, Set[str]]:
        """The resource names by revision number, without what else the revisions consist of."""
        return {number: share_names(frozenset(found)) for number, found in self._names.items()}

    def restore(self, known: Mapping[int, Set[str]]) -> None:
        """Take over what was known before."""
        self._names = dict(known)

    def find_environment(self, rules: EnvironmentRules, target: Target | None) -> ActiveEnvironment:
        """Return the environment rules in force: without the breakpoints that were cleared for this target."""
        if rules.is_empty:
            return active_environment.UNRESTRICTED
        if target is None:
            return ActiveEnvironment(rules=rules, can_record=False)
        known = (target.revision,) if target.is_completed else target.protected_revisions
        return ActiveEnvironment(
            rules=rules,
            key=target.breakpoint_key or str(target.revision),
            cleared=target.cleared,
            previous_resources=frozenset[str]().union(*(self._names.get(number, frozenset()) for number in known)),
        )

    def find_cleanup_policy(self, target: Target, *, is_group: bool) -> CleanupPolicy:
        """Return which obsolete objects the target protects."""
        names: tuple[Set[str], ...] | None = None
        if is_group:
            # It never goes back to an earlier revision, so no member is kept for one. Each still waits for its successor.
            names = ()
        elif not target.is_completed and all(kept in self._names for kept in target.protected_revisions):
            names = tuple(self._names[kept] for kept in target.protected_revisions)
        return CleanupPolicy(
            protected_names=names,
            is_waived=target.is_cleanup_waived,
            preserves_data=target.cause is TargetCause.AUTOMATIC,
        )


@functools.lru_cache(maxsize=NAMES_SHARED)
def share_names(names: frozenset[str]) -> frozenset[str]:
    """Return the first set that is equal: all Stacks of one template have the same names."""
    return names
