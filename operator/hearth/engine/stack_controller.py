"""Controller of all Stacks: reconciles enqueued Stacks one at a time and passes their steps to the executor."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hearth import supervision
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.health_marks.health_mark_controller import HealthMarkController
from hearth.engine.health_rule_loader import HealthRuleLoader
from hearth.engine.ports import Observer
from hearth.engine.services import Services
from hearth.engine.snapshots.snapshot_controller import SnapshotController
from hearth.engine.stack import faults
from hearth.engine.stack.loaded_stacks import START_LASTS, StartLimiter, UnloadedStack, UnloadedStacks, UnsettledStacks
from hearth.engine.stack.nesting import Nesting
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.status.status_writer import StatusWriter
from hearth.engine.work_queue import Broadcast, DirtyItem, DirtyScope, SourceChanged
from hearth.engine.writes import approved_writes, step_execution, undone_changes
from hearth.engine.writes.step_execution import StepDone, StepResult
from hearth.engine.writes.write_lanes import WriteLane, WriteLanes
from hearth.model import names
from hearth.plan.retry.backoff import ServerResponse, StepFailure
from hearth.plan.state.condition_types import ClusterReason
from hearth.plan.state.steps import Apply, Step

if TYPE_CHECKING:
    from hearth.engine.stack_definitions.definition_controller import StackDefinitionController

CONCURRENCY = 32
"""Maximum writes in flight. This number saturates both cores of a small API server; more would only wait there."""
STATUS_INTERVAL = 1.0
"""Seconds between two writes of one Stack's status."""
RETRY_UNKNOWN = 5.0
"""Seconds until the retry of a Stack without a reconciler."""
RECONCILES_PER_YIELD = 16
"""Reconciles before the loop yields to other tasks."""
SECONDS_PER_YIELD = 0.01
"""Maximum seconds before the loop yields. The first reconcile of thousands of resources takes longer than a thousand
small ones."""
LATEST = ""
"""Used instead of a step key: the latest reconcile of the Stack, which its status reports."""


class StackController:
    """The controller of all Stacks of one management cluster."""

    def __init__(
        self,
        *,
        services: Services,
        observer: Observer,
        concurrency: int = CONCURRENCY,
        status_interval: float = STATUS_INTERVAL,
    ) -> None:
        """concurrency: maximum writes of children in flight; status_interval: seconds."""
        self._services = services
        self._builder = RevisionBuilder(
            management_cluster=services.management_cluster,
            cluster=services.workload_cluster,
            hashes=services.hashes,
            evaluations=services.evaluations,
            tenancy=services.tenancy,
            find_link=services.find_link,
        )
        self._observer = observer
        self._planned_writes = PlannedWrites(observer, now=services.clock.monotonic)
        self._reconcilers: dict[str, StackReconciler] = {}
        self._unloaded = UnloadedStacks(services, unload=self._unload)
        self._starts = StartLimiter(
            concurrency=concurrency, queue=services.queue, clock=services.clock, is_in_line=self._is_in_line
        )
        self._lanes = WriteLanes(
            concurrency=concurrency,
            clock=services.clock,
            take_step=self._execute_step,
            on_start=observer.on_dequeue,
            on_error=self._note_broken_step,
        )
        self._status_writer = StatusWriter(
            services,
            find_reconciler=self._reconcilers.get,
            interval=status_interval,
            on_write=self._on_status_write,
            on_settled=self._unloaded.postpone,
        )
        self._health_marks = HealthMarkController(
            services, find_reconciler=self._find_reconciler, on_limit=observer.on_limit
        )
        self._snapshots = SnapshotController(
            services, find_reconciler=self._find_reconciler, on_limit=observer.on_limit
        )
        self.definitions = make_definitions(services, self._builder)
        """The controller of StackDefinitions, or None if this operator serves none."""
        self._nesting = Nesting(services=services, on_limit=observer.on_limit)
        self._user_rules = HealthRuleLoader(services)
        self._loop: asyncio.Task[None] | None = None
        self._unsettled = UnsettledStacks(services, on_clusters=self._lanes.retain)

    async def start(self) -> None:
        """Start the controller and enqueue every known Stack."""
        await self._user_rules.start()
        self._lanes.start()
        self._status_writer.start()
        self._health_marks.start()
        self._snapshots.start()
        if self.definitions is not None:
            await self.definitions.start()
        for uid in self._services.management_cluster.stacks():
            self._services.queue.enqueue(uid, DirtyScope.ALL_RESOURCES)
        self._loop = supervision.spawn_forever("passes", self._run)
        self._unsettled.start()

    async def stop(self) -> None:
        """Stop at once. The next start finishes any interrupted work."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await self._unsettled.stop()
        self._unloaded.stop()
        self._user_rules.stop()
        await self._services.read_rights.stop()
        await self._lanes.stop()
        await self._status_writer.stop()
        await self._health_marks.stop()
        await self._snapshots.stop()
        if self.definitions is not None:
            await self.definitions.stop()
        for each in self._reconcilers.values():
            each.close()
        self._reconcilers.clear()

    async def _run(self) -> None:
        queue, passes, seconds = self._services.queue, 0, 0.0
        while True:
            for event in queue.take_broadcasts():
                self._broadcast(event)
            supervision.guard("health_mark", self._health_marks.enqueue)(queue.take_health_marks())
            supervision.guard("stack_snapshot", self._snapshots.enqueue)(queue.take_stack_snapshots())
            taken = queue.get()
            if taken is None:
                await queue.wait()
                continue
            seconds += self._reconcile(*taken)
            passes += 1
            if passes >= RECONCILES_PER_YIELD or seconds >= SECONDS_PER_YIELD:
                await asyncio.sleep(0)
                passes, seconds = 0, 0.0

    def _broadcast(self, event: Broadcast) -> None:
        """Send an event that names no single Stack to all reconcilers."""
        if isinstance(event, SourceChanged):
            supervision.guard("broadcast", self._user_rules.on_source_changed)(event.ref)
        if event == self._services.read_rights.trigger:
            self._services.read_rights.on_change()
        supervision.guard("broadcast", self._unloaded.handle)(event)
        if self.definitions is not None:
            supervision.guard("broadcast", self.definitions.on_broadcast)(event)
        for uid, each in list(self._reconcilers.items()):
            supervision.attempt(
                "broadcast",
                functools.partial(each.on_broadcast, event),
                functools.partial(self._note_lost_broadcast, uid, each),
                stack=uid,
            )

    def _note_lost_broadcast(self, uid: str, each: StackReconciler) -> None:
        # The lost event may concern the definition.
        each.definition.schedule.request()
        each.faults.note(faults.BROADCAST)
        self._services.queue.enqueue(uid, DirtyScope.STACK)

    def _reconcile(self, uid: str, dirty: set[DirtyItem], since: float) -> float:
        """Reconcile one Stack and return the seconds taken; an error affects no other Stack.

        dirty: the parts that became dirty since then.
        """
        return supervision.attempt(
            "pass", lambda: self._reconcile_stack(uid, dirty, since), lambda: self._note_broken_pass(uid), stack=uid
        )

    def _reconcile_stack(self, uid: str, dirty: set[DirtyItem], since: float) -> float:
        stack = self._services.management_cluster.find_stack(uid)
        if stack is None:
            self._forget(uid)
            return 0.0
        if stack.deleting and names.FINALIZER not in stack.finalizers:
            # The operator is done with the Stack: no child was ever written, or all are deleted.
            self._forget(uid)
            return 0.0
        self._health_marks.on_reconcile(stack, dirty)
        self._snapshots.on_reconcile(stack)
        if self.definitions is not None and stack.definition:
            self.definitions.on_instance(stack)
        each = self._reconcilers.get(uid) or self._load(stack)
        if each is None:
            return 0.0
        self._starts.begin(uid)
        self._unloaded.postpone(uid)
        self._services.evaluations.begin(uid)
        trace = self._observer.begin_reconcile()
        started = self._services.clock.monotonic()
        planned = each.reconcile(stack, dirty)
        self._planned_writes.on_planned(uid, planned, since=since, trace=trace)
        self._lanes.enqueue(self._services.find_link(uid).key, uid, planned, namespace=stack.namespace)
        self._starts.weigh(uid, len(planned))
        if each.is_known and not self._lanes.home.executor.is_queued(uid):
            self._starts.finish(uid)
        self._unsettled.note(uid, each)
        seconds = self._services.clock.monotonic() - started
        self._observer.on_reconcile(result="success", seconds=seconds, stack=stack)
        self._status_writer.request(uid, is_urgent=each.is_status_urgent)
        return seconds

    def _on_status_write(self, uid: str) -> None:
        self._planned_writes.on_status_write(uid)
        if self.definitions is not None:
            self.definitions.on_status(uid)

    def _find_reconciler(self, uid: str) -> StackReconciler | None:
        """Return the reconciler of a Stack. If it is unloaded, the next reconcile loads it."""
        if uid in self._unloaded:
            self._services.queue.enqueue(uid, DirtyScope.STACK)
        return self._reconcilers.get(uid)

    def _unload(self, uid: str) -> UnloadedStack | None:
        """Discard the reconciler of an idle Stack."""
        each, stack = self._reconcilers.get(uid), self._services.management_cluster.find_stack(uid)
        if each is None or stack is None or not self._status_writer.is_idle(uid):
            return None
        kinds = each.find_idle_kinds()
        if kinds is None:
            return None
        del self._reconcilers[uid]
        self._unsettled.forget(uid)
        self._status_writer.forget(uid)
        known = each.definition.resources.known
        each.unload()
        self._services.relatives.unregister(uid, idle_since=stack.spec_version)
        return UnloadedStack(stack, frozenset(kinds), known)

    def _load(self, stack: StackObject) -> StackReconciler | None:
        """Create the reconciler of a Stack. Returns None if others must start first."""
        before = self._unloaded.load(stack.uid)
        if before is None and not self._may_start(stack):
            return None
        each = StackReconciler(stack.uid, services=self._services, builder=self._builder)
        if before is not None:
            # Another writer may have changed the live status.
            each.definition.resume(before.stack, before.names)
        self._reconcilers[stack.uid] = each
        return each

    def _may_start(self, stack: StackObject) -> bool:
        """Return whether to reconcile a Stack for the first time now, or when others have started."""
        is_remote = stack.kubeconfig is not None
        return is_remote or stack.deleting or self._starts.admit(stack.uid, stack.namespace)

    def _is_in_line(self, uid: str) -> bool:
        """Return whether a Stack that starts waits for others: for its definition to be read, or for its first writes."""
        each = self._reconcilers.get(uid)
        if each is None:
            return False
        if not each.is_known:
            return self._builder.slots.locked()
        return self._lanes.home.executor.is_in_line(uid, seconds=START_LASTS)

    def _note_broken_pass(self, uid: str) -> float:
        """Report the error in the Stack's status and schedule a retry.

        The returned seconds make the loop yield to other tasks first.
        """
        self._observer.on_reconcile(result="error", seconds=0.0)
        each = self._reconcilers.get(uid)
        if each is None:
            self._services.enqueue_after(RETRY_UNKNOWN, uid, DirtyScope.ALL_RESOURCES)
        else:
            self._unsettled.add(uid, each)
            each.faults.note(faults.PASS)
            self._status_writer.request(uid)
        return SECONDS_PER_YIELD

    def _note_broken_step(self, uid: str, key: str) -> None:
        """Handle a step whose result could not be recorded: enqueue the whole Stack."""
        each = self._reconcilers.get(uid)
        if each is not None:
            each.memory.finish(key)
            each.faults.note(faults.STEP)
            self._services.queue.enqueue(uid, DirtyScope.STACK)

    def _forget(self, uid: str) -> None:
        self._starts.finish(uid)
        self._unloaded.forget(uid)
        self._unsettled.forget(uid)
        each = self._reconcilers.pop(uid, None)
        if each is not None:
            each.close()
        self._status_writer.forget(uid)
        self._planned_writes.forget(uid)
        self._services.evaluations.forget(uid)
        self._health_marks.forget(uid)
        self._snapshots.forget(uid)
        self._services.read_rights.forget(uid)
        if self.definitions is not None:
            self.definitions.on_gone(uid)

    async def _execute_step(self, lane: WriteLane, stack_uid: str, key: str) -> None:
        self._starts.take_step(stack_uid)
        if not lane.executor.is_queued(stack_uid):
            self._starts.finish(stack_uid)
        each, stack = self._reconcilers.get(stack_uid), self._services.management_cluster.find_stack(stack_uid)
        step = each.take_step(key) if each is not None and stack is not None else None
        self._planned_writes.on_started(stack_uid, key, is_wanted=step is not None)
        if each is None or stack is None or step is None:
            return
        begun = self._services.clock.monotonic()
        result = await supervision.contain(
            "step",
            lambda: self._execute(each, stack, step),
            lambda: step_execution.explain_internal_error(step),
            stack=stack.uid,
            resource=key,
        )
        each.finish_step(key, step, result)
        executor = lane.executor
        lane.throttle.on_result(step, result, begun=begun, in_flight=executor.in_flight, wake=executor.wake)

    async def _execute(self, each: StackReconciler, stack: StackObject, step: Step) -> StepResult:
        """Execute a step and return its result; for a reported repair, also the values it reverts."""
        executor = step_execution.make_executor(stack, self._services)
        if each.definition.plan_uid:
            approved = each.definition.find_approved_steps(stack)
            restricted = approved_writes.restrict(executor.cluster, approved, stack_uid=stack.uid)
            executor = dataclasses.replace(executor, cluster=restricted)
        remote = self._services.find_link(stack.uid).remote
        cluster, boundary, reverted = executor.cluster, executor.boundary, ""
        if isinstance(step, Apply) and each.reports.take_repair(step, each.planner):
            reverted = await undone_changes.describe_repair(step, cluster=cluster, boundary=boundary)
        if isinstance(step, Apply) and each.is_repeating(step):
            evidence = await undone_changes.describe_repetition(step, cluster=cluster, boundary=boundary)
            each.memory.governor.note_evidence(step.resource, evidence)
        result = self._nesting.refuse(stack, step) or await executor.execute_step(step)
        if isinstance(result, StepDone) and reverted:
            return dataclasses.replace(result, reverted=reverted)
        if remote is not None and isinstance(result, StepFailure) and result.server is ServerResponse.SILENT:
            remote.note_silence()
            return dataclasses.replace(
                result, reason=ClusterReason.UNREACHABLE, message=f"cluster {remote.host}: {result.message}"
            )
        return result

    def find_stalls(self) -> list[str]:
        """Return a sentence per component that has work but makes no progress. Each calls for a process restart."""
        # Only the home cluster counts, because a restart does not help to reach another cluster.
        home = self._lanes.home.executor
        found = (each.find_stall() for each in (home, self._status_writer, self._health_marks, self._snapshots))
        return [stall for stall in found if stall]

    def count_writes(self) -> Mapping[str, float]:
        """Count writes of children: `allowed` in flight, `in_flight` and `queued`."""
        lanes = self._lanes.list_all()
        return {
            "limit": sum(lane.throttle.limit for lane in lanes),
            "in_flight": sum(lane.executor.in_flight for lane in lanes),
            "queued": sum(lane.executor.count_queued() for lane in lanes),
        }


def make_definitions(services: Services, builder: RevisionBuilder) -> StackDefinitionController | None:
    """Make the controller of StackDefinitions. Returns None if this operator serves none."""
    if services.definitions is None:
        return None
    # Imported here, because the schemas of their kinds need a large library.
    from hearth.engine.stack_definitions.definition_controller import StackDefinitionController

    return StackDefinitionController(services, services.definitions, builder=builder, groups=services.definition_groups)


class PlannedWrites:
    """Which event and, if there are traces, which reconcile each step that waits is due to. Knows only the keys of steps."""

    def __init__(self, observer: Observer, *, now: Callable[[], float]) -> None:
        """now: seconds that never jump."""
        self._observer = observer
        self._now = now
        self._since: dict[tuple[str, str], float] = {}
        """The time of the event, by Stack and key."""
        self._traces: dict[str, dict[str, object]] = {}
        """By UID of the Stack, then by key. Empty while traces are off."""

    def on_planned(self, stack_uid: str, keys: Iterable[str], *, since: float, trace: object = None) -> None:
        """Record the steps that a reconcile planned for an event at that monotonic time in seconds.

        A waiting step keeps its earlier time, and the reconcile that planned it first.
        """
        for key in keys:
            self._since.setdefault((stack_uid, key), since)
        if trace is not None:
            traces = self._traces.setdefault(stack_uid, {})
            traces[LATEST] = trace
            for key in keys:
                traces.setdefault(key, trace)

    def on_started(self, stack_uid: str, key: str, *, is_wanted: bool) -> None:
        """Record the start of a step, and assign the requests of this task to the reconcile that planned it.

        is_wanted: whether the step still exists and is written now.
        """
        since = self._since.pop((stack_uid, key), None)
        if is_wanted and since is not None:
            self._observer.on_event_to_write(self._now() - since)
        traces = self._traces.get(stack_uid)
        self._observer.resume_reconcile(traces.pop(key, None) if traces is not None else None)

    def on_status_write(self, stack_uid: str) -> None:
        """Assign the requests of this task to the latest reconcile of the Stack."""
        traces = self._traces.get(stack_uid)
        self._observer.resume_reconcile(traces.get(LATEST) if traces is not None else None)

    def forget(self, stack_uid: str) -> None:
        """Drop the reconciles of a deleted Stack. A step's time is dropped when its turn comes."""
        self._traces.pop(stack_uid, None)
