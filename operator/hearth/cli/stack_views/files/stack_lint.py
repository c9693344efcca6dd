"""What `lint` says of a Stack in a file: mistakes outside the template, their lines, the report for code hosts. Pure.

The template is the compiler's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import yaml

import hearth
from hearth.cli.stack_views.files import stack_files
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.template.parser import object_metadata
from hearth.template.text import error_hints, kubectl_yaml

if TYPE_CHECKING:
    import pydantic

API_VERSION: Final = f"{names.GROUP}/{names.VERSION}"
STACK_NAME: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
TOP: Final = ("apiVersion", "kind", "metadata", "spec", "status")
COMPILED: Final = ("spec", "template")
"""What the compiler checks, in words of its own."""
WITHHELD: Final = frozenset({"missing", "union_tag_invalid"})
"""Types of errors that a value elsewhere explains, or the compiler."""


def find_mistakes(manifest: Object) -> Iterator[Mistake]:
    """Yield unknown fields, wrong types, and a wrong name or version, which the API server would find as well."""
    # The models take long to import, and what is rendered or compared needs none of them.
    import pydantic

    from hearth.model.api.resource_group import ResourceGroup
    from hearth.model.api.stack import Stack, StackTemplate
    from hearth.model.api.stack_definition import StackDefinition

    version = object_fields.text(manifest, "apiVersion")
    if version != API_VERSION:
        yield Mistake(path="apiVersion", message=f"must be {API_VERSION}, found {error_hints.quote(version)}")
    name = object_fields.find(manifest, "metadata", "name")
    if wrong := object_metadata.object_to_name(name):
        yield Mistake(path="metadata.name", message=wrong)
    elif manifest.get("kind") == names.STACK and not STACK_NAME.fullmatch(name):
        message = "must start with a letter and have lower-case letters, digits and '-' alone"
        yield Mistake(path="metadata.name", message=f"{message}, found {error_hints.quote(name)}")
    for key in manifest:
        if key not in TOP:
            yield Mistake(path=str(key), message=f"is not a field{error_hints.did_you_mean(str(key), TOP)}")
    models = {model.__name__: model for model in (Stack, ResourceGroup, StackTemplate, StackDefinition)}
    model = models.get(str(manifest.get("kind")), Stack)
    try:
        model.model_validate({"spec": manifest.get("spec")}, strict=True, by_alias=True, by_name=False)
    except pydantic.ValidationError as error:
        for each in error.errors(include_url=False):
            way = each["loc"]
            if way[:2] != COMPILED and each["type"] not in WITHHELD:
                yield Mistake(
                    path=write_path(way), message=explain(each["type"], each["msg"], each["input"], way, model)
                )


def explain(kind: str, message: str, found: Any, way: tuple[int | str, ...], model: type[pydantic.BaseModel]) -> str:
    """Return the sentence for an error. kind, message: as pydantic says it; way: where."""
    if kind == "extra_forbidden":
        return f"is not a field{error_hints.did_you_mean(str(way[-1]), list_fields(model, way[:-1]))}"
    sentence = (
        message.replace("Input should be ", "must be ").replace("a valid ", "a ").replace("a integer", "an integer")
    )
    return f"{sentence}, found {error_hints.describe(found)}"


def list_fields(model: type[pydantic.BaseModel], way: tuple[int | str, ...]) -> list[str]:
    """Return the fields of what is at that place."""
    for step in way:
        inner = next((field for field in model.model_fields.values() if field.alias == step), None)
        found = find_model(inner.annotation) if inner is not None else None
        if found is None:
            if isinstance(step, int):
                continue
            return []
        model = found
    return [str(field.alias) for field in model.model_fields.values()]


def find_model(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Return the model within an annotation, also of an optional value or a list."""
    import pydantic

    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next((found for each in getattr(annotation, "__args__", ()) if (found := find_model(each))), None)


def write_path(way: tuple[int | str, ...]) -> str:
    """Write a path: `spec.parametersFrom[0].secretRef`."""
    return "".join(f"[{step}]" if isinstance(step, int) else error_hints.write_key(step) for step in way).lstrip(".")


SAMPLES: Final[Mapping[str, Any]] = {
    "string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}
}  # fmt: skip


def find_nested(manifest: Object, path: str = "spec.template") -> Iterator[tuple[str, Object, bool]]:
    """Yield each Stack that a template nests: the path to it, its manifest, and whether all its parameters are known.

    A parameter that an expression gives has a sample of its type, so that the template can be compiled.
    """
    for name, resource in object_fields.mapping(manifest, "spec", "template", "resources").items():
        nested = object_fields.mapping(resource, "manifest")
        is_stack = object_fields.text(nested, "kind") == names.STACK
        if not is_stack or object_fields.text(nested, "apiVersion").partition("/")[0] != names.GROUP:
            continue
        if not object_fields.mapping(nested, "spec", "template"):
            continue
        given = object_fields.mapping(nested, "spec", "parameters")
        rules = object_fields.mapping(nested, "spec", "template", "parameters")
        parameters = {key: sample(value, rules.get(key)) for key, value in given.items()}
        is_known = all(parameters[key] is given[key] for key in given)
        spec = {**nested["spec"], "parameters": parameters}
        where = f"{path}.resources.{name}.manifest.spec.template"
        metadata = {"name": name.lower(), **object_fields.mapping(nested, "metadata")}
        if "${" in str(metadata.get("name")):
            metadata["name"] = name.lower()
        inner = {**nested, "metadata": metadata, "spec": spec}
        yield where, inner, is_known
        yield from find_nested(inner, where)


def sample(value: Any, rules: Any) -> Any:
    """Return a value without expressions."""
    if "${" not in str(value):
        return value
    return SAMPLES.get(object_fields.text(rules, "type"), "x")


# The line of a field of a Stack in the text of its file.


def find_line(text: str, stack: str, path: str, *, kind: str = names.STACK) -> int:
    """Return the line, from 1, of the field, else of the nearest one around it; 1 if the Stack is not found.

    text: one that `kubectl_yaml` accepts, which bounds its size and nesting; stack: a name; path: as in a Mistake; kind: Stack or
    ResourceGroup.
    """
    for root in yaml.compose_all(text, Loader=kubectl_yaml.Loader):
        if isinstance(root, yaml.MappingNode) and is_stack(root, stack, kind=kind):
            line: int = walk(root, path).start_mark.line
            return line + 1
    return 1


def is_stack(root: yaml.MappingNode, name: str, *, kind: str) -> bool:
    """Return whether a document is the Stack, or another kind, of that name."""
    found, metadata = find_value(root, "kind"), find_value(root, "metadata")
    named = find_value(metadata, "name") if isinstance(metadata, yaml.MappingNode) else None
    is_kind = isinstance(found, yaml.ScalarNode) and found.value == kind
    return is_kind and (named.value if isinstance(named, yaml.ScalarNode) else "") == name


def find_value(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    """Return the value of a key."""
    return next((value for each, value in list_pairs(node) if each.value == key), None)


def list_pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield the keys that are scalars, with their values."""
    return ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))


def walk(root: yaml.Node, path: str) -> yaml.Node:
    """Return the key or item at the end of a path, as far as the document has it. Keys may contain dots."""
    place, node, rest = root, root, path
    while rest:
        if isinstance(node, yaml.MappingNode):
            step = step_into(node, rest)
        else:
            step = step_along(node, rest) if isinstance(node, yaml.SequenceNode) else None
        if step is None:
            return place
        place, node, rest = step
    return place


def step_into(node: yaml.MappingNode, rest: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """Return the longest key with which a path begins, plain or in brackets, its value, and the rest of the path."""
    fitting = [
        (len(written), key, value)
        for key, value in list_pairs(node)
        for written in (key.value, f"[{key.value}]", f'["{key.value}"]', f"['{key.value}']")
        if key.value and rest.startswith(written) and rest[len(written) :][:1] in ("", ".", "[")
    ]
    if not fitting:
        return None
    length, key, value = max(fitting, key=lambda each: each[0])
    return key, value, rest[length:].removeprefix(".")


def step_along(node: yaml.SequenceNode, rest: str) -> tuple[yaml.Node, yaml.Node, str] | None:
    """Return the item that a path names first, twice, and the rest of the path."""
    index, bracket, after = rest.removeprefix("[").partition("]")
    if not bracket or not (index.isascii() and index.isdigit()) or int(index[:9]) >= len(node.value):
        return None
    item = node.value[int(index[:9])]
    return item, item, after.removeprefix(".")


# Mistakes as SARIF 2.1.0, which code hosts show beside the lines.
# Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
RULES: Final = {
    "invalid-parameter": "A parameter is missing, unknown, or not of its type.",
    "invalid-dependency": "A resource depends on one that does not exist, or on itself.",
    "invalid-condition": "A condition or a rule of readiness is no valid expression.",
    "invalid-manifest": "A manifest has an invalid field or expression.",
    "invalid-definition": "The definition of the Stack is not valid.",
}
"""What each rule reports; the place of a mistake decides its rule."""
PLACES: Final = (
    (re.compile(r"spec\.(template\.)?parameters\b"), "invalid-parameter"),
    (re.compile(r".*\.dependsOn(\[\d+\])?$"), "invalid-dependency"),
    (re.compile(r"spec\.template\.conditions\b"), "invalid-condition"),
    (re.compile(r"spec\.template\.(resources\.[^.]+\.)?manifest\b"), "invalid-manifest"),
    (
        re.compile(r"spec\.template\.(resources\.[^.]+\.)?(when|forEach|key|readyWhen|failedWhen)\b"),
        "invalid-condition",
    ),
)
"""By pattern of a path; the first that matches counts."""


def report_sarif(mistakes: Sequence[Object]) -> Object:
    """Return the log of one run. mistakes: with file, line, kind, stack, path and message."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "kubectl-stack-lint", "version": hearth.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*map(describe_result, mistakes)]}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def describe_result(mistake: Object) -> Object:
    """Return one result."""
    rule = find_rule(mistake["path"])
    place: Object = {
        # Relative to the folder in which the command runs, as code hosts expect it.
        "artifactLocation": {"uri": quote(mistake["file"].removeprefix("./"))},
        "region": {"startLine": mistake["line"]},
    }
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "level": "error",
        "message": {"text": stack_files.describe_mistake(mistake)},
        "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": mistake["path"]}]}],
    }


def find_rule(path: str) -> str:
    """Return the rule that reports mistakes at a path."""
    return next((rule for pattern, rule in PLACES if pattern.match(path)), "invalid-definition")
