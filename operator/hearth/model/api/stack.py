"""The API as pydantic models: the fields of a Stack. Source of the CRD, see `hearth.model.api.crd`.

A field enters this module together with its meaning, so no field is accepted and ignored. `kubectl explain` prints the
docstrings and each `description`. Must not be used to parse Stacks in a reconcile: the API server has validated them,
and the engine reads plain dictionaries.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits, tenancy
from hearth.model.api import base
from hearth.model.api.base import ApiModel, Counter
from hearth.model.api.stack_parts import Environment, ExternalRef, KubeConfig, ParametersSource, TemplateReference
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
"""Names with a meaning in expressions: those of Hearth, then those of CEL. No resource may have one of them."""

Expression: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=limits.EXPRESSION_LENGTH)]
RequiredName: TypeAlias = Annotated[str, pydantic.Field(max_length=82, pattern=REQUIRED_RULE)]
DURATION_RULE: JsonDict = {
    "rule": f"self.matches('{times.DURATION}')".replace("\\", "\\\\"),
    "message": "must be a duration, e.g. 90s, 5m or 1h30m",
}
"""Beside the pattern, whose error shows a regular expression alone."""
Duration: TypeAlias = Annotated[
    str,
    pydantic.Field(
        max_length=32,
        pattern=times.DURATION,
        json_schema_extra={"x-kubernetes-validations": [DURATION_RULE]},
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


STACK_NAME_RULE: JsonDict = {
    "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": "a Stack's name is part of its children's names, so it must start with a letter and contain no dots",
}


class Parameter(ApiModel):
    """One parameter, described by keywords of JSON Schema.

    All keywords that constrain one value are allowed besides those listed here: `minimum`, `maximum`, `multipleOf`,
    `pattern`, `minLength`, `maxLength`, `format`, `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`,
    `required`, `additionalProperties`, `const` and others.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    type: Literal["string", "integer", "number", "boolean", "array", "object"] | None = None
    """Type of the value. Default: any value is allowed, and expressions that use it are not checked for types."""
    description: str | None = None
    """Purpose of the parameter, for the users who set it."""
    default: Any = None
    """Value if `spec.parameters` has none. A parameter without a default is required."""
    enum: list[Any] | None = pydantic.Field(default=None, min_length=1)
    """The allowed values."""
    sensitive: bool | None = None
    """Whether the value is secret. No revision, status, Event or log contains a secret value, and an output that uses
    it shows `(sensitive)`. Default: true for values from a Secret."""


class Manifest(ApiModel):
    """The desired object, as for `kubectl apply`, with `${…}` anywhere in its values.

    `metadata.name` defaults to `<stack>-<resource>`, and `metadata.namespace` to the namespace of the Stack. A value
    that consists of one expression has the type of the result; null removes its key.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    api_version: str = pydantic.Field(min_length=1)
    """Group and version of the child's kind, e.g. `apps/v1`. May use parameters, but no other resource."""
    kind: str = pydantic.Field(min_length=1)
    """Kind of the child, e.g. `Deployment`. May use parameters, but no other resource."""


class ReplacePolicy(ApiModel):
    """How to update a child that cannot be changed in place."""

    replace: Literal["CreateFirst", "DeleteFirst", "KeepClaims", "Never"] | None = None
    """`CreateFirst`: the operator creates a new object, updates the resources that use it, and deletes the old object
    last. `DeleteFirst`: the operator deletes the old object first; required if the manifest sets `metadata.name`.
    `KeepClaims`, for a StatefulSet: the operator enlarges its claims, deletes the StatefulSet without its Pods and
    claims, and creates it again under its name. `Never`: the change fails. Default: `CreateFirst` for kinds that store
    no data (Deployment, ConfigMap, Service and others), but `DeleteFirst` if the Pods mount a claim or `spec.strategy`
    is `Recreate`; `Never` for all other kinds."""
    replace_on: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields whose change requires a new object although the API server accepts it, e.g. `spec.storageClassName`. These
    fields use `CreateFirst` for every kind unless `replace` says otherwise. If the manifest sets `metadata.name`,
    `replace: DeleteFirst` is required."""


class RollingPolicy(ApiModel):
    """How the members of a collection change one after another. Without it, all change at the same time."""

    max_batch_size: Any = pydantic.Field(default=1, json_schema_extra=NUMBER_OR_SHARE)
    """How many members change at the same time: a number, or a percentage of all members, for example `25%`, rounded
    down and at least 1."""
    min_ready: Counter | None = None
    """How many members stay ready during the update. A member that is not ready may always be changed. Default: 0."""
    pause: Duration | None = None
    """The time between two batches, for example `30s`; an hour at most. Default: no pause."""


class UpdatePolicy(ReplacePolicy):
    """How the child, or the members of a collection, are changed."""

    rolling: RollingPolicy | None = None
    max_removed: Any = pydantic.Field(
        default=None,
        json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": "^([1-9][0-9]?|100)%$"},
    )
    """How many members of the collection may go by themselves within ten minutes: a number, or a percentage of the members,
    rounded down. More than that wait for the annotation `hearth.dev/cleanup`; their objects stay until then. With fewer
    than four members, none of several go at once. Default: `50%` if `forEach` reads an external object, else no limit."""


class RunRetry(ApiModel):
    """When to run failed work again, for example a Job."""

    limit: Counter | None = None
    """How many times the operator runs failed work again by itself. After that, it waits for the annotation
    `hearth.dev/retry` or for a change. 0: never. Default: no limit; `spec.retry.limit` decides when the work counts as
    failed.
    """
    max_backoff: Duration | None = None
    """Maximum delay between two runs, e.g. `10m`. The first one is 30 seconds. Default: `spec.retry.maxBackoff`."""


Completion: TypeAlias = Literal["Once", "Rerun"]


ONE_SOURCE: JsonDict = {
    "rule": "has(self.manifest) != has(self.externalRef)",
    "message": "exactly one of manifest and externalRef must be given",
}


class Resource(ApiModel):
    """One entry of a template, identified by its name. It describes one object, its child, or with `forEach` several;
    with `externalRef` it is an object that exists without the Stack.
    """

    model_config = base.validated(ONE_SOURCE)

    manifest: Manifest | None = None
    external_ref: ExternalRef | None = None
    """An object, or by a selector a list of objects, that other resources and outputs read by the name of the resource,
    as the object of any resource. It may have `when`, `readyWhen` and `optional` and nothing else."""
    optional: bool | None = None
    """Whether an object of `externalRef` that does not exist counts as ready and has no fields: `has(gateway.status)` is
    false, and `gateway.?status` has no value. Default: false; what reads it waits for it."""
    for_each: Expression | None = None
    """An expression on `params`, `conditions` and `stack`, without `${}`, that gives a list or a map. Each element is one
    member: a resource `workers[<key>]` with an object of its own. The expressions of the manifest read the element as `item`,
    its position as `index`, its key as `key`. Other resources read `workers` as the list of the members' objects."""
    key: Expression | None = None
    """An expression that gives the key of a member, without `${}`: `item.name`. A key is unique, and has at most 40 lower-case
    letters, digits and dashes. Without it: the key in the map, or the position in the list."""
    depends_on: list[RequiredName] | None = base.optional_list(limits.DEPENDENCIES, kind="set")
    """Resources that must be ready before this one is applied, in addition to those in its expressions; of a collection all
    members (`workers`) or one (`workers[a]`). A resource that is disabled by its `when` counts as ready."""
    when: Expression | None = None
    """An expression on `params` and `conditions`, without `${}`. If it is false, the resource is disabled."""
    ready_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`, that must all be true for the child to be ready. They replace the built-in rule of
    its kind. The name of the resource denotes the child: `web.status.readyReplicas >= 1`."""
    failed_when: list[Expression] | None = base.optional_list(limits.RULES, least=1)
    """Expressions, without `${}`. The child has failed as soon as one of them is true: `job.status.failed > 3`."""
    update_policy: UpdatePolicy | None = None
    """How to update a child that cannot be changed in place."""
    drift_policy: Literal["Repair", "Report", "Ignore"] | None = None
    """Reaction to a change of a field of the manifest by another field manager. `Repair`: the operator restores the
    field. `Report`: the operator keeps the change and sets the condition `Drifted`. `Ignore`: the operator keeps the
    change. A kept change stays until the manifest has a new value. Default: `Repair`."""
    ignore_fields: list[FieldPath] | None = base.optional_list(limits.RULES, least=1, kind="set")
    """Fields that the operator applies once and then leaves to other field managers until the manifest has a new value:
    `spec.replicas`, `spec.template.spec.containers[name="web"].image`, `metadata.annotations[example.com/owner]`."""
    deletion_policy: Literal["Delete", "Retain"] | None = None
    """What happens to an obsolete child: its resource was removed, the child was replaced, or the Stack is deleted.
    `Delete`: the operator deletes the child. `Retain`: the child stays unchanged, without an owner. Default:
    `Delete`."""
    completion: Completion | None = None
    """What happens when an object that succeeded is gone. `Once`: it stays finished, and is made again only if its
    definition changes or on the annotation `hearth.dev/retry`. `Rerun`: it is made again. Default: `Once` for what goes
    by itself (a Job with `ttlSecondsAfterFinished`, a Pod that runs to completion, a Workflow, a PipelineRun and others),
    `Rerun` for all else."""
    retry: RunRetry | None = None
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object of that name exists and belongs to no Stack. `Adopt`: the operator adopts it and
    applies the manifest; an adopted object is never deleted once it is obsolete. `Refuse`: the resource fails. Default:
    `spec.adoptionPolicy`."""


class Output(ApiModel):
    """A value for `status.outputs`."""

    value: Any
    """The value, with `${…}` anywhere in it."""
    when: Expression | None = None
    """An expression on `params` and `conditions`, without `${}`. If it is false, the output is disabled."""


class Template(ApiModel):
    """The desired resources. Expressions are CEL in `${…}` on `params`, `conditions`, `stack` and the resources; `$${`
    is a literal `${`.
    """

    # One document, not a merge of several field managers. Without this, `managedFields` would double the object, and
    # every status write would process them.
    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    parameters: dict[str, Parameter] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a parameter", limit=limits.ENTRIES)
    )
    """Parameters that `spec.parameters` may set. Expressions read them as `params.<name>`."""
    conditions: dict[str, Expression] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a condition", limit=limits.ENTRIES)
    )
    """Expressions on `params`, without `${}`, whose result is true or false: `params.environment == 'production'`. In
    other expressions: `conditions.<name>`."""
    resources: dict[str, Resource] = pydantic.Field(
        json_schema_extra=named_map("a resource", limit=limits.INLINE_RESOURCES, reserved=RESERVED_NAMES)
    )
    """The resources by name. Their order has no meaning: a resource is applied after those that its expressions use."""
    outputs: dict[str, Output] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("an output", limit=limits.ENTRIES)
    )
    """Values for `status.outputs`, for users and for Stacks that use this one."""


ONE_ROLLBACK: JsonDict = {
    "rule": "!(has(self.toRevision) && has(self.toSnapshot))",
    "message": "toRevision and toSnapshot exclude each other; remove one of them",
}


class Rollback(ApiModel):
    """When to roll back, and to which revision."""

    model_config = base.validated(ONE_ROLLBACK)

    on_failure: bool | None = None
    """Whether to roll back a failed definition to the last completed revision; the first definition to an empty Stack.
    The operator retries the failed definition once it changes, or on the annotation `hearth.dev/retry`. Default:
    false."""
    to_revision: Counter | None = None
    """The revision to roll back to, at any time and from any state. 0 is the last completed revision other than the
    definition in the spec. A later change of template or parameters overrides it."""
    to_snapshot: Annotated[str, pydantic.Field(min_length=1, max_length=limits.NAME_LENGTH)] | None = None
    """The StackSnapshot, in the namespace of the Stack, to restore: its revision, and the data of its volumes. Each
    PersistentVolumeClaim is replaced by a new one with the data of its VolumeSnapshot, while all workloads are suspended. It
    is restored once, for the definition beside which it was written, as `toRevision`."""


class Retry(ApiModel):
    """How to retry failed resources. Retries never end."""

    limit: Counter | None = None
    """Failures of one resource after which the Stack reports Failed and `rollback.onFailure` applies. Retries continue.
    Default: 5."""
    max_backoff: Duration | None = None
    """Maximum delay between two attempts, e.g. `90s` or `5m`. Default: `--max-backoff` of the operator, 5m."""


class Healing(ApiModel):
    """What happens to objects that are marked unhealthy (see HealthMark), or that failed permanently."""

    policy: Literal["Automatic", "OnUpdate"] | None = None
    """`Automatic`: the operator replaces such an object immediately, and updates the resources that use its values.
    `OnUpdate`: the operator replaces it with the next change of the definition, or a requested retry. Default:
    `Automatic`."""
    max_unhealthy: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """Maximum number of unhealthy resources with which the operator still replaces any, so that a wrong health rule
    cannot take down everything. A number, or a share of the Stack's resources, e.g. `40%`, rounded down and at least 1.
    Default: no limit."""


class StackSpec(ApiModel):
    """Desired state: a template and its parameters."""

    model_config = base.validated(
        {
            "rule": "[has(self.template), has(self.templateRef), has(self.templateRefs)].exists_one(each, each)",
            "message": "exactly one of template, templateRef and templateRefs must be given",
        }
    )

    template: Template | None = None
    template_ref: TemplateReference | None = None
    template_refs: list[TemplateReference] | None = base.optional_list(limits.TEMPLATE_SOURCES, least=1)
    """Several objects that contain parts of one template, for a template that is too large for a single object.
    Parameters, conditions, resources and outputs are merged; a name in two of them is an error."""
    parameters: dict[str, Any] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.ENTRIES}
    )
    """Values of the template's parameters, by name. A parameter that is neither here nor in `parametersFrom` has its
    default."""
    parameters_from: list[ParametersSource] | None = base.optional_list(limits.RULES)
    """Sources of further parameter values. The last source that sets a parameter wins, and `parameters` overrides all
    sources. The Stack follows their changes."""
    environment: Environment | None = None
    paused: bool | None = None
    """While true, the operator writes and deletes no child, not even if the Stack is deleted. The status shows the
    pending steps. Changes of the spec take effect afterward."""
    suspended: bool | None = None
    """While true, workloads are stopped, dependents first: Deployments, StatefulSets and ReplicaSets are scaled to
    zero, Jobs and CronJobs suspended, and so are nested Stacks and other kinds that can be suspended. The operator
    writes nothing else. Changes of the spec and rollback requests take effect afterward. False restores all workloads
    in order."""
    rollback: Rollback | None = None
    retry: Retry | None = None
    healing: Healing | None = None
    timeout: Duration | None = None
    """Maximum time until a definition is complete; it fails afterward. Also the maximum time of a suspend and a resume.
    E.g. `90s` or `1h30m`. Default: no limit."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the namespace of the Stack that the operator acts as when it writes, reads and deletes
    children, and when it reads templates and parameters from other objects. Children may be wherever the account has
    rights. Default: the operator's flag `--tenancy` decides; by default, children must be in the namespace of the
    Stack."""
    kube_config: KubeConfig | None = None
    """Cluster of the children, with the rights of that kubeconfig. The Stack, its revisions and its Events stay in this
    cluster. The operator follows changes of the Secret. A Stack with children cannot move to another API server.
    Default: the cluster of the Stack."""
    revision_history_limit: Annotated[Counter, pydantic.Field(le=limits.REVISION_HISTORY)] | None = None
    """Number of earlier revisions to keep for rollbacks, in addition to those that are still needed. At most 100.
    Default: 10."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What happens to the children when the Stack is deleted. `Delete`: the operator deletes them, unless a resource
    has `deletionPolicy: Retain`. `Abandon`: all stay unchanged, without an owner. Default: `Delete`."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens if an object with a child's name exists and belongs to no Stack, unless the resource has its own
    policy. `Adopt`: the operator adopts it. `Refuse`: the object stays unchanged and the resource fails. Default:
    `Refuse`."""


class Stack(ApiModel):
    """A template and its parameters. The operator converges real objects to them, and keeps doing so when something
    fails, drifts, or is deleted.
    """

    model_config = base.validated(STACK_NAME_RULE)

    spec: StackSpec
    status: StackStatus | None = pydantic.Field(default=None, json_schema_extra=base.NOT_OBSERVED)


class StackTemplateSpec(ApiModel):
    """The template."""

    template: Template
    """The template, as in a Stack. The Stacks that name it set its parameters."""


class StackTemplate(ApiModel):
    """A template that Stacks of all namespaces may use: `spec.templateRef: {kind: StackTemplate, name: …}`. Every Stack can
    read it, and follows its changes.
    """

    spec: StackTemplateSpec
