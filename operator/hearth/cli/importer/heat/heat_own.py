"""Converts Heat's own resource types: random strings, values, wait conditions, tests, nested stacks and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hearth.cli.importer.heat import heat_functions, heat_groups, heat_nested, heat_parameters, heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import Finished, Lost, Value, make_expression
from hearth.template.text import error_hints

DIGEST_LENGTH: Final = 64
LONGEST: Final = 512
"""Maximum length of a random text in Heat."""


def declare_random(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare a random text that is generated once: a digest of the UID of a Secret."""
    scope.hidden |= {f"{resource.name}.data", f"{resource.name}.?data"}

    def read() -> Value:
        encoded = heat_values.to_cel(scope.read_object(resource, "data.value", "string"))
        return make_expression(f"string(base64.decode({encoded}))", "string")

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
        if not isinstance(length, int) or length > DIGEST_LENGTH:
            more = "".join(f" + sha256('{at}' + digest)" for at in range(1, LONGEST // DIGEST_LENGTH))
            digest = f"cel.bind(digest, {digest}, digest{more})"
        content = make_expression(f"{digest}.substring(0, {heat_values.to_cel(length)})", "string")
        resource.made = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"value": content}}}
        for name in resource.properties:
            if name not in ("length", "salt"):
                reason = "the text contains only hexadecimal digits"
                resource.losses.append(
                    Loss(
                        place=f"properties.{error_hints.shorten(name)}", reason=reason, value=resource.properties[name]
                    )
                )

    resource.read_identity = read
    resource.read_attribute = only("value", read)
    resource.make = make


def declare_value(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare a value that is inserted where it is read."""

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
    """Declare a resource without an object, whose attributes are null."""
    resource.read_identity = lambda: None
    resource.read_attribute = lambda _path: None
    resource.make = lambda: None


def declare_test(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare a ConfigMap with the value."""

    def make() -> None:
        value = heat_values.to_string(scope.translate(resource.properties.get("value", "test_string")))
        resource.made = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value}}}
        for name, stated in resource.properties.items():
            if name != "value":
                reason = "a ConfigMap neither waits nor fails"
                resource.losses.append(
                    Loss(place=f"properties.{error_hints.shorten(name)}", reason=reason, value=stated)
                )

    resource.read_identity = lambda: heat_nested.read_name(resource, scope)
    resource.read_attribute = only("output", lambda: scope.read_object(resource, "data.value", "string"))
    resource.make = make


def declare_handle(resource: HeatResource, _scope: TemplateScope) -> None:
    """Declare a resource without an object. The ConfigMap of the wait condition receives the signals."""

    def read(path: Sequence[Value]) -> Value:
        if [*path] == ["curl_cli"]:
            # The command that does nothing, with any arguments: a server has no credentials of the cluster.
            return ":"
        raise Lost("a handle has no address here: write signals to the ConfigMap of the wait condition")

    resource.read_identity = lambda: read(("endpoint",))
    resource.read_attribute = read
    resource.make = lambda: None


def declare_wait(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare a ConfigMap that is ready when it has one key for each expected signal."""
    data = f"{resource.name}.?data.orValue({{}})"

    def make() -> None:
        properties = {name.lower(): value for name, value in resource.properties.items()}
        count = heat_values.to_cel(heat_values.to_integer(scope.translate(properties.get("count", 1))))
        resource.made = {
            "readyWhen": Finished([f"size({data}) >= {count}"]),
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap"},
        }
        reason = "a signal is a key in its ConfigMap, which a server cannot write without cluster credentials"
        resource.losses.append(Loss(place="properties.handle", reason=reason))
        if "timeout" in properties:
            reason = "the Stack's timeout (spec.timeout) applies"
            resource.losses.append(Loss(place="properties.timeout", reason=reason, value=properties["timeout"]))

    resource.read_identity = lambda: heat_nested.read_name(resource, scope)
    resource.read_attribute = only("data", lambda: make_expression(f"toJson({data})", "string"))
    resource.make = make


def only(name: str, read: Callable[[], Value]) -> Callable[[Sequence[Value]], Value]:
    """Return the expression that reads the only attribute of a resource."""

    def read_attribute(path: Sequence[Value]) -> Value:
        if not path or path[0] != name:
            raise Lost(f"the only attribute is {name}")
        return heat_functions.select(read(), path[1:])

    return read_attribute


FORMS: Final[Mapping[str, Callable[[HeatResource, TemplateScope], None]]] = {
    "OS::Heat::Stack": heat_nested.declare_stack,
    "OS::Heat::ResourceGroup": heat_groups.declare_group,
    "OS::Heat::AutoScalingGroup": heat_groups.declare_group,
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
"""Resources without an object in the Stack; nothing waits for them."""
