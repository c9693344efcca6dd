"""The fields of a ResourceGroup, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter
from hearth.model.api.stack import (
    NUMBER_OR_SHARE,
    Completion,
    Duration,
    Expression,
    FieldPath,
    Healing,
    Manifest,
    ReplacePolicy,
    Retry,
    RunRetry,
    ServiceAccountName,
)
from hearth.model.api.stack_parts import Environment, KubeConfig
from hearth.model.api.stack_status import (
    FINISHED_LIMIT,
    PROBLEMS_LIMIT,
    BreakpointStatus,
    CheckStatus,
    ControllerState,
    ConvergenceStatus,
    FinishedStatus,
    ProblemEntry,
    ResourceCounts,
    TargetStatus,
)

INDEX_RULE = f"^(0|[1-9][0-9]{{0,{limits.INDEX_DIGITS - 1}}})$"
MemberIndex: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.INDEX_DIGITS, pattern=INDEX_RULE)]
PAUSE_SECONDS = int(limits.ROLLING_PAUSE)
GROUP_NAME_RULE: JsonDict = {
    "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": "a group's name is part of its members' names, so it must start with a letter and contain no dots",
}
SERVICE_RULE: JsonDict = {
    "rule": "!has(self.rollingUpdate) || !has(self.rollingUpdate.minInService) || self.replicas == 0"
    " || self.rollingUpdate.minInService <= self.replicas"
    " || (oldSelf.hasValue() && has(oldSelf.value().rollingUpdate) && has(oldSelf.value().rollingUpdate.minInService)"
    " && oldSelf.value().rollingUpdate.minInService == self.rollingUpdate.minInService)",
    # An autoscaler may write a size below the minimum, and the group can still be edited then.
    "optionalOldSelf": True,
    "message": "rollingUpdate.minInService must not be greater than replicas",
}
PAUSE_RULE: JsonDict = {
    "rule": f"!has(self.pauseTime) || duration(self.pauseTime) <= duration('{PAUSE_SECONDS}s')",
    "message": f"pauseTime must be at most {PAUSE_SECONDS}s",
}


class MemberTemplate(ApiModel):
    """Template of the members. `${…}` contains a CEL expression on `params`, `stack`, `index` (a number) and `key` (the
    index as text); `$${` is a literal `${`.
    """

    # One document, as the template of a Stack.
    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    manifest: Manifest
    """The object of a member, as for `kubectl apply`. `metadata.name` defaults to `<group>-<index>`. A custom name must
    contain `${index}`, so that each member has its own object."""
    ready_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`, that must all be true for a member to be ready. They replace the built-in health rule
    of its kind. `member` refers to its object: `member.status.phase == 'Bound'`."""
    failed_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`. A member has failed as soon as one of them is true: `member.status.failed > 3`."""
    update_policy: ReplacePolicy | None = None
    """How to update a member that cannot be changed in place."""
    drift_policy: Literal["Repair", "Report", "Ignore"] | None = None
    """What happens when another field manager changes a field of a member. `Repair`: the operator restores the field.
    `Report`: the operator keeps the change and sets the condition `Drifted`. `Ignore`: the operator keeps the change.
    Default: `Repair`."""
    ignore_fields: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields that the operator applies once and then leaves to other field managers until the manifest has a new value,
    e.g. `spec.replicas`."""
    completion: Completion | None = None
    """What happens when a member that succeeded no longer exists. `Once`: it stays finished, and is recreated only if
    its definition changes or you set the annotation `hearth.dev/retry`. `Rerun`: it is recreated. Default: `Once` for
    kinds that delete themselves when they finish, otherwise `Rerun`."""
    retry: RunRetry | None = None


class RollingUpdate(ApiModel):
    """How members change in batches. Default: all members change at the same time."""

    model_config = base.validated(PAUSE_RULE)

    max_batch_size: Any = pydantic.Field(default=1, json_schema_extra=NUMBER_OR_SHARE)
    """Maximum number of members that change at the same time: a number, or a percentage of all members, e.g. `25%`,
    rounded down but at least 1. Default: 1."""
    min_in_service: Counter | None = None
    """Minimum number of members that stay ready during the update. If a batch would leave fewer, the group runs extra
    members until the update is complete. Members that are not ready can always be changed. Default: 0."""
    pause_time: Duration | None = None
    """Pause between two batches, e.g. `30s`. At most one hour. Default: no pause."""


class RemovalPolicy(ApiModel):
    """Members to remove."""

    resources: list[MemberIndex] = pydantic.Field(
        min_length=1, max_length=limits.REMOVED_MEMBERS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Indices of the members, e.g. `["3"]`."""


class ResourceGroupSpec(ApiModel):
    """Desired state: the number of members, and their template."""

    model_config = base.validated(SERVICE_RULE)

    replicas: int = pydantic.Field(default=1, ge=0, le=limits.GROUP_MEMBERS, json_schema_extra={"format": "int32"})
    """Number of members. `kubectl scale`, a HorizontalPodAutoscaler and other tools can set it through the scale
    subresource. The members use the lowest indices, except those that a removal policy lists. Scaling down removes the
    members with the highest indices first."""
    template: MemberTemplate
    parameters: dict[str, Any] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.ENTRIES}
    )
    """Values that the template reads as `params.<name>`, e.g. `{image: nginx}`."""
    rolling_update: RollingUpdate | None = None
    removal_policies: list[RemovalPolicy] | None = base.optional_list(limits.REMOVAL_POLICIES)
    """Members to remove, by index. A removed index is not used again. While `replicas` stays the same, new members
    replace the removed ones."""
    removal_policies_mode: Literal["Append", "Update"] | None = None
    """`Append`: an index that has ever been listed stays removed. `Update`: only the current list counts. Default:
    `Append`."""
    environment: Environment | None = None
    paused: bool | None = None
    """While true, the operator neither writes nor deletes members. The status shows the pending steps. Changes to the
    spec take effect afterward. Default: false."""
    protected: bool | None = None
    """While true, the group cannot be deleted, as in a Stack. Default: false."""
    suspended: bool | None = None
    """While true, members that are workloads are stopped, as in a Stack. Default: false."""
    retry: Retry | None = None
    healing: Healing | None = None
    timeout: Duration | None = None
    """Maximum time to complete a change, e.g. `90s` or `1h30m`. A change that takes longer fails. Default: no limit."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the group. The operator uses its permissions to manage the members, as in a
    Stack. Default: depends on the operator's flag `--tenancy`."""
    kube_config: KubeConfig | None = None
    """Kubeconfig of another cluster to create the members in, as in a Stack. Default: the cluster of the group."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the members when the group is deleted. `Delete`: the operator deletes them. `Abandon`: all
    members are kept unchanged and no longer managed. Default: `Delete`."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with a member's name already exists and belongs to no Stack or group. `Adopt`: the
    operator takes over the object. `Refuse`: the object stays unchanged, and the member fails. Default: `Refuse`."""


class ResourceGroupStatus(ConvergenceStatus):
    """Observed state of the group. Its size does not grow with the number of members."""

    replicas: Counter | None = None
    """Number of members that have an object."""
    ready_replicas: Counter | None = None
    """Number of members whose object is ready, at any revision."""
    selector: str | None = None
    """Label selector of the members, for autoscalers."""
    summary: str | None = None
    """Members that are up to date and ready, out of all members, e.g. `12/14`."""
    members: ResourceCounts | None = None
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 members that have a problem."""
    revision: Counter | None = None
    """Number of the definition that runs. A change to `replicas` creates a new revision as well."""
    last_completed_revision: Counter | None = None
    """The revision that completed most recently."""
    previous_completed_revision: Counter | None = None
    """The revision that completed before `lastCompletedRevision`."""
    last_failed_revision: Counter | None = None
    """The revision that failed most recently, even if it has completed since."""
    history_unknown: bool | None = None
    """Whether the earlier revisions are unknown because the status was not written by this operator."""
    signature: str | None = None
    """The operator's signature of the status fields that it reads back. The operator treats a status without it as
    missing."""
    target: TargetStatus | None = None
    controller_state: ControllerState | None = None
    handled: dict[str, str] | None = None
    """Last handled value of each request annotation: `retry`, `inheritedRetry` (from a parent), `cleanup`, `continue`,
    `check`."""
    check: CheckStatus | None = None
    finished: list[FinishedStatus] | None = base.optional_list(FINISHED_LIMIT)
    """Members that ran once and succeeded. They count as ready even if their objects no longer exist."""
    breakpoints: list[BreakpointStatus] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 breakpoints where members wait."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """Settings that are valid but probably a mistake."""


class ResourceGroup(ApiModel):
    """A set of objects, called members, that are created from one template and managed like the resources of a Stack.
    Each member has an index. Members can change in batches, and `kubectl scale` or an autoscaler can set their number.
    """

    model_config = base.validated(GROUP_NAME_RULE)

    spec: ResourceGroupSpec
    status: ResourceGroupStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
