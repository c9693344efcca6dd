"""Renders the manifests of a Stack in a file without a cluster, if their names and values are certain.

A value of another resource is certain if its manifest sets the value, or if it is a name that Hearth generates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.stack_views import shown_objects
from hearth.cli.stack_views.files import stack_files
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import members, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import make_key
from hearth.model.object_list import ObjectList
from hearth.model.text import redaction
from hearth.template.blueprint import Blueprint, EvaluationError, Known, Pending, ResourceBlueprint, Values

STEP: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")
"""A step of a path as a message writes it: a field, or an index of a list."""
OPEN_MAPS: Final = frozenset({"matchLabels", "data", "binaryData", "stringData", "nodeSelector", "parameters"})
"""Maps to which no server adds entries. In other maps, only the individual entries are certain."""
STATED_METADATA: Final = frozenset({"name", "namespace"})
"""Fields of `metadata` that are certain; labels and annotations get additional entries."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One resource."""

    name: str
    manifest: Object | None
    """None if it is uncertain, or not an object."""
    why: str = ""
    """Why it is missing."""


def render(stack_file: StackFile, blueprint: Blueprint) -> Iterator[Rendered]:
    """Yield each resource in dependency order. Sensitive values are not shown."""
    hidden = find_hidden(stack_file)
    certain: dict[str, Object] = {}
    values = {name: stack_files.find_external(stack_file, each) for name, each in blueprint.externals.items()}
    read: dict[str, Object | ObjectList] = {
        name: ObjectList(each) if isinstance(each, list) else each for name, each in values.items() if each is not None
    }
    for name in sorted(blueprint.unresolved):
        sources = sorted(each.name for each in blueprint.externals.values() if each.is_awaited)
        yield Rendered(name=name, manifest=None, why=f"known after: {', '.join(sources)} (pass them with --external)")
    for resource in blueprint.resources.values():
        found = evaluate(resource, certain, read)
        if isinstance(found, str):
            yield Rendered(name=resource.name, manifest=None, why=found)
            continue
        certain[resource.name] = complete(stack_file, resource, found)
        shown = hide(certain[resource.name], hidden.get(members.root_of(resource.name), ()))
        yield Rendered(name=resource.name, manifest=redaction.redact_within(shown, blueprint.sensitive_texts))


def evaluate(resource: ResourceBlueprint, certain: Mapping[str, Object], read: Values) -> Object | str:
    """Return the manifest of a resource, or why it is uncertain. read: the external objects that the files contain."""
    outcome = resource.manifest.evaluate(read)
    if isinstance(outcome, Pending):
        missing = [path for path in outcome.missing if not is_certain(path, certain)]
        if missing:
            return f"known after: {', '.join(missing)}"
        outcome = resource.manifest.evaluate({**certain, **read})
    match outcome:
        case Known(value=dict() as manifest):
            return manifest
        case EvaluationError(path=path, message=message):
            return f"{path}: {message}"
        case Pending(missing=still):
            return f"known after: {', '.join(still)}"
        case _:
            return "is not an object"


def is_certain(path: str, certain: Mapping[str, Object]) -> bool:
    """Whether a value is set by a manifest. path: `web.spec.ports[0].port`."""
    root, *steps = [field or int(index) for field, index in STEP.findall(path)]
    is_path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (root, *steps))[1:] == path
    if not is_path or root not in certain or not steps:
        return False
    if steps[0] == "metadata" and (len(steps) != 2 or steps[1] not in STATED_METADATA):
        return False
    value = shown_objects.find_value(certain[str(root)], tuple(steps))
    is_whole = not isinstance(value, Mapping | list) or steps[-1] in OPEN_MAPS
    return is_whole and value is not shown_objects.NOT_FOUND


def complete(stack_file: StackFile, resource: ResourceBlueprint, manifest: Object) -> Object:
    """Return the manifest with the name and the namespace that Hearth adds; not with its labels."""
    identity = stack_file.identity
    group = cluster_scoped_kinds.group_of(resource.api_version)
    metadata = dict(object_fields.mapping(manifest, "metadata"))
    is_wide = cluster_scoped_kinds.is_cluster_wide(group, resource.kind)
    namespace = "" if is_wide else object_fields.text(metadata, "namespace") or identity.namespace
    name = metadata.get("name") or identity.name_child(
        resource.name, namespace=namespace, length=names.find_length(make_key(group, resource.kind))
    )
    stated = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {**manifest, "metadata": {**metadata, **stated}}


def find_hidden(stack_file: StackFile) -> dict[str, set[shown_objects.FieldPath]]:
    """Return by resource the fields whose values are sensitive, including short values."""
    template = {} if stack_file.is_group else stack_files.find_template(stack_file)
    objects = StackObjects(stack=StackState(stack_file.manifest), template=template, children=())
    return shown_objects.find_sensitive_fields(objects)


def hide(manifest: Object, paths: set[shown_objects.FieldPath] | tuple[()]) -> Object:
    """Return the manifest with a placeholder for each sensitive value. A Secret shows only its keys."""
    shown = shown_objects.hide_secret(manifest)
    for path in paths:
        is_there = shown_objects.find_value(shown, path) is not shown_objects.NOT_FOUND
        if is_there and not shown_objects.is_secret_field(shown, path):
            shown = shown_objects.replace(shown, path)
    return shown
