"""Plans one Stack: the status and the next step of each resource, updated incrementally.

A plan depends only on the blueprint, the children and the in-memory state. A new planner with the same inputs computes
the same plan, and the tests check this.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from hearth.model import members
from hearth.model.child import UNPROVEN, Child
from hearth.model.external_objects import ExternalQuery
from hearth.model.tenancy import Boundary
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import EnvironmentRule, EnvironmentRules
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import blocked_status, definition_warnings, enforcement, resource_planner
from hearth.plan.resource.desired_objects import WantedObjects
from hearth.plan.resource.enforcement import HeldPart
from hearth.plan.retry.backoff import Attempt, RemovalAttempt
from hearth.plan.retry.step_governor import Work, WorkType
from hearth.plan.stack.cleanup_planner import CleanupPlanner, WithheldObject
from hearth.plan.stack.member_removals import MemberRemovals
from hearth.plan.stack.plan_index import ConditionAggregator, FailedResource, PlanIndex, PlanResult
from hearth.plan.stack.suspend_planner import SuspendPlanner
from hearth.plan.state import internal_errors, requirements, steps
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.internal_errors import OnError
from hearth.plan.state.member_growth import MemberGrowth
from hearth.plan.state.memory import InMemoryState, Observation, ObservedChildren
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.read_access import ReadAccess, Reader
from hearth.plan.state.requirements import CollectionStatus, ExternalStatus
from hearth.plan.state.resource_status import Cause, ResourceReady, ResourceState, ResourceStatus
from hearth.plan.state.rolling_updates import RollingUpdates
from hearth.plan.state.steps import Apply, Delete, DeletePart, Release, Step
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.template.blueprint import Blueprint, StackIdentity

NEXT_BATCH = "/next-batch"
"""The key of the time when a rolling update continues. No resource can have this name."""
NEXT_REMOVAL = "/next-removal"
"""The key of the time when members that are no longer wanted may be removed."""


class StackPlanner:
    """Statuses and steps of one Stack under one blueprint."""

    _warned_blueprint: Blueprint | None = None
    """The blueprint of `_warnings`."""
    _warnings: tuple[str, ...] = ()
    _removals_blueprint: Blueprint | None = None
    """The blueprint of the last decision about removed members."""
    _changed: Collection[str] = ()
    """The resources that a new blueprint changed, added or removed; the Stack is not ready before they are planned."""
    suspension: SuspendPlanner | None = None
    """Set while the Stack is suspended: the planner then plans nothing else."""
    held_parts: Mapping[str, HeldPart] = MappingProxyType({})
    """By key: the steps for parts of resources that the environment prevents."""
    _parts: Collection[str] = ()
    """The keys of all steps for parts at the last refresh."""

    def __init__(  # noqa: PLR0913, PLR0915 -- each is a separate input of the planning
        self,
        *,
        blueprint: Blueprint,
        stack: StackIdentity,
        kinds: WatchedKinds,
        hashes: HashFunction,
        rules: HealthRules,
        plan_input: PlanInput,
        access: ReadAccess | None = None,
        rolling: RollingUpdates | None = None,
        removals: MemberRemovals | None = None,
        on_error: OnError = internal_errors.ignore_nothing,
    ) -> None:
        """Create an empty planner; a full `plan` fills it.

        rules: health by kind; plan_input: the input that counts until the first plan; access: the reads of the account
        that writes the children; rolling: the rolling updates as an earlier planner or process left them; removals: as
        an earlier planner left them; on_error: receives an unexpected exception and its resource, while other resources
        continue.
        """
        self.blueprint = blueprint
        self._index = index = PlanIndex()
        # Other classes read these attributes of the index. Only this class changes it.
        self.statuses: Mapping[str, ResourceStatus] = index.statuses
        self.by_state: Mapping[ResourceState, Collection[str]] = index.by_state
        self.ready_steps: Mapping[str, Step] = index.ready_steps
        self.requeues: Mapping[str, float] = index.requeues
        self.conditions: ConditionAggregator = index.conditions
        self.stopped: Mapping[str, str] = index.stopped
        self._planner = resource_planner.ResourcePlanner(
            blueprint=blueprint,
            stack=stack,
            kinds=kinds,
            hashes=hashes,
            rules=rules,
            plan_input=plan_input,
            access=access,
            rolling=rolling,
            on_error=on_error,
        )
        self.externals: Mapping[str, ExternalStatus] = self._planner.externals.statuses
        """Statuses of the external objects, by name."""
        self.kinds = kinds
        """The kinds of the cluster that it plans for."""
        self._unhealthy = self._planner.unhealthy
        self.wanted: WantedObjects = self._planner.wanted
        """The objects that the resources name."""
        self._cleanup = CleanupPlanner(
            blueprint=blueprint,
            index=index,
            records=self._planner.records,
            wanted=self.wanted,
            plan_input=plan_input,
            on_error=on_error,
        )
        self._planner.find_obsolete = self._cleanup.obsolete.find_at
        self.cleanup = self._cleanup.obsolete
        self.preserved: Mapping[str, Child] = self._cleanup.preserved
        self.withheld: Mapping[str, WithheldObject] = self._cleanup.withheld
        self.deletion_guard = self._cleanup.guard
        self._blocked: set[str] = set()
        """Members that are not created while too many others wait to be removed."""
        self.removals = removals if removals is not None else MemberRemovals()
        """Decides which members may be removed without an edit by the user."""
        self._growth = MemberGrowth()
        """Decides which members are created while their list grows with them."""
        self._order = find_order(blueprint)
        self._idle = self._find_idle()
        """The rules that match no resource of the blueprint."""

    @property
    def definition_warnings(self) -> tuple[str, ...]:
        """Return warnings about valid settings of the definition that are probably unintended."""
        if self._warned_blueprint is not self.blueprint:
            self._warned_blueprint, self._warnings = self.blueprint, definition_warnings.find_warnings(self.blueprint)
        return self._warnings

    @property
    def is_ready(self) -> bool:
        """Return whether every resource of the blueprint is ready."""
        is_read = not self.blueprint.externals or (self._planner.externals.is_ready and not self.blueprint.unresolved)
        return (
            is_read and not self._changed and len(self.by_state[ResourceState.READY]) == len(self.blueprint.resources)
        )

    @property
    def is_complete(self) -> bool:
        """Return whether the target is complete: all resources ready and no obsolete object left; or all suspended."""
        if self.suspension is not None:
            return self.suspension.is_complete and not self.kinds.unsynced
        is_clean = not self.cleanup.has_any and not self.kinds.unsynced and not self.blueprint.surge
        return self.is_ready and is_clean and not self.held_parts and not self.find_post_delete_stops()

    @property
    def is_suspended(self) -> bool:
        """Return whether the Stack is suspended, so that only suspend steps are planned."""
        return self.suspension is not None

    def has_lost_kinds(self) -> bool:
        """Return whether the API server no longer serves the kind of some resource. Checks all resources."""
        return self.kinds.lacks_any((*self.blueprint.resources.values(), *self.blueprint.externals.values()))

    def find_desired(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object of a resource, if it is known. child: the current object of the resource."""
        return self._planner.desired.find(name, child)

    @property
    def is_waiting_for_kinds(self) -> bool:
        """Return whether a resource waits for a kind that is not served or watched, or was not when it was compiled."""
        for name, read in self.externals.items():
            is_known = self.blueprint.externals[name].is_kind_known
            if read.status.cause is Cause.KIND_NOT_AVAILABLE or not is_known:
                return True
        known = self.blueprint.resources
        return any(
            self.statuses[name].cause is Cause.KIND_NOT_AVAILABLE or (name in known and not known[name].is_kind_known)
            for name in self.by_state[ResourceState.WAITING]
        )

    def find_evaluating(self) -> set[str]:
        """Find the resources that wait for an evaluation, of themselves or of their health."""
        read = {
            name for name, each in self.externals.items() if each.status.cause is Cause.EVALUATING or each.is_awaited
        }
        return read | {name for name, status in self.statuses.items() if status.cause is Cause.EVALUATING}

    def has_failed(self, memory: InMemoryState) -> bool:
        """Return whether a resource or a deletion has failed, so that the Stack is Failed."""
        if self.by_state[ResourceState.FAILED] or self.deletion_guard.denied or self.denied_parts:
            return True
        if any(read.status.state is ResourceState.FAILED for read in self.externals.values()):
            return True
        return any(attempt.is_exhausted for _, attempt in self.find_failed_deletions(memory))

    def find_queries(self, boundary: Boundary) -> dict[str, ExternalQuery]:
        """Return, by name, the external objects that the cache must hold, without those outside of the boundary."""
        return self._planner.find_queries(boundary)

    def update_blueprint(self, blueprint: Blueprint) -> bool:
        """Continue with a blueprint if only manifests and members of collections differ; return whether that was so.

        Only a complete Stack continues in this way, so that no status depends on the target. The next refresh plans the
        differences. The result is the same as with a new planner, which would plan all resources.
        """
        index = self._index
        is_quiet = not (index.ready_steps or index.requeues or index.stopped or any(index.conditions.by_type.values()))
        if self.suspension is not None or not self.is_complete or self.preserved or self.withheld or not is_quiet:
            return False
        changed = find_changed(self.blueprint, blueprint, rules=self.environment.rules)
        if changed is None:
            return False
        self._order = find_order(blueprint)
        self.blueprint = blueprint
        self.__dict__.pop("nested", None)
        self._planner.update_blueprint(blueprint, changed=changed)
        self._cleanup.update_blueprint(blueprint)
        for name in changed:
            index.forget(name)
        self._changed = changed
        return True

    @functools.cached_property
    def nested(self) -> tuple[str, ...]:
        """Return the resources that are Stacks or ResourceGroups."""
        return tuple(name for name, resource in self.blueprint.resources.items() if resource.is_stack)

    @property
    def rolling(self) -> RollingUpdates:
        """The rolling updates of collections."""
        return self._planner.rolling

    @property
    def reader(self) -> Reader:
        """Return the account that reads the Stack's objects."""
        return self._planner.reader

    @property
    def input(self) -> PlanInput:
        """Return the input of the last plan, or before the first one, the input that counts until then."""
        return self._planner.input

    @property
    def environment(self) -> ActiveEnvironment:
        """Return the environment that restricts the steps."""
        return self.input.environment

    def _follow(self, plan_input: PlanInput) -> set[str]:
        """Plan from now on with that input; return the names whose own part of it differs."""
        before, planner, by_state = self.input, self._planner, self.by_state
        planner.follow(plan_input)
        self._cleanup.follow(plan_input)
        changed = plan_input.find_changed(before)
        if (plan_input.healing, plan_input.is_completed) != (before.healing, before.is_completed):
            changed |= {*by_state[ResourceState.FAILED], *by_state[ResourceState.RETRYING], *self._unhealthy.names}
        if plan_input.is_rollback is not before.is_rollback:
            changed |= {*by_state[ResourceState.FAILED]}
        if plan_input.retries != before.retries:
            changed |= {*self.nested}
        if plan_input.environment.rules != before.environment.rules:
            self._idle = self._find_idle()
        if plan_input.is_suspended is not self.is_suspended:
            # Not before the first plan: without a view of its objects, a suspended Stack would count as complete.
            self.suspension = (
                SuspendPlanner(
                    rules=planner.rules, records=planner.records, reader=planner.reader, on_error=planner.on_error
                )
                if plan_input.is_suspended
                else None
            )
            self._index.forget_steps()
            self._cleanup.refresh_all()
        elif self.suspension is not None:
            self.suspension.reader = planner.reader
        return changed

    def _find_idle(self) -> tuple[EnvironmentRule, ...]:
        return tuple(self.environment.rules.find_unmatched(self.blueprint.resources, nested=self.nested))

    def find_idle_rules(self) -> Iterator[EnvironmentRule]:
        """Find the rules that match no resource of the blueprint, and no resource that still has an object."""
        return (rule for rule in self._idle if not rule.finds_any(self._cleanup.names))

    def find_post_delete_stops(self) -> list[str]:
        """Find the deleted resources that still stop at their post-delete hook."""
        return self._cleanup.find_post_delete_stops()

    def _list_names(self, children: ObservedChildren) -> set[str]:
        """Return every name that a full plan includes."""
        return {*self.blueprint.externals, *self.blueprint.resources, *children.resources(), *self._cleanup.names}

    def plan(
        self, plan_input: PlanInput, observation: Observation, dirty: Collection[str] = (), *, is_full: bool = False
    ) -> PlanResult:
        """Plan again: everything in `dirty`, the resources that the input concerns, and their dependents.

        dirty: resource names (also from labels, even if unknown to the blueprint) and keys of steps; is_full: plan every
        name.
        """
        changed: Collection[str] = ()
        is_turned = plan_input.is_suspended is not self.is_suspended
        if is_turned or plan_input != self.input:
            is_full = is_full or is_turned or plan_input.needs_full_plan(self.input)
            changed = self._follow(plan_input)
        dirty = {*dirty, *(self._list_names(observation.children) if is_full else changed)}
        result = self._index.result = PlanResult(dirty=dirty)
        self._index.find_due, self._index.now = observation.memory.find_due, observation.now
        if self._changed:
            dirty.update(self._changed)
            self._changed = ()
        if observation.is_evaluated:
            dirty |= self.find_evaluating()
        self._index.newly_failed = {}
        self._refresh(dirty, observation)
        if self._index.newly_failed:
            result.failures = list(self._find_failures())
        result.unconfirmed = self.removals.list_questions(now=observation.now)
        result.parting = self.deletion_guard.take_unrecorded()
        if self.blueprint.rolling:
            result.batch_ends, result.surge = self.rolling.ends(), self.rolling.find_surge()
        result.is_complete = self.is_complete
        result.offered = [each.child for each in self.withheld.values() if each.claim.is_foreign]
        # A settled Stack need not keep the result of its last plan.
        self._index.result = PlanResult()
        return result

    def _find_failures(self) -> Iterator[FailedResource]:
        """Find the permanent failures that are not counted yet."""
        for name in self._index.newly_failed:
            status, desired = self.statuses[name], self.find_desired(name)
            if status.child is not None:
                run = desired.resource.run if desired is not None else None
                yield FailedResource(name=name, status=status, child=status.child, run=run)

    def _refresh(self, dirty: Collection[str], observation: Observation) -> None:
        """Plan the dirty resources and objects, and their dependents."""
        if self.withheld:
            # A withheld object may have another owner now.
            dirty = {*dirty, *(each.child.resource for uid, each in self.withheld.items() if uid in dirty)}
        if self.suspension is not None:
            self._refresh_suspension(self.suspension, dirty, observation)
        else:
            self._refresh_resources(dirty, observation)
            ready, may_miss, short = self.is_ready, self.kinds.find_unlisted() is not None, self.rolling.find_short()
            self._cleanup.refresh(dirty, observation, is_ready=ready, short=short, may_miss=may_miss)
        if observation.memory.parts or self._parts:
            self._refresh_parts(observation.memory, now=observation.now)

    def take_step(self, key: str) -> Step | None:
        """Remove and return the step to execute now under that key.

        This is the last check after planning: no step removes an object that a resource names, unless that resource
        replaces it.
        """
        step = self._index.ready_steps.pop(key, None)
        if isinstance(step, Delete | Release) and not self._cleanup.is_free(step.child, by=key):
            self._cleanup.obsolete.changed[step.child.uid] = None
            return None
        return step

    def _refresh_parts(self, memory: InMemoryState, *, now: float) -> None:
        """Plan the steps for parts of resources that the engine found due."""
        held = {key: enforcement.hold_part(self.environment, step) for key, step in memory.parts.items()}
        self.held_parts = {key: each for key, each in held.items() if each is not None}
        is_running = self.suspension is not None and not self.is_complete
        for key in {*self._parts, *memory.parts}:
            step, attempt = memory.parts.get(key), memory.attempts.get(key)
            # No object that a workload uses is replaced before all workloads are suspended.
            is_used = is_running and isinstance(step, DeletePart) and bool(step.actions)
            if key in memory.in_flight or key in self.held_parts or is_used:
                step = None
            is_failed = step is not None and attempt is not None and attempt.attempt_id == steps.attempt_id(step)
            if attempt is not None and is_failed and attempt.retry_at > now:
                self._index.plan(key, step=None, wake_at=attempt.wake_at)
            else:
                self._index.plan(key, step=step, wake_at=None)
        self._parts = tuple(memory.parts)

    @property
    def denied_parts(self) -> list[HeldPart]:
        """Return the steps for parts of resources that a rule denies, in a stable order."""
        return [each for _, each in sorted(self.held_parts.items()) if each.rule is not None]

    def _refresh_resources(self, dirty: Collection[str], observation: Observation) -> None:
        children, now = observation.children, observation.now
        self._planner.unproven.update(children.of(UNPROVEN))
        resources = self.blueprint.resources
        if self.blueprint.externals:
            dirty = {*dirty, *self._refresh_externals(dirty)}
        dirty = {
            *dirty,
            *self._refresh_removals(dirty, children, now=now),
            *self._growth.update(self.blueprint, children, self.input.growth_limits),
        }
        for name in dirty:
            if name not in resources:
                is_kept = self.removals.holds(name, self.blueprint)
                self._cleanup.sort_out(name, chosen=None, children=() if is_kept else children.of(name))
        self._refresh_queue(RefreshQueue(self.blueprint, (name for name in dirty if name in resources)), observation)
        while permitted := self.rolling.choose(now=now):
            self._refresh_queue(RefreshQueue(self.blueprint, permitted), observation)
        self._index.plan(NEXT_BATCH, step=None, wake_at=self.rolling.find_due(now=now))

    def _refresh_removals(self, dirty: Collection[str], children: ObservedChildren, *, now: float) -> Collection[str]:
        """Decide which members may be removed; return those whose objects became obsolete or are no longer obsolete.

        This checks all objects, so it does not run when only a wanted member changed.
        """
        limited = {name for name, each in self.blueprint.collections.items() if each.max_removed is not None}
        if not limited:
            if not self.blueprint.unresolved:
                self.removals.forget()
            return ()
        resources, is_settled = self.blueprint.resources, not self.removals.is_open
        is_concerned = any(name not in resources and members.root_of(name) in limited for name in dirty)
        if self._removals_blueprint is self.blueprint and is_settled and not is_concerned:
            return self._refresh_former(limited, children)
        self._removals_blueprint = self.blueprint
        existing: dict[str, list[str]] = {name: [] for name in limited}
        for name in children.resources():
            if (root := members.root_of(name)) in limited:
                existing[root].append(name)
        changed = self.removals.update(self.blueprint, existing, now=now)
        self._index.plan(NEXT_REMOVAL, step=None, wake_at=self.removals.wake_at)
        blocked = {name for name in self._blocked if not self.removals.is_full(members.root_of(name))}
        self._blocked -= blocked
        return {*changed, *blocked, *self._refresh_former(limited, children)}

    def find_collection(self, name: str) -> CollectionStatus:
        """Return the status of a collection of the blueprint."""
        return self._planner.collections[members.name_all(name)]

    def _refresh_former(self, limited: Collection[str], children: ObservedChildren) -> Collection[str]:
        """Update the remaining objects of former members for their readers; return the resources to plan again."""
        is_unlisted = self.kinds.find_unlisted() is not None
        concerned: set[str] = set()
        for name in limited:
            former = {each: requirements.find_current(children.of(each)) for each in self.removals.list_waiting(name)}
            present = {each: child for each, child in former.items() if child is not None}
            if self.find_collection(name).set_former(present, is_unlisted=is_unlisted):
                concerned.update(self.blueprint.collections[name].dependents)
        return concerned

    def _refresh_externals(self, dirty: Collection[str]) -> Iterator[str]:
        """Assess the external objects in `dirty` and unassessed ones; return the dependents of changed ones."""
        for name, external in self.blueprint.externals.items():
            is_new = name not in self.externals
            if (is_new or name in dirty) and self._planner.refresh_external(name):
                yield from external.dependents

    def _refresh_queue(self, queue: RefreshQueue, observation: Observation) -> None:
        """Plan the resources of the queue again, and everything that depends on them."""
        while (index := queue.take()) is not None:
            name = self._order[index]
            if name in self._planner.collections:
                if self._planner.collections[name].take_changed():
                    queue.add(self.blueprint.collections[members.root_of(name)].dependents)
                continue
            before = self.statuses.get(name)
            status = self._refresh_resource(name, before, observation)
            if self._unhealthy.update(name, status):
                queue.repeat(self._unhealthy.names)
            self._repeat_others(name, queue)
            if before is not None and before.fingerprint == status.fingerprint:
                continue
            self._update_collection(name, status)
            queue.add(self.blueprint.resources[name].dependents)

    def _repeat_others(self, name: str, queue: RefreshQueue) -> None:
        """Plan the resources again that name an object which this one no longer names."""
        queue.repeat([each for each in self._planner.wanted.take_refused(name) if each in self.blueprint.resources])
        queue.repeat(self._cleanup.take_moving())

    def _refresh_resource(self, name: str, before: ResourceStatus | None, observation: Observation) -> ResourceStatus:
        """Plan one resource, and which of its objects are obsolete. before: its status until now."""
        found = observation.children.of(name)
        status = self._assess(name, found, observation.memory, now=observation.now)
        self._record(name, before, status, observation.memory)
        # The planner deletes no object of a resource that it cannot assess.
        is_judged = status.cause is not Cause.INTERNAL_ERROR
        self._cleanup.sort_out(name, chosen=status.child, children=found if is_judged else ())
        self._cleanup.claim(status.child, observation.children)
        return status

    def _update_collection(self, name: str, status: ResourceStatus) -> None:
        """Update the status of the collection that the resource is a member of, if any."""
        if members.is_member(name):
            self._planner.collections[members.name_all(members.root_of(name))].update(name, status)

    def _refresh_suspension(self, suspension: SuspendPlanner, dirty: Collection[str], observation: Observation) -> None:
        """Plan only suspend steps. No resource then counts as ready for its dependents."""
        for view in suspension.refresh(dirty, observation):
            is_wanted = view.name in self.blueprint.resources
            self._cleanup.sort_out(view.name, chosen=view.status.child if is_wanted else None, children=view.children)
            if is_wanted:
                self._note(view.name, self.statuses.get(view.name), view.status)
            for uid, (step, wake_at) in view.plans.items():
                self.deletion_guard.filter(uid, None)
                self._index.plan(uid, step=step, wake_at=wake_at)
        self._cleanup.on_suspended()

    def _assess(self, name: str, found: tuple[Child, ...], memory: InMemoryState, *, now: float) -> ResourceStatus:
        """Plan one resource. Its updates of the in-memory state become part of the result."""
        status = self._planner.plan(name, self.statuses, found, memory=memory, now=now)
        if isinstance(status.step, Apply) and status.step.uid is None and members.is_member(name):
            status = self._hold_turnover(name, status, memory, now=now)
        if memory.governor.records:
            status = enforcement.delay_repeated(name, status, memory=memory, now=now)
        if not status.memory_updates:
            return status
        self._index.result.memory_updates.extend(status.memory_updates)
        return dataclasses.replace(status, memory_updates=())

    def _hold_turnover(self, name: str, status: ResourceStatus, memory: InMemoryState, *, now: float) -> ResourceStatus:
        """Return the status of a member without an object, without its step while too many others wait to be removed.

        Each new member has another name, so its own record would never delay it.
        """
        root = members.root_of(name)
        if excess := self._growth.explain(name):
            reason = blocked_status.LIMIT_REACHED
            return blocked_status.waiting(excess, child=status.child, reason=reason, cause=Cause.OTHER)
        if self.removals.is_full(root):
            self._blocked.add(name)
            message = f"waits because more members of {root} would be deleted than updatePolicy.maxRemoved allows"
            return blocked_status.waiting(message, child=status.child)
        due = memory.governor.find_due(self._count_turnover(root))
        return status if due <= now else dataclasses.replace(status, step=None, requeue_at=due)

    def _count_turnover(self, root: str) -> Work:
        """Return the weight of a member's creation in its collection: exchanging all members counts as one step."""
        share = 1.0 / max(len(self.blueprint.collections[root].members), 1)
        return Work(resource=root, type=WorkType.APPLY, share=share)

    def find_turnover(self, step: Step) -> Work | None:
        """Return additional work to count if the step replaces a lost member and other clients control the list."""
        if not isinstance(step, Apply) or step.uid is not None or not members.is_member(step.resource):
            return None
        root = members.root_of(step.resource)
        return self._count_turnover(root) if self.removals.has_turnover(root) else None

    def _record(self, name: str, before: ResourceStatus | None, status: ResourceStatus, memory: InMemoryState) -> None:
        self._plan_restoring(before, status)
        self._note(name, before, status)
        if status.is_ready and status.child is not None and memory.is_news(name, status.child.uid):
            self._index.result.memory_updates.append(ResourceReady(resource=name, uid=status.child.uid))
        if status.is_terminal and status.child is not None and status.child.uid not in memory.counted_failures:
            self._index.newly_failed[name] = None
        self._index.plan(name, step=status.step, wake_at=status.requeue_at)

    def _plan_restoring(self, before: ResourceStatus | None, after: ResourceStatus) -> None:
        """Plan the restore step of an object under the UID of the object."""
        if before is not None and before.restore_step is not None and before.child is not None:
            self._index.plan(before.child.uid, step=None, wake_at=None)
        if after.restore_step is not None and after.child is not None:
            self._index.plan(after.child.uid, step=after.restore_step, wake_at=None)

    def _note(self, name: str, before: ResourceStatus | None, status: ResourceStatus) -> None:
        """Update all indexes with the status of a resource."""
        self._index.note(name, before, status)
        self._cleanup.on_status(name, before, status)

    def find_deferred(self) -> list[Child]:
        """Find the obsolete objects whose deletion waits until every resource is ready. Checks all objects."""
        return [] if self.is_ready else self._cleanup.find_deferred()

    def find_unnamed(self) -> Mapping[str, list[Child]]:
        """Find, by resource, the obsolete objects that stay until the name of its object is known. Checks all of them."""
        return self._cleanup.find_unnamed()

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


class RefreshQueue:
    """Names of one blueprint, each after everything that it requires."""

    def __init__(self, blueprint: Blueprint, names: Iterable[str] = ()) -> None:
        self._blueprint = blueprint
        self._heap: list[int] = []
        self._added: set[int] = set()
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Add resources and collections, unless they were added before."""
        for name in names:
            index = self._find_index(name)
            if index not in self._added:
                self._added.add(index)
                heapq.heappush(self._heap, index)

    def repeat(self, resources: Collection[str]) -> None:
        """Add resources even if they were planned before."""
        for name in resources:
            heapq.heappush(self._heap, self._blueprint.resources[name].index)

    def take(self) -> int | None:
        """Remove and return the index of the next name; None at the end."""
        return heapq.heappop(self._heap) if self._heap else None

    def _find_index(self, name: str) -> int:
        if members.is_all(name):
            return self._blueprint.collections[members.root_of(name)].index
        return self._blueprint.resources[name].index


def find_order(blueprint: Blueprint) -> tuple[str, ...]:
    """Return the names of resources, and of collections as a whole, by their index."""
    order = [""] * (len(blueprint.resources) + len(blueprint.collections))
    for name, resource in blueprint.resources.items():
        order[resource.index] = name
    for name, collection in blueprint.collections.items():
        order[collection.index] = members.name_all(name)
    return tuple(order)


def find_changed(previous: Blueprint, new: Blueprint, *, rules: EnvironmentRules) -> list[str] | None:
    """Return the resources that differ if a planner can continue with the new blueprint; None if a new one is needed.

    Only manifests and members may differ, of collections that no other resource requires. rules: the rules in force,
    which may name members that are added or removed. If most resources change, or none, a new planner is no slower.
    """
    if new.rolling or previous.rolling or not new.is_used_like(previous):
        return None
    old, resources = previous.resources, new.resources
    changed = [name for name, each in resources.items() if name not in old or old[name].content is not each.content]
    changed += [name for name in old if name not in resources]
    if not 0 < len(changed) <= len(old) / 2:
        return None
    for name, collection in new.collections.items():
        known = previous.collections[name]
        if collection.members != known.members and (collection.dependents or known.dependents):
            return None
    for name in changed:
        before, after = old.get(name), resources.get(name)
        if before is None or after is None:
            own = previous.collections.get(members.root_of(name))
            if own is None or not own.members or not rules.is_empty:
                return None
            # Objects of its kind are watched for the other members.
            before = old[own.members[0]]
        if after is not None and not after.is_watched_like(before):
            return None
    return changed
