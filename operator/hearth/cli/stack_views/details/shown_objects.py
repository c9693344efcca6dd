"""The manifest of a resource and its live object as a person may see them: without sensitive values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.stack_views.details import sensitive_fields
from hearth.cli.stack_views.details.sensitive_fields import SECRET, SECRET_FIELDS, FieldPath
from hearth.cli.stack_views.lists import revision_history, stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import members
from hearth.model.child import Object
from hearth.model.text import redaction

NOT_FOUND: Final = object()


def show_manifest(objects: StackObjects, name: str) -> Object:
    """Return a resource of the template as it is written, without literal values that are sensitive."""
    resource = dict(object_fields.mapping(objects.resources, members.root_of(name)))
    if isinstance(resource.get("manifest"), Mapping):
        resource["manifest"] = hide_secret(resource["manifest"])
    shown: Object = redaction.redact_within(resource, find_stated_values(objects))
    return shown


def show_object(objects: StackObjects, child: FoundChild) -> Object:
    """Return a live object without sensitive values, managed fields and the copy that kubectl keeps of it."""
    metadata = dict(object_fields.mapping(child.raw, "metadata"))
    metadata.pop("managedFields", None)
    annotations = {key: value for key, value in child.annotations.items() if key != stack_list.LAST_APPLIED}
    metadata |= {"annotations": annotations} if annotations else {}
    raw = stack_list.hide_unknown(StackState(child.raw)) if child.is_stack else child.raw
    shown: Object = {**raw, "metadata": metadata}
    hidden = find_stated_values(objects)
    if child.is_stack:
        hidden += stack_list.find_hidden(StackState(child.raw))
    root = members.root_of(child.resource)
    for path in sensitive_fields.find_sensitive_fields(objects).get(root, ()):
        place = locate(shown, object_fields.mapping(objects.resources, root, "manifest"), path)
        found = find_value(shown, place)
        if found is not NOT_FOUND:
            hidden += redaction.find_texts(found)
            if not is_secret_field(shown, place):
                shown = replace(shown, place)
    result: Object = redaction.redact_within(hide_secret(shown), hidden)
    return result


def find_stated_values(objects: StackObjects) -> list[str]:
    """Return the texts of sensitive parameters that the spec or the template states."""
    _, defaults = revision_history.hide_defaults(objects.template)
    stated = object_fields.mapping(objects.stack.spec, "parameters")
    values = [stated.get(name) for name in sensitive_fields.find_sensitive_parameters(objects)]
    return [*defaults, *redaction.find_texts(values), *stack_list.find_hidden(objects.stack)]


def is_secret_field(manifest: Mapping[str, Any], path: FieldPath) -> bool:
    """Return whether `hide_secret` hides the field."""
    return manifest.get("kind") == SECRET and path[:1] in tuple((field,) for field in SECRET_FIELDS)


def hide_secret(manifest: Mapping[str, Any]) -> Object:
    """Return a manifest or object; that of a Secret with its keys alone."""
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
    """Return where a field of the manifest is in the live object.

    Admission may insert items into lists. An item that the manifest names is found by that name. If a list differs in
    another way, the path is that of the whole list.
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
    """Return the index of an item of the manifest in the live list; None if it is uncertain."""
    if not isinstance(live, list) or not isinstance(written, list):
        return None
    name = object_fields.text(written[index], "name")
    if name:
        return next((at for at, each in enumerate(live) if object_fields.text(each, "name") == name), None)
    return index if len(live) == len(written) else None


def find_value(value: Any, path: FieldPath) -> Any:
    """Return the value at a path, or NOT_FOUND."""
    for step in path:
        if isinstance(step, int) or (isinstance(value, Mapping) and step in value):
            value = value[step]
        else:
            return NOT_FOUND
    return value


def replace(value: Any, path: FieldPath) -> Any:
    """Return the value with SENSITIVE at that path, which exists."""
    if not path:
        return redaction.SENSITIVE
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [replace(each, rest) if index == step else each for index, each in enumerate(value)]
    return {**value, step: replace(value[step], rest)}
