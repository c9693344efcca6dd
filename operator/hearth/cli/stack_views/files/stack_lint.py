"""Helpers of `lint`: finds nested Stacks and the lines of mistakes, and writes the SARIF report for code hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import yaml

import hearth
from hearth.cli.stack_views.files import stack_files
from hearth.model import names, object_fields
from hearth.model.child import Object
from hearth.template.text import kubectl_yaml

SAMPLES: Final[Mapping[str, Any]] = {
    "string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}
}  # fmt: skip


def find_nested(manifest: Object, path: str = "spec.template") -> Iterator[tuple[str, Object, bool]]:
    """Yield each Stack that a template nests: the path to it, its manifest, and whether all its parameters are known.

    A parameter that is set by an expression gets a sample value of its type, so that the template can be compiled.
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
    """Return the line, from 1, of the field, otherwise of the nearest one around it; 1 if the Stack is not found.

    text: one that `kubectl_yaml` accepts, which bounds its size and nesting; stack: a name; path: as in a Mistake;
    kind: Stack or ResourceGroup.
    """
    found = find_node(yaml.compose_all(text, Loader=kubectl_yaml.Loader), stack, path, kind=kind)
    return int(found.start_mark.line) + 1 if found is not None else 1


def find_node(roots: Iterable[yaml.Node], stack: str, path: str, *, kind: str) -> yaml.Node | None:
    """Return the key or item of a Stack at a path, otherwise the nearest one around it; None if the Stack is not found."""
    for root in roots:
        if isinstance(root, yaml.MappingNode) and is_stack(root, stack, kind=kind):
            return walk(root, path)
    return None


def is_stack(root: yaml.MappingNode, name: str, *, kind: str) -> bool:
    """Return whether a document is the Stack, or another kind, with that name."""
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
    """Return the last key or item of a path that the document has. Keys may contain dots."""
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
    """Return the longest key at the start of a path, plain or in brackets, its value, and the rest of the path."""
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
    """Return the first list item of a path, as both key and value, and the rest of the path."""
    index, bracket, after = rest.removeprefix("[").partition("]")
    if not bracket or not (index.isascii() and index.isdigit()) or int(index[:9]) >= len(node.value):
        return None
    item = node.value[int(index[:9])]
    return item, item, after.removeprefix(".")


# Mistakes as SARIF 2.1.0, which code hosts show next to the lines.
# Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
RULES: Final = {
    "invalid-parameter": "A parameter is missing, unknown, or not of its type.",
    "invalid-dependency": "A resource depends on one that does not exist, or on itself.",
    "invalid-condition": "A condition, a value or a readiness rule is not a valid expression.",
    "invalid-manifest": "A manifest has an invalid field or expression.",
    "invalid-definition": "The definition of the Stack is not valid.",
}
"""Description of each rule. The path of a mistake determines its rule."""
PLACES: Final = (
    (re.compile(r"spec\.(template\.)?parameters\b"), "invalid-parameter"),
    (re.compile(r".*\.dependsOn(\[\d+\])?$"), "invalid-dependency"),
    (re.compile(r"spec\.template\.(conditions|values)\b"), "invalid-condition"),
    (re.compile(r"spec\.template\.(resources\.[^.]+\.)?manifest\b"), "invalid-manifest"),
    (
        re.compile(r"spec\.template\.(resources\.[^.]+\.)?(when|forEach|key|readyWhen|failedWhen)\b"),
        "invalid-condition",
    ),
)
"""Rules by pattern of a path; the first match counts."""


def report_sarif(mistakes: Sequence[Object]) -> Object:
    """Return the log of one run. mistakes: each has file, line, kind, stack, path and message."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "kubectl-stack-lint", "version": hearth.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*map(describe_result, mistakes)]}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def describe_result(mistake: Object) -> Object:
    """Return one result."""
    rule = find_rule(mistake["path"])
    place: Object = {
        # Relative to the working directory, as code hosts expect it.
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
