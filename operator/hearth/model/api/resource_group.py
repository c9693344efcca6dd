"""What a ResourceGroup may say, as pydantic models. Source of its CRD, as `hearth.model.api.stack` is of the Stack's."""

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
    """Template of a member. Expressions are CEL in `${…}` on `params`, `stack`, `index` (a number), and `key` (the
    index as text); `$${` is a literal `${`.
    """

    # One document, as the template of a Stack.
    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    manifest: Manifest
    """The object of a member, as for `kubectl apply`. `metadata.name` defaults to `<group>-<index>`; a name of your own
    must contain `${index}`, so that each member has an object of its own.
    """
    ready_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`, that must all be true for a member to be ready. `member` denotes its object:
    `member.status.phase == 'Bound'`.
    """
    failed_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`. A member has failed as soon as one of them is true: `member.status.failed > 3`."""
    update_policy: ReplacePolicy | None = None
    """How to update a member that cannot be changed in place."""
    drift_policy: Literal["Repair", "Report", "Ignore"] | None = None
    """What happens if another field manager changes a field of a member, as in a Stack."""
    ignore_fields: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields that are applied once and then left to other field managers, as in a Stack."""
    completion: Completion | None = None
    """What happens when a member that succeeded is gone, as in a Stack."""
    retry: RunRetry | None = None


class RollingUpdate(ApiModel):
    """How members change one after another. Default: all change at once."""

    model_config = base.validated(PAUSE_RULE)

    max_batch_size: Any = pydantic.Field(default=1, json_schema_extra=NUMBER_OR_SHARE)
    """How many members change at the same time: a number, or a percentage of all members, for example `25%`, rounded
    down and at least 1.
    """
    min_in_service: Counter | None = None
    """How many members stay ready during the update. If a batch would leave fewer, the group has extra members until
    the update is done. A member that is not ready may always be changed. Default: 0.
    """
    pause_time: Duration | None = None
    """The time between two batches, for example `30s`; an hour at most. Default: no pause."""


class RemovalPolicy(ApiModel):
    """Members to remove."""

    resources: list[MemberIndex] = pydantic.Field(
        min_length=1, max_length=limits.REMOVED_MEMBERS, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The indices of the members."""


class ResourceGroupSpec(ApiModel):
    """Desired state: the number of members, and their template."""

    model_config = base.validated(SERVICE_RULE)

    replicas: int = pydantic.Field(default=1, ge=0, le=limits.GROUP_MEMBERS, json_schema_extra={"format": "int32"})
    """Number of members. `kubectl scale`, a HorizontalPodAutoscaler, and others may set it through the scale
    subresource. The members have the lowest indices that no removal policy names; the highest indices are removed
    first.
    """
    template: MemberTemplate
    parameters: dict[str, Any] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.ENTRIES}
    )
    """Values that the template reads as `params.<name>`."""
    rolling_update: RollingUpdate | None = None
    removal_policies: list[RemovalPolicy] | None = base.optional_list(limits.REMOVAL_POLICIES)
    """Members to remove, by index. An index is not used again; while `replicas` stays the same, new members take their
    place.
    """
    removal_policies_mode: Literal["Append", "Update"] | None = None
    """`Append`: an index that was ever listed stays removed. `Update`: only the current list counts. Default: `Append`."""
    environment: Environment | None = None
    paused: bool | None = None
    """While true, the operator writes and deletes no member. The status shows the pending steps. Changes of the spec
    take effect afterward.
    """
    suspended: bool | None = None
    """While true, workloads among the members are stopped, as in a Stack."""
    retry: Retry | None = None
    healing: Healing | None = None
    timeout: Duration | None = None
    """Maximum time until a change is complete; it fails afterward. E.g. `90s` or `1h30m`. Default: no limit."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the group that the operator acts as for its members, as in a Stack."""
    kube_config: KubeConfig | None = None
    """Cluster of the members, as in a Stack. Default: the cluster of the group."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the members when the group is deleted. `Abandon`: all stay unchanged, without an owner. Default:
    they are deleted.
    """
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with a member's name exists and belongs to no Stack or group. `Adopt`: the operator
    adopts it. Default: the object stays unchanged and the member fails.
    """


class ResourceGroupStatus(ConvergenceStatus):
    """The observed state of the group. Its size does not grow with the number of members."""

    replicas: Counter | None = None
    """Number of members that have an object."""
    ready_replicas: Counter | None = None
    """Number of members whose object is ready, of any revision."""
    selector: str | None = None
    """The label selector of the members, for autoscalers."""
    summary: str | None = None
    """Members that are up to date and ready, of all members, for example `12/14`."""
    members: ResourceCounts | None = None
    problems: list[ProblemEntry] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 members that have a problem."""
    revision: Counter | None = None
    """Number of the definition that runs. A change of `replicas` is a revision as well."""
    last_completed_revision: Counter | None = None
    """The revision that completed last."""
    previous_completed_revision: Counter | None = None
    """The revision that completed before that."""
    last_failed_revision: Counter | None = None
    """The revision that failed last, even if it completed since."""
    history_unknown: bool | None = None
    """Whether the earlier revisions are unknown, because this operator did not write the status."""
    signature: str | None = None
    """The operator's signature of the fields that it reads back. A status without it counts as lost."""
    target: TargetStatus | None = None
    controller_state: ControllerState | None = None
    handled: dict[str, str] | None = None
    """The token of the last handled annotation by request: `retry`, `inheritedRetry` (of a parent),
    `cleanup`, `continue`, `check`."""
    check: CheckStatus | None = None
    finished: list[FinishedStatus] | None = base.optional_list(FINISHED_LIMIT)
    """Members that ran once and succeeded. They count as ready although their objects may be gone."""
    breakpoints: list[BreakpointStatus] | None = base.optional_list(PROBLEMS_LIMIT)
    """The first 20 breakpoints at which members wait."""
    warnings: list[str] | None = base.optional_list(PROBLEMS_LIMIT)
    """Settings that are valid and probably a mistake."""


class ResourceGroup(ApiModel):
    """Any number of members: objects made from one template, and converged like the resources of a Stack. Members are
    named by index, can change in batches, and are scaled with `kubectl scale` or by an autoscaler.
    """

    model_config = base.validated(GROUP_NAME_RULE)

    spec: ResourceGroupSpec
    status: ResourceGroupStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)
