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
"""As many as `hearth.plan.environment.active_environment` keeps."""


class Condition(ApiModel):
    """One aspect of the state, in the standard form of Kubernetes."""

    type: str = pydantic.Field(max_length=316)
    """`Ready`: everything is as wanted. `Reconciling`: the operator is working on it. `Stalled`: it cannot succeed
    without a change.
    """
    status: Literal["True", "False", "Unknown"]
    """`True`, `False`, or `Unknown`."""
    observed_generation: Counter | None = None
    """The `metadata.generation` of the Stack that this condition describes."""
    last_transition_time: Timestamp
    """The time of the last change of the status."""
    reason: str = pydantic.Field(min_length=1, max_length=1_024)
    """The reason in one word, for programs."""
    message: str = pydantic.Field(max_length=32_768)
    """The reason as text: what the Stack waits for, or the problem and the next step."""


class ResourceCounts(ApiModel):
    """Number of resources by state. All but `external` and `obsolete` add up to `total`."""

    total: Counter
    """Wanted resources."""
    ready: Counter
    """Resources that are up to date and ready."""
    progressing: Counter
    """Resources that are applied and not ready yet."""
    waiting: Counter
    """Resources that are not applied yet, because one that they require is not ready."""
    failed: Counter
    """Resources that the API server rejects, or whose child has failed. Retries continue."""
    stopped: Counter | None = None
    """Resources that wait at a breakpoint. Absent if there are none."""
    external: Counter | None = None
    """Resources of `externalRef`, which the Stack only reads. They are not part of `total`. Absent if there are none."""
    obsolete: Counter
    """Children that are no longer wanted and still exist."""


class ProblemEntry(ApiModel):
    """A problem of one resource."""

    resource: str
    """The name of the resource in the template."""
    kind: str
    """The kind of its child."""
    name: str
    """The name of its child. Empty until it is known."""
    namespace: str | None = None
    """The namespace of its child. Absent for cluster-scoped kinds."""
    reason: str
    """The reason in one word, for programs."""
    message: str
    """The problem and the next step."""
    next_retry_time: Timestamp | None = None
    """The time of the next attempt, unless a change triggers an earlier one."""


class CheckStatus(ApiModel):
    """The result of the last check. `handled.check` identifies it."""

    checked_at: Timestamp
    """The time when all objects were listed."""
    objects: Counter
    """Children that the API server listed."""
    problem_count: Counter
    """Number of problems found; 0 if there are none."""
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 problems at that time."""


class BreakpointStatus(ApiModel):
    """A breakpoint at which a resource waits."""

    resource: str
    """The name of the resource in the template; of one in a nested Stack the path."""
    hook: Hook
    """The hook at which it waits; `hearth.dev/continue: <resource>/<hook>` continues it."""
    kind: str | None = None
    """The kind of its child, if known."""
    name: str | None = None
    """The name of its child, if known."""
    stack: str | None = None
    """The nested Stack that contains the resource. Annotate that Stack to continue it."""


class PostDeleteStatus(ApiModel):
    """A resource that stops at a breakpoint after the deletion of its child."""

    resource: str
    """The name of the resource in the template."""
    requires: list[str] | None = base.optional_list(PASSED_LIMIT)
    """The resources that it required; their children are deleted later."""


class RestoredClaimStatus(ApiModel):
    """A claim that a restore replaces."""

    resource: str
    """The name of the resource in the template."""
    snapshot: str
    """The VolumeSnapshot that it gets its content from."""
    claim: str | None = None
    """The name of a claim that the StatefulSet of the resource made."""


class RollbackStatus(ApiModel):
    """The rollback that `spec.rollback` requests."""

    to_revision: Counter
    """The value of `spec.rollback.toRevision`; for a snapshot, its revision."""
    spec_hash: str
    """Keyed hash of the definition in the spec at that time. A different definition is a newer target."""
    revision: Counter
    """The revision that it resolves to."""
    to_snapshot: str | None = None
    """The value of `spec.rollback.toSnapshot`."""
    snapshot_uid: str | None = pydantic.Field(default=None, alias="snapshotUID")
    """The UID of that StackSnapshot."""
    token: str | None = None
    """The restore, which the new claims record until it is complete."""
    claims: list[RestoredClaimStatus] | None = base.optional_list(limits.SNAPSHOT_VOLUMES)
    """The claims that the restore replaces."""
    halted: bool | None = None
    """Whether the workloads were suspended, so that the claims are replaced."""
    restored: bool | None = None
    """Whether the restore completed. It is not repeated for the same definition."""
    ended: bool | None = None
    """Whether a retry ended the rollback, so that the definition in the spec applies again."""


class SuspendStatus(ApiModel):
    """The last change of `spec.suspended`, while it still determines what the operator does."""

    suspended: bool
    """Whether workloads are scaled down, or resumed."""
    since: Timestamp
    """Start of the transition; `spec.timeout` counts from here."""
    completed: bool | None = None
    """Whether the transition completed."""


class TargetStatus(ApiModel):
    """The target revision, and why it is the target."""

    revision: Counter
    """Number of the revision. 0 if the first definition failed and was rolled back: no children are wanted."""
    cause: Literal["Spec", "Rollback", "AutomaticRollback"]
    """The spec, `spec.rollback.toRevision`, or the failure of the definition in the spec."""
    since: Timestamp
    """When it became the target; `spec.timeout` counts from here."""
    completed: bool | None = None
    """Whether it completed since then."""
    message: str | None = None
    """What failed, for an automatic rollback."""
    reason: str | None = None
    """The reason of that failure: one word."""


class FinishedStatus(ApiModel):
    """Work that has finished, and is not done again although its object may be gone."""

    resource: str
    """The name of the resource in the template."""
    object: str
    """Its last object, for example `job/shop-migrate`."""
    definitions: list[str] = pydantic.Field(max_length=10, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    """Keyed hashes of the definitions that succeeded, the latest first."""


class BatchStatus(ApiModel):
    """The last completed batch of a rolling update."""

    resource: str
    """The resource of the template whose members change."""
    completed_at: Timestamp
    """When all its members were ready; the pause counts from here."""
    updated: Counter
    """How many members were up to date then."""


class DetachedSetStatus(ApiModel):
    """A StatefulSet that is deleted without its Pods and claims. The next one gets its name."""

    resource: str
    """The name of the resource in the template."""
    incarnation: Counter
    """The incarnation that the next StatefulSet has too."""
    namespace: str
    """The namespace of the StatefulSet."""
    name: str
    """The name of the StatefulSet."""
    uid: str
    """The UID of the deleted StatefulSet."""


class ControllerState(ApiModel):
    """Memory of the operator. Not part of the API: it may change in any version, and nothing else should read it."""

    initial: bool | None = None
    """Whether the target is the first one of the Stack."""
    cleanup_waived: bool | None = None
    """Whether `hearth.dev/cleanup` permits deletion of obsolete children before all resources are ready."""
    protected_revisions: list[Counter] | None = base.optional_list(KEPT_LIMIT)
    """The revisions whose children are retained until the target completes."""
    rollback: RollbackStatus | None = None
    suspend: SuspendStatus | None = None
    failed_hash: str | None = None
    """Keyed hash of the definition in the spec that failed. It is not retried without a request."""
    cluster: str | None = pydantic.Field(default=None, max_length=limits.KUBECONFIG_SERVER_LENGTH)
    """URL of the API server that has the children; absent if they are in the cluster of the Stack."""
    definition_revision: Counter | None = None
    """Of an instance: the revision of its StackDefinition."""
    cleared_breakpoints: list[str] | None = base.optional_list(PASSED_LIMIT)
    """The breakpoints that were cleared for the target, for example `web/PreUpdate`."""
    breakpoint_key: str | None = None
    """Key under which the children record stops after changes, if it is not the revision."""
    earlier_revision: Counter | None = None
    """The highest revision of all earlier targets, if it is above that of the target."""
    post_delete: list[PostDeleteStatus] | None = base.optional_list(PASSED_LIMIT)
    """The resources that stop after the deletion of their children."""
    removed_members: list[Counter] | None = base.optional_list(limits.REMOVED_MEMBERS)
    """Indices that removal policies of a group listed, and that no member has."""
    surge: Counter | None = None
    """The members of a group beyond its size, until a rolling update is done."""
    batches: list[BatchStatus] | None = base.optional_list(PASSED_LIMIT)
    """The last completed batch of each rolling update."""
    detached_sets: list[DetachedSetStatus] | None = base.optional_list(PASSED_LIMIT)
    """The StatefulSets that are deleted without their Pods and claims, until the next ones exist."""


class SourceStatus(ApiModel):
    """An object that the definition is read from, in the version that this status is about."""

    kind: str
    """`ConfigMap`, `Secret` or `StackTemplate`."""
    namespace: str
    """Its namespace, empty for a StackTemplate."""
    name: str
    """Its name."""
    resource_version: str
    """Its `metadata.resourceVersion`; `0` if it did not exist."""


class ConvergenceStatus(ApiModel):
    """What the status of a Stack and that of a ResourceGroup begin with."""

    phase: str | None = None
    """Summary in one word: `CreateInProgress`, `UpdateComplete`, `DeleteFailed`, and so on."""
    state: str | None = None
    """What else a person should know, in words: `paused, drifted`. Absent if there is nothing."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that this status describes; -1 before the first one."""
    undecided: Counter | None = None
    """In a tree of nested Stacks: the number of resources that have no object yet. While it is not 0, no operator
    process deletes an object of the tree that may move here.
    """
    sources: list[SourceStatus] | None = base.optional_list(limits.TEMPLATE_SOURCES + limits.RULES)
    """The ConfigMaps, Secrets and StackTemplates that this status describes, with their versions. `kubectl stack wait`
    compares them, as it compares `observedGeneration`.
    """
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`, `Reconciling` and `Stalled`, readable by `kubectl wait` and any other tool."""


class StackStatus(ConvergenceStatus):
    """The observed state of the Stack. Its size does not grow with the number of resources."""

    revision: Counter | None = None
    """Number of the definition (template and parameters) that runs: the first that was accepted is 1, the next new one 2.
    An earlier definition that is wanted again keeps its number."""
    last_completed_revision: Counter | None = None
    """The revision that completed last."""
    previous_completed_revision: Counter | None = None
    """The revision that completed before that."""
    earlier_completed_revisions: list[Counter] | None = base.optional_list(limits.REVISION_HISTORY)
    """Further revisions that completed before, so that the history tells them from those that never did."""
    last_failed_revision: Counter | None = None
    """The revision that failed last, even if it completed since."""
    history_unknown: bool | None = None
    """Whether the earlier revisions are unknown, because this operator did not write the status. Such a Stack is never
    rolled back to an empty one.
    """
    signature: str | None = None
    """The operator's signature of the fields that it reads back. A status without it counts as lost."""
    target: TargetStatus | None = None
    controller_state: ControllerState | None = None
    handled: dict[str, str] | None = None
    """The token of the last handled annotation by request: `retry`, `inheritedRetry` (of a parent),
    `cleanup`, `continue`, `check`."""
    summary: str | None = None
    """Ready resources, of all wanted resources, for example `12/14`."""
    resources: ResourceCounts | None = None
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 resources that have a problem."""
    check: CheckStatus | None = None
    finished: list[FinishedStatus] | None = base.optional_list(FINISHED_LIMIT)
    """Resources that ran once and succeeded. They count as ready although their objects may be gone."""
    breakpoints: list[BreakpointStatus] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 breakpoints at which resources wait."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """Settings that are valid and probably a mistake, for example a breakpoint that names no resource."""
    outputs: dict[str, Any] | None = None
    """The outputs of the template whose values are known."""
