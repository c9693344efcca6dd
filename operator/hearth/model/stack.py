"""The API as pydantic models: what a Stack may say and what its status tells. Source of the CRD, see `hearth.model.crd`.

A field stands here from the day on which it means something, so that nothing is ever accepted and ignored. What a
docstring or a `description` says is what `kubectl explain` prints. Must not be used to parse Stacks in a pass: the API
server has validated them, and the engine reads plain dictionaries.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

NAME_RULE = "^[a-z][a-zA-Z0-9]{0,39}$"
"""`names.RESOURCE_NAME` in the words of CEL's `matches`, which looks for a part unless it is anchored."""
RESOURCES_LIMIT = 5_000
"""Resources of one template. An object in etcd (1.5 MiB) holds no more of the smallest manifests that make sense."""
ENTRIES_LIMIT = 1_000
"""Parameters, conditions or outputs: far above any sensible template, low enough for the cost of the rules on names."""
DEPENDENCIES_LIMIT = 500
RULES_LIMIT = 32
EXPRESSION_LIMIT = 4_096
PROBLEMS_LIMIT = 20
RESERVED_NAMES = (
    *("conditions", "index", "item", "params", "stack"),
    *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
    *("namespace", "null", "package", "return", "true", "var", "void", "while"),
)
"""What expressions know already: our own names, then the words of CEL. No resource may be called so."""

Expression: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=EXPRESSION_LIMIT)]
ResourceName: TypeAlias = Annotated[str, pydantic.Field(max_length=40, pattern=NAME_RULE)]
FieldPath: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=256)]
Counter: TypeAlias = Annotated[int, pydantic.Field(ge=0, json_schema_extra={"format": "int64"})]
Timestamp: TypeAlias = Annotated[str, pydantic.Field(json_schema_extra={"format": "date-time"})]
PRESERVE: JsonDict = {"x-kubernetes-preserve-unknown-fields": True}


def named_map(what: str, *, limit: int, reserved: tuple[str, ...] = ()) -> dict[str, Any]:
    """The extra words of the schema for a map from names to anything: how many, and what a name may look like."""
    rules = [
        {
            "rule": f"self.all(name, name.matches('{NAME_RULE}'))",
            "message": f"the name of {what} must start with a lower-case letter and go on with letters and digits, "
            f"40 characters at most, as in redisMaster",
        }
    ]
    if reserved:
        listed = ", ".join(f"'{name}'" for name in reserved)
        rules.append(
            {
                # Looked up word by word: the other way round it cost the API server more than all the rest of a write.
                "rule": f"[{listed}].all(word, !(word in self))",
                "message": f"{what} must not be called by a word that expressions know already: {', '.join(reserved)}",
            }
        )
    return {"maxProperties": limit, "x-kubernetes-validations": rules}


STACK_NAME_RULE: JsonDict = {
    "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "message": "a Stack's name becomes part of its children's names, so it begins with a letter and holds no dots",
}


class ApiModel(pydantic.BaseModel):
    """What all parts of the API share: camel case outside, frozen, no unknown field."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )


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
    """What the parameter is for, in words for whoever fills it in."""
    default: Any = None
    """The value where `spec.parameters` gives none. A parameter without a default must be given."""
    enum: list[Any] | None = pydantic.Field(default=None, min_length=1)
    """The only values allowed."""
    sensitive: bool | None = None
    """Whether nobody is to see the value: it is then in no revision, status, Event or log, and an output that uses it
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
    """Fields whose change means another object even where the API server would take it: `spec.storageClassName`."""


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


class Output(ApiModel):
    """A value to show in `status.outputs`."""

    value: Any
    """The value, with `${…}` anywhere in it."""
    when: Expression | None = None
    """An expression on `params` and `conditions`, without `${}`. Where it is false, there is no such output."""


class Template(ApiModel):
    """What is to be there. Expressions are CEL in `${…}` and name `params`, `conditions`, `stack` and the resources;
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
    """Values to show in `status.outputs`, for people and for whoever uses this Stack."""


class TemplateReference(ApiModel):
    """Where the template stands instead: in an object of the Stack's own namespace. The Stack follows its changes."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    """The kind of that object."""
    name: str = pydantic.Field(min_length=1, max_length=253)
    """The name of that object."""
    key: str = pydantic.Field(default="template.yaml", min_length=1, max_length=253)
    """The key in its `data` that holds the template as YAML or JSON: what would stand under `spec.template`."""


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
                    "rule": "has(self.template) != has(self.templateRef)",
                    "message": "exactly one of template and templateRef must be given",
                }
            ]
        }
    )

    template: Template | None = None
    template_ref: TemplateReference | None = None
    parameters: dict[str, Any] | None = pydantic.Field(default=None, json_schema_extra={"maxProperties": ENTRIES_LIMIT})
    """The values of the template's parameters, by name. What is given neither here nor by `parametersFrom` takes the
    parameter's default."""
    parameters_from: list[ParametersSource] | None = pydantic.Field(
        default=None, max_length=RULES_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """Where more values of parameters come from: of several sources that give the same one the last counts, and
    `parameters` counts before all of them. The Stack follows their changes."""


class Condition(ApiModel):
    """One aspect of the state, in the form that all of Kubernetes uses."""

    type: str = pydantic.Field(max_length=316)
    """`Ready`: all is as wanted. `Reconciling`: work is going on. `Stalled`: it will not succeed without a change."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    observed_generation: Counter | None = None
    """The `metadata.generation` of the Stack that this was said of."""
    last_transition_time: Timestamp
    """Since when the status is what it is."""
    reason: str = pydantic.Field(min_length=1, max_length=1_024)
    """Why, in one word for programs."""
    message: str = pydantic.Field(max_length=32_768)
    """Why, in words for people: what is waited for, or what is wrong and what to do about it."""


class ResourceCounts(ApiModel):
    """How many resources are in which state. All but `obsolete` add up to `total`."""

    total: Counter
    """Resources that are wanted."""
    ready: Counter
    """As wanted, and ready."""
    progressing: Counter
    """Applied, and not ready yet."""
    waiting: Counter
    """Not applied yet, because something that they require is not ready."""
    failed: Counter
    """Refused by the API server, or their child has failed. Trying goes on."""
    obsolete: Counter
    """Children that are no longer wanted and not gone yet."""


class ProblemEntry(ApiModel):
    """What hinders one resource."""

    resource: str
    """The name of the resource in the template."""
    kind: str
    """The kind of its child."""
    name: str
    """The name of its child; empty while that is not known."""
    namespace: str | None = None
    """The namespace of its child, where it has one."""
    reason: str
    """What is wrong, in one word for programs."""
    message: str
    """What is wrong, and what to do about it."""
    next_try: Timestamp | None = None
    """When the next attempt follows, unless something changes before."""


class StackStatus(ApiModel):
    """What is there, as last seen. Nothing in it grows with the number of resources."""

    phase: str | None = None
    """One word for the whole: `CreateInProgress`, `UpdateComplete`, `DeleteFailed` and so on."""
    observed_generation: int | None = pydantic.Field(default=None, ge=-1, json_schema_extra={"format": "int64"})
    """The `metadata.generation` that all of this was said of; -1 before anything was said."""
    conditions: list[Condition] | None = pydantic.Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """`Ready`, `Reconciling` and `Stalled`, readable by `kubectl wait` and any other tool."""
    revision: Counter | None = None
    """Number of the definition (template and parameters) that runs: the first that was accepted is 1, the next new one 2.
    An earlier definition that is wanted again keeps its number."""
    last_completed_revision: Counter | None = None
    """The newest revision that was reached in full."""
    summary: str | None = None
    """Ready resources of all that are wanted, as in `12/14`."""
    resources: ResourceCounts | None = None
    problems: list[ProblemEntry] | None = pydantic.Field(
        default=None, max_length=PROBLEMS_LIMIT, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )
    """What hinders the first 20 resources that something hinders."""
    outputs: dict[str, Any] | None = None
    """The outputs of the template whose values are known."""


class Stack(ApiModel):
    """A template and its parameters, kept converged into real objects, whatever fails, drifts, is deleted or changed
    meanwhile.
    """

    model_config = pydantic.ConfigDict(json_schema_extra={"x-kubernetes-validations": [STACK_NAME_RULE]})

    spec: StackSpec
    # Tools that follow kstatus take a resource without a status for current; with this one they wait for us.
    status: StackStatus | None = pydantic.Field(default=None, json_schema_extra={"default": {"observedGeneration": -1}})
