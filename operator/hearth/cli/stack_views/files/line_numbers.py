"""The line of a field of a Stack in the text of its file. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from hearth.model import names
from hearth.template.text import kubectl_yaml


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
