"""Reads, stores and deletes the stored revisions of one Stack."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from dataclasses import dataclass, field

import structlog

from hearth import answers
from hearth.engine import stack_snapshots, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition.revision_builder import RevisionBuilder, RevisionNumbers
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.engine.services import Services
from hearth.engine.verified_revisions import RevisionSet
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.target.target import Target, TargetCause
from hearth.template.blueprint import Blueprint, Definition

logger = structlog.get_logger(__name__)

CHECK_INTERVAL = 1.0
"""Minimum seconds between two checks of one Stack. Each check reads all revisions, and a tenant can create thousands.
"""
NAMES_SHARED = 1_000
"""Number of sets of names that are shared by unloaded Stacks."""


@dataclass(slots=True)
class StackRevisions:
    """Reads, stores and deletes the revisions of one Stack."""

    uid: str
    services: Services
    builder: RevisionBuilder
    targets: TargetTracker
    tampered: str = ""
    """Describes stored revisions that another writer changed or created; "" for none."""
    _numbers: RevisionNumbers = field(default_factory=RevisionNumbers, repr=False)
    _next_check: float = float("-inf")
    """Monotonic time in seconds of the next check between two syncs."""
    _is_check_scheduled: bool = False
    _present: int | None = None
    """The number of the revision that contains the definition in the spec, if it was accepted before."""

    def load(self, stack: StackObject) -> RevisionSet:
        """Return the revisions, and report tampered ones."""
        known = self.builder.load_revisions(stack)
        self.tampered = verified_revisions.explain_all(known.tampered)
        return known

    def check(self, stack: StackObject, dirty: Collection[DirtyItem]) -> None:
        """Name revisions that another writer changed or created, as soon as the cache shows them.

        The definition itself is not read again. A sync does the same.
        """
        if DirtyScope.REVISIONS not in dirty:
            return
        now = self.services.clock.monotonic()
        if now >= self._next_check:
            self._next_check = now + CHECK_INTERVAL
            self.load(stack)
        elif not self._is_check_scheduled:
            self._is_check_scheduled = True
            self.services.clock.call_later(self._next_check - now, self._check_again)

    def _check_again(self) -> None:
        self._is_check_scheduled, self._next_check = False, float("-inf")
        self.services.queue.enqueue(self.uid, DirtyScope.REVISIONS)

    def note_present(self, known: RevisionSet, hashed: str) -> None:
        """Record the revision with the definition in the spec. hashed: the hash of that definition."""
        self._present = next((each.number for each in known.verified if each.hash == hashed), None)

    async def store(self, stack: StackObject, definition: Definition, blueprint: Blueprint, *, hashed: str) -> Revision:
        """Store an accepted definition as a revision: see `RevisionBuilder.store`."""
        self._numbers.take(self.targets.needed)
        return await self.builder.store(stack, definition, blueprint, hashed=hashed, numbers=self._numbers)

    async def truncate(self, *, limit: int) -> None:
        """Delete the oldest revisions beyond the current one and `limit` others; failures are retried next time.

        Revisions that StackSnapshots pin stay, and do not count. Nothing is deleted until all StackSnapshots are known.
        """
        management_cluster = self.services.management_cluster
        stack = management_cluster.find_stack(self.uid)
        if stack is None or self.targets.current is None or len(management_cluster.revisions(self.uid)) <= limit + 1:
            return
        pinned = stack_snapshots.find_pinned(self.services, stack)
        if pinned is None:
            return
        needed = self.targets.needed | ({self._present} if self._present is not None else set())
        revisions = self.builder.load_revisions(stack).verified
        free = [each for each in revisions if each.number in needed or each.number not in pinned]
        for revision in find_expired(free, needed=needed, limit=limit):
            if error := await answers.find_error(management_cluster.delete_revision(stack, revision)):
                logger.warning("cannot delete a revision", stack=stack.uid, revision=revision.name, error=str(error))
                return

    @property
    def knows_all_kinds(self) -> bool:
        """Whether the revisions list every kind that the Stack may have applied."""
        stack = self.services.management_cluster.find_stack(self.uid)
        return stack is not None and self.builder.load_revisions(stack).knows_all_kinds(self.targets.needed)

    def find_kinds(self) -> frozenset[str]:
        """Return every kind that the Stack may have applied."""
        stack = self.services.management_cluster.find_stack(self.uid)
        return self.builder.load_revisions(stack).kinds if stack is not None else frozenset()


def find_expired(revisions: Collection[Revision], *, needed: Collection[int], limit: int) -> list[Revision]:
    """Return the oldest unneeded revisions beyond the current one and `limit` others.

    needed: numbers of the current revision and of all protected ones. The only revision that lists an applied kind
    stays, because its objects may have to be found.
    """
    superfluous = sorted((each for each in revisions if each.number not in needed), key=lambda each: each.number)
    chosen = superfluous[: max(0, len(revisions) - 1 - limit)]
    left = [each for each in revisions if each not in chosen]
    return [each for each in chosen if each.kinds <= verified_revisions.merge_kinds(left)]


class RevisionResources:
    """The resource names by revision number."""

    version = 0
    """Number of updates."""

    def __init__(self, read: Callable[[StackObject, int], Awaitable[Set[str] | None]]) -> None:
        """read: reads the names of a stored revision, or None if it is unavailable."""
        self._read = read
        self._names: dict[int, Set[str]] = {}

    async def update(self, stack: StackObject, target: Target, *, names: Set[str]) -> None:
        """Record the names of the active revision, and keep the names of the revisions that the target protects."""
        for kept in target.protected_revisions:
            if kept not in self._names and (found := await self._read(stack, kept)) is not None:
                self._names[kept] = found
        self._names = {each: found for each, found in self._names.items() if each in target.protected_revisions}
        self._names[target.revision] = names
        self.version += 1

    @property
    def known(self) -> Mapping[int, Set[str]]:
        """The resource names by revision number."""
        return {number: share_names(frozenset(found)) for number, found in self._names.items()}

    def restore(self, known: Mapping[int, Set[str]]) -> None:
        """Take over the state of the predecessor."""
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

    def find_cleanup_policy(
        self, target: Target, *, is_group: bool, max_removed: int | str | None = None
    ) -> CleanupPolicy:
        """Return which obsolete objects the target protects. max_removed: see `ReconcileOptions`."""
        names: tuple[Set[str], ...] | None = None
        if is_group:
            # A group never rolls back, so it keeps no member for an earlier revision. Each obsolete member still waits
            # for its successor.
            names = ()
        elif not target.is_completed and all(kept in self._names for kept in target.protected_revisions):
            names = tuple(self._names[kept] for kept in target.protected_revisions)
        return CleanupPolicy(
            protected_names=names,
            is_waived=target.is_cleanup_waived,
            max_removed=None if target.is_completed or target.cause is not TargetCause.SPEC else max_removed,
            preserves_data=target.cause is TargetCause.AUTOMATIC,
        )


@functools.lru_cache(maxsize=NAMES_SHARED)
def share_names(names: frozenset[str]) -> frozenset[str]:
    """Return the first set that is equal: all Stacks of one template have the same names."""
    return names
