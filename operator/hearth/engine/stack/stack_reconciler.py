"""Reconciler of one Stack in this process, with its planner and in-memory state.

Stores no truth: it may be discarded at any time, and a new one reaches the same result. A reconcile is synchronous.
Slow work runs in tasks, and each finished task enqueues the Stack.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from hearth import supervision
from hearth.engine import internal_error_backoff
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import revision_builder
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.definition.tampered_revisions import TamperedRevisions
from hearth.engine.internal_error_backoff import Faults
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services, StackChildren
from hearth.engine.stack import broadcasts, field_manager_lookup, nesting, planner_creation
from hearth.engine.stack.breakpoints.breakpoint_control import BreakpointControl
from hearth.engine.stack.broadcasts import BroadcastHandler
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.stack.checks.check_control import CheckControl
from hearth.engine.stack.checks.unproven_objects import UnprovenObjects
from hearth.engine.stack.detached_sets import DetachedSets
from hearth.engine.stack.finished_objects import FinishedObjects
from hearth.engine.stack.handover_offers import HandoverOffers
from hearth.engine.stack.repair_reports import RepairReports
from hearth.engine.stack.requeue_timer import RequeueTimer
from hearth.engine.stack.rolling_progress import RollingProgress
from hearth.engine.stack.run_reports import RunReports
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.stack.stack_requests import StackRequests
from hearth.engine.stack.status_inputs import StatusInputs
from hearth.engine.stack.step_results import StepResults
from hearth.engine.stack.supersession import Supersession
from hearth.engine.stack.target_progress import TargetProgress
from hearth.engine.stack.unloading import idle_check
from hearth.engine.work_queue import Broadcast, DirtyItem, DirtyScope
from hearth.engine.writes import step_execution
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.environment import inherited_rules
from hearth.plan.retry import retry_triggers
from hearth.plan.stack.plan_index import RefreshResult
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import internal_errors, steps
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Apply, Delete, Release, Step
from hearth.plan.status import ready_condition
from hearth.template.blueprint import Blueprint


class StackReconciler:
    """The reconciler of one Stack."""

    def __init__(self, uid: str, *, services: Services, builder: RevisionBuilder) -> None:
        """Prepare the reconciler. It observes nothing before the first reconcile."""
        self.uid = uid
        self.planner: StackPlanner | None = None
        self.definition = DefinitionSync(uid=uid, services=services, builder=builder, on_activated=self._install)
        self.results = StepResults(uid=uid, services=services, definition_sync=self.definition)
        self._services = services
        self._faults = Faults(uid, services=services)
        self._tasks = NamedTasks(self._on_error, on_success=self._on_success)
        self._stopping = BreakpointControl(uid, services=services, definition_sync=self.definition, tasks=self._tasks)
        self._checking = CheckControl(
            uid, services=services, definition_sync=self.definition, tasks=self._tasks, memory=self.memory
        )
        self._finished = FinishedObjects(
            uid, services=services, definition_sync=self.definition, tasks=self._tasks, memory=self.memory
        )
        self._progress = TargetProgress(
            services=services, definition_sync=self.definition, tasks=self._tasks, memory=self.memory
        )
        self._rolling = RollingProgress(services, self.definition)
        self._detached = DetachedSets(uid, services=services, definition_sync=self.definition, tasks=self._tasks)
        self._tampered = TamperedRevisions(self.definition)
        self._unproven = UnprovenObjects(uid, services=services, tasks=self._tasks)
        self._cache_sync = CacheSync(
            uid, services=services, definition_sync=self.definition, is_provisional=self._is_provisional
        )
        self._leaving = StackDeletion(
            uid, services=services, definition_sync=self.definition, tasks=self._tasks, cache_sync=self._cache_sync
        )
        self._broadcasts = BroadcastHandler(
            uid, services=services, definition_sync=self.definition, results=self.results, cache_sync=self._cache_sync
        )
        self._requests = StackRequests(
            services=services,
            definition_sync=self.definition,
            memory=self.memory,
            stopping=self._stopping,
            leaving=self._leaving,
        )
        self._supersession = Supersession(uid, services=services, definition_sync=self.definition)
        self._timer = RequeueTimer(
            uid, services=services, find_requeues=lambda: self.planner.requeues if self.planner is not None else {}
        )
        self._repairs = RepairReports(uid=uid, services=services, definition_sync=self.definition, tasks=self._tasks)
        self._runs = RunReports(uid, services=services, definition_sync=self.definition, tasks=self._tasks)
        self._status_inputs = StatusInputs(
            uid=uid,
            services=services,
            definition_sync=self.definition,
            progress=self._progress,
            checking=self._checking,
            leaving=self._leaving,
            faults=self._faults,
            memory=self.memory,
        )
        self._offers = HandoverOffers(uid, services, self.definition, self._tasks)
        services.relatives.join(uid, self)
        self._was_held = False
        """Whether steps were deferred since the last reconcile that offered any."""

    @property
    def memory(self) -> InMemoryState:
        """The in-memory state of the Stack's steps."""
        return self.results.memory

    def reconcile(self, stack: StackObject, dirty: set[DirtyItem]) -> list[str]:
        """Reconcile what is dirty; return the keys of the steps to execute."""
        planned = self._look(stack, dirty)
        if self._cache_sync.has_questions:
            self._tasks.run("look for what may not be watched", self._cache_sync.ask)
        self._faults.clear(internal_error_backoff.PASS)
        self._faults.settle(self._tasks)
        return planned

    def _look(self, stack: StackObject, dirty: set[DirtyItem]) -> list[str]:
        dirty |= self._requests.apply(stack, self.planner)
        if self.definition.is_due(stack):
            self._tasks.run(internal_error_backoff.ACCEPT, self._accept)
        self._tampered.update(stack, dirty)
        self._supersession.update(stack)
        if (planner := self._find_planner(stack)) is None:
            return []
        refreshed = self._refresh(stack, planner, dirty)
        lookup_left = field_manager_lookup.resolve_queries(
            self.uid, planner, self.memory, tasks=self._tasks, services=self._services, backoff=self.results.backoff
        )
        # Not before the lookups have begun: without one the plan would count as known from then on.
        if self.memory.asks_all and self._cache_sync.grace_left() <= 0 and not self.definition.needs_sync(stack):
            self.memory.asks_all = False
        self._stopping.after_reconcile(stack, planner, self.memory, grace_left=self._cache_sync.grace_left())
        self._rolling.update(planner, is_group=stack.is_group)
        self._detached.update(planner, refreshed.planned)
        if not self.is_superseded:
            # A stop that the newer spec no longer has must not complete the target, since after a restart it would not.
            self._progress.update(planner, describe=self.make_status_input, grace_left=self._cache_sync.grace_left())
        if self.definition.targets.is_completed:
            self.memory.governor.settle()
        self._check(stack, planner)
        self._timer.arm(self._progress.seconds_left(), nesting.seconds_left(self.memory), lookup_left)
        self._leaving.update(
            planner, is_releasing=self._finished.is_releasing, left_pods=self._detached.find_problem(planner)
        )
        was_held, self._was_held = self._was_held, self._is_held
        if self._was_held:
            return []
        return list(planner.ready_steps) if was_held else refreshed.planned

    def _refresh(self, stack: StackObject, planner: StackPlanner, dirty: set[DirtyItem]) -> RefreshResult:
        """Plan what is dirty again, and remember what the planner found."""
        if planner.set_boundary(self._services.find_boundary(stack)):
            # What another account may not do says nothing about this one.
            self.memory.retry(self._services.clock.monotonic())
            self.memory.field_managers.clear()
            dirty.add(DirtyScope.ALL_RESOURCES)
        if nesting.update_circle(self.uid, self.memory, self._services):
            dirty.add(DirtyScope.ALL_RESOURCES)
        children = StackChildren(self._services.find_children_cluster(self.uid), self.uid)
        keys, now = self._find_dirty(planner, dirty, children), self._services.clock.monotonic()
        keys |= planner.set_retry(inherited_rules.find_retry(stack.annotations))
        refreshed = planner.refresh(keys, children=children, memory=self.memory, now=now)
        self.results.apply_refresh(refreshed, planner)
        self._services.relatives.tell(self.uid, self._services)
        self._offers.update(planner)
        self._runs.report(refreshed.newly_failed, planner)
        if not self._requests.is_paused and self.definition.cluster.problem is None:
            self._finished.update(keys, planner, children)
        self.memory.prune(children)
        return refreshed

    def _find_dirty(self, planner: StackPlanner, dirty: set[DirtyItem], children: StackChildren) -> set[str]:
        """Pass the options on to the planner; return the names and keys to plan again."""
        keys = {mark for mark in dirty if isinstance(mark, str)}
        is_all = planner_creation.update_options(
            planner, self.definition, self.memory, is_paused=self._requests.is_paused
        )
        if self._cache_sync.take_full_refresh() or is_all or DirtyScope.ALL_RESOURCES in dirty:
            keys |= planner.all_names(children)
        keys |= planner.set_target(self.definition.targets.current)
        keys |= planner.set_healing(self.definition.options.healing, is_completed=self.definition.targets.is_completed)
        if DirtyScope.EVALUATED in dirty:
            keys |= planner.find_evaluating()
        return keys

    @property
    def _is_held(self) -> bool:
        """Whether no step may start: the Stack is paused or superseded, its cluster cannot be used, or the status must
        be written first.
        """
        is_cut_off = self.definition.cluster.problem is not None
        return self._requests.is_paused or self.is_superseded or is_cut_off or self.is_status_urgent

    def _check(self, stack: StackObject, planner: StackPlanner) -> None:
        """Run a requested check, and report objects that only claim to be the Stack's by label."""
        self._unproven.refresh(stack, planner)
        self._checking.update(
            stack,
            planner,
            describe=self.make_status_input,
            kinds=lambda: self._cache_sync.find_required_watches(planner.blueprint),
            grace_left=self._cache_sync.grace_left(),
        )

    def _is_provisional(self) -> bool:
        """Return whether the plan waits for answers that are certain to come: evaluations, and names of field managers."""
        is_looking_up = self._tasks.is_any_running(field_manager_lookup.TASK)
        return is_looking_up or bool(self.planner and self.planner.find_evaluating())

    def cache_sync_grace(self) -> float:
        """Return the seconds left in which the status is withheld because the first list of children is in progress."""
        return self._cache_sync.grace_left()

    @property
    def plan(self) -> StackPlan | None:
        """The result of planning; None without an accepted definition."""
        return self.planner

    @property
    def is_refused(self) -> bool:
        """Whether the definition in the spec is refused."""
        return self.definition.rejection is not None

    @property
    def is_deleting(self) -> bool:
        """Whether the Stack is being deleted, as of the last sync."""
        return self.definition.is_deleting

    @property
    def is_paused(self) -> bool:
        """Whether writes to children are forbidden."""
        return self.definition.options.is_paused

    @property
    def is_known(self) -> bool:
        """Whether a definition was accepted or refused, so that there is a status to write."""
        return self.definition.generation >= 0

    @property
    def hidden_texts(self) -> frozenset[str]:
        """Texts that no user-visible output may contain."""
        return self.definition.hidden_texts

    @property
    def is_superseded(self) -> bool:
        """Whether the operator is reading a newer spec, so that writes for the current target are wasted."""
        return self._supersession.is_active

    @property
    def is_faulty(self) -> bool:
        """Whether an internal error must be reported, even if nothing else is known of the Stack."""
        return self._faults.describe() is not None

    @property
    def is_status_urgent(self) -> bool:
        """Whether work waits for a status write."""
        return not self.definition.targets.is_persisted or self._checking.is_unreported

    @property
    def is_status_overdue(self) -> bool:
        """Whether the next status write cannot wait for better news."""
        return self.is_status_urgent or self.definition.targets.is_resumed or self._finished.is_status_awaited

    def note_written(self, status: Object) -> None:
        """Record the written status."""
        self._checking.note_written(status)
        self._finished.note_written(status)
        if self.definition.targets.on_status_written(status):
            self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def make_status_input(self, *, is_writable: bool = True) -> ready_condition.StatusInput:
        """Make the input of the next status. is_writable: whether the complete status can be written."""
        return self._status_inputs.make(is_writable=is_writable)

    def on_broadcast(self, event: Broadcast) -> None:
        """Handle an event that names no single Stack."""
        self._broadcasts.handle(event, planner=self.planner)

    @property
    def is_unsettled(self) -> bool:
        """Whether the Stack may wait for a kind or a retry; checking this is cheap."""
        planner = self.planner
        return self.is_refused or bool(planner and (planner.requeues or planner.by_state[ResourceState.WAITING]))

    @property
    def has_outcome(self) -> bool:
        """Whether the target is complete, or a resource failed or stopped; checking this is cheap."""
        if self.planner is None:
            return False
        states = self.planner.by_state
        return self.planner.is_complete or bool(states[ResourceState.FAILED] or states[ResourceState.STOPPED])

    @property
    def is_waiting_for_kinds(self) -> bool:
        """Whether the Stack needs a kind that the cluster did not serve at the last check."""
        return broadcasts.is_waiting_for_kinds(self.definition, self.planner)

    def find_idle_kinds(self) -> Collection[Kind] | None:
        """Return the kinds that the state of an idle Stack depends on; None if it is not idle."""
        is_busy = (
            self._tasks.has_any
            or self.is_faulty
            or self._finished.is_busy
            or self._unproven.has_any
            or self._detached.has_any
            or not self._checking.is_idle
        )
        if self.planner is None or is_busy:
            return None
        return idle_check.find_kinds(self.planner, self.memory, self.definition, cache_sync=self._cache_sync)

    def take_step(self, key: str) -> Step | None:
        """Return the current step for that key and count it as in flight."""
        if self.planner is None or key in self.memory.in_flight:
            return None
        if self._is_held:
            # An earlier status that arrives late may hold the Stack between two reconciles, of which neither sees it.
            self._was_held = True
            return None
        is_removal = isinstance(self.planner.ready_steps.get(key), Delete | Release)
        if is_removal and self._may_be_named():
            # Another step may start when the newer spec takes long. What it names must not be gone by then.
            self._was_held = True
            return None
        step = self.planner.take_step(key)
        if step is None and is_removal:
            # Something names the object now.
            self._services.queue.enqueue(self.uid, key)
        if step is None or not self.results.begin(key, step):
            return None
        self._checking.invalidate()
        return step

    def _may_be_named(self) -> bool:
        """Return whether a newer spec, which may name any object, is not read yet."""
        stack = self._services.management_cluster.find_stack(self.uid)
        return stack is not None and not stack.deleting and stack.generation != self.definition.generation

    def take_repair_report(self, step: Apply) -> bool:
        """Return whether the step is a repair that an Event will report."""
        return self._repairs.take_report(step, self.planner, self.memory)

    def is_repeating(self, step: Apply) -> bool:
        """Return whether the apply repeats one that was undone, so that its cause is read before it.

        What undoes a repair is a condition by itself.
        """
        return not step.lost and self.memory.governor.is_repeating(step.resource)

    def note_evidence(self, step: Apply, evidence: str) -> None:
        """Record what undoes the applies of a resource."""
        self.memory.governor.note_evidence(step.resource, evidence)

    def finish_step(self, key: str, step: Step, result: step_execution.StepResult) -> None:
        """Record the result of a step and enqueue what it affects."""
        self.results.record(key, step, result)
        self._repairs.note(step, result, self.planner)
        obsolete = self.planner.cleanup if self.planner is not None else None
        held = (uid for each in steps.find_inputs(step) for uid in obsolete.at(each)) if obsolete is not None else ()
        for what in (key, *steps.affected_keys(step), *held):
            self._services.queue.enqueue(self.uid, what)

    def awaited_triggers(self) -> set[retry_triggers.RetryTrigger]:
        """Return the retry triggers of failed steps that wait for their retry."""
        return self.results.awaited_triggers(self.planner.requeues) if self.planner is not None else set()

    async def wait_tasks(self) -> None:
        """Wait until no task of the Stack runs."""
        await self._tasks.wait()

    def close(self) -> None:
        """Release the Stack's timers, tasks and source watches."""
        self._timer.cancel()
        self._supersession.clear()
        self._tasks.cancel()
        self._services.relatives.leave(self.uid)
        self._services.management_cluster.follow_sources(self.uid, ())
        self.definition.cluster.close()

    def unload(self) -> None:
        """Release everything at once: the parts refer to each other through this object."""
        self.close()
        vars(self).clear()

    def _find_planner(self, stack: StackObject) -> StackPlanner | None:
        """Return the planner. While the definition is unavailable, there is one just as long as the Stack is suspended."""
        if self.planner is None or self.planner.blueprint.is_unknown:
            if not planner_creation.may_suspend_blindly(self.definition):
                self.planner = None
            elif self.planner is None:
                self._install(stack)
        return self.planner

    def _install(self, stack: StackObject) -> None:
        """Create the planner for the accepted blueprint; without one, a planner that can only suspend."""
        blueprint = self.definition.blueprint or revision_builder.UNKNOWN
        self.memory.reset_for_target(blueprint.resources)
        link = self._services.find_link(self.uid)
        is_same_cluster = self.planner is not None and self.planner.kinds.served is link.cluster.kinds
        if is_same_cluster and self._cache_sync.is_synced and self._update_planner(stack, blueprint):
            return
        self._cache_sync.start(blueprint)
        planner = planner_creation.create(stack, blueprint, services=self._services, cache_sync=self._cache_sync)
        before, self.planner = self.planner, planner
        self.planner.set_rolling(self._rolling.make_updates(blueprint, before=before))
        self.planner.set_cleanup_policy(self.definition.find_cleanup_policy())
        tree = self._services.relatives
        self.planner.set_tree(
            functools.partial(tree.find_claim, self.uid, self._services),
            functools.partial(tree.has_foreign, self.uid, self._services),
        )
        self._stopping.update(self.planner, is_swept_away=self._leaving.is_namespace_terminating)
        self._cache_sync.refresh()

    def _update_planner(self, stack: StackObject, blueprint: Blueprint) -> bool:
        """Continue with the present planner if only manifests of some resources changed; return whether that was so."""
        planner = self.planner
        if planner is None or stack.deleting or not planner.update_blueprint(blueprint):
            return False
        planner.set_cleanup_policy(self.definition.find_cleanup_policy())
        dirty = self._stopping.update(planner, is_swept_away=self._leaving.is_namespace_terminating)
        for what in (DirtyScope.STACK, *dirty):
            self._services.queue.enqueue(self.uid, what)
        return True

    def note_fault(self, work: str, *, what: DirtyItem = DirtyScope.ALL_RESOURCES) -> float:
        """Record an internal error for the status; enqueue `what` after the returned delay in seconds."""
        return self._faults.note(work, what=what)

    def find_retry(self, work: str) -> float:
        """Return the monotonic time in seconds before which failed work is not retried; 0 if it did not fail."""
        return self._faults.find_due(work)

    def clear_fault(self, work: str) -> None:
        """Record the success of work that may have failed."""
        if self._faults.clear(work):
            self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _on_error(self, name: str, _error: BaseException) -> None:
        self.note_fault(name)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    async def _accept(self) -> None:
        """Sync the definition. After an internal error, keep the active revision and report the error."""
        if await supervision.contain("accept", self.definition.sync, lambda: False, stack=self.uid):
            return
        delay = self.note_fault(internal_error_backoff.ACCEPT)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        await self.definition.give_up(internal_errors.explain("accept the definition"), delay=delay)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _on_success(self, name: str) -> None:
        if name != internal_error_backoff.ACCEPT or self.definition.is_sound:
            self.clear_fault(name)
