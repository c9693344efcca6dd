"""The names, references and objects of one template during its conversion.

Each resource declares how its values are read; `TemplateScope` looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from hearth.cli.importer import resource_naming, template_names
from hearth.cli.importer.heat import heat_functions, heat_types, heat_values
from hearth.cli.importer.heat.heat_files import HeatEnvironment, HeatFolders
from hearth.cli.importer.heat.heat_parameters import HeatParameter
from hearth.cli.importer.heat.heat_types import Loss, Row
from hearth.cli.importer.heat.heat_values import Expression, Lost, Value, make_expression
from hearth.model import limits, object_fields
from hearth.model.child import Object
from hearth.template.cel import cel_environment
from hearth.template.parser import template_parser
from hearth.template.text import error_hints

UUID: Final = "^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$"
IDENTITY: Final = ".status.id"
FILTERS: Final[Mapping[str, str]] = {"FloatingIP": "floatingIP"}
"""By kind, the search criterion for an existing object that is given without its ID, if that is not its name."""
READS: Final = 64
"""Maximum depth of references between values of resources."""
NESTED_TEMPLATES: Final = 200
"""Nested templates in one conversion. A template counts each time it is nested."""


@dataclass(slots=True, kw_only=True)
class HeatResource:
    """One resource of a Heat template, and its conversion."""

    stated_name: str
    name: str
    stated: Mapping[str, Any]
    type: str
    """The type after the environment's mappings: a type, or the name of a file."""
    folder: Path | None = None
    """Directory that contains this file."""
    row: Row = field(default_factory=dict)
    """Its row in the table of types, or empty if Hearth replaces it."""
    kind: str = ""
    """The kind of its object, if a row makes it."""
    made: Object | None = None
    """The resource of the Stack, or None if it becomes part of another resource or has none."""
    waits_for: str = ""
    """The name, in the template, of the resource that it is a part of."""
    reason: str = ""
    """Why it is not converted."""
    losses: list[Loss] = field(default_factory=list)
    read_identity: Callable[[], Value] | None = None
    read_attribute: Callable[[Sequence[Value]], Value] | None = None
    make: Callable[[], None] | None = None
    """Fills `made`. Raises Lost."""
    nested: NestedTemplate | None = None

    @property
    def properties(self) -> Mapping[str, Any]:
        """Return the properties."""
        return object_fields.mapping(self.stated, "properties")


@dataclass(slots=True, kw_only=True)
class SharedImport:
    """State that all templates of one conversion share."""

    folders: HeatFolders
    environment: HeatEnvironment
    convert_template: Callable[[SharedImport, Mapping[str, Any], Path | None, tuple[str, ...]], NestedTemplate]
    """Converts a document; takes its directory and its path as well."""
    nested: dict[tuple[tuple[str, ...], bytes], NestedTemplate] = field(default_factory=dict)
    """By path and content.

    A template is converted repeatedly until it reads nothing that is lost, but its nested templates are converted only
    once.
    """

    def nest(self, document: Mapping[str, Any], folder: Path | None, path: tuple[str, ...]) -> NestedTemplate:
        """Return a nested template. Raises Lost if there are too many."""
        key = (path, orjson.dumps(document))
        if key not in self.nested:
            if len(path) + 1 >= limits.NESTED_DEPTH or len(self.nested) >= NESTED_TEMPLATES:
                raise Lost("nests too many templates")
            self.nested[key] = self.convert_template(self, document, folder, path)
        return self.nested[key]


@dataclass(slots=True, kw_only=True)
class NestedTemplate:
    """A template that is converted, for the Stack that nests it."""

    template: Object
    scope: TemplateScope
    breakpoints: list[tuple[str, list[str]]] = field(default_factory=list)
    """Paths of resources, and where they stop."""
    denials: list[tuple[str, list[str]]] = field(default_factory=list)
    """Paths of resources, and the actions that are denied."""


class TemplateScope:
    """The names and references of one template. Implements `References` and `PropertyReader`."""

    condition: Any = None
    """The condition of the converted resource, as in the template."""

    def __init__(
        self, shared: SharedImport, document: Mapping[str, Any], *, folder: Path | None, path: tuple[str, ...] = ()
    ) -> None:
        """folder: of the template; path: the resources that lead to it."""
        self.shared, self.document, self.folder, self.path = shared, document, folder, path
        stated = {
            section: object_fields.mapping(document, section)
            for section in ("parameters", "resources", "outputs", "conditions")
        }
        self.parameter_names = template_names.choose_fields(stated["parameters"])
        self.resource_names = template_names.choose_ids(stated["resources"])
        self.output_names = template_names.choose_fields(stated["outputs"])
        self.condition_names = template_names.choose_fields(stated["conditions"])
        self.parameters: dict[str, HeatParameter] = {}
        """By name in the template."""
        self.own_parameters: dict[str, tuple[str, Object]] = {}
        """Parameters that the Heat template does not have: name and rules by purpose."""
        self.resources: dict[str, HeatResource] = {}
        """By name in the template."""
        self.deployments: dict[str, list[HeatResource]] = {}
        """Deployments to a server, by the server's name in the template."""
        self.extra: dict[str, Object] = {}
        """Resources of the Stack that the template does not have."""
        self.when: Object = {}
        """The condition of the converted resource, which also applies to the objects it adds."""
        self.hidden: set[str] = set()
        """Prefixes of expressions whose values are hidden from statuses."""
        self.unreadable: set[str] = set()
        """Prefixes of expressions that only outputs may read: hidden outputs of nested Stacks."""
        self.hidden_outputs: set[str] = set()
        self.losses: list[Loss] = []
        """Losses of the part that is being converted: a resource, an output, or the remaining template."""
        self.notes: list[str] = []
        self._imports: dict[tuple[str, str], str] = {}
        self._depth = 0

    # References.

    def translate(self, value: Any) -> Value:
        """Return a value with its functions as expressions. Raises Lost."""
        return heat_functions.translate(value, self)

    def read_parameter(self, name: str) -> Value:
        """Return the value of a parameter. Raises Lost."""
        match name:
            case "OS::stack_name":
                return make_expression("stack.name", "string")
            case "OS::stack_id":
                return make_expression("stack.uid", "string")
            case "OS::project_id":
                self.losses.append(
                    Loss(place="OS::project_id", reason="becomes the parameter projectId, which you must set")
                )
                return self.add_parameter("projectId", {"type": "string", "description": "ID of the project"})
        if name not in self.parameters:
            raise Lost(f"there is no parameter {error_hints.shorten(name)}")
        return make_expression(f"params.{self.parameter_names[name]}", self.parameters[name].type)

    def read_resource(self, name: str) -> Value:
        """Return the identity of a resource. Raises Lost."""
        resource = self.find_resource(name)
        if resource.read_identity is None:
            raise Lost(f"{resource.type} {resource.stated_name} has no identity here")
        return self._read_deeper(resource.read_identity)

    def read_attribute(self, name: str, path: Sequence[Value]) -> Value:
        """Return an attribute of a resource. Raises Lost."""
        resource, read = self.find_resource(name), None
        read = resource.read_attribute
        if read is None:
            raise Lost(f"{resource.type} {resource.stated_name} has no attributes here")
        return self._read_deeper(lambda: read(path))

    def read_object(self, resource: HeatResource, path: str, type_: str = "") -> Expression:
        """Return a value from the object of a resource; optional if the resource has a condition that the reader does
        not have.
        """
        condition = resource.stated.get("condition", self.condition)
        if condition == self.condition:
            return make_expression(f"{resource.name}.{path}", type_)
        return make_expression(f"{resource.name}.?{path}", heat_values.OPTIONAL)

    def lose(self, what: str, reason: str) -> None:
        """Record that a part of a value is lost while the rest is kept."""
        self.losses.append(Loss(place=what, reason=reason))

    def _read_deeper(self, read: Callable[[], Value]) -> Value:
        if self._depth >= READS:
            raise Lost("refers to itself or is nested too deeply")
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1

    def read_file(self, name: str) -> str:
        """Return the text of a file. Raises Lost."""
        folders = self.shared.folders
        return folders.read_text(folders.find_file(name, self.folder))

    def read_condition(self, name: str) -> Value:
        """Return a condition by its name. Raises Lost."""
        if name not in self.condition_names:
            raise Lost(f"there is no condition {error_hints.shorten(name)}")
        return make_expression(f"conditions.{self.condition_names[name]}", "boolean")

    def find_resource(self, name: str) -> HeatResource:
        """Return a resource that is converted. Raises Lost."""
        resource = self.resources.get(name)
        if resource is None:
            raise Lost(f"there is no resource {error_hints.shorten(name)}")
        if resource.reason:
            raise Lost(f"{resource.type} {error_hints.shorten(name)} is not converted")
        return resource

    # References to objects.

    def refer(self, value: Any, kind: str) -> Value:
        """Return the name of the object that a value identifies. An object outside of this template is imported."""
        if isinstance(value, Mapping) and len(value) == 1:
            (function, argument), *_ = value.items()
            if function == "get_resource" and isinstance(argument, str) and self.find_resource(argument).kind == kind:
                return self.read_object(self.resources[argument], "metadata.name", "string")
            if function == "get_attr" and (found := self._refer_attribute(argument, kind)) is not None:
                return found
            if function == "if" and isinstance(argument, list) and len(argument) in (2, 3):
                condition = heat_functions.translate_condition(argument[0], self)
                first, second = (None if each is None else self.refer(each, kind) for each in (*argument[1:], None)[:2])
                return (
                    (first if condition else second)
                    if isinstance(condition, bool)
                    else heat_functions.combine(condition, first, second)
                )
        found = self.translate(value)
        return None if found is None else self.import_object(heat_values.to_string(found), kind)

    def _refer_attribute(self, argument: Any, kind: str) -> Value:
        """Return the name of the object that an attribute identifies by a property of the same template; None for any other."""
        if not (isinstance(argument, list) and len(argument) > 1 and isinstance(argument[0], str)):
            return None
        resource = self.find_resource(argument[0])
        rule = object_fields.find(resource.row, "attributes", str(argument[1]))
        if not isinstance(rule, Mapping) or rule.get("ref") != kind or rule["from"] not in resource.properties:
            return None
        return self._read_deeper(lambda: self.refer(resource.properties[rule["from"]], kind))

    def import_object(self, identity: Value, kind: str) -> Expression:
        """Return the name of an object for something that exists, by its name or its ID."""
        text = heat_values.to_cel(identity)
        self.check_readable(text)
        if (kind, text) not in self._imports:
            word = FILTERS.get(kind, "name")
            if isinstance(identity, str):
                found: Object = {"id": identity} if re.fullmatch(UUID, identity) else {"filter": {word: identity}}
            elif text.endswith(IDENTITY):
                found = {"id": identity}
            else:
                is_id = f"{text}.matches({heat_values.quote(UUID)})"
                found = {
                    "id": make_expression(f"{is_id} ? {text} : null"),
                    "filter": make_expression(f"{is_id} ? null : {{'{word}': {text}}}"),
                }
            name = self.add_resource(name_import(text, kind), self.make_import(kind, found), is_shared=True)
            self._imports[kind, text] = name
        return make_expression(f"{self._imports[kind, text]}.metadata.name", "string")

    def make_import(self, kind: str, found: Object) -> Object:
        """Return an object for an existing resource that is never written. found: its ID or search criteria."""
        # The controller searches only once, so a changed search needs a new object.
        policy = {"replace": "CreateFirst", "replaceOn": ["spec.import"]}
        spec = {"cloudCredentialsRef": self.make_credentials(), "managementPolicy": "unmanaged", "import": found}
        manifest = {"apiVersion": f"{heat_types.GROUP}/{heat_types.VERSION}", "kind": kind, "spec": spec}
        return {"updatePolicy": policy, "manifest": manifest}

    def make_credentials(self) -> Object:
        """Return the reference to the cloud credentials, which two parameters specify."""
        texts = {
            "cloudName": ("openstack", "Name of the cloud in clouds.yaml"),
            "cloudSecret": ("openstack-clouds", "Secret with clouds.yaml"),
        }
        name, secret = (
            self.add_parameter(name, {"type": "string", "default": default, "description": description})
            for name, (default, description) in texts.items()
        )
        return {"cloudName": name, "secretName": secret}

    # Additions.

    def add_parameter(self, name: str, rules: Object) -> Expression:
        """Add a parameter that the Heat template does not have, and return its value."""
        taken = self.parameter_names.values()
        own = resource_naming.find_free(name, set(taken))
        self.own_parameters[name] = (own, rules)
        return make_expression(f"params.{own}", "string")

    def add_resource(self, name: str, resource: Object, *, is_shared: bool = False) -> str:
        """Add a resource to the Stack, and return its name, which resembles the requested one.

        is_shared: whether it is needed without the condition of the resource that adds it.
        """
        base = resource_naming.camel(name) or "object"
        taken = {
            *self.resource_names.values(),
            *self.extra,
            *template_parser.RESERVED_RESOURCE_NAMES,
            template_parser.MEMBER_KEY,
        }
        found = (
            base
            if base not in taken and base not in cel_environment.LITERALS
            else resource_naming.find_free(base, taken)
        )
        if len(self.extra) >= limits.RESOURCES:
            raise Lost(f"the Stack would have more than {limits.RESOURCES} resources")
        self.extra[found] = resource if is_shared else {**self.when, **resource}
        return found

    def add_secret(self, name: str, values: Mapping[str, Value]) -> Expression:
        """Add a Secret, and return its name. A change of its content creates a new one, and its readers change with it."""
        policy = {"replace": "CreateFirst", "replaceOn": ["stringData"]}
        manifest = {"apiVersion": "v1", "kind": "Secret", "stringData": dict(values)}
        return make_expression(
            f"{self.add_resource(name, {'updatePolicy': policy, 'manifest': manifest})}.metadata.name", "string"
        )

    # Hidden values.

    def is_hidden(self, value: Value) -> bool:
        """Return whether a value contains something that must not appear in a status."""
        beginnings = {
            *self.hidden,
            *(f"params.{self.parameter_names[name]}" for name, each in self.parameters.items() if each.is_hidden),
        }
        return any(find_beginning(text, beginnings) for text in list_expressions(value))

    def check_readable(self, value: Value) -> None:
        """Raise Lost if a value reads a hidden output, which only outputs may read."""
        for text in list_expressions(value) if not isinstance(value, str) else [value]:
            if find_beginning(text, self.unreadable):
                raise Lost("reads a hidden output of a nested Stack; pass the value in a Secret")


def find_beginning(text: str, beginnings: Iterable[str]) -> bool:
    """Return whether an expression reads one of these."""
    return any(each in text and re.search(rf"(?<![\w.]){re.escape(each)}(?!\w)", text) for each in beginnings)


def list_expressions(value: Value) -> Iterable[str]:
    """Yield the text of each expression in a value."""
    match value:
        case Expression():
            yield value.text
        case heat_values.Mixed():
            yield from (each.text for each in value.parts if isinstance(each, Expression))
        case Mapping():
            for each in value.values():
                yield from list_expressions(each)
        case list():
            for each in value:
                yield from list_expressions(each)


def name_import(text: str, kind: str) -> str:
    """Return a name for the object of an expression: `publicNetwork` for `'public'` and the kind Network."""
    unspecific = ("params", "status", "id", "metadata", "name")
    words = [word for word in re.findall(r"[A-Za-z][A-Za-z0-9]*", text) if word not in unspecific]
    base = words[-1] if words else kind
    return base if kind.lower() in base.lower() else resource_naming.fit(base, kind)
