"""Reconciler of one Stack in this process, with its planner and in-memory state.

The in-memory state can be lost at any time; a new reconciler reaches the same result. A reconcile is synchronous. Slow
work runs in tasks, and each finished task enqueues the Stack.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from typing import assert_never

from hearth import supervision
from hearth.engine import cluster_links
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import revision_builder
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.inquiries import Inquiries
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services, StackChildren
from hearth.engine.stack import faults, nesting, protection, stack_reads, stack_requests
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.stack.check_control import CheckControl
from hearth.engine.stack.detached_sets import DetachedSets
from hearth.engine.stack.event_reports import EventReports
from hearth.engine.stack.expiry import Expiry
from hearth.engine.stack.faults import Faults
from hearth.engine.stack.released_objects import ReleasedObjects
from hearth.engine.stack.stack_deletion import StackDeletion
from hearth.engine.stack.stack_part import StackContext
from hearth.engine.stack.stack_reads import StackReads
from hearth.engine.stack.stack_requests import StackRequests
from hearth.engine.stack.step_results import StepResults
from hearth.engine.stack.target_progress import TargetProgress
from hearth.engine.work_queue import (
    Broadcast,
    CacheSynced,
    ClusterEvent,
    ClusterStateChanged,
    DirtyItem,
    DirtyScope,
    KindsChanged,
    SourceChanged,
)
from hearth.engine.writes import step_execution
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan import stack_plan
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.retry import retry_triggers
from hearth.plan.stack.blind_planner import BlindPlanner
from hearth.plan.stack.member_removals import MemberRemovals
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import internal_errors, steps
from hearth.plan.state.memory import InMemoryState, Observation
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.rolling_updates import RollingUpdates
from hearth.plan.state.stack_tree import TreeQueries
from hearth.plan.state.steps import Apply, Delete, DeletePart, Release, Step
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.plan.status import ready_condition
from hearth.template.blueprint import Blueprint

MAX_HOLD = 10.0
"""Maximum seconds that steps wait for a newer spec to be processed. Compiling and storing thousands of resources takes
a fraction of that."""
CLOCK_CHECK = 600.0
"""Maximum seconds between two looks at the clock while a change waits: a clock that is set does not move timers."""
MAX_UNLOADED_RESOURCES = 100
"""Maximum number of resources of a Stack that may be unloaded. Loading a larger one takes noticeably longer than most
events."""


class StackReconciler:
    """The reconciler of one Stack."""

    def __init__(self, uid: str, *, services: Services, builder: RevisionBuilder) -> None:
        self.uid = uid
        self.planner: StackPlanner | None = None
        self.definition = DefinitionSync(uid=uid, services=services, builder=builder, on_activated=self._install)
        self.memory = InMemoryState()
        """The in-memory state of the Stack's steps."""
        self._services = services
        self.faults = Faults(uid, services=services)
        self._tasks = NamedTasks(self._on_error, on_success=self._on_success)
        self._removals = MemberRemovals()
        self._inquiries = Inquiries(uid, tasks=self._tasks, queue=services.queue, clock=services.clock)
        context = StackContext(
            uid=uid,
            services=services,
            definition_sync=self.definition,
            tasks=self._tasks,
            inquiries=self._inquiries,
            memory=self.memory,
            removals=self._removals,
        )
        self.results = StepResults(context)
        self._released = ReleasedObjects(context)
        self._progress = TargetProgress(context)
        self._detached = DetachedSets(context)
        self.reports = EventReports(context)
        self._reads = StackReads(context)
        self.cache_sync = CacheSync(context, is_provisional=self._is_provisional)
        self._checks = CheckControl(context, cache_sync=self.cache_sync)
        self._deletion = StackDeletion(context, cache_sync=self.cache_sync)
        self._requests = StackRequests(context, deletion=self._deletion)
        self._expiry = Expiry(context)
        self._supersession = Supersession(uid, services=services, definition_sync=self.definition)
        relatives = services.relatives
        self._tree = TreeQueries(
            find_claim=functools.partial(relatives.find_claim, uid, services),
            has_foreign=functools.partial(relatives.has_foreign, uid, services),
            find_contents=functools.partial(relatives.find_contents, uid, services),
            explain_protection=functools.partial(protection.explain_nested, services=services),
            is_instance_kind=lambda key: services.management_cluster.find_forms(key) is not None,
        )
        self._cancel_timer: Callable[[], None] | None = None
        self._was_held = False
        """Whether steps were deferred since the last reconcile that offered any."""
        relatives.register(uid, self)

    def reconcile(self, stack: StackObject, dirty: set[DirtyItem]) -> list[str]:
        """Reconcile the dirty parts; return the keys of the steps to execute.

        This function contains the life of a Stack, from top to bottom. It never waits: slow work runs in a task that
        enqueues the Stack when it ends. The controller executes the steps and writes the status.
        """
        planned = self._reconcile(stack, dirty)
        self.cache_sync.ask()
        self.faults.clear(faults.PASS)
        self.faults.settle(self._tasks)
        return planned

    def _reconcile(self, stack: StackObject, dirty: set[DirtyItem]) -> list[str]:
        # 1. Requests: options in the spec, and request annotations.
        dirty |= self._requests.apply_requests(stack)
        self._expiry.update(stack)

        # 2. Definition and target: a task reads, compiles and stores them. Until then, the active ones apply.
        if self.definition.is_due(stack):
            self._tasks.run(faults.ACCEPT, self._accept)
        self.definition.revisions.check(stack, dirty)
        self._supersession.update(stack)
        if (planner := self._find_planner(stack)) is None:
            self._arm_timer(self._expiry.seconds_left, self._held_seconds_left)
            return []

        # 3. Plan: one input, one result. The planner finds which resources the input changed.
        self._reads.limit_growth(planner)
        plan_input = self._make_plan_input(stack)
        plan_result = self._plan(stack, planner, plan_input, dirty)

        # 4. Lookups for the plan: the new owners of lost fields, and objects hidden by a broken watch.
        lookup_left = self._reads.look_up_managers(planner, backoff=self.results.backoff)
        # Only after the lookups have begun. Otherwise, the plan would count as known without them.
        if self.memory.asks_all and self.cache_sync.grace_left() <= 0 and not self.definition.needs_sync(stack):
            self.memory.asks_all = False

        # 5. Progress: breakpoints, batches, replaced StatefulSets, completion of the target, checks.
        grace_left = self.cache_sync.grace_left()
        self._requests.after_plan(stack, planner, plan_result, grace_left=grace_left)
        self._progress.update_rolling(planner, plan_result, is_group=stack.is_group)
        self._detached.update(planner, plan_result.planned)
        if not self.is_superseded:
            # If the newer spec removes a stop, the stop must not complete the target: after a restart, it would not.
            self._progress.update(planner, plan_result, describe=self.make_status_input, grace_left=grace_left)
        if self.definition.targets.is_completed:
            self.memory.governor.settle()
            if self.definition.has_running_plan and not self.definition.schedule.is_running:
                self._tasks.run("report the end of a plan", functools.partial(self.definition.report_end, stack))
        self.reports.report_unproven(stack, is_complete=plan_result.is_complete)
        self._checks.update(stack, planner, describe=self.make_status_input)
        self._deletion.update(
            planner,
            plan_result,
            is_releasing=self._released.is_releasing,
            left_pods=self._detached.find_problem(planner),
        )

        # 6. Schedule the next reconcile, in case no event causes one before.
        self._arm_timer(
            *(self._progress.seconds_left(), lookup_left, self._expiry.seconds_left, self._held_seconds_left),
            nesting.LOOK_AGAIN if plan_input.circle else math.inf,
        )

        # 7. Steps, unless the Stack is held. Held steps are offered together afterward.
        was_held, self._was_held = self._was_held, self._is_held
        if self._was_held:
            return []
        return list(planner.ready_steps) if was_held else plan_result.planned

    def _plan(
        self, stack: StackObject, planner: StackPlanner, plan_input: PlanInput, dirty: set[DirtyItem]
    ) -> PlanResult:
        """Plan the dirty parts again, and start the work that the result requires."""
        marks = {mark for mark in dirty if isinstance(mark, str)}
        marks |= self._reads.follow(stack, planner, plan_input.boundary)
        is_full = DirtyScope.ALL_RESOURCES in dirty
        is_full |= self.cache_sync.take_full_refresh()
        children = StackChildren(self._services.find_children_cluster(self.uid), self.uid)
        observation = Observation(
            children=children,
            memory=self.memory,
            now=self._services.clock.monotonic(),
            is_evaluated=DirtyScope.EVALUATED in dirty,
        )
        plan_result = stack_plan.plan_stack(planner, plan_input, observation, marks, is_full=is_full)
        # First, because no later plan returns them again.
        self._requests.record_deletions(plan_result.parting)
        for failure in plan_result.failures:
            self.results.count_failure(failure)
        if self.definition.plan_uid or self.memory.plan_uid:
            self._follow_plan(is_complete=plan_result.is_complete and not self.memory.in_flight)
        self._reads.make_members(planner)
        if plan_result.unconfirmed and self._reads.may_ask:
            self._tasks.run("ask whether kinds go", functools.partial(self._reads.ask, planner))
        self._services.relatives.publish_names(self.uid, self._services)
        self._released.offer(plan_result.offered)
        self.reports.report_runs(plan_result.failures)
        if not self._requests.is_paused and self.definition.cluster.problem is None:
            self._released.update(plan_result.dirty, planner, children)
        return plan_result

    def _follow_plan(self, *, is_complete: bool) -> None:
        """Retry steps that another plan may contain, and request another plan for those that are left."""
        if self.memory.follow_plan(self.definition.plan_uid):
            self._services.queue.enqueue(self.uid, DirtyScope.ALL_RESOURCES)
        self.definition.note_unplanned(is_unplanned=self.memory.has_unplanned, is_complete=is_complete)

    def _make_plan_input(self, stack: StackObject) -> PlanInput:
        """Return everything that decides the plan, apart from the objects and the in-memory state."""
        definition, cluster = self.definition, self._services.find_link(self.uid).cluster
        return PlanInput(
            boundary=self._services.find_boundary(stack),
            target=definition.targets.current,
            is_suspended=definition.is_suspended or definition.is_halting,
            is_paused=self._requests.is_paused,
            healing=definition.options.healing,
            environment=self._requests.find_environment(),
            cleanup=definition.find_cleanup_policy(),
            retry_limit=definition.options.retry_limit,
            retries=tuple(stack.annotations.get(each, "") for each in names.REQUESTED_RETRIES),
            circle=self._services.management_cluster.tree.find_circle(self.uid),
            growth_limits=self._reads.growth_limits,
            tree=self._tree,
            find_external=cluster.find_external,
        )

    @property
    def _held_seconds_left(self) -> float:
        """Seconds until to check whether the change that waits may start."""
        return min(self.definition.held_seconds_left, CLOCK_CHECK) if self.definition.held is not None else math.inf

    @property
    def _is_held(self) -> bool:
        """Whether no step may start: the Stack is paused or superseded, its cluster cannot be used, or the status must
        be written first.
        """
        is_cut_off = self.definition.cluster.problem is not None
        return self._requests.is_paused or self.is_superseded or is_cut_off or self.is_status_urgent

    def _is_provisional(self) -> bool:
        """Return whether the plan waits for answers that are certain to arrive: evaluations, and names of field
        managers.
        """
        # Decide nothing about members until the lists that define them are known again.
        is_read = self.planner is not None and all(each.status.is_ready for each in self.planner.externals.values())
        is_deciding = is_read and self._removals.is_undecided
        return self._reads.is_looking_up or is_deciding or bool(self.planner and self.planner.find_evaluating())

    @property
    def is_refused(self) -> bool:
        """Whether the definition in the spec is rejected."""
        return self.definition.rejection is not None

    @property
    def is_known(self) -> bool:
        """Whether a definition was accepted or rejected, so that there is a status to write."""
        return self.definition.generation >= 0

    @property
    def is_superseded(self) -> bool:
        """Whether the operator is reading a newer spec, so that writes for the current target are wasted."""
        return self._supersession.is_active

    @property
    def is_faulty(self) -> bool:
        """Whether an internal error must be reported, even if nothing else is known of the Stack."""
        return self.faults.describe() is not None

    @property
    def is_status_urgent(self) -> bool:
        """Whether work waits for a status write."""
        return not self.definition.targets.is_persisted or self._checks.is_unreported

    @property
    def is_status_overdue(self) -> bool:
        """Whether the next status must be written now, even if a better one may follow soon."""
        return self.is_status_urgent or self.definition.targets.is_resumed or self._released.is_status_awaited

    def note_written(self, status: Object) -> None:
        """Record the written status."""
        self._checks.note_written(status)
        self._released.note_written(status)
        if self.definition.targets.on_status_written(status):
            self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def make_status_input(self, *, is_writable: bool = True) -> ready_condition.StatusInput:
        """Make the input of the next status. is_writable: whether the complete status can be written."""
        definition, targets, services = self.definition, self.definition.targets, self._services
        is_deleting = definition.is_deleting
        stack = services.management_cluster.find_stack(self.uid)
        return ready_condition.StatusInput(
            generation=max(0, definition.generation),
            definition_revision=definition.definition_revision,
            active_definition_revision=definition.active_definition_revision,
            address=stack_requests.find_address(stack),
            replicas=stack.replicas if stack is not None else None,
            pin_mistake=stack.pin_mistake if stack is not None else "",
            group_uid=self.uid if definition.is_group else "",
            is_deleting=is_deleting,
            target=targets.current,
            is_recorded=targets.is_persisted,
            completed=targets.completed,
            last_failed=targets.last_failed,
            rejection=definition.rejection or definition.cluster.refusal,
            held=definition.held,
            cluster_problem=definition.cluster.problem,
            handled=targets.find_persisted_tokens(
                has_open_runs=self.memory.has_open_runs, has_open_removals=self._removals.is_releasing
            ),
            finished=self.memory.finished,
            refreshed_parameters=definition.refreshed_parameters,
            tampered=definition.revisions.tampered,
            is_paused=definition.options.is_paused,
            protected_by=definition.protected_by,
            expires_at=self._expiry.expires_at,
            expiry_warning=self._expiry.warning,
            is_suspended=definition.is_suspended,
            timed_out_after=definition.options.timeout if self._progress.seconds_left() <= 0 else None,
            fault=self.faults.describe(besides=faults.STATUS if is_writable else ""),
            undecided=0 if is_deleting else services.relatives.count_undecided(self.uid, services),
            blocked_by=self._deletion.blocked_by,
            halted_by=self._progress.halted_by,
            check=self._checks.result,
            check_error=self._checks.error,
            circle=stack_reads.name_circle(self.uid, services),
            sources=definition.source_versions,
            polled=tuple(map(str, services.management_cluster.find_polled_sources(self.uid))),
        )

    def on_broadcast(self, event: Broadcast) -> None:
        """Handle an event that names no single Stack."""
        if isinstance(event, ClusterEvent):
            if self._services.links.concerns(self.uid, event.key):
                self._on_cluster_event(event.event)
            return
        is_home = self._services.links.concerns(self.uid, cluster_links.HOME)
        match event:
            case retry_triggers.RetryTrigger():
                # The sources of the definition are always in the home cluster.
                self.definition.schedule.on_retry_trigger(event)
                if is_home:
                    self._on_cluster_event(event)
            case RuleChange():
                if self.planner is not None:
                    self.cache_sync.on_rules_changed(event)
            case SourceChanged(ref):
                self.definition.schedule.on_source_changed(ref)
            case CacheSynced() | KindsChanged():
                if is_home:
                    self._on_cluster_event(event)
            case _:
                assert_never(event)

    def _on_cluster_event(
        self, event: CacheSynced | KindsChanged | retry_triggers.RetryTrigger | ClusterStateChanged
    ) -> None:
        """Handle an event in the cluster of the objects."""
        match event:
            case CacheSynced(kind):
                if self.cache_sync.waits_for(kind):
                    self.cache_sync.check_synced()
            case retry_triggers.RetryTrigger():
                self.results.expedite(event)
            case ClusterStateChanged():
                self.definition.schedule.request_now()
            case KindsChanged():
                self._on_kinds()
            case _:
                assert_never(event)

    def _on_kinds(self) -> None:
        """Retry steps that a new kind may allow, and compile the definition again if a kind was added or removed."""
        planner = self.planner
        self.results.expedite(retry_triggers.KINDS)
        if planner is not None:
            self.cache_sync.on_kinds_changed()
        # A compilation in progress may have started before the kind was added or removed.
        is_compiling = self.definition.schedule.is_running
        if is_compiling or self.is_waiting_for_kinds or (planner is not None and planner.has_lost_kinds()):
            self.definition.schedule.request()
            self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    @property
    def is_unsettled(self) -> bool:
        """Whether the Stack may wait for a kind or a retry; checking this is cheap."""
        planner = self.planner
        if planner is None or self.is_refused:
            return self.is_refused
        is_waiting = bool(planner.requeues or planner.by_state[ResourceState.WAITING])
        return is_waiting or any(not each.is_ready for each in planner.externals.values())

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
        return self.is_refused or (self.planner is not None and self.planner.is_waiting_for_kinds)

    def find_idle_kinds(self) -> Collection[Kind] | None:
        """Return the kinds that the state of an idle Stack depends on, or None if it is not idle."""
        planner, now = self.planner, self._services.clock.monotonic()
        is_busy = (
            self._tasks.has_any
            or self._inquiries.is_waiting
            or self.is_faulty
            or self._released.is_busy
            or self.reports.has_unproven
            or self._detached.has_any
            or not self._checks.is_idle
        )
        if planner is None or is_busy or not (is_idle(planner) and self.definition.is_idle):
            return None
        is_replaceable = self.memory.is_replaceable(now) and self.cache_sync.is_synced
        return self.cache_sync.find_required_watches() if is_replaceable else None

    def take_step(self, key: str) -> Step | None:
        """Return the current step for that key and count it as in flight."""
        if self.planner is None or key in self.memory.in_flight:
            return None
        if self._is_held:
            # A status event that arrives late may hold the Stack between two reconciles, unnoticed by both.
            self._was_held = True
            return None
        is_removal = isinstance(self.planner.ready_steps.get(key), Delete | DeletePart | Release)
        if is_removal and self._may_be_named():
            # The newer spec that is being processed may name the object, so do not delete it yet.
            self._was_held = True
            return None
        step = self.planner.take_step(key)
        if step is None and is_removal:
            # A resource names the object again, so plan again.
            self._services.queue.enqueue(self.uid, key)
        if step is None or not self.results.begin(key, step):
            return None
        if (turnover := self.planner.find_turnover(step)) is not None:
            self.memory.governor.count(turnover, now=self._services.clock.monotonic(), backoff=self.results.backoff)
        self._checks.invalidate()
        return step

    def _may_be_named(self) -> bool:
        """Return whether a newer spec, which may name any object, is not read yet."""
        stack = self._services.management_cluster.find_stack(self.uid)
        return stack is not None and not stack.deleting and not self.definition.is_current(stack)

    def is_repeating(self, step: Apply) -> bool:
        """Whether the apply repeats one that was undone, so that its cause is read before it.

        The writer that undoes a repair has a condition of its own.
        """
        return not step.lost and self.memory.governor.is_repeating(step.resource)

    def finish_step(self, key: str, step: Step, result: step_execution.StepResult) -> None:
        """Record the result of a step and enqueue the resources it affects."""
        self.results.record(key, step, result)
        self.reports.note_result(step, result, self.planner)
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
        self._stop_timer()
        self._supersession.clear()
        self._tasks.cancel()
        self._services.relatives.unregister(self.uid)
        self._services.management_cluster.follow_sources(self.uid, ())
        self._reads.close()
        self.definition.cluster.close()
        self.definition.planner.close()

    def unload(self) -> None:
        """Release everything at once: the parts refer to each other through this object."""
        self.close()
        vars(self).clear()

    def _find_planner(self, stack: StackObject) -> StackPlanner | None:
        """Return the planner. Without a definition, there is one only while the Stack is suspended."""
        if self.planner is None or self.planner.blueprint.is_unknown:
            definition = self.definition
            # Without a definition, the objects of a suspended Stack are still suspended.
            if definition.blueprint is not None or not (definition.is_suspendable and definition.is_suspended):
                self.planner = None
            elif self.planner is None:
                self._install(stack)
        return self.planner

    def _install(self, stack: StackObject) -> None:
        """Create the planner for the accepted blueprint, or, without one, a planner that can only suspend."""
        blueprint = self.definition.blueprint or revision_builder.UNKNOWN
        self.memory.reset_for_target(blueprint.resources)
        link = self._services.find_link(self.uid)
        is_same_cluster = self.planner is not None and self.planner.kinds.served is link.cluster.kinds
        if is_same_cluster and self.cache_sync.is_synced and self._update_planner(stack, blueprint):
            return
        self.cache_sync.start()
        self.planner = create_planner(
            stack,
            blueprint,
            services=self._services,
            cache_sync=self.cache_sync,
            plan_input=self._make_plan_input(stack),
            rolling=self._progress.make_rolling_updates(blueprint, before=self.planner),
            removals=self._removals,
        )
        self.cache_sync.refresh()

    def _update_planner(self, stack: StackObject, blueprint: Blueprint) -> bool:
        """Continue with the current planner if only manifests of some resources changed; return whether that was so."""
        planner = self.planner
        if planner is None or stack.deleting or not planner.update_blueprint(blueprint):
            return False
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        return True

    def clear_fault(self, work: str) -> None:
        """Record the success of work that may have failed."""
        if self.faults.clear(work):
            self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _on_error(self, name: str, _error: BaseException) -> None:
        self.faults.note(name)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    async def _accept(self) -> None:
        """Sync the definition. After an internal error, keep the active revision and report the error."""
        if await supervision.contain("accept", self.definition.sync, lambda: False, stack=self.uid):
            return
        delay = self.faults.note(faults.ACCEPT)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        await self.definition.give_up(internal_errors.explain("accept the definition"), delay=delay)
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)

    def _on_success(self, name: str) -> None:
        if name != faults.ACCEPT or self.definition.is_sound:
            self.clear_fault(name)

    def _arm_timer(self, *seconds_left: float) -> None:
        """Wait for the next requeue, or for the first end of `seconds_left`; None does not count."""
        self._stop_timer()
        requeues = self.planner.requeues if self.planner is not None else {}
        next_wake = min(requeues.values(), default=math.inf) - self._services.clock.monotonic()
        delay = min((next_wake, *(each for each in seconds_left if each > 0)))
        if delay < math.inf:
            self._cancel_timer = self._services.clock.call_later(max(0.0, delay), self._enqueue_due)

    def _stop_timer(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None

    def _enqueue_due(self) -> None:
        self._cancel_timer = None
        # Enqueue the Stack even if nothing is due: timers may fire early, and only a reconcile sets the next one.
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        now = self._services.clock.monotonic()
        for key, wake_at in (self.planner.requeues if self.planner is not None else {}).items():
            if wake_at <= now:
                self._services.queue.enqueue(self.uid, key)


class Supersession:
    """Whether the steps of one Stack yield to a newer spec, because its writes would be wasted.

    A rejected or slow newer spec blocks nothing: work on the active revision continues.
    """

    def __init__(self, uid: str, *, services: Services, definition_sync: DefinitionSync) -> None:
        self.is_active = False
        """Whether no step may start."""
        self._uid = uid
        self._services = services
        self._definition_sync = definition_sync
        self._cancel: Callable[[], None] | None = None
        """Cancels the timer that runs from when a newer spec is seen until that spec is accepted or rejected."""

    def update(self, stack: StackObject) -> None:
        """Check before a reconcile whether a newer spec exists."""
        if not self._definition_sync.has_unprocessed_spec(stack):
            self.clear()
        elif self._definition_sync.rejection is not None:
            # The last spec was rejected, so this one may be rejected too.
            self.is_active = False
        elif self._cancel is None:
            self.is_active = True
            self._cancel = self._services.clock.call_later(MAX_HOLD, self._resume)

    def clear(self) -> None:
        """End the supersession."""
        self.is_active = False
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _resume(self) -> None:
        """Resume until the spec is read: an unreadable spec must not stop the work forever."""
        self.is_active = False
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)


def create_planner(  # noqa: PLR0913 -- each is a separate input of the planning
    stack: StackObject,
    blueprint: Blueprint,
    *,
    services: Services,
    cache_sync: CacheSync,
    plan_input: PlanInput,
    rolling: RollingUpdates,
    removals: MemberRemovals,
) -> StackPlanner:
    """Return a planner that has planned nothing. Its kinds follow the watches of `cache_sync`."""
    # The lambda below lives as long as the planner, so it must not reference this state of the Stack, with its spec.
    uid = stack.uid
    link = services.find_link(uid)
    planner_type = BlindPlanner if blueprint.is_unknown else StackPlanner
    return planner_type(
        blueprint=blueprint,
        stack=stack.identity,
        kinds=WatchedKinds(
            served=link.cluster.kinds,
            unsynced=cache_sync.unsynced.keys(),
            denied=cache_sync.denied,
            only_namespace=link.namespace,
            in_namespace_of_stack=() if link.is_remote else services.namespaced_watches,
        ),
        hashes=services.hashes.of_stack(uid),
        rules=link.rules,
        on_error=lambda resource, error: supervision.report("resource", error, stack=uid, resource=resource),
        plan_input=plan_input,
        rolling=rolling,
        removals=removals,
        # An account that can read the kubeconfig can also read everything that the kubeconfig gives access to.
        access=None if link.is_remote else services.read_rights.of(uid),
    )


def is_idle(planner: StackPlanner) -> bool:
    """Whether the target is reached without anything to report, no timer runs, and the plan is cheap to rebuild."""
    return (
        planner.is_complete
        and not planner.is_suspended
        and not planner.requeues
        and not planner.preserved
        and not planner.withheld
        # Without a reconciler, changes of external objects would be missed.
        and not planner.blueprint.externals
        and not any(planner.conditions.by_type.values())
        and len(planner.blueprint.resources) <= MAX_UNLOADED_RESOURCES
    )
