"""The fields of a template whose values are sensitive. Pure.

These are fields whose expressions read a sensitive parameter, a Secret, or such a field of another resource. Where that
is not certain, a field counts as sensitive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.cli import object_fields
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.template.text import interpolation

FieldPath: TypeAlias = tuple[str | int, ...]
Read: TypeAlias = tuple[str, tuple[str, ...]]
"""A name and the fields under it."""
PARAMETERS: Final = "params"
LOOP_VARIABLE: Final = "item"
SECRET: Final = "Secret"  # noqa: S105 -- a kind
SECRET_FIELDS: Final = ("data", "stringData")
UNREADABLE: Final[Read] = ("", ())
"""The read of a text that is no expression."""


def find_sensitive_fields(objects: StackObjects) -> dict[str, set[FieldPath]]:
    """Return by resource the paths of the sensitive fields in its manifest."""
    parameters = find_sensitive_parameters(objects)
    reads = {name: list(find_reads(objects.resources, name)) for name in objects.resources}
    found = {name: set(find_secret_fields(objects, name)) for name in reads}
    # Each round follows the values by one resource more; a template has no cycles, so it ends.
    for _ in range(len(reads) + 1):
        before = sum(map(len, found.values()))
        for name, fields in reads.items():
            found[name] |= {
                path for path, read in fields if any(is_sensitive(each, parameters, found) for each in read)
            }
        if sum(map(len, found.values())) == before:
            break
    return found


def find_reads(resources: Mapping[str, Any], name: str) -> Iterator[tuple[FieldPath, list[Read]]]:
    """Yield the fields of a resource that have expressions, and what these read; for `item`, what `forEach` reads."""
    source = object_fields.text(resources, name, "forEach")
    of_source = list_reads(f"${{{source}}}") if source else []
    for path, text in find_texts(object_fields.mapping(resources, name, "manifest")):
        if interpolation.has_expressions(text):
            read = list_reads(text)
            yield path, [*read, *(of_source if any(root == LOOP_VARIABLE for root, _ in read) else ())]


def find_sensitive_parameters(objects: StackObjects) -> set[str]:
    """Return the parameters that are declared sensitive, or whose value may come from a Secret."""
    spec = objects.stack.spec
    stated = object_fields.mapping(spec, "parameters")
    has_secret = any("secretRef" in source for source in object_fields.entries(spec, "parametersFrom"))
    found = set()
    for name, rule in object_fields.mapping(objects.template, "parameters").items():
        declared = object_fields.find(rule, "sensitive")
        if declared is True or (has_secret and declared is not False and name not in stated):
            found.add(name)
    return found


def find_secret_fields(objects: StackObjects, name: str) -> Iterator[FieldPath]:
    """Yield the fields of a resource, or of what is only read, that are sensitive by its kind."""
    read = object_fields.text(objects.resources, name, "externalRef", "kind")
    # A kind that depends on a parameter may be any.
    is_secret = read == SECRET or interpolation.has_expressions(read)
    if is_secret or object_fields.text(objects.resources, name, "manifest", "kind") == SECRET:
        yield from ((field,) for field in SECRET_FIELDS)


def is_sensitive(read: Read, parameters: set[str], found: Mapping[str, set[FieldPath]]) -> bool:
    """Return whether a read may give a sensitive value."""
    root, path = read
    if read == UNREADABLE:
        return bool(parameters) or any(found.values())
    if root == PARAMETERS:
        return bool(parameters) if not path else path[0] in parameters
    return any(overlaps(path, sensitive) for sensitive in found.get(root, ()))


def overlaps(read: tuple[str, ...], field: FieldPath) -> bool:
    """Return whether one path leads to the other or into it; indices match every field."""
    return all(isinstance(step, int) or one == step for one, step in zip(read, field, strict=False))


def find_texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield each text within a value with its path. A key that is an expression stands for the map around it."""
    pending: list[tuple[FieldPath, Any]] = [(path, value)]
    while pending:
        at, each = pending.pop()
        if isinstance(each, str):
            yield at, each
        elif isinstance(each, Mapping):
            pending += [((*at, key), inner) for key, inner in each.items()]
            pending += [(at, key) for key in each if interpolation.has_expressions(str(key))]
        elif isinstance(each, list):
            pending += [((*at, index), inner) for index, inner in enumerate(each)]


def list_reads(text: str) -> list[Read]:
    """Return what the expressions of a text read; UNREADABLE for one that is malformed."""
    # It takes some time to import, and most pages need none of it.
    from hearth.template.cel import cel_environment, expressions

    try:
        parsed = [expressions.parse(each) for each in interpolation.list_expressions(text)]
    except (interpolation.UnterminatedExpression, cel_environment.CelCompileError):
        return [UNREADABLE]
    return [(read.root, read.path) for each in parsed for read in each.reads.reads]
