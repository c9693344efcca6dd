"""Stacks and ResourceGroups in documents of files: found, completed from the documents beside them, compiled, rendered. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.stack_views.files import template_files
from hearth.model import errors, names, value_class
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.model.groups import group_members
from hearth.model.groups.group_members import GroupSize
from hearth.model.kinds import Kinds, make_key
from hearth.template import resource_group
from hearth.template.blueprint import (
    Blueprint,
    Definition,
    EvaluationError,
    Known,
    Pending,
    ResourceBlueprint,
    StackIdentity,
)
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import Evaluator
from hearth.template.compiler import compiler

DEFAULT_NAMESPACE: Final = "default"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """One Stack or ResourceGroup in a file."""

    source: str
    """The name of the file."""
    manifest: Object
    beside: Sequence[Any]
    """All documents of all files."""

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup."""
        return object_fields.text(self.manifest, "kind") == names.GROUP_KIND

    @property
    def title(self) -> str:
        """Return how messages name it: `stack/shop`."""
        return f"{'resourcegroup' if self.is_group else 'stack'}/{self.identity.name}"

    @property
    def identity(self) -> StackIdentity:
        """Return what expressions read as `stack`; the UID is known to a cluster only."""
        metadata = object_fields.mapping(self.manifest, "metadata")
        namespace = object_fields.text(metadata, "namespace") or DEFAULT_NAMESPACE
        return StackIdentity(name=object_fields.text(metadata, "name"), namespace=namespace, uid="")


def find_stacks(documents: Mapping[str, Sequence[Any]], *, kinds: Collection[str]) -> list[StackFile]:
    """Return the Stacks among the documents. documents: by file; kinds: Stack, ResourceGroup, or both."""
    beside = [each for found in documents.values() for each in found]
    return [
        StackFile(source=source, manifest=each, beside=beside)
        for source, found in documents.items()
        for each in found
        if isinstance(each, dict) and is_one_of(each, kinds)
    ]


def is_one_of(document: Object, kinds: Collection[str]) -> bool:
    """Return whether a document is of one of these kinds of Hearth."""
    group = object_fields.text(document, "apiVersion").partition("/")[0]
    return object_fields.text(document, "kind") in kinds and group == names.GROUP


def compile_stack(found: StackFile, kinds: Kinds, *, evaluator: Evaluator = evaluation.ALONE) -> Blueprint:
    """Compile a Stack or a group as the operator does. Raises InvalidDefinition with every mistake.

    evaluator: of expressions that may take long; it answers at once.
    """
    if found.is_group:
        return compile_group(found, kinds, evaluator)
    template = find_template(found)
    parameters = object_fields.find(found.manifest, "spec", "parameters") or {}
    try:
        return compiler.compile_template(
            Definition(template=template, parameters=parameters),
            stack=found.identity,
            kinds=kinds,
            evaluator=evaluator,
        )
    except errors.InvalidDefinition as error:
        kept = [mistake for mistake in error.mistakes if not is_given_elsewhere(found, mistake)]
        if not kept:
            raise errors.SourceNotFound(
                "its parameters come from spec.parametersFrom, which only a cluster knows"
            ) from None
        raise errors.InvalidDefinition(kept) from None


def compile_group(found: StackFile, kinds: Kinds, evaluator: Evaluator = evaluation.ALONE) -> Blueprint:
    """Compile a ResourceGroup. Raises InvalidDefinition."""
    spec = resource_group.make_spec(object_fields.mapping(found.manifest, "spec"))
    if not spec:
        raise errors.InvalidDefinition([Mistake(path="spec.template", message="is missing; set template")])
    stated = spec[resource_group.SIZE]
    mistakes = list(group_members.find_mistakes(stated))
    # What is wrong with the size must not hide what is wrong with the template.
    is_sized = all(mistake.path != "spec.replicas" for mistake in mistakes)
    size = group_members.make_size(stated, known=()) if is_sized else GroupSize(replicas=1)
    definition = Definition(template=spec["template"], parameters=spec["parameters"], size=size)
    mistakes += resource_group.find_mistakes(
        definition.template, size, timeout=spec.get("timeout"), is_scaled=not is_sized
    )
    try:
        blueprint = compiler.compile_template(definition, stack=found.identity, kinds=kinds, evaluator=evaluator)
    except errors.InvalidDefinition as error:
        raise resource_group.translate(error, mistakes) from None
    if mistakes:
        raise errors.InvalidDefinition(mistakes)
    return blueprint


def describe_mistake(mistake: Object) -> str:
    """Return where a mistake is, and what. mistake: with kind, stack, path and message."""
    return f"{mistake['kind'].lower()}/{mistake['stack']}: {mistake['path']}: {mistake['message']}"


def is_given_elsewhere(found: StackFile, mistake: Mistake) -> bool:
    """Return whether a parameter that is missing here may come from `spec.parametersFrom`."""
    sources = object_fields.entries(found.manifest, "spec", "parametersFrom")
    given = object_fields.mapping(found.manifest, "spec", "parameters")
    prefix, _, name = mistake.path.rpartition(".")
    return bool(sources) and prefix == "spec.parameters" and name not in given


def find_template(found: StackFile) -> Any:
    """Return the template of a Stack, also from ConfigMaps beside it. Raises InvalidDefinition."""
    return template_files.find_template(object_fields.mapping(found.manifest, "spec"), found.beside)


def render(found: StackFile, blueprint: Blueprint) -> Iterator[tuple[str, Object | None, str]]:
    """Yield for each resource its name, its manifest if that is known, and why it is not."""
    for resource in blueprint.resources.values():
        outcome = resource.manifest.evaluate({})
        match outcome:
            case Known(value=dict() as manifest):
                yield resource.name, complete(found, resource, manifest), ""
            case Pending(missing=missing):
                yield resource.name, None, f"known after: {', '.join(missing)}"
            case EvaluationError(path=path, message=message):
                yield resource.name, None, f"{path}: {message}"
            case _:
                yield resource.name, None, "is no object"


def complete(found: StackFile, resource: ResourceBlueprint, manifest: Object) -> Object:
    """Return the manifest with the name and the namespace that Hearth adds; not with its labels."""
    identity = found.identity
    group = cluster_scoped_kinds.group_of(resource.api_version)
    metadata = dict(object_fields.mapping(manifest, "metadata"))
    is_wide = cluster_scoped_kinds.is_cluster_wide(group, resource.kind)
    namespace = "" if is_wide else object_fields.text(metadata, "namespace") or identity.namespace
    name = metadata.get("name") or names.child_name(
        stack=identity.name,
        stack_namespace=identity.namespace,
        stack_uid=identity.uid,
        resource=resource.name,
        incarnation=1,
        namespace=namespace,
        length=names.find_length(make_key(group, resource.kind)),
    )
    stated = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {**manifest, "metadata": {**metadata, **stated}}
