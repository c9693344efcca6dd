"""Converts groups of Heat to ResourceGroups whose members are nested Stacks.

Values of the surrounding template and the index of the member become parameters of the group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer import resource_naming
from hearth.cli.importer.heat import heat_files, heat_nested, heat_parameters, heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, NestedTemplate, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import CSV, Expression, Finished, Lost, Mixed, Value, make_expression
from hearth.model import limits, names, object_fields
from hearth.model.child import Object
from hearth.template.text import error_hints

GROUPS: Final = ("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")
MEMBER: Final = "member"
"""The resource of a group whose members are no templates."""
TOKEN_TYPES: Final[Mapping[str, str]] = {
    "string": "string",
    "integer": "number",
    "boolean": "boolean",
    CSV: "comma_delimited_list",
}


def declare_group(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare the values that a group offers, and its creation. Raises Lost."""
    is_scaling = resource.type == GROUPS[1]
    definition = resource.properties.get("resource" if is_scaling else "resource_def")
    if not isinstance(definition, Mapping) or not isinstance(definition.get("type"), str):
        raise Lost("defines no resource")
    type_, folder = scope.shared.environment.find_type(definition["type"], ())
    word = resource.properties.get("index_var", "%index%")
    pattern = word if isinstance(word, str) and word and not is_scaling else ""
    values = {name: scope.translate(value) for name, value in object_fields.mapping(definition, "properties").items()}
    if heat_files.is_template(type_):
        path = scope.shared.folders.find_file(type_, folder or scope.folder)
        document = heat_nested.read_template(type_, scope.shared.folders.read_text(path))
        nested = heat_nested.nest(resource, scope, document, path.parent)
    else:
        wanted = list_wanted(resource.stated_name, scope.document, is_scaling=is_scaling)
        document, values = make_document(definition, values, wanted, pattern)
        nested = heat_nested.nest(resource, scope, document, scope.folder)
    members = f"{resource.name}Members"
    for name in heat_nested.list_hidden_outputs(nested):
        scope.unreadable.add(f"{members}.map(each, each.status.outputs.{name})")

    def make() -> None:
        make_group(resource, scope, nested, values, pattern)

    resource.read_identity = lambda: heat_nested.read_name(resource, scope)
    resource.read_attribute = lambda path: read_member(resource, scope, nested, path)
    resource.make = make


def list_wanted(name: str, document: Mapping[str, Any], *, is_scaling: bool) -> list[list[str]]:
    """Return the attributes of members that a template reads, each with its path."""
    wanted: list[list[str]] = []
    pending: list[Any] = [document]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            path = each.get("get_attr")
            if (
                isinstance(path, list)
                and len(path) > 1
                and path[0] == name
                and all(isinstance(step, str | int) for step in path)
            ):
                found = split_path([str(step) for step in path[1:]], is_scaling=is_scaling)[1]
                wanted += [found] if found and found not in wanted else []
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return wanted


def split_path(path: Sequence[str], *, is_scaling: bool) -> tuple[str, list[str]]:
    """Split a group attribute into the index of the member ("" for all members) and the attribute of that member."""
    first, *rest = path
    if found := re.fullmatch(r"resource\.(\d+)(?:\.(.+))?", first):
        return found[1], [*([found[2]] if found[2] else ["refs"]), *rest]
    if first in ("refs", "refs_map"):
        return (rest[0] if rest else ""), ["refs"]
    if first in ("attributes", "outputs_list") and rest:
        return "", [*rest]
    if first in ("outputs", "current_size") and is_scaling:
        return "", []
    return "", [first, *rest]


def name_output(path: Sequence[str]) -> str:
    """Return the name of the member's output that provides an attribute."""
    return resource_naming.camel("-".join(path)) or "value"


def make_document(
    definition: Mapping[str, Any], values: Mapping[str, Value], wanted: Sequence[Sequence[str]], pattern: str
) -> tuple[Mapping[str, Any], dict[str, Value]]:
    """Return a template with one resource and its parameters: values with expressions or the index of the member."""
    parameters: dict[str, Any] = {}
    passed: dict[str, Value] = {}

    def take(value: Value) -> Any:
        if isinstance(value, Mapping):
            return {key: take(each) for key, each in value.items()}
        if isinstance(value, list):
            return [take(each) for each in value]
        if not isinstance(value, Expression | Mixed) and not (isinstance(value, str) and pattern and pattern in value):
            return value
        name = f"value{len(parameters) or ''}"
        parameters[name] = {"type": TOKEN_TYPES.get(value.type, "json") if isinstance(value, Expression) else "string"}
        passed[name] = value
        return {"get_param": name}

    member = {**definition, "properties": {name: take(value) for name, value in values.items()}}
    outputs = {
        name_output(path): {"value": {"get_resource": MEMBER} if path == ["refs"] else {"get_attr": [MEMBER, *path]}}
        for path in wanted
    }
    document = {
        "heat_template_version": "wallaby",
        "parameters": parameters,
        "resources": {MEMBER: member},
        "outputs": outputs,
    }
    return document, passed


def make_group(
    resource: HeatResource, scope: TemplateScope, nested: NestedTemplate, values: Mapping[str, Value], pattern: str
) -> None:
    """Fill `made`. Raises Lost."""
    inner = MemberValues(scope, pattern)
    passed = {name: inner.take(value) for name, value in values.items()}
    hidden = {name: value for name, value in values.items() if scope.is_hidden(value)}
    stack = heat_nested.make_parameters(
        resource, inner, nested, {name: value for name, value in passed.items() if name not in hidden}
    )
    if hidden:
        if any(isinstance(value, str | Mixed) and pattern and pattern in str(value) for value in hidden.values()):
            raise Lost("a hidden value contains the index of the member")
        texts = {
            nested.scope.parameter_names[name]: heat_values.to_string(value)
            for name, value in hidden.items()
            if name in nested.scope.parameter_names
        }
        name = inner.lift(scope.add_secret(f"{resource.name}-parameters", texts))
        stack.setdefault("parametersFrom", []).append({"secretRef": {"name": name}})
        resource.losses = [each for each in resource.losses if each.place.removeprefix("parameters.") not in hidden]
    spec: Object = {"replicas": read_size(resource, scope)}
    spec |= {"parameters": inner.lifted} if inner.lifted else {}
    spec |= read_rolling(resource) | read_removals(resource)
    manifest = heat_nested.make_hearth("Stack", {**stack, "template": Finished(nested.template)})
    # The template of a group has expressions of its own.
    spec["template"] = Finished({"manifest": heat_values.to_manifest(manifest)})
    metadata = {"name": heat_values.join([make_expression("stack.name", "string"), f"-{resource.name.lower()}"])}
    resource.made = {"manifest": heat_nested.make_hearth("ResourceGroup", spec, metadata)}


class MemberValues:
    """Values of a template inside a group: each expression becomes a parameter of the group."""

    def __init__(self, scope: TemplateScope, pattern: str) -> None:
        self._scope = scope
        self._pattern = pattern
        self.lifted: Object = {}
        self._names: dict[str, str] = {}

    def take(self, value: Value) -> Value:
        """Return a value as a member reads it."""
        match value:
            case Expression():
                return self.lift(value)
            case Mixed():
                return heat_values.join(
                    part for each in value.parts for part in heat_values.list_parts(self.take(each))
                )
            case str() if self._pattern and self._pattern in value:
                first, *rest = value.split(self._pattern)
                index = make_expression("key", "string")
                return heat_values.join([first, *(part for each in rest for part in (index, each))])
            case Mapping():
                return {key: self.take(each) for key, each in value.items()}
            case list():
                return [self.take(each) for each in value]
            case _:
                return value

    def lift(self, value: Expression) -> Expression:
        """Return a parameter of the group with the value of an expression."""
        if value.text not in self._names:
            name = f"value{len(self.lifted) or ''}"
            self._names[value.text] = name
            self.lifted[name] = value
        return make_expression(f"params.{self._names[value.text]}", value.type)

    # The methods that `make_parameters` calls on a scope.

    def is_hidden(self, _value: Value) -> bool:
        """Return False: hidden values were already removed."""
        return False

    def check_readable(self, _value: Value) -> None:
        """Check the values that become parameters of the group."""
        for each in self.lifted.values():
            self._scope.check_readable(each)

    def add_parameter(self, name: str, rules: Object) -> Expression:
        """Pass on a parameter that the Heat template does not have."""
        return self.lift(self._scope.add_parameter(name, rules))

    def add_secret(self, name: str, values: Mapping[str, Value]) -> Expression:
        """Pass on a Secret with values that are the same for all members. Raises Lost."""
        if not heat_values.is_plain(dict(values)):
            raise Lost("a hidden value differs between members")
        return self.lift(self._scope.add_secret(name, values))


def read_size(resource: HeatResource, scope: TemplateScope) -> Value:
    """Return the number of members. Raises Lost."""
    properties = resource.properties
    if resource.type == GROUPS[0]:
        return heat_values.to_integer(scope.translate(properties.get("count", 1)))
    for name in ("min_size", "max_size", "cooldown"):
        if name in properties:
            reason = "has no equivalent; scale the ResourceGroup with a HorizontalPodAutoscaler or KEDA"
            resource.losses.append(Loss(place=f"properties.{name}", reason=reason, value=properties[name]))
    size = properties.get("desired_capacity", properties.get("min_size", 1))
    return heat_values.to_integer(scope.translate(size))


def read_rolling(resource: HeatResource) -> Object:
    """Return the rolling update settings of the group."""
    policy = object_fields.mapping(resource.stated, "update_policy")
    rolling = object_fields.mapping(policy, "rolling_update") or object_fields.mapping(
        resource.properties, "rolling_updates"
    )
    unknown = [name for name in policy if name != "rolling_update"]
    resource.losses += [
        Loss(
            place=f"update_policy.{error_hints.shorten(name)}",
            reason="new members are created immediately",
            value=policy[name],
        )
        for name in unknown
    ]
    made: Object = {}
    for word, name in (("max_batch_size", "maxBatchSize"), ("min_in_service", "minInService")):
        if heat_parameters.is_number(rolling.get(word)):
            made[name] = int(float(rolling[word]))
    if heat_parameters.is_number(rolling.get("pause_time")) and float(rolling["pause_time"]) > 0:
        made["pauseTime"] = f"{min(int(float(rolling['pause_time'])), int(limits.ROLLING_PAUSE))}s"
    return {"rollingUpdate": made} if made else {}


def read_removals(resource: HeatResource) -> Object:
    """Return the removal policies of the group."""
    indices = [
        str(each)
        for policy in object_fields.entries(resource.properties, "removal_policies")
        for each in object_fields.elements(policy, "resource_list")
    ]
    known = [each for each in indices if re.fullmatch("0|[1-9][0-9]{0,4}", each)]
    if len(known) < len(indices):
        reason = "names members by something other than their index"
        resource.losses.append(Loss(place="properties.removal_policies", reason=reason, value=indices))
    made: Object = {"removalPolicies": [{"resources": known}]} if known else {}
    mode = resource.properties.get("removal_policies_mode")
    return made | ({"removalPoliciesMode": mode.title()} if mode in ("append", "update") else {})


def read_member(resource: HeatResource, scope: TemplateScope, nested: NestedTemplate, path: Sequence[Value]) -> Value:
    """Return an attribute of one member, or of all. Raises Lost."""
    is_scaling = resource.type == GROUPS[1]
    if not path or not all(isinstance(each, str | int) for each in path):
        raise Lost("an attribute of a group that is only known at run time has no equivalent")
    if path[0] == "current_size" and is_scaling:
        return scope.read_object(resource, "status.replicas", "integer")
    index, attribute = split_path([str(each) for each in path], is_scaling=is_scaling)
    members = add_members(resource, scope)
    if heat_files.is_template(
        str(object_fields.find(resource.properties, "resource" if is_scaling else "resource_def", "type"))
    ) or any(attribute[:1] == [each] for each in nested.scope.output_names):
        known = nested.scope.output_names.get(attribute[0]) if attribute else None
        rest = attribute[1:]
    else:
        known, rest = nested.scope.output_names.get(name_output(attribute)), []
    if attribute == ["refs"] and known is None:
        read = "metadata.name"
    elif known is None:
        raise Lost(f"the members have no attribute {error_hints.shorten('.'.join(attribute))}")
    else:
        read = heat_values.select(make_expression(f"status.outputs.{known}"), rest).text
    if not index:
        return make_expression(f"{members}.map(each, each.{read})", "list")
    return make_expression(
        f"{members}.filter(each, each.metadata.labels['hearth.dev/resource'] == '{index}')[0].{read}"
    )


def add_members(resource: HeatResource, scope: TemplateScope) -> str:
    """Return the list of the members of a group, which is read by their label."""
    name = f"{resource.name}Members"
    if name not in scope.extra:
        group = heat_values.join([make_expression("stack.name", "string"), f"-{resource.name.lower()}"])
        labels = {f"{names.GROUP}/stack": group}
        reference = heat_nested.make_hearth("Stack", {}) | {"metadata": {"selector": {"matchLabels": labels}}}
        reference.pop("spec")
        size = heat_values.to_cel(read_size(resource, scope))
        is_known = not re.search(r"\.(status|spec|data)\b", size)
        # The members may be seen later than the group that counts them as ready.
        is_ready = f"{name}.all(each, each.status.conditions.exists(it, it.type == 'Ready' && it.status == 'True'))"
        ready = {"readyWhen": Finished([f"size({name}) >= {size}", is_ready])} if is_known else {}
        scope.extra[name] = {**ready, "externalRef": reference}
    return name
