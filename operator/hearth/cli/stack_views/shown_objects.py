"""Objects without sensitive values: live objects, manifests of the template, and plain manifests for an export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.cli.importer import manifest_cleanup, withheld_values
from hearth.cli.importer.withheld_values import WithheldValue
from hearth.cli.stack_views import stated_values
from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import members, object_fields
from hearth.model.child import Object
from hearth.model.text import redaction
from hearth.template.text import interpolation

FieldPath: TypeAlias = tuple[str | int, ...]

NOT_FOUND: Final = object()
SECRET: Final = "Secret"  # noqa: S105 -- a kind
SECRET_FIELDS: Final = ("data", "stringData")


def show_manifest(objects: StackObjects, name: str) -> Object:
    """Return a resource of the template as it is written, without literal values that are sensitive."""
    resource = dict(object_fields.mapping(objects.resources, members.root_of(name)))
    if isinstance(resource.get("manifest"), Mapping):
        resource["manifest"] = hide_secret(resource["manifest"])
    shown: Object = redaction.redact_within(resource, stated_values.find_stated_values(objects))
    return shown


def show_object(objects: StackObjects, child: FoundChild) -> Object:
    """Return a live object without sensitive values, managed fields and kubectl's copy of it."""
    raw = stack_list.hide_unknown(StackState(child.raw)) if child.is_stack else child.raw
    shown: Object = {**raw, "metadata": stack_list.clean_metadata(child)}
    hidden = stated_values.find_stated_values(objects)
    if child.is_stack:
        hidden += stack_list.find_hidden(StackState(child.raw))
    root = members.root_of(child.resource)
    for path in find_sensitive_fields(objects).get(root, ()):
        place = locate(shown, object_fields.mapping(objects.resources, root, "manifest"), path)
        found = find_value(shown, place)
        if found is not NOT_FOUND:
            hidden += redaction.find_texts(found)
            if not is_secret_field(shown, place):
                shown = replace(shown, place)
    result: Object = redaction.redact_within(hide_secret(shown), hidden)
    return result


def is_secret_field(manifest: Mapping[str, Any], path: FieldPath) -> bool:
    """Return whether `hide_secret` hides the field."""
    return manifest.get("kind") == SECRET and path[:1] in tuple((field,) for field in SECRET_FIELDS)


def hide_secret(manifest: Mapping[str, Any]) -> Object:
    """Return a manifest or object. A Secret keeps only its keys."""
    if manifest.get("kind") != SECRET:
        return dict(manifest)
    hidden = {
        field: dict.fromkeys(manifest[field], redaction.SENSITIVE)
        if isinstance(manifest[field], Mapping)
        else redaction.SENSITIVE
        for field in SECRET_FIELDS
        if field in manifest
    }
    return {**manifest, **hidden}


def locate(live: Any, written: Any, path: FieldPath) -> FieldPath:
    """Return the path in the live object for a field of the manifest.

    Admission may insert items into lists, so a named item of the manifest is found by its name. If a list differs in
    another way, the result is the path of the whole list.
    """
    place: list[str | int] = []
    for step in path:
        if isinstance(step, int):
            index = find_index(live, written, step)
            if index is None:
                break
            place.append(index)
            live, written = live[index], written[step]
        else:
            place.append(step)
            live, written = object_fields.find(live, step), object_fields.find(written, step)
    return tuple(place)


def find_index(live: Any, written: Any, index: int) -> int | None:
    """Return the index of an item of the manifest in the live list, or None if it is uncertain."""
    if not isinstance(live, list) or not isinstance(written, list):
        return None
    name = object_fields.text(written[index], "name")
    if name:
        return next((at for at, each in enumerate(live) if object_fields.text(each, "name") == name), None)
    return index if len(live) == len(written) else None


def find_value(value: Any, path: FieldPath) -> Any:
    """Return the value at a path, or NOT_FOUND."""
    for step in path:
        if isinstance(step, int):
            is_there = isinstance(value, list) and step < len(value)
        else:
            is_there = isinstance(value, Mapping) and step in value
        if not is_there:
            return NOT_FOUND
        value = value[step]
    return value


def replace(value: Any, path: FieldPath) -> Any:
    """Return the value with SENSITIVE at that path, which exists."""
    if not path:
        return redaction.SENSITIVE
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [replace(each, rest) if index == step else each for index, each in enumerate(value)]
    return {**value, step: replace(value[step], rest)}


# The objects as plain manifests, without fields that the API server, controllers and Hearth added.


def list_exported(objects: StackObjects) -> list[FoundChild]:
    """Return the newest object of each resource, without those in deletion, in a stable order."""
    found = [child for child in objects.choose_children().values() if not child.is_deleting]
    return sorted(found, key=lambda child: (child.kind.key, child.namespace, child.name))


def is_secret(child: FoundChild) -> bool:
    """Return whether an object is a Secret."""
    return not child.kind.group and child.kind.name == SECRET


def export(objects: StackObjects, child: FoundChild, *, with_sensitive: bool) -> tuple[Object, list[WithheldValue]]:
    """Return the manifest of an object, and its withheld values. with_sensitive: whether sensitive values are written."""
    written = write_manifest(child, child.raw)
    if with_sensitive:
        return written, []
    shown = write_manifest(child, show_object(objects, child))
    return withheld_values.withhold(shown, written, resource=child.resource)


def write_manifest(child: FoundChild, raw: Object) -> Object:
    """Return an object as a manifest."""
    sent = manifest_cleanup.drop_server_values(raw)
    metadata = manifest_cleanup.clean_metadata(sent["metadata"], is_export=True)
    metadata.pop("ownerReferences", None)
    kept = {key: value for key, value in sent.items() if key != "status"}
    return {"apiVersion": child.kind.api_version, "kind": child.kind.name, **kept, "metadata": metadata}


# The fields of a template whose values are sensitive: those whose expressions read a sensitive parameter, a Secret, or
# such a field of another resource. If that is uncertain, a field counts as sensitive.

Read: TypeAlias = tuple[str, tuple[str, ...]]
"""A name and the fields under it."""
PARAMETERS: Final = "params"
LOOP_VARIABLE: Final = "item"
UNREADABLE: Final[Read] = ("", ())
"""The read of a text that is not an expression."""


def find_sensitive_fields(objects: StackObjects) -> dict[str, set[FieldPath]]:
    """Return by resource the paths of the sensitive fields in its manifest."""
    parameters = stated_values.find_sensitive_parameters(objects)
    reads = {name: list(find_reads(objects.resources, name)) for name in objects.resources}
    found = {name: set(find_secret_fields(objects, name)) for name in reads}
    # Each round follows the values through one more resource. The loop ends because a template has no cycles.
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
    """Yield the fields of a resource that have expressions, and the paths that they read. For `item`, these are the
    reads of `forEach`.
    """
    source = object_fields.text(resources, name, "forEach")
    of_source = list_reads(f"${{{source}}}") if source else []
    for path, text in find_texts(object_fields.mapping(resources, name, "manifest")):
        if interpolation.has_expressions(text):
            read = list_reads(text)
            yield path, [*read, *(of_source if any(root == LOOP_VARIABLE for root, _ in read) else ())]


def find_secret_fields(objects: StackObjects, name: str) -> Iterator[FieldPath]:
    """Yield the fields of a resource, or of an external object, that are sensitive by its kind."""
    read = object_fields.text(objects.resources, name, "externalRef", "kind")
    # A kind that depends on a parameter may be any kind.
    may_be_secret = read == SECRET or interpolation.has_expressions(read)
    if may_be_secret or object_fields.text(objects.resources, name, "manifest", "kind") == SECRET:
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
    """Return whether one path contains the other; indices match every field."""
    return all(isinstance(step, int) or one == step for one, step in zip(read, field, strict=False))


def find_texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield each text within a value with its path. A key that is an expression gets the path of the map around it."""
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
    """Return the paths that the expressions of a text read; UNREADABLE for a malformed one."""
    # This takes some time to import, and most pages do not need it.
    from hearth.template.cel import cel_environment, expressions

    try:
        parsed = [expressions.parse(each) for each in interpolation.list_expressions(text)]
    except (interpolation.UnterminatedExpression, cel_environment.CelCompileError):
        return [UNREADABLE]
    return [(read.root, read.path) for each in parsed for read in each.reads.reads]
