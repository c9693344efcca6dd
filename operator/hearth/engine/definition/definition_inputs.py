"""Inputs of one Stack's definition: the spec with its sources, the cluster of the objects, the requested target.

Must not know what is active, and activates nothing.
"""

from __future__ import annotations

import structlog

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import rejections, revision_builder, snapshot_restore
from hearth.engine.definition.revision_builder import RevisionBuilder, StoredRevision
from hearth.engine.definition.stack_cluster import StackCluster
from hearth.engine.definition.sync_schedule import SyncSchedule
from hearth.engine.definition.target_tracker import TargetTracker
from hearth.engine.services import Services
from hearth.engine.verified_revisions import RevisionSet
from hearth.model.errors import (
    InvalidDefinition,
    RollbackRevisionNotFound,
    SnapshotNotUsable,
    SourceForbidden,
    SourceNotFound,
    TamperedRevision,
)
from hearth.model.kinds import ObjectRef
from hearth.plan.environment.environment_rules import EnvironmentRules
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.status.ready_condition import DefinitionRejection
from hearth.plan.target.target import EMPTY_REVISION, RollbackRequest, Target
from hearth.plan.target.target_choice import TargetChoice
from hearth.template.blueprint import Definition
from hearth.template.instances import instance_form

logger = structlog.get_logger(__name__)

SNAPSHOT_RETRY = 10.0
"""Seconds until a StackSnapshot that could not be restored is read again. A change of it is noticed at once."""
FULL_RETRY = 30.0
"""Seconds until a Stack beyond the limit of other clusters tries again to use one."""


class DefinitionInputs:
    """What one Stack's definition is made from."""

    def __init__(
        self,
        *,
        services: Services,
        builder: RevisionBuilder,
        targets: TargetTracker,
        cluster: StackCluster,
        schedule: SyncSchedule,
    ) -> None:
        """Read nothing before it is requested. What cannot be read now is retried by the schedule."""
        self._services = services
        self._builder = builder
        self._targets = targets
        self._cluster = cluster
        self._schedule = schedule
        self._recorded: frozenset[ObjectRef] = frozenset()
        """The sources of the stored revision that is loaded instead of the spec."""

    def follow_sources(self, stack: StackObject) -> None:
        """Follow exactly the sources of the current definition, and those of a revision that is loaded instead."""
        is_denied = bool(self._services.find_boundary(stack).stack_denial)
        is_readable = not stack.deleting and not is_denied
        sources = revision_builder.find_sources(stack.namespace, stack.spec) if is_readable else frozenset()
        if is_readable and self._recorded:
            sources = sources | self._recorded
        if not is_denied:
            # A deletion needs the cluster too.
            sources = sources | found if (found := self._cluster.find_sources(stack)) else sources
        self._schedule.follow_sources(sources)

    async def read(self, stack: StackObject) -> Definition | DefinitionRejection:
        """Read the definition in the spec, or return why it is unavailable."""
        if stack.defect:
            message = f"the spec cannot be read: {stack.defect}; the active revision is unchanged"
            return DefinitionRejection(reason="SpecUnreadable", message=message)
        try:
            reader = self._builder.find_reader(stack)
            return await self._builder.read_spec(
                stack.namespace, stack.spec, reader=reader, removed=self._targets.removed
            )
        except (InvalidDefinition, SourceForbidden, SourceNotFound) as error:
            if isinstance(error, SourceForbidden):
                self._schedule.await_rights(stack.namespace)
            if isinstance(error, InvalidDefinition) and stack.definition:
                error = instance_form.translate(error, stack.definition)
            return rejections.reject_definition(error, is_active=self._targets.current is not None)

    async def choose_cluster(self, stack: StackObject) -> bool:
        """Link the cluster of the objects; return whether that is another connection than before."""
        target = self._targets.current
        is_moved = await self._cluster.choose(stack, target.cluster if target is not None else None)
        problem = self._cluster.problem
        if problem is not None and problem.reason == ClusterReason.FORBIDDEN:
            self._schedule.await_rights(stack.namespace)
        if self._cluster.is_full:
            self._schedule.put_off(FULL_RETRY)
        return is_moved

    async def choose_target(
        self, stack: StackObject, hashed: str, known: RevisionSet, *, options: ReconcileOptions, active: str
    ) -> TargetChoice | DefinitionRejection:
        """Choose the target, or return why the requested one is impossible.

        hashed, active: see `TargetTracker.choose`.
        """
        try:
            restore = await self._resolve_snapshot(stack, options.to_snapshot, hashed)
            choice = self._targets.choose(hashed, options, revisions=known.verified, active=active, rollback=restore)
        except (SnapshotNotUsable, RollbackRevisionNotFound) as error:
            # A later definition is newer than the request, whether or not it is possible then.
            self._targets.record_rejected_rollback(
                RollbackRequest(
                    to_revision=options.to_revision or 0,
                    spec_hash=hashed,
                    revision=EMPTY_REVISION,
                    snapshot=options.to_snapshot,
                )
            )
            if isinstance(error, SnapshotNotUsable):
                self._schedule.put_off(SNAPSHOT_RETRY)
                return DefinitionRejection(reason=error.reason, message=str(error))
            return rejections.reject_rollback_request(error, known.find_unverified(options.to_revision or 0))
        if choice.revision is None:
            self._recorded = frozenset()
        return choice

    async def compile_stored(
        self, stack: StackObject, number: int, *, surge: int = 0, is_fallback: bool = False
    ) -> StoredRevision:
        """Compile a stored revision; sync again when what it is read from changes. Raises as that of the builder does.

        is_fallback: whether it is loaded because another one was rejected, whose sources still count.
        """
        rejected = self._recorded if is_fallback else frozenset[ObjectRef]()

        def follow(sources: frozenset[ObjectRef]) -> None:
            # The spec may no longer name them. They are watched from their first read on.
            self._recorded = rejected | sources
            self.follow_sources(stack)

        try:
            return await self._builder.compile_stored(stack, number, surge=surge, on_sources=follow)
        except SourceForbidden:
            self._schedule.await_rights(stack.namespace)
            raise

    async def load_fallback(self, stack: StackObject, target: Target) -> StoredRevision | None:
        """Load the target's stored revision because another one was rejected; None if it is unavailable too."""
        try:
            return await self.compile_stored(stack, target.revision, surge=target.surge, is_fallback=True)
        except (InvalidDefinition, SourceNotFound, TamperedRevision) as error:
            logger.warning("cannot load the active revision", stack=stack.uid, error=str(error))
            return None

    async def find_resized(
        self, stack: StackObject, definition: Definition, hashed: str, *, rules: EnvironmentRules
    ) -> int:
        """Return the unfinished revision that differs from the definition in the size of the group alone; 0 for none.

        hashed: the hash of the definition; rules: without any, it does not matter.
        """
        target = self._targets.current
        if definition.size is None or target is None or rules.is_empty:
            return 0
        for revision in self._builder.load_revisions(stack).verified:
            # A process that died may have stored a revision that no status names.
            is_unfinished = revision.number > target.highest_revision or (
                revision.number == target.revision and not target.is_completed
            )
            if (
                is_unfinished
                and revision.hash != hashed
                and await self._builder.is_resized(stack, definition, revision)
            ):
                return revision.number
        return 0

    async def _resolve_snapshot(self, stack: StackObject, name: str, hashed: str) -> RollbackRequest | None:
        """Return what the requested snapshot resolves to; None if there is none or it needs no resolution."""
        if not name or self._targets.has_resolved(name, hashed):
            return None
        return await snapshot_restore.resolve(self._services, stack, name)
