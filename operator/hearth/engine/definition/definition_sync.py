"""Syncs the active definition of one Stack with its spec: reads it, chooses the target, compiles and stores it.

If the definition is rejected, the active revision stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

import structlog

from hearth.engine import former_stacks, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject, StackPlanObject
from hearth.engine.definition import change_planner, rejections, restored_objects, revision_builder, snapshot_restore
from hearth.engine.definition.change_planner import ChangePlanner
from hearth.engine.definition.revision_builder import RevisionBuilder, StoredRevision
from hearth.engine.definition.stack_cluster import StackCluster
from hearth.engine.definition.stack_revisions import RevisionResources, StackRevisions
from hearth.engine.definition.sync_schedule import SyncSchedule
from hearth.engine.definition.target_tracker import APPROVAL, APPROVALS_END, RISKS_ONLY, SEPARATE, TargetTracker
from hearth.engine.services import Services
from hearth.engine.verified_revisions import RevisionSet
from hearth.engine.work_queue import DirtyScope
from hearth.model import limits, names, packing, retry_delays, value_class, windows
from hearth.model.child import Object
from hearth.model.errors import (
    ApiStatusError,
    InvalidDefinition,
    NoRoom,
    RollbackRevisionNotFound,
    SnapshotNotUsable,
    SourceForbidden,
    SourceNotFound,
    TamperedRevision,
    Unreachable,
)
from hearth.model.kinds import ObjectRef
from hearth.model.members import GroupSize
from hearth.model.memory_shares import SMALL, describe_excess, memory_shares
from hearth.model.text import hidden_texts
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.stack import options
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.state import internal_errors
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.status.ready_condition import DefinitionRejection
from hearth.plan.target import approved_steps, change_hold, change_plans, rollback_notes, volume_restore
from hearth.plan.target.approved_steps import ApprovedStep, ApprovedSteps
from hearth.plan.target.change_hold import ChangeHold, HeldChange, HoldReason
from hearth.plan.target.change_plans import ApprovalPolicy, ChangeIdentity, PlanPhase
from hearth.plan.target.target import EMPTY_REVISION, RollbackRequest, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice, TargetContext
from hearth.template.blueprint import Blueprint, Definition
from hearth.template.cel.evaluation import Unevaluated
from hearth.template.instances import instance_form
from hearth.template.parser import policies

logger = structlog.get_logger(__name__)

STATUS_TAKES = 1.0
"""Seconds until to look again whether the status was written."""
KEPT = 8
"""Number of recent definitions whose sensitive texts are redacted. Children no longer contain texts of older ones."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeldChoice:
    """A change that waits, and what runs until then."""

    choice: TargetChoice | None
    """None if nothing has run yet."""
    definition: Definition = field(repr=False)
    change: HeldChange


@dataclass(slots=True, weakref_slot=True, eq=False)
class DefinitionSync:
    """The accepted or rejected definition of one Stack's spec."""

    uid: str
    services: Services
    builder: RevisionBuilder
    on_activated: Callable[[StackObject], None]
    """Called when `blueprint` or its target changes."""
    blueprint: Blueprint | None = None
    revision: Revision | None = None
    """Revision of `blueprint`; None before the first accepted definition or for the empty revision."""
    rejection: DefinitionRejection | None = None
    held: HeldChange | None = None
    """The definition of `generation`, while it waits."""
    _next_held: HeldChange | None = None
    """The same of the definition that is being processed."""
    refreshed_parameters: tuple[str, ...] = ()
    """If the target is an earlier revision: its sensitive parameters whose values have changed since."""
    options: ReconcileOptions = field(default_factory=ReconcileOptions)
    targets: TargetTracker = field(default_factory=TargetTracker)
    cluster: StackCluster = field(init=False)
    """The cluster that contains the Stack's objects."""
    revisions: StackRevisions = field(init=False)
    schedule: SyncSchedule = field(init=False)
    """When the next sync is due."""
    planner: ChangePlanner = field(init=False)
    """The plans of changes that need an approval."""
    _approved_plan: StackPlanObject | None = None
    """The approved plan of the change that is being started."""
    _replaced_plan: str = ""
    """The UID of the plan of a change that the approved one interrupts; "" for none."""
    _reported_plan: str = ""
    """The UID of the last plan whose end was written to its status."""
    _renews_plan: bool = False
    """Whether the user requested a retry since the spec was last processed, so that a plan that ended is replaced."""
    _unplanned: tuple[int, TargetCause] | None = None
    """Revision and cause of the target of which a step waits because the approved plan does not contain it; None for
    none."""
    _may_find_unplanned: bool = True
    """Whether not every step was compared with the plan since the operator started."""
    _allowed: tuple[StackPlanObject, tuple[ApprovedStep, ...]] | None = field(default=None, repr=False)
    """The last plan whose steps were read, with them."""
    source_versions: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The resource versions of the sources of the last accepted or rejected definition."""
    _read_versions: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The resource versions of the sources of the definition that is being processed."""
    _recorded: frozenset[ObjectRef] = frozenset()
    """The sources of the stored revision that is loaded instead of the spec."""
    generation: int = -1
    """Generation of the last accepted or rejected spec; -1 before the first."""
    definition_revision: int = 0
    """Instances only: the revision of the StackDefinition that this spec was made with."""
    is_deleting: bool = False
    protected_by: str = ""
    """What forbids the requested deletion of the Stack, and the way out; "" for nothing."""
    is_orphaned: bool = False
    """Whether the Stack is being deleted with `--cascade=orphan`."""
    _was_orphaning: bool = False
    """`StackObject.is_orphaning` when the definition was read last."""
    is_group: bool = False
    """Whether the Stack is a ResourceGroup."""
    was_at_rest: bool = False
    """Whether the Stack was idle when it was loaded."""
    _sensitive_texts: tuple[frozenset[str], ...] = field(default=(), repr=False)
    """The sensitive texts of the current and earlier definitions."""
    resources: RevisionResources = field(init=False)
    """The resource names of the active revision and of those that its target protects."""
    is_suspendable: bool = False
    """Whether all kinds of objects were known the last time the definition was unavailable."""
    is_sound: bool = True
    """Whether the last sync ended without an internal error."""
    _without_room: tuple[tuple[int, int, int], int] | None = None
    """The version and size of the last definition that was rejected for lack of memory."""
    _options_version: tuple[int, int] = (-1, 0)
    """The generation and the StackDefinition revision that `options` was read from."""

    def __post_init__(self) -> None:
        """Prepare the cluster, which is read with the definition, and the schedule of the first sync."""
        self.schedule = SyncSchedule(uid=self.uid, services=self.services)
        self.planner = ChangePlanner(uid=self.uid, services=self.services)
        self.cluster = StackCluster(self.uid, services=self.services)
        self.revisions = StackRevisions(self.uid, self.services, self.builder, self.targets)
        self.resources = RevisionResources(self.builder.read_names)

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Texts that no user-visible output may contain."""
        return self.cluster.hidden_texts.union(*self._sensitive_texts)

    @property
    def is_suspended(self) -> bool:
        """Whether workloads must be scaled down: as soon as the spec requires it, unless the Stack is being deleted."""
        return self.options.is_suspended and not self.is_deleting

    @property
    def is_forbidden_to_write(self) -> bool:
        """Whether the user forbids every write of children, by a pause or by the protection of a deleted Stack."""
        return self.options.is_paused or bool(self.protected_by)

    @property
    def is_halting(self) -> bool:
        """Whether workloads must be scaled down before a restore replaces the claims that they use."""
        target = self.targets.current
        restore = target.restore if target is not None and not self.is_deleting else None
        return restore is not None and not restore.is_halted

    def needs_sync(self, stack: StackObject) -> bool:
        """Whether the Stack differs from its state when it was last processed."""
        if self.schedule.is_requested or not self.is_current(stack) or self._is_other_deletion(stack):
            return True
        return self._has_hold_ended(stack)

    @property
    def held_seconds_left(self) -> float:
        """Seconds until the change that waits may start; infinite without one."""
        if self.held is None:
            return math.inf
        return min(self.held.hold.until, self.held.hold.retry_at) - self.services.clock.now()

    def _has_hold_ended(self, stack: StackObject) -> bool:
        """Return whether the change that waits may start: also earlier than expected, if the clock was set back."""
        if self.held is None:
            return False
        if self.held_seconds_left <= 0 or self.planner.has_news(stack):
            return True
        is_for_window = self.held.hold.reason is HoldReason.WINDOW
        return (
            is_for_window and change_hold.find_change_hold(self.options.window, now=self.services.clock.now()) is None
        )

    def _is_other_deletion(self, stack: StackObject) -> bool:
        """Return whether the Stack is deleted in another way than the one that was processed last, if at all."""
        if (stack.deleting, stack.is_orphaning) != (self.is_deleting, self._was_orphaning):
            return True
        if not stack.deleting or self.is_orphaned:
            return False
        return verified_revisions.has_orphaned(self.services.management_cluster, self.services.hashes, stack)

    def is_current(self, stack: StackObject) -> bool:
        """Return whether the spec of the Stack is the one that was processed last."""
        is_same_form = stack.definition_revision == self.definition_revision
        return stack.generation == self.generation and is_same_form

    def has_unprocessed_spec(self, stack: StackObject) -> bool:
        """Return whether the spec or a source has a change that was neither accepted nor rejected yet."""
        return not self.is_current(stack) or self.schedule.has_unhandled_changes

    @property
    def active_definition_revision(self) -> int:
        """Return the revision of the StackDefinition that the target was made of; 0 for a Stack of no StackDefinition."""
        target, revision = self.targets.current, self.revision
        if target is None or not target.definition_revision:
            return 0
        is_earlier = (
            target.cause is not TargetCause.SPEC and revision is not None and revision.number == target.revision
        )
        earlier = revision.definition_revision if is_earlier and revision is not None else 0
        return earlier or target.definition_revision

    def _note_version(self, stack: StackObject) -> None:
        """Record that the spec of the Stack was processed."""
        # Together, so that no status claims that a definition that waits is in use.
        self.held = self._next_held
        self.generation, self.definition_revision = stack.generation, stack.definition_revision

    def set_surge(self, surge: int) -> None:
        """Set the number of surge members of a group; the next sync compiles the definition with them."""
        if self.targets.set_surge(surge):
            self.schedule.request()
            self.services.queue.enqueue(self.uid, DirtyScope.STACK)

    def request_retry(self, *, ends_rollback: bool) -> None:
        """Try the target once more, at the user's request. ends_rollback: see `TargetTracker.request_retry`."""
        self.targets.request_retry(ends_rollback=ends_rollback)
        self._renews_plan = True
        self.schedule.request()

    def fail(self, reason: str, message: str) -> None:
        """Give up the target: the next sync may choose another one."""
        self.targets.fail(reason, message)
        self.schedule.request()
        self.services.queue.enqueue(self.uid, DirtyScope.STACK)

    def read_options(self, stack: StackObject) -> None:
        """Load the target once and read the spec's reconcile options at once."""
        self.is_group = stack.is_group
        self.targets.load(
            stack,
            hashes=self.services.hashes,
            count_revisions=lambda: len(self.builder.load_revisions(stack).verified),
            has_former=lambda: bool(former_stacks.find_former_revisions(self.services, stack)),
        )
        hidden_texts.register(
            self,
            uid=stack.uid,
            kind=stack.kind,
            name=f"{stack.namespace}/{stack.name}",
            is_preview=not self.services.asks_approval,
        )
        version = stack.spec_version
        if version != self._options_version:
            has_parents = names.ANNOTATION_INHERITED_RULES in stack.annotations
            self._options_version, self.options = version, options.parse(stack.settings, has_parents=has_parents)
            self.targets.has_window = self.options.window is not None

    def resume(self, stack: StackObject, names: Mapping[int, Set[str]]) -> None:
        """Continue where an idle Stack was unloaded. names: see `RevisionResources.known`."""
        self.read_options(stack)
        self.resources.restore(names)
        self.was_at_rest = True

    def is_due(self, stack: StackObject) -> bool:
        """Return whether to sync now. A failed sync waits for its retry unless the Stack changes."""
        return self.needs_sync(stack) and not self.schedule.is_waiting(stack)

    @property
    def is_idle(self) -> bool:
        """Whether the definition in the spec is in use and depends on nothing else, in the management cluster.

        A Stack that was rolled back would read its revision again when it is loaded.
        """
        target = self.targets.current
        return (
            self.rejection is None
            and not self.is_deleting
            and not self.options.is_paused
            and self.options.expires_after is None
            and self.held is None
            and not self.revisions.tampered
            and not self.refreshed_parameters
            and not self.hidden_texts
            and self.schedule.is_idle
            and target is not None
            and target.is_completed
            and not target.is_rollback
            and self.targets.is_persisted
            and not self.targets.is_resumed
            and not self.services.find_link(self.uid).is_remote
        )

    async def sync(self) -> bool:
        """Process the spec until it stays unchanged; intermediate versions are skipped."""
        management_cluster = self.services.management_cluster
        try:
            while (stack := management_cluster.find_stack(self.uid)) is not None and self.is_due(stack):
                async with self.builder.slot(stack):
                    latest = management_cluster.find_stack(self.uid)
                    if latest is None or latest.deleting != stack.deleting:
                        continue
                    opened = await management_cluster.open_stack(latest)
                    if opened.deleting != stack.deleting:
                        continue
                    is_outdated = self.schedule.start(opened)
                    self.read_options(opened)
                    if self.held is not None:
                        self.planner.look(opened)
                    is_evaluated = await self._process_unless_evaluating(opened, is_outdated=is_outdated)
                    if is_evaluated:
                        self.schedule.finish()
                        self.source_versions = self._read_versions
                        if not self.schedule.is_requested:
                            self.targets.end_retry()
                if not is_evaluated:
                    # Wait outside the slot, because other Stacks need it.
                    await self.services.evaluations.wait(self.uid)
        except (ApiStatusError, Unreachable) as error:
            logger.warning("cannot store the revision; retrying", stack=self.uid, error=str(error))
            self.schedule.request()
            self.rejection = DefinitionRejection(
                reason="RevisionStoreFailed",
                message=f"cannot read or store the definition: {error}; the operator retries",
            )
            self.schedule.put_off(retry_delays.DEFINITION.find_seconds(retry_after=error.retry_after))
        self.is_sound = True
        self.services.queue.enqueue(self.uid, DirtyScope.STACK)
        return True

    async def give_up(self, message: str, *, delay: float) -> None:
        """Keep the active revision after an internal error; sync again after `delay` seconds or once the Stack changes."""
        self.is_sound = False
        self.schedule.put_off(delay)
        stack = self.services.management_cluster.find_stack(self.uid)
        if stack is None:
            return
        self._note_version(stack)
        if stack.deleting:
            # The deletion policy is unknown, so nothing is deleted.
            return
        refusal = self.rejection = DefinitionRejection(reason=internal_errors.REASON, message=message)
        with contextlib.suppress(ApiStatusError, Unreachable):
            await self._reject(stack, refusal)

    async def _process_unless_evaluating(self, stack: StackObject, *, is_outdated: bool) -> bool:
        """Process the spec; return False while its expressions are still being evaluated."""
        try:
            await self._process(stack, is_outdated=is_outdated)
        except Unevaluated:
            self.schedule.request()
            return False
        return True

    async def _process(self, stack: StackObject, *, is_outdated: bool) -> None:
        self._follow_sources(stack)
        self.schedule.awaited = packing.NOTHING
        boundary = self.services.find_boundary(stack)
        if boundary.stack_denial and not stack.deleting:
            rejection = DefinitionRejection(reason=boundary.denial_reason, message=boundary.stack_denial)
            await self._reject(stack, rejection)
            return
        is_moved = await self._choose_cluster(stack)
        if self.cluster.problem is None:
            cluster = self.services.find_link(stack.uid).cluster.acting_as(boundary.user)
            await restored_objects.take_back(self.services, stack, cluster)
        if stack.deleting:
            # Check before the objects are released: afterward, the revisions that record it are deleted too.
            self.is_orphaned = self.is_orphaned or await verified_revisions.find_orphaned(
                self.services.management_cluster, self.services.hashes, stack
            )
            blueprint = await self.builder.make_deletion_blueprint(stack, is_orphaned=self.is_orphaned)
            self._next_held = None
            self._was_orphaning = stack.is_orphaning
            self._activate(stack, blueprint, revision=self.revision)
        elif self.cluster.problem is not None:
            await self._wait_for_cluster(stack)
        else:
            try:
                await self._process_definition(stack, is_outdated=is_outdated or is_moved)
            except NoRoom as error:
                await self._reject(stack, DefinitionRejection(reason=rejections.LIMIT_REACHED, message=str(error)))
                self.schedule.put_off(limits.KEPT_AGAIN)

    async def _process_definition(self, stack: StackObject, *, is_outdated: bool) -> None:
        self._await_room(stack)
        self._next_held = None
        if isinstance(hold := self._find_change_hold(stack), DefinitionRejection):
            await self._reject(stack, hold)
            return
        read = await self._read(stack)
        hashed = self.builder.hash(read, stack) if isinstance(read, Definition) else ""
        known = self.revisions.load(stack)
        if hold is not None and isinstance(read, Definition) and await self._has_same_texts(stack, read, known):
            hold = None
        choice = await self._choose_allowed(stack, read, hashed, known, hold)
        if isinstance(choice, DefinitionRejection):
            await self._reject(stack, choice)
            return
        if isinstance(choice, HeldChoice):
            await self._hold(stack, choice, is_outdated=is_outdated)
            return
        if choice.revision is not None:
            await self._activate_revision(stack, choice, choice.revision)
        elif isinstance(read, DefinitionRejection):
            await self._reject(stack, read)
        elif not is_outdated and self._runs(hashed, stack.spec):
            self._keep(stack, choice)
        else:
            await self._activate_spec(stack, choice, read, hashed=hashed)
        await self._report_begin(stack)
        self.revisions.note_present(known, hashed)
        await self.revisions.truncate(limit=self.options.history_limit)

    async def _choose_allowed(
        self,
        stack: StackObject,
        read: Definition | DefinitionRejection,
        hashed: str,
        known: RevisionSet,
        hold: ChangeHold | None,
    ) -> TargetChoice | HeldChoice | DefinitionRejection:
        """Choose the target, or what runs while it waits: first for an approval, then for the window.

        read: the definition in the spec; hold: why changes wait apart from approvals. Other arguments: see
        `_choose_target`.
        """
        self._approved_plan = None
        if self._asks_approval(stack):
            choice = await self._choose_target(stack, hashed, known, None)
            if isinstance(choice, DefinitionRejection):
                return choice
            if isinstance(read, DefinitionRejection):
                # Without the definition there is no plan, so a requested rollback cannot be approved.
                return read if self._is_unapproved(choice, hashed, known) else choice
            approval = await self._find_approval(stack, choice, hashed, known)
            if isinstance(approval, HeldChange):
                return HeldChoice(choice=self._keep_running(choice, known), definition=read, change=approval)
            self._approved_plan = approval
            if hold is None:
                return choice
        choice = await self._choose_target(stack, hashed, known, hold)
        if isinstance(choice, TargetChoice) and hold is not None and choice.is_held and isinstance(read, Definition):
            self._approved_plan = None
            return HeldChoice(choice=choice, definition=read, change=HeldChange(hash=hashed, hold=hold))
        return choice

    def _asks_approval(self, stack: StackObject) -> bool:
        """Return whether changes need an approval: also after the spec switched that off, until a plan for it is approved."""
        if not self.services.asks_approval:
            return False
        self.targets.follow_approval(self.options.approval, generation=stack.generation, now=self.services.clock.now())
        return APPROVAL in self.targets.handled

    @property
    def _policy(self) -> ApprovalPolicy:
        """Which approval later changes need, according to the spec."""
        return self.options.approval or change_plans.DEFAULT_POLICY

    @property
    def _switched_off(self) -> str:
        """What the spec switches off, which needs an approval, a key of `change_plans.SWITCHED_OFF`; "" for nothing."""
        if self.options.approval is None:
            return "off"
        is_relaxed = self._policy.is_for_risks and RISKS_ONLY not in self.targets.handled
        is_shared = SEPARATE in self.targets.handled and not self._policy.is_separate
        return "-".join([*(["relaxed"] if is_relaxed else []), *(["shared"] if is_shared else [])])

    def _is_unapproved(self, choice: TargetChoice, hashed: str, known: RevisionSet) -> bool:
        """Return whether a choice starts a change that may need an approval."""
        hashes = {each.number: each.hash for each in known.verified}
        return change_hold.is_unapproved(choice, hashed, before=self.targets.current, hashes=hashes)

    async def _find_approval(
        self, stack: StackObject, choice: TargetChoice, hashed: str, known: RevisionSet
    ) -> HeldChange | StackPlanObject | None:
        """Return the approved plan of the chosen change, None if it needs none, or the change with why it waits."""
        hashes, before = {each.number: each.hash for each in known.verified}, self.targets.current
        is_change = self._is_unapproved(choice, hashed, known)
        is_rolling_back = before is not None and before.cause is TargetCause.AUTOMATIC
        identity = ChangeIdentity(
            definition_hash=change_plans.name_change(choice, hashed, hashes=hashes, switched_off=self._switched_off),
            base_revision=before.revision if before is not None else EMPTY_REVISION,
            previous_plan=self.targets.handled[APPROVAL],
        )
        is_rollback = choice.cause is TargetCause.AUTOMATIC and (self._unplanned is None or not is_rolling_back)
        is_switched = bool(self._switched_off) and APPROVALS_END not in self.targets.handled
        if is_rollback or (not (is_switched or is_change) and self._unplanned is None):
            if before is None and not is_rollback:
                # A process may have stored the first revision and died before it wrote a status: use its approval up.
                return self.planner.find_approved(stack, identity, self._policy)
            # A revision with newer sensitive values needs approved steps for good, even if it is complete.
            is_bounded = before is not None and (
                not before.is_completed or (before.is_rollback and self._may_find_unplanned)
            )
            kept = identity if is_bounded else None
            await self.planner.close_plans(stack, running=identity.previous_plan, kept_identity=kept)
            return None
        if self._unplanned is not None and not self.targets.is_persisted:
            # The preview reads the target in the status, which is being written.
            hold = ChangeHold(
                reason=HoldReason.APPROVAL,
                until=math.inf,
                retry_at=self.services.clock.now() + STATUS_TAKES,
                message=change_planner.IN_PREVIEW,
            )
            return HeldChange(hash=identity.definition_hash, hold=hold)
        found = await self.planner.find_approval(
            stack,
            identity,
            dataclasses.replace(
                self._policy,
                is_separate=self._policy.is_separate or SEPARATE in self.targets.handled,
                window=self.options.window,
            ),
            sources=change_plans.list_versions(self._read_versions),
            renews=self._renews_plan,
            is_addition=self._unplanned is not None,
        )
        self._renews_plan = False
        return HeldChange(hash=identity.definition_hash, hold=found) if isinstance(found, ChangeHold) else found

    @property
    def plan_uid(self) -> str:
        """UID of the approved plan that must contain the steps of the change in progress; "" for none.

        A deletion needs no approval. Newer sensitive values in a stored revision do, even if no plan ran yet.
        """
        target, handled = self.targets.current, self.targets.handled.get(APPROVAL, "")
        if self.is_deleting or target is None:
            return ""
        if self.refreshed_parameters:
            return handled
        return handled if not target.is_completed and change_plans.is_plan(handled) else ""

    def find_approved_steps(self, stack: StackObject) -> ApprovedSteps:
        """Return the steps that the approved plan of the change in progress allows: none if the plan was deleted."""
        plan_uid, target = self.plan_uid, self.targets.current
        plans = self.services.plans.plans_of(stack.namespace, self.uid)
        plan = next((each for each in plans if each.uid == plan_uid), None)
        if plan is None or self._allowed is None or self._allowed[0] is not plan:
            # Verify the signature only once: it covers the whole plan.
            plan = self.planner.find_plan(stack, plan_uid)
            self._allowed = (plan, approved_steps.read_steps(plan.spec["steps"])) if plan is not None else None
        is_rollback = target is not None and target.cause is TargetCause.AUTOMATIC and not self.refreshed_parameters
        if self._allowed is not None and self.revision is not None:
            # A plan that was made for the rollback itself has its steps.
            is_rollback = is_rollback and self._allowed[0].spec["definitionHash"] != self.revision.hash
        return ApprovedSteps(
            steps=self._allowed[1] if self._allowed is not None else (),
            hash_content=self.services.hashes.of_stack(self.uid).hash,
            is_rollback=is_rollback,
        )

    def note_unplanned(self, *, is_unplanned: bool, is_complete: bool) -> None:
        """Record whether a step waits because the approved plan does not contain it. Another plan is then made.

        is_complete: whether there is no step left.
        """
        target = self.targets.current
        unplanned = (target.revision, target.cause) if is_unplanned and target is not None else None
        if unplanned != self._unplanned or (is_complete and self._may_find_unplanned):
            self._unplanned, self._may_find_unplanned = unplanned, False
            self.schedule.request()
            self.services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _keep_running(self, choice: TargetChoice, known: RevisionSet) -> TargetChoice | None:
        """Return the choice of what runs while a change waits for an approval; None if nothing has run yet."""
        hashes, before = {each.number: each.hash for each in known.verified}, self.targets.current
        if before is None and not hashes:
            return None
        # A rollback that waits is resolved again later.
        unchanged = dataclasses.replace(choice, rollback=before.rollback if before is not None else None)
        return self.targets.keep_running(unchanged, hashes)

    async def _report_begin(self, stack: StackObject) -> None:
        """Write to the approved plan that its change began."""
        plan, self._approved_plan = self._approved_plan, None
        if replaced := self._replaced_plan:
            self._replaced_plan = ""
            await self.planner.note_phase(stack, replaced, PlanPhase.SUPERSEDED, "another approved plan took its place")
        if plan is not None and self.targets.handled.get(APPROVAL) == plan.uid:
            await self.planner.note_phase(stack, plan.uid, PlanPhase.RUNNING, "the change is running")

    @property
    def has_running_plan(self) -> bool:
        """Whether the end of the last plan is not reported yet."""
        return self.targets.handled.get(APPROVAL, self._reported_plan) != self._reported_plan

    async def report_end(self, stack: StackObject) -> None:
        """Write to the last plan how its change ended."""
        target, self._reported_plan = self.targets.current, self.targets.handled.get(APPROVAL, "")
        is_failed = target is not None and target.cause is TargetCause.AUTOMATIC
        message = "the change failed and was rolled back" if is_failed else "the change is complete"
        phase = PlanPhase.FAILED if is_failed else PlanPhase.COMPLETED
        await self.planner.note_phase(stack, self._reported_plan, phase, message)
        is_open = bool(self.plan_uid) and self._may_find_unplanned
        if self.held is None and not (is_open or self.schedule.is_running or self.has_unprocessed_spec(stack)):
            # A plan for steps that turned out to need none.
            await self.planner.close_plans(stack, running=self._reported_plan, kept_identity=None)
        if target is not None and target.is_completed and self.targets.handled.get(APPROVAL) == self._reported_plan:
            self.targets.end_approvals()
            self.services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _find_change_hold(self, stack: StackObject) -> ChangeHold | DefinitionRejection | None:
        """Return why changes of the definition wait now, None if they do not, or the rejection of a wrong window."""
        if self.options.window is None:
            return None
        if mistakes := list(windows.find_mistakes(stack.spec["window"], path="spec.window")):
            error = InvalidDefinition(mistakes)
            return rejections.reject_definition(error, is_active=self.targets.current is not None)
        return change_hold.find_change_hold(self.options.window, now=self.services.clock.now())

    async def _has_same_texts(self, stack: StackObject, definition: Definition, known: RevisionSet) -> bool:
        """Return whether a definition differs from the running one only in values of sensitive parameters.

        These are not stored, so that the former values are unknown after a restart.
        """
        target = self.targets.current
        if target is None:
            # The status is lost: the newest revision runs.
            revision = known.verified[-1] if known.verified else None
        else:
            revision = known.find(target.revision) if target.cause is TargetCause.SPEC else None
        if revision is None or revision.hash == self.builder.hash(definition, stack):
            return False
        return await self.builder.is_refreshed(stack, definition, revision)

    async def _hold(self, stack: StackObject, held: HeldChoice, *, is_outdated: bool) -> None:
        """Keep what runs while the definition in the spec waits; reject a definition with mistakes now."""
        choice, change = held.choice, held.change
        self._next_held = change
        is_same = self.held is not None and self.held.hash == change.hash and self.rejection is None
        adopts = bool(policies.adopts(stack.spec.get("adoptionPolicy")))
        is_kept = choice is not None and self.revision is not None and self.revision.number == choice.revision
        if (
            choice is not None
            and is_same
            and is_kept
            and not is_outdated
            and self.blueprint is not None
            and self.blueprint.adopts == adopts
        ):
            self._keep(stack, choice)
            return
        try:
            await self.builder.compile(held.definition, stack)
        except InvalidDefinition as error:
            await self._reject(stack, rejections.reject_definition(error, is_active=choice is not None))
            return
        if choice is None:
            self.rejection = None
            self._note_version(stack)
            return
        await self._activate_revision(stack, choice, choice.revision or EMPTY_REVISION)
        if self.rejection is not None:
            # What runs cannot be read. The change may start before it can.
            left = min(change.hold.until, change.hold.retry_at) - self.services.clock.now()
            self.schedule.put_off(min(left, retry_delays.AWAY_CLUSTER.first))

    def on_snapshot_changed(self, name: str) -> None:
        """Handle a changed StackSnapshot of this Stack's namespace, which a request may wait for."""
        # A sync in progress may have read the snapshot before the change, and may reject the definition later.
        may_wait = self.rejection is not None or self.schedule.is_running
        if may_wait and name == self.options.to_snapshot and not self.targets.has_resolved(name):
            self.schedule.request_now()

    async def _wait_for_cluster(self, stack: StackObject) -> None:
        """Keep the active revision while the cluster cannot be used."""
        if self.cluster.refusal is not None or self.blueprint is None:
            await self._reject(stack, self.cluster.refusal)
        else:
            # When the cluster returns, a sync starts and reads the newer spec.
            self.schedule.put_off(retry_delays.AWAY_CLUSTER.first)

    def _runs(self, hashed: str, spec: Object) -> bool:
        """Return whether the definition of that hash is active as the spec requires."""
        adopts = policies.adopts(spec.get("adoptionPolicy"))
        if self.blueprint is None or self.blueprint.adopts != bool(adopts):
            return False
        target = self.targets.current
        is_accepted = self.revision is not None and self.revision.hash == hashed and self.rejection is None
        return is_accepted and target is not None and target.cause is TargetCause.SPEC and not self.is_deleting

    def _keep(self, stack: StackObject, choice: TargetChoice) -> None:
        """Keep the active revision: only its options changed."""
        if self.revision is not None:
            self._start(choice, self.revision.number, definition_revision=stack.definition_revision)
        self._note_version(stack)

    async def _activate_spec(
        self, stack: StackObject, choice: TargetChoice, definition: Definition, *, hashed: str
    ) -> None:
        """Activate the definition in the spec. hashed: its hash."""
        self.refreshed_parameters = ()
        try:
            blueprint = await self.builder.compile(definition, stack, surge=self.targets.surge, previous=self.blueprint)
            self._require_room(stack, blueprint.size)
            revision = await self.revisions.store(stack, definition, blueprint, hashed=hashed)
        except (InvalidDefinition, TamperedRevision) as error:
            await self._reject(stack, rejections.reject_definition(error, is_active=self.targets.current is not None))
            return
        resized = await self._find_resized(stack, definition, hashed)
        await self._begin(stack, choice, blueprint, revision=revision, size=definition.size, resized=resized)

    async def _activate_revision(self, stack: StackObject, choice: TargetChoice, number: int) -> None:
        """Activate an earlier revision regardless of the spec."""
        await self.services.management_cluster.add_finalizer(stack)
        try:
            stored = await self._compile_stored(stack, number)
            if choice.cause is TargetCause.ROLLBACK:
                snapshot_restore.require_claims(stored.blueprint, choice.rollback)
        except (InvalidDefinition, SourceNotFound, TamperedRevision) as error:
            if not choice.is_held and choice.rollback is not None and not choice.rollback.snapshot:
                self.targets.record_rejected_rollback(choice.rollback)
            action = "keep" if choice.is_held else "roll back to"
            await self._reject(stack, rejections.reject_revision(error, number=number, action=action))
        else:
            is_kept = choice.is_held and self.revision is not None and self.revision.number == number
            if is_kept and stored.renewed and not self.refreshed_parameters and APPROVAL in self.targets.handled:
                # Its own sensitive values are only in memory. Newer ones wait for the approval.
                self.rejection = None
                self._keep(stack, choice)
                return
            self.refreshed_parameters = stored.renewed
            await self._begin(stack, choice, stored.blueprint, revision=stored.revision)

    async def _begin(
        self,
        stack: StackObject,
        choice: TargetChoice,
        blueprint: Blueprint,
        *,
        revision: Revision | None,
        size: GroupSize | None = None,
        resized: int = 0,
    ) -> None:
        number = revision.number if revision is not None else EMPTY_REVISION
        before, known = self.targets.current, self.blueprint
        target = self._start(choice, number, size=size, resized=resized, definition_revision=stack.definition_revision)
        self.rejection = None
        await self.resources.update(stack, target, names=blueprint.resources.keys())
        self._activate(stack, blueprint, revision=revision)
        if before is not None and before.is_rollback and not target.is_rollback and before.revision != target.revision:
            await self._report_end_of_rollback(stack, before, target, known=known, blueprint=blueprint)

    async def _report_end_of_rollback(
        self, stack: StackObject, before: Target, target: Target, *, known: Blueprint | None, blueprint: Blueprint
    ) -> None:
        """Post an Event that the definition in the spec replaces a rollback, which restores what the rollback removed.

        before: the previous target; known: its blueprint, None after a restart. Never raises.
        """
        new = blueprint.resources
        # Without the former blueprint, the changed resources are unknown.
        old = known.resources if known is not None else new
        message = rollback_notes.describe_end(
            before,
            target,
            old=old.keys(),
            new=new.keys(),
            changed=[
                name for name, resource in new.items() if name in old and old[name].content is not resource.content
            ],
        )
        # A Warning, so that a user notices it even if it was intended.
        await self.services.management_cluster.emit_event(
            stack, type_="Warning", reason=rollback_notes.ENDED, message=message
        )

    def _start(
        self,
        choice: TargetChoice,
        number: int,
        *,
        definition_revision: int,
        size: GroupSize | None = None,
        resized: int = 0,
    ) -> Target:
        """Start the chosen target. definition_revision, resized: see `TargetContext`."""
        if self._approved_plan is not None:
            # At once with the target, so that the same status records both.
            self._replaced_plan = self.plan_uid if not self.targets.is_completed else ""
            self.targets.record_approval(self._approved_plan.uid, self.options.approval)
        before = self.targets.current
        context = TargetContext(
            now=self.services.clock.now(),
            cluster=self.cluster.server,
            removed=size.removed if size is not None else None,
            definition_revision=definition_revision,
            resized=resized,
            has_breakpoints=not self.options.environment.is_empty,
            heals_on_update=self.options.healing.waits_for_update,
        )
        target = self.targets.start(choice, revision=number, context=context)
        if self._approved_plan is None and _is_restarted(before, target):
            self.targets.end_plan()
        return target

    async def _reject(self, stack: StackObject, rejection: DefinitionRejection | None) -> None:
        """Keep the active revision; after a restart, activate the target's stored revision.

        rejection: None if only the cluster of the objects is away.
        """
        target = self.targets.current
        if self.blueprint is None and target is not None and self.services.links.is_linked(self.uid):
            if (stored := await self._load_fallback(stack, target)) is not None:
                self.refreshed_parameters = stored.renewed
                await self.resources.update(stack, target, names=stored.blueprint.resources.keys())
                self._activate(stack, stored.blueprint, revision=stored.revision)
            else:
                self.is_suspendable = self.revisions.knows_all_kinds
        self.rejection, self._next_held = rejection, None
        self._note_version(stack)

    def _await_room(self, stack: StackObject) -> None:
        """Raise NoRoom if the definition is the one that had no room last, and still has none: compiling it takes long."""
        if self._without_room is not None:
            version, size = self._without_room
            self._without_room = None
            if version == self._find_version(stack):
                self._require_room(stack, size)

    def _require_room(self, stack: StackObject, size: int) -> None:
        """Raise NoRoom if the Stacks of the namespace keep too much in memory for a definition of that size as well."""
        own = self.blueprint.size if self.blueprint is not None else 0
        if size > max(own, SMALL) and size - own > memory_shares.find_room(stack.namespace):
            self._without_room = self._find_version(stack), size
            raise NoRoom(
                f"the definition takes {size / 2**20:.1f} MiB of memory, and {describe_excess(stack.namespace)}; use smaller "
                f"parameters and manifests, or fewer Stacks; the operator tries again every {limits.KEPT_AGAIN:g} seconds"
            )

    def _find_version(self, stack: StackObject) -> tuple[int, int, int]:
        """Return the versions of everything that the definition is read from: spec, StackDefinition and sources."""
        return (*stack.spec_version, self.schedule.changes)

    def _activate(self, stack: StackObject, blueprint: Blueprint, *, revision: Revision | None) -> None:
        target = self.targets.current
        if target is not None and target.restore is not None and not stack.deleting:
            blueprint = volume_restore.restore_volumes(blueprint, target.restore)
        self.blueprint, self.revision = blueprint, revision
        memory_shares.keep(blueprint, stack.namespace, blueprint.size)
        if (texts := blueprint.sensitive_texts) and texts not in self._sensitive_texts:
            self._sensitive_texts = (*self._sensitive_texts, texts)[-KEPT:]
        self._note_version(stack)
        self.is_deleting = stack.deleting
        self.on_activated(stack)

    def find_environment(self) -> ActiveEnvironment:
        """Return the environment rules in force: from the live spec, without breakpoints cleared for this target."""
        return self.resources.find_environment(self.options.environment, self.targets.current)

    def find_cleanup_policy(self) -> CleanupPolicy:
        """Return which obsolete objects the current target protects."""
        target = self.targets.current
        if target is None or self.is_deleting:
            return CleanupPolicy()
        return self.resources.find_cleanup_policy(target, is_group=self.is_group, max_removed=self.options.max_removed)

    def _follow_sources(self, stack: StackObject) -> None:
        """Follow exactly the sources of the current definition, and the sources of a revision that is loaded instead."""
        is_denied = bool(self.services.find_boundary(stack).stack_denial)
        is_readable = not stack.deleting and not is_denied
        sources = revision_builder.find_sources(stack.namespace, stack.spec) if is_readable else frozenset()
        if is_readable and self._recorded:
            sources = sources | self._recorded
        if not is_denied:
            # Follow the sources of the cluster during a deletion too, which needs the cluster.
            sources = sources | found if (found := self.cluster.find_sources(stack)) else sources
        self.schedule.follow_sources(sources)

    async def _read(self, stack: StackObject) -> Definition | DefinitionRejection:
        """Read the definition in the spec, or return why it is unavailable."""
        note_size = functools.partial(self.builder.note_size, self.uid)
        reader = dataclasses.replace(self.builder.find_reader(stack), on_size=note_size)
        self._read_versions = reader.versions
        if stack.defect:
            message = f"the spec cannot be read: {stack.defect}; the active revision is unchanged"
            return DefinitionRejection(reason="SpecUnreadable", message=message)
        try:
            return await self.builder.read_spec(
                stack.namespace, stack.spec, reader=reader, removed=self.targets.removed
            )
        except (InvalidDefinition, SourceForbidden, SourceNotFound) as error:
            if isinstance(error, SourceForbidden):
                self.schedule.await_rights(stack.namespace)
            if isinstance(error, InvalidDefinition) and stack.definition:
                error = instance_form.translate(error, stack.definition)
            return rejections.reject_definition(error, is_active=self.targets.current is not None)

    async def _choose_cluster(self, stack: StackObject) -> bool:
        """Link the cluster of the objects; return whether that is another connection than before."""
        target = self.targets.current
        is_moved = await self.cluster.choose(stack, target.cluster if target is not None else None)
        problem = self.cluster.problem
        if problem is not None and problem.reason == ClusterReason.FORBIDDEN:
            self.schedule.await_rights(stack.namespace)
        if self.cluster.is_full:
            self.schedule.put_off(retry_delays.FULL_CLUSTERS.first)
        return is_moved

    async def _choose_target(
        self, stack: StackObject, hashed: str, known: RevisionSet, hold: ChangeHold | None
    ) -> TargetChoice | DefinitionRejection:
        """Choose the target, or return why the requested one is impossible. hashed, hold: see `TargetTracker.choose`."""
        options, active = self.options, self.revision.hash if self.revision is not None else ""
        try:
            restore = await self._resolve_snapshot(stack, options.to_snapshot, hashed)
            usable = [each for each in known.verified if each.definition_revision >= stack.minimum_revision]
            choice = self.targets.choose(hashed, options, revisions=usable, active=active, rollback=restore, hold=hold)
        except (SnapshotNotUsable, RollbackRevisionNotFound) as error:
            # Record it, so that a later definition takes precedence even if the rollback is possible by then.
            self.targets.record_rejected_rollback(
                RollbackRequest(
                    to_revision=options.to_revision or 0,
                    spec_hash=hashed,
                    revision=EMPTY_REVISION,
                    snapshot=options.to_snapshot,
                )
            )
            if isinstance(error, SnapshotNotUsable):
                self.schedule.put_off(retry_delays.SNAPSHOT.first)
                return DefinitionRejection(reason=error.reason, message=str(error))
            return rejections.reject_rollback_request(error, known.find_unverified(options.to_revision or 0))
        if choice.revision is None:
            self._recorded = frozenset()
        return choice

    async def _compile_stored(
        self, stack: StackObject, number: int, *, surge: int = 0, is_fallback: bool = False
    ) -> StoredRevision:
        """Compile a stored revision; sync again when its sources change. Raises the errors of the builder's method.

        is_fallback: whether it is loaded because another one was rejected, whose sources still count.
        """
        rejected = self._recorded if is_fallback else frozenset[ObjectRef]()

        def follow(sources: frozenset[ObjectRef]) -> None:
            # The spec may no longer name these sources. Watch them from their first read on.
            self._recorded = rejected | sources
            self._follow_sources(stack)

        try:
            stored = await self.builder.compile_stored(stack, number, surge=surge, on_sources=follow)
            self._require_room(stack, stored.blueprint.size)
            return stored
        except SourceForbidden:
            self.schedule.await_rights(stack.namespace)
            raise

    async def _load_fallback(self, stack: StackObject, target: Target) -> StoredRevision | None:
        """Load the target's stored revision because another one was rejected; None if it is unavailable too."""
        try:
            return await self._compile_stored(stack, target.revision, surge=target.surge, is_fallback=True)
        except (InvalidDefinition, NoRoom, SourceNotFound, TamperedRevision) as error:
            logger.warning("cannot load the active revision", stack=stack.uid, error=str(error))
            return None

    async def _find_resized(self, stack: StackObject, definition: Definition, hashed: str) -> int:
        """Return the unfinished revision that differs from the definition only in the size of the group; 0 for none.

        hashed: the hash of the definition. Without environment rules, it does not matter.
        """
        target = self.targets.current
        if definition.size is None or target is None or self.options.environment.is_empty:
            return 0
        for revision in self.builder.load_revisions(stack).verified:
            # A process that crashed may have stored a revision that no status mentions.
            is_unfinished = revision.number > target.highest_revision or (
                revision.number == target.revision and not target.is_completed
            )
            if is_unfinished and revision.hash != hashed and await self.builder.is_resized(stack, definition, revision):
                return revision.number
        return 0

    async def _resolve_snapshot(self, stack: StackObject, name: str, hashed: str) -> RollbackRequest | None:
        """Return the resolution of the requested snapshot, or None if there is no request or it needs no resolution."""
        if not name or self.targets.has_resolved(name, hashed):
            return None
        # If the state was lost, the data may have been replaced before. Newer data must not be lost.
        is_restored = self.targets.is_first_lost
        return await snapshot_restore.resolve(self.services, stack, name, is_restored=is_restored)


def _is_restarted(before: Target | None, target: Target) -> bool:
    """Return whether a completed target runs again, as a requested retry of repairs does."""
    if before is None or not before.is_completed or target.is_completed:
        return False
    return (before.revision, before.cause) == (target.revision, target.cause)
