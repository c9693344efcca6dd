"""The versions of ConfigMaps, Secrets and StackTemplates that the status of a Stack describes, from `status.sources`.

They include the sources of nested Stacks, in the oldest version that any of their statuses describes. Clients can write
statuses, so entries may have any shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from hearth.model import limits, object_fields, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef

MAX_SOURCES: Final = limits.TEMPLATE_SOURCES + limits.RULES
"""Maximum entries of the list."""
NAME_LENGTH = 253


def read(fields: Mapping[str, object]) -> dict[ObjectRef, str]:
    """Return the resource version of each source in the status of the object with these fields."""
    found = {}
    for entry in itertools.islice(object_fields.entries(fields, "status", "sources"), MAX_SOURCES):
        kind, namespace, name, version = (
            object_fields.text(entry, word) for word in ("kind", "namespace", "name", "resourceVersion")
        )
        is_valid = kind in well_known_kinds.SOURCE_KINDS and max(len(namespace), len(name)) <= NAME_LENGTH
        if is_valid and object_fields.RESOURCE_VERSION.fullmatch(version):
            found[ObjectRef(group="", kind=kind, namespace=namespace, name=name)] = version
    return found


def is_instance(fields: Mapping[str, object]) -> bool:
    """Return whether the object is an instance of a StackDefinition, by its status."""
    return object_fields.number(fields, "status", "observedDefinitionRevision") is not None


def encode(own: Mapping[ObjectRef, str], nested: Iterable[Mapping[ObjectRef, str]]) -> list[Object]:
    """List the sources for a status: the Stack's own, then those of its nested Stacks, sorted and as many as fit.

    A source that several of them read has its oldest version, because the status describes no later one everywhere.
    """
    oldest: dict[ObjectRef, str] = {}
    for ref, version in itertools.chain(own.items(), *(each.items() for each in nested)):
        if ref not in oldest or object_fields.is_older_version(version, oldest[ref]):
            oldest[ref] = version
    listed = sorted(oldest, key=lambda ref: (ref not in own, str(ref)))[:MAX_SOURCES]
    return [
        {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name, "resourceVersion": oldest[ref]}
        for ref in listed
    ]
