"""The API as pydantic models: what a Stack may say. Source of the CRD, see `hearth.model.api.crd`.

A field stands here from the day on which it means something, so that nothing is ever accepted and ignored. What a
docstring or a `description` says is what `kubectl explain` prints. Must not be used to parse Stacks in a pass: the API
server has validated them, and the engine reads plain dictionaries.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits, tenancy, times
from hearth.model.api.base import ApiModel, Counter
from hearth.model.api.stack_environment import Environment
from hearth.model.api.stack_status import StackStatus

NAME_RULE = "^[a-z][a-zA-Z0-9]{0,39}$"
"""`names.RESOURCE_NAME` in the words of CEL's `matches`, which looks for a part unless it is anchored."""
RESOURCES_LIMIT = limits.INLINE_RESOURCES
ENTRIES_LIMIT = limits.ENTRIES
DEPENDENCIES_LIMIT = limits.DEPENDENCIES
RULES_LIMIT = limits.RULES
EXPRESSION_LIMIT = limits.EXPRESSION_LENGTH
RESERVED_NAMES = (
    *("conditions", "index", "item", "params", "stack"),
    *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
    *("namespace", "null", "package", "return", "true", "var", "void", "while"),
)
"""What expressions know already: our own names, then the words of CEL. No resource may be called so."""

Expression: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=EXPRESSION_LIMIT)]
ResourceName: TypeAlias = Annotated[str, pydantic.Field(max_length=40, pattern=NAME_RULE)]
Duration: TypeAlias = Annotated[str, pydantic.Field(max_length=32, pattern=times.DURATION)]
ServiceAccountName: TypeAlias = Annotated[
    str, pydantic.Field(min_length=1, max_length=limits.NAME_LENGTH, pattern=f"^{tenancy.ACCOUNT_NAME}$")
]
FieldPath: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=limits.FIELD_LENGTH)]
NUMBER_OR_SHARE: JsonDict = {"x-kubernetes-int-or-string": True, "minimum": 1, "pattern": "^([1-9][0-9]?|100)%$"}
PRESERVE: JsonDict = {"x-kubernetes-preserve-unknown-fields": True}


def named_map(what: str, *, limit: int, reserved: tuple[str, ...] = ()) -> dict[str, Any]:
    """The extra words of the schema for a map from names to anything: how many, and what a name may look like."""
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
                # Looked up word by word: the other way round it cost the API server more than all the rest of a write.
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
    """One parameter, described in the words of JSON Schema.

    Besides the words named here all that constrain one value may be used: `minimum`, `maximum`, `multipleOf`,
    `pattern`, `minLength`, `maxLength`, `format`, `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`,
    `required`, `additionalProperties`, `const` and others.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    type: Literal["string", "integer", "number", "boolean", "array", "object"] | None = None
    """The type of the value. Without it any value is allowed, and expressions that use it are not checked for types."""
    description: str | None = None
    """What the parameter is for, for the users who set it."""
    default: Any = None
    """The value where `spec.parameters` gives none. A parameter without a default must be given."""
    enum: list[Any] | None = pydantic.Field(default=None, min_length=1)
    """The only values allowed."""
    sensitive: bool | None = None
    """Whether the value is secret: it is then in no revision, status, Event or log, and an output that uses it
    shows `(sensitive)`. Without this word that holds for every value that a Secret gives."""


class Manifest(ApiModel):
    """The object to keep in the cluster, as for `kubectl apply`, with `${…}` anywhere in its values.

    Without `metadata.name` the child is called `<stack>-<resource>`; without `metadata.namespace` it lives where the
    Stack does. A value that is one expression as a whole keeps the type of its result; null drops its key.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=PRESERVE)

    api_version: str = pydantic.Field(min_length=1)
    """Group and version of the child's kind, as in `apps/v1`. May use parameters, but no other resource."""
    kind: str = pydantic.Field(min_length=1)
    """The child's kind, as in `Deployment`. May use parameters, but no other resource."""


class UpdatePolicy(ApiModel):
    """What happens where the child cannot be changed in place."""

    replace: Literal["CreateFirst", "DeleteFirst", "Never"] | None = None
    """`CreateFirst`: another object is made, those that use it are moved over, the old one goes last. `DeleteFirst`: the old
    one goes first, the only way where `metadata.name` is stated. `Never`: the change fails. Without it, kinds that are known
    to hold nothing (Deployments, ConfigMaps, Services and so on) are replaced with CreateFirst, all others never."""
    replace_on: list[FieldPath] | None = pydantic.Field(
        default=None, min_length=1, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Fields whose change means another object even where the API server would take it: `spec.storageClassName`. For these
    fields it permits `CreateFirst` for any kind, without `replace`; where `metadata.name` is stated, `DeleteFirst` is
    needed beside it."""


class Resource(ApiModel):
    """One entry of a template, known by its name there; it stands for one object, its child."""

    manifest: Manifest
    depends_on: list[ResourceName] | None = pydantic.Field(
        default=None, max_length=DEPENDENCIES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Resources that must be ready before this one is applied, besides those that its expressions name.
    One that is not there because of its `when` counts as ready."""
    when: Expression | None = None
    """An expression on `params` and `conditions`, without `${}`. Where it is false, the resource is not there."""
    ready_when: list[Expression] | None = pydantic.Field(
        default=None, min_length=1, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Expressions, without `${}`, that must all be true for the child to be ready; they replace the built-in rule of its
    kind. The child is named as its resource: `web.status.readyReplicas >= 1`."""
    failed_when: list[Expression] | None = pydantic.Field(
        default=None, min_length=1, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Expressions, without `${}`; the child has failed as soon as one of them is true: `job.status.failed > 3`."""
    update_policy: UpdatePolicy | None = None
    """What happens where the child cannot be changed in place."""
    drift_policy: Literal["Repair", "Report", "Ignore"] | None = None
    """What happens if another field manager changes a field of the manifest. `Repair`, the default: it is changed back.
    `Report`: it is left as it is, and the condition `Drifted` tells. `Ignore`: it is left as it is. What is left stays so
    until the manifest states another value."""
    ignore_fields: list[FieldPath] | None = pydantic.Field(
        default=None, min_length=1, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Fields that are applied once and then left to other field managers, until the manifest has another value:
    `spec.replicas`, `spec.template.spec.containers[name="web"].image`, `metadata.annotations[example.com/owner]`."""
    deletion_policy: Literal["Delete", "Retain"] | None = None
    """What becomes of the child once nothing wants it any more: the resource was taken out, the child was replaced, or the
    Stack is deleted. `Retain`: it stays as it is, without an owner. Default: the child is deleted."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens where an object of that name is there already and belongs to no Stack. `Adopt`: it is taken over and
    changed to what the manifest states; once nothing wants it any more it is left as it is, never deleted. Without it,
    what `spec.adoptionPolicy` says."""


class Output(ApiModel):
    """A value to show in `status.outputs`."""

    value: Any
    """The value, with `${…}` anywhere in it."""
    when: Expression | None = None
    """An expression on `params` and `conditions`, without `${}`. Where it is false, there is no such output."""


class Template(ApiModel):
    """The desired resources. Expressions are CEL in `${…}` and name `params`, `conditions`, `stack` and the resources;
    `$${` stands for `${` itself.
    """

    # One document, not the sum of what several field managers put in. It also keeps `managedFields` from doubling the
    # object, and the cost of each write of the status, since that processes them.
    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    parameters: dict[str, Parameter] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a parameter", limit=ENTRIES_LIMIT)
    )
    """The parameters that may be given in `spec.parameters`; expressions name them `params.<name>`."""
    conditions: dict[str, Expression] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("a condition", limit=ENTRIES_LIMIT)
    )
    """Expressions on `params`, without `${}`, that are true or false: `params.environment == 'production'`.
    Expressions name them `conditions.<name>`."""
    resources: dict[str, Resource] = pydantic.Field(
        json_schema_extra=named_map("a resource", limit=RESOURCES_LIMIT, reserved=RESERVED_NAMES)
    )
    """The resources by name. Their order is of no importance: one that names another in an expression comes after it."""
    outputs: dict[str, Output] | None = pydantic.Field(
        default=None, json_schema_extra=named_map("an output", limit=ENTRIES_LIMIT)
    )
    """Values to show in `status.outputs`, for users and for Stacks that use this one."""


class TemplateReference(ApiModel):
    """Where the template stands instead: in an object of the Stack's own namespace. The Stack follows its changes."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    """The kind of that object."""
    name: str = pydantic.Field(min_length=1, max_length=253)
    """The name of that object."""
    key: str = pydantic.Field(default="template.yaml", min_length=1, max_length=253)
    """The key in its `data` that contains the template as YAML or JSON, in the form of `spec.template`. A key that ends in
    `.gz` is in its `binaryData`, compressed by gzip."""


class Rollback(ApiModel):
    """When and where the Stack goes back."""

    on_failure: bool | None = None
    """Whether a definition that fails gives way to the last one that was reached in full; a first one to nothing. Without it: false.
    The failed definition is not tried again until it is changed, or `hearth.dev/retry` asks for it."""
    to_revision: Counter | None = None
    """The revision to go back to, at any time and from any state; 0 is the last that was reached in full besides the one in
    the spec. It counts for the definition beside which it was written: a later change of template or parameters wins."""


class Retry(ApiModel):
    """How what fails is tried again. Nothing is ever given up."""

    limit: Counter | None = None
    """Failures of one resource after which the Stack reports Failed, and `rollback.onFailure` acts; retries continue. Default: 5."""
    max_backoff: Duration | None = None
    """Maximum delay between two attempts, e.g. `90s` or `5m`. Default: `--max-backoff` of the operator, 5m."""


class Healing(ApiModel):
    """What happens to objects that are marked unhealthy (see HealthMark), or have failed for good."""

    policy: Literal["Automatic", "OnUpdate"] | None = None
    """`Automatic`, the default: such an object is replaced at once, with the resources that use its values. `OnUpdate`: it is
    replaced as a part of the next change of the definition."""
    max_unhealthy: Any = pydantic.Field(default=None, json_schema_extra=NUMBER_OR_SHARE)
    """How many resources may be unhealthy at the same time until no more are replaced, so that an error about health cannot take
    down everything: a number, or a share of the Stack's resources as in `40%`, rounded down and at least 1. Without it: any."""


class SourceReference(ApiModel):
    """An object of the Stack's own namespace."""

    name: str = pydantic.Field(min_length=1, max_length=253)
    """The name of that object."""
    optional: bool | None = None
    """Whether it may be missing. Without it, the Stack stays as it is until the object is there."""


class ParametersSource(ApiModel):
    """Where values of parameters come from. Every key of the object's `data` that is the name of a parameter gives its value;
    other keys are of no importance. A value for a parameter of another type than string is read as YAML.
    """

    model_config = pydantic.ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.secretRef) != has(self.configMapRef)",
                    "message": "exactly one of secretRef and configMapRef must be given",
                }
            ]
        }
    )

    secret_ref: SourceReference | None = None
    """A Secret. Its values count as sensitive unless the parameter says `sensitive: false`."""
    config_map_ref: SourceReference | None = None
    """A ConfigMap."""


class StackSpec(ApiModel):
    """What is wanted: a template and its parameters."""

    model_config = pydantic.ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "[has(self.template), has(self.templateRef), has(self.templateRefs)].exists_one(each, each)",
                    "message": "exactly one of template, templateRef and templateRefs must be given",
                }
            ]
        }
    )

    template: Template | None = None
    template_ref: TemplateReference | None = None
    template_refs: list[TemplateReference] | None = pydantic.Field(
        default=None,
        min_length=1,
        max_length=limits.TEMPLATE_SOURCES,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """Several objects that contain parts of one template, for one that is too large for a single object. Their parameters,
    conditions, resources and outputs are united; a name in two of them is a mistake."""
    parameters: dict[str, Any] | None = pydantic.Field(default=None, json_schema_extra={"maxProperties": ENTRIES_LIMIT})
    """The values of the template's parameters, by name. What is given neither here nor by `parametersFrom` takes the
    parameter's default."""
    parameters_from: list[ParametersSource] | None = pydantic.Field(
        default=None, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Where more values of parameters come from: of several sources that give the same one the last counts, and
    `parameters` counts before all of them. The Stack follows their changes."""
    environment: Environment | None = None
    paused: bool | None = None
    """While true, no child is written or deleted, not even with the Stack itself; what would be done is shown. Edits are kept."""
    suspended: bool | None = None
    """While true, workloads are at nothing: Deployments, StatefulSets and ReplicaSets scaled to zero, Jobs and CronJobs
    suspended, nested Stacks and what else has a pause field too, dependents first. Nothing else is written; edits, and orders
    to go back, are kept. False brings all back to what it was, in order."""
    rollback: Rollback | None = None
    retry: Retry | None = None
    healing: Healing | None = None
    timeout: Duration | None = None
    """How long a definition may take to be reached until it counts as failed, as in `90s` or `1h30m`; suspending and resuming
    likewise. Without it: any time."""
    service_account_name: ServiceAccountName | None = None
    """The ServiceAccount, in the namespace of the Stack, that everything about children is done as: writing, reading and deleting
    them, and reading templates and parameters from other objects. Children may then be where it has rights. Without it the
    operator does as its flag --tenancy says: by default, children are in the namespace of the Stack only."""
    revision_history_limit: Counter | None = None
    """Earlier definitions that are kept to go back to, besides those that are still needed. Without it: 10."""
    deletion_policy: Literal["Delete", "Abandon"] | None = None
    """What becomes of the children when the Stack is deleted. `Abandon`: all stay as they are, without an owner. Without
    it they are deleted, except where a resource says otherwise."""
    adoption_policy: Literal["Refuse", "Adopt"] | None = None
    """What happens where an object of a child's name is there already and belongs to no Stack, for every resource that does
    not say so itself. `Adopt`: it is taken over. Without it, it is left as it is and the resource fails."""


class Stack(ApiModel):
    """A template and its parameters, kept converged into real objects, even if something fails, drifts, is deleted or changed
    meanwhile.
    """

    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-validations": [STACK_NAME_RULE]})

    spec: StackSpec
    # Tools that follow kstatus take a resource without a status for current; with this one they wait for us.
    status: StackStatus | None = pydantic.Field(default=None, json_schema_extra={"default": {"observedGeneration": -1}})
