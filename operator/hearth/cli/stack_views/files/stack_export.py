"""The objects of a Stack as plain manifests, without what the API server, controllers and Hearth added. Pure."""

from __future__ import annotations

from typing import Final

from hearth.cli.importer import manifest_cleanup, withheld_values
from hearth.cli.importer.withheld_values import WithheldValue
from hearth.cli.stack_views import shown_objects
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model.child import Object

SECRET: Final = "Secret"  # noqa: S105 -- a kind


def list_children(objects: StackObjects) -> list[FoundChild]:
    """Return the newest object of each resource, without those in deletion, in a stable order."""
    found = [child for child in objects.choose_children().values() if not child.is_deleting]
    return sorted(found, key=lambda child: (child.kind.key, child.namespace, child.name))


def is_secret(child: FoundChild) -> bool:
    """Return whether an object is a Secret."""
    return not child.kind.group and child.kind.name == SECRET


def export(objects: StackObjects, child: FoundChild, *, with_sensitive: bool) -> tuple[Object, list[WithheldValue]]:
    """Return the manifest of an object, and what it lacks. with_sensitive: whether sensitive values are written."""
    written = write(child, child.raw)
    if with_sensitive:
        return written, []
    return withheld_values.withhold(
        write(child, shown_objects.show_object(objects, child)), written, resource=child.resource
    )


def write(child: FoundChild, raw: Object) -> Object:
    """Return an object as a manifest."""
    sent = manifest_cleanup.drop_server_values(raw)
    metadata = manifest_cleanup.clean_metadata(sent["metadata"], is_export=True)
    metadata.pop("ownerReferences", None)
    kept = {key: value for key, value in sent.items() if key != "status"}
    return {"apiVersion": child.kind.api_version, "kind": child.kind.name, **kept, "metadata": metadata}
