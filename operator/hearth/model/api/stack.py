"""The API as pydantic models: the fields of a Stack. Source of the CRD, see `hearth.model.api.crd`.

A field enters this module together with its meaning, so no field is accepted and ignored. `kubectl explain` prints the
docstrings and each `description`. Must not be used to parse Stacks in a reconcile: the API server has validated them,
and the engine reads plain dictionaries.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits, names, phases, tenancy
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter
from hearth.model.api.stack_parts import (
    Environment,
    ExternalRef,
    KubeConfig,
    ParametersSource,
    TemplateReference,
    Window,
)
from hearth.model.api.stack_status import StackStatus
from hearth.model.text import times

NAME_RULE = "^[a-z][a-zA-Z0-9]{0,39}$"
"""`names.RESOURCE_NAME` for CEL's `matches`, which searches for a substring unless the pattern is anchored."""
REQUIRED_RULE = r"^[a-z][a-zA-Z0-9]{0,39}(\[([a-z0-9-]{1,40}|\*)\])?$"
"""A resource, a member of a collection (`workers[a]`), or all of its members (`workers[*]`)."""
RESERVED_NAMES = (
    *("conditions", "index", "item", "params", "stack"),
    *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
    *("namespace", "null", "package", "return", "true", "var", "void", "while"),
)
"""Names with a meaning in expressions: first Hearth's, then CEL's. No resource can use them."""

Expression: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=limits.EXPRESSION_LENGTH)]
RequiredName: TypeAlias = Annotated[str, pydantic.Field(max_length=82, pattern=REQUIRED_RULE)]
DURATION_RULE: JsonDict = {
    "rule": f"self.matches('{times.DURATION}')".replace("\\", "\\\\"),
    "message": "must be a duration, e.g. 90s, 5m or 1h30m",
}
"""Needed in addition to the pattern, because the pattern's error shows only a regular expression."""
Duration: TypeAlias = Annotated[
    str,
    pydantic.Field(
        max_length=32,
        pattern=times.DURATION,
        json_schema_extra={"x-kubernetes-validations": [DURATION_RULE]},
    ),
]
LIFETIME_RULE: JsonDict = {
    "rule": f"!self.matches('{times.DURATION}') || duration(self) >= duration('10s') && duration(self) <= duration('87600h')".replace(
        "\\", "\\\\"
    ),
    "message": "must be between 10s and 87600h (ten years)",
}
"""A Stack must live long enough to be changed, and CEL cannot compare durations of centuries."""
Lifetime: TypeAlias = Annotated[
    str,
    pydantic.Field(
        max_length=32,
        pattern=times.DURATION,
        json_schema_extra={"x-kubernetes-validations": [DURATION_RULE, LIFETIME_RULE]},
    ),
]
ServiceAccountName: TypeAlias = Annotated[
    str, pydantic.Field(min_length=1, max_length=limits.NAME_LENGTH, pattern=f"^{tenancy.ACCOUNT_NAME}$")
]
FieldPath: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=limits.FIELD_LENGTH)]
NUMBER_OR_SHARE: JsonDict = {"x-kubernetes-int-or-string": True, "minimum": 1, "pattern": "^([1-9][0-9]?|100)%$"}
PRESERVE: JsonDict = {"x-kubernetes-preserve-unknown-fields": True}


def named_map(what: str, *, limit: int, reserved: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of a map with names as keys: the maximum size, and the format of a name."""
    rules = [
        {
            "rule": f"self.all(name, name.matches('{NAME_RULE}'))",
            "message": f"the name of {what} must start with a lower-case letter, followed by letters and "
            f"digits, at most 40 characters, e.g. redisMaster",
        }
    ]
    if reserved:
        listed = ", ".join(f"'{name}'" for name in reserved)
        rules.append(
            {
                # One lookup for each word. A loop over the names costs the API server more than the rest of a write.
                "rule": f"[{listed}].all(word, !(word in self))",
                "message": f"{what} must not be a reserved word of expressions: {', '.join(reserved)}",
            }
        )
    return {"maxProperties": limit, "x-kubernetes-validations": rules}


CONDITION_TYPES: JsonDict = {
    "maxProperties": limits.STATUS_CONDITIONS,
    "x-kubernetes-validations": [
        {
            "rule": f"self.all(type, type.matches('^{names.CONDITION_TYPE}$'))",
            "message": "the type of a condition must start with a capital letter, followed by letters and digits, at most "
            "40 characters, e.g. Reachable",
        },
        {
            "rule": f"[{', '.join(repr(str(each)) for each in phases.RESERVED_CONDITIONS)}].all(word, !(word in self))",
            "message": "the operator sets some conditions, e.g. Ready and Paused; rename yours",
        },
    ],
}
STACK_NAME_RULE: JsonDict = {
    "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": "a Stack's name is part of its children's names, so it must start with a letter and contain no dots",
}


class Parameter(ApiModel):
    """One parameter, described with keywords of JSON Schema.

    Other keywords are allowed as well if they constrain a single value: `minimum`, `maximum`, `multipleOf`, `pattern`,
    `minLength`, `maxLength`, `format`, `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`, `required`,
    `additionalProperties`, `const` and others.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    type: Literal["string", "integer", "number", "boolean", "array", "object"] | None = None
    """Type of the value, e.g. `integer`. Default: any type, and expressions that use the parameter are not
    type-checked."""
    description: str | None = None
    """Description of the parameter for the users who set it."""
    default: Any = None
    """Value to use if the parameter is not set. A parameter without a default is required."""
    enum: list[Any] | None = pydantic.Field(default=None, min_length=1)
    """Allowed values, e.g. `[dev, production]`."""
    sensitive: bool | None = None
    """Whether the value is secret. Revisions, statuses, Events and logs never contain secret values, and an output that
    uses one shows `(sensitive)`. Default: true for values from a Secret, otherwise false."""


class Manifest(ApiModel):
    """The desired object, as for `kubectl apply`. Any value can contain `${…}` expressions.

    `metadata.name` defaults to `<stack>-<resource>`, and `metadata.namespace` to the namespace of the Stack. A value
    that is a single expression, e.g. `${params.replicas}`, keeps the type of its result. Keys with a null value are
    removed.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    api_version: str = pydantic.Field(min_length=1)
    """Group and version of the child's kind, e.g. `apps/v1`. Expressions can use parameters, but no other resources."""
    kind: str = pydantic.Field(min_length=1)
    """Kind of the child, e.g. `Deployment`. Expressions can use parameters, but no other resources."""


class ReplacePolicy(ApiModel):
    """How to update a child that cannot be changed in place."""

    replace: Literal["CreateFirst", "DeleteFirst", "KeepClaims", "Never"] | None = None
    """`CreateFirst`: create a new object, update the resources that use it, then delete the old object. `DeleteFirst`:
    delete the old object, then create the new one; required if the manifest sets `metadata.name`. `KeepClaims`, only
    for a StatefulSet: enlarge its claims, delete the StatefulSet but keep its Pods and claims, then recreate it under
    the same name. `Never`: the change fails. Default: `CreateFirst` for kinds that store no data (Deployment,
    ConfigMap, Service and others), but `DeleteFirst` if the Pods mount a claim or `spec.strategy` is `Recreate`;
    `Never` for all other kinds."""
    replace_on: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields that require a new object when they change, even though the API server accepts the change in place, e.g.
    `spec.storageClassName`. A change to these fields uses `CreateFirst` for every kind unless `replace` is set. If the
    manifest sets `metadata.name`, `replace: DeleteFirst` is required."""


class RollingPolicy(ApiModel):
    """How the members of a collection change in batches. Default: all members change at the same time."""

    max_batch_size: Any = pydantic.Field(default=1, json_schema_extra=NUMBER_OR_SHARE)
    """Maximum number of members that change at the same time: a number, or a percentage of all members, e.g. `25%`,
    rounded down but at least 1. Default: 1."""
    min_ready: Counter | None = None
    """Minimum number of members that stay ready during the update. Members that are not ready can always be changed.
    Default: 0."""
    pause: Duration | None = None
    """Pause between two batches, e.g. `30s`. At most one hour. Default: no pause."""


class UpdatePolicy(ReplacePolicy):
    """How to update the child, or the members of a collection."""

    rolling: RollingPolicy | None = None
    max_removed: Any = pydantic.Field(
        default=None,
        json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": "^([1-9][0-9]?|100)%$"},
    )
    """How many members of a collection can be removed automatically within ten minutes: a number, or a percentage of
    the members, rounded down. If more members disappear, their objects are kept until you set the annotation
    `hearth.dev/cleanup`. With a percentage and fewer than four members, the limit is one member. Default: `50%` if
    `forEach` reads an external object, otherwise no limit."""


class RunRetry(ApiModel):
    """When to rerun failed work, e.g. a Job."""

    limit: Counter | None = None
    """How many times the operator reruns failed work automatically. After that, it waits for the annotation
    `hearth.dev/retry` or for a change. 0 means never. Default: no limit. `spec.retry.limit` decides separately when the
    work counts as failed."""
    max_backoff: Duration | None = None
    """Maximum delay between two runs, e.g. `10m`. The first delay is 30 seconds. Default: `spec.retry.maxBackoff`."""


Completion: TypeAlias = Literal["Once", "Rerun"]


ONE_SOURCE: JsonDict = {
    "rule": "has(self.manifest) != has(self.externalRef)",
    "message": "set exactly one of manifest and externalRef",
}


class Resource(ApiModel):
    """One named entry of a template. It describes one object, called its child. With `forEach` it describes several
    objects, and with `externalRef`, objects that exist independently of the Stack.
    """

    model_config = base.validated(ONE_SOURCE)

    manifest: Manifest | None = None
    external_ref: ExternalRef | None = None
    """An object, or with a selector a list of objects, that the Stack only reads. Other resources and outputs read it
    by the name of this resource, like the object of any other resource. It can only be combined with `when`,
    `readyWhen` and `optional`."""
    optional: bool | None = None
    """Whether a missing `externalRef` object counts as ready. The object then has no fields: `has(gateway.status)` is
    false, and `gateway.?status` has no value. Default: false, so resources and outputs that read the object wait for
    it."""
    for_each: Expression | None = None
    """An expression on `params`, `conditions`, `values` and `stack`, without `${}`, that returns a list or a map, e.g.
    `params.zones`. Each element becomes a member: a resource `workers[<key>]` with its own object. In the manifest,
    `item` is the element, `index` its position and `key` its key. For other resources, `workers` is the list of the
    members' objects."""
    key: Expression | None = None
    """An expression, without `${}`, that returns the key of a member, e.g. `item.name`. Keys must be unique and have at
    most 40 lowercase letters, digits and dashes. Default: the key in the map, or the position in the list."""
    depends_on: list[RequiredName] | None = base.optional_list(limits.DEPENDENCIES, kind="set")
    """Resources that must be ready before this one is applied, in addition to the resources in its expressions. For a
    collection: all members (`workers`) or one member (`workers[a]`). A resource that is disabled by its `when` counts
    as ready."""
    when: Expression | None = None
    """An expression on `params`, `conditions` and `values`, without `${}`, e.g. `params.debug`. If it is false, the
    resource is disabled. Default: always enabled."""
    ready_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`, that must all be true for the child to be ready. They replace the built-in health
    rule of its kind. The name of the resource refers to the child: `web.status.readyReplicas >= 1`."""
    failed_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`. The child has failed as soon as one of them is true: `job.status.failed > 3`."""
    update_policy: UpdatePolicy | None = None
    """How to update a child that cannot be changed in place, and how the members of a collection change."""
    drift_policy: Literal["Repair", "Report", "Ignore"] | None = None
    """What happens when another field manager changes a field of the manifest. `Repair`: the operator restores the
    field. `Report`: the operator keeps the change and sets the condition `Drifted`. `Ignore`: the operator keeps the
    change. A kept change stays until the manifest has a new value. Default: `Repair`."""
    ignore_fields: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields that the operator applies once and then leaves to other field managers until the manifest has a new value.
    Examples: `spec.replicas`, `spec.template.spec.containers[name="web"].image`,
    `metadata.annotations[example.com/owner]`."""
    deletion_policy: Literal["Delete", "Retain"] | None = None
    """What happens to the child when it is no longer needed, because the resource was removed, the child was replaced,
    or the Stack is deleted. `Delete`: the operator deletes the child. `Retain`: the child is kept unchanged and no
    longer managed. Default: `Delete`."""
    completion: Completion | None = None
    """What happens when an object that succeeded no longer exists. `Once`: it stays finished, and is recreated only if
    its definition changes or you set the annotation `hearth.dev/retry`. `Rerun`: it is recreated. Default: `Once` for
    kinds that delete themselves when they finish (a Job with `ttlSecondsAfterFinished`, a Pod that runs to completion,
    a Workflow, a PipelineRun and others), otherwise `Rerun`."""
    retry: RunRetry | None = None
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with the child's name already exists and belongs to no Stack. `Adopt`: the operator
    takes over the object and applies the manifest. It never deletes an adopted object, even when the object is no
    longer needed. `Refuse`: the resource fails. Default: `spec.adoptionPolicy`."""


class Output(ApiModel):
    """A value in `status.outputs`."""

    value: Any
    """The value. It can contain `${…}` expressions anywhere: `http://${web.metadata.name}`."""
    when: Expression | None = None
    """An expression on `params`, `conditions` and `values`, without `${}`. If it is false, the output is disabled.
    Default: always enabled."""


class StatusCondition(ApiModel):
    """A condition in `status.conditions`."""

    status: Expression
    """An expression, without `${}`, that returns true or false, e.g. `web.status.availableReplicas > 0`. The condition
    is Unknown until the values that the expression reads exist."""
    reason: Annotated[str, pydantic.Field(min_length=1, max_length=limits.EXPRESSION_LENGTH)] | None = None
    """One word in CamelCase. It can contain `${…}` expressions: `${web.spec.paused ? 'Paused' : 'Running'}`. Default: the
    type of the condition, or `Not` and the type if the status is False."""
    message: Annotated[str, pydantic.Field(max_length=limits.EXPRESSION_LENGTH)] | None = None
    """A text for people. It can contain `${…}` expressions: `${web.status.availableReplicas} Pods are available`. At most
    1,024 characters are shown. Default: empty."""


class Template(ApiModel):
    """The desired resources. `${…}` contains a CEL expression on `params`, `conditions`, `values`, `stack` and the
    resources, e.g. `${params.replicas}`; `$${` is a literal `${`.
    """

    # One document, not a merge of several field managers. Without this, `managedFields` would double the object, and
    # every status write would process them.
    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    parameters: dict[str, Parameter] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a parameter", limit=limits.ENTRIES)
    )
    """Parameters of the template, by name. `spec.parameters` sets them, and expressions read them as `params.<name>`.
    """
    conditions: dict[str, Expression] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a condition", limit=limits.ENTRIES)
    )
    """Expressions on `params` and `values`, without `${}`, that return true or false: `params.environment ==
    'production'`. Other expressions read them as `conditions.<name>`."""
    values: dict[str, Expression] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a value", limit=limits.ENTRIES)
    )
    """Named expressions on `params`, `conditions` and other values, without `${}`: `params.registry + '/web'`. They can
    return any type, and cannot read resources. Other expressions read them as `values.<name>`. A template with values
    cannot have a resource named `values`."""
    resources: dict[str, Resource] = pydantic.Field(
        json_schema_extra=named_map("a resource", limit=limits.INLINE_RESOURCES, reserved=RESERVED_NAMES)
    )
    """The resources, by name. Their order does not matter: a resource is applied after the resources that its
    expressions use."""
    outputs: dict[str, Output] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("an output", limit=limits.ENTRIES)
    )
    """Values to publish in `status.outputs`, for users and for other Stacks."""
    status_conditions: dict[str, StatusCondition] | None = pydantic.Field(
        default=None, json_schema_extra=CONDITION_TYPES
    )
    """Conditions to publish in `status.conditions`, by type, e.g. for `kubectl wait --for=condition=Reachable`. They do
    not affect the condition `Ready`."""


ONE_ROLLBACK: JsonDict = {
    "rule": "!(has(self.toRevision) && has(self.toSnapshot))",
    "message": "toRevision and toSnapshot are mutually exclusive; remove one of them",
}


class Rollback(ApiModel):
    """When to roll back, and to which revision."""

    model_config = base.validated(ONE_ROLLBACK)

    on_failure: bool | None = None
    """Whether to roll back automatically when a definition fails: to the last completed revision, or to an empty Stack
    if the first definition failed. The operator retries the failed definition when it changes or when you set the
    annotation `hearth.dev/retry`. Default: false."""
    to_revision: Counter | None = None
    """The revision to roll back to, at any time and from any state. 0 means the last completed revision that differs
    from the spec. A later change to the template or its parameters overrides it. Default: no rollback."""
    to_snapshot: Annotated[str, pydantic.Field(min_length=1, max_length=limits.NAME_LENGTH)] | None = None
    """The StackSnapshot to restore, in the namespace of the Stack: its revision, and the data of its volumes. Each
    PersistentVolumeClaim is replaced with a new one that has the data of its VolumeSnapshot. All workloads are
    suspended in the meantime. Restored once. A later change to the template or its parameters ends the restore."""


class Retry(ApiModel):
    """How to retry failed resources. The operator never stops retrying."""

    limit: Counter | None = None
    """Number of failures of one resource after which the Stack reports Failed and `rollback.onFailure` applies. Retries
    continue. Default: 5."""
    max_backoff: Duration | None = None
    """Maximum delay between two attempts, e.g. `90s` or `5m`. Default: the value of the operator's flag
    `--max-backoff`, which defaults to 5m."""


class Healing(ApiModel):
    """What happens to objects that are marked unhealthy (see HealthMark) or that failed permanently."""

    policy: Literal["Automatic", "OnUpdate"] | None = None
    """`Automatic`: the operator replaces such an object immediately, and updates the resources that use its values.
    `OnUpdate`: the operator replaces it at the next change to the definition or the next requested retry. Default:
    `Automatic`."""
    max_unhealthy: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """The operator only replaces objects while at most this many resources are unhealthy, so that a wrong health rule
    cannot take down everything. A number, or a percentage of the Stack's resources, e.g. `40%`, rounded down but at
    least 1. Default: no limit."""


class ChangeWindow(Window):
    """Times when a change to the template, the parameters, or the objects that contain them can start. Outside of the
    window, the operator keeps the running revision in its desired state, and the change waits. A change that has
    started continues after the window ends. The following do not wait: the first creation, rollbacks, changes to other
    fields of the spec, changed values of sensitive parameters, and the deletion of the Stack. Default: at any time.
    """


class ChangeApproval(ApiModel):
    """Which changes need an approval. A change of the template, the parameters, or the objects that contain them waits
    until a user approves its StackPlan, and so do the first creation, a rollback that you request, and the change that
    switches approvals off or lets more changes pass. The following do not wait: repairs, automatic rollbacks, changes to
    other fields of the spec, and the deletion of the Stack.
    """

    required: Literal["Never", "Risky", "Always"]
    """`Always`: every change needs an approval. `Risky`: only a change with a step that deletes or replaces an object,
    cannot be undone, or acts on an object in another namespace or of a kind that holds data. `Never`: no change does."""
    separate_approver: bool | None = None
    """Whether users who wrote a change cannot approve it. The change that switches this off still needs another
    approver. While the operator's admission webhook does not respond, the spec cannot be changed. Default: false."""
    valid_for: Duration | None = None
    """How long a StackPlan can be approved, and how long an approval counts if the change has not begun, e.g. `8h`.
    Default: `24h`."""


class StackSpec(ApiModel):
    """Desired state: a template and its parameters."""

    model_config = base.validated(
        {
            "rule": "[has(self.template), has(self.templateRef), has(self.templateRefs)].exists_one(each, each)",
            "message": "set exactly one of template, templateRef and templateRefs",
        },
        {
            "rule": "!has(self.approval) || self.approval.required == 'Never' || !has(self.kubeConfig)",
            "message": "approval cannot be combined with kubeConfig, because objects in another cluster cannot be planned",
        },
        {
            "rule": (
                "!has(self.approval) || !has(self.approval.separateApprover) || !self.approval.separateApprover || "
                "!(has(self.templateRef) || has(self.templateRefs) || has(self.parametersFrom))"
            ),
            "message": (
                "approval.separateApprover cannot be combined with templateRef, templateRefs or parametersFrom, because the "
                "author of a change in another object is unknown"
            ),
        },
    )

    template: Template | None = None
    template_ref: TemplateReference | None = None
    template_refs: list[TemplateReference] | None = base.optional_list(limits.TEMPLATE_SOURCES, least=1)
    """Several objects that each contain a part of the template, for a template that is too large for a single object.
    Their parameters, conditions, values, resources and outputs are merged. A name that occurs in two parts is an error."""
    parameters: dict[str, Any] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.ENTRIES}
    )
    """Values of the template's parameters, by name: `{replicas: 3}`. A parameter that is set neither here nor in
    `parametersFrom` has its default value."""
    parameters_from: list[ParametersSource] | None = base.optional_list(limits.RULES)
    """ConfigMaps and Secrets that contain more parameter values. If several of them set a parameter, the last one wins;
    `parameters` overrides all of them. When one of these objects changes, the Stack is updated."""
    environment: Environment | None = None
    paused: bool | None = None
    """While true, the operator neither writes nor deletes children, even if the Stack is deleted. The status shows the
    pending steps. Changes to the spec take effect afterward. Default: false."""
    protected: bool | None = None
    """While true, the Stack cannot be deleted: the API server rejects the request. If a deletion was already accepted,
    the operator deletes nothing until this is false. A Stack that contains a protected nested Stack cannot be deleted
    either. Default: false."""
    expires_after: Lifetime | None = None
    """Lifetime of the Stack, e.g. `72h`. The operator deletes the Stack when this time has passed since its creation.
    The condition `Expiring` and an Event warn in advance, by one hour or by one tenth of the lifetime, whichever is
    longer. A protected Stack does not expire. A paused Stack is not deleted until it is no longer paused. Between `10s`
    and ten years. Default: the Stack does not expire."""
    window: ChangeWindow | None = None
    approval: ChangeApproval | None = None
    max_removed: Any = pydantic.Field(
        default=None,
        json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": "^([1-9][0-9]?|100)%$"},
    )
    """How many resources a change of the Stack can remove without your consent: a number, or a percentage of the
    resources before the change, rounded down. If a change removes more, no object of a removed resource is deleted until you set the
    annotation `hearth.dev/cleanup`. With a percentage and fewer than four resources, the limit is one resource.
    Rollbacks, the deletion of the Stack, and collections with `updatePolicy.maxRemoved` are not limited. Default: no
    limit."""
    suspended: bool | None = None
    """While true, workloads are stopped, dependents first: Deployments, StatefulSets and ReplicaSets are scaled to
    zero, and Jobs, CronJobs, nested Stacks and other kinds that can be suspended are suspended. The operator writes
    nothing else. Changes to the spec and rollback requests take effect afterward. When it becomes false, all workloads
    are restored in order. Default: false."""
    rollback: Rollback | None = None
    retry: Retry | None = None
    healing: Healing | None = None
    timeout: Duration | None = None
    """Maximum time to complete a definition, e.g. `90s` or `1h30m`. A definition that takes longer fails. The same
    limit applies to suspending and resuming. Default: no limit."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the Stack. The operator uses its permissions to write, read and delete
    children, and to read templates and parameters from other objects. Children can be in any namespace where the
    account has permissions. Default: depends on the operator's flag `--tenancy`, which by default limits children to
    the namespace of the Stack."""
    kube_config: KubeConfig | None = None
    """Kubeconfig of another cluster to create the children in, with the permissions of that kubeconfig. The Stack, its
    revisions and its Events stay in this cluster. The operator follows changes to the Secret. A Stack with children
    cannot move to another API server. Default: the cluster of the Stack."""
    revision_history_limit: Annotated[Counter, pydantic.Field(le=limits.REVISION_HISTORY)] | None = None
    """Number of earlier revisions to keep for rollbacks, in addition to revisions that are still in use. At most 100.
    Default: 10."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the children when the Stack is deleted. `Delete`: the operator deletes them, except for resources
    with `deletionPolicy: Retain`. `Abandon`: all children are kept unchanged and no longer managed. Default: `Delete`.
    """
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with a child's name already exists and belongs to no Stack. `adoptionPolicy` of a
    resource overrides it. `Adopt`: the operator takes over the object. `Refuse`: the object stays unchanged, and the
    resource fails. Default: `Refuse`."""


class Stack(ApiModel):
    """A template and its parameters. The operator creates the objects that the template describes, called children, and
    keeps them in the desired state, even when something fails, drifts or is deleted.
    """

    model_config = base.validated(STACK_NAME_RULE)

    spec: StackSpec
    status: StackStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)


class StackTemplateSpec(ApiModel):
    """The template."""

    template: Template
    """The template, as in a Stack. Stacks that reference it set its parameters."""


class StackTemplate(ApiModel):
    """A template that Stacks in all namespaces can use: `spec.templateRef: {kind: StackTemplate, name: …}`. Every Stack
    can read it, and Stacks that use it follow its changes.
    """

    spec: StackTemplateSpec
