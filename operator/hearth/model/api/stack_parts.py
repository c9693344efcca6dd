"""Parts of the spec that Stacks share with ResourceGroups and StackDefinitions, as pydantic models.

The objects that it refers to: sources of template and parameters, kubeconfig, external objects. Its environment:
breakpoints and restricted actions.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import pydantic
from pydantic.config import JsonDict

from hearth.model import limits
from hearth.model.api import base
from hearth.model.api.base import ApiModel

KEY_OF_CONFIG_MAP: JsonDict = {
    "rule": "self.kind == 'ConfigMap' || self.key == 'template.yaml'",
    "message": "key is only valid for a ConfigMap; remove it",
}
ONE_TARGET: JsonDict = {
    "rule": "has(self.name) != has(self.selector)",
    "message": "set exactly one of name and selector",
}
NO_PLACE: JsonDict = {
    "rule": "!has(self.allNamespaces) || !self.allNamespaces || (has(self.selector) && !has(self.__namespace__))",
    "message": "allNamespaces is only valid with selector and without namespace",
}
DAYS_RULE = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$"
MINUTE_RULE = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
Text = Annotated[str, pydantic.Field(min_length=1, max_length=limits.EXPRESSION_LENGTH)]


class Window(ApiModel):
    """Times of the week in one time zone."""

    days: list[Annotated[str, pydantic.Field(pattern=DAYS_RULE)]] | None = base.optional_list(7, least=1, kind="set")
    """Days of the week, each a day or a range, e.g. `[Mon-Thu, Sat]`. Default: all days."""
    from_: str | None = pydantic.Field(default=None, alias="from", pattern=MINUTE_RULE)
    """Start of the window, e.g. `08:00`. Default: `00:00`."""
    to: str | None = pydantic.Field(default=None, pattern=MINUTE_RULE)
    """End of the window, e.g. `16:00`. A time before `from` means the next day. Default: `24:00`."""
    zone: str | None = pydantic.Field(default=None, max_length=64)
    """Time zone, e.g. `Europe/Berlin`. Default: `UTC`."""


class TemplateReference(ApiModel):
    """A ConfigMap or StackTemplate that holds the template. Every change creates a new revision. A ConfigMap must be in
    the namespace of the Stack, or for a StackDefinition in its `templateNamespace`.
    """

    model_config = base.validated(KEY_OF_CONFIG_MAP)

    kind: Literal["ConfigMap", "StackTemplate"] = "ConfigMap"
    """Kind of the object. A StackTemplate has no namespace."""
    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the object."""
    key: str = pydantic.Field(default="template.yaml", min_length=1, max_length=253)
    """Key in the `data` of the ConfigMap. Its value is the template as YAML or JSON, in the form of `spec.template`. A
    key that ends in `.gz` is in `binaryData`, and its value is compressed with gzip."""


class SourceReference(ApiModel):
    """An object in the namespace of the Stack."""

    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the object."""
    optional: bool | None = None
    """Whether the object can be missing. If false, the Stack stays unchanged until the object exists. Default: false.
    """


class ParametersSource(ApiModel):
    """A source of parameter values. Each key in the object's `data` that is the name of a parameter sets its value;
    other keys are ignored. Values of parameters that are not strings are parsed as YAML.
    """

    model_config = base.validated(
        {
            "rule": "has(self.secretRef) != has(self.configMapRef)",
            "message": "set exactly one of secretRef and configMapRef",
        }
    )

    secret_ref: SourceReference | None = None
    """A Secret. Its values are sensitive unless the parameter has `sensitive: false`."""
    config_map_ref: SourceReference | None = None
    """A ConfigMap."""


class KubeConfigSecret(ApiModel):
    """A Secret with a kubeconfig, in the namespace of the Stack."""

    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the Secret."""
    key: str | None = pydantic.Field(default=None, min_length=1, max_length=253)
    """Key in the data of the Secret. Default: `value`, or `value.yaml` if there is no `value`."""


class KubeConfig(ApiModel):
    """Kubeconfig of another cluster."""

    secret_ref: KubeConfigSecret
    """Secret that contains the kubeconfig. The operator uses only inline tokens and certificates. It rejects a
    kubeconfig that uses files, programs, a proxy or impersonation. If the context sets a namespace, children must be in
    that namespace."""


class LabelRequirement(ApiModel):
    """A requirement for one label."""

    key: str = pydantic.Field(min_length=1, max_length=317)
    """Key of the label, e.g. `app.kubernetes.io/name`."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How to compare the label with `values`."""
    values: list[str] | None = base.optional_list(limits.SELECTOR_REQUIREMENTS)
    """Values for `In` and `NotIn`. Must be empty for `Exists` and `DoesNotExist`."""


class LabelSelector(ApiModel):
    """Labels that objects must have. All requirements must be met; an empty selector matches every object."""

    match_labels: dict[str, str] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.SELECTOR_REQUIREMENTS}
    )
    """Labels with their values, e.g. `{app: web}`. Values can contain `${…}` expressions on `params`, `conditions`,
    `values` and `stack`."""
    match_expressions: list[LabelRequirement] | None = base.optional_list(limits.SELECTOR_REQUIREMENTS)
    """Requirements on labels, in addition to `matchLabels`, e.g. `{key: tier, operator: In, values: [web, api]}`."""


class ExternalMetadata(ApiModel):
    """One object by its name, or a list of objects by their labels."""

    model_config = base.validated(ONE_TARGET, NO_PLACE)

    name: Text | None = None
    """Name of the object. It can contain `${…}` expressions on `params`, `conditions`, `values` and `stack`."""
    namespace: Text | None = None
    """Namespace of the object. Default: the namespace of the Stack."""
    selector: LabelSelector | None = None
    """Labels of the objects. The resource is then the list of all matching objects, sorted by name."""
    all_namespaces: bool | None = None
    """Whether the list contains objects of all namespaces, sorted by namespace and name. Only with `selector`. Default:
    false."""


class ExternalRef(ApiModel):
    """An object, or a list of objects, that the Stack only reads. The operator never writes or deletes them."""

    api_version: str = pydantic.Field(min_length=1)
    """Group and version of the kind, e.g. `v1`. Expressions can use parameters, but no resources."""
    kind: str = pydantic.Field(min_length=1)
    """Kind of the object, e.g. `Service`. Expressions can use parameters, but no resources."""
    metadata: ExternalMetadata


GLOB_PATTERN = r"^[a-zA-Z0-9*?\[\]-]+(/[a-zA-Z0-9*?\[\]-]+)*$"
ResourceGlob: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.GLOB_LENGTH, pattern=GLOB_PATTERN)]
Hook: TypeAlias = Literal[
    "PreCreate", "PostCreate", "PreUpdate", "PostUpdate", "PreReplace", "PostReplace", "PreDelete", "PostDelete"
]


class Breakpoint(ApiModel):
    """Where resources stop until a user continues them."""

    resource: ResourceGlob
    """Name of the resource. `*` and `?` are wildcards, `workers[a]` is a member of a collection, and `workers[*]` is
    every member. `cache/db` is the resource `db` of the nested Stack `cache`: the operator copies the entry into
    `spec.environment` of that Stack, with the rest of the path."""
    at: list[Hook] = pydantic.Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Hooks before (`Pre…`) or after (`Post…`) the action on the resource, regardless of the action of the whole Stack.
    At a `Post…` hook, the object of the resource is ready, but resources that require it still wait."""


class RestrictedAction(ApiModel):
    """Actions that are denied on resources."""

    resource: ResourceGlob
    """Name of the resource. `*` and `?` are wildcards, `workers[a]` is a member of a collection, and `workers[*]` is
    every member. `cache/db` is the resource `db` of the nested Stack `cache`: the operator copies the entry into
    `spec.environment` of that Stack, with the rest of the path."""
    deny: list[Literal["Update", "Replace", "Delete"]] = pydantic.Field(
        min_length=1, max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Actions to deny. The object stays unchanged, and the Stack reports Failed until the rule or the target revision
    changes."""


class Environment(ApiModel):
    """Controls the rollout of the Stack, not its content. It is not part of a revision; the current value always
    applies.
    """

    breakpoints: list[Breakpoint] | None = base.optional_list(limits.ENVIRONMENT_RULES)
    """Where resources stop and wait. To continue past one breakpoint, set the annotation
    `hearth.dev/continue: web/PreUpdate` on the Stack (once per revision), or remove the entry."""
    restricted_actions: list[RestrictedAction] | None = base.optional_list(limits.ENVIRONMENT_RULES)
    """Actions that are denied on resources, e.g. `{resource: db, deny: [Replace, Delete]}`. Default: none."""
