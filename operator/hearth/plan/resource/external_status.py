"""Status of external objects: whether they exist, are readable and are ready. Dependents wait for them.

An external object is read-only: it has no step and no attempt, and is not one of the Stack's objects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from hearth.model import limits, tenancy
from hearth.model.child import Child
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalQuery, ExternalView
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.memory_shares import memory_shares
from hearth.model.object_list import ObjectList
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.health.health_result import HealthState
from hearth.plan.health.health_rules import OBSERVED_GENERATION, HealthRules
from hearth.plan.resource import blocked_status, readiness
from hearth.plan.state import internal_errors, read_access
from hearth.plan.state.read_access import Access, Reader
from hearth.plan.state.requirements import ExternalStatus
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.template.blueprint import Blueprint, EvaluationError, ExternalBlueprint, Known, Pending
from hearth.template.cel import expressions
from hearth.template.compiler import object_names

NOT_FOUND = "ObjectNotFound"
"""The reason of an external object that does not exist."""
NOT_READY = "ObjectNotReady"
TOO_LARGE = "ObjectTooLarge"
WAY_OUT = (
    "read single keys (${source.data['ca.crt']} instead of ${source.data}), read the object by its name, or split it into "
    "several objects"
)
"""Advice for an object that is too large."""
LIMIT_REACHED = "LimitReached"
READING = "Reading"


class ExternalObjects:
    """The external objects that one Stack reads."""

    def __init__(self, blueprint: Blueprint, *, namespace: str) -> None:
        """namespace: of the Stack."""
        self.statuses: dict[str, ExternalStatus] = {}
        """By name in the template, as last refreshed."""
        self.find_view: Callable[[str], ExternalView] = lambda _name: UNKNOWN_VIEW
        """Returns the cached objects; the caller sets it."""
        self._blueprint = blueprint
        self._namespace = namespace
        self._seen: dict[str, tuple[object, ...]] = {}
        """Fingerprints of the objects when their dependents were last planned, by name."""

    def update_blueprint(self, blueprint: Blueprint) -> None:
        """Continue with another blueprint that reads the same objects."""
        self._blueprint = blueprint

    def __contains__(self, name: object) -> bool:
        """Whether the name belongs to an external object."""
        return name in self._blueprint.externals

    @property
    def is_ready(self) -> bool:
        """Return whether all external objects are ready."""
        if not self._blueprint.externals:
            return True
        found = self.statuses
        return len(found) == len(self._blueprint.externals) and all(each.is_ready for each in found.values())

    def refresh(
        self,
        name: str,
        *,
        reader: Reader,
        kinds: WatchedKinds,
        rules: HealthRules,
        find_unnamed: Callable[[ObjectRef], list[str]],
    ) -> bool:
        """Assess one external object again. Return whether its dependents must be planned again.

        find_unnamed: returns the resources whose object has no known name yet, and might be this one.
        """
        external = self._blueprint.externals[name]
        found = self._assess(external, reader=reader, kinds=kinds, rules=rules)
        if found.status.reason == NOT_FOUND and found.ref is not None:
            found = self._explain_missing(found, external, find_unnamed(found.ref))
        return self._note(name, found)

    def _explain_missing(
        self, found: ExternalStatus, external: ExternalBlueprint, unnamed: list[str]
    ) -> ExternalStatus:
        """Add to a missing object the resource that might create it, but waits for it."""
        waiting = (each for each in unnamed if object_names.waits_for(each, external, self._blueprint))
        if (resource := next(waiting, None)) is None:
            return found
        message = (
            f"{found.status.message}; '{resource}', whose name is not known yet, waits for it, so it cannot create it: use a "
            "parameter for the value if it should"
        )
        return dataclasses.replace(found, status=dataclasses.replace(found.status, message=message))

    def fail(self, name: str, message: str) -> bool:
        """Record an internal error. Return whether the dependents must be planned again."""
        status = dataclasses.replace(_fail(internal_errors.REASON, message), cause=Cause.INTERNAL_ERROR)
        return self._note(name, ExternalStatus(status=status))

    def _note(self, name: str, found: ExternalStatus) -> bool:
        self.statuses[name] = found
        before, self._seen[name] = self._seen.get(name), found.fingerprint
        return before != self._seen[name]

    def find_queries(self, *, reader: Reader, kinds: WatchedKinds, rules: HealthRules) -> dict[str, ExternalQuery]:
        """Return, by name, the objects that the cache must hold, except those that the Stack must not read."""
        queries: dict[str, ExternalQuery] = {}
        for name, external in self._blueprint.externals.items():
            kind = kinds.served.find(external.api_version, external.kind)
            if kind is None or _find_denial(external, self._place(external, kind), kind, reader, kinds) is not None:
                continue
            reads = self._blueprint.reads.get(name, frozenset())
            if not external.ready_when and external.selector is None:
                reads |= rules.paths(kind)
            queries[name] = ExternalQuery(
                kind=kind,
                namespace=self._place(external, kind),
                name=external.object_name,
                selector=external.selector,
                paths=reads | {OBSERVED_GENERATION} if external.ready_when else reads,
            )
        return queries

    def _place(self, external: ExternalBlueprint, kind: Kind) -> str:
        """Return the namespace to read; "" for all namespaces and for cluster-scoped kinds."""
        if not kind.namespaced or external.is_in_all_namespaces:
            return ""
        return self._namespace if external.namespace is None else external.namespace

    def _assess(
        self, external: ExternalBlueprint, *, reader: Reader, kinds: WatchedKinds, rules: HealthRules
    ) -> ExternalStatus:
        kind, is_list = kinds.served.find(external.api_version, external.kind), external.selector is not None
        if kind is None:
            if external.is_optional:
                return ExternalStatus(status=_ready("does not exist, and is optional"), is_list=is_list)
            return ExternalStatus(status=_await_kind(external.api_version, external.kind), is_list=is_list)
        place = self._place(external, kind)
        ref = ObjectRef(group=kind.group, kind=kind.name, namespace=place, name=external.object_name)
        if (denial := _find_denial(external, place, kind, reader, kinds)) is not None:
            return ExternalStatus(status=denial, ref=ref, is_list=is_list)
        view = self.find_view(external.name)
        objects = tuple(each for each in view.objects if not (is_list and reader.boundary.is_closed(each.ref)))
        obstacle = _find_obstacle(view, kind, ref) or _find_excess(objects, ref, external)
        if obstacle is not None:
            return ExternalStatus(status=obstacle, ref=ref, objects=objects, is_list=is_list)
        status = _judge_list(external, objects, rules) if is_list else _judge_object(external, objects, ref, rules)
        is_awaited = external.is_awaited and status.is_ready
        return ExternalStatus(status=status, ref=ref, objects=objects, is_list=is_list, is_awaited=is_awaited)


def _ready(message: str) -> ResourceStatus:
    return ResourceStatus(state=ResourceState.READY, reason="Ready", message=message)


def _fail(reason: str, message: str) -> ResourceStatus:
    return ResourceStatus(state=ResourceState.FAILED, reason=reason, message=message)


def _find_denial(
    external: ExternalBlueprint, place: str, kind: Kind, reader: Reader, kinds: WatchedKinds
) -> ResourceStatus | None:
    """Return the status of an object that the Stack is not permitted to read, otherwise None.

    The message is the same whether the object exists or not.
    """
    boundary, name = reader.boundary, external.object_name
    ref = ObjectRef(group=kind.group, kind=kind.name, namespace=place, name=name)
    denial = boundary.find_list_denial(kind, place) if external.selector is not None else boundary.find_denial(ref)
    if denial:
        return _fail(tenancy.REASON, f"{ref if name else f'the list of {kind.plural}'} {denial}")
    if kinds.only_namespace and kind.namespaced and place != kinds.only_namespace:
        return _fail(
            tenancy.REASON, f"{describe(ref)} cannot be read: this operator serves only {kinds.only_namespace}"
        )
    match reader.find_at(kind, place, name):
        case Access.GRANTED:
            return None
        case Access.UNKNOWN:
            message = "waits until the API server answers whether the ServiceAccount of the Stack may read it"
            return blocked_status.waiting(message, reason=READING, cause=Cause.EVALUATING)
        case Access.DENIED if name:
            return _fail(read_access.FORBIDDEN, boundary.explain_read_denial(kind, ref))
        case Access.DENIED:
            return _fail(read_access.FORBIDDEN, boundary.explain_list_denial(kind, place))
        case answer:
            assert_never(answer)


def _find_obstacle(view: ExternalView, kind: Kind, ref: ObjectRef) -> ResourceStatus | None:
    """Return the status of an object that the operator cannot watch, or has not read yet; otherwise None."""
    if view.excess:
        return _fail(LIMIT_REACHED, view.excess)
    if view.denial:
        message = f"the operator is not allowed to watch {kind.key} objects: {view.denial}; grant it that right"
        return _fail(read_access.FORBIDDEN, message)
    if view.is_kind_gone:
        return _await_kind(kind.api_version, kind.name)
    if not view.is_known:
        return blocked_status.waiting(f"{describe(ref)} is being read", reason=READING, cause=Cause.EVALUATING)
    return None


def _await_kind(api_version: str, kind: str) -> ResourceStatus:
    message = f"the cluster does not serve kind {kind} in {api_version}"
    return blocked_status.waiting(message, reason=blocked_status.KIND_NOT_AVAILABLE, cause=Cause.KIND_NOT_AVAILABLE)


def _find_excess(objects: tuple[Child, ...], ref: ObjectRef, external: ExternalBlueprint) -> ResourceStatus | None:
    """Return the status of objects that are unreadable or have a field that is too large; otherwise None."""
    for each in objects:
        if each.defect:
            return _fail("ObjectUnreadable", f"{describe(each.ref)} cannot be read: {each.defect}")
        if each.omitted:
            fields = enumerate_names([".".join(path) for path in each.omitted])
            message = (
                f"{describe(each.ref)}: {fields} is too large: at most {limits.EXTERNAL_OBJECT_BYTES // 1024} KiB of an object "
                f"that is read by its name, {limits.OBJECT_KEPT_BYTES // 1024} KiB of each object of a list, and "
                f"no more than half of {memory_shares.total // 2**20} MiB for all Stacks of this namespace; {WAY_OUT}"
            )
            return _fail(TOO_LARGE, message)
    if len(objects) > limits.EXTERNAL_OBJECTS:
        message = f"{describe(ref)} are more than {limits.EXTERNAL_OBJECTS} objects; write a narrower selector"
        return _fail(LIMIT_REACHED, message)
    if external.makes_members and (size := ObjectList(objects).size) > limits.LIST_READ_BYTES:
        message = (
            f"{describe(ref)} are {size / 2**20:.1f} MiB with all fields that Stacks read of them, and forEach reads at most "
            f"{limits.LIST_READ_BYTES // 2**20} MiB; read fewer fields, or write a narrower selector"
        )
        return _fail(TOO_LARGE, message)
    return None


def _judge_list(external: ExternalBlueprint, objects: tuple[Child, ...], rules: HealthRules) -> ResourceStatus:
    """Return the status of a list whose objects are known."""
    if external.ready_when:
        listed, count = ObjectList(objects), len(external.ready_when)
        if count * listed.size > limits.LIST_READ_BYTES:
            # Each rule unpacks the whole list, and all of them belong to one turn.
            message = (
                f"its {count} readyWhen rules read {listed.size / 2**20:.1f} MiB each, and at most "
                f"{limits.LIST_READ_BYTES // 2**20} MiB together are allowed; combine them with &&, read fewer fields, or "
                "write a narrower selector"
            )
            return _fail(TOO_LARGE, message)
        return _follow(external, {external.name: listed}, rules)
    return _ready(f"{len(objects)} objects")


def _judge_object(
    external: ExternalBlueprint, objects: tuple[Child, ...], ref: ObjectRef, rules: HealthRules
) -> ResourceStatus:
    """Return the status of one object, which may not exist."""
    if not objects:
        if external.is_optional:
            return _ready("does not exist, and is optional")
        return _await(f"{describe(ref)} does not exist", NOT_FOUND)
    found = objects[0]
    if found.deleting:
        return _await(f"{describe(ref)} is being deleted", NOT_FOUND)
    if external.ready_when:
        if readiness.is_stale(found):
            return _await("its controller has not observed the latest change yet", NOT_READY)
        return _follow(external, {external.name: expressions.enlarge(found.fields)}, rules)
    health = rules.assess(found.fields, kind=found.kind, resource=external.name)
    if health.is_pending:
        return blocked_status.waiting(f"the health of {describe(ref)} is being evaluated", cause=Cause.EVALUATING)
    if health.state is HealthState.READY:
        return _ready(health.message)
    return _await(f"{describe(ref)} is not ready: {health.message}", NOT_READY)


def _follow(external: ExternalBlueprint, values: Mapping[str, Any], rules: HealthRules) -> ResourceStatus:
    """Evaluate the resource's own `readyWhen` rules, all in one turn."""
    began = rules.turn.begin_work(external.name)
    if began is None:
        rules.turn.put_off()
        return blocked_status.waiting("its readyWhen rules are being evaluated", cause=Cause.EVALUATING)
    status = _evaluate(external, values)
    rules.turn.end_work(began)
    return status


def _evaluate(external: ExternalBlueprint, values: Mapping[str, Any]) -> ResourceStatus:
    for number, rule in enumerate(external.ready_when):
        match rule.evaluate(values):
            case Known(value=True):
                continue
            case Known():
                return _await(f"its rule readyWhen[{number}] is not met yet", NOT_READY)
            case Pending() as pending:
                return _await(f"waits for {enumerate_names(pending.missing)}", NOT_READY)
            case EvaluationError() as error:
                return _fail("ExpressionFailed", f"{error.path}: {error.message}")
    return _ready("its readyWhen rules are met")


def _await(message: str, reason: str) -> ResourceStatus:
    return blocked_status.waiting(message, reason=reason, cause=Cause.EXTERNAL)


def describe(ref: ObjectRef) -> str:
    """Return the name of the object, or of the objects of a list, for messages."""
    if ref.name:
        return f"{ref} in namespace {ref.namespace}" if ref.namespace else str(ref)
    return f"{ref.kind} objects in namespace {ref.namespace}" if ref.namespace else f"{ref.kind} objects"
