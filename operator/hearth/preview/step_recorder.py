"""From executed steps to changes: what a step means for its resource. Must not know requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import assert_never

from hearth.model import members, names, value_class
from hearth.model.child import Child, Object
from hearth.model.kinds import ObjectRef
from hearth.plan.resource import data_kinds, replaced_fields
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.steps import Apply, Delete, Detach, Release, Step, Suspend, WriteHealthMark
from hearth.preview import field_changes
from hearth.preview.changes import Action, Change
from hearth.preview.copies.dry_run_writes import DryRunWrite
from hearth.preview.copies.unknown_values import UnknownValues
from hearth.preview.field_changes import FieldChange
from hearth.template.blueprint import Replacement


@value_class.dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step as it was planned, with what the planner knew then."""

    step: Step
    reason: str = ""
    replaced: Child | None = None
    """The object that a new one replaces, or that is deleted for one."""
    is_uncertain: bool = False
    """Whether the replacement depends on values that only the run can know."""


def describe_plan(
    step: Step, plan: StackPlanner, memory: InMemoryState, children: tuple[Child, ...], unknown: UnknownValues
) -> PlannedStep:
    """Return the step with its reason. children: the objects of its resource."""
    match step:
        case Delete() | Detach():
            return describe_removal(step, plan, memory, unknown)
        case Apply():
            return describe_apply(step, plan, memory, children, unknown)
        case Release() | WriteHealthMark() | Suspend():
            return PlannedStep(step)
        case _:
            assert_never(step)


def describe_removal(
    step: Delete | Detach, plan: StackPlanner, memory: InMemoryState, unknown: UnknownValues
) -> PlannedStep:
    """Return the deletion of an object with its reason."""
    status = plan.statuses.get(step.child.resource)
    if status is None or status.step is not step:
        return PlannedStep(step)
    reason = status.message.removeprefix("is replaced because ").partition(":")[0]
    desired = plan.find_desired(step.child.resource, step.child)
    manifest = desired.manifest if desired is not None else {}
    is_uncertain = depends_on_unknown(manifest, step.child, plan, memory, unknown)
    if isinstance(step, Delete):
        reason = with_loss(reason, step.child, manifest, Replacement.DELETE_FIRST)
    return PlannedStep(step, reason, step.child, is_uncertain)


def describe_apply(
    step: Apply, plan: StackPlanner, memory: InMemoryState, children: tuple[Child, ...], unknown: UnknownValues
) -> PlannedStep:
    """Return an apply with its reason."""
    if step.uid is not None:
        return PlannedStep(step, f"drift of {step.repaired_fields} is repaired" if step.repaired_fields else "")
    former = [child for child in children if child.is_identified]
    if not former:
        return PlannedStep(step)
    old = max(former, key=lambda child: child.incarnation)
    is_uncertain = depends_on_unknown(step.manifest, old, plan, memory, unknown)
    reason = with_loss(explain_replacement(step, old, plan, memory), old, step.manifest, Replacement.CREATE_FIRST)
    return PlannedStep(step, reason, old, is_uncertain)


def with_loss(reason: str, old: Child, manifest: Object, replacement: Replacement) -> str:
    """Return the reason of a replacement, with what the replacement does to data."""
    loss = data_kinds.describe_loss(old.kind.key, replacement, has_claims=data_kinds.has_claims(manifest))
    return f"{reason}; {loss}" if loss else reason


def depends_on_unknown(
    manifest: Object, old: Child, plan: StackPlanner, memory: InMemoryState, unknown: UnknownValues
) -> bool:
    """Return whether `replaceOn` requires the replacement only if unknown values differ from the present ones."""
    resource = plan.blueprint.resources.get(old.resource)
    if resource is None or old.uid in memory.immutable or not unknown.is_within(manifest):
        return False
    filled = unknown.fill(manifest, old.fields)
    is_named = replaced_fields.find_replaced_field(resource, old, manifest) is not None
    return is_named and replaced_fields.find_replaced_field(resource, old, filled) is None


def explain_replacement(step: Apply, old: Child, plan: StackPlanner, memory: InMemoryState) -> str:
    """Return why a resource gets another object."""
    resource = plan.blueprint.resources[step.resource]
    refused = memory.immutable.get(old.uid)
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


@dataclass(slots=True)
class StepRecorder:
    """The changes so far, in order."""

    unknown: UnknownValues
    resources: Callable[[], Collection[str]]
    """The resources of the target."""
    changes: list[Change] = field(default_factory=list)
    stated: dict[str, list[Object]] = field(default_factory=dict)
    """By resource: the manifests that were applied."""

    def record(self, planned: PlannedStep, writes: list[DryRunWrite]) -> None:
        """Record an executed step. writes: the last one counts; none if it failed."""
        if not writes:
            return
        write, step = writes[-1], planned.step
        match step:
            case Apply():
                self._record_apply(planned, step, write)
            case Delete() | Detach():
                self._record_deletion(planned, step, write)
            case Release():
                self._add(
                    Change(
                        action=Action.KEEP,
                        resource=step.child.resource,
                        ref=step.child.ref,
                        reason=find_reason(step.child),
                    )
                )
            case Suspend():
                self._record_update(step.child.resource, step, write, reason=str(step.purpose))
            case WriteHealthMark():
                self._record_update(step.child.resource, step, write, reason="health mark")
            case _:
                assert_never(step)

    def _record_apply(self, planned: PlannedStep, step: Apply, write: DryRunWrite) -> None:
        if write.stated is not None:
            self.stated.setdefault(step.resource, []).append(write.stated)
        if write.before is not None:
            is_adopted = step.uid is None and not is_child(write.before, step)
            self._record_update(
                step.resource, step, write, reason=planned.reason, action=Action.ADOPT if is_adopted else None
            )
            return
        made = Change(
            action=Action.CREATE, resource=step.resource, ref=step.ref, unchecked=write.unchecked,
            fields=self._compare(None, write.after),
        )  # fmt: skip
        before = self._find_replacement(step.resource)
        if before is not None:
            self.changes[before] = dataclasses.replace(
                self.changes[before], ref=self._name(step.ref), unchecked=write.unchecked
            )
        elif planned.replaced is not None:
            old = planned.replaced.ref
            is_uncertain = planned.is_uncertain
            self._add(
                dataclasses.replace(
                    made, action=Action.REPLACE, old_ref=old, reason=planned.reason, is_uncertain=is_uncertain
                )
            )
        else:
            self._add(made)

    def _find_replacement(self, resource: str) -> int | None:
        """Return the position of a replacement whose new object is still missing."""
        found = (
            at
            for at, each in enumerate(self.changes)
            if (each.action, each.resource, each.ref) == (Action.REPLACE, resource, None)
        )
        return next(found, None)

    def _record_deletion(self, planned: PlannedStep, step: Delete | Detach, write: DryRunWrite) -> None:
        resource, ref = step.child.resource, step.child.ref
        if planned.replaced is not None:
            self._add(
                Change(
                    action=Action.REPLACE,
                    resource=resource,
                    old_ref=ref,
                    reason=planned.reason,
                    is_uncertain=planned.is_uncertain,
                )
            )
        elif not any(each.old_ref == ref for each in self.changes):
            reason = "another object took its place" if resource in self.resources() else ""
            change = Change(action=Action.DELETE, resource=resource, ref=ref, reason=reason, unchecked=write.unchecked)
            self._add(change)

    def _record_update(
        self, resource: str, step: Step, write: DryRunWrite, *, reason: str, action: Action | None = None
    ) -> None:
        fields = self._compare(write.before, write.after)
        former = find_former(write.before, step)
        if former and action is None:
            reason = f"it moves here from {former}" + (f"; {reason}" if reason else "")
        elif not fields and action is None:
            return
        is_certain = action is not None or any(not self.unknown.is_within(each.new) for each in fields)
        ref = step.ref if isinstance(step, Apply) else step.child.ref
        self._add(
            Change(
                action=action or Action.UPDATE,
                is_uncertain=not is_certain,
                resource=resource,
                ref=ref,
                reason=reason,
                fields=tuple(self._explain(each) for each in fields),
                unchecked=write.unchecked,
            )
        )

    def _compare(self, before: Object | None, after: Object | None) -> tuple[FieldChange, ...]:
        if after is None or before is None:
            return ()
        return tuple(field_changes.find_changes(before, after))

    def _explain(self, change: FieldChange) -> FieldChange:
        return dataclasses.replace(change, old=self.unknown.explain(change.old), new=self.unknown.explain(change.new))

    def _add(self, change: Change) -> None:
        self.changes.append(dataclasses.replace(change, ref=self._name(change.ref), old_ref=self._name(change.old_ref)))

    def _name(self, ref: ObjectRef | None) -> ObjectRef | None:
        """Return a reference for people."""
        if ref is None:
            return None
        explain = self.unknown.explain
        return dataclasses.replace(ref, namespace=explain(ref.namespace), name=explain(ref.name))


def is_child(raw: Object, step: Apply) -> bool:
    """Return whether the object belonged to the same Stack before."""
    labels, wanted = (each["metadata"].get("labels") or {} for each in (raw, step.manifest))
    return labels.get(names.LABEL_STACK_UID) == wanted.get(names.LABEL_STACK_UID)


def find_former(raw: Object | None, step: Step) -> str:
    """Return the resource that had the object before, if it is another one; else ""."""
    if raw is None or not isinstance(step, Apply) or not is_child(raw, step):
        return ""
    former, label = (
        (each["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE, "") for each in (raw, step.manifest)
    )
    return str(former) if former != label else ""


def find_reason(child: Child) -> str:
    """Return why an obsolete object stays."""
    return "it was adopted" if child.is_adopted else "deletionPolicy is Retain"
