"""Tracks whether the caches are complete for one Stack: all its kinds are watched, and all resources refreshed since.

Requests the watches, and enqueues the Stack when they are synced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from hearth.engine.cluster_links import ClusterLink
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import revision_builder
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import packing, phases, retry_delays
from hearth.model.child import Path
from hearth.model.errors import InvalidDefinition, SourceNotFound
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.health.health_rules import RuleChange
from hearth.template.parser import template_kinds

TASK = "look for objects that may not be watched"
SYNC_GRACE = 5.0
"""Seconds that the first list of a kind may take before a new definition reports the wait. A failed list is reported by
every Stack after this time."""
LOOK_AGAIN = 2.0
"""Seconds until a withheld status is checked again. An answer enqueues the Stack at once, but a failure does not."""
PROVISIONAL_GRACE = 60.0
"""Seconds after a restart until the status reports missing evaluations and similar answers.

Each evaluation has its own limit, but an expression whose inputs change constantly always waits for another one.
"""
PATHS_SHARED = 1024
"""Number of shared sets of fields. Each kind has a few."""


class CacheSync(StackPart):
    """The sync state of one Stack's caches."""

    def __init__(self, context: StackContext, *, is_provisional: Callable[[], bool]) -> None:
        """is_provisional: returns whether the plan waits for answers of others than the caches."""
        super().__init__(context)
        self.unsynced: dict[Kind, frozenset[Path]] = {}
        """Kinds whose caches are not synced yet, with the required fields of their objects."""
        self.denied: dict[Kind, str] = {}
        """Kinds that the account is not allowed to watch, with the API server's reason."""
        self.absent: frozenset[Kind] = packing.NOTHING
        """Denied kinds of which the Stack cannot have any object, because the account can neither read nor write them.
        """
        self._answered: frozenset[Kind] = packing.NOTHING
        """Denied kinds whose objects may exist, or cannot."""
        self._wanted: dict[Kind, frozenset[Path]] = {}
        self._needs_full_refresh = False
        """Whether the planner must refresh every resource since its creation or the last cache sync."""
        self._is_provisional = is_provisional
        self._grace_until = 0.0
        self._reported_generation = -1
        """The generation described by the status at the last refresh; -1 if the status described an older one."""
        self._is_evaluated = True
        """Whether all answers were available at some point since the last refresh."""

    @property
    def _link(self) -> ClusterLink:
        return self._services.find_link(self._uid)

    def start(self) -> None:
        """Start the watches of a new blueprint. The caller then calls `refresh`."""
        self.unsynced = self.find_required_watches()
        self._wanted = dict(self.unsynced)
        self.denied.clear()
        self.absent = self._answered = packing.NOTHING

    def refresh(self) -> None:
        """Request a full refresh and restart the grace period."""
        self._needs_full_refresh = True
        self._is_evaluated = False
        self._grace_until = self._services.clock.monotonic() + SYNC_GRACE
        stack = self._services.management_cluster.find_stack(self._uid)
        is_reported = stack is not None and stack.status.get("observedGeneration") == stack.generation
        self._reported_generation = stack.generation if stack is not None and is_reported else -1
        self.check_synced()

    def take_full_refresh(self) -> bool:
        """Return whether the planner must refresh every resource, and assume that it now does."""
        needed, self._needs_full_refresh = self._needs_full_refresh, False
        return needed

    def check_synced(self) -> None:
        """Stop waiting for kinds whose caches are synced."""
        cluster, stack = self._link.cluster, self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        absent = {kind: self._wanted[kind] for kind in self.absent}
        for kind, paths in {**self.unsynced, **absent}.items():
            if cluster.follow(kind, paths, namespace=stack.namespace):
                self.unsynced.pop(kind, None)
                if kind in self.absent:
                    self.absent -= {kind}
                self.denied.pop(kind, None)
                self._needs_full_refresh = True
            elif denial := cluster.find_denial(kind, namespace=stack.namespace):
                self.denied[kind] = denial
        if not self.unsynced:
            # A dict keeps the memory of its former entries until it is cleared.
            self.unsynced.clear()
        self._services.queue.enqueue(self._uid, DirtyScope.ALL_RESOURCES)

    @property
    def is_synced(self) -> bool:
        """Whether the caches are complete, and the planner has refreshed every resource since."""
        return not (self.unsynced or self.denied or self._needs_full_refresh)

    def waits_for(self, kind: Kind) -> bool:
        """Return whether a sync or denial of that kind affects the Stack."""
        return kind in self.unsynced or kind in self.denied

    def ask(self) -> None:
        """Start to ask whether objects of the denied kinds may exist, unless that is known or in progress."""
        if self._find_question() is not None:
            self._tasks.run(TASK, self._ask)

    def _find_question(self) -> Kind | None:
        return next(
            (
                kind
                for kind in self.denied
                if kind in self.unsynced and kind not in self._answered and self._inquiries.is_due(name_question(kind))
            ),
            None,
        )

    async def _ask(self) -> None:
        """Ask whether objects of the denied kinds may exist. Stop waiting for kinds without objects."""
        while (kind := self._find_question()) is not None:
            stack = self._services.management_cluster.find_stack(self._uid)
            if stack is None:
                return
            may_be = await self._inquiries.attempt(
                name_question(kind), self._may_be_there(kind, stack), delay=retry_delays.DENIED_KIND
            )
            if isinstance(may_be, bool):
                self._answered |= {kind}
            if may_be is False and kind in self.denied:
                self.unsynced.pop(kind, None)
                self.absent |= {kind}
        self._services.queue.enqueue(self._uid, DirtyScope.ALL_RESOURCES)

    def on_rules_changed(self, change: RuleChange) -> None:
        """Handle new health rules for some kinds, which may require more fields of their objects."""
        wanted = self.find_required_watches()
        touched = {kind: paths for kind, paths in wanted.items() if change.touches(kind)}
        if touched:
            self.unsynced.update(touched)
            self._wanted.update(touched)
            self.refresh()

    def on_kinds_changed(self) -> None:
        """Handle schemas that changed: the general health rule reads the fields that a schema declares."""
        wanted = self.find_required_watches()
        touched = {kind: paths for kind, paths in wanted.items() if self._wanted.get(kind, paths) != paths}
        if touched:
            self.unsynced.update(touched)
            self._wanted.update(touched)
            self.refresh()

    def grace_left(self) -> float:
        """Return the seconds to withhold the status, because it would contain facts that are not known yet.

        A status for the current generation stays until all answers have arrived, because a restart of the operator is
        not a change to report. For a new generation, the status is written at the latest after the grace period.
        Answers about the account's read rights count as well.
        """
        left = max(0.0, self._grace_until - self._services.clock.monotonic())
        is_incomplete = self._needs_full_refresh or bool(self.unsynced)
        is_asking = self._services.read_rights.is_asking(self._uid)
        if (is_incomplete or is_asking or not self._is_evaluated) and self._is_reported and self._is_answer_due():
            return max(left, LOOK_AGAIN)
        return left if is_incomplete or is_asking else 0.0

    @property
    def _is_reported(self) -> bool:
        """Whether the status described the current generation at the last refresh, and no work waits for the next one."""
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None or stack.generation != self._reported_generation:
            return False
        is_deletion_reported = not stack.deleting or stack.phase in phases.DELETION
        return is_deletion_reported and self._definition_sync.targets.is_persisted

    def _is_answer_due(self) -> bool:
        """Return whether a missing answer may still arrive. After a failed attempt, it may never arrive."""
        cluster, stack = self._link.cluster, self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return False
        is_asking = TASK in self._tasks or self._find_question() is not None
        if self._needs_full_refresh or is_asking or self._uid in self._services.queue:
            return True
        if any(
            kind not in self.denied and not cluster.is_failing(kind, namespace=stack.namespace)
            for kind in self.unsynced
        ):
            return True
        rights = self._services.read_rights
        if rights.is_failing(self._uid):
            return False
        latest = self._grace_until - SYNC_GRACE + PROVISIONAL_GRACE
        if rights.is_asking(self._uid) or (self._services.clock.monotonic() < latest and self._is_provisional()):
            return True
        self._is_evaluated = not self.unsynced
        return False

    def find_required_watches(self) -> dict[Kind, frozenset[Path]]:
        """Find all watches that the active blueprint and objects of earlier revisions require."""
        revision = self._definition_sync.revision
        blueprint = self._definition_sync.blueprint or revision_builder.UNKNOWN
        earlier = self._definition_sync.revisions.find_kinds() | (
            revision.kinds if revision is not None else frozenset()
        )
        cluster, rules = self._link.cluster, self._link.rules
        served = revision_builder.find_served_kinds(cluster, earlier)
        wanted = {kind: health_rules.find_lasting_fields(kind, rules) for kind in served}
        for kind, paths in health_rules.find_watched_fields(blueprint, cluster.kinds, rules).items():
            wanted[kind] = wanted.get(kind, frozenset()) | paths
        return {kind: share_paths(paths) for kind, paths in wanted.items()}

    async def _may_be_there(self, kind: Kind, stack: StackObject) -> bool:
        """Return whether objects of that Stack and kind may exist although the operator cannot list them.

        The operator writes objects of a kind only after it watches the kind. A kind that was never listed has no objects,
        with one exception: an earlier revision was completed with the kind, and the right to it was withdrawn later.
        Raises ApiStatusError or Unreachable if the API server does not answer.
        """
        link = self._link
        children = link.cluster.children(stack.uid).values()
        if any(child.kind.key == kind.key for found in children for child in found):
            return True
        # An account that may write now may have written before. One that may do neither usually never had the right.
        for namespace in dict.fromkeys((link.namespace, stack.namespace)):
            if await link.cluster.is_allowed("patch", kind=kind, namespace=namespace):
                return True
        return await self._was_completed_with(kind, stack)

    async def _was_completed_with(self, kind: Kind, stack: StackObject) -> bool:
        """Return whether the last completed revision contains that kind. It left no objects of other kinds."""
        last = self._definition_sync.targets.completed.last
        if not last:
            return False
        revision = self._definition_sync.builder.load_revisions(stack).find(last)
        if revision is None:
            return True
        try:
            definition = await self._definition_sync.builder.read_revision(stack, revision)
        except (InvalidDefinition, SourceNotFound):
            return True
        found = (
            api_version.rpartition("/")[0] + "/" + name for api_version, name in template_kinds.find_kinds(definition)
        )
        return f"{kind.group}/{kind.name}" in set(found)


def name_question(kind: Kind) -> str:
    """Return the name of the request for whether objects of a denied kind may exist."""
    return f"objects of {kind.key}"


@functools.lru_cache(maxsize=PATHS_SHARED)
def share_paths(paths: frozenset[Path]) -> frozenset[Path]:
    """Return the first set that is equal: all Stacks of one template need the same fields."""
    return paths
