"""The fields of a Stack that refer to objects in its namespace: of template, parameters and kubeconfig."""

from __future__ import annotations

from typing import Literal

import pydantic

from hearth.model.api.base import ApiModel


class TemplateReference(ApiModel):
    """An object in the Stack's own namespace that contains the template. The Stack follows its changes."""

    kind: Literal["ConfigMap"] = "ConfigMap"
    """Kind of the object."""
    name: str = pydantic.Field(min_length=1, max_length=253)
    """Name of the object."""
    key: str = pydantic.Field(default="template.yaml", min_length=1, max_length=253)
    """Key in its `data` that contains the template as YAML or JSON, in the form of `spec.template`. A key that ends in
    `.gz` is in its `binaryData`, compressed by gzip."""


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
