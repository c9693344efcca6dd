"""Converts nested templates to nested Stacks, with their parameters, outputs and clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hearth.cli.importer.heat import heat_files, heat_parameters, heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, NestedTemplate, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import Expression, Finished, Lost, Value
from hearth.cli.importer.manifest_documents import SourceText
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.template.text import error_hints


class ParameterScope(Protocol):
    """Where the values of parameters come from: a template, or a group within it."""

    def is_hidden(self, value: Value) -> bool:
        """Return whether a value contains something that must not appear in a status."""

    def check_readable(self, value: Value) -> None:
        """Raise Lost if a value reads something that only outputs may read."""

    def add_parameter(self, name: str, rules: Object) -> Expression:
        """Add a parameter that the Heat template does not have, and return its value."""

    def add_secret(self, name: str, values: Mapping[str, Value]) -> Expression:
        """Add a Secret, and return its name. Raises Lost."""


def make_hearth(kind: str, spec: Object, metadata: Object | None = None) -> Object:
    """Return an object of one of Hearth's kinds."""
    named = {"metadata": metadata} if metadata else {}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": kind, **named, "spec": spec}


def read_name(resource: HeatResource, scope: TemplateScope) -> Value:
    """Return the name of the object of a resource."""
    return scope.read_object(resource, "metadata.name", "string")


def nest(
    resource: HeatResource, scope: TemplateScope, document: Mapping[str, Any], folder: Path | None
) -> NestedTemplate:
    """Return the template of a nested Stack. Raises Lost."""
    resource.nested = scope.shared.nest(document, folder, (*scope.path, resource.stated_name))
    return resource.nested


def read_template(name: str, content: str) -> Mapping[str, Any]:
    """Return the document of a nested template. Raises Lost."""
    try:
        return heat_files.parse_template(SourceText(source=name, content=content))
    except InvalidDefinition as error:
        raise Lost(str(error.mistakes[0])) from error


def declare_file(resource: HeatResource, scope: TemplateScope) -> None:
    """Convert the template in a file. Raises Lost."""
    folders = scope.shared.folders
    path = folders.find_file(resource.type, resource.folder)
    document = read_template(resource.type, folders.read_text(path))
    declare_nested(resource, scope, document, path.parent, resource.properties)


def declare_stack(resource: HeatResource, scope: TemplateScope) -> None:
    """Convert the template that a resource contains. Raises Lost."""
    content = scope.translate(resource.properties.get("template"))
    if not isinstance(content, str):
        raise Lost("its template is only known at run time")
    stated = object_fields.mapping(resource.properties, "template")
    folder = scope.folder
    if isinstance(stated.get("get_file"), str):
        folder = scope.shared.folders.find_file(stated["get_file"], scope.folder).parent
    declare_nested(
        resource,
        scope,
        read_template("template", content),
        folder,
        object_fields.mapping(resource.properties, "parameters"),
    )


def declare_nested(
    resource: HeatResource,
    scope: TemplateScope,
    document: Mapping[str, Any],
    folder: Path | None,
    values: Mapping[str, Any],
) -> None:
    """Declare the values that a nested Stack offers, and its creation. Raises Lost."""
    nested = nest(resource, scope, document, folder)
    status = "status.outputs"
    scope.unreadable |= {f"{resource.name}.{status}.{each}" for each in list_hidden_outputs(nested)}
    scope.unreadable |= {f"{resource.name}.?{status}.{each}" for each in list_hidden_outputs(nested)}

    def read_attribute(path: Sequence[Value]) -> Value:
        first, *rest = path or [None]
        if first == "outputs" and resource.type == "OS::Heat::Stack":
            if not rest:
                return scope.read_object(resource, status, "map")
            first, *rest = rest
        if not isinstance(first, str) or first not in nested.scope.output_names:
            raise Lost(f"the nested template has no output {error_hints.shorten(str(first))}")
        return heat_values.select(scope.read_object(resource, f"{status}.{nested.scope.output_names[first]}"), rest)

    def make() -> None:
        spec = make_parameters(
            resource, scope, nested, {name: scope.translate(value) for name, value in values.items()}
        )
        resource.made = {
            "manifest": make_hearth(
                "Stack", {**spec, **read_context(resource, scope), "template": Finished(nested.template)}
            )
        }

    resource.read_identity = lambda: read_name(resource, scope)
    resource.read_attribute = read_attribute
    resource.make = make


def list_hidden_outputs(nested: NestedTemplate) -> list[str]:
    """Return the outputs of a template that are hidden from statuses."""
    return [name for name in nested.scope.output_names.values() if name in nested.scope.hidden_outputs]


def make_parameters(
    resource: HeatResource, scope: ParameterScope, nested: NestedTemplate, values: Mapping[str, Value]
) -> Object:
    """Return the parameters of a nested Stack. Sensitive values are passed in a Secret. Raises Lost."""
    passed: Object = {}
    secret: Object = {}
    for name, parameter in nested.scope.parameters.items():
        value = values.get(name)
        if value is None and parameter.is_hidden and parameter.default is not None:
            value = parameter.default
        if value is None:
            if "default" not in parameter.rules and not parameter.is_hidden:
                resource.losses.append(Loss(place=f"parameters.{error_hints.shorten(name)}", reason="has no value"))
            continue
        scope.check_readable(value)
        own = nested.scope.parameter_names[name]
        if parameter.is_hidden or scope.is_hidden(value):
            secret[own] = heat_values.to_string(value)
        else:
            passed[own] = heat_parameters.match_parameter(value, parameter.type)
    unknown = [name for name in values if name not in nested.scope.parameters and values[name] is not None]
    resource.losses += [
        Loss(place=f"parameters.{error_hints.shorten(name)}", reason="is not a parameter of the nested template")
        for name in unknown
    ]
    for word, (own, rules) in nested.scope.own_parameters.items():
        passed[own] = scope.add_parameter(word, rules)
    made: Object = {"parameters": passed} if passed else {}
    if secret:
        made["parametersFrom"] = [{"secretRef": {"name": scope.add_secret(f"{resource.name}-parameters", secret)}}]
    return made


def read_context(resource: HeatResource, scope: TemplateScope) -> Object:
    """Return the cluster of a nested Stack in another region. Raises Lost."""
    properties = resource.properties if resource.type == "OS::Heat::Stack" else {}
    context = object_fields.mapping(properties, "context")
    made: Object = {}
    for name, value in context.items():
        if name == "region_name":
            region = scope.translate(value)
            secret = (
                region.lower().replace("_", "-")
                if isinstance(region, str)
                else heat_values.make_expression(f"{heat_values.to_cel(region)}.lowerAscii()")
            )
            made["kubeConfig"] = {"secretRef": {"name": secret}}
            shown = secret if isinstance(secret, str) else "named after the region, in lower case,"
            scope.notes.append(
                f"{resource.stated_name} is in another region: a Secret {shown} must contain a kubeconfig of the cluster of its controllers"
            )
        else:
            reason = "the kubeconfig and clouds.yaml of that region specify it"
            resource.losses.append(
                Loss(place=f"properties.context.{error_hints.shorten(str(name))}", reason=reason, value=value)
            )
    timeout = properties.get("timeout")
    if timeout is not None and heat_parameters.is_number(timeout) and float(timeout) > 0:
        made["timeout"] = f"{int(float(timeout))}m"
    return made
