"""Runs the engine for one Stack on the copy until nothing is left to do, and records the meaning of each step.

As soon as nothing else can proceed, all objects in progress count as ready. No time passes, so no retry becomes due.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from hearth import supervision
from hearth.engine.stack.nesting import Nesting
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import DirtyScope
from hearth.engine.writes import step_execution
from hearth.engine.writes.step_execution import StepDone, StepExecutor, StepResult
from hearth.model import kinds, members, names, object_fields, value_class, workloads
from hearth.model.child import Child, Object
from hearth.model.kinds import ObjectRef
from hearth.plan.environment import environment_rules
from hearth.plan.ownership import applied_fields, field_changes
from hearth.plan.ownership.field_changes import FieldChange
from hearth.plan.resource import (
    data_kinds,
    exclusive_things,
    replaced_fields,
    reversal,
    step_planning,
    update_reversal,
)
from hearth.plan.resource.reversal import Undo
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import steps
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import (
    Apply,
    CreatePart,
    Delete,
    DeletePart,
    Detach,
    Release,
    Restart,
    Step,
    Suspend,
    WriteHealthMark,
)
from hearth.plan.status import status_builder
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ContentSeal
from hearth.plan.target.target import TargetCause
from hearth.preview import object_copies
from hearth.preview.assumptions import UnknownValues
from hearth.preview.changes import Action, Change
from hearth.preview.object_copies import DryRunWrite
from hearth.preview.preview_world import PreviewWorld
from hearth.template.blueprint import Completion, Replacement

RESTRICTED_ACTIONS: Final = "environment.restrictedActions"
STEPS_EACH: Final = 8
"""Maximum steps of a preview per resource and object, so that an endless replacement ends."""
ANSWER_INTERVAL: Final = 0.002
"""Seconds between checks for the API server's answers about permissions."""


class PreviewRun:
    """Runs the engine for one Stack on a copy of the cluster's state."""

    def __init__(self, world: PreviewWorld) -> None:
        self.world = world
        self.reconciler = StackReconciler(world.stack.uid, services=world.services, builder=world.builder)
        self.recorder = StepRecorder(
            unknown=world.assumptions.unknown,
            resources=self._list_resources,
            adopts=self.adopts,
            is_once=self._is_once,
            is_restricted=self._is_restricted,
            hash_content=world.request.hash_content,
        )
        self.is_rolled_back = False
        """Whether a failure would roll the Stack back. The preview ends there."""
        self.is_endless = False
        self.is_change = False
        """Whether another definition runs afterward, in place of one that has completed."""
        self.step_limit: int | None = None
        """The run ends after so many steps; None for all steps."""
        self.step_count = 0
        """Executed steps."""
        self.last_step: Step | None = None
        """The last executed step."""
        self._nesting = Nesting(services=world.services, on_limit=lambda _limit: None)
        self._count = 0

    def _list_resources(self) -> set[str]:
        return set(self.reconciler.planner.blueprint.resources) if self.reconciler.planner is not None else set()

    def adopts(self, resource: str) -> bool:
        """Return whether a rollback would adopt a released object of the resource, according to the spec."""
        planner = self.reconciler.planner
        return (planner is not None and planner.blueprint.adopts) or is_adopting(self.world.request.present, resource)

    def _is_once(self, resource: str) -> bool:
        planner = self.reconciler.planner
        blueprint = planner.blueprint.resources.get(resource) if planner is not None else None
        return blueprint is not None and blueprint.completion is Completion.ONCE

    def _is_restricted(self, resource: str) -> bool:
        planner = self.reconciler.planner
        rules = planner.deletion_guard.environment.rules if planner is not None else None
        return rules is not None and rules.find_restriction(resource, environment_rules.Action.DELETE) is not None

    @property
    def statuses(self) -> Mapping[str, ResourceStatus]:
        """The resources as they are at the end; none if there is no target."""
        return self.reconciler.planner.statuses if self.reconciler.planner is not None else {}

    async def run(self) -> None:
        """Run until nothing is left to do."""
        try:
            self.begin()
            await self.proceed()
        finally:
            self.reconciler.close()

    async def proceed(self) -> None:
        """Run until nothing is left to do, or until `step_limit` steps are executed."""
        definition = self.reconciler.definition
        before, completed = definition.targets.current, definition.targets.completed.last
        while not (self.is_rolled_back or self.is_endless or self._is_at_limit):
            await self._settle()
            target = definition.targets.current
            is_of_spec = target is not None and target.cause is TargetCause.SPEC
            is_same = target is None or (before is not None and before.revision == target.revision)
            self.is_change = completed is not None and is_of_spec and not is_same
            self.is_rolled_back = (
                target is not None
                and target.cause is TargetCause.AUTOMATIC
                and (before is None or before.cause is not TargetCause.AUTOMATIC)
            )
            if self.is_rolled_back or not (self._write_status() or await self._execute_all() or self._assume()):
                return

    @property
    def _is_at_limit(self) -> bool:
        return self.step_limit is not None and self.step_count >= self.step_limit

    def begin(self) -> None:
        """Enqueue the Stack, as if an operator had managed it before."""
        definition = self.reconciler.definition
        definition.read_options(self.world.stack)
        # A running operator has already checked the target. An operator that starts would protect more objects.
        definition.targets.confirm()
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.ALL_RESOURCES)

    async def _settle(self) -> None:
        """Reconcile until nothing is dirty and no task runs."""
        uid, services = self.world.stack.uid, self.world.services
        while True:
            await self.reconciler.wait_tasks()
            for event in services.queue.take_broadcasts():
                self.reconciler.on_broadcast(event)
            taken = services.queue.get()
            if taken is not None:
                services.evaluations.begin(uid)
                self.reconciler.reconcile(self.world.stack, taken[1])
            elif services.read_rights.is_asking(uid):
                await asyncio.sleep(ANSWER_INTERVAL)
            elif await self.world.cluster.read_externals(services.find_boundary(self.world.stack).user):
                services.queue.enqueue(uid, DirtyScope.ALL_RESOURCES)
            else:
                await services.evaluations.wait(uid)
                if not len(services.queue):
                    return

    def _write_status(self) -> bool:
        """Write the status in the copy if work waits for it; return whether this ended the wait."""
        if not self.reconciler.is_status_urgent:
            return False
        self.reconciler.note_written(self.build_status())
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.STACK)
        return not self.reconciler.is_status_urgent

    def build_status(self) -> Object:
        """Return the status of the Stack as it is now."""
        now = self.world.services.clock.now()
        return status_builder.build_status(
            self.reconciler.make_status_input(),
            self.reconciler.planner,
            memory=self.reconciler.memory,
            before=self.world.stack.status,
            now=now,
            monotonic=now,
        )

    async def _execute_all(self) -> bool:
        """Execute all steps that are ready; return whether there was one."""
        planner = self.reconciler.planner
        if planner is None:
            return False
        ready = list(planner.ready_steps)
        if self.step_limit is not None:
            ready = ready[: self.step_limit - self.step_count]
        planned = [(key, each) for key in ready if (each := self._take(planner, key)) is not None]
        self._count += len(planned)
        self.step_count += len(planned)
        self.last_step = planned[-1][1].step if planned else self.last_step
        self.is_endless = self._count > STEPS_EACH * (
            len(planner.blueprint.resources) + len(list(self.world.copies)) + 1
        )
        results = await asyncio.gather(*(self._execute(each.step) for _, each in planned))
        for (key, each), result in zip(planned, results, strict=True):
            place = object_copies.place_of(steps.find_ref(each.step))
            if isinstance(result, StepDone) and result.note:
                each = dataclasses.replace(each, reason=f"{each.reason}; {result.note}")  # noqa: PLW2901 -- says more
            self.recorder.record(each, self.world.cluster.writes.pop(place, []))
            self.reconciler.finish_step(key, each.step, result)
        return bool(planned)

    def _take(self, planner: StackPlanner, key: str) -> PlannedStep | None:
        """Take a step with its reason; None if no step may start."""
        planned = self._describe(planner.ready_steps[key], planner)
        return planned if self.reconciler.take_step(key) is not None else None

    def _describe(self, step: Step, planner: StackPlanner) -> PlannedStep:
        """Return a step with its reason."""
        match step:
            case Delete() | Detach():
                return self._describe_removal(step, planner)
            case Apply():
                return self._describe_apply(step, planner)
            case Release() | WriteHealthMark() | Restart() | Suspend() | CreatePart() | DeletePart():
                return PlannedStep(step)
            case _:
                assert_never(step)

    def _describe_removal(self, step: Delete | Detach, planner: StackPlanner) -> PlannedStep:
        status = planner.statuses.get(step.child.resource)
        if status is None or status.step is not step:
            return PlannedStep(step)
        reason = status.message.removeprefix("is replaced because ").partition(":")[0]
        desired = planner.find_desired(step.child.resource, step.child)
        manifest = desired.manifest if desired is not None else {}
        is_uncertain = self._depends_on_unknown(manifest, step.child, planner)
        if isinstance(step, Delete):
            reason = with_loss(reason, step.child, manifest, Replacement.DELETE_FIRST)
        return PlannedStep(step, reason, step.child, is_uncertain, successor=manifest)

    def _describe_apply(self, step: Apply, planner: StackPlanner) -> PlannedStep:
        if step.uid is not None:
            return PlannedStep(step, f"drift of {step.repaired_fields} is repaired" if step.repaired_fields else "")
        children = self.world.cluster.children_of(self.world.stack.uid, step.resource)
        former = [child for child in children if child.is_identified]
        if not former:
            return PlannedStep(step)
        old = max(former, key=lambda child: child.incarnation)
        is_uncertain = self._depends_on_unknown(step.manifest, old, planner)
        reason = with_loss(self._explain_replacement(step, old, planner), old, step.manifest, Replacement.CREATE_FIRST)
        reason += describe_replicas(step)
        resource = planner.blueprint.resources[step.resource]
        reason += exclusive_things.describe_holder(
            step.manifest, None, former, resource.replacement, is_name_pinned=not step.has_generated_name
        )
        known = self.world.copies.find(object_copies.place_of(old.ref))
        replaced_raw = known.raw if known is not None else None
        return PlannedStep(step, reason, old, is_uncertain, replaced_raw=replaced_raw)

    def _depends_on_unknown(self, manifest: Object, old: Child, planner: StackPlanner) -> bool:
        """Return whether `replaceOn` requires the replacement only if unknown values differ from the present ones."""
        resource, unknown = planner.blueprint.resources.get(old.resource), self.world.assumptions.unknown
        is_immutable = old.uid in self.reconciler.memory.immutable
        if resource is None or is_immutable or not unknown.is_within(manifest):
            return False
        filled = unknown.fill(manifest, old.fields)
        is_named = replaced_fields.find_replaced_field(resource, old, manifest) is not None
        return is_named and replaced_fields.find_replaced_field(resource, old, filled) is None

    def _explain_replacement(self, step: Apply, old: Child, planner: StackPlanner) -> str:
        """Return why a resource gets another object."""
        resource = planner.blueprint.resources[step.resource]
        refused = self.reconciler.memory.immutable.get(old.uid)
        if (old.kind.key, old.namespace) != (step.kind.key, step.ref.namespace):
            return "its kind or namespace changed"
        if refused is not None:
            return f"{refused.field} cannot be changed in place"
        if resource.replace_on and (
            named := replaced_fields.find_replaced_field(resource, old, step.manifest, step.applied_fields)
        ):
            return f"updatePolicy.replaceOn names {named}"
        if old.unhealthy_reason is not None:
            return f"it is marked unhealthy: {old.unhealthy_reason}"
        if members.is_member(step.resource) or old.hash == step.hash:
            return "its object failed"
        return "its name changed" if resource.is_name_pinned else "its object failed"

    async def _execute(self, step: Step) -> StepResult:
        stack, services = self.world.stack, self.world.services
        boundary = services.find_boundary(stack)
        if (refused := self._nesting.refuse(stack, step)) is not None:
            return refused
        return await supervision.contain(
            "step",
            lambda: StepExecutor(
                cluster=self.world.cluster.acting_as(boundary.user),
                manager=names.field_manager(stack.namespace, stack.name, kind=stack.kind),
                may_exist=services.may_exist_for(stack.uid),
                our_signatures=services.hashes,
                boundary=boundary,
            ).execute_step(step),
            lambda: step_execution.explain_internal_error(step),
        )

    def _may_assume(self, resource: str) -> bool:  # noqa: ARG002 -- StackTrial's override uses it
        """Return whether the object of a resource becomes ready."""
        return True

    def _assume(self) -> bool:
        """Make all objects in progress ready and delete all terminating objects; return whether there were any."""
        planner, queue, uid = self.reconciler.planner, self.world.services.queue, self.world.stack.uid
        if planner is None:
            return False
        ready, is_news = self.world.assumptions.ready, False
        for name, status in planner.statuses.items():
            child = status.child
            if child is None or child.deleting or status.state is not ResourceState.PROGRESSING or status.nested_stops:
                continue
            if child.uid not in ready and self._may_assume(name):
                ready.add(child.uid)
                queue.enqueue(uid, name)
                is_news = True
        for copy in self.world.copies:
            if copy.child.deleting:
                self.world.copies.remove(object_copies.place_of(copy.child.ref))
                for key in (copy.child.resource, copy.child.uid):
                    queue.enqueue(uid, key)
                is_news = True
        return is_news


@value_class.dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step as it was planned, with the planner's knowledge at that time."""

    step: Step
    reason: str = ""
    replaced: Child | None = None
    """The object that a new one replaces, or that is deleted for one."""
    is_uncertain: bool = False
    """Whether the replacement depends on values that are known only at run time."""
    replaced_raw: Object | None = None
    """The whole object that a new one replaces; None for one that is deleted first."""
    successor: Object | None = None
    """The manifest of the object that takes the place of a deleted one."""


def with_loss(reason: str, old: Child, manifest: Object, replacement: Replacement) -> str:
    """Return the reason of a replacement, with its effect on data."""
    loss = data_kinds.describe_loss(old.kind.key, replacement, has_claims=data_kinds.has_claims(manifest))
    overlap = data_kinds.describe_overlap(replacement, manifest)
    is_stopped = replacement is Replacement.DELETE_FIRST and old.kind.key in workloads.POD_KINDS
    stop = workloads.find_stop_reason(manifest) if is_stopped else ""
    return "; ".join(filter(None, (reason, f"stops first: {stop}" if stop else "", loss, overlap)))


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NestedStack:
    """A Stack or group within the Stack, before and after the run."""

    before: Object | None
    """None for one that is created."""
    after: Object | None
    """None for one that is deleted."""


@dataclass(slots=True)
class StepRecorder:
    """The changes so far, in order: the meaning of each executed step for its resource."""

    unknown: UnknownValues
    resources: Callable[[], Collection[str]]
    """The resources of the target."""
    adopts: Callable[[str], bool]
    """Whether a rollback would adopt a released object of a resource."""
    is_once: Callable[[str], bool]
    """Whether a resource of the target has `completion: Once`."""
    is_restricted: Callable[[str], bool]
    """Whether the environment denies the deletion of a resource."""
    hash_content: Callable[[Object], str] | None = None
    """Makes the keyed hash of a manifest; None without a key."""
    changes: list[Change] = field(default_factory=list)
    stated: dict[str, list[Object]] = field(default_factory=dict)
    """By resource: the manifests that were applied."""
    nested: dict[ObjectRef, NestedStack] = field(default_factory=dict)

    def record(self, planned: PlannedStep, writes: list[DryRunWrite]) -> None:
        """Record an executed step. writes: several if some prepared the last one; none if it failed."""
        if not writes:
            return
        write, step = dataclasses.replace(writes[-1], before=writes[0].before), planned.step
        match step:
            case Apply():
                self._record_nested(step, write)
                self._record_apply(planned, step, write)
            case Delete() | Detach():
                self._record_nested(step, write)
                self._record_deletion(planned, step, write)
            case Release():
                self._record_release(step)
            case Suspend():
                self._record_update(step.child.resource, step, write, reason=str(step.purpose))
            case WriteHealthMark():
                self._record_update(step.child.resource, step, write, reason="health mark")
            case Restart():
                self._record_update(step.child.resource, step, write, reason="its Pods are restarted")
            case CreatePart() | DeletePart():
                # No preview reaches the parts of resources.
                pass
            case _:
                assert_never(step)

    def _record_release(self, step: Release) -> None:
        child, reason = step.child, explain_release(step.child, step.contents)
        undo = reversal.grade_release(is_adopted=child.is_adopted, adopts=self.adopts(child.resource))
        self._add(Change(action=Action.KEEP, resource=child.resource, ref=child.ref, reason=reason, undo=undo))

    def _record_nested(self, step: Apply | Delete | Detach, write: DryRunWrite) -> None:
        ref = steps.find_ref(step)
        if names.is_stack(ref.group, ref.kind):
            first = self.nested.get(ref)
            before = write.before if first is None else first.before
            self.nested[ref] = NestedStack(before=before, after=write.after if isinstance(step, Apply) else None)

    def _record_apply(self, planned: PlannedStep, step: Apply, write: DryRunWrite) -> None:
        if write.stated is not None:
            self.stated.setdefault(step.resource, []).append(write.stated)
        seal = self._seal(step, write)
        if write.before is not None:
            action = Action.ADOPT if step.uid is None and not is_child(write.before, step) else None
            self._record_update(step.resource, step, write, reason=planned.reason, action=action)
            return
        made = Change(
            action=Action.CREATE,
            resource=step.resource,
            ref=step.ref,
            unchecked=write.unchecked,
            undo=self._grade_creation(planned, step, write),
            seal=seal,
        )
        before = self._find_replacement(step.resource)
        if before is not None:
            former, ref = self.changes[before], self._name(step.ref)
            reason = former.reason + describe_replicas(step)
            self.changes[before] = dataclasses.replace(
                former, ref=ref, reason=reason, unchecked=write.unchecked, seal=seal
            )
        elif planned.replaced is not None:
            self._add(
                dataclasses.replace(
                    made,
                    action=Action.REPLACE,
                    old_ref=planned.replaced.ref,
                    reason=planned.reason,
                    is_uncertain=planned.is_uncertain,
                )
            )
        else:
            self._add(made)

    def _grade_creation(self, planned: PlannedStep, step: Apply, write: DryRunWrite) -> Undo:
        key, after, is_once = step.kind.key, write.after or step.manifest, self.is_once(step.resource)
        if planned.replaced is not None and planned.replaced_raw is not None:
            old = planned.replaced.kind.key, planned.replaced_raw
            return reversal.grade_replacement(old, (key, after), Replacement.CREATE_FIRST, is_once=is_once)
        kept_by = find_keeping_field(step) or (RESTRICTED_ACTIONS if self.is_restricted(step.resource) else "")
        return reversal.grade_creation(key, after, kept_by=kept_by, is_once=is_once)

    def _grade_deletion(self, planned: PlannedStep, step: Delete | Detach, write: DryRunWrite) -> Undo:
        key, before, is_once = step.child.kind.key, write.before or {}, self.is_once(step.child.resource)
        if planned.successor is None:
            return reversal.grade_deletion(key, before, is_once=is_once)
        policy = Replacement.KEEP_CLAIMS if isinstance(step, Detach) else Replacement.DELETE_FIRST
        new = find_key(planned.successor), planned.successor
        return reversal.grade_replacement((key, before), new, policy, is_once=is_once)

    def _find_replacement(self, resource: str) -> int | None:
        """Return the position of a replacement whose new object is still missing."""
        found = (
            at
            for at, each in enumerate(self.changes)
            if (each.action, each.resource, each.ref) == (Action.REPLACE, resource, None)
        )
        return next(found, None)

    def _record_deletion(self, planned: PlannedStep, step: Delete | Detach, write: DryRunWrite) -> None:
        resource, ref, undo = step.child.resource, step.child.ref, self._grade_deletion(planned, step, write)
        if planned.replaced is not None:
            reason, is_uncertain = planned.reason, planned.is_uncertain
            change = Change(
                action=Action.REPLACE,
                resource=resource,
                old_ref=ref,
                reason=reason,
                is_uncertain=is_uncertain,
                undo=undo,
            )
            self._add(change)
        elif not any(each.old_ref == ref for each in self.changes):
            reason = "another object took its place" if resource in self.resources() else ""
            made = Change(action=Action.DELETE, resource=resource, ref=ref, reason=reason, unchecked=write.unchecked)
            self._add(dataclasses.replace(made, undo=undo))

    def _record_update(
        self, resource: str, step: Step, write: DryRunWrite, *, reason: str, action: Action | None = None
    ) -> None:
        before, after = write.before, write.after
        fields: Sequence[FieldChange] = ()
        if before is not None and after is not None:
            after = field_changes.hide_allocated(after, (before, write.stated or {}))
            fields = field_changes.find_changes(before, after, is_stored=not write.unchecked)
        former = find_former(before, step)
        if former and action is None:
            reason = f"it moves here from {former}" + (f"; {reason}" if reason else "")
        elif not fields and action is None:
            return
        is_certain = action is not None or any(not self.unknown.is_within(each.new) for each in fields)
        ref = steps.find_ref(step)
        self._add(
            Change(
                action=action or Action.UPDATE,
                is_uncertain=not is_certain,
                resource=resource,
                ref=ref,
                reason=reason,
                fields=tuple(self._explain(each) for each in fields),
                unchecked=write.unchecked,
                undo=self._grade_update(step, write, is_adopted=action is Action.ADOPT),
                seal=self._seal(step, write),
            )
        )

    def _seal(self, step: Step, write: DryRunWrite) -> ContentSeal | None:
        """Return what a later write of the same manifest is recognized by."""
        if self.hash_content is None or write.stated is None:
            return None
        unknown = [*self.unknown.find(write.stated)]
        if isinstance(step, Apply) and step.kept_replicas is not None:
            unknown.append(applied_fields.REPLICAS)
        paths = [tuple(f"[{key}]" if isinstance(key, int) else key for key in path) for path in unknown]
        return approved_steps.seal(write.stated, map(field_changes.write_path, paths), self.hash_content)

    def _grade_update(self, step: Step, write: DryRunWrite, *, is_adopted: bool) -> Undo | None:
        if write.before is None or write.after is None:
            return None
        if is_adopted:
            return reversal.grade_adoption(write.before, write.after)
        if isinstance(step, Apply) and step.repaired_fields:
            # The operator makes this repair even without the change.
            return reversal.COMPLETE
        key = steps.find_kind(step).key
        is_once = isinstance(step, Apply) and self.is_once(step.resource)
        return update_reversal.grade_update(key, write.before, write.after, is_once=is_once)

    def _explain(self, change: FieldChange) -> FieldChange:
        path = tuple(approved_steps.ANY_ITEM if self.unknown.is_within(key) else key for key in change.path)
        old, new = self.unknown.explain(change.old), self.unknown.explain(change.new)
        return FieldChange(path=path, old=old, new=new)

    def _add(self, change: Change) -> None:
        self.changes.append(dataclasses.replace(change, ref=self._name(change.ref), old_ref=self._name(change.old_ref)))

    def _name(self, ref: ObjectRef | None) -> ObjectRef | None:
        """Return a reference for people."""
        if ref is None:
            return None
        explain = self.unknown.explain
        return dataclasses.replace(ref, namespace=explain(ref.namespace), name=explain(ref.name))


def describe_replicas(step: Apply) -> str:
    """Return how many replicas a new object starts with, if its template leaves that to others; otherwise ""."""
    if step.kept_replicas is None:
        return ""
    return f"; the new object starts with spec.replicas: {step.kept_replicas}, the present number"


def explain_release(child: Child, contents: str = "") -> str:
    """Return why an object outlives its Stack. contents: see `Release`."""
    contents = contents or step_planning.find_recorded(child)
    if child.is_adopted or contents:
        return f"it {step_planning.explain_retention(child, contents)}"
    return "deletionPolicy is Retain"


def is_child(raw: Object, step: Apply) -> bool:
    """Return whether the object belonged to the same Stack before."""
    labels, wanted = (each["metadata"].get("labels") or {} for each in (raw, step.manifest))
    return labels.get(names.LABEL_STACK_UID) == wanted.get(names.LABEL_STACK_UID)


def find_former(raw: Object | None, step: Step) -> str:
    """Return the resource that had the object before, if it is another one; otherwise ""."""
    if raw is None or not isinstance(step, Apply) or not is_child(raw, step):
        return ""
    former, label = (
        (each["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE, "") for each in (raw, step.manifest)
    )
    return str(former) if former != label else ""


def find_keeping_field(step: Apply) -> str:
    """Return the field of a new object that prevents its deletion; "" for none."""
    annotations = step.manifest["metadata"].get("annotations") or {}
    if annotations.get(names.ANNOTATION_DELETION_POLICY) == names.RETAIN:
        return "deletionPolicy"
    is_protected = object_fields.find(step.manifest, "spec", "protected") is True
    return "spec.protected" if is_protected and names.is_stack(step.kind.group, step.kind.name) else ""


def find_key(manifest: Object) -> str:
    """Return the `Kind.key` of a manifest."""
    group = object_fields.text(manifest, "apiVersion").rpartition("/")[0]
    return kinds.make_key(group, object_fields.text(manifest, "kind"))


def is_adopting(stack: Object | None, resource: str) -> bool:
    """Return whether a Stack's spec adopts an existing object of the resource; False if its template is elsewhere."""
    spec = object_fields.mapping(stack, "spec")
    policy = object_fields.text(spec, "template", "resources", members.root_of(resource), "adoptionPolicy")
    return (policy or object_fields.text(spec, "adoptionPolicy")) == "Adopt"
