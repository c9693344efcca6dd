"""Assembly of manifests as one Stack: each becomes a resource with a readable name and its dependencies.

Must not know files, nor how the Stack is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from hearth.cli import object_fields
from hearth.cli.importer import (
    cluster_scoped_kinds,
    dependencies,
    foreign_objects,
    kind_references,
    manifest_cleanup,
    pod_references,
    resource_naming,
)
from hearth.cli.importer import manifest_documents as documents_module
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.graph import order
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.text import bounds

USUAL_NAMESPACE = "default"
"""Namespace that kubectl uses by default."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Result of an import."""

    stack: Object
    """The manifest of the Stack."""
    warnings: tuple[str, ...]
    """What the user should check, one sentence each."""


def assemble(texts: Sequence[SourceText], *, name: str, namespace: str | None, adopts: bool = False) -> Import:
    """Return the Stack of all manifests in the texts. Raises InvalidDefinition with all errors.

    adopts: whether the Stack takes over existing objects.
    """
    default_namespace = namespace or USUAL_NAMESPACE
    found = documents_module.read_all(texts, default_namespace=default_namespace)
    left_out = list(find_left_out(found))
    foreign = {id(document) for document, _ in left_out}
    documents = [document for document in found if id(document) not in foreign]
    if not documents:
        message = "contains only objects that controllers make from others; import those others"
        raise InvalidDefinition([Mistake(path=texts[0].source, message=message)])
    if len(documents) > limits.RESOURCES:
        message = f"{len(documents)} manifests are too many for one Stack, which can hold {limits.RESOURCES}"
        raise InvalidDefinition([Mistake(path=texts[0].source, message=f"{message}; import fewer files at once")])
    resource_names = resource_naming.name_all(documents)
    positions = dependencies.find_dependencies(documents, default_namespace=default_namespace)
    depends_on = {
        resource: [resource_names[position] for position in required]
        for resource, required in zip(resource_names, positions, strict=True)
    }
    warnings = [f"{call(document)} is left out: {maker} makes it" for document, maker in left_out]
    warnings += open_cycles(depends_on)
    warnings += [warning for document in documents for warning in find_doubts(document, namespace=namespace)]
    awaited = find_claims_bound_by_pods(documents, positions)
    resources = {
        resource: make_resource(document, depends_on[resource], is_ready_at_once=position in awaited)
        for position, (resource, document) in enumerate(zip(resource_names, documents, strict=True))
    }
    if mistakes := list(find_wrong_keys(zip(documents, resources.values(), strict=True))):
        raise InvalidDefinition(mistakes)
    stack = make_stack(resources, name=name, namespace=namespace, adopts=adopts)
    check_size(stack["spec"]["template"], path=texts[0].source)
    return Import(stack=stack, warnings=tuple(warnings))


def find_wrong_keys(made: Iterable[tuple[ManifestDocument, Object]]) -> Iterator[Mistake]:
    """Yield an error for each key that no template can contain. made: each document with its resource."""
    for document, resource in made:
        for path in manifest_cleanup.find_expression_keys(resource["manifest"]):
            message = f"{path}: the key contains ${{, which a template takes for an expression; keys cannot contain any"
            yield Mistake(path=document.place, message=message)


def check_size(template: Object, *, path: str) -> None:
    """Check that a Stack can have this template. Raises InvalidDefinition."""
    mistakes = bounds.check(template, path=path)
    size = 0 if mistakes else len(orjson.dumps(template))
    if size > limits.REVISION_BYTES:
        message = f"makes a template of {size} bytes, and a Stack can have {limits.REVISION_BYTES}"
        mistakes = [Mistake(path=path, message=f"{message}; import fewer files at once")]
    if mistakes:
        raise InvalidDefinition(mistakes)


def find_left_out(documents: Sequence[ManifestDocument]) -> Iterator[tuple[ManifestDocument, str]]:
    """Yield the documents whose objects others make, each with its maker."""
    for document in documents:
        if maker := foreign_objects.find_maker(document, documents):
            yield document, maker


def make_stack(resources: Mapping[str, Object], *, name: str, namespace: str | None, adopts: bool) -> Object:
    """Return the manifest of a Stack with these resources."""
    policy = {"adoptionPolicy": "Adopt"} if adopts else {}
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Stack",
        "metadata": {"name": name} if namespace is None else {"name": name, "namespace": namespace},
        "spec": {**policy, "template": {"resources": dict(resources)}},
    }


def make_resource(document: ManifestDocument, depends_on: Sequence[str], *, is_ready_at_once: bool) -> Object:
    """Return one entry of the template. Short fields come first, so that they precede a long manifest."""
    resource: Object = {}
    if depends_on:
        resource["dependsOn"] = list(depends_on)
    if is_ready_at_once:
        resource["readyWhen"] = ["true"]
    resource["manifest"] = manifest_cleanup.clean(document.manifest)
    return resource


def find_claims_bound_by_pods(documents: Sequence[ManifestDocument], required: Sequence[Sequence[int]]) -> set[int]:
    """Return the claims that imported pods use and whose class may bind them only when these pods exist.

    Waiting for such a claim before its pods exist would never end.
    """
    immediate = {document.name for document in documents if binds_at_once(document)}
    used = {
        position
        for document, positions in zip(documents, required, strict=True)
        if pod_references.find_template(document.manifest) is not None
        for position in positions
    }
    return {
        position
        for position in used
        if cluster_scoped_kinds.key_of(documents[position].group, documents[position].kind) == "PersistentVolumeClaim"
        and kind_references.find_storage_class(documents[position].manifest) not in immediate
    }


def binds_at_once(document: ManifestDocument) -> bool:
    """Return whether it is a StorageClass whose claims are bound without a pod."""
    if cluster_scoped_kinds.key_of(document.group, document.kind) != "StorageClass.storage.k8s.io":
        return False
    return bool(document.manifest.get("volumeBindingMode", "Immediate") == "Immediate")


def open_cycles(depends_on: dict[str, list[str]]) -> Iterator[str]:
    """Remove dependencies that close a cycle from `depends_on`; yield a warning for each."""
    while cycles := order.find_cycles(depends_on):
        first, second = cycles[0][0], cycles[0][1 % len(cycles[0])]
        depends_on[first] = [name for name in depends_on[first] if name != second]
        yield f"{order.describe(cycles[0])} wait for each other; {first} no longer waits for {second}"


def call(document: ManifestDocument) -> str:
    """Return how messages name a document."""
    return f"{document.place}: {document.kind} {document.name}".rstrip()


def find_doubts(document: ManifestDocument, *, namespace: str | None) -> Iterator[str]:
    """Yield warnings about one manifest that may not have the intended effect."""
    called = call(document)
    metadata = document.metadata
    if not document.name:
        yield f"{called} has no name; its object is named after the Stack and the resource"
    if "helm.sh/hook" in object_fields.mapping(metadata, "annotations"):
        yield f"{called} is a Helm hook; Hearth treats it as an ordinary resource"
    if namespace is not None and document.group == "" and document.kind == "Namespace" and document.name == namespace:
        yield f"{called} is the namespace of the Stack itself, which would be deleted with it; remove it"
