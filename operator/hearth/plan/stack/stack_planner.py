"""Planner of one Stack: the status and the next step of every resource, updated incrementally.

The planner is a function of the blueprint, the children and the in-memory state: a new planner from these has the same
result, which the tests check. So losing it loses nothing. It performs no I/O; the engine executes its steps.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hearth.model.child import UNPROVEN, Child
from hearth.model.kinds import Kind, Kinds
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import EnvironmentRule
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import removal, resource_planner, suspend_object
from hearth.plan.retry.attempt_ids import RemovalAttempt
from hearth.plan.retry.backoff import Attempt
from hearth.plan.stack.cleanup import ObsoleteChildren, incarnation_key
from hearth.plan.stack.cleanup_policy import CleanupPolicy
from hearth.plan.stack.deletion_guard import DeletionGuard
from hearth.plan.stack.suspend_planner import SuspendPlanner
from hearth.plan.stack.usage_index import UsageIndex
from hearth.plan.state import internal_errors
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.healing import HealingPolicy
from hearth.plan.state.internal_errors import OnError
from hearth.plan.state.memory import InMemoryState, ObservedChildren
from hearth.plan.state.memory_updates import (
    AttemptFailed,
    AttemptObsolete,
    ManagerUnknown,
    MemoryUpdate,
    ResourceReady,
)
from hearth.plan.state.resource_conditions import ConditionAggregator
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.steps import Step
from hearth.template.blueprint import Blueprint, StackIdentity

NOTHING_DENIED: Mapping[Kind, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """Result of one refresh, apart from the statuses and steps that the planner keeps."""

    planned: list[str] = field(default_factory=list)
    """The keys of the newly planned steps."""
    newly_failed: list[str] = field(default_factory=list)
    """The resources with a terminal failure that is not counted yet."""
    memory_updates: list[MemoryUpdate] = field(default_factory=list)
    """The changes of the in-memory state, in order."""


class StackPlanner:
    """Statuses and steps of one Stack under one blueprint."""

    suspension: SuspendPlanner | None = None
    """Set while the Stack is suspended: the planner then plans nothing else."""

    def __init__(  # noqa: PLR0913 -- each is a separate input of the planning
        self,
        *,
        blueprint: Blueprint,
        stack: StackIdentity,
        kinds: Kinds,
        hashes: HashFunction,
        unwatched: Collection[Kind],
        rules: HealthRules,
        only_namespace: str = "",
        on_error: OnError = internal_errors.ignore_nothing,
        denied: Mapping[Kind, str] = NOTHING_DENIED,
    ) -> None:
        """Create an empty planner; `refresh` with every name fills it.

        unwatched: the kinds with incomplete caches, where a missing entry does not mean a missing object; the caller may
        remove kinds later, because the planner reads the collection at each use; rules: health by kind;
        only_namespace: the only namespace for children besides cluster scope, "" for any; on_error: receives an
        unexpected exception and its resource, while other resources continue; denied: the kinds that the operator may
        not watch, with the API server's message; also read at each use.
        """
        self.blueprint = blueprint
        self.statuses: dict[str, ResourceStatus] = {}
        self.by_state: dict[ResourceState, dict[str, None]] = {state: {} for state in ResourceState}
        self.ready_steps: dict[str, Step] = {}
        """The steps to execute now, by key."""
        self.requeues: dict[str, float] = {}
        """Monotonic seconds of the next refresh, by key."""
        self.cleanup = ObsoleteChildren()
        self.preserved: dict[str, Child] = {}
        """The obsolete objects that cleanup preserves, by UID."""
        self.retention = CleanupPolicy()
        """Policy for obsolete objects, see `set_cleanup_policy`."""
        self.conditions = ConditionAggregator()
        self.stopped: dict[str, str] = {}
        """The hook at which a resource stops, by resource."""
        self.deletion_guard = DeletionGuard(desired=blueprint.resources)
        self._idle: tuple[EnvironmentRule, ...] = ()
        """The rules that match no resource of the blueprint."""
        self.unsynced = unwatched
        self._resolver = resource_planner.ResourcePlanner(
            blueprint=blueprint,
            stack=stack,
            kinds=kinds,
            hashes=hashes,
            unwatched=unwatched,
            only_namespace=only_namespace,
            rules=rules,
            on_error=on_error,
            denied=denied,
        )
        self.unhealthy = self._resolver.ward
        self._obsolete: dict[str, tuple[Child, ...]] = {}
        self._users = UsageIndex()
        self._order = tuple(blueprint.resources)
        self._result = RefreshResult()
        self._was = (False, False)
        """Whether all resources were ready, and whether any had failed, at the last refresh of the cleanup."""

    @property
    def denied(self) -> Mapping[Kind, str]:
        """Return the kinds that the operator may not watch, with the API server's message."""
        return self._resolver.denied

    @property
    def is_ready(self) -> bool:
        """Return whether every resource of the blueprint is ready."""
        return len(self.by_state[ResourceState.READY]) == len(self.blueprint.resources)

    @property
    def is_complete(self) -> bool:
        """Return whether the target is complete: all resources ready and no obsolete object left; or all suspended."""
        if self.suspension is not None:
            return self.suspension.is_complete and not self.unsynced
        is_clean = not self.cleanup.children and not self.unsynced
        return self.is_ready and is_clean and not self.find_post_delete_stops()

    @property
    def is_suspended(self) -> bool:
        """Return whether the Stack is suspended, so that only suspend steps are planned."""
        return self.suspension is not None

    def has_lost_kinds(self) -> bool:
        """Return whether the API server no longer serves the kind of some resource. Checks all resources."""
        return self._resolver.has_lost_kinds()

    def find_desired(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object of a resource, if it is known. child: the current object of the resource."""
        return self._resolver.find_desired(name, child)

    @property
    def is_waiting_for_kinds(self) -> bool:
        """Return whether a resource waits until the API server serves its kind or the operator watches it."""
        waiting = self.by_state[ResourceState.WAITING]
        return any(self.statuses[name].cause is Cause.KIND_NOT_AVAILABLE for name in waiting)

    def find_evaluating(self) -> set[str]:
        """Find the resources that only wait for an evaluation."""
        waiting = self.by_state[ResourceState.WAITING]
        return {name for name in waiting if self.statuses[name].cause is Cause.EVALUATING}

    def has_failed(self, memory: InMemoryState) -> bool:
        """Return whether a resource or a deletion has failed, so that the Stack is Failed."""
        if self.by_state[ResourceState.FAILED] or self.deletion_guard.denied:
            return True
        return any(attempt.is_exhausted for _, attempt in self.find_failed_deletions(memory))

    def set_cleanup_policy(self, retention: CleanupPolicy) -> None:
        """Change the cleanup policy. The next refresh plans the deletions that it allows."""
        self.retention = retention
        self.cleanup.changed.update(self.cleanup.children)

    def set_healing(self, healing: HealingPolicy, *, is_completed: bool) -> set[str]:
        """Change the healing policy; return the names to refresh because of that."""
        if (self.unhealthy.healing, self.unhealthy.is_completed) == (healing, is_completed):
            return set()
        self.unhealthy.healing, self.unhealthy.is_completed = healing, is_completed
        return {*self.by_state[ResourceState.FAILED], *self.by_state[ResourceState.RETRYING], *self.unhealthy.names}

    def set_paused(self, *, is_paused: bool, is_completed: bool) -> bool:
        """Set whether steps may start; return whether that changed, so that all names need a refresh.

        is_completed: whether the target was completed before.
        """
        resolver = self._resolver
        before = (resolver.is_paused, resolver.is_at_rest)
        resolver.is_paused, resolver.is_at_rest = is_paused, is_paused and is_completed
        return before != (resolver.is_paused, resolver.is_at_rest)

    def set_suspended(self, *, is_suspended: bool) -> bool:
        """Set whether the Stack is suspended; return whether that changed, so that all names need a refresh."""
        if is_suspended == (self.suspension is not None):
            return False
        resolver = self._resolver
        self.suspension = (
            SuspendPlanner(rules=resolver.rules, records=resolver.records, on_error=resolver.on_error)
            if is_suspended
            else None
        )
        self.ready_steps.clear()
        self.requeues.clear()
        self.cleanup.changed.update(self.cleanup.children)
        return True

    @property
    def environment(self) -> ActiveEnvironment:
        """Return the environment that restricts the steps, see `set_environment`."""
        return self.deletion_guard.gates

    def set_environment(self, gates: ActiveEnvironment) -> None:
        """Change the environment. The cleanup follows by itself; resources follow at their next refresh."""
        if gates.rules != self.environment.rules:
            nested = [name for name, resource in self.blueprint.resources.items() if resource.is_stack]
            self._idle = tuple(gates.rules.find_unmatched(self.blueprint.resources, nested=nested))
        self._resolver.gates = self.deletion_guard.gates = gates
        self.cleanup.changed.update(self.cleanup.children)

    def find_idle_rules(self) -> Iterator[EnvironmentRule]:
        """Find the rules that match no resource of the blueprint, and no resource that still has an object."""
        return (rule for rule in self._idle if not rule.finds_any(self._obsolete))

    def find_post_delete_stops(self) -> list[str]:
        """Find the deleted resources that still stop at their post-delete hook."""
        return list(self.deletion_guard.find_parted(self._obsolete))

    def all_names(self, children: ObservedChildren) -> set[str]:
        """Return every name that a full refresh must include."""
        return {*self.blueprint.resources, *children.resources(), *self._obsolete}

    def refresh(
        self, dirty: Iterable[str], *, children: ObservedChildren, memory: InMemoryState, now: float
    ) -> RefreshResult:
        """Plan the resources and obsolete objects in `dirty` again, and all that depend on them.

        dirty: resource names (also from labels, even if unknown to the blueprint) and keys of steps; memory: only read.
        """
        result = self._result = RefreshResult()
        if self.suspension is not None:
            self._refresh_suspension(self.suspension, dirty, children=children, memory=memory, now=now)
            return result
        self._refresh_resources(dirty, children=children, memory=memory, now=now)
        found = (self.is_ready, bool(self.by_state[ResourceState.FAILED]))
        if found != self._was:
            self._was = found
            self.cleanup.changed.update(self.cleanup.children)
        self.cleanup.changed.update(key for key in dirty if key in self.cleanup.children)
        self._refresh_cleanup(memory=memory, now=now)
        return result

    def take_step(self, key: str) -> Step | None:
        """Remove and return the step to execute now under that key."""
        return self.ready_steps.pop(key, None)

    def _refresh_resources(
        self, dirty: Iterable[str], *, children: ObservedChildren, memory: InMemoryState, now: float
    ) -> None:
        self._resolver.unproven.update(children.of(UNPROVEN))
        queue: list[int] = []
        queued: set[int] = set()
        for name in dirty:
            resource = self.blueprint.resources.get(name)
            if resource is None:
                self._sort_out(name, chosen=None, children=children.of(name))
            elif resource.index not in queued:
                queued.add(resource.index)
                heapq.heappush(queue, resource.index)
        while queue:
            name = self._order[heapq.heappop(queue)]
            before, found = self.statuses.get(name), children.of(name)
            standing = self._pass_on(self._resolver.plan(name, self.statuses, found, memory=memory, now=now))
            self._record(name, standing, memory)
            # The planner deletes no object of a resource that it cannot assess.
            is_judged = standing.cause is not Cause.INTERNAL_ERROR
            self._sort_out(name, chosen=standing.child, children=found if is_judged else ())
            self._claim(standing.child, children)
            if self.unhealthy.update(name, standing):
                for other in self.unhealthy.names:
                    heapq.heappush(queue, self.blueprint.resources[other].index)
            if before is not None and before.fingerprint == standing.fingerprint:
                continue
            for dependent in self.blueprint.resources[name].dependents:
                index = self.blueprint.resources[dependent].index
                if index not in queued:
                    queued.add(index)
                    heapq.heappush(queue, index)

    def _refresh_suspension(
        self,
        suspension: SuspendPlanner,
        dirty: Iterable[str],
        *,
        children: ObservedChildren,
        memory: InMemoryState,
        now: float,
    ) -> None:
        """Plan only suspend steps. No resource then counts as ready for its dependents."""
        for view in suspension.refresh(dirty, children=children, memory=memory, now=now):
            is_wanted = view.name in self.blueprint.resources
            self._sort_out(view.name, chosen=view.standing.child if is_wanted else None, children=view.children)
            if is_wanted:
                self._note(view.name, view.standing)
            for uid, (step, wake_at) in view.plans.items():
                self.deletion_guard.filter(uid, None)
                self._plan(uid, step=step, wake_at=wake_at)
        self._was = (False, False)

    def _pass_on(self, standing: ResourceStatus) -> ResourceStatus:
        """Return the status without its updates of the in-memory state, which become part of the result."""
        if not standing.memory_updates:
            return standing
        self._result.memory_updates.extend(standing.memory_updates)
        return dataclasses.replace(standing, memory_updates=())

    def _record(self, name: str, standing: ResourceStatus, memory: InMemoryState) -> None:
        self._plan_restoring(self.statuses.get(name), standing)
        self._note(name, standing)
        if standing.is_ready and standing.child is not None and memory.is_news(name, standing.child.uid):
            self._result.memory_updates.append(ResourceReady(resource=name, uid=standing.child.uid))
        if standing.is_terminal and standing.child is not None and standing.child.uid not in memory.counted_failures:
            self._result.newly_failed.append(name)
        self._plan(name, step=standing.step, wake_at=standing.requeue_at)

    def _plan_restoring(self, before: ResourceStatus | None, after: ResourceStatus) -> None:
        """Plan the restore step of an object under the UID of the object."""
        if before is not None and before.restore_step is not None and before.child is not None:
            self._plan(before.child.uid, step=None, wake_at=None)
        if after.restore_step is not None and after.child is not None:
            self._plan(after.child.uid, step=after.restore_step, wake_at=None)

    def _note(self, name: str, standing: ResourceStatus) -> None:
        """Update all indexes with the status of a resource."""
        before = self.statuses.get(name)
        if before is None or before.state is not standing.state:
            if before is not None:
                del self.by_state[before.state][name]
            self.by_state[standing.state][name] = None
        if standing.stopped_at:
            self.stopped[name] = standing.stopped_at
        else:
            self.stopped.pop(name, None)
        self.statuses[name] = standing
        for left in self._users.update(name, before, standing):
            self.cleanup.changed.update(self.cleanup.at(left))
        if before is None or before.is_ready != standing.is_ready:
            self.cleanup.changed.update(child.uid for child in self._obsolete.get(name, ()))
        if standing.conditions or (before is not None and before.conditions):
            self.conditions.replace(name, before.conditions if before is not None else (), standing.conditions)
            self._result.memory_updates.extend(
                ManagerUnknown(resource=name, query=remark.query)
                for remark in standing.conditions
                if remark.query is not None
            )

    def _plan(self, key: str, *, step: Step | None, wake_at: float | None) -> None:
        if step is not None:
            self.ready_steps[key] = step
            self._result.planned.append(key)
        else:
            self.ready_steps.pop(key, None)
        if wake_at is not None:
            self.requeues[key] = wake_at
        else:
            self.requeues.pop(key, None)

    def _sort_out(self, name: str, *, chosen: Child | None, children: tuple[Child, ...]) -> None:
        """Update which objects with a resource's label are obsolete."""
        before = self._obsolete.get(name, ())
        after = tuple(child for child in children if child.is_identified and child is not chosen)
        if self.retention.preserves_data:
            after = self._spare(name, after)
        if before == after:
            return
        self.cleanup.replace(before, after)
        if after:
            self._obsolete[name] = after
        else:
            self._obsolete.pop(name, None)

    def _spare(self, name: str, obsolete: tuple[Child, ...]) -> tuple[Child, ...]:
        """Return the obsolete objects of a resource, without those that cleanup preserves."""
        self.preserved = {uid: child for uid, child in self.preserved.items() if child.resource != name}
        self.preserved.update({child.uid: child for child in obsolete if self.retention.preserves(child)})
        return tuple(child for child in obsolete if child.uid not in self.preserved)

    def _claim(self, child: Child | None, children: ObservedChildren) -> None:
        """Exclude an object from the cleanup that belonged to another resource until it was relabeled."""
        obsolete = self.cleanup.children.get(child.uid) if child is not None else None
        if obsolete is not None:
            standing = self.statuses.get(obsolete.resource)
            chosen = standing.child if standing is not None else None
            self._sort_out(obsolete.resource, chosen=chosen, children=children.of(obsolete.resource))

    def _refresh_cleanup(self, *, memory: InMemoryState, now: float) -> None:
        changed, self.cleanup.changed = self.cleanup.changed, set()
        for uid in changed:
            child = self.cleanup.children.get(uid)
            try:
                self._refresh_obsolete(uid, child, memory=memory, now=now)
            except Exception as error:  # noqa: BLE001 -- the other objects continue; `on_error` reports it
                resource, ref = (child.resource, str(child.ref)) if child is not None else ("", uid)
                self._resolver.on_error(resource, error)
                failed = internal_errors.make_attempt(
                    memory.attempts.get(uid), subject=RemovalAttempt(uid=uid), what=f"delete {ref}", now=now
                )
                self._result.memory_updates.append(AttemptFailed(key=uid, attempt=failed))
                self._plan(uid, step=None, wake_at=failed.retry_at)

    def _refresh_obsolete(self, uid: str, child: Child | None, *, memory: InMemoryState, now: float) -> None:
        attempt = memory.attempts.get(uid)
        may_go = child is not None and uid not in memory.in_flight and self._may_go(child, memory)
        leave = removal.plan_removal(child, self.blueprint) if child is not None and may_go else None
        step: Step | None = self.deletion_guard.filter(uid, leave) or self._restore(child, memory)
        if step is None:
            if child is not None and child.deleting and uid in memory.attempts:
                # The deletion happened, regardless of the response.
                self._result.memory_updates.append(AttemptObsolete(key=uid))
            self._plan(uid, step=None, wake_at=None)
        elif attempt is not None and attempt.retry_at > now:
            self._plan(uid, step=None, wake_at=attempt.retry_at)
        else:
            self._plan(uid, step=step, wake_at=None)

    def _restore(self, child: Child | None, memory: InMemoryState) -> Step | None:
        """Make the step that resumes a suspended obsolete object while a resource has failed."""
        if child is None or child.deleting or child.uid in memory.in_flight or not self.by_state[ResourceState.FAILED]:
            return None
        records = self._resolver.records
        return suspend_object.restore(child, records) if records.is_suspended_now(child) else None

    def _may_go(self, child: Child, memory: InMemoryState) -> bool:
        """Return whether the operator may delete an obsolete object now."""
        if not self.cleanup.may_delete(child.uid) or self._users.is_used(incarnation_key(child)):
            return False
        if self.deletion_guard.is_required(child.resource, self._obsolete) or memory.is_being_used(
            incarnation_key(child)
        ):
            return False
        if self.is_ready or self.retention.is_waived:
            return True
        standing = self.statuses.get(child.resource)
        return not self._is_kept(child) and (standing is None or standing.is_ready)

    def _is_kept(self, child: Child) -> bool:
        """Return whether a completed revision needs that object."""
        standing = self.statuses.get(child.resource)
        chosen = (standing.child,) if standing is not None and standing.child is not None else ()
        present = (*self._obsolete.get(child.resource, ()), *chosen)
        return self.retention.protects(child, oldest=min(each.incarnation for each in present))

    def find_deferred(self) -> list[Child]:
        """Find the obsolete objects whose deletion waits until every resource is ready. Checks all of them."""
        return [] if self.is_ready else [child for child in self.cleanup.children.values() if self._is_kept(child)]

    def find_failed_deletions(self, memory: InMemoryState) -> list[tuple[Child, Attempt]]:
        """Find the obsolete objects with a failed deletion, suspend or restore, with the attempts; in a stable order."""
        children = self.cleanup.children
        found = ((children[key], attempt) for key, attempt in memory.attempts.items() if key in children)
        failed = [(child, attempt) for child, attempt in found if self._is_meant(child.uid, attempt, memory)]
        return sorted(failed, key=lambda pair: (pair[0].resource, pair[0].name))

    def _is_meant(self, uid: str, attempt: Attempt, memory: InMemoryState) -> bool:
        """Return whether the failed step is still needed. A suspend may have succeeded without a response."""
        if attempt.attempt_id == RemovalAttempt(uid=uid):
            return self.suspension is None
        return uid in self.requeues or uid in self.ready_steps or uid in memory.in_flight
