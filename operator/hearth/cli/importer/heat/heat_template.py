"""Converts a Heat template, and the templates that it nests, to the template of a Stack.

A resource cannot be converted if it reads a resource that is not converted. Passes over the template repeat until no
more resources drop out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hearth.cli.importer.heat import (
    heat_files,
    heat_functions,
    heat_groups,
    heat_nested,
    heat_objects,
    heat_own,
    heat_parameters,
    heat_report,
    heat_scope,
    heat_types,
    heat_user_data,
    heat_values,
)
from hearth.cli.importer.heat.heat_files import HeatEnvironment, HeatFolders
from hearth.cli.importer.heat.heat_report import Comment
from hearth.cli.importer.heat.heat_scope import HeatResource, NestedTemplate, SharedImport, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import Finished, Lost
from hearth.cli.importer.manifest_documents import SourceText
from hearth.model import limits, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.text import enumeration
from hearth.template.text import error_hints

PASSES: Final = 20
SECTIONS: Final = frozenset(
    {"heat_template_version", "description", "parameter_groups", "parameters", "conditions", "resources", "outputs"}
)
RESOURCE_FIELDS: Final = frozenset(
    {"type", "properties", "metadata", "depends_on", "update_policy", "deletion_policy", "external_id", "condition"}
)
HOOKS: Final[Mapping[str, str]] = {
    f"{when}-{action}": f"{when.title()}{action.title()}"
    for when in ("pre", "post")
    for action in ("create", "update", "delete")
}
ACTIONS: Final[Mapping[str, str]] = {"update": "Update", "replace": "Replace"}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeatStack:
    """Result of an import."""

    stack: Object
    """With comments as keys; `heat_report.strip` removes them."""
    root: NestedTemplate
    losses: tuple[Loss, ...]
    """Losses of the environments."""


def read_stack(
    text: SourceText,
    environments: Sequence[tuple[SourceText, Path]],
    *,
    folder: Path | None,
    registry: Sequence[Path],
    name: str,
    namespace: str | None,
) -> HeatStack:
    """Return the Stack of a template and environments, each with its directory. Raises InvalidDefinition.

    folder, registry: the directories that files are read from; the first one has the template.
    """
    folders = HeatFolders([*([folder] if folder is not None else []), *registry])
    environment = HeatEnvironment()
    for each, directory in environments:
        environment.merge(each, directory)
    shared = SharedImport(folders=folders, environment=environment, convert_template=convert_template)
    return convert_stack(shared, heat_files.parse_template(text), folder, name=name, namespace=namespace)


def convert_stack(
    shared: SharedImport, document: Mapping[str, Any], folder: Path | None, *, name: str, namespace: str | None
) -> HeatStack:
    """Return the Stack of a template and the environments."""
    root = convert_template(shared, document, folder, ())
    scope, environment = root.scope, shared.environment
    losses = [Loss(place="environment", reason=each) for each in environment.lost]
    parameters: Object = {
        scope.parameter_names[each]: found.default
        for each, found in scope.parameters.items()
        if found.default is not None
    }
    for each, value in environment.parameters.items():
        if each not in scope.parameters:
            losses.append(
                Loss(place=f"parameters.{error_hints.shorten(each)}", reason="is not a parameter of the template")
            )
            continue
        try:
            parameters[scope.parameter_names[each]] = heat_parameters.convert_value(value, scope.parameters[each].type)
        except Lost as reason:
            losses.append(Loss(place=f"parameters.{error_hints.shorten(each)}", reason=str(reason)))
    missing = {
        own: each.is_hidden
        for stated, each in scope.parameters.items()
        if "default" not in each.rules and (own := scope.parameter_names[stated]) not in parameters
    }
    missing |= {own: False for own, rules in scope.own_parameters.values() if "default" not in rules}
    sources = []
    for is_hidden, kind, word in ((False, "configmap", "configMapRef"), (True, "secret generic", "secretRef")):
        listed = [own for own, hidden in missing.items() if hidden == is_hidden]
        if listed:
            sources.append({word: {"name": f"{name}-parameters"}})
            values = " ".join(f"--from-literal={own}=…" for own in listed)
            scope.notes.append(
                f"parameters without a value are read from: kubectl create {kind} {name}-parameters {values}"
            )
    rules: Object = {}
    if root.breakpoints:
        rules["breakpoints"] = [
            {"resource": path, "at": at} for path, at in root.breakpoints[: limits.ENVIRONMENT_RULES]
        ]
    if root.denials:
        rules["restrictedActions"] = [
            {"resource": path, "deny": deny} for path, deny in root.denials[: limits.ENVIRONMENT_RULES]
        ]
    stack = {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Stack",
        "metadata": {"name": name} if namespace is None else {"name": name, "namespace": namespace},
        "spec": {
            **({"parameters": parameters} if parameters else {}),
            **({"parametersFrom": sources} if sources else {}),
            **({"environment": rules} if rules else {}),
            "template": root.template,
        },
    }
    return HeatStack(stack=stack, root=root, losses=tuple(losses))


def convert_template(
    shared: SharedImport, document: Mapping[str, Any], folder: Path | None, path: tuple[str, ...]
) -> NestedTemplate:
    """Return a template and its nested templates. path: the resources that lead to it."""
    reasons: dict[str, str] = {}
    passes = 0
    while True:
        conversion = TemplateConversion(TemplateScope(shared, document, folder=folder, path=path), reasons)
        template, scope = conversion.convert(), conversion.scope
        found = {name: each.reason for name, each in scope.resources.items() if each.reason}
        passes += 1
        if len(found) == len(reasons) or passes == PASSES:
            rules = {"breakpoints": conversion.breakpoints, "denials": conversion.denials}
            return NestedTemplate(template=template, scope=scope, **rules)
        reasons = found


class TemplateConversion:
    """One pass over a template."""

    def __init__(self, scope: TemplateScope, reasons: Mapping[str, str]) -> None:
        """reasons: the known reasons why resources are not converted."""
        self.scope = scope
        self.breakpoints: list[tuple[str, list[str]]] = []
        self.denials: list[tuple[str, list[str]]] = []
        self._reasons = reasons
        self._parts: dict[str, list[str]] = {}
        """Resources that were added for a resource, by its name in the template."""

    def convert(self) -> Object:
        """Return the template of the Stack: parameters, conditions, resources, then resources that join others."""
        scope = self.scope
        self._convert_parameters()
        conditions = self._convert_conditions()
        self._declare()
        for resource in scope.resources.values():
            self._convert_resource(resource)
        for resource in scope.resources.values():
            if not resource.reason and "into" in resource.row:
                self._attempt(resource, functools.partial(heat_objects.merge, resource, scope))
        rest, scope.losses = scope.losses, []
        outputs = self._convert_outputs()
        rest += scope.losses
        resources = self._write_resources(outputs)
        self._convert_rules()
        scope.losses = [*rest, *self._list_unknown()]
        parameters = {scope.parameter_names[name]: each.rules for name, each in scope.parameters.items()}
        parameters |= dict(scope.own_parameters.values())
        parts = {"parameters": parameters, "conditions": conditions, "resources": resources, "outputs": outputs}
        description = scope.document.get("description")
        comment = {Comment(description): None} if isinstance(description, str) and description.strip() else {}
        return comment | {part: content for part, content in parts.items() if content or part == "resources"}

    def _convert_parameters(self) -> None:
        scope, environment = self.scope, self.scope.shared.environment
        groups = list_groups(self.scope.document)
        held: list[str] = []
        for name, stated in object_fields.mapping(scope.document, "parameters").items():
            value = environment.parameters.get(name) if not scope.path else None
            found = heat_parameters.convert_parameter(
                stated, group=groups.get(name, ""), default=environment.defaults.get(name), value=value
            )
            scope.parameters[name] = found
            place = f"parameters.{error_hints.shorten(name)}"
            scope.losses += [Loss(place=place, reason=each) for each in found.lost]
            held += found.held
        if held:
            listed = enumeration.enumerate_names(list(dict.fromkeys(held)))
            scope.notes.append(
                f"{listed}: objects that parameters name are imported, and everything waits until they exist"
            )

    def _convert_conditions(self) -> Object:
        scope, made = self.scope, {}
        for name, stated in object_fields.mapping(scope.document, "conditions").items():
            try:
                found = heat_functions.translate_condition(stated, scope)
            except Lost as reason:
                scope.losses.append(
                    Loss(place=f"conditions.{error_hints.shorten(name)}", reason=str(reason), value=stated)
                )
                found = True
            made[scope.condition_names[name]] = heat_values.to_cel(found)
        return made

    # Resources.

    def _declare(self) -> None:
        scope = self.scope
        for name, stated in object_fields.mapping(scope.document, "resources").items():
            resource = HeatResource(
                stated_name=name, name=scope.resource_names[name], stated=stated, type=stated["type"]
            )
            scope.resources[name] = resource
            try:
                resource.type, folder = scope.shared.environment.find_type(stated["type"], (*scope.path, name))
                resource.folder = folder or scope.folder
            except Lost as reason:
                resource.reason = str(reason)
            resource.reason = resource.reason or self._reasons.get(name, "")
            resource.row = heat_types.read_table().get(resource.type, {})
        for resource in sort_groups(scope):
            if not resource.reason:
                self._attempt(resource, functools.partial(self._declare_one, resource))

    def _declare_one(self, resource: HeatResource) -> None:
        scope = self.scope
        if "lost" in resource.row:
            raise Lost(resource.row["lost"])
        if resource.row:
            heat_objects.declare(resource, scope)
            resource.make = None if "into" in resource.row else lambda: heat_objects.convert(resource, scope)
        elif "external_id" in resource.stated:
            raise Lost("external_id has no equivalent for a type without a controller")
        elif resource.type in heat_user_data.CONFIGS:
            heat_user_data.declare(resource, scope)
            resource.make = lambda: heat_user_data.convert(resource, scope)
        elif resource.type == heat_user_data.DEPLOYMENT:
            heat_user_data.declare_deployment(resource, scope)
        elif heat_files.is_template(resource.type):
            heat_nested.declare_file(resource, scope)
        elif resource.type in heat_own.FORMS:
            heat_own.FORMS[resource.type](resource, scope)
        else:
            raise Lost("there is no controller for it, and no template in the resource registry")

    def _attempt(self, resource: HeatResource, act: Callable[[], None]) -> None:
        """Perform a step for a resource, and record its losses there."""
        scope = self.scope
        rest, scope.losses = scope.losses, []
        before = set(scope.extra)
        try:
            act()
        except Lost as reason:
            resource.reason = str(reason)
        resource.losses += scope.losses
        scope.losses = rest
        self._parts.setdefault(resource.stated_name, []).extend(each for each in scope.extra if each not in before)

    def _convert_resource(self, resource: HeatResource) -> None:
        if resource.reason:
            return
        scope = self.scope

        def act() -> None:
            scope.condition = resource.stated.get("condition")
            scope.when = self._read_condition(resource)
            if resource.make is not None:
                resource.make()
                if resource.made is not None:
                    resource.made = {**scope.when, **self._read_policies(resource), **resource.made}
                    heat_values.to_manifest(resource.made)

        if "into" not in resource.row:
            self._attempt(resource, act)
        scope.when, scope.condition = {}, None

    def _read_condition(self, resource: HeatResource) -> Object:
        if "condition" not in resource.stated:
            return {}
        condition = heat_functions.translate_condition(resource.stated["condition"], self.scope)
        return {} if condition is True else {"when": Finished(heat_values.to_cel(condition))}

    def _read_policies(self, resource: HeatResource) -> Object:
        made: Object = {}
        stated = resource.stated
        required = [
            each
            for name in heat_user_data.list_names(stated.get("depends_on"))
            for each in self._find_required(resource, name)
        ]
        if required:
            made["dependsOn"] = list(dict.fromkeys(required))[: limits.DEPENDENCIES]
        match stated.get("deletion_policy"):
            case None:
                pass
            case str() as policy if policy.title() in ("Delete", "Retain"):
                made |= {"deletionPolicy": "Retain"} if policy.title() == "Retain" else {}
            case policy:
                reason = "has no equivalent; Retain keeps the object"
                resource.losses.append(Loss(place="deletion_policy", reason=reason, value=policy))
        if stated.get("metadata"):
            resource.losses.append(Loss(place="metadata", reason="has no equivalent", value=stated["metadata"]))
        if stated.get("update_policy") and resource.type not in heat_groups.GROUPS:
            resource.losses.append(Loss(place="update_policy", reason="is for groups", value=stated["update_policy"]))
        resource.losses += [
            Loss(place=error_hints.shorten(name), reason="is not known", value=stated[name])
            for name in stated
            if name not in RESOURCE_FIELDS
        ]
        return made

    def _find_required(self, resource: HeatResource, name: str) -> Iterator[str]:
        """Yield the resource of the Stack that represents a resource that another one waits for, if any."""
        other = self.scope.resources.get(name)
        if other is not None and other.waits_for:
            other = self.scope.resources.get(other.waits_for)
        if other is None or other.reason:
            resource.losses.append(Loss(place=f"depends_on.{error_hints.shorten(name)}", reason="is not converted"))
        elif other.type not in heat_own.WITHOUT_OBJECT and other is not resource:
            yield other.name

    def _write_resources(self, outputs: Object) -> Object:
        """Return the resources, each after the resources added for it, with comments on the losses."""
        scope = self.scope
        written: Object = {}
        for resource in scope.resources.values():
            if not resource.reason:
                parts = self._parts.get(resource.stated_name, ())
                written |= {name: heat_values.to_manifest(scope.extra[name]) for name in parts if name not in written}
            written |= {Comment(text): None for text in heat_report.describe(resource)}
            if resource.made is not None and not resource.reason:
                written[resource.name] = heat_values.to_manifest(resource.made)
        # Resources that were added for a lost resource or for an output, and that others read.
        text = heat_report.write_plain([written, outputs])
        added = {name: each for name, each in scope.extra.items() if name not in written and f"{name}." in text}
        return {**heat_values.to_manifest(added), **written}

    # The rest of a template.

    def _convert_outputs(self) -> Object:
        outputs: Object = {}
        for name, stated in object_fields.mapping(self.scope.document, "outputs").items():
            own = self.scope.output_names[name]
            if isinstance(description := stated.get("description"), str):
                outputs[Comment(f"{own}: {description}")] = None
            try:
                outputs[own] = self._convert_output(own, stated)
            except Lost as reason:
                loss = Loss(place=f"outputs.{error_hints.shorten(name)}", reason=str(reason), value=stated)
                self.scope.losses.append(loss)
                outputs[Comment(heat_report.describe_loss(loss))] = None
        return outputs

    def _convert_output(self, own: str, stated: Mapping[str, Any]) -> Object:
        """Return an output. Raises Lost."""
        scope = self.scope
        scope.condition = stated.get("condition")
        value = scope.translate(stated.get("value"))
        scope.condition = None
        if value is None:
            raise Lost("is null")
        condition = heat_functions.translate_condition(stated["condition"], scope) if "condition" in stated else True
        read = list(heat_scope.list_expressions(value))
        if scope.is_hidden(value) or any(heat_scope.find_beginning(each, scope.unreadable) for each in read):
            scope.hidden_outputs.add(own)
        when = {} if condition is True else {"when": heat_values.to_cel(condition)}
        return {**when, "value": heat_values.to_manifest(value)}

    def _convert_rules(self) -> None:
        """Fill `breakpoints` and `denials`, nested templates included."""
        scope = self.scope
        stated_names = [name for name, each in scope.resources.items() if each.made is not None]
        for stated_name, rule in scope.shared.environment.list_rules(stated_names, scope.path):
            resource = scope.resources[stated_name]
            for word, known, found in (
                ("hooks", HOOKS, self.breakpoints),
                ("restricted_actions", ACTIONS, self.denials),
            ):
                stated = rule.get(word)
                listed = stated if isinstance(stated, list) else [stated] if stated is not None else []
                actions = [known[each] for each in listed if isinstance(each, str) and each in known]
                if actions:
                    found.append((resource.name, list(dict.fromkeys(actions))))
                if len(actions) < len(listed):
                    resource.losses.append(Loss(place=word, reason="is not known", value=stated))
        for resource in scope.resources.values():
            if resource.nested is None or resource.made is None:
                continue
            inner = "" if resource.type not in heat_groups.GROUPS else "/*"
            for found, nested in (
                (self.breakpoints, resource.nested.breakpoints),
                (self.denials, resource.nested.denials),
            ):
                found += [(f"{resource.name}{inner}/{path}", actions) for path, actions in nested]

    def _list_unknown(self) -> Iterator[Loss]:
        """Yield the parts of the template outside the known sections."""
        for name, value in self.scope.document.items():
            if name not in SECTIONS:
                yield Loss(place=error_hints.shorten(name), reason="is not known", value=value)


def list_groups(document: Mapping[str, Any]) -> dict[str, str]:
    """Return label and description of the parameter group, by parameter."""
    return {
        name: ": ".join(text for word in ("label", "description") if (text := object_fields.text(group, word)))
        for group in object_fields.entries(document, "parameter_groups")
        for name in object_fields.texts(group, "parameters")
    }


def sort_groups(scope: TemplateScope) -> list[HeatResource]:
    """Return the resources in their declared order, but joining resources after the joined ones, and groups after the
    values they read.
    """
    ranks = {heat_user_data.DEPLOYMENT: 1, **dict.fromkeys(heat_groups.GROUPS, 2)}
    ordered = sorted(scope.resources.values(), key=lambda each: 1 if "into" in each.row else ranks.get(each.type, 0))
    groups = {each.stated_name: each for each in ordered if each.type in heat_groups.GROUPS}
    reads = {
        name: set(heat_user_data.list_references(each.properties)) & groups.keys() - {name}
        for name, each in groups.items()
    }
    done: list[HeatResource] = [each for each in ordered if each.stated_name not in groups]
    while reads:
        free = [name for name, found in reads.items() if not found & reads.keys()] or [*reads]
        done += [groups[name] for name in free]
        for name in free:
            del reads[name]
    return done
