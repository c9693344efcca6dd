"""The Stacks and StackDefinitions that read a ConfigMap, Secret or StackTemplate: a write of it changes them as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from hearth.engine import cluster_objects
from hearth.engine.definition import definition_sources, revision_builder
from hearth.model import names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.well_known_kinds import SECRET, SOURCE_KINDS
from hearth.preview.changes import Action, Change, Preview


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceReaders:
    """The objects of Hearth that change when others are written."""

    by_source: Mapping[ObjectRef, Collection[ObjectRef]] = field(default_factory=dict)
    instance_groups: Collection[str] = ()
    """The API groups of StackDefinitions. Their objects have steps of their own."""
    is_complete: bool = True
    """False if there are too many Stacks to read: then each source may have other readers."""

    def without(self, reader_ref: ObjectRef) -> SourceReaders:
        """Return the readers other than this one."""
        found = {source: [each for each in refs if each != reader_ref] for source, refs in self.by_source.items()}
        return dataclasses.replace(self, by_source=found)


NO_READERS: Final = SourceReaders()


def is_source(ref: ObjectRef) -> bool:
    """Return whether a definition can be read from such an object."""
    kind = SOURCE_KINDS.get(ref.kind)
    return kind is not None and kind.group == ref.group


def find_read_sources(raw: Object) -> frozenset[ObjectRef]:
    """Return the sources of a Stack, ResourceGroup or StackDefinition, including the Secret of its kubeconfig."""
    spec, namespace = object_fields.mapping(raw, "spec"), object_fields.text(raw, "metadata", "namespace")
    if object_fields.text(raw, "kind") == names.DEFINITION_KIND:
        return frozenset(each.ref for each in definition_sources.find_definition_sources(spec))
    kubeconfig = cluster_objects.find_kubeconfig(spec)
    secret = {ObjectRef(group="", kind=SECRET.name, namespace=namespace, name=kubeconfig.name)} if kubeconfig else ()
    return revision_builder.find_sources(namespace, dict(spec)).union(secret)


def find_readers(raws: Iterable[Object]) -> SourceReaders:
    """Return what Stacks, ResourceGroups and StackDefinitions read."""
    by_source: dict[ObjectRef, list[ObjectRef]] = {}
    groups = set[str]()
    for raw in raws:
        kind, name = object_fields.text(raw, "kind"), object_fields.text(raw, "metadata", "name")
        reader = make_ref(kind, object_fields.text(raw, "metadata", "namespace"), name)
        if kind == names.DEFINITION_KIND:
            groups.add(name.partition(".")[2])
        for source in find_read_sources(raw):
            by_source.setdefault(source, []).append(reader)
    return SourceReaders(by_source=by_source, instance_groups=groups)


def make_ref(kind: str, namespace: str, name: str) -> ObjectRef:
    """Return the reference to an object of Hearth."""
    return ObjectRef(group=names.GROUP, kind=kind, namespace=namespace, name=name)


def find_written_sources(changes: Iterable[Change]) -> Iterator[ObjectRef]:
    """Yield the sources among the objects that these changes write."""
    return (ref for ref in find_written(changes) if is_source(ref))


def find_written(changes: Iterable[Change]) -> Iterator[ObjectRef]:
    """Yield the objects that these changes write."""
    for change in changes:
        if change.action is not Action.KEEP:
            yield from (ref for ref in (change.ref, change.old_ref) if ref is not None)


def list_all_changes(preview: Preview) -> Iterator[Change]:
    """Yield the changes of a preview and of those in it."""
    yield from preview.changes
    for nested in preview.nested:
        yield from list_all_changes(nested)


def is_custom(ref: ObjectRef) -> bool:
    """Return whether a StackDefinition may define the kind of the object."""
    return "." in ref.group and ref.group != names.GROUP and not ref.group.endswith(".k8s.io")
