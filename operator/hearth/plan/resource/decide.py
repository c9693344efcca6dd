"""Plans a resource whose object exists: update, replacement, repair, retry or no change."""

from __future__ import annotations

import dataclasses

from hearth.model import field_paths, names, signatures, value_class, workloads
from hearth.model.child import Child
from hearth.model.field_paths import ElementPath
from hearth.model.phases import ConditionType
from hearth.plan.environment import inherited_rules
from hearth.plan.environment.environment_rules import Action
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership import applied_fields, field_ownership
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import (
    data_kinds,
    drift,
    enforcement,
    exclusive_things,
    readiness,
    replaced_fields,
    replacement,
    replica_counts,
    set_replacement,
    step_planning,
    suspend_object,
)
from hearth.plan.resource.resource_context import ResourceContext
from hearth.plan.retry.backoff import ApplyAttempt, Attempt, FailedObject, RemovalAttempt
from hearth.plan.state import healing, read_access, source_versions
from hearth.plan.state.desired import DesiredObject, DesiredResource
from hearth.plan.state.healing import HealingDelay
from hearth.plan.state.resource_status import Cause, ManagerQuery, ResourceCondition, ResourceState, ResourceStatus
from hearth.plan.state.run_policy import RunPolicy
from hearth.plan.state.steps import Delete
from hearth.plan.target import volume_restore
from hearth.template.blueprint import Replacement

RUN_ON_REQUEST = "it is not rerun automatically; to run it again: kubectl stack retry STACK"
REQUIRES_PATH: ElementPath = ("metadata", "annotations", names.ANNOTATION_REQUIRES)
KEPT_WHEN_FAILED = (Replacement.NEVER, Replacement.KEEP_CLAIMS)
"""The policies that keep a failed object. A StatefulSet that takes over the Pods of a failed one would fail as well."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReplacingChange:
    """Change of the definition that requires another object."""

    field: str
    """The changed field, or fields."""
    is_named: bool
    """Whether `replaceOn` names the field. Otherwise the API server rejected its change."""


def decide(context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding) -> ResourceStatus:
    """Plan a resource whose object exists: compare the object with the definition and with its field ownership."""
    is_suspended = child.has_record and context.records.is_suspended(child)
    if is_suspended:
        finding = suspend_object.without_suspend_fields(child, finding, context.records)
    elif child.is_held_down and finding.tolerated:
        finding = suspend_object.reclaim_unrecorded(child, finding, context.records)
    if waiting := _hold_back(context, child, is_suspended=is_suspended):
        return waiting
    if child.hash != desired.hash:
        change = find_replacing_change(context, child, desired, finding) if child.is_identified else None
        return (
            _replace(context, child, change, desired)
            if change
            else step_planning.plan_apply(context, desired, child, finding)
        )
    is_given = not context.resource.is_stack or _is_inheritance_current(child, desired.inherited_rules)
    if not (is_given and applied_fields.is_record_current(child, desired.record)):
        return step_planning.plan_apply(context, desired, child, finding)
    if is_suspended:
        # Fields that suspending changed are neither a drift conflict nor drift of another field manager.
        return (
            step_planning.plan_apply(context, desired, child, finding)
            if finding.to_repair
            else step_planning.plan_resume(context, child)
        )
    if is_requirement_changed(child, desired, finding):
        return step_planning.plan_apply(context, desired, child, finding)
    if context.is_paused and finding.to_repair:
        return _hold_repair(context, child, desired, finding)
    if finding.to_repair or context.name in context.memory.drift_conflicts:
        return _plan_drift_repair(context, child, desired, finding)
    return _assess_unchanged(context, child)


def relabel(context: ResourceContext, child: Child, desired: DesiredObject) -> ResourceStatus:
    """Plan a resource whose object belonged to another resource until now: one apply, which keeps the object."""
    if child.deleting:
        return assess_child(context, child)
    finding = drift.check_before_change(child, desired)
    change = find_replacing_change(context, child, desired, finding)
    if change is not None:
        return _replace(context, child, change, desired)
    return step_planning.plan_apply(context, desired, child, finding)


def _hold_back(context: ResourceContext, child: Child, *, is_suspended: bool) -> ResourceStatus | None:
    """Plan no step while a required object awaits repair, or while Pods end that new ones must not run next to."""
    if context.awaits_repair:
        return dataclasses.replace(assess_child(context, child), is_held=True)
    return _await_pods(context, child) if is_suspended else None


def _await_pods(context: ResourceContext, child: Child) -> ResourceStatus | None:
    """Keep a suspended object down while its old Pods are still ending and new Pods must not run next to them."""
    rule = context.rules.find_suspension(child.kind) if child.kind.key in workloads.POD_KINDS else None
    if rule is None or not rule.is_set(child) or rule.is_done(child):
        return None
    reason = workloads.find_stop_reason(context.desired.manifest)
    message = f"is resumed when its Pods have ended, because {reason}"
    return readiness.make_status(child, ResourceState.PROGRESSING, "PodsTerminating", message) if reason else None


def _is_inheritance_current(child: Child, inheritance: InheritedRules | None) -> bool:
    """Return whether an apply would leave the object's record of inherited rules unchanged.

    An apply does not remove a record that another manager wrote.
    """
    if inherited_rules.has_rules(child, inheritance):
        return True
    return inheritance is None and not field_ownership.owns_annotation(
        child.ownership, names.ANNOTATION_INHERITED_RULES
    )


def _hold_repair(
    context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """Plan a repair that `spec.paused` prevents. While the Stack is at rest, the resource is as ready as its object."""
    repair = step_planning.plan_apply(context, desired, child, finding, repairs=drift.describe(finding.to_repair))
    if not context.is_at_rest:
        return repair
    return dataclasses.replace(assess_child(context, child), step=repair.step, is_held=True)


def _plan_drift_repair(
    context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """Plan a resource whose fields another field manager takes now, or took recently."""
    memory, name = context.memory, context.name
    conflict = memory.find_conflict(name, now=context.now)
    if finding.to_repair and (conflict is None or conflict.next_repair <= context.now):
        repair = step_planning.plan_apply(context, desired, child, finding, repairs=drift.describe(finding.to_repair))
        if conflict is None or not conflict.is_conflict or repair.state is not ResourceState.PROGRESSING:
            return repair
        # In a drift conflict, dependents do not wait for the repair: the resource is ready if its object is.
        status = dataclasses.replace(assess_child(context, child), step=repair.step)
    else:
        status = _assess_unchanged(context, child)
        if conflict is not None and (finding.to_repair or conflict.is_conflict):
            due = conflict.next_repair if finding.to_repair else conflict.expires_at
            status = dataclasses.replace(status, requeue_at=min(due, status.requeue_at or due))
    question = ManagerQuery(child=child, lost=finding.to_repair, manifest=desired.manifest)
    return dataclasses.replace(status, conditions=drift.describe_conflict(name, conflict, question, memory))


def _assess_unchanged(context: ResourceContext, child: Child) -> ResourceStatus:
    """Plan a resource whose object matches its definition."""
    status = assess_child(context, child)
    if not status.is_ready and len(context.children) > 1:
        policy = context.resource.replacement
        is_pinned = context.desired.is_name_pinned
        holder = exclusive_things.describe_holder(
            context.desired.manifest, child, context.children, policy, is_name_pinned=is_pinned
        )
        status = dataclasses.replace(status, message=f"{status.message}{holder}")
    return _retry(context, status) if status.is_terminal and child.is_identified else status


def assess_child(context: ResourceContext, child: Child) -> ResourceStatus:
    """Assess the health of one object of the resource, regardless of the others."""
    is_limited = context.reader.is_limited
    if is_limited and (withheld := read_access.withhold_rules(context.resource, child, context.reader)):
        return withheld
    reads_sources = context.resource.is_stack or (context.sources and source_versions.is_instance(child.fields))
    described = source_versions.read(child.fields) if reads_sources else {}
    if described and (unread := readiness.find_unread_source(child, described, context.sources)):
        return dataclasses.replace(unread, nested_sources=described)
    status = readiness.assess(context.resource, child, context.values, context.rules)
    if status.cause is Cause.NOT_OBSERVED:
        status = readiness.explain_silence(child, status, context.memory, now=context.now)
    if described:
        status = dataclasses.replace(status, nested_sources=described)
    return read_access.withhold_words(child, status, context.reader) if is_limited and not status.is_ready else status


def _replace(context: ResourceContext, child: Child, change: ReplacingChange, desired: DesiredObject) -> ResourceStatus:
    """Plan a resource whose change requires another object."""
    wanted, field = context.desired, change.field
    policy = replacement.find_policy(
        context.resource, wanted, is_named=change.is_named, is_rollback=context.is_rollback
    )
    if policy is Replacement.NEVER:
        message = replacement.explain_not_replaced(wanted, field=field)
        # The operator never owned fields that are new in the definition, so no other client took them.
        if child.hash == desired.hash and (lost := drift.compare(child, desired).to_repair):
            message += f"; another client changed {drift.describe(lost)}: put its value into the template, or name it in ignoreFields"
        return readiness.make_status(child, ResourceState.FAILED, "Immutable", message)
    if policy is Replacement.KEEP_CLAIMS:
        return plan_detach(context, child, f"is replaced because {field} changed: its Pods and claims stay")
    if policy is Replacement.DELETE_FIRST and is_retained(context, child):
        # A deletion would only release the object. It would keep its name, and its Pods would keep running.
        if wanted.is_name_pinned or workloads.find_stop_reason(wanted.manifest):
            message = f"{field} cannot be changed in place, and {explain_retained(context, child)}"
            return readiness.make_status(child, ResourceState.FAILED, "Immutable", message)
    elif policy is Replacement.DELETE_FIRST:
        return step_planning.plan_delete(
            context, child, f"is replaced because {field} changed: {explain_order(wanted, child)}"
        )
    return plan_replacement(context)


def is_retained(context: ResourceContext, child: Child) -> bool:
    """Return whether the object must not be deleted for its successor, because it or something in it is retained."""
    return step_planning.is_retained(child, context.blueprint) or bool(context.find_contents(child))


def describe_retained(context: ResourceContext, child: Child) -> str:
    """Describe why an object is retained, as a clause."""
    is_own = step_planning.is_retained(child, context.blueprint)
    return step_planning.describe_retained(child, "" if is_own else context.find_contents(child))


def explain_retained(context: ResourceContext, child: Child) -> str:
    """Explain why no other object can take the place of a retained one."""
    return f"{describe_retained(context, child)}, so it is not deleted for a replacement; delete it yourself"


def explain_order(wanted: DesiredResource, child: Child) -> str:
    """Explain that the old object is deleted first."""
    if (reason := workloads.find_stop_reason(wanted.manifest)) and child.kind.key in workloads.POD_KINDS:
        return f"its Pods stop first, because {reason}"
    return "the old object is deleted first"


def stop_former(context: ResourceContext) -> ResourceStatus | None:
    """Plan the deletion of objects of another kind or name whose Pods would run at the same time as those of the new object."""
    running = [each for each in context.children if each.is_identified and each.kind.key in workloads.POD_KINDS]
    if not (running and replacement.stops_first(context.resource, context.desired)):
        return None
    for child in running:
        if child.deleting:
            return assess_child(context, child)
        if is_retained(context, child):
            message = (
                f"its Pods would run at the same time as the Pods of {child.ref}; {explain_retained(context, child)}"
            )
            return readiness.make_status(child, ResourceState.FAILED, "Immutable", message)
        order = explain_order(context.desired, child)
        return step_planning.plan_delete(context, child, f"is replaced because its kind or name changed: {order}")
    return None


def plan_going(context: ResourceContext, child: Child) -> ResourceStatus:
    """Plan a resource whose object is being deleted: it is recreated afterwards.

    Failed work that expires automatically is kept until its next run is due. Otherwise, a short lifetime would speed up
    its retries, and would rerun work that must wait for a request.
    """
    is_wanted = child.hash == context.desired.hash and child.unhealthy_reason is None
    if is_wanted and names.FINALIZER_COMPLETION in child.finalizers:
        failed = assess_child(context, dataclasses.replace(child, deleting=False))
        if failed.is_terminal:
            return _retry(context, dataclasses.replace(failed, child=child))
    return assess_child(context, child)


def plan_detach(context: ResourceContext, child: Child, message: str) -> ResourceStatus:
    """Plan the replacement of a StatefulSet by one of the same name that keeps its Pods and claims."""
    if is_retained(context, child):
        # The deletion would only release the object, and the object would keep its name.
        return readiness.make_status(child, ResourceState.FAILED, "Immutable", explain_retained(context, child))
    return step_planning.plan_detach(context, child, message)


def plan_replacement(context: ResourceContext) -> ResourceStatus:
    """Plan the next object of a resource.

    Objects that were never ready are deleted first, so that failed attempts do not accumulate.
    """
    for each in context.children:
        if replacement.is_disposable(each, context.memory) and not is_retained(context, each):
            return step_planning.plan_delete(
                context, each, "is replaced: the old object is deleted first because it never became ready"
            )
    return step_planning.plan_apply(
        context, context.desired.at(replacement.find_next_incarnation(context.children)), None
    )


def _retry(context: ResourceContext, failed_status: ResourceStatus) -> ResourceStatus:
    """Plan a resource whose object has failed permanently: replace it, with growing delays."""
    child, wanted, memory = failed_status.child, context.desired, context.memory
    policy = replacement.find_policy(context.resource, wanted)
    is_asked = context.name in memory.asked
    if child is None or (policy in KEPT_WHEN_FAILED and wanted.run is None):
        return failed_status
    if (hindered := _find_hindrance(context, failed_status, child, is_asked=is_asked)) is not None:
        return hindered
    attempt = memory.attempts.get(context.name)
    if attempt is None or child.uid not in memory.counted_failures or not matches_attempt(attempt, context, child):
        # This failure is not recorded yet. The caller of this function counts it and plans again.
        return failed_status
    if not is_asked and wanted.run is not None and _waits_for_request(context, wanted.run, attempt):
        return dataclasses.replace(failed_status, message=f"{failed_status.message}; {RUN_ON_REQUEST}")
    status = failed_status
    # A rejected apply of the next object has its own delay, set where that apply is planned.
    if attempt.attempt_id in (failure_id(child), RemovalAttempt(uid=child.uid)):
        status = dataclasses.replace(
            failed_status, state=ResourceState.FAILED if attempt.is_exhausted else ResourceState.RETRYING
        )
        if attempt.retry_at > context.now and context.name not in memory.in_flight and not is_asked:
            return dataclasses.replace(status, requeue_at=attempt.retry_at)
    if context.name in memory.in_flight:
        return status
    is_first = replacement.stops_first(context.resource, wanted)
    if wanted.run is not None or is_first or replacement.was_never_ready(child, memory):
        # Delete the old object first, so that failed attempts do not accumulate. Nothing requires it to stay, or its
        # Pods must stop.
        kept_replicas = replica_counts.read_former_count(child, context.records)
        return dataclasses.replace(status, step=Delete(child=child, kept_replicas=kept_replicas))
    return step_planning.plan_apply(context, wanted.at(replacement.find_next_incarnation(context.children)), None)


def _find_hindrance(
    context: ResourceContext, status: ResourceStatus, child: Child, *, is_asked: bool
) -> ResourceStatus | None:
    """Return the status of a failed object that cannot be replaced now, or None if it can."""
    if is_retained(context, child):
        # Every failed attempt would stay permanently, so only the owner of the object can make room for the next one.
        message = f"{status.message}; {explain_retained(context, child)}"
        return dataclasses.replace(status, message=message)
    wait = None if is_asked else context.unhealthy.find_delay(is_marked=False)
    return healing.delay_replacement(context.name, status, wait) if wait else None


def _waits_for_request(context: ResourceContext, run: RunPolicy, attempt: Attempt) -> bool:
    """Whether failed work runs again only on request.

    An explicit retry policy permits retries that the kind or a fixed name would otherwise prevent, but not retries that
    the resource forbids.
    """
    if run.limit is not None and attempt.failures > run.limit:
        return True
    is_forbidden = replacement.find_policy(context.resource, context.desired) is Replacement.NEVER
    return is_forbidden and (context.resource.retry is None or context.resource.replacement is Replacement.NEVER)


def find_replacing_change(
    context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ReplacingChange | None:
    """Find the change that requires another object, if any. Drift is not a change."""
    if context.resource.replace_on:
        stated = volume_restore.keep_content(context.desired.manifest, child)
        manifest = field_paths.without(stated, [lost.path for lost in finding.tolerated])
        field = replaced_fields.find_replaced_field(context.resource, child, manifest, desired.applied_fields)
        if field is not None:
            return ReplacingChange(field=field, is_named=True)
    refused = context.memory.immutable.get(child.uid)
    if refused is None or refused.hash != context.desired.hash:
        return None
    # Unless it is proven that a new object would be accepted, only the user's explicit choice puts the old one at risk.
    is_risked = context.resource.replacement is Replacement.DELETE_FIRST
    return ReplacingChange(field=refused.field, is_named=False) if refused.is_proven or is_risked else None


def is_requirement_changed(child: Child, desired: DesiredObject, finding: DriftFinding) -> bool:
    """Return whether the object's record names other resources than it requires now, regardless of their incarnations.

    The order of deletion follows the record. If another writer changed or removed the record, that is drift, with the
    backoff of drift.
    """
    requires = desired.resource.owner.requires
    if child.requires == requires or not child.is_signed:
        return False
    if find_required_resources(child.requires) == find_required_resources(requires):
        return False
    facts = signatures.parse(child.signature.rpartition("/")[0])
    is_proven = facts.requires == signatures.digest(",".join(child.requires))
    return is_proven and all(lost.path != REQUIRES_PATH for lost in finding.to_repair)


def find_required_resources(requires: tuple[str, ...]) -> set[str]:
    """Return the names of the resources in a record of incarnations."""
    return {each.partition("/")[0] for each in requires}


def matches_attempt(attempt: Attempt, context: ResourceContext, child: Child) -> bool:
    """Return whether the recorded attempt is a failed object, a rejected deletion, or a rejected next apply."""
    match attempt.attempt_id:
        case ApplyAttempt(hash=hash_, uid=None):
            return hash_ == context.desired.hash
        case other:
            return other in (failure_id(child), RemovalAttempt(uid=child.uid))


def failure_id(child: Child) -> FailedObject:
    """Return the ID of an attempt that replaces a failed object."""
    return FailedObject(hash=child.hash)


# Replacement of a resource whose object is marked unhealthy, and the explanation of a delay.


def replace_unhealthy(
    context: ResourceContext, child: Child, desired: DesiredObject, finding: DriftFinding
) -> ResourceStatus:
    """Plan a resource whose object is marked unhealthy."""
    policy = find_marked_policy(context)
    obstacle = find_mark_delay(context, child, policy)
    if obstacle is None:
        status = _replace_unhealthy(context, child, policy)
        reason, outlook = _find_mark_hold(context) or ("Replacing", "it is being replaced")
        if status.requeue_at is not None:
            outlook = f"its replacement is not done yet ({status.message})"
    else:
        # Changes in place continue, because the object may stay in use for a long time.
        status = decide(context, child, desired, finding)
        reason, outlook = obstacle.reason, obstacle.message
        if status.cause is Cause.MARKED_UNHEALTHY:
            status = dataclasses.replace(status, message=f"{status.message}; {outlook}")
    message = f"{context.name} ({child.ref}) {read_access.describe_mark(context.reader, child)}; {outlook}"
    condition = ResourceCondition(type=ConditionType.UNHEALTHY, reason=reason, message=message)
    return dataclasses.replace(status, conditions=(*status.conditions, condition))


def find_marked_policy(context: ResourceContext) -> Replacement:
    """Return the replacement policy. A mark also replaces objects of kinds that are never replaced automatically."""
    if context.resource.replacement is not None:
        return context.resource.replacement
    return Replacement.DELETE_FIRST if context.desired.is_name_pinned else replacement.find_order(context.desired)


def find_mark_delay(context: ResourceContext, child: Child, replacement: Replacement) -> HealingDelay | None:
    """Return why the resource is not replaced now, or None if it can be."""
    if replacement is Replacement.NEVER:
        message = "updatePolicy.replace: Never prevents its replacement; remove that setting, or remove the mark"
        return HealingDelay(reason="ReplacementDisabled", message=message)
    if replacement is Replacement.KEEP_CLAIMS and (obstacle := _find_restart_obstacle(context, child)) is not None:
        return obstacle
    stops_first = replacement is Replacement.DELETE_FIRST and workloads.find_stop_reason(context.desired.manifest)
    if (context.desired.is_name_pinned or stops_first) and is_retained(context, child):
        return HealingDelay(reason="Retained", message=explain_retained(context, child))
    return context.unhealthy.find_delay(is_marked=True)


def _find_restart_obstacle(context: ResourceContext, child: Child) -> HealingDelay | None:
    """Return why the Pods of a marked StatefulSet cannot be restarted one by one, or None if they can."""
    if is_retained(context, child):
        why = describe_retained(context, child)
        message = f"{why}, so its Pods are not restarted; run: kubectl rollout restart statefulset/{child.name} -n {child.namespace}"
        return HealingDelay(reason="Retained", message=message)
    if child.kind.key != data_kinds.STATEFUL_SET:
        message = f"updatePolicy.replace: KeepClaims is for a StatefulSet, and this is a {child.kind.name}"
        return HealingDelay(reason="ReplacementDisabled", message=message)
    if kept := set_replacement.find_kept_pods(context.desired.manifest):
        message = f"{kept}, so they are not restarted; delete them, then remove the mark"
        return HealingDelay(reason="ReplacementDisabled", message=message)
    return None


def _find_mark_hold(context: ResourceContext) -> tuple[str, str] | None:
    """Return reason and text of the user's setting that prevents the replacement, or None if no setting does."""
    rule = context.environment.rules.find_restriction(context.name, Action.REPLACE)
    if rule is not None:
        return enforcement.RESTRICTED, f"its replacement is denied by {rule.place}"
    if context.is_paused:
        return "Paused", "it is replaced when spec.paused is no longer true"
    hook = enforcement.BEFORE[Action.REPLACE]
    if context.environment.stops_at(context.name, hook):
        return enforcement.STOPPED, f"its replacement is stopped at the breakpoint {hook}"
    return None


def _replace_unhealthy(context: ResourceContext, child: Child, replacement: Replacement) -> ResourceStatus:
    """Plan another object now, or after the backoff for earlier marks."""
    memory = context.memory
    backoff = memory.mark_backoffs.get(context.name)
    why = read_access.describe_mark(context.reader, child)
    if child.uid not in memory.counted_failures:
        # This mark is not counted yet. The caller counts it and plans again.
        return readiness.make_status(child, ResourceState.PROGRESSING, readiness.UNHEALTHY, why, is_terminal=True)
    if (
        backoff is not None
        and backoff.uid == child.uid
        and backoff.due > context.now
        and context.name not in memory.in_flight
    ):
        message = f"{why}; {backoff.count} of its objects were marked in a row, so the next replacement is delayed"
        return dataclasses.replace(
            readiness.make_status(child, ResourceState.RETRYING, readiness.UNHEALTHY, message), requeue_at=backoff.due
        )
    if replacement is Replacement.KEEP_CLAIMS:
        return step_planning.plan_restart(context, child, f"{why}; its Pods are restarted one by one")
    if replacement is Replacement.DELETE_FIRST and not is_retained(context, child):
        order = explain_order(context.desired, child)
        return step_planning.plan_delete(context, child, f"{why}; {order}, then it is recreated")
    return plan_replacement(context)
