"""Parts of the spec of a Stack that ResourceGroups and StackDefinitions have as well, as pydantic models.

The objects that it refers to: sources of template and parameters, kubeconfig, what it only reads. Its environment:
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
    "message": "key is for a ConfigMap; remove it",
}
ONE_TARGET: JsonDict = {
    "rule": "has(self.name) != has(self.selector)",
    "message": "exactly one of name and selector must be given",
}
NO_PLACE: JsonDict = {
    "rule": "!has(self.allNamespaces) || !self.allNamespaces || (has(self.selector) && !has(self.__namespace__))",
    "message": "allNamespaces is for a selector without namespace",
}
Text = Annotated[str, pydantic.Field(min_length=1, max_length=limits.EXPRESSION_LENGTH)]


class TemplateReference(ApiModel):
    """An object that contains the template, whose changes are followed: a ConfigMap in the Stack's own namespace, for a
    StackDefinition in its `templateNamespace`, or a StackTemplate.
    """

    model_config = base.validated(KEY_OF_CONFIG_MAP)

    kind: Literal["ConfigMap", "StackTemplate"] = "ConfigMap"
    """Kind of the object. A StackTemplate has no namespace."""
    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the object."""
    key: str = pydantic.Field(default="template.yaml", min_length=1, max_length=253)
    """Key in the `data` of a ConfigMap that contains the template as YAML or JSON, in the form of `spec.template`. A key
    that ends in `.gz` is in its `binaryData`, compressed by gzip."""


class SourceReference(ApiModel):
    """An object in the Stack's own namespace."""

    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the object."""
    optional: bool | None = None
    """Whether the object may be missing. If false, the Stack stays unchanged until the object exists. Default:
    false."""


class ParametersSource(ApiModel):
    """A source of parameter values. Each key of the object's `data` that is the name of a parameter sets its value;
    other keys are ignored. A value for a parameter of another type than string is parsed as YAML.
    """

    model_config = base.validated(
        {
            "rule": "has(self.secretRef) != has(self.configMapRef)",
            "message": "exactly one of secretRef and configMapRef must be given",
        }
    )

    secret_ref: SourceReference | None = None
    """A Secret. Its values are sensitive unless the parameter has `sensitive: false`."""
    config_map_ref: SourceReference | None = None
    """A ConfigMap."""


class KubeConfigSecret(ApiModel):
    """Secret with a kubeconfig, in the namespace of the Stack."""

    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the Secret."""
    key: str | None = pydantic.Field(default=None, min_length=1, max_length=253)
    """Key in its data. Default: `value`, otherwise `value.yaml`."""


class KubeConfig(ApiModel):
    """Kubeconfig of another cluster."""

    secret_ref: KubeConfigSecret
    """Secret that contains the kubeconfig. The operator uses only inline tokens and certificates; it refuses a kubeconfig
    with files, programs, a proxy or impersonation. If the context sets a namespace, children must be in it."""


class LabelRequirement(ApiModel):
    """What one label must be."""

    key: str = pydantic.Field(min_length=1, max_length=317)
    """The key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with `values`."""
    values: list[str] | None = base.optional_list(limits.SELECTOR_REQUIREMENTS)
    """The values for `In` and `NotIn`."""


class LabelSelector(ApiModel):
    """Labels that objects must have. All requirements must be met; without any, every object is meant."""

    match_labels: dict[str, str] | None = pydantic.Field(
        default=None, json_schema_extra={"maxProperties": limits.SELECTOR_REQUIREMENTS}
    )
    """Labels with their values. Values may use `${…}` on `params`, `conditions` and `stack`."""
    match_expressions: list[LabelRequirement] | None = base.optional_list(limits.SELECTOR_REQUIREMENTS)
    """Further requirements."""


class ExternalMetadata(ApiModel):
    """Where the object is: by its name, or all by their labels."""

    model_config = base.validated(ONE_TARGET, NO_PLACE)

    name: Text | None = None
    """The name of the object. May use `${…}` on `params`, `conditions` and `stack`."""
    namespace: Text | None = None
    """The namespace of the object. Default: that of the Stack."""
    selector: LabelSelector | None = None
    """The labels of the objects. The resource is then the list of all of them, in the order of their names."""
    all_namespaces: bool | None = None
    """Whether the list contains the objects of all namespaces, in the order of namespaces and names. Default: false."""


class ExternalRef(ApiModel):
    """An object, or a list of objects, that the Stack only reads. It never writes or deletes them."""

    api_version: str = pydantic.Field(min_length=1)
    """Group and version of the kind, e.g. `v1`. May use parameters, but no resource."""
    kind: str = pydantic.Field(min_length=1)
    """The kind, e.g. `Service`. May use parameters, but no resource."""
    metadata: ExternalMetadata


GLOB_PATTERN = r"^[a-zA-Z0-9*?\[\]-]+(/[a-zA-Z0-9*?\[\]-]+)*$"
ResourceGlob: TypeAlias = Annotated[str, pydantic.Field(max_length=limits.GLOB_LENGTH, pattern=GLOB_PATTERN)]
Hook: TypeAlias = Literal[
    "PreCreate", "PostCreate", "PreUpdate", "PostUpdate", "PreReplace", "PostReplace", "PreDelete", "PostDelete"
]


class Breakpoint(ApiModel):
    """Where resources stop until a user continues them."""

    resource: ResourceGlob
    """The resource, by name or with the wildcards `*` and `?`; `workers[a]` is a member of a collection, `workers[*]` every
    member. `cache/db` is one of the nested stack `cache`: the entry is
    written into its `spec.environment`, with the rest of the path.
    """
    at: list[Hook] = pydantic.Field(min_length=1, max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Before (`Pre…`) or after (`Post…`) the action on the resource, independent of the Stack's own action. After:
    its object is ready, and resources that require it still wait."""


class RestrictedAction(ApiModel):
    """Actions that are denied on resources."""

    resource: ResourceGlob
    """The resource, by name or with the wildcards `*` and `?`; `workers[a]` is a member of a collection, `workers[*]` every
    member. `cache/db` is one of the nested stack `cache`: the entry is
    written into its `spec.environment`, with the rest of the path.
    """
    deny: list[Literal["Update", "Replace", "Delete"]] = pydantic.Field(
        min_length=1, max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """What is denied. The object stays as it is, and the Stack reports Failed until the rule or the target changes."""


class Environment(ApiModel):
    """How the Stack is rolled out, as opposed to what it contains. It is not part of a revision; the current value
    always applies.
    """

    breakpoints: list[Breakpoint] | None = base.optional_list(limits.ENVIRONMENT_RULES)
    """Where resources stop and wait. The annotation `hearth.dev/continue: web/PreUpdate` on the Stack continues one of
    them, once per revision; so does the removal of the entry.
    """
    restricted_actions: list[RestrictedAction] | None = base.optional_list(limits.ENVIRONMENT_RULES)
    """Actions that are denied on resources."""
