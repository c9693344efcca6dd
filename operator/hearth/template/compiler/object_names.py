"""Reports resources of a template that have the same object name, as far as names are known during the compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from hearth.model import limits, members, names, object_fields
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.kinds import ObjectRef, make_key
from hearth.template.blueprint import ResourceBlueprint, SharingScope, StackIdentity
from hearth.template.compiler.manifest_template import ManifestTemplate
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_binding import BoundResource


class ObjectNaming(NamedTuple):
    """How a resource's object gets its name."""

    group: str
    kind: str
    has_name: bool
    """Whether its manifest sets a name; otherwise it is derived from the Stack's."""
    has_namespace: bool
    """Whether its manifest sets a namespace; otherwise it is the Stack's."""


def refuse_duplicates(
    present: Iterable[BoundResource], evaluator: PartialEvaluator, stack: StackIdentity
) -> ChunkedWork[None]:
    """Record every resource that names the same object as an earlier one."""
    owners: dict[ObjectRef, str] = {}
    for index, bound in enumerate(present):
        if index % MARKS_IN_A_PIECE == 0:
            yield
        ref = find_object(bound, stack)
        if ref is None:
            continue
        owner = owners.setdefault(ref, bound.name)
        if owner != bound.name:
            note_duplicate(bound, evaluator, ref=ref, owner=owner)
        if len(evaluator.mistakes) > limits.MISTAKES:
            return


def note_duplicate(bound: BoundResource, evaluator: PartialEvaluator, *, ref: ObjectRef, owner: str) -> None:
    """Record that a resource names the object of another one; once for all members of one collection."""
    place, what, cure = f"{bound.analyzed.source.path}.manifest.metadata.name", "", "rename one of them"
    if members.is_member(bound.name):
        what = f"member '{members.key_of(bound.name)}': "
        if members.is_member(owner) and members.root_of(owner) == members.root_of(bound.name):
            if any(mistake.path == place for mistake in evaluator.mistakes):
                return
            cure = "add ${key}, or omit the name"
    evaluator.note(place, f"{what}names {ref}, which the resource '{owner}' also names; {cure}")


def find_naming(bound: BoundResource) -> ObjectNaming:
    """Find how the resource's object gets its name."""
    stated = bound.analyzed.source.manifest.get("metadata") or {}
    is_placed = stated.get("namespace") is not None
    return ObjectNaming(bound.analyzed.group, bound.analyzed.kind, stated.get("name") is not None, is_placed)


def find_object(bound: BoundResource, stack: StackIdentity) -> ObjectRef | None:
    """Find the first object of the resource, if its name is known beforehand."""
    analyzed = bound.analyzed
    # Constants were filled in when the document was made.
    metadata = bound.parsed.skeleton.get("metadata") or {}
    stated = analyzed.source.manifest.get("metadata") or {}
    is_cluster_wide = analyzed.served is not None and not analyzed.served.namespaced
    namespace = metadata.get("namespace") if stated.get("namespace") is not None else stack.namespace
    if is_cluster_wide:
        namespace = ""
    pinned, kind = metadata.get("name"), make_key(analyzed.group, analyzed.kind)
    name = find_name(bound.name, stack, namespace=namespace, kind=kind) if stated.get("name") is None else pinned
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return ObjectRef(group=analyzed.group, kind=analyzed.kind, namespace=namespace, name=name)


def find_name(resource: str, stack: StackIdentity, *, namespace: object, kind: str) -> str | None:
    """Return the name that the operator gives to the first object of a resource; None if its namespace is not known.

    kind: `Kind.group`.
    """
    if not isinstance(namespace, str):
        return None
    return stack.name_child(resource, namespace=namespace, length=names.find_length(kind))


def find_scope(namings: Iterable[ObjectNaming]) -> SharingScope:
    """Return the Stacks for which duplicate object names occur in the same resources, if at all.

    Template and values are equal. But a name in a manifest may equal a name that is derived from the name of one Stack.
    The same applies to namespaces.
    """
    found = set(namings)
    named, placed = {each[:2] for each in found if each.has_name}, {each[:2] for each in found if each.has_namespace}
    if any(each[:2] in named and not each.has_name for each in found):
        return SharingScope.ONE
    if any(each[:2] in placed and not each.has_namespace for each in found):
        return SharingScope.NAMESPACE
    return SharingScope.ANY


def find_metadata(resource: ResourceBlueprint) -> Mapping[str, Any]:
    """Return the known metadata of a manifest."""
    assert isinstance(resource.manifest, ManifestTemplate)  # noqa: S101 -- the compiler makes no other
    return object_fields.mapping(orjson.loads(resource.manifest.raw)[0], "metadata")
