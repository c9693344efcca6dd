"""What a StackDefinition may say, as pydantic models, and what the objects of its kind share. Source of the CRDs."""

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
    Retry,
    Rollback,
    ServiceAccountName,
    Template,
)
from hearth.model.api.stack_parts import Environment, KubeConfig, TemplateReference
from hearth.model.api.stack_status import Condition, StackStatus

KIND_NAME = "^[A-Z][A-Za-z0-9]{0,62}$"
PLURAL = "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
GROUP = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$"
VERSION = "^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$"
DAYS_RULE = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$"
MINUTE_RULE = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
NAME_OF_DEFINITION: JsonDict = {
    "rule": "self.metadata.name == self.spec.names.plural + '.' + self.spec.group",
    "message": "metadata.name must be <spec.names.plural>.<spec.group>, as the name of the CustomResourceDefinition",
}
SAME_KIND: JsonDict = {
    "rule": "self.group == oldSelf.group && self.names.kind == oldSelf.names.kind && self.versions[0].name == oldSelf.versions[0].name",
    "message": "group, names.kind and the name of the version never change, since objects of the kind exist; make another StackDefinition",
}
ONE_FIELD: JsonDict = {
    "rule": "has(self.output) != has(self.parameter)",
    "message": "exactly one of output and parameter must be given",
}

ACCOUNT_ALONE: JsonDict = {
    "rule": "!has(self.account) || (!(has(self.options) && self.options.exists(each, each in ['serviceAccountName',"
    " 'kubeConfig'])) && !(has(self.defaults) && has(self.defaults.serviceAccountName)))",
    "message": "account takes the place of serviceAccountName and kubeConfig; remove these from options and defaults, or"
    " remove account",
}
BOUNDARY_OF_ACCOUNT: JsonDict = {
    "rule": "!has(self.boundary) || has(self.account)",
    "message": "boundary is that of account, which is missing",
}

ONE_TEMPLATE: JsonDict = {
    "rule": "has(self.template) != has(self.templateRefs)",
    "message": "exactly one of template and templateRefs must be given",
}
NAMED_CONFIG_MAPS = (
    "has(self.templateRefs) && self.templateRefs.exists(each, !has(each.kind) || each.kind == 'ConfigMap')"
)
NAMESPACE_OF_TEMPLATES: JsonDict = {
    "rule": f"has(self.templateNamespace) == ({NAMED_CONFIG_MAPS})",
    "message": "templateNamespace is that of the ConfigMaps in templateRefs: state it with them, and with nothing else",
}
NAMESPACE_OF_ACCOUNT: JsonDict = {
    "rule": "!has(self.account) || !has(self.templateNamespace) || self.templateNamespace == self.account.namespace",
    "message": "with account, the templates must be in its namespace: who writes them decides what is written with its rights",
}

FieldName: TypeAlias = Annotated[str, pydantic.Field(max_length=40, pattern=NAME_RULE)]
FurtherOption: TypeAlias = Literal[
    "adoptionPolicy", "deletionPolicy", "kubeConfig", "revisionHistoryLimit", "serviceAccountName"
]
AnyOption: TypeAlias = Literal[
    "adoptionPolicy",
    "definitionRevision",
    "deletionPolicy",
    "environment",
    "healing",
    "paused",
    "retry",
    "revisionHistoryLimit",
    "rollback",
    "serviceAccountName",
    "suspended",
    "timeout",
]


class KindNames(ApiModel):
    """What the kind is called, as in a CustomResourceDefinition."""

    kind: str = pydantic.Field(pattern=KIND_NAME, max_length=63)
    """The name in manifests: `WebApp`."""
    plural: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """The name in requests: `webapps`."""
    singular: str | None = pydantic.Field(default=None, pattern=PLURAL, max_length=63)
    """The name for one object. Default: the kind in lower case."""
    short_names: list[Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)]] | None = base.optional_list(
        8, kind="set"
    )
    """Short names for kubectl: `wa`."""
    categories: list[Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)]] | None = base.optional_list(
        8, kind="set"
    )
    """Lists in which `kubectl get` shows the objects, besides `hearth`."""


class ServedVersion(ApiModel):
    """A version of the kind."""

    name: str = pydantic.Field(pattern=VERSION, max_length=32)
    """The name in `apiVersion`: `v1alpha1`."""


class Column(ApiModel):
    """A column of `kubectl get`."""

    model_config = base.validated(ONE_FIELD)

    name: str = pydantic.Field(min_length=1, max_length=40)
    """The heading."""
    output: FieldName | None = None
    """The output that it shows."""
    parameter: FieldName | None = None
    """The parameter that it shows."""
    priority: Counter | None = None
    """The columns of 0 are always shown, others with `-o wide`. Default: 0."""


class Scale(ApiModel):
    """The parameter behind the scale subresource."""

    parameter: FieldName
    """An integer parameter that `kubectl scale` and autoscalers set."""


class InstanceOptions(ApiModel):
    """How the operator works on an instance: options of a Stack."""

    environment: Environment | None = None
    healing: Healing | None = None
    paused: bool | None = None
    """While true, the operator writes and deletes no object of the instance. The status shows the pending steps."""
    retry: Retry | None = None
    rollback: Rollback | None = None
    suspended: bool | None = None
    """While true, the workloads of the instance are stopped."""
    timeout: Duration | None = None
    """Maximum time until a change is complete; it fails afterward. E.g. `90s` or `1h30m`. Default: no limit."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with the name of one of the instance exists and belongs to no Stack."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the objects when the instance is deleted."""
    revision_history_limit: Annotated[Counter, pydantic.Field(le=limits.REVISION_HISTORY)] | None = None
    """Number of earlier revisions of the instance to keep. Default: 10."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the instance that the operator acts as for its objects."""


class InstanceMachinery(InstanceOptions):
    """How the operator works on this object, apart from what it is."""

    kube_config: KubeConfig | None = None
    """Cluster of the objects, with the rights of that kubeconfig. Default: the cluster of the instance."""
    definition_revision: Annotated[Counter, pydantic.Field(ge=1)] | None = None
    """The revision of the StackDefinition that this object stays at: its present one, or a newer one. Default: the operator
    moves it to new ones."""


class DefinerAccount(ApiModel):
    """A ServiceAccount."""

    namespace: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """Its namespace."""
    name: ServiceAccountName
    """Its name."""


class InstanceSelector(ApiModel):
    """Labels that instances have."""

    match_labels: dict[str, str] = pydantic.Field(
        min_length=1, json_schema_extra={"maxProperties": limits.SELECTOR_REQUIREMENTS}
    )
    """Labels with their values."""


class RolloutWave(ApiModel):
    """Instances that follow together. Each is in the first wave that it fits."""

    name: str = pydantic.Field(pattern=PLURAL, max_length=63)
    """The name, for people."""
    select: InstanceSelector | None = None
    """Which instances are in it. Default: any."""
    size: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """How many instances it has at most: a number, or a share of all. Default: no limit."""


class RolloutWindow(ApiModel):
    """When a wave may begin. One that has begun continues."""

    days: list[Annotated[str, pydantic.Field(pattern=DAYS_RULE)]] | None = base.optional_list(7, least=1, kind="set")
    """Days: `Mon`, `Mon-Thu`. Default: all."""
    from_: str | None = pydantic.Field(default=None, alias="from", pattern=MINUTE_RULE)
    """From this time on, `08:00`. Default: `00:00`."""
    to: str | None = pydantic.Field(default=None, pattern=MINUTE_RULE)
    """Until this time, `16:00`; an earlier one than `from` is that of the next day. Default: `24:00`."""
    zone: str | None = pydantic.Field(default=None, max_length=64)
    """Time zone: `Europe/Berlin`. Default: `UTC`."""


class Rollout(ApiModel):
    """How a new revision reaches the instances that exist."""

    strategy: Literal["Progressive", "Manual", "AllAtOnce"] | None = None
    """`Progressive`: wave by wave. `Manual`: an instance is moved when its `spec.stack.definitionRevision` or the annotation
    `hearth.dev/promote: "<revision>"` says so. `AllAtOnce`: all at the same time. Default: `Progressive`."""
    waves: list[RolloutWave] | None = base.optional_list(16)
    """The waves in order. The last one, `rest`, has all other instances. Default: only that one."""
    max_unavailable: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """How many instances of a wave may be in progress, or not ready, at the same time: a number, or a share of the wave.
    Default: `25%`."""
    pause: Duration | None = None
    """How long every instance of a wave must stay ready before the next wave begins. Default: no pause."""
    max_failed: Counter | None = None
    """How many instances may fail. One more stops the rollout. If several namespaces have instances, those of one namespace
    count as one. Default: 0."""
    progress_deadline: Duration | None = None
    """How long an instance may be in progress before it counts as failed. Default: `30m`."""
    on_failure: Literal["Stop", "Rollback"] | None = None
    """What happens if more instances fail. `Stop`: no further instance is moved. `Rollback`: also, all that were moved go
    back to the last revision that completed its rollout. Default: `Stop`."""
    window: RolloutWindow | None = None


class StackDefinitionSpec(ApiModel):
    """The kind, and what each of its objects becomes."""

    model_config = base.validated(
        *(SAME_KIND, ACCOUNT_ALONE, BOUNDARY_OF_ACCOUNT), *(ONE_TEMPLATE, NAMESPACE_OF_TEMPLATES, NAMESPACE_OF_ACCOUNT)
    )

    group: str = pydantic.Field(pattern=GROUP, max_length=150)
    """The API group of the kind: `platform.example`. The operator may only make kinds of groups that its flag
    `--definition-groups` lists."""
    names: KindNames
    versions: list[ServedVersion] = pydantic.Field(
        min_length=1, max_length=1, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """The version of the kind."""
    scope: Literal["Namespaced"] = "Namespaced"
    """Objects of the kind have a namespace, as Stacks have."""
    template: Template | None = None
    """The template, as in a Stack. Its parameters are the fields of `spec` of each object, its outputs those of
    `status.outputs`."""
    template_refs: list[TemplateReference] | None = base.optional_list(limits.TEMPLATE_SOURCES, least=1)
    """Objects that contain the template, or parts of it, instead of `template`. The operator reads and follows them; each
    change is a new revision."""
    template_namespace: Annotated[str, pydantic.Field(pattern=PLURAL, max_length=63)] | None = None
    """Namespace of the ConfigMaps in `templateRefs`. With `account`, that of the account."""
    columns: list[Column] | None = base.optional_list(16)
    """Columns of `kubectl get`, between the phase and the age."""
    scale: Scale | None = None
    defaults: InstanceOptions | None = None
    """Options of each object, unless its `spec.stack` states others."""
    final: list[AnyOption] | None = base.optional_list(limits.ENTRIES, kind="set")
    """Options that instances cannot override. With `definitionRevision`, instances cannot be pinned."""
    minimum_revision: Annotated[Counter, pydantic.Field(ge=1)] | None = None
    """The oldest revision that instances may keep. Instances with an older one follow the rollout even if they are pinned,
    paused or rolled back, and none goes back beyond it. Default: 1."""
    options: list[FurtherOption] | None = base.optional_list(limits.ENTRIES, kind="set")
    """Options that `spec.stack` of an object may state besides the usual ones."""
    account: DefinerAccount | None = None
    """The ServiceAccount that the objects of all instances are written as, so that developers need no rights on these. The
    operator may only act as accounts that its flag `--definition-accounts` lists. Default: each instance may do what a
    Stack in its namespace may do."""
    boundary: Literal["Namespace", "Cluster"] | None = None
    """With `account`, where the objects of an instance may be. `Namespace`: in the namespace of the instance. `Cluster`:
    wherever the account may write. Default: `Namespace`."""
    deletion_policy: Literal["Delete", "Orphan"] | None = None
    """What the deletion of the definition does. `Delete`: it waits until no object of the kind exists, then the kind is deleted.
    `Orphan`: the kind and its objects stay, without an operator and its finalizers, and so do the objects of these. Default:
    `Delete`."""
    roles: Literal["Aggregate"] | None = None
    """`Aggregate`: the operator makes the ClusterRoles `<plural>-view` and `<plural>-edit`, which belong to the standard roles
    `view` and `edit`, so that who may edit a namespace may write objects of the kind there. Default: no roles."""
    rollout: Rollout | None = None


class ReportedInstance(ApiModel):
    """An instance that a rollout reports."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    message: str
    """The reason."""


class RolloutStatus(ApiModel):
    """How far the newest revision is."""

    revision: Counter
    """The revision that is rolled out."""
    completed: Counter | None = None
    """The last revision that completed its rollout. New instances have it."""
    phase: Literal["Progressing", "Paused", "Stopped", "RollingBack", "RolledBack", "Complete"]
    """`Stopped`: more instances failed than `maxFailed` allows. A new revision, `hearth.dev/rollout-restart` or
    `hearth.dev/rollout-force` continues it."""
    wave: str | None = None
    """The present wave."""
    updated: Counter
    """Instances that have the revision."""
    ready: Counter
    """Those of them that are ready."""
    failed: Counter
    """Those of them that failed."""
    waiting: Counter
    """Instances that follow later."""
    held: Counter
    """Instances that stay as they are: paused, suspended, stopped, pinned, rolled back by their users, or kept from the
    revision by what belongs to their users, for example parameters that do not fit, or a quota."""
    ready_since: Timestamp | None = None
    """Since when all instances of the wave are ready, during the pause after it."""
    restart: str | None = pydantic.Field(default=None, max_length=253)
    """The last handled value of `hearth.dev/rollout-restart`."""
    instances: list[ReportedInstance] | None = base.optional_list(20)
    """The first 20 instances that failed."""
    held_instances: list[ReportedInstance] | None = base.optional_list(20)
    """The first 20 instances that stay as they are, each with the reason."""
    forced: Counter | None = None
    """The revision whose rollout a user forced, so that failures do not stop it."""


class StackDefinitionStatus(ApiModel):
    """The observed state."""

    observed_generation: Annotated[int, pydantic.Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """The generation of the spec that this status describes."""
    revision: Counter | None = None
    """The number of the newest accepted revision."""
    revision_namespace: str | None = pydantic.Field(default=None, max_length=63)
    """The namespace of its revisions: that of the operator. ControllerRevisions in any other one are none of them."""
    instances: Counter | None = None
    """Number of objects of the kind."""
    updated: Counter | None = None
    """Number of objects that have the newest revision."""
    rollout: RolloutStatus | None = None
    roles: list[str] | None = base.optional_list(4)
    """The ClusterRoles that were made for the kind."""
    conditions: list[Condition] | None = pydantic.Field(default=None, json_schema_extra=base.LIST_BY_TYPE)
    """`Ready`: the kind is served, and all its objects have the newest revision. `Reconciling`: the operator is working on
    it. `Stalled`: it needs a change of the definition or of what the message names."""


class StackDefinition(ApiModel):
    """A kind of one's own: each of its objects, an instance, is converged as a Stack with this template."""

    model_config = base.validated(NAME_OF_DEFINITION)

    spec: StackDefinitionSpec
    status: StackDefinitionStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)


class InstanceStatus(StackStatus):
    """The observed state, as that of a Stack."""

    definition_revision: Counter | None = None
    """The revision of the StackDefinition that the objects of this instance have."""
    observed_definition_revision: Counter | None = None
    """The revision of the StackDefinition that this status describes."""
