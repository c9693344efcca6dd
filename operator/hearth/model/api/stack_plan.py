"""The fields of a StackPlan, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter, Timestamp
from hearth.model.api.health_mark import ObjectName
from hearth.model.api.stack_status import Condition

IMMUTABLE: JsonDict = {
    "rule": "self == oldSelf",
    "message": "a plan is immutable; the operator creates another one for another change",
}

Undo: TypeAlias = Literal["reversible", "recreates", "one-way"]
PlannedField: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.PLAN_TEXT)]
Risk: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.PLAN_TEXT)]


class PlannedStack(ApiModel):
    """The Stack that the plan changes."""

    kind: str = pydantic.Field(min_length=1, max_length=63)
    """Kind of the Stack: `Stack`."""
    name: ObjectName
    """Name of the Stack, in the namespace of the plan."""
    uid: str = pydantic.Field(min_length=1, max_length=128)
    """UID of the Stack. The plan does not apply to another Stack with the same name."""


class PlannedObject(ApiModel):
    """The object that a step changes."""

    group: str = pydantic.Field(max_length=253)
    """API group of the object's kind, e.g. `apps`. Empty for the core group."""
    kind: str = pydantic.Field(min_length=1, max_length=63)
    """Kind of the object, e.g. `Deployment`."""
    namespace: str | None = pydantic.Field(default=None, max_length=limits.PLAN_TEXT)
    """Namespace of the object. Absent for cluster-scoped kinds."""
    name: str = pydantic.Field(max_length=limits.PLAN_TEXT)
    """Name of the object."""


class PlanStep(ApiModel):
    """One step: what happens to one object."""

    action: Literal["create", "adopt", "update", "replace", "delete", "keep"]
    """What happens. `adopt`: an existing object becomes part of the Stack. `replace`: a new object takes the place of
    `oldObject`. `keep`: the object is kept but no longer managed."""
    resource: str = pydantic.Field(max_length=limits.PLAN_TEXT)
    """Name of the resource in the template. A member of a collection has its key in brackets: `workers[a]`."""
    object: PlannedObject | None = None
    """The object, or the new object of a replacement."""
    old_object: PlannedObject | None = None
    """Of a replacement: the object that is deleted."""
    fields: list[PlannedField] | None = base.optional_list(limits.PLAN_FIELDS)
    """Paths of the fields that an update changes, e.g. `spec.replicas`. The update changes nothing else, so a field that
    another client changes after the approval stops it."""
    content: str | None = pydantic.Field(default=None, max_length=128)
    """Keyed hash of the manifest that the step applies, without unknown values. It reveals no value."""
    unknown_fields: list[PlannedField] | None = base.optional_list(limits.PLAN_FIELDS)
    """Paths of the values in the manifest that are unknown until run time. They may have any value."""
    reason: str | None = pydantic.Field(default=None, max_length=limits.PLAN_TEXT)
    """Why the step is necessary."""
    undo: Undo | None = None
    """How a rollback undoes the step. `reversible`: the same objects with the same fields. `recreates`: a new object.
    `one-way`: it cannot be undone."""
    risky: list[Risk] | None = base.optional_list(limits.PLAN_RISKS)
    """Why the step is risky, e.g. `it deletes the object`. Absent if it is not."""
    uncertain: bool | None = None
    """Whether the step depends on values that are unknown until run time."""


class StackPlanSpec(ApiModel):
    """One change of a Stack, as the operator previewed it."""

    model_config = base.validated(IMMUTABLE)

    stack_ref: PlannedStack
    definition_hash: str = pydantic.Field(min_length=1, max_length=128)
    """Keyed hash of the definition that waits for the approval."""
    base_revision: Counter
    """The revision of the Stack that the plan changes. 0 before the first."""
    previous_plan: str = pydantic.Field(max_length=128)
    """The record of the last approval when the plan was made, see `status.handled.approval` of the Stack. A plan counts
    only while this is the last one."""
    authors: list[Annotated[str, pydantic.Field(max_length=1_024)]] | None = base.optional_list(limits.AUTHORS)
    """With `separateApprover`, the users who wrote the change. Absent if unknown; then no user can approve the plan."""
    separate_approver: bool | None = None
    """Whether the authors cannot approve the plan."""
    digest: str = pydantic.Field(pattern="^[0-9a-f]{64}$", max_length=64)
    """SHA-256 over the other fields that decide what happens, with namespace, Stack and revision. An approval names
    it."""
    valid_for: str = pydantic.Field(min_length=1, max_length=32)
    """How long the plan can be approved, and how long an approval counts if its execution has not begun, e.g. `24h`. It counts
    from the creation of the plan, and for a change that waits for its window, again from the opening of the window."""
    undo: Undo | None = None
    """How a rollback undoes the whole change: the worst grade of all steps."""
    steps: list[PlanStep] = pydantic.Field(
        max_length=limits.PLAN_STEPS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The steps, in their expected order."""
    unknown: list[Annotated[str, pydantic.Field(max_length=limits.PLAN_TEXT)]] | None = base.optional_list(
        limits.PLAN_UNKNOWN
    )
    """Values that are unknown until run time, e.g. `name of the object that db creates`."""
    notes: list[Annotated[str, pydantic.Field(max_length=limits.PLAN_TEXT)]] | None = base.optional_list(
        limits.PLAN_NOTES
    )
    """Further information about the change, for the user who approves it."""


class StackPlanStatus(ApiModel):
    """State of the plan."""

    phase: (
        Literal["Pending", "Approved", "Rejected", "Running", "Completed", "Failed", "Superseded", "Expired"] | None
    ) = None
    """`Pending`: the plan waits for an approval. `Approved`, `Rejected`: a user decided. `Running`, `Completed`: the
    operator runs, or ran, the change. `Failed`: the change failed and was rolled back. `Superseded`: another change took its place. `Expired`: `validFor` is over."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes; -1 until the operator processes the object."""
    expires_at: Timestamp | None = None
    """When the plan expires (RFC 3339, UTC)."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the change is complete. Its message gives the next step. `Reconciling` and `Stalled` are as defined by
    kstatus."""


class StackPlan(ApiModel):
    """A change of a Stack that waits for an approval. The operator creates it."""

    spec: StackPlanSpec
    status: StackPlanStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
