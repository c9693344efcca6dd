"""Planner of one resource: the desired object, the existing object, and the step that closes the difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from hearth.model import field_paths, limits, tenancy
from hearth.model.child import Child, Path
from hearth.model.groups import members
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.plan.environment import active_environment, inherited_rules
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import (
    blocked_status,
    decide,
    drift,
    enforcement,
    replace_unhealthy,
    replacement,
    restore_object,
    rolling_control,
    step_planning,
)
from hearth.plan.resource.blocked_status import Denial, KindUnavailable, Unevaluated
from hearth.plan.resource.readiness import enumerate_names
from hearth.plan.resource.unproven import Unproven
from hearth.plan.state import internal_errors, read_limits, requirements
from hearth.plan.state.desired import ChildOwner, DesiredObject, DesiredResource, hash_desired, make_desired
from hearth.plan.state.healing import UnhealthyTracker
from hearth.plan.state.internal_errors import OnError, Retry
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.read_access import Reader
from hearth.plan.state.requirements import CollectionStatus, Required, Value
from hearth.plan.state.resource_context import ResourceContext
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.rolling_updates import RollingUpdates
from hearth.plan.state.suspend_record import SuspendRecords
from hearth.plan.target import claim_content
from hearth.template.blueprint import (
    Blueprint,
    DriftPolicy,
    EvaluationError,
    Known,
    ResourceBlueprint,
    StackIdentity,
    Values,
)
from hearth.template.cel import expressions


class ResourcePlanner:
    """Planner for the resources of one blueprint. Caches evaluated manifests while their inputs are unchanged."""

    def __init__(  # noqa: PLR0913 -- each is a separate input of planning
        self,
        *,
        blueprint: Blueprint,
        stack: StackIdentity,
        kinds: Kinds,
        hashes: HashFunction,
        unwatched: Collection[Kind],
        reader: Reader,
        only_namespace: str,
        namespaced_watches: Collection[str],
        rules: HealthRules,
        on_error: OnError = internal_errors.ignore_nothing,
        denied: Mapping[Kind, str],
    ) -> None:
        """Evaluate nothing before it is requested.

        reader: where the objects may be, and as which account the Stack reads them; on_error: receives an unexpected
        exception, after which that one resource has failed.
        """
        self.on_error = on_error
        self.denied = denied
        self._errors: dict[str, Retry] = {}
        """Consecutive internal errors by resource."""
        self.environment: ActiveEnvironment = active_environment.UNRESTRICTED
        self.rolling = RollingUpdates(blueprint.rolling)
        self.is_paused = False
        self.is_at_rest = False
        """See `ResourceContext`."""
        self._unwatched = unwatched
        self.reader = reader
        self._only_namespace = only_namespace
        self._namespaced_watches = namespaced_watches
        self.unhealthy = UnhealthyTracker(total=len(blueprint.resources))
        self.rules = rules
        self._blueprint = blueprint
        self._stack = stack
        self.kinds = kinds
        self._hashes = hashes
        self.records = SuspendRecords(hashes=hashes, rules=rules)
        self.unproven = Unproven()
        self._wanted: dict[str, DesiredResource] = {}
        self._seen: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {}
        """By resource, the fields of its child and their form for expressions."""
        self._size = 0
        """Size in bytes of the manifests that depend on other resources."""
        self._claims: dict[ObjectRef, str] = {}
        self.collections = {
            members.name_all(name): CollectionStatus(collection.members)
            for name, collection in blueprint.collections.items()
        }
        """By the name in `requires`. The caller updates them."""

    def update_blueprint(self, blueprint: Blueprint, changed: Collection[str]) -> None:
        """Continue with another blueprint of the same resources, of which these changed."""
        for name in changed:
            known = self._wanted.pop(name, None)
            if known is not None and not self._blueprint.resources[name].is_constant:
                self._size -= len(known.packed)
        claimed = set(changed)
        self._claims = {ref: name for ref, name in self._claims.items() if name not in claimed}
        self._blueprint = blueprint

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
            resource = self._blueprint.resources[name]
            required = self._find_required(resource, statuses)
            awaited = {**required, **{each: statuses[each] for each in resource.after}} if resource.after else required
            unready = [each for each, found in awaited.items() if not found.is_ready]
            status = self._assess(resource, required, children, unready, memory=memory, now=now)
            if status.is_ready and self.reader.is_limited and self._is_read(resource):
                status = read_limits.await_access(status, self.reader)
            if not (status.is_ready or status.state is ResourceState.PROGRESSING):
                waits_for = (awaited[each] for each in unready)
                status = restore_object.restore_if_stuck(
                    name, status, waits_for, memory=memory, records=self.records, now=now
                )
        except Exception as error:  # noqa: BLE001 -- other resources continue; the error is reported
            self.on_error(name, error)
            return self._fail(name, children, now=now)
        if self._errors:
            self._errors.pop(name, None)
        return status

    def _fail(self, name: str, children: tuple[Child, ...], *, now: float) -> ResourceStatus:
        """Return the status of a resource after an internal error."""
        self._note_unsettled(name)
        retry = self._errors[name] = internal_errors.after_failure(self._errors.get(name), now=now)
        return ResourceStatus(
            state=ResourceState.FAILED,
            reason=internal_errors.REASON,
            cause=Cause.INTERNAL_ERROR,
            message=internal_errors.explain("decide what to do about it"),
            child=requirements.find_current(children),
            requeue_at=retry.due,
        )

    def _is_read(self, resource: ResourceBlueprint) -> bool:
        """Return whether any expression reads the object of the resource."""
        reads = self._blueprint.reads
        return bool(reads.get(resource.name) or reads.get(resource.own_name))

    def _find_required(self, resource: ResourceBlueprint, statuses: Mapping[str, ResourceStatus]) -> Required:
        """Return the statuses of all that it requires, by the names in `requires`."""
        if not self.collections:
            return {each: statuses[each] for each in resource.requires}
        return {each: self.collections.get(each) or statuses[each] for each in resource.requires}

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
        if unready:
            self._note_unsettled(resource.name)
            return blocked_status.waiting(
                f"waits for {enumerate_names(unready)}", child=requirements.find_current(children)
            )
        if self.reader.is_limited:
            objects = {
                requirements.find_value_name(each): requirements.find_children(found)
                for each, found in required.items()
            }
            if unreadable := read_limits.find_unreadable(
                resource, objects, self.reader, child=requirements.find_current(children)
            ):
                return unreadable
        values = {
            requirements.find_value_name(each): requirements.find_value(found) for each, found in required.items()
        }
        wanted = self._evaluate(resource, required, values)
        if not isinstance(wanted, DesiredResource):
            self._note_unsettled(resource.name)
            return blocked_status.explain(wanted, child=requirements.find_current(children))
        awaits_repair = any(found.is_held for found in required.values())
        adopts = self._blueprint.adopts if resource.adopts is None else resource.adopts
        subject = ResourceContext(
            resource=resource,
            desired=wanted,
            children=children,
            values=values,
            memory=memory,
            now=now,
            blueprint=self._blueprint,
            unhealthy=self.unhealthy,
            adopts=adopts,
            rules=self.rules,
            records=self.records,
            reader=self.reader,
            environment=self.environment,
            is_paused=self.is_paused,
            is_at_rest=self.is_at_rest,
            awaits_repair=awaits_repair,
        )
        status = self._decide(subject)
        if (update := self.rolling.find(resource.name)) is not None:
            status = rolling_control.hold(subject, status, update)
        return enforcement.enforce(subject, status)

    def _note_unsettled(self, name: str) -> None:
        """Record a member that cannot be planned now."""
        if (update := self.rolling.find(name)) is not None:
            update.note_unsettled(name)

    def _enlarge(self, name: str, fields: Value) -> Value:
        """Return the fields of a child as expressions take them. Their size is checked only when they change."""
        if fields is None or isinstance(fields, tuple):
            return fields
        seen = self._seen.get(name)
        if seen is None or seen[0] is not fields:
            seen = self._seen[name] = fields, expressions.enlarge(fields)
        return seen[1]

    def find_desired(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object as last evaluated: for that child, otherwise for the first incarnation."""
        known = self._wanted.get(name)
        if known is None or child is None:
            return known.at(1) if known is not None else None
        return known.at(child.incarnation, child=child)

    def has_lost_kinds(self) -> bool:
        """Return whether the cluster does not serve the kind of any resource."""
        resources = self._blueprint.resources.values()
        return any(self.kinds.find(resource.api_version, resource.kind) is None for resource in resources)

    def _explain_unwatched(self, kind: Kind) -> Denial:
        """Return that the operator may not watch a kind, with the way out."""
        way_out = "grant it that right, or remove the resource"
        if kind.key in self._namespaced_watches:
            way_out = (
                f"let it list and watch them in namespace {self._stack.namespace} by a RoleBinding, for Secrets to the "
                f"ClusterRole hearth-watch-secrets"
            )
        return Denial(f"the operator is not allowed to watch {kind.key} objects: {self.denied[kind]}; {way_out}")

    def _evaluate(
        self, resource: ResourceBlueprint, required: Required, values: Values
    ) -> DesiredResource | Unevaluated:
        """Evaluate the desired resource, or return why it has no manifest."""
        kind = self.kinds.find(resource.api_version, resource.kind)
        if kind is None:
            return KindUnavailable(
                f"the cluster does not serve kind {resource.kind} in {resource.api_version}; the resource continues when it does"
            )
        if self.denied and kind in self.denied:
            return self._explain_unwatched(kind)
        if kind in self._unwatched:
            return KindUnavailable(f"{kind.key} objects cannot be watched yet; the resource continues when they can")
        inherited = inherited_rules.find(self.environment.rules, resource.name) if resource.is_stack else None
        signatures = [found.fingerprint for found in required.values()]
        inputs: object = (kind, inherited, *signatures) if signatures or inherited is not None else kind
        known = self._wanted.get(resource.name)
        if known is not None and (known.inputs is inputs or known.inputs == inputs):
            return known
        outcome = resource.manifest.evaluate({name: self._enlarge(name, fields) for name, fields in values.items()})
        if not isinstance(outcome, Known):
            return outcome
        if (
            resource.has_computed_metadata
            and (mistake := blocked_status.find_mistake(resource, outcome.value)) is not None
        ):
            return mistake
        value = outcome.value
        if resource.restored is not None:
            value = claim_content.restore(value, resource.restored)
        requires = tuple(f"{each}/{requirements.incarnation_of(found)}" for each, found in required.items())
        whose = ChildOwner(stack=self._stack, resource=resource.name, requires=requires, signer=self._hashes)
        wanted = make_desired(
            value,
            kind=kind,
            hash_=hash_desired(value, is_retained=resource.is_retained, hashes=self._hashes),
            whose=whose,
            packed=resource.constant if resource.restored is None else None,
            inputs=inputs,
            is_retained=resource.is_retained,
            inherited=inherited,
            statement=applied_fields.make_applied_fields(
                value,
                whole=resource.drift_policy is not DriftPolicy.REPAIR,
                ignored=resource.ignore_fields,
                owner=f"{self._stack.uid}/{resource.name}",
                hashes=self._hashes,
            ),
        )
        if not resource.is_constant and not self._count(known, wanted):
            message = (
                f"makes the objects of the Stack together larger than {limits.WANTED_BYTES} bytes; split the Stack"
            )
            return EvaluationError(path=f"{resource.path}.manifest", message=message)
        if known is not None:
            self._claims = {ref: name for ref, name in self._claims.items() if name != resource.name}
        self._wanted[resource.name] = wanted
        return wanted

    def _count(self, known: DesiredResource | None, wanted: DesiredResource) -> bool:
        """Replace the size of the known manifest with the new one. Return whether it is within the limit."""
        size = self._size + len(wanted.packed) - (len(known.packed) if known is not None else 0)
        if size > limits.WANTED_BYTES:
            return False
        self._size = size
        return True

    def _decide(self, subject: ResourceContext) -> ResourceStatus:
        """Plan a resource whose manifest is known."""
        wanted = subject.desired
        candidates = replacement.find_candidates(subject.children, wanted)
        child = replacement.choose_child(candidates, wanted, lambda each: decide.assess_child(subject, each))
        if child is None and not subject.children and (child := self.unproven.find(wanted)) is not None:
            subject = dataclasses.replace(subject, children=(child,))
            if child.ownership is None or child.omitted:
                return self._take_up(subject, child)
        # If the kind or the explicit name changed, the existing objects count as earlier incarnations.
        number = child.incarnation if child is not None else replacement.find_next_incarnation(subject.children)
        desired = wanted.at(number, child=child)
        if refused := self._refuse(subject.name, desired, child):
            return refused
        if child is None:
            # The answer comes no later than that of the apply.
            self.reader.expect(desired.kind, desired.ref.namespace)
            return step_planning.plan_apply(subject, desired, None)
        if child.deleting:
            return decide.assess_child(subject, child)
        if child.defect and child.hash == desired.hash:
            # The object shows only part of its content, so it allows no conclusion. A different definition is still
            # written.
            return blocked_status.unreadable(child)
        if child.omitted and child.hash == desired.hash and (path := self._find_omitted(subject, child)):
            return blocked_status.too_large(child, path)
        if subject.memory.is_leaving(child):
            # The object was obsolete a moment ago. A dependent that took it as ready would use values of a deleted
            # object.
            return step_planning.await_deletion(child)
        return self._decide_existing(subject, child, desired)

    def _decide_existing(self, subject: ResourceContext, child: Child, desired: DesiredObject) -> ResourceStatus:
        """Plan a resource by comparing its object with the definition."""
        # A definition made from values that are repaired later says nothing about this object's own.
        finding, seen = (
            (drift.compare(child, desired), None)
            if subject.awaits_repair
            else drift.find(child, desired, subject.memory)
        )
        # An unproven object is signed first. Only then may another object be made, or this one be deleted.
        assess = (
            decide.decide
            if child.unhealthy_reason is None or not child.is_identified
            else replace_unhealthy.replace_unhealthy
        )
        status = assess(subject, child, desired, finding)
        conditions = drift.describe_drift(subject, child, finding, desired)
        if child.has_record:
            conditions += self.records.describe(child)
        if not conditions and seen is None:
            return status
        updates = status.memory_updates if seen is None else (*status.memory_updates, seen)
        return dataclasses.replace(status, conditions=status.conditions + conditions, memory_updates=updates)

    def _find_omitted(self, subject: ResourceContext, child: Child) -> Path:
        """Return a field that this Stack reads of the object and that is too large to store, or () for none."""
        reads = self._blueprint.reads.get(subject.resource.own_name, frozenset()) | self.rules.paths(child.kind)
        return next(
            (path for path in child.omitted if any(field_paths.is_overlapping(path, read) for read in reads)), ()
        )

    def _take_up(self, subject: ResourceContext, child: Child) -> ResourceStatus:
        """Plan a resource whose unsigned object was too large for the cache.

        The operator reads the object before writing it.
        """
        desired = subject.desired.at(child.incarnation, child=child)
        return self._refuse(subject.name, desired, child) or step_planning.plan_apply(
            subject, desired, None, takes_up=child.uid
        )

    def _refuse(self, name: str, desired: DesiredObject, child: Child | None) -> ResourceStatus | None:
        """Return the failed status if the object may not be written, regardless of its origin, otherwise None.

        child: the existing object, which stays in any case.
        """
        ref = desired.ref
        if message := self.reader.boundary.find_denial(ref):
            return ResourceStatus(
                state=ResourceState.FAILED, reason=tenancy.REASON, message=message, planned_ref=ref, child=child
            )
        if self._only_namespace and ref.namespace not in ("", self._only_namespace):
            message = f"is in namespace {ref.namespace}, but this operator serves only {self._only_namespace}"
            return ResourceStatus(
                state=ResourceState.FAILED, reason="NamespaceNotServed", message=message, planned_ref=ref
            )
        if desired.kind.key in self._namespaced_watches and ref.namespace != self._stack.namespace:
            message = (
                f"is in namespace {ref.namespace}, but this operator watches {desired.kind.key} objects only in the "
                f"namespace of their Stack (--namespaced-watches); create the Stack in namespace {ref.namespace}"
            )
            return ResourceStatus(
                state=ResourceState.FAILED, reason="NamespaceNotServed", message=message, planned_ref=ref
            )
        other = self._claims.setdefault(ref, name)
        if other != name:
            message = f"names the same object as resource {other!r}; give it another name or namespace"
            return ResourceStatus(
                state=ResourceState.FAILED, reason="DuplicateObject", message=message, planned_ref=ref
            )
        return None


def see(child: Child | None) -> Mapping[str, object] | None:
    """Return the fields of a child in the form for expressions, for a single use."""
    return expressions.enlarge(child.fields) if child is not None else None
