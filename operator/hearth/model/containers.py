"""Objects whose deletion deletes other objects: Namespaces and CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE

KINDS = {kind.key: kind for kind in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)}
"""By `Kind.group`."""


def find_containers(kind: Kind, namespace: str) -> Iterator[ObjectRef]:
    """Find the objects whose deletion deletes an object of that kind in that namespace. They might not exist."""
    if namespace:
        yield ObjectRef(group=NAMESPACE.group, kind=NAMESPACE.name, namespace="", name=namespace)
    if "." in kind.group:
        name = f"{kind.plural}.{kind.group}"
        yield ObjectRef(
            group=CUSTOM_RESOURCE_DEFINITION.group, kind=CUSTOM_RESOURCE_DEFINITION.name, namespace="", name=name
        )


def describe_contents(ref: ObjectRef, kept: str) -> str:
    """Describe why a container is kept, as text that follows its name. kept: the object that it contains or defines."""
    return f"contains {kept}" if ref.kind == NAMESPACE.name else f"defines the kind of {kept}"
