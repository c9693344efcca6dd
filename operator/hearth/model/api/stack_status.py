"""The status of a Stack as pydantic models. Source of the CRD, as `hearth.model.api.stack` is."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter, Timestamp
from hearth.model.api.stack_parts import Hook

PROBLEMS_LIMIT = 20
KEPT_LIMIT = 16
FINISHED_LIMIT = limits.FINISHED_BYTES // 64
PASSED_LIMIT = 500
"""The same limit as in `hearth.plan.environment.active_environment`."""


class Condition(ApiModel):
    """One aspect of the object's state, as a standard Kubernetes condition."""

    type: str = pydantic.Field(max_length=316)
    """`Ready`: the desired state is reached. `Reconciling`: the operator is working on it. `Stalled`: it cannot succeed
    without a change."""
    status: Literal["True", "False", "Unknown"]
    """`True`, `False`, or `Unknown`."""
    observed_generation: Counter | None = None
    """The `metadata.generation` of the object that this condition describes."""
    last_transition_time: Timestamp
    """Time of the last change of `status`."""
    reason: str = pydantic.Field(min_length=1, max_length=1_024)
    """Machine-readable reason in one word."""
    message: str = pydantic.Field(max_length=32_768)
    """The reason as text: why the Stack waits, or the problem and the next step."""


class ResourceCounts(ApiModel):
    """Number of resources by state. All numbers except `external` and `obsolete` add up to `total`."""

    total: Counter
    """Desired resources."""
    ready: Counter
    """Resources that are up to date and ready."""
    progressing: Counter
    """Resources that are applied but not ready yet."""
    waiting: Counter
    """Resources that are not applied yet, because a resource that they require is not ready."""
    failed: Counter
    """Resources that the API server rejects, or whose child failed. Retries continue."""
    stopped: Counter | None = None
    """Resources that wait at a breakpoint. Absent if 0."""
    external: Counter | None = None
    """Resources with `externalRef`, which the Stack only reads. They are not part of `total`. Absent if 0.
    """
    obsolete: Counter
    """Children that are no longer desired but still exist."""


class ProblemEntry(ApiModel):
    """A problem of one resource."""

    resource: str
    """Name of the resource in the template."""
    kind: str
    """Kind of its child."""
    name: str
    """Name of its child. Empty until it is known."""
    namespace: str | None = None
    """Namespace of its child. Absent for cluster-scoped kinds."""
    reason: str
    """Machine-readable reason in one word."""
    message: str
    """The problem and the next step."""
    next_retry_time: Timestamp | None = None
    """Time of the next attempt, unless a change triggers an earlier one."""


class CheckStatus(ApiModel):
    """Result of the last check. `handled.check` identifies the check."""

    checked_at: Timestamp
    """Time when the objects were listed."""
    objects: Counter
    """Number of children that the API server listed."""
    problem_count: Counter
    """Number of problems."""
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 problems at that time."""


class BreakpointStatus(ApiModel):
    """A breakpoint where a resource waits."""

    resource: str
    """Name of the resource in the template. For a resource of a nested Stack, its path."""
    hook: Hook
    """Hook where the resource waits. The annotation `hearth.dev/continue: <resource>/<hook>` continues it."""
    kind: str | None = None
    """Kind of its child, if known."""
    name: str | None = None
    """Name of its child, if known."""
    stack: str | None = None
    """Nested Stack that contains the resource. Set the annotation on that Stack."""


class PostDeleteStatus(ApiModel):
    """A resource that waits at a breakpoint after the deletion of its child."""

    resource: str
    """Name of the resource in the template."""
    requires: list[str] | None = base.optional_list(PASSED_LIMIT)
    """Resources that the resource required. Their children are deleted later."""


class RestoredClaimStatus(ApiModel):
    """A PersistentVolumeClaim that a restore replaces."""

    resource: str
    """Name of the resource in the template."""
    snapshot: str
    """VolumeSnapshot that provides the data."""
    claim: str | None = None
    """Name of the claim, if the StatefulSet of the resource created it."""


class RollbackStatus(ApiModel):
    """The rollback that `spec.rollback` requests."""

    to_revision: Counter
    """Value of `spec.rollback.toRevision`, or the revision of the snapshot."""
    spec_hash: str
    """Keyed hash of the definition in the spec when the rollback was requested. A different definition overrides the
    rollback."""
    revision: Counter
    """The revision that the request resolves to."""
    to_snapshot: str | None = None
    """Value of `spec.rollback.toSnapshot`."""
    snapshot_uid: str | None = pydantic.Field(default=None, alias="snapshotUID")
    """UID of that StackSnapshot."""
    token: str | None = None
    """Identifies the restore. The new claims record it until the restore is complete."""
    claims: list[RestoredClaimStatus] | None = base.optional_list(limits.SNAPSHOT_VOLUMES)
    """Claims that the restore replaces."""
    halted: bool | None = None
    """Whether the workloads were suspended, so that the claims can be replaced."""
    restored: bool | None = None
    """Whether the restore completed. It is not repeated for the same definition."""
    ended: bool | None = None
    """Whether a retry ended the rollback. If true, the definition in the spec applies again."""


class SuspendStatus(ApiModel):
    """The last change of `spec.suspended`, while it still determines the operator's next steps."""

    suspended: bool
    """True: workloads are stopped. False: workloads are resumed."""
    since: Timestamp
    """Start of the transition. `spec.timeout` counts from here."""
    completed: bool | None = None
    """Whether the transition completed."""


class TargetStatus(ApiModel):
    """The target revision, and why it is the target."""

    revision: Counter
    """Number of the revision. 0 if the first definition failed and was rolled back, so no children are desired."""
    cause: Literal["Spec", "Rollback", "AutomaticRollback"]
    """`Spec`: the definition in the spec. `Rollback`: a rollback that `spec.rollback` requests. `AutomaticRollback`:
    the definition in the spec failed."""
    since: Timestamp
    """Time when the revision became the target. `spec.timeout` counts from here."""
    completed: bool | None = None
    """Whether the revision has completed since it became the target."""
    message: str | None = None
    """The failure that caused an automatic rollback."""
    reason: str | None = None
    """The reason of that failure, in one word."""


class FinishedStatus(ApiModel):
    """Work that has finished and is not repeated, even if its object no longer exists."""

    resource: str
    """Name of the resource in the template."""
    object: str
    """Its last object, e.g. `job/shop-migrate`."""
    definitions: list[str] = pydantic.Field(max_length=10, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """Keyed hashes of the definitions that succeeded, the latest first."""
    stack_uid: str | None = pydantic.Field(default=None, alias="stackUID")
    """UID of this Stack before it was restored from a backup, if the hashes are from that time."""


class BatchStatus(ApiModel):
    """The last completed batch of a rolling update."""

    resource: str
    """Resource in the template whose members change."""
    completed_at: Timestamp
    """Time when all members of the batch were ready. The pause counts from here."""
    updated: Counter
    """Number of members that were up to date at that time."""


class DetachedSetStatus(ApiModel):
    """A StatefulSet that is deleted without its Pods and claims. Its successor gets the same name."""

    resource: str
    """Name of the resource in the template."""
    incarnation: Counter
    """Incarnation of the StatefulSet. Its successor has the same incarnation."""
    namespace: str
    """Namespace of the StatefulSet."""
    name: str
    """Name of the StatefulSet."""
    uid: str
    """UID of the deleted StatefulSet."""
    replicas: Counter | None = None
    """Number of replicas of the successor, if the template leaves it to an autoscaler."""


class ControllerState(ApiModel):
    """Internal state of the operator. It is not part of the API: it can change in any version, so other programs must
    not read it.
    """

    initial: bool | None = None
    """Whether the target is the first one of the Stack."""
    cleanup_waived: bool | None = None
    """Whether `hearth.dev/cleanup` allows the operator to delete obsolete children before all resources are ready."""
    protected_revisions: list[Counter] | None = base.optional_list(KEPT_LIMIT)
    """Revisions whose children are kept until the target completes."""
    rollback: RollbackStatus | None = None
    suspend: SuspendStatus | None = None
    failed_hash: str | None = None
    """Keyed hash of the definition in the spec, if it failed. That definition is only retried on request."""
    cluster: str | None = pydantic.Field(default=None, max_length=limits.KUBECONFIG_SERVER_LENGTH)
    """URL of the API server that has the children. Absent if they are in the cluster of the Stack."""
    definition_revision: Counter | None = None
    """For an instance: the revision of its StackDefinition."""
    cleared_breakpoints: list[str] | None = base.optional_list(PASSED_LIMIT)
    """Breakpoints that were cleared for the target, e.g. `web/PreUpdate`."""
    breakpoint_key: str | None = None
    """Key that children record when they stop at a `Post…` hook. Absent if it is the revision number."""
    earlier_revision: Counter | None = None
    """Highest revision that may have run before the target, if it is not lower than the revision of the target."""
    post_delete: list[PostDeleteStatus] | None = base.optional_list(PASSED_LIMIT)
    """Resources that wait at a breakpoint after the deletion of their children."""
    removed_members: list[Counter] | None = base.optional_list(limits.REMOVED_MEMBERS)
    """Indices that the removal policies of a group listed, and that no member has."""
    surge: Counter | None = None
    """Number of members that a group has in addition to `replicas` until a rolling update is done."""
    batches: list[BatchStatus] | None = base.optional_list(PASSED_LIMIT)
    """Last completed batch of each rolling update."""
    detached_sets: list[DetachedSetStatus] | None = base.optional_list(PASSED_LIMIT)
    """StatefulSets that are deleted without their Pods and claims, until their successors exist."""


class SourceStatus(ApiModel):
    """A source of the definition or of a nested Stack's definition, in the oldest version that this status describes."""

    kind: str
    """`ConfigMap`, `Secret` or `StackTemplate`."""
    namespace: str
    """Namespace of the object. Empty for a StackTemplate."""
    name: str
    """Name of the object."""
    resource_version: str
    """`metadata.resourceVersion` of the object, or `0` if the object did not exist."""


class ConvergenceStatus(ApiModel):
    """Status fields that Stacks and ResourceGroups share."""

    phase: str | None = None
    """Summary in one word: `CreateInProgress`, `UpdateComplete`, `DeleteFailed`, and so on."""
    state: str | None = None
    """Noteworthy facts in addition to the phase, e.g. `paused, drifted`. Absent if there is nothing to add."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes; -1 until the operator processes the object."""
    undecided: Counter | None = None
    """In a tree of nested Stacks: the number of resources that have no object yet. Until it is 0, no operator process
    deletes an object of the tree that could move to this Stack."""
    sources: list[SourceStatus] | None = base.optional_list(limits.TEMPLATE_SOURCES + limits.RULES)
    """ConfigMaps, Secrets and StackTemplates that this status describes, with their versions, including those of nested
    Stacks. `kubectl stack wait` compares these versions, like `observedGeneration`."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`, `Reconciling` and `Stalled`, for `kubectl wait` and other tools."""


class HeldChangeStatus(ApiModel):
    """A change of the definition that waits. Until it starts, `status.revision` keeps running."""

    reason: str
    """What the change waits for: `WaitingForWindow` or `WaitingForApproval`."""
    generation: Counter
    """The `metadata.generation` of the newest definition."""
    until: str | None = None
    """When `spec.window` opens next, or when the StackPlan expires (RFC 3339, UTC)."""
    plan: str | None = None
    """Name of the StackPlan that a user can approve. Absent while it is being made, and after a rejection."""


class StackStatus(ConvergenceStatus):
    """Observed state of the Stack. Its size does not grow with the number of resources."""

    expires_at: str | None = None
    """When the operator deletes the Stack (RFC 3339, UTC), because of `spec.expiresAfter`."""
    held_change: HeldChangeStatus | None = None
    revision: Counter | None = None
    """Number of the running definition (template and parameters). The first accepted definition is 1, the next new one
    2. An earlier definition that is used again keeps its number."""
    last_completed_revision: Counter | None = None
    """The revision that completed most recently."""
    previous_completed_revision: Counter | None = None
    """The revision that completed before `lastCompletedRevision`."""
    earlier_completed_revisions: list[Counter] | None = base.optional_list(limits.REVISION_HISTORY)
    """Revisions that completed before `lastCompletedRevision` and `previousCompletedRevision`. `kubectl stack history`
    uses them to tell completed revisions from others."""
    last_failed_revision: Counter | None = None
    """The revision that failed most recently, even if it has completed since."""
    history_unknown: bool | None = None
    """Whether the earlier revisions are unknown because the status was not written by this operator. Such a Stack is
    never rolled back to an empty Stack."""
    signature: str | None = None
    """The operator's signature of the status fields that it reads back. The operator treats a status without it as
    missing."""
    target: TargetStatus | None = None
    controller_state: ControllerState | None = None
    handled: dict[str, str] | None = None
    """Last handled value of each request annotation: `retry`, `inheritedRetry` (from a parent), `cleanup`, `continue`,
    `check`. `approval`: the UID of the last StackPlan that ran, `after` and that UID once its resources are repaired, or
    the generation since when changes need an approval. `separateApprover`: `true` if authors cannot approve
    their own changes. `risksOnly`: `true` if only risky changes need an approval. `approvalsEnd`: `true` while the change
    runs that switches approvals off."""
    summary: str | None = None
    """Ready resources out of all desired resources, e.g. `12/14`."""
    resources: ResourceCounts | None = None
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 resources that have a problem."""
    check: CheckStatus | None = None
    finished: list[FinishedStatus] | None = base.optional_list(FINISHED_LIMIT)
    """Resources that ran once and succeeded. They count as ready even if their objects no longer exist."""
    breakpoints: list[BreakpointStatus] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 breakpoints where resources wait."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """Settings that are valid but probably a mistake, e.g. a breakpoint that matches no resource."""
    outputs: dict[str, Any] | None = None
    """Outputs of the template whose values are known."""
