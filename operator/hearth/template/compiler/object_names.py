"""Reports conflicts of object names within a template, as far as names are known during the compilation.

Two resources must not have the same object, and a resource must not wait for the object that it creates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from hearth.model import limits, members, names, object_fields
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.kinds import ObjectRef, make_key
from hearth.template.blueprint import Blueprint, ExternalBlueprint, ResourceBlueprint, SharingScope, StackIdentity
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


def refuse_own_references(
    present: Iterable[BoundResource], blueprint: Blueprint, evaluator: PartialEvaluator, stack: StackIdentity
) -> ChunkedWork[SharingScope]:
    """Record every reference to an object whose resource waits for that reference: the object would never be created.

    Returns the Stacks for which the result is the same: an external object may have the name that the operator gives to
    the object of a resource of one Stack.
    """
    awaited: dict[tuple[str, str], list[ExternalBlueprint]] = {}
    for external in blueprint.externals.values():
        if external.object_name and not external.is_optional:
            awaited.setdefault((external.group, external.kind), []).append(external)
    scope = SharingScope.ANY
    for bound in present if awaited else ():
        ref, naming = find_object(bound, stack), find_naming(bound)
        for external in awaited.get((naming.group, naming.kind), ()) if ref is not None else ():
            if is_alike := may_name(external, bound, naming):
                scope = max(scope, find_scope([naming, find_reference_naming(external)]))
            if is_alike and is_object_of(external, ref, stack) and waits_for(bound.name, external, blueprint):
                note_own_reference(external, bound, evaluator, ref=ref)
        yield
    return scope


def may_name(external: ExternalBlueprint, bound: BoundResource, naming: ObjectNaming) -> bool:
    """Return whether a reference can mean the object of a resource in some Stack."""
    return naming.has_name or names.object_part(bound.name) in external.object_name


def is_object_of(external: ExternalBlueprint, ref: ObjectRef | None, stack: StackIdentity) -> bool:
    """Return whether a reference to an object of the same kind means this object."""
    namespace = external.namespace or stack.namespace
    return ref is not None and ref.name == external.object_name and ref.namespace in ("", namespace)


def waits_for(resource: str, external: ExternalBlueprint, blueprint: Blueprint) -> bool:
    """Return whether a resource waits, directly or through others, for an external object."""
    waiting, seen = [resource], {resource}
    while waiting:
        name = waiting.pop()
        found = blueprint.resources.get(name)
        if found is not None and external.name in found.externals:
            return True
        collection = blueprint.collections.get(members.root_of(name))
        required = found.requires if found is not None else collection.members if collection is not None else ()
        waiting += [each for each in required if each not in seen]
        seen.update(required)
    return False


def note_own_reference(
    external: ExternalBlueprint, bound: BoundResource, evaluator: PartialEvaluator, *, ref: ObjectRef | None
) -> None:
    """Record that a reference means the object of a resource that waits for it."""
    evaluator.note(
        f"{external.path}.externalRef.metadata.name",
        f"names {ref}, which the resource '{bound.name}' creates only after it has read it, so both would wait forever; "
        "use a parameter for the value, or set optional: true on the reference",
    )


def find_reference_naming(external: ExternalBlueprint) -> ObjectNaming:
    """Find how the object of a reference gets its name."""
    return ObjectNaming(external.group, external.kind, has_name=True, has_namespace=external.namespace is not None)


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
