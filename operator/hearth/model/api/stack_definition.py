"""The fields of a StackDefinition, as pydantic models, and the parts that instances of all kinds share. Source of the
CRDs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter, Timestamp
from hearth.model.api.stack import (
    NAME_RULE,
    NUMBER_OR_SHARE,
    Duration,
    Healing,
    Lifetime,
    Retry,
    Rollback,
    ServiceAccountName,
    Template,
)
from hearth.model.api.stack_parts import Environment, KubeConfig, TemplateReference, Window
from hearth.model.api.stack_status import Condition, StackStatus

KIND_NAME = "^[A-Z][A-Za-z0-9]{0,62}$"
PLURAL = "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
GROUP = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$"
VERSION = "^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$"
NAME_OF_DEFINITION: JsonDict = {
    "rule": "self.metadata.name == self.spec.names.plural + '.' + self.spec.group",
    "message": "metadata.name must be <spec.names.plural>.<spec.group>, as the name of the CustomResourceDefinition",
}
SAME_KIND: JsonDict = {
    "rule": "self.group == oldSelf.group && self.names.kind == oldSelf.names.kind && self.versions[0].name == oldSelf.versions[0].name",
    "message": "group, names.kind and the name of the version are immutable; create another StackDefinition for another kind",
}
ONE_FIELD: JsonDict = {
    "rule": "has(self.output) != has(self.parameter)",
    "message": "set exactly one of output and parameter",
}

ACCOUNT_ALONE: JsonDict = {
    "rule": "!has(self.account) || (!(has(self.options) && self.options.exists(each, each in ['serviceAccountName',"
    " 'kubeConfig'])) && !(has(self.defaults) && has(self.defaults.serviceAccountName)))",
    "message": "account replaces serviceAccountName and kubeConfig; remove these from options and defaults, or"
    " remove account",
}
BOUNDARY_OF_ACCOUNT: JsonDict = {
    "rule": "!has(self.boundary) || has(self.account)",
    "message": "boundary requires account; set account, or remove boundary",
}

ONE_TEMPLATE: JsonDict = {
    "rule": "has(self.template) != has(self.templateRefs)",
    "message": "set exactly one of template and templateRefs",
}
NAMED_CONFIG_MAPS = (
    "has(self.templateRefs) && self.templateRefs.exists(each, !has(each.kind) || each.kind == 'ConfigMap')"
)
NAMESPACE_OF_TEMPLATES: JsonDict = {
    "rule": f"has(self.templateNamespace) == ({NAMED_CONFIG_MAPS})",
    "message": "templateNamespace is the namespace of the ConfigMaps in templateRefs; set it if there are any, otherwise remove it",
}
NAMESPACE_OF_ACCOUNT: JsonDict = {
    "rule": "!has(self.account) || !has(self.templateNamespace) || self.templateNamespace == self.account.namespace",
    "message": "with account, templateNamespace must be the account's namespace, because the templates decide how its permissions are used",
}

FieldName: TypeAlias = Annotated[str, pydantic.Field(max_length=40, pattern=NAME_RULE)]
FurtherOption: TypeAlias = Literal[
    "adoptionPolicy",
    "deletionPolicy",
    "expiresAfter",
    "kubeConfig",
    "protected",
    "revisionHistoryLimit",
    "serviceAccountName",
]
AnyOption: TypeAlias = Literal[
    "adoptionPolicy",
    "definitionRevision",
    "deletionPolicy",
    "environment",
    "expiresAfter",
    "healing",
    "paused",
    "protected",
    "retry",
    "revisionHistoryLimit",
    "rollback",
    "serviceAccountName",
    "suspended",
    "timeout",
]


class KindNames(ApiModel):
    """Names of the kind, as in a CustomResourceDefinition."""

    kind: str = pydantic.Field(pattern=KIND_NAME, max_length=63)
    """Name of the kind in manifests, in CamelCase, e.g. `WebApp`."""
    plural: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """Plural name in lower case, for URLs and kubectl, e.g. `webapps`."""
    singular: str | None = pydantic.Field(default=None, pattern=PLURAL, max_length=63)
    """Singular name in lower case, for kubectl, e.g. `webapp`. Default: the kind in lower case."""
    short_names: list[Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)]] | None = base.optional_list(
        8, kind="set"
    )
    """Short names for kubectl, e.g. `wa` for `kubectl get wa`. Default: none."""
    categories: list[Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)]] | None = base.optional_list(
        8, kind="set"
    )
    """Categories of the kind, in addition to `hearth`. `kubectl get <category>` lists the objects of all kinds in it.
    """


class ServedVersion(ApiModel):
    """A version of the kind."""

    name: str = pydantic.Field(pattern=VERSION, max_length=32)
    """Name of the version, the second part of `apiVersion`, e.g. `v1alpha1`."""


class Column(ApiModel):
    """A column of `kubectl get`. It shows either an output or a parameter."""

    model_config = base.validated(ONE_FIELD)

    name: str = pydantic.Field(min_length=1, max_length=40)
    """Heading of the column, e.g. `URL`."""
    output: FieldName | None = None
    """Output of the template to show. Set either `output` or `parameter`."""
    parameter: FieldName | None = None
    """Parameter of the template to show. Set either `output` or `parameter`."""
    priority: Counter | None = None
    """Columns with priority 0 are always shown, others only with `-o wide`. Default: 0."""


class Scale(ApiModel):
    """The parameter behind the scale subresource. Default: instances cannot be scaled."""

    parameter: FieldName
    """Parameter of type `integer` that `kubectl scale` and autoscalers set, e.g. `replicas`."""


class InstanceOptions(ApiModel):
    """Options that control how the operator manages an instance. They work as in the spec of a Stack."""

    environment: Environment | None = None
    healing: Healing | None = None
    paused: bool | None = None
    """While true, the operator neither writes nor deletes objects of the instance. The status shows the pending steps.
    Default: false."""
    retry: Retry | None = None
    rollback: Rollback | None = None
    suspended: bool | None = None
    """While true, the workloads of the instance are stopped. Default: false."""
    timeout: Duration | None = None
    """Maximum time to complete a change, e.g. `90s` or `1h30m`. A change that takes longer fails. Default: no limit."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with the name of one of the instance's objects already exists and belongs to no Stack.
    `Adopt`: the operator takes over the object. `Refuse`: the object stays unchanged, and the resource fails. Default:
    `Refuse`."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the objects when the instance is deleted. `Delete`: the operator deletes them, except for
    resources with `deletionPolicy: Retain`. `Abandon`: all objects are kept unchanged and no longer managed. Default:
    `Delete`."""
    expires_after: Lifetime | None = None
    """Lifetime of the instance, e.g. `72h`. The operator deletes the instance when this time has passed since its
    creation, unless it is protected. Default: the instance does not expire."""
    protected: bool | None = None
    """While true, the instance cannot be deleted: the API server rejects the request. If a deletion was already
    accepted, the operator deletes nothing until this is false. Default: false."""
    revision_history_limit: Annotated[Counter, pydantic.Field(le=limits.REVISION_HISTORY)] | None = None
    """Number of earlier revisions of the instance to keep. At most 100. Default: 10."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the instance. The operator uses its permissions to manage the objects of the
    instance."""


class InstanceMachinery(InstanceOptions):
    """Options that control how the operator manages this object."""

    kube_config: KubeConfig | None = None
    """Kubeconfig of another cluster to create the objects in, with the permissions of that kubeconfig. Default: the
    cluster of the instance."""
    definition_revision: Annotated[Counter, pydantic.Field(ge=1)] | None = None
    """Pins the object to this revision of the StackDefinition: its current revision or a newer one. Default: rollouts
    move the object to new revisions."""


class DefinerAccount(ApiModel):
    """A ServiceAccount."""

    namespace: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """Namespace of the ServiceAccount, e.g. `platform-system`."""
    name: ServiceAccountName
    """Name of the ServiceAccount, e.g. `webapps`."""


class InstanceSelector(ApiModel):
    """Selects instances by their labels."""

    match_labels: dict[str, str] = pydantic.Field(
        min_length=1, json_schema_extra={"maxProperties": limits.SELECTOR_REQUIREMENTS}
    )
    """Labels that an instance must have, with their values, e.g. `{stage: canary}`."""


class RolloutWave(ApiModel):
    """Instances that are updated together. An instance belongs to the first wave that matches it."""

    name: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """Name of the wave in statuses and messages, e.g. `canary`."""
    select: InstanceSelector | None = None
    """Labels of the instances that belong to the wave. Default: all instances that no earlier wave contains."""
    size: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """Maximum number of instances in the wave: a number, or a percentage of all instances, e.g. `10%`. Default: no
    limit."""


class RolloutWindow(Window):
    """Times when a wave can start. A wave that has started continues after the window ends. Default: at any time."""


class ApprovalGate(ApiModel):
    """The approval of a user who has the verb `approve` on `stackdefinitions`. It has no fields."""


class RolloutGate(ApiModel):
    """Evidence that the rollout needs after each wave."""

    name: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """Name of the gate in statuses and messages, e.g. `release-manager`."""
    approval: ApprovalGate


class Rollout(ApiModel):
    """How a new revision reaches existing instances."""

    strategy: Literal["Progressive", "Manual", "AllAtOnce"] | None = None
    """`Progressive`: wave by wave. `Manual`: an instance moves only when its field `spec.stack.definitionRevision` or
    its annotation `hearth.dev/promote: "<revision>"` requests it. `AllAtOnce`: all instances at the same time. Default:
    `Progressive`."""
    waves: list[RolloutWave] | None = base.optional_list(16)
    """The waves, in order. The last wave is always `rest` and contains all other instances. Default: only `rest`."""
    max_unavailable: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """Maximum number of instances of a wave that are in progress or not ready at the same time: a number, or a
    percentage of the wave. Default: `25%`."""
    pause: Duration | None = None
    """How long all instances of a wave must stay ready before the next wave starts, e.g. `30m`. Default: no pause."""
    max_failed: Counter | None = None
    """Number of failed instances that the rollout tolerates. One more failure stops it. If instances exist in several
    namespaces, all failures in one namespace count as one. Default: 0, so the first failure stops the rollout."""
    progress_deadline: Duration | None = None
    """Maximum time to update an instance. An instance that takes longer counts as failed. Default: `30m`."""
    on_failure: Literal["Stop", "Rollback"] | None = None
    """What happens when more than `maxFailed` instances fail, or a gate fails. `Stop`: no more instances are updated. `Rollback`: in
    addition, all updated instances return to the last revision that completed its rollout. Default: `Stop`."""
    window: RolloutWindow | None = None
    gates: list[RolloutGate] | None = base.optional_list(limits.GATES)
    """Evidence that the rollout needs after each wave, including the last one, before it continues. Not with strategy
    `Manual`. Default: the rollout continues as soon as the instances of the wave are ready."""


class StackDefinitionSpec(ApiModel):
    """The kind, and the template of its instances."""

    model_config = base.validated(
        *(SAME_KIND, ACCOUNT_ALONE, BOUNDARY_OF_ACCOUNT), *(ONE_TEMPLATE, NAMESPACE_OF_TEMPLATES, NAMESPACE_OF_ACCOUNT)
    )

    group: str = pydantic.Field(pattern=GROUP, max_length=150)
    """API group of the kind, e.g. `platform.example`. The operator only creates kinds in groups that its flag
    `--definition-groups` lists."""
    names: KindNames
    versions: list[ServedVersion] = pydantic.Field(
        min_length=1, max_length=1, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The version of the kind. The list must have exactly one entry, e.g. `[{name: v1alpha1}]`."""
    scope: Literal["Namespaced"] = "Namespaced"
    """Instances are namespaced, like Stacks."""
    template: Template | None = None
    """The template, as in a Stack. Its parameters become the fields in `spec` of each instance, and its outputs the
    fields in `status.outputs`."""
    template_refs: list[TemplateReference] | None = base.optional_list(limits.TEMPLATE_SOURCES, least=1)
    """Objects that contain the template, or parts of it, instead of `template`. Every change to these objects creates a
    new revision."""
    template_namespace: Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)] | None = None
    """Namespace of the ConfigMaps in `templateRefs`. With `account`, it must be the namespace of the account."""
    columns: list[Column] | None = base.optional_list(16)
    """Additional columns of `kubectl get` for instances, between Ready and State. Default: none."""
    scale: Scale | None = None
    defaults: InstanceOptions | None = None
    """Default options of the instances. An instance can override them in `spec.stack`."""
    final: list[AnyOption] | None = base.optional_list(limits.ENTRIES, kind="set")
    """Options that instances cannot override, e.g. `[deletionPolicy]`. With `definitionRevision`, instances cannot be
    pinned. Default: none."""
    minimum_revision: Annotated[Counter, pydantic.Field(ge=1)] | None = None
    """Oldest revision that instances can keep. Instances with an older revision follow the rollout even if they are
    pinned, paused or rolled back, and no instance can roll back to an older revision. Default: 1."""
    options: list[FurtherOption] | None = base.optional_list(limits.ENTRIES, kind="set")
    """Options that instances can set in `spec.stack`, in addition to `definitionRevision`, `environment`, `healing`,
    `paused`, `retry`, `rollback`, `suspended` and `timeout`."""
    account: DefinerAccount | None = None
    """ServiceAccount that the operator uses to manage the objects of all instances, so that developers need no
    permissions on these objects. The operator only uses accounts that its flag `--definition-accounts` lists. Default:
    an instance has the permissions of a Stack in its namespace."""
    boundary: Literal["Namespace", "Cluster"] | None = None
    """Namespaces that can contain the objects of an instance. Only with `account`. `Namespace`: the namespace of the
    instance. `Cluster`: all namespaces where the account has permissions. Default: `Namespace`."""
    deletion_policy: Literal["Delete", "Orphan"] | None = None
    """What happens when the definition is deleted. `Delete`: the operator waits until no instance exists, then deletes
    the kind. `Orphan`: the kind, its instances and their objects are kept but no longer managed, and the operator
    removes its finalizers. Default: `Delete`."""
    roles: Literal["Aggregate"] | None = None
    """`Aggregate`: the operator creates the ClusterRoles `<plural>-view` and `<plural>-edit` and aggregates them into
    `view` and `edit`, so anyone who can edit a namespace can manage the instances in it. Default: no roles."""
    rollout: Rollout | None = None


class ReportedInstance(ApiModel):
    """An instance, and the reason why the rollout reports it."""

    namespace: str
    """Namespace of the instance."""
    name: str
    """Name of the instance."""
    message: str
    """The reason."""


class GateReport(ApiModel):
    """A gate after one wave."""

    wave: str
    """Name of the wave."""
    name: str
    """Name of the gate."""
    state: Literal["Waiting", "Passed", "Failed"]
    """`Waiting`: the rollout waits for a decision. `Passed`: a user approved. `Failed`: a user rejected."""
    digest: str = pydantic.Field(max_length=64)
    """Identifies the gate after this wave, in this attempt to roll out the revision. A user who approves or rejects gives
    at least its first 8 digits."""
    user: str | None = pydantic.Field(default=None, max_length=limits.APPROVAL_LENGTH)
    """The user who decided."""
    time: Timestamp | None = None
    """When the user decided."""
    message: str | None = pydantic.Field(default=None, max_length=limits.APPROVAL_REASON)
    """Why, in the words of the user."""


class RolloutStatus(ApiModel):
    """Progress of the rollout of the newest revision."""

    revision: Counter
    """The revision that is being rolled out."""
    completed: Counter | None = None
    """The last revision that completed its rollout. New instances start with it."""
    phase: Literal["Progressing", "Paused", "Stopped", "RollingBack", "RolledBack", "Complete"]
    """`Progressing`: instances are being updated. `Paused`: a user paused the rollout. `RollingBack` and `RolledBack`:
    the updated instances return, or have returned, to an earlier revision. `Complete`: the rollout has finished.
    `Stopped`: more instances failed than `maxFailed` allows, or a gate failed. A new revision, or the annotation
    `hearth.dev/rollout-restart`, continues the rollout. Unless a gate failed, `hearth.dev/rollout-force` does too."""
    wave: str | None = None
    """The current wave."""
    updated: Counter
    """Number of instances that have the revision."""
    ready: Counter
    """Number of updated instances that are ready."""
    failed: Counter
    """Number of updated instances that failed."""
    waiting: Counter
    """Number of instances that wait for their update."""
    held: Counter
    """Number of instances that are not updated because a user paused, suspended, stopped, pinned or rolled back the
    instance, or because something that its users control prevents the update, e.g. parameters that do not fit, or a
    quota."""
    ready_since: Timestamp | None = None
    """Set during the pause after a wave: time when all instances of the wave became ready."""
    started_at: Timestamp | None = None
    """When the rollout of the revision was started or restarted."""
    restart: str | None = pydantic.Field(default=None, max_length=253)
    """The last handled value of `hearth.dev/rollout-restart`."""
    instances: list[ReportedInstance] | None = base.optional_list(20)
    """The first 20 failed instances."""
    held_instances: list[ReportedInstance] | None = base.optional_list(20)
    """The first 20 instances that are not updated, each with the reason."""
    forced: Counter | None = None
    """The revision whose rollout a user forced. Failures do not stop it."""
    gates: list[GateReport] | None = base.optional_list(limits.GATE_RESULTS)
    """The gates that passed or failed in this attempt to roll out the revision, and those that the rollout waits for."""
    signature: str | None = pydantic.Field(default=None, max_length=limits.SIGNATURE_LENGTH)
    """The operator's signature of these fields. If it is missing or invalid, a rollout with gates starts again."""


class StackDefinitionStatus(ApiModel):
    """Observed state of the definition."""

    observed_generation: Annotated[int, pydantic.Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """The `metadata.generation` that this status describes."""
    revision: Counter | None = None
    """Number of the newest accepted revision."""
    revision_namespace: str | None = pydantic.Field(default=None, max_length=63)
    """Namespace of the definition's revisions, which is the namespace of the operator. ControllerRevisions in other
    namespaces are ignored."""
    instances: Counter | None = None
    """Number of instances."""
    updated: Counter | None = None
    """Number of instances that have the newest revision."""
    rollout: RolloutStatus | None = None
    roles: list[str] | None = base.optional_list(4)
    """ClusterRoles that the operator created for the kind."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the kind is served, and all instances have the newest revision. `Reconciling`: the operator is working
    on it. `Stalled`: the definition, or something that the message names, must change first."""


class StackDefinition(ApiModel):
    """Defines a kind of your own. Each object of the kind is an instance that works like a Stack with this template."""

    model_config = base.validated(NAME_OF_DEFINITION)

    spec: StackDefinitionSpec
    status: StackDefinitionStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)


class InstanceStatus(StackStatus):
    """Observed state of the instance, as in a Stack."""

    definition_revision: Counter | None = None
    """The revision of the StackDefinition that the instance's objects have."""
    observed_definition_revision: Counter | None = None
    """The revision of the StackDefinition that this status describes."""
