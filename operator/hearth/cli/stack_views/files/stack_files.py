"""Finds Stacks and ResourceGroups in documents, adds templates and parameters from other documents, and compiles."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.importer import cluster_scoped_kinds
from hearth.cli.stack_views.files import file_schema
from hearth.engine.definition import definition_sources
from hearth.engine.definition.definition_sources import ParameterSource, SourceValue, TemplateSource
from hearth.model import (
    chunked_work,
    errors,
    limits,
    members,
    names,
    object_fields,
    value_class,
    well_known_kinds,
    windows,
)
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds, ObjectRef
from hearth.model.members import GroupSize
from hearth.template import resource_group
from hearth.template.blueprint import Blueprint, Definition, ExternalBlueprint, ReadValue, StackIdentity
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import Evaluator
from hearth.template.compiler import compiler, secret_literals, sensitivity
from hearth.template.text import error_hints, template_source

DEFAULT_NAMESPACE: Final = "default"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """One Stack or ResourceGroup in a file."""

    source: str
    """The name of the file."""
    manifest: Object
    beside: Sequence[Any]
    """All documents of all files."""
    former: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The kinds (`Kind.group`) of the resources of the Stack with this name in the cluster, by name; empty if not read.
    """

    @property
    def is_group(self) -> bool:
        """Return whether it is a ResourceGroup."""
        return object_fields.text(self.manifest, "kind") == names.GROUP_KIND

    @property
    def is_definition(self) -> bool:
        """Return whether it is a StackDefinition."""
        return object_fields.text(self.manifest, "kind") == names.DEFINITION_KIND

    @property
    def is_template(self) -> bool:
        """Return whether it is a StackTemplate, whose parameters have no values."""
        return object_fields.text(self.manifest, "kind") == well_known_kinds.STACK_TEMPLATE.name

    @property
    def title(self) -> str:
        """Return its name in messages: `stack/shop`."""
        return f"{object_fields.text(self.manifest, 'kind').lower()}/{self.identity.name}"

    @property
    def identity(self) -> StackIdentity:
        """Return the value of `stack` in expressions. Only a cluster assigns the UID."""
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


def find_custom_objects(documents: Mapping[str, Sequence[Any]]) -> list[StackFile]:
    """Return the objects that may be instances of a StackDefinition: neither of Hearth's nor of Kubernetes' own kinds."""
    beside = [each for found in documents.values() for each in found]
    return [
        StackFile(source=source, manifest=each, beside=beside)
        for source, found in documents.items()
        for each in found
        if isinstance(each, dict) and is_custom(object_fields.text(each, "apiVersion").rpartition("/")[0])
    ]


def is_custom(group: str) -> bool:
    """Return whether an API group may be one of a StackDefinition."""
    return "." in group and group != names.GROUP and not group.endswith(".k8s.io")


def flatten(documents: Sequence[Any]) -> Iterator[Any]:
    """Yield the documents. A List is replaced by its items."""
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        if isinstance(items, list) and object_fields.text(document, "kind").endswith("List"):
            yield from items
        else:
            yield document


def is_one_of(document: Object, kinds: Collection[str]) -> bool:
    """Return whether a document is of one of these kinds of Hearth."""
    group = object_fields.text(document, "apiVersion").partition("/")[0]
    return object_fields.text(document, "kind") in kinds and group == names.GROUP


def compile_stack(stack_file: StackFile, kinds: Kinds, *, evaluator: Evaluator = evaluation.ALONE) -> Blueprint:
    """Compile a Stack or a group as the operator does. Raises InvalidDefinition with every mistake.

    evaluator: of expressions that may take long; it answers at once.
    """
    if stack_file.is_group:
        return compile_group(stack_file, kinds, evaluator)
    window = object_fields.mapping(stack_file.manifest, "spec", "window")
    of_window = list(windows.find_mistakes(window, path="spec.window"))
    try:
        blueprint = compile_definition(stack_file, kinds, evaluator)
    except errors.InvalidDefinition as error:
        raise errors.InvalidDefinition([*of_window, *error.mistakes]) from None
    if of_window:
        raise errors.InvalidDefinition(of_window)
    return blueprint


def compile_definition(stack_file: StackFile, kinds: Kinds, evaluator: Evaluator) -> Blueprint:
    """Compile the template of a Stack with its parameters. Raises InvalidDefinition or SourceNotFound."""
    try:
        return compile_read(stack_file, make_definition(stack_file), kinds, evaluator)
    except errors.InvalidDefinition as error:
        kept = [mistake for mistake in error.mistakes if not is_given_elsewhere(stack_file, mistake)]
        if not kept:
            missing = ", ".join(mistake.path.rpartition(".")[2] for mistake in error.mistakes)
            raise errors.SourceNotFound(
                f"the values of {missing} come from spec.parametersFrom; pass the files of its objects as well"
            ) from None
        raise errors.InvalidDefinition(kept) from None


def compile_read(stack_file: StackFile, definition: Definition, kinds: Kinds, evaluator: Evaluator) -> Blueprint:
    """Compile with the members that are defined by objects next to the Stack."""
    identity = stack_file.identity
    made = compiler.compile_template(definition, stack=identity, kinds=kinds, evaluator=evaluator)
    read = {
        name: ReadValue.of(each, value)
        for name, each in made.externals.items()
        if each.is_awaited and (value := find_external(stack_file, each)) is not None
    }
    if not read:
        return made
    definition = dataclasses.replace(definition, read=read)
    return compiler.compile_template(definition, stack=identity, kinds=kinds, evaluator=evaluator)


def include_template(stack_file: StackFile) -> StackFile:
    """Return a StackDefinition with the template in its spec. Raises InvalidDefinition if an object with it is missing or wrong."""
    spec = {**object_fields.mapping(stack_file.manifest, "spec"), "template": find_template(stack_file)}
    return dataclasses.replace(stack_file, manifest={**stack_file.manifest, "spec": spec})


def find_definition_mistakes(stack_file: StackFile, kinds: Kinds, evaluator: Evaluator) -> list[Mistake]:
    """Return the mistakes in a StackDefinition, with the template in its spec, that affect all objects of its kind."""
    from hearth.plan.rollouts import rollout_policy
    from hearth.template.instances import instance_schema

    of_template = find_template_mistakes(stack_file, kinds, evaluator)
    if wrong := list(file_schema.find_mistakes(stack_file.manifest)):
        # The other rules rely on the types that the schema declares.
        return [*wrong, *of_template]
    spec = object_fields.mapping(stack_file.manifest, "spec")
    return [
        *instance_schema.find_mistakes(dict(spec)),
        *rollout_policy.find_mistakes(object_fields.mapping(spec, "rollout")),
        *of_template,
    ]


def find_secret_warnings(stack_file: StackFile) -> Iterator[str]:
    """Yield the Secrets with literal values. A group's template is treated as a single resource."""
    spec = object_fields.mapping(stack_file.manifest, "spec")
    if stack_file.is_group:
        spec = resource_group.make_spec(spec) or {}
    return secret_literals.find_warnings(spec.get("template"))


def find_definition_doubts(stack_file: StackFile) -> Iterator[str]:
    """Yield the places in a StackDefinition that parameters should not reach."""
    from hearth.template.compiler import interpolation_warnings

    return interpolation_warnings.find_warnings(object_fields.mapping(stack_file.manifest, "spec"))


def find_template_mistakes(stack_file: StackFile, kinds: Kinds, evaluator: Evaluator) -> list[Mistake]:
    """Return the mistakes in a StackTemplate or StackDefinition that exist for all values of its parameters."""
    try:
        definition = Definition(template=find_template(stack_file), parameters={})
    except errors.InvalidDefinition as error:
        return list(error.mistakes)
    try:
        compiler.compile_template(definition, stack=stack_file.identity, kinds=kinds, evaluator=evaluator)
    except errors.InvalidDefinition as error:
        return definition_sources.find_certain(error, definition)
    return []


def find_external(stack_file: StackFile, external: ExternalBlueprint) -> Object | list[Object] | None:
    """Return an external object, or a list of objects, from the documents next to the Stack; None if there is none."""
    namespace = stack_file.identity.namespace
    wanted = "" if external.is_in_all_namespaces else external.namespace or namespace
    found: list[tuple[str, str, Object]] = []
    for document in stack_file.beside:
        stated = (object_fields.text(document, "apiVersion"), object_fields.text(document, "kind"))
        if not isinstance(document, dict) or stated != (external.api_version, external.kind):
            continue
        metadata = object_fields.mapping(document, "metadata")
        group = external.api_version.rpartition("/")[0]
        is_wide = cluster_scoped_kinds.is_cluster_wide(group, external.kind)
        place = "" if is_wide else object_fields.text(metadata, "namespace") or namespace
        name = object_fields.text(metadata, "name")
        if wanted and place not in ("", wanted):
            continue
        labels = object_fields.mapping(metadata, "labels")
        is_meant = external.selector.accepts(labels) if external.selector is not None else name == external.object_name
        if is_meant:
            found.append((place, name, document))
    ordered = [document for _, _, document in sorted(found, key=lambda each: each[:2])]
    if external.selector is not None:
        return ordered or None
    return ordered[0] if ordered else {} if external.is_optional else None


def make_definition(stack_file: StackFile) -> Definition:
    """Return template and parameters, also from ConfigMaps and Secrets next to the Stack. Raises InvalidDefinition."""
    template = find_template(stack_file)
    given = object_fields.find(stack_file.manifest, "spec", "parameters") or {}
    entries = object_fields.entries(stack_file.manifest, "spec", "parametersFrom")
    spec = {"parametersFrom": [*map(read_source_entry, entries)]}
    found: dict[str, SourceValue] = {}
    for source in definition_sources.find_parameter_sources(stack_file.identity.namespace, spec):
        data = find_data(source, stack_file)
        found.update(definition_sources.parse_source(source, data, wanted=sensitivity.find_stated(template)))
    if not isinstance(template, dict):
        return Definition(template=template, parameters=given)
    return chunked_work.finish(definition_sources.apply_sources(template, given, found))


def read_source_entry(stated: Mapping[str, Any]) -> Object:
    """Return an entry of `spec.parametersFrom` without fields of a wrong type, which the schema reports."""
    return {
        word: {"name": object_fields.text(stated, word, "name")}
        for word in definition_sources.PARAMETER_KINDS
        if isinstance(stated.get(word), Mapping)
    }


def find_data(source: ParameterSource, stack_file: StackFile) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret next to the Stack, as a cluster stores it, or empty if it is missing."""
    found: dict[str, str] = {}
    for document in find_beside(stack_file, source.ref):
        stored = object_fields.mapping(document, "data")
        found |= {key: value for key, value in stored.items() if isinstance(value, str)}
        for key, value in object_fields.mapping(document, "stringData").items():
            if isinstance(value, str):
                found[key] = base64.b64encode(value.encode()).decode()
    return found


def find_beside(stack_file: StackFile, ref: ObjectRef) -> Iterator[Any]:
    """Yield the documents next to a Stack that have this kind and name."""
    for document in stack_file.beside:
        named = (object_fields.text(document, "kind"), object_fields.text(document, "metadata", "name"))
        if named == (ref.kind, ref.name):
            yield document


def encode_secret(document: Mapping[str, Any]) -> Object:
    """Return a ConfigMap or Secret as the API server stores it: with `stringData` in `data`."""
    stated = object_fields.mapping(document, "stringData")
    if object_fields.text(document, "kind") != "Secret" or not stated:
        return dict(document)
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in stated.items()}
    return {**document, "data": {**object_fields.mapping(document, "data"), **encoded}}


def compile_group(stack_file: StackFile, kinds: Kinds, evaluator: Evaluator) -> Blueprint:
    """Compile a ResourceGroup. Raises InvalidDefinition."""
    spec = resource_group.make_spec(object_fields.mapping(stack_file.manifest, "spec"))
    if not spec:
        raise errors.InvalidDefinition([Mistake(path="spec.template", message="is missing; set template")])
    stated = spec[resource_group.SIZE]
    mistakes = list(members.find_size_mistakes(stated))
    # Mistakes in the size must not hide mistakes in the template.
    is_sized = all(mistake.path != "spec.replicas" for mistake in mistakes)
    size = members.make_size(stated, known=()) if is_sized else GroupSize(replicas=1)
    definition = Definition(template=spec["template"], parameters=spec["parameters"], size=size)
    mistakes += resource_group.find_mistakes(
        definition.template, size, timeout=spec.get("timeout"), is_scaled=not is_sized
    )
    try:
        blueprint = compiler.compile_template(definition, stack=stack_file.identity, kinds=kinds, evaluator=evaluator)
    except errors.InvalidDefinition as error:
        raise resource_group.translate(error, mistakes) from None
    if mistakes:
        raise errors.InvalidDefinition(mistakes)
    return blueprint


def describe_mistake(mistake: Object) -> str:
    """Return the location and the message of a mistake. mistake: has kind, stack, path and message."""
    return f"{mistake['kind'].lower()}/{mistake['stack']}: {mistake['path']}: {mistake['message']}"


def is_given_elsewhere(stack_file: StackFile, mistake: Mistake) -> bool:
    """Return whether a parameter that is missing here may come from `spec.parametersFrom`."""
    sources = object_fields.entries(stack_file.manifest, "spec", "parametersFrom")
    given = object_fields.mapping(stack_file.manifest, "spec", "parameters")
    prefix, _, name = mistake.path.rpartition(".")
    return bool(sources) and prefix == "spec.parameters" and name not in given


SINGLE, SEVERAL = "templateRef", "templateRefs"


def find_template(stack_file: StackFile) -> Any:
    """Return the template of a Stack, merged if several objects next to it contain parts of it.

    Raises InvalidDefinition with all missing and invalid parts.
    """
    spec = object_fields.mapping(stack_file.manifest, "spec")
    if "template" in spec:
        return spec["template"]
    sources = definition_sources.find_template_sources("", read_references(spec))
    if not sources:
        raise errors.InvalidDefinition([Mistake(path="spec.template", message="is missing; set template")])
    templates: list[Object] = []
    wrong: list[Mistake] = []
    for source in sources:
        try:
            templates.append(read_source(source, stack_file))
        except errors.InvalidDefinition as error:
            wrong += error.mistakes
    if wrong:
        raise errors.InvalidDefinition(wrong)
    return templates[0] if len(templates) == 1 else definition_sources.unite_templates(sources, templates)


def read_references(spec: Mapping[str, Any]) -> Object:
    """Return the references of a spec without fields of a wrong type, which the schema reports."""
    if isinstance(spec.get(SINGLE), Mapping):
        return {SINGLE: read_reference(spec[SINGLE])}
    return {SEVERAL: [read_reference(each) for each in object_fields.entries(spec, SEVERAL)]}


def read_reference(stated: Mapping[str, Any]) -> Object:
    """Return the parts of a reference as texts."""
    return {each: object_fields.text(stated, each) for each in ("kind", "name", "key")}


def read_source(source: TemplateSource, stack_file: StackFile) -> Object:
    """Return the template in one of the documents. Raises InvalidDefinition."""
    part = "binaryData" if source.is_compressed else "data"
    for document in find_beside(stack_file, source.ref):
        if source.ref.kind == well_known_kinds.STACK_TEMPLATE.name:
            return dict(object_fields.mapping(document, *well_known_kinds.TEMPLATE_KEY.split(".")))
        data = object_fields.mapping(document, part)
        if source.key not in data:
            found = error_hints.list_words(sorted(data)) or "none"
            message = f"{source.ref} has no key {source.key!r} in {part}; its keys: {found}"
            raise errors.InvalidDefinition([Mistake(path=f"{source.field}.key", message=message)])
        text = object_fields.text(data, source.key)
        if source.is_compressed:
            text = definition_sources.inflate(text, place=source.path, limit=limits.REVISION_BYTES)
        pieces = template_source.parse_in_pieces(text, place=source.path, size=limits.REVISION_BYTES)
        return chunked_work.finish(pieces)
    message = f"is in {source.ref}; pass its file as well"
    raise errors.InvalidDefinition([Mistake(path=source.field, message=message)])
