"""Converts software configurations to user data in Secrets, in the format of cloud-init. Deployments run at boot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer.heat import heat_values
from hearth.cli.importer.heat.heat_scope import HeatResource, TemplateScope
from hearth.cli.importer.heat.heat_types import Loss
from hearth.cli.importer.heat.heat_values import Lost, Value, make_expression
from hearth.model import object_fields
from hearth.model.child import Object
from hearth.template.text import error_hints

KEY: Final = "value"
"""The key of the Secret that the server controller reads."""
CONFIGS: Final = (
    "OS::Heat::SoftwareConfig",
    "OS::Heat::CloudConfig",
    "OS::Heat::MultipartMime",
    "OS::Heat::StructuredConfig",
)
DEPLOYMENT: Final = "OS::Heat::SoftwareDeployment"
AT_BOOT: Final = ("script", "ungrouped", "Heat::Ungrouped", "cloud-init", None)
"""Groups of configurations that the server runs without an agent."""
SHELL: Final = re.compile(r"#!\s*\S*?(?:/env\s+)?(?:/|\b)(?:ba|da|k|z|a)?sh\b[^\n]*\n")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def declare(resource: HeatResource, scope: TemplateScope) -> None:
    """Declare the value of a configuration: its text, because Heat resolves its ID where it is needed."""

    def read_attribute(path: Sequence[Value]) -> Value:
        if [*path] != ["config"]:
            raise Lost(f"a configuration has no attribute {error_hints.shorten(str(path[:1]))}")
        return read_config(resource, scope)

    resource.read_identity = lambda: read_config(resource, scope)
    resource.read_attribute = read_attribute


def convert(resource: HeatResource, scope: TemplateScope) -> None:
    """Make a Secret of a configuration. Raises Lost."""
    text = read_config(resource, scope)
    group = resource.properties.get("group")
    if resource.type == "OS::Heat::StructuredConfig" or (resource.type == CONFIGS[0] and group not in AT_BOOT):
        reason = "nothing runs it: its text is only stored in a Secret"
        resource.losses.append(Loss(place="properties.group", reason=reason, value=group))
    for name in ("outputs", "options"):
        if resource.properties.get(name):
            loss = Loss(place=f"properties.{name}", reason="servers report no results", value=resource.properties[name])
            resource.losses.append(loss)
    manifest = {"apiVersion": "v1", "kind": "Secret", "stringData": {KEY: text}}
    resource.made = {"updatePolicy": {"replace": "CreateFirst", "replaceOn": ["stringData"]}, "manifest": manifest}


def read_config(resource: HeatResource, scope: TemplateScope) -> Value:
    """Return the text of a configuration. Raises Lost."""
    properties = resource.properties
    match resource.type:
        case "OS::Heat::MultipartMime":
            parts = [
                part
                for each in heat_values.to_list(properties.get("parts"))
                if (part := read_part(each, scope)) is not None
            ]
            return make_multipart(parts, resource.name)
        case "OS::Heat::CloudConfig":
            content = heat_values.to_yaml(scope.translate(properties.get("cloud_config")))
            return heat_values.join(["#cloud-config\n", *heat_values.list_parts(content)])
        case _:
            config = scope.translate(properties.get("config", ""))
            return heat_values.to_string(config if config is not None else "")


def read_part(stated: Any, scope: TemplateScope) -> tuple[str, Value] | None:
    """Return the headers and the text of a part of a multipart text. Raises Lost."""
    if not isinstance(stated, Mapping):
        raise Lost(f"a part must be a map, found {error_hints.describe(stated)}")
    text = heat_values.to_string(scope.translate(stated.get("config")))
    if text is None:
        return None
    subtype, name = stated.get("subtype") or "plain", stated.get("filename")
    if not re.fullmatch(r"[\w.+-]+", str(subtype)) or (name and not re.fullmatch(r"[\w. /+-]+", str(name))):
        raise Lost("a part has a subtype or file name that a header cannot contain")
    disposition = f'Content-Disposition: attachment; filename="{name}"\n' if name else ""
    # A multipart text contains its own type.
    headers = "" if stated.get("type") == "multipart" else make_headers(str(subtype))
    return headers + disposition + ("\n" if headers else ""), text


def make_headers(subtype: str) -> str:
    """Return the headers of a text; of `plain`, cloud-init looks at the first line."""
    return f'Content-Type: text/{subtype}; charset="utf-8"\nMIME-Version: 1.0\n'


def make_multipart(parts: Sequence[tuple[str, Value]], name: str) -> Value:
    """Return parts, each with its headers, as one text. name: makes the boundary. Raises Lost if it is too long."""
    boundary = f"===== hearth {name} ====="

    def write() -> Iterator[Any]:
        yield f'Content-Type: multipart/mixed; boundary="{boundary}"\nMIME-Version: 1.0\n\n'
        for headers, text in parts:
            yield f"--{boundary}\n{headers}"
            yield from heat_values.list_parts(text)
            yield "\n"
        yield f"--{boundary}--\n"

    return heat_values.join(write())


# The user data of a server.


def add_user_data(fields: Object, resource: HeatResource, scope: TemplateScope) -> None:
    """Add the reference to the Secret with the user data of a server. Raises Lost."""
    stated = resource.properties.get("user_data")
    parts = [
        part
        for each in scope.deployments.get(resource.stated_name, ())
        if (part := read_deployment(each, scope)) is not None
    ]
    if stated is None and not parts:
        return
    if stated is not None and resource.properties.get("user_data_format", "HEAT_CFNTOOLS") == "HEAT_CFNTOOLS":
        reason = "the user data is passed unchanged, without the tools of HEAT_CFNTOOLS"
        resource.losses.append(Loss(place="properties.user_data_format", reason=reason))
    if not parts and (secret := find_secret(stated, scope)):
        fields["userData"] = {"secretRef": make_expression(f"{secret}.metadata.name", "string")}
        return
    text = None if stated is None else heat_values.to_string(scope.translate(stated))
    if parts:
        own = [] if text is None else [(make_headers("plain") + "\n", text)]
        text = make_multipart([*own, *parts], resource.name)
    if text is not None:
        scope.check_readable(text)
        fields["userData"] = {"secretRef": scope.add_secret(f"{resource.name}-user-data", {KEY: text})}


def find_secret(stated: Any, scope: TemplateScope) -> str:
    """Return the resource whose Secret is the user data; "" without one."""
    name = stated.get("get_resource") if isinstance(stated, Mapping) and len(stated) == 1 else None
    if not isinstance(name, str) or scope.find_resource(name).type not in CONFIGS:
        return ""
    return "" if "condition" in scope.resources[name].stated else scope.resources[name].name


# Deployments.


def declare_deployment(resource: HeatResource, scope: TemplateScope) -> None:
    """Record a deployment for its server. Raises Lost if it cannot run at boot."""
    server, config = (find_stated(resource, word, scope) for word in ("server", "config"))
    actions = resource.properties.get("actions", ["CREATE"])
    if scope.find_resource(server).kind != "Server":
        raise Lost("its server is not in this template")
    found = scope.find_resource(config)
    if found.type != CONFIGS[0] or found.properties.get("group") not in AT_BOOT:
        raise Lost("its configuration needs an agent on the server; put it into an image or a script")
    if not isinstance(actions, list) or "CREATE" not in actions:
        raise Lost("it does not run at server creation, and servers run configurations only then")
    if is_after(resource, server, scope):
        raise Lost("it needs values that only exist after the server is created, but user data is rendered before")
    resource.waits_for = server
    resource.losses.append(
        Loss(
            place="properties",
            reason="runs once, when the server boots; it reports nothing, and its dependents only wait for the server",
        )
    )
    scope.deployments.setdefault(server, []).append(resource)


def find_stated(resource: HeatResource, word: str, scope: TemplateScope) -> str:
    """Return the name, in the template, of the resource that a property refers to. Raises Lost."""
    stated = resource.properties.get(word)
    name = stated.get("get_resource") if isinstance(stated, Mapping) and len(stated) == 1 else None
    if not isinstance(name, str):
        raise Lost(f"its {word} is not a resource of this template")
    scope.find_resource(name)
    return name


def is_after(resource: HeatResource, server: str, scope: TemplateScope) -> bool:
    """Whether a deployment needs something that exists only after its server."""
    due = [resource.stated_name]
    seen: set[str] = set()
    while due:
        name = due.pop()
        other = scope.resources.get(name)
        if name in seen or other is None:
            continue
        seen.add(name)
        is_deployed = other.type == DEPLOYMENT
        parts = (
            [other.properties.get("input_values"), other.properties.get("config")]
            if is_deployed
            else [other.properties]
        )
        found = {
            *list_references([*parts, other.stated.get("condition")]),
            *list_names(other.stated.get("depends_on")),
        }
        found |= {each.stated_name for each in scope.deployments.get(name, ())}
        if server in found:
            return True
        due += found
    return False


def list_references(value: Any) -> Iterator[str]:
    """Yield the names, in the template, of the resources that a value refers to."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            for word, argument in each.items():
                if word == "get_resource" and isinstance(argument, str):
                    yield argument
                elif word == "get_attr" and isinstance(argument, list) and argument and isinstance(argument[0], str):
                    yield argument[0]
            pending += each.values()
        elif isinstance(each, list):
            pending += each


def list_names(stated: Any) -> list[str]:
    """Return the names in `depends_on`."""
    listed = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    return [each for each in listed if isinstance(each, str)]


def read_deployment(resource: HeatResource, scope: TemplateScope) -> tuple[str, Value] | None:
    """Return a deployment as a part of user data. If that is impossible, record the reason and return None."""
    try:
        config = scope.find_resource(str(object_fields.find(resource.properties, "config", "get_resource")))
        text = read_config(config, scope)
        values = scope.translate(resource.properties.get("input_values") or {})
        inputs = {
            str(each.get("name")): each.get("default") for each in object_fields.entries(config.properties, "inputs")
        }
        if not isinstance(values, Mapping):
            raise Lost("its values are a map that is only known at run time")
        lines = [part for name, value in {**inputs, **values}.items() for part in export(name, value)]
        if not lines:
            return make_headers("plain") + "\n", text
        first, *rest = heat_values.list_parts(text)
        shebang = SHELL.match(first) if isinstance(first, str) else None
        if shebang is None or not isinstance(first, str):
            raise Lost("its values are shell variables, but it is not a shell script")
        return make_headers("x-shellscript") + "\n", heat_values.join(
            [shebang[0], *lines, first[shebang.end() :], *rest]
        )
    except Lost as reason:
        resource.reason = str(reason)
        return None


def export(name: str, value: Value) -> Sequence[Any]:
    """Return the shell line that sets an input, as Heat's script hook does."""
    if value is None:
        return []
    if not NAME.fullmatch(name):
        raise Lost(f"its input {error_hints.shorten(name)} is not the name of a variable")
    quoted = [
        part.replace("'", "'\\''")
        if isinstance(part, str)
        else make_expression(f"string({part.text}).replace(\"'\", \"'\\\\''\")", "string")
        for part in heat_values.list_parts(value)
    ]
    return [f"export {name}='", *quoted, "'\n"]
