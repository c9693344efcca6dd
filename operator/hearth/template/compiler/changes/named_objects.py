"""Whether the objects of new members have names of their own, without a look at every other resource in detail.

Errs on one side only: a doubtful case counts as a conflict, which the compilation from nothing then decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from hearth.model import members, names
from hearth.model.chunked_work import ChunkedWork
from hearth.model.kinds import Kinds, ObjectRef, make_key
from hearth.template.blueprint import ResourceBlueprint, StackIdentity
from hearth.template.compiler import resource_binding
from hearth.template.compiler.manifest_template import ManifestTemplate

AFFIXES = 2 + names.DIGEST_LENGTH
"""Characters of an object's name besides those of its Stack and resource: two dashes and a digest."""
SEARCHED = 16
"""Names up to which a search of each manifest for all of them is faster than parsing it."""
IN_A_PIECE = 256
"""Resources whose names are compared in one piece, some 0.5 ms."""


def find_raw(resource: ResourceBlueprint) -> bytes:
    """Return the known part of a manifest as JSON."""
    assert isinstance(resource.manifest, ManifestTemplate)  # noqa: S101 -- the compiler makes no other
    return resource.manifest.raw


def find_metadata(resource: ResourceBlueprint) -> Mapping[str, Any]:
    """Return the metadata of a manifest, as far as it is known."""
    metadata = orjson.loads(find_raw(resource))[0].get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def find_place(resource: ResourceBlueprint) -> tuple[Any, ...]:
    """Return what determines the name and namespace of the object."""
    metadata = find_metadata(resource)
    return resource.api_version, resource.kind, metadata.get("name"), metadata.get("namespace")


def find_object(resource: ResourceBlueprint, stack: StackIdentity, kinds: Kinds) -> ObjectRef | None:
    """Find the first object of the resource; None if its name is not known beforehand."""
    metadata = find_metadata(resource)
    served = kinds.find(resource.api_version, resource.kind)
    namespace = "" if served is not None and not served.namespaced else metadata.get("namespace") or stack.namespace
    pinned, group = metadata.get("name"), resource.api_version.rpartition("/")[0]
    kind = make_key(group, resource.kind)
    name = (
        pinned
        if resource.is_name_pinned
        else resource_binding.find_name(resource.name, stack, namespace=namespace, kind=kind)
    )
    if not isinstance(name, str):
        return None
    return ObjectRef(group=group, kind=resource.kind, namespace=namespace, name=name)


def has_conflict(
    new: Sequence[ResourceBlueprint], others: Iterable[ResourceBlueprint], *, stack: StackIdentity, kinds: Kinds
) -> ChunkedWork[bool]:
    """Return whether a new member may name the object of another resource. others: all besides the new ones."""
    refs = [ref for each in new if (ref := find_object(each, stack, kinds)) is not None]
    known = set(refs)
    if len(known) < len(refs):
        return True
    texts = [b'"name":' + orjson.dumps(ref.name) for ref in refs]
    own = find_own_collection(new, stack)
    found_kinds = {(ref.group, ref.kind) for ref in refs}
    for number, other in enumerate(others):
        if number % IN_A_PIECE == 0:
            yield
        if (other.api_version.rpartition("/")[0], other.kind) not in found_kinds:
            continue
        if other.is_name_pinned:
            raw = find_raw(other)
            is_candidate = len(texts) > SEARCHED or any(text in raw for text in texts)
        else:
            is_candidate = own is None or members.root_of(other.name) != own.name or len(other.name) > own.longest
        if is_candidate and find_object(other, stack, kinds) in known:
            return True
    return False


class OwnCollection(NamedTuple):
    """The collection of all new members, if their objects are named after them."""

    name: str
    longest: int
    """Characters of a member's name up to which the name of its object is not shortened."""


def find_own_collection(new: Sequence[ResourceBlueprint], stack: StackIdentity) -> OwnCollection | None:
    """Return the collection within which different members surely name different objects; None if there is none."""
    roots = {members.root_of(each.name) for each in new}
    if len(roots) != 1 or any(each.is_name_pinned for each in new):
        return None
    (root,) = roots
    length = min(names.find_length(make_key(each.api_version.rpartition("/")[0], each.kind)) for each in new)
    longest = length - len(stack.name) - AFFIXES - (len(names.kebab(root)) - len(root))
    return OwnCollection(root, longest) if all(len(each.name) <= longest for each in new) else None
