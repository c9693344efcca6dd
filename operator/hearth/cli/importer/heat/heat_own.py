"""Heat's own resources as those of Hearth: nested Stacks, groups, random texts, wait conditions, values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer import resource_naming
from hearth.cli.importer.heat import heat_files, heat_functions, heat_parameters, heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, NestedTemplate, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import CSV, Expression, Finished, Lost, Mixed, Value, make_expression
from hearth.cli.importer.manifest_documents import SourceText
from hearth.model import limits, names, object_fields
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
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


def make_hearth(kind: str, spec: Object, metadata: Object | None = None) -> Object:
    """Return an object of one of Hearth's kinds."""
    named = {"metadata": metadata} if metadata else {}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": kind, **named, "spec": spec}


def read_name(resource: HeatResource) -> Value:
    """Return the name of the object of a resource."""
    return make_expression(f"{resource.name}.metadata.name", "string")


# Nested templates.


def nest(resource: HeatResource, scope: TemplateScope, document: Mapping[str, Any], folder: Any) -> NestedTemplate:
    """Return the template of a nested Stack. Raises Lost."""
    resource.nested = scope.shared.nest(document, folder, (*scope.path, resource.stated_name))
    return resource.nested


def read_template(name: str, content: str) -> Mapping[str, Any]:
    """Return a document that is nested. Raises Lost."""
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
        raise Lost("its template is one that only a run knows")
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
    resource: HeatResource, scope: TemplateScope, document: Mapping[str, Any], folder: Any, values: Mapping[str, Any]
) -> None:
    """State what reads of a nested Stack give, and how it is made. Raises Lost."""
    nested = nest(resource, scope, document, folder)
    status = f"{resource.name}.status.outputs"
    scope.unreadable |= {f"{status}.{each}" for each in list_hidden_outputs(nested)}

    def read_attribute(path: Sequence[Value]) -> Value:
        first, *rest = path or [None]
        if first == "outputs" and resource.type == "OS::Heat::Stack":
            if not rest:
                return make_expression(status, "map")
            first, *rest = rest
        if not isinstance(first, str) or first not in nested.scope.output_names:
            raise Lost(f"the nested template has no output {error_hints.shorten(str(first))}")
        return heat_values.select(make_expression(f"{status}.{nested.scope.output_names[first]}"), rest)

    def make() -> None:
        spec = make_parameters(
            resource, scope, nested, {name: scope.translate(value) for name, value in values.items()}
        )
        resource.made = {
            "manifest": make_hearth(
                "Stack", {**spec, **read_context(resource, scope), "template": Finished(nested.template)}
            )
        }

    resource.read_identity = lambda: read_name(resource)
    resource.read_attribute = read_attribute
    resource.make = make


def list_hidden_outputs(nested: NestedTemplate) -> list[str]:
    """Return the outputs of a template that no status shows."""
    return [name for name in nested.scope.output_names.values() if name in nested.scope.hidden_outputs]


def make_parameters(
    resource: HeatResource, scope: TemplateScope, nested: NestedTemplate, values: Mapping[str, Value]
) -> Object:
    """Return the parameters of a nested Stack: those that are hidden in a Secret. Raises Lost."""
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
        Loss(place=f"parameters.{error_hints.shorten(name)}", reason="is no parameter of the nested template")
        for name in unknown
    ]
    for word, (own, rules) in nested.scope.own_parameters.items():
        passed[own] = scope.add_parameter(word, rules)
    made: Object = {"parameters": passed} if passed else {}
    if secret:
        made["parametersFrom"] = [{"secretRef": {"name": scope.add_secret(f"{resource.name}-parameters", secret)}}]
    return made


def read_context(resource: HeatResource, scope: TemplateScope) -> Object:
    """Return in which cluster a nested Stack of another region is. Raises Lost."""
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
                f"{resource.stated_name} is in another region: a Secret {shown} with a kubeconfig says in which cluster its controllers are"
            )
        else:
            reason = "the kubeconfig and clouds.yaml there say it"
            resource.losses.append(
                Loss(place=f"properties.context.{error_hints.shorten(str(name))}", reason=reason, value=value)
            )
    timeout = properties.get("timeout")
    if heat_parameters.is_number(timeout) and float(timeout) > 0:
        made["timeout"] = f"{int(float(timeout))}m"
    return made


# Groups. Each member is a nested Stack, and its parameters are those of the group: values of the template, and the index.


def declare_group(resource: HeatResource, scope: TemplateScope) -> None:
    """State what reads of a group give, and how it is made. Raises Lost."""
    is_scaling = resource.type == GROUPS[1]
    definition = resource.properties.get("resource" if is_scaling else "resource_def")
    if not isinstance(definition, Mapping) or not isinstance(definition.get("type"), str):
        raise Lost("states no resource")
    type_, folder = scope.shared.environment.find_type(definition["type"], ())
    word = resource.properties.get("index_var", "%index%")
    pattern = word if isinstance(word, str) and word and not is_scaling else ""
    values = {name: scope.translate(value) for name, value in object_fields.mapping(definition, "properties").items()}
    if heat_files.is_template(type_):
        path = scope.shared.folders.find_file(type_, folder or scope.folder)
        document, folder = read_template(type_, scope.shared.folders.read_text(path)), path.parent
    else:
        wanted = list_wanted(resource.stated_name, scope.document, is_scaling=is_scaling)
        document, values = make_document(definition, values, wanted, pattern)
        folder = scope.folder
    nested = nest(resource, scope, document, folder)
    members = f"{resource.name}Members"
    for name in list_hidden_outputs(nested):
        scope.unreadable.add(f"{members}.map(each, each.status.outputs.{name})")

    def make() -> None:
        make_group(resource, scope, nested, values, pattern)

    resource.read_identity = lambda: read_name(resource)
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
    """Return the index of the member that an attribute of a group is of, "" for all, and the attribute of the member."""
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
    """Return the output of a member that an attribute is read from."""
    return resource_naming.camel("-".join(path)) or "value"


def make_document(
    definition: Mapping[str, Any], values: Mapping[str, Value], wanted: Sequence[Sequence[str]], pattern: str
) -> tuple[Mapping[str, Any], Mapping[str, Value]]:
    """Return a template with one resource, and its parameters: each value that is not the same for every member and every run."""
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
    stack = make_parameters(
        resource, inner, nested, {name: value for name, value in passed.items() if name not in hidden}
    )
    if hidden:
        if any(isinstance(value, str | Mixed) and pattern and pattern in str(value) for value in hidden.values()):
            raise Lost("a value is hidden and has the index of the member")
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
    manifest = make_hearth("Stack", {**stack, "template": Finished(nested.template)})
    # The template of a group has expressions of its own.
    spec["template"] = Finished({"manifest": heat_values.to_manifest(manifest)})
    metadata = {"name": heat_values.join([make_expression("stack.name", "string"), f"-{resource.name.lower()}"])}
    resource.made = {"manifest": make_hearth("ResourceGroup", spec, metadata)}


class MemberValues:
    """Values of a template as those of a group: each expression becomes a parameter of the group."""

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

    # What `make_parameters` needs of a scope.

    def is_hidden(self, _value: Value) -> bool:
        """Return False: hidden values have been taken out."""
        return False

    def check_readable(self, _value: Value) -> None:
        """Check the values that are lifted."""
        for each in self.lifted.values():
            self._scope.check_readable(each)

    def add_parameter(self, name: str, rules: Object) -> Expression:
        """Pass on a parameter that Heat does without."""
        return self.lift(self._scope.add_parameter(name, rules))

    def add_secret(self, name: str, values: Mapping[str, Value]) -> Expression:
        """Pass on a Secret with values that are the same for all members. Raises Lost."""
        if not heat_values.is_plain(dict(values)):
            raise Lost("a hidden value is not the same for all members")
        return self.lift(self._scope.add_secret(name, values))


def read_size(resource: HeatResource, scope: TemplateScope) -> Value:
    """Return the number of members. Raises Lost."""
    properties = resource.properties
    if resource.type == GROUPS[0]:
        return heat_values.to_integer(scope.translate(properties.get("count", 1)))
    for name in ("min_size", "max_size", "cooldown"):
        if name in properties:
            reason = "is for a HorizontalPodAutoscaler or KEDA, which scale the ResourceGroup"
            resource.losses.append(Loss(place=f"properties.{name}", reason=reason, value=properties[name]))
    size = properties.get("desired_capacity", properties.get("min_size", 1))
    return heat_values.to_integer(scope.translate(size))


def read_rolling(resource: HeatResource) -> Object:
    """Return how the members change one after another."""
    policy = object_fields.mapping(resource.stated, "update_policy")
    rolling = object_fields.mapping(policy, "rolling_update") or object_fields.mapping(
        resource.properties, "rolling_updates"
    )
    unknown = [name for name in policy if name != "rolling_update"]
    resource.losses += [
        Loss(
            place=f"update_policy.{error_hints.shorten(name)}",
            reason="new members are created at once",
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
    """Return which members go."""
    indices = [
        str(each)
        for policy in object_fields.entries(resource.properties, "removal_policies")
        for each in object_fields.elements(policy, "resource_list")
    ]
    known = [each for each in indices if re.fullmatch("0|[1-9][0-9]{0,4}", each)]
    if len(known) < len(indices):
        reason = "names members by something else than their index"
        resource.losses.append(Loss(place="properties.removal_policies", reason=reason, value=indices))
    made: Object = {"removalPolicies": [{"resources": known}]} if known else {}
    mode = resource.properties.get("removal_policies_mode")
    return made | ({"removalPoliciesMode": mode.title()} if mode in ("append", "update") else {})


def read_member(resource: HeatResource, scope: TemplateScope, nested: NestedTemplate, path: Sequence[Value]) -> Value:
    """Return an attribute of one member, or of all. Raises Lost."""
    is_scaling = resource.type == GROUPS[1]
    if not path or not all(isinstance(each, str | int) for each in path):
        raise Lost("an attribute of a group that only a run knows")
    if path[0] == "current_size" and is_scaling:
        return make_expression(f"{resource.name}.status.replicas", "integer")
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
        reference = make_hearth("Stack", {}) | {"metadata": {"selector": {"matchLabels": labels}}}
        reference.pop("spec")
        size = heat_values.to_cel(read_size(resource, scope))
        is_known = not re.search(r"\.(status|spec|data)\b", size)
        ready = {"readyWhen": Finished([f"size({name}) >= {size}"])} if is_known else {}
        scope.extra[name] = {**ready, "externalRef": reference}
    return name


# Small ones.


def declare_random(resource: HeatResource, scope: TemplateScope) -> None:
    """A text that is made once: a digest of the identity that the API server draws for a Secret."""
    value = f"string(base64.decode({resource.name}.data.value))"
    scope.hidden.add(f"{resource.name}.data")

    def make() -> None:
        length = heat_values.to_integer(scope.translate(resource.properties.get("length", 32)))
        salt = heat_values.to_string(scope.translate(resource.properties.get("salt", "")))
        seed = scope.add_resource(
            f"{resource.name}-seed", {"manifest": {"apiVersion": "v1", "kind": "Secret", "immutable": True}}
        )
        identity = heat_values.to_cel(
            heat_values.join([make_expression(f"{seed}.metadata.uid", "string"), *heat_values.list_parts(salt)])
        )
        digest = f"sha256({identity})"
        is_long = not isinstance(length, int) or length > 64
        more = "".join(f" + sha256('{at}' + {digest})" for at in range(1, 8)) if is_long else ""
        text = f"({digest}{more})" if more else digest
        content = make_expression(f"{text}.substring(0, {heat_values.to_cel(length)})", "string")
        resource.made = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"value": content}}}
        for name in resource.properties:
            if name not in ("length", "salt"):
                reason = "the text has digits and letters from a to f"
                resource.losses.append(
                    Loss(
                        place=f"properties.{error_hints.shorten(name)}", reason=reason, value=resource.properties[name]
                    )
                )

    resource.read_identity = lambda: make_expression(value, "string")
    resource.read_attribute = only("value", lambda: make_expression(value, "string"))
    resource.make = make


def declare_value(resource: HeatResource, scope: TemplateScope) -> None:
    """A value that is written where it is read."""

    def read() -> Value:
        value = scope.translate(resource.properties.get("value"))
        match resource.properties.get("type"):
            case "number":
                value = heat_values.to_integer(value) if not heat_parameters.is_fraction(value) else value
            case "boolean":
                value = heat_values.to_boolean(value)
            case "string":
                value = heat_values.to_string(value)
        # A list or a map as an expression has a bounded length, however often it is read.
        return (
            make_expression(heat_values.to_cel(value), "list" if isinstance(value, list) else "map")
            if isinstance(value, list | dict)
            else value
        )

    resource.read_attribute = only("value", read)
    resource.read_identity = read
    resource.make = lambda: None


def declare_none(resource: HeatResource, _scope: TemplateScope) -> None:
    """Nothing: its attributes are null."""
    resource.read_identity = lambda: None
    resource.read_attribute = lambda _path: None
    resource.make = lambda: None


def declare_test(resource: HeatResource, scope: TemplateScope) -> None:
    """A ConfigMap with the value."""

    def make() -> None:
        value = heat_values.to_string(scope.translate(resource.properties.get("value", "test_string")))
        resource.made = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value}}}
        for name, stated in resource.properties.items():
            if name != "value":
                reason = "a ConfigMap neither waits nor fails"
                resource.losses.append(
                    Loss(place=f"properties.{error_hints.shorten(name)}", reason=reason, value=stated)
                )

    resource.read_identity = lambda: read_name(resource)
    resource.read_attribute = only("output", lambda: make_expression(f"{resource.name}.data.value", "string"))
    resource.make = make


def declare_handle(resource: HeatResource, _scope: TemplateScope) -> None:
    """Nothing: the ConfigMap of the wait condition takes the signals."""

    def read(path: Sequence[Value]) -> Value:
        if [*path] == ["curl_cli"]:
            # The command that does nothing, with any arguments: a server has no credentials of the cluster.
            return ":"
        raise Lost("a handle has no address here: signals are written into the ConfigMap of the wait condition")

    resource.read_identity = lambda: read(("endpoint",))
    resource.read_attribute = read
    resource.make = lambda: None


def declare_wait(resource: HeatResource, scope: TemplateScope) -> None:
    """A ConfigMap that is ready when it has as many keys as there should be signals."""
    data = f"{resource.name}.?data.orValue({{}})"

    def make() -> None:
        properties = {name.lower(): value for name, value in resource.properties.items()}
        count = heat_values.to_cel(heat_values.to_integer(scope.translate(properties.get("count", 1))))
        resource.made = {
            "readyWhen": Finished([f"size({data}) >= {count}"]),
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap"},
        }
        reason = "a signal is a key of its ConfigMap, which a server cannot write without credentials of the cluster"
        resource.losses.append(Loss(place="properties.handle", reason=reason))
        if "timeout" in properties:
            reason = "the timeout of the Stack counts (spec.timeout)"
            resource.losses.append(Loss(place="properties.timeout", reason=reason, value=properties["timeout"]))

    resource.read_identity = lambda: read_name(resource)
    resource.read_attribute = only("data", lambda: make_expression(f"toJson({data})", "string"))
    resource.make = make


def only(name: str, read: Callable[[], Value]) -> Callable[[Sequence[Value]], Value]:
    """Return what reads the only attribute of a resource."""

    def read_attribute(path: Sequence[Value]) -> Value:
        if not path or path[0] != name:
            raise Lost(f"there is only the attribute {name}")
        return heat_functions.select(read(), path[1:])

    return read_attribute


FORMS: Final[Mapping[str, Callable[[HeatResource, TemplateScope], None]]] = {
    "OS::Heat::Stack": declare_stack,
    "OS::Heat::ResourceGroup": declare_group,
    "OS::Heat::AutoScalingGroup": declare_group,
    "OS::Heat::RandomString": declare_random,
    "OS::Heat::Value": declare_value,
    "OS::Heat::None": declare_none,
    "OS::Heat::TestResource": declare_test,
    "OS::Heat::WaitCondition": declare_wait,
    "OS::Heat::WaitConditionHandle": declare_handle,
    "AWS::CloudFormation::WaitCondition": declare_wait,
    "AWS::CloudFormation::WaitConditionHandle": declare_handle,
}
WITHOUT_OBJECT: Final = frozenset(
    {"OS::Heat::Value", "OS::Heat::None", "OS::Heat::WaitConditionHandle", "AWS::CloudFormation::WaitConditionHandle"}
)
"""What the Stack has no object for; nothing waits for it."""
