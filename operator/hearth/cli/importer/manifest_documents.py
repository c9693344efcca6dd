"""Parses YAML and JSON into manifests, each with its position for messages, and checks the required fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import yaml

from hearth.cli.importer import cluster_scoped_kinds
from hearth.model import kinds, limits, value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.kinds import ObjectRef
from hearth.template.parser import object_metadata
from hearth.template.text import bounds, kubectl_yaml

BOUNDS = kubectl_yaml.Bounds(nodes=limits.IMPORT_NODES, size=limits.IMPORT_BYTES)
NEXT_STEP = "; every manifest starts with apiVersion and kind"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDocument:
    """One manifest and its position."""

    manifest: Object
    place: str
    """The position: `shop.yaml, document 3 (line 40)`."""

    @property
    def api_version(self) -> str:
        """Return group and version."""
        return str(self.manifest["apiVersion"])

    @property
    def group(self) -> str:
        """Return the part of apiVersion before the slash; "" for the core group."""
        return cluster_scoped_kinds.group_of(self.api_version)

    @property
    def kind(self) -> str:
        """Return the kind."""
        return str(self.manifest["kind"])

    @property
    def key(self) -> str:
        """Return kind and group as one text: `Deployment.apps`, `Service`."""
        return kinds.make_key(self.group, self.kind)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata; empty without them."""
        return self.manifest.get("metadata") or {}

    @property
    def name(self) -> str:
        """Return the name, or "" if the manifest has none."""
        return self.metadata.get("name") or ""

    @property
    def namespace(self) -> str:
        """Return the namespace, or "" if the manifest has none."""
        return self.metadata.get("namespace") or ""

    def locate(self, default_namespace: str) -> ObjectRef:
        """Return the object that the manifest describes. default_namespace: its namespace if the manifest has none."""
        namespace = (
            "" if cluster_scoped_kinds.is_cluster_wide(self.group, self.kind) else self.namespace or default_namespace
        )
        return ObjectRef(group=self.group, kind=self.kind, namespace=namespace, name=self.name)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The content of one file."""

    source: str
    """Name of the file, for messages."""
    content: str


def read_all(texts: Sequence[SourceText], *, default_namespace: str) -> list[ManifestDocument]:
    """Return all manifests of all texts in their order. Raises InvalidDefinition with all errors."""
    documents: list[ManifestDocument] = []
    mistakes: list[Mistake] = []
    for text in texts:
        for found in read(text):
            if isinstance(found, Mistake):
                mistakes.append(found)
            else:
                documents.append(found)
    mistakes += find_duplicates(documents, default_namespace=default_namespace)
    if not documents and not mistakes:
        mistakes = [Mistake(path=text.source, message="contains no manifest") for text in texts]
    if mistakes:
        raise InvalidDefinition(mistakes)
    return documents


def read(text: SourceText) -> Iterator[ManifestDocument | Mistake]:
    """Yield each manifest of one text, and each item of lists. Nothing after a YAML error can be read."""
    if (value := parse_json(text.content)) is not None:
        yield from take_apart(value, place=f"{text.source}, document 1 (line 1)", inherited={})
        return
    try:
        for document in kubectl_yaml.parse_documents(text.content, BOUNDS):
            place = f"{text.source}, document {document.number} (line {document.line})"
            yield from take_apart(document.value, place=place, inherited={})
    except yaml.YAMLError as error:
        yield Mistake(path=text.source, message=f"is not valid YAML: {kubectl_yaml.describe(error)}")


def parse_json(text: str) -> Object | None:
    """Return the map that a JSON text contains, or None if it must be read as YAML, which also reports its mistakes.

    Not all of JSON is YAML: only in JSON, a character beyond 16 bits may be two escapes.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    is_plain = isinstance(found, dict) and not bounds.find_excess(found, depth=BOUNDS.depth, nodes=BOUNDS.nodes)
    return found if is_plain and not bounds.has_large_integer(found) else None


def take_apart(value: Any, *, place: str, inherited: Mapping[str, str]) -> Iterator[ManifestDocument | Mistake]:
    """Return the manifest `value`, or the manifests in the list `value`.

    inherited: apiVersion and kind for items of a typed list that omit them, as in responses of the API server.
    """
    if not isinstance(value, dict):
        yield Mistake(path=place, message=f"must be a mapping, found {describe_type(value)}{NEXT_STEP}")
        return
    manifest = {**inherited, **value}
    wrong = find_mistake(manifest, place=place)
    mistakes = [wrong] if wrong is not None else list(find_wrong_metadata(manifest, place=place))
    if mistakes:
        yield from mistakes
        return
    kind = manifest["kind"]
    if not kind.endswith("List") or not isinstance(manifest.get("items"), list):
        yield ManifestDocument(manifest=manifest, place=place)
        return
    typed = {} if kind == "List" else {"apiVersion": manifest["apiVersion"], "kind": kind.removesuffix("List")}
    for number, item in enumerate(manifest["items"], start=1):
        yield from take_apart(item, place=f"{place}, item {number}", inherited=typed)


def find_mistake(manifest: Mapping[str, Any], *, place: str) -> Mistake | None:
    """Return why it is not a manifest, or "" if it is one."""
    for key in ("apiVersion", "kind"):
        value = manifest.get(key)
        if not isinstance(value, str) or not value:
            found = f"found {describe_type(value)}" if key in manifest else "found nothing"
            return Mistake(path=place, message=f"{key} must be text, {found}{NEXT_STEP}")
    metadata = manifest.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        return Mistake(path=place, message=f"metadata must be a mapping, found {describe_type(metadata)}")
    return None


def find_wrong_metadata(manifest: Mapping[str, Any], *, place: str) -> Iterator[Mistake]:
    """Yield an error for each invalid name, label and annotation. An empty name counts as not set."""
    metadata = manifest.get("metadata") or {}
    stated = {key: value for key, value in metadata.items() if value != "" or key in object_metadata.TEXT_MAPS}
    for mistake in object_metadata.find_mistakes(stated, path="metadata"):
        yield Mistake(path=place, message=f"{mistake.path} {mistake.message.removesuffix(object_metadata.OR_CONVERT)}")


def find_duplicates(documents: Sequence[ManifestDocument], *, default_namespace: str) -> Iterator[Mistake]:
    """Yield an error for each manifest whose object an earlier manifest describes."""
    first: dict[ObjectRef, ManifestDocument] = {}
    for document in documents:
        reference = document.locate(default_namespace)
        if not document.name:
            continue
        other = first.setdefault(reference, document)
        if other is not document:
            where = f" in namespace {reference.namespace}" if reference.namespace else ""
            message = f"{reference}{where} is already in {other.place}; remove one of the two"
            yield Mistake(path=document.place, message=message)


def describe_type(value: Any) -> str:
    """Describe the type of a JSON value: `a list`, `a number`, `nothing` …"""
    match value:
        case None | "":
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a mapping"
