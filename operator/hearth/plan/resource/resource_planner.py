"""Plans a resource: compares its desired object with the existing objects and returns the next step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping

from hearth.model import field_paths, limits, members, tenancy
from hearth.model.child import Child, Path
from hearth.model.external_objects import ExternalQuery
from hearth.model.kinds import Kind, ObjectRef, make_key
from hearth.model.tenancy import Boundary
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.environment import inherited_rules
from hearth.plan.environment.environment_rules import Action
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import (
    blocked_status,
    decide,
    drift,
    enforcement,
    finished_run,
    replacement,
    set_replacement,
    step_planning,
    suspend_object,
    unbound_claims,
)
from hearth.plan.resource.blocked_status import NoRoom, Unevaluated
from hearth.plan.resource.desired_objects import DesiredObjects, WantedObjects
from hearth.plan.resource.external_status import ExternalObjects
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.resource.suspend_object import SuspendRecords
from hearth.plan.resource.unbound_claims import UnboundClaims
from hearth.plan.state import internal_errors, read_access, requirements, steps
from hearth.plan.state.desired import DesiredObject, DesiredResource
from hearth.plan.state.healing import UnhealthyTracker
from hearth.plan.state.internal_errors import OnError, Retry
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.read_access import ReadAccess, Reader
from hearth.plan.state.requirements import CollectionStatus, ExternalStatus, Required
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.rolling_updates import PendingChange, RollingUpdate, RollingUpdates
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.plan.target.target import DetachedSet
from hearth.template.blueprint import Blueprint, Pending, ResourceBlueprint, StackIdentity, Values


class ResourcePlanner:
    """Planner for the resources of one blueprint. Caches evaluated manifests while their inputs are unchanged."""

    def __init__(  # noqa: PLR0913 -- each is a separate input of planning
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
        on_error: OnError = internal_errors.ignore_nothing,
    ) -> None:
        """access: the reads of the account that reads the objects for the Stack; rolling: the rolling updates as an
        earlier planner or process left them; on_error: receives an unexpected exception, after which that one resource
        has failed.
        """
        self.on_error = on_error
        self._errors: dict[str, Retry] = {}
        """Consecutive internal errors by resource."""
        self.rolling = rolling if rolling is not None else RollingUpdates(blueprint.rolling)
        self.find_obsolete: Callable[[ObjectRef], Child | None] = lambda _ref: None
        """Finds the obsolete object at a reference, which has the label of another resource."""
        self.unhealthy = UnhealthyTracker(total=len(blueprint.resources))
        self.rules = rules
        self.blueprint = blueprint
        self._stack = stack
        self.kinds = kinds
        self.records = SuspendRecords(hashes=hashes, rules=rules)
        self.unproven = Unproven()
        self.desired = DesiredObjects(blueprint, stack=stack, hashes=hashes)
        self.wanted = WantedObjects(blueprint, stack=stack, desired=self.desired)
        self.externals = ExternalObjects(blueprint, namespace=stack.namespace)
        self.collections = {
            members.name_all(name): CollectionStatus(collection.members)
            for name, collection in blueprint.collections.items()
        }
        """The collections by their names in `requires`. The caller updates them."""
        self._access = access
        self.follow(plan_input)

    def follow(self, plan_input: PlanInput) -> None:
        """Plan from now on with that input."""
        self.input = plan_input
        self.reader = self.find_reader(plan_input.boundary)
        self._detached = {each.resource: each for each in plan_input.detached}
        self.externals.find_view = functools.partial(plan_input.find_external, self._stack.uid)
        self.unhealthy.healing, self.unhealthy.is_completed = plan_input.healing, plan_input.is_completed

    def find_reader(self, boundary: Boundary) -> Reader:
        """Return the account that reads the objects within that boundary."""
        return Reader(boundary=boundary, access=self._access)

    def update_blueprint(self, blueprint: Blueprint, *, changed: Collection[str]) -> None:
        """Continue with another blueprint. changed: the resources that it changes, adds or removes."""
        self.externals.update_blueprint(blueprint)
        self.desired.update_blueprint(blueprint, changed)
        self.wanted.update_blueprint(blueprint, changed=changed)
        self.unhealthy.total = len(blueprint.resources)
        for name, collection in blueprint.collections.items():
            self.collections[members.name_all(name)].set_members(collection.members)
        self.blueprint = blueprint

    def plan(
        self,
        name: str,
        statuses: Mapping[str, ResourceStatus],
        children: tuple[Child, ...],
        *,
        memory: InMemoryState,
        now: float,
    ) -> ResourceStatus:
        """Return the status of the resource and its next step.

        statuses: of all required resources; children: the objects that carry its label; now: monotonic seconds.
        """
        try:
            resource = self.blueprint.resources[name]
            required = self._find_required(resource, statuses)
            awaited = {**required, **{each: statuses[each] for each in resource.after}} if resource.after else required
            unready = [each for each, found in awaited.items() if not found.is_ready]
            status = self._assess(resource, required, children, unready, memory=memory, now=now)
            if status.is_ready and self.reader.is_limited and self._is_read(resource):
                status = read_access.await_access(status, self.reader)
            if not (status.is_ready or status.state is ResourceState.PROGRESSING):
                waits_for = (awaited[each] for each in unready)
                status = restore_if_stuck(name, status, waits_for, memory=memory, records=self.records, now=now)
        except Exception as error:  # noqa: BLE001 -- other resources continue; the error is reported
            self.on_error(name, error)
            return self._fail(name, children, now=now)
        if self._errors:
            self._errors.pop(name, None)
        return status

    def find_queries(self, boundary: Boundary) -> dict[str, ExternalQuery]:
        """Return by name the external objects within that boundary that the cache must know."""
        return self.externals.find_queries(reader=self.find_reader(boundary), kinds=self.kinds, rules=self.rules)

    def refresh_external(self, name: str) -> bool:
        """Assess an external object again; return whether its dependents must be planned again."""
        try:
            return self.externals.refresh(
                name, reader=self.reader, kinds=self.kinds, rules=self.rules, find_unnamed=self.wanted.find_unnamed
            )
        except Exception as error:  # noqa: BLE001 -- as in `plan`
            self.on_error(name, error)
            return self.externals.fail(name, internal_errors.explain("decide whether it is ready"))

    def _fail(self, name: str, children: tuple[Child, ...], *, now: float) -> ResourceStatus:
        """Return the status of a resource after an internal error."""
        self._note_unsettled(name)
        retry = self._errors[name] = internal_errors.after_failure(self._errors.get(name), now=now)
        child, message = requirements.find_current(children), internal_errors.explain("decide what to do about it")
        status = ResourceStatus(state=ResourceState.FAILED, reason=internal_errors.REASON, message=message, child=child)
        return dataclasses.replace(status, cause=Cause.INTERNAL_ERROR, requeue_at=retry.due)

    def _is_read(self, resource: ResourceBlueprint) -> bool:
        """Return whether any expression reads the object of the resource."""
        reads = self.blueprint.reads
        return bool(reads.get(resource.name) or reads.get(resource.own_name))

    def _find_required(self, resource: ResourceBlueprint, statuses: Mapping[str, ResourceStatus]) -> Required:
        """Return the statuses of all requirements of the resource, by their names in `requires`."""
        if not self.collections:
            return {each: statuses[each] for each in resource.requires}
        return {each: self.collections.get(each) or statuses[each] for each in resource.requires}

    def _find_unbound(
        self, resource: ResourceBlueprint, required: Required, unready: list[str], children: tuple[Child, ...]
    ) -> UnboundClaims:
        """Return the claims that the resource need not wait for."""
        is_nested = self._is_nested(resource)
        return unbound_claims.find_unbound(resource, required, unready, children, self.blueprint, is_nested=is_nested)

    def _find_unmounted(self, resource: ResourceBlueprint, claims: UnboundClaims, wanted: DesiredResource) -> set[str]:
        """Return the resources of the claims that the resource does not mount, so that it waits for them."""
        is_nested = self._is_nested(resource)
        return claims.keys() - unbound_claims.find_mounted(claims, wanted.manifest, is_nested=is_nested)

    def _is_nested(self, resource: ResourceBlueprint) -> bool:
        """Return whether the object of a resource is a nested Stack, a ResourceGroup or an instance."""
        key = make_key(resource.api_version.rpartition("/")[0], resource.kind)
        return resource.is_stack or self.input.tree.is_instance_kind(key)

    def _assess(
        self,
        resource: ResourceBlueprint,
        required: Required,
        children: tuple[Child, ...],
        unready: list[str],
        *,
        memory: InMemoryState,
        now: float,
    ) -> ResourceStatus:
        """Plan the resource without regard to suspension. unready: required resources that are not ready."""
        claims = self._find_unbound(resource, required, unready, children) if unready else {}
        unready = [each for each in unready if each not in claims]
        read = {name: self.externals.statuses[name] for name in resource.externals} if resource.externals else {}
        if unready or not all(each.is_ready for each in read.values()):
            missing = [*unready, *(name for name, each in read.items() if not each.is_ready)]
            return self._wait_for(missing, resource, children)
        if self.reader.is_limited and (unreadable := self._find_unreadable(resource, required, children)) is not None:
            self._note_unsettled(resource.name)
            return unreadable
        values = {
            requirements.find_value_name(each): requirements.find_value(found) for each, found in required.items()
        }
        values |= {name: each.fields for name, each in read.items()}
        wanted = self._evaluate(resource, required, values, read=read.values())
        if not isinstance(wanted, DesiredResource):
            self._note_unsettled(resource.name)
            if isinstance(wanted, Pending) and (
                kept := finished_run.keep_dependent(
                    resource, required, children, wanted, values=values, rules=self.rules
                )
            ):
                return kept
            status = blocked_status.explain(wanted, child=requirements.find_current(children))
            if isinstance(wanted, NoRoom):
                return dataclasses.replace(status, requeue_at=now + limits.KEPT_AGAIN)
            return status
        if claims and (others := self._find_unmounted(resource, claims, wanted)):
            return self._wait_for(sorted(others), resource, children)
        subject = ResourceContext(
            resource=resource,
            desired=wanted,
            children=children,
            values=values,
            memory=memory,
            now=now,
            blueprint=self.blueprint,
            unhealthy=self.unhealthy,
            rules=self.rules,
            records=self.records,
            reader=self.reader,
            environment=self.input.environment,
            find_contents=self.input.tree.find_contents,
            detached=self._detached.get(resource.name),
            is_rollback=self.input.is_rollback,
            is_paused=self.input.is_paused,
            is_at_rest=self.input.is_at_rest,
            awaits_repair=any(found.is_held for found in required.values()),
            sources=tuple(child for found in required.values() for child in requirements.find_children(found))
            if "." in resource.api_version
            else (),
        )
        status = self._decide(subject)
        if (moved := status.child) is not None and moved.is_identified and moved.resource != resource.name:
            subject = dataclasses.replace(subject, children=(*children, moved))
        if wanted.run is not None:
            status = finished_run.finish(subject, status)
        if (update := self.rolling.find(resource.name)) is not None:
            status = hold(subject, status, update)
        return enforcement.enforce(subject, status)

    def _wait_for(self, missing: list[str], resource: ResourceBlueprint, children: tuple[Child, ...]) -> ResourceStatus:
        """Return the status of a resource that waits for others."""
        self._note_unsettled(resource.name)
        return blocked_status.waiting(
            f"waits for {enumerate_names(missing)}", child=requirements.find_current(children)
        )

    def _find_unreadable(
        self, resource: ResourceBlueprint, required: Required, children: tuple[Child, ...]
    ) -> ResourceStatus | None:
        """Return the status of a resource that reads an object which the account must not read; otherwise None."""
        objects = {
            requirements.find_value_name(each): requirements.find_children(found) for each, found in required.items()
        }
        current = requirements.find_current(children)
        return read_access.find_unreadable(resource, objects, self.reader, child=current)

    def _note_unsettled(self, name: str) -> None:
        """Record a resource that has no manifest, or a member that cannot be planned now."""
        self.wanted.note_open(name)
        if (update := self.rolling.find(name)) is not None:
            update.note_unsettled(name)

    def _evaluate(
        self, resource: ResourceBlueprint, required: Required, values: Values, *, read: Collection[ExternalStatus]
    ) -> DesiredResource | Unevaluated:
        """Evaluate the desired resource, or return why it has no manifest."""
        kind = self.kinds.find(resource, namespace=self._stack.namespace)
        if not isinstance(kind, Kind):
            return kind
        inherited = None
        if resource.is_stack:
            retry = inherited_rules.find_retry(self.input.retries)
            inherited = inherited_rules.find(self.input.environment.rules, resource.name, retry=retry)
        known = self.desired.get(resource.name)
        desired = self.desired.evaluate(
            resource, kind, required=required, read=read, values=values, inherited=inherited
        )
        if known is not None and desired is not known and isinstance(desired, DesiredResource):
            self.wanted.release(resource.name)
        return desired

    def _create(self, context: ResourceContext, desired: DesiredObject) -> ResourceStatus:
        """Plan the object of a resource that has none."""
        if self.input.cleanup.covers(context.name) and (unlisted := self.kinds.find_unlisted()) is not None:
            # The number of the next object is derived from the existing objects. Later it identifies the object that a
            # completed revision needs.
            return blocked_status.waiting(
                f"waits for the first list of all {unlisted.key} objects, because one of them may belong to this resource"
            )
        if stopping := decide.stop_former(context):
            return stopping
        # The answer arrives no later than the response to the apply.
        self.reader.expect(desired.kind, desired.ref.namespace)
        return step_planning.plan_apply(context, desired, None)

    def _decide(self, context: ResourceContext) -> ResourceStatus:
        """Plan a resource whose manifest is known."""
        wanted = context.desired
        candidates = replacement.find_candidates(context.children, wanted)
        detached = self._find_detached(context)
        if detached is not None:
            # Objects of other incarnations do not have its claims.
            candidates = [each for each in candidates if each.uid == detached.uid]
        child = replacement.choose_child(candidates, wanted, lambda each: decide.assess_child(context, each))
        if child is None and not context.children and (child := self.unproven.find(wanted)) is not None:
            context = dataclasses.replace(context, children=(child,))
            if child.ownership is None or child.omitted:
                return self._plan_oversized(context, child)
        # If the kind or the explicit name changed, the existing objects count as earlier incarnations.
        number = child.incarnation if child is not None else self._find_next_incarnation(context)
        desired = (
            wanted.at(number, child=child)
            if child is not None or detached is None
            else wanted.at(detached.incarnation, name=detached.name)
        )
        if settled := self._refuse(context.name, desired, child) or finished_run.plan(context, child, desired):
            return settled
        if child is None:
            moved = self.find_obsolete(desired.ref)
            return self._create(context, desired) if moved is None else self._move(context, desired, moved)
        if child.deleting:
            return decide.plan_going(context, child)
        if child.defect and child.hash == desired.hash:
            # The object shows only part of its content, so no conclusion is possible. A changed definition is still
            # applied.
            return blocked_status.unreadable(child)
        if child.omitted and child.hash == desired.hash and (path := self._find_omitted(context, child)):
            return blocked_status.too_large(child, path)
        if context.memory.is_leaving(child):
            # The object was obsolete a moment ago. If it counted as ready, a dependent would use values of a deleted
            # object.
            return step_planning.await_deletion(child)
        return self._decide_existing(context, child, desired)

    def _find_next_incarnation(self, context: ResourceContext) -> int:
        """Return the incarnation of the next object. No object of another Stack has its generated name."""
        number = replacement.find_next_incarnation(context.children)
        taken = context.memory.taken.get(context.name, ())
        while context.desired.ref_at(number) in taken:
            number += 1
        return number

    def _move(self, context: ResourceContext, desired: DesiredObject, child: Child) -> ResourceStatus:
        """Plan a resource whose object has the label of another resource, which does not want it."""
        if context.memory.is_leaving(child):
            return step_planning.await_deletion(child)
        context = dataclasses.replace(context, children=(*context.children, child))
        desired = context.desired.at(desired.incarnation, child=child)
        return decide.relabel(context, child, desired)

    def _find_detached(self, context: ResourceContext) -> DetachedSet | None:
        """Return the StatefulSet that the resource had, if its Pods and claims still wait for its successor."""
        detached = self._detached.get(context.name)
        if detached is None or not set_replacement.is_followed_by(detached, context.desired):
            return None
        return None if set_replacement.find_next(detached, context.children) is not None else detached

    def _decide_existing(self, context: ResourceContext, child: Child, desired: DesiredObject) -> ResourceStatus:
        """Plan a resource by comparing its object with the definition."""
        if (circle := self.input.circle) and circle[-1].uid == child.uid:
            return blocked_status.circular(child, circle)
        # While a required object awaits its repair, the definition contains values that will change, so it does not
        # describe this object.
        finding, seen = (
            (drift.compare(child, desired), None)
            if context.awaits_repair
            else drift.find(child, desired, context.memory)
        )
        # An unproven object is signed before another object is created or this one is deleted.
        assess = (
            decide.decide if child.unhealthy_reason is None or not child.is_identified else decide.replace_unhealthy
        )
        status = assess(context, child, desired, finding)
        conditions = drift.describe_drift(context, child, finding, desired)
        if child.has_record:
            conditions += self.records.describe(child)
        if not conditions and seen is None:
            return status
        updates = status.memory_updates if seen is None else (*status.memory_updates, seen)
        return dataclasses.replace(status, conditions=status.conditions + conditions, memory_updates=updates)

    def _find_omitted(self, context: ResourceContext, child: Child) -> Path:
        """Return a field that this Stack reads of the object and that is too large to store, or () for none."""
        reads = self.blueprint.reads.get(context.resource.own_name, frozenset()) | self.rules.paths(child.kind)
        return next(
            (path for path in child.omitted if any(field_paths.is_overlapping(path, read) for read in reads)), ()
        )

    def _plan_oversized(self, context: ResourceContext, child: Child) -> ResourceStatus:
        """Plan a resource whose unsigned object was too large for the cache.

        The operator reads the object before writing it.
        """
        desired = context.desired.at(child.incarnation, child=child)
        return self._refuse(context.name, desired, child) or step_planning.plan_apply(
            context, desired, None, reclaims_uid=child.uid
        )

    def _refuse(self, name: str, desired: DesiredObject, child: Child | None) -> ResourceStatus | None:
        """Return the failed status if the object must not be written, regardless of its origin, otherwise None.

        child: the existing object, which stays in any case.
        """
        ref = desired.ref
        # Claim the object even if it cannot be written now.
        other = self.wanted.claim(ref, name)
        if message := self.reader.boundary.find_denial(ref):
            reason = tenancy.REASON
        elif message := self.kinds.find_unwatched_place(desired.kind, ref, namespace=self._stack.namespace):
            reason, child = "NamespaceNotServed", None
        elif other != name:
            reason, child = "DuplicateObject", None
            message = f"names the same object as resource {other!r}; give it another name or namespace"
        else:
            return None
        return ResourceStatus(state=ResourceState.FAILED, reason=reason, message=message, planned_ref=ref, child=child)


# Objects with a Stack's label but without its signature, which a resource may reclaim. Their signature was removed or
# damaged, or an earlier version of the operator wrote them. Their metadata is untrusted: it is used to find the object,
# but never causes a deletion, a hold or an order.

CLAIMS_READ = 16
"""Limit of claimed incarnations to look up per resource. A resource has two or three at a time."""


class Unproven:
    """Index of one Stack's unproven objects by reference."""

    def __init__(self) -> None:
        self._found: tuple[Child, ...] = ()
        self._places: dict[ObjectRef, Child] = {}
        self._claims: dict[str, set[int]] = {}
        """By resource: the incarnations that the objects claim."""

    def update(self, found: tuple[Child, ...]) -> None:
        """Update from the cache. Costs nothing while the objects are unchanged."""
        if found is self._found or not (found or self._found):
            return
        self._found = found
        self._places = {child.ref: child for child in found}
        self._claims = {}
        for child in found:
            claims = self._claims.setdefault(child.resource, set())
            if len(claims) < CLAIMS_READ:
                claims.add(child.incarnation)

    def find(self, desired: DesiredResource) -> Child | None:
        """Find an object at one of the resource's references that an apply of the operator labelled."""
        if not self._found:
            return None
        claimed = self._claims.get(desired.owner.resource, set())
        for incarnation in sorted({1, *claimed}, reverse=True):
            for ref in desired.refs_at(incarnation):
                child = self._places.get(ref)
                if child is not None and child.is_labelled_by_us:
                    return child
        return None


# Restoration of a suspended object whose definition cannot be applied because of a problem. The object runs as before,
# like any object whose update fails. A delay alone does not restore it.

STUCK = frozenset({ResourceState.FAILED, ResourceState.STOPPED})


def restore_if_stuck(
    name: str,
    status: ResourceStatus,
    unready: Iterable[ResourceStatus | CollectionStatus],
    *,
    memory: InMemoryState,
    records: SuspendRecords,
    now: float,
) -> ResourceStatus:
    """Add the step that restores the object if it is suspended and the resource is stuck.

    unready: statuses of the resources that it waits for; now: monotonic seconds.
    """
    if status.state is ResourceState.WAITING:
        waits_for = list(unready)
        is_stuck = all(each.is_stuck for each in waits_for) if waits_for else status.cause is Cause.VALUE_MISSING
    else:
        is_stuck = status.state in STUCK
    if not is_stuck:
        return status
    child = status.child
    if child is None or child.deleting or not records.is_suspended_now(child):
        return dataclasses.replace(status, is_stuck=True)
    if status.step is not None or name in memory.in_flight or child.uid in memory.in_flight:
        return status
    step = suspend_object.restore(child, records)
    # Restoring has its own key, because a rejection of one step does not apply to the other.
    attempt = memory.attempts.get(child.uid)
    if attempt is not None and attempt.attempt_id == steps.attempt_id(step) and attempt.retry_at > now:
        wakes = (each for each in (status.requeue_at, attempt.wake_at) if each is not None)
        return dataclasses.replace(status, requeue_at=min(wakes, default=None))
    return dataclasses.replace(status, restore_step=step)


# Control of one planned step by the rolling update of its collection: a change of a member waits for its batch.
# Creations, repairs and deletions of obsolete objects never wait.

CHANGES = (Action.UPDATE, Action.REPLACE)
REASON = "RollingUpdate"
WAITS = "waits until its batch of the rolling update starts"


def hold(context: ResourceContext, status: ResourceStatus, update: RollingUpdate) -> ResourceStatus:
    """Return the status as it is if the step may start, otherwise without its step."""
    action = enforcement.classify_step(context, status.step).starts if status.step is not None else None
    if action not in CHANGES:
        # A member that stops at a breakpoint after its change is not done.
        if status.is_ready and enforcement.enforce(context, status).is_ready:
            update.note_settled(context.name)
        else:
            update.note_unsettled(context.name)
        return status
    child = find_represented(context, status)
    health = decide.assess_child(context, child) if child is not None else None
    if context.environment.rules.find_restriction(context.name, action) is not None:
        # This member does not change, so the others need not wait for it.
        update.note_settled(context.name, is_available=health is not None and health.is_ready)
        return status
    change = PendingChange(
        is_available=health is not None and health.is_ready,
        is_outdated=child is not None and child.hash != context.desired.hash,
    )
    if update.note_waiting(context.name, change):
        return status
    return wait(status, health, child)


def find_represented(context: ResourceContext, status: ResourceStatus) -> Child | None:
    """Return the object that the step changes, or that the next one replaces."""
    if status.child is not None:
        return status.child
    candidates = [child for child in context.children if child.is_identified and not child.deleting]
    return max(candidates, key=lambda child: child.incarnation, default=None)


def wait(status: ResourceStatus, health_status: ResourceStatus | None, child: Child | None) -> ResourceStatus:
    """Return the status of a member that waits for its batch.

    A failed object is not a failure of the update, because the update will change or replace it.
    """
    has_failed = health_status is not None and health_status.state is ResourceState.FAILED
    message = f"{health_status.message}; it {WAITS}" if health_status is not None and has_failed else WAITS
    return ResourceStatus(
        state=ResourceState.WAITING,
        reason=REASON,
        cause=Cause.ORDER,
        message=message,
        child=child,
        conditions=status.conditions,
        memory_updates=status.memory_updates,
    )
