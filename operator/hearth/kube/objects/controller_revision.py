"""Converts between a Stack's revision and the ControllerRevision (`apps/v1`) that stores it."""

from __future__ import annotations

import base64
import functools
import gzip
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hearth.engine import cluster_objects
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.model import errors, limits, names, packing, sharding
from hearth.model.child import Object
from hearth.model.well_known_kinds import CONTROLLER_REVISION
from hearth.plan.ownership import keyed_hash

OPTIONAL_PARTS = ("sensitive", "size", "form")
"""Optional parts of a stored definition."""
COMPRESSED_FROM = 64 * 1024
"""Minimum bytes for compression; smaller revisions stay readable with kubectl."""
FAST = 4
"""Compression level for a definition that fits into one object. The result is at most a quarter larger than with the
highest level, which takes ten times as long (23 instead of 2 ms for a list of 5,000 tenants)."""
KINDS_KEPT = 256
"""Maximum number of interned sets of kinds; Stacks of one template have the same set."""
KINDS_LENGTH = 64 * limits.REVISION_KINDS
"""Maximum characters of kinds that are read; a longer text cannot have a valid signature."""
ESCAPES = tuple((char.encode(), f"\\u{ord(char):04x}".encode()) for char in "<>&\u2028\u2029")
"""The characters that Go escapes in JSON. They occur only within strings."""
HASH_LENGTH = 128
"""Maximum characters of a hash or signature that are read: three times the actual length."""


def make_objects(stack: StackObject, revision: Revision, definition: Object) -> list[Object]:
    """Create the objects to store, in the order of creation; the garbage collector deletes them with their Stack.

    The last one is the revision and names all others. Until it exists, none of them counts. Raises InvalidDefinition if
    the definition is too large to be read back.
    """
    data, *parts = encode_definition(definition, raw=write_definition(definition, stack))
    labels = {
        names.LABEL_STACK_UID: stack.uid,
        names.LABEL_STACK: names.stack_label(stack.name),
        names.LABEL_BUCKET: sharding.label_of(stack.uid),
    }
    annotations = {**make_annotations(revision), **cluster_objects.describe_origin(stack)}
    if stack.kind != names.STACK:
        annotations[names.ANNOTATION_STACK_KIND] = stack.kind
    if parts:
        annotations[names.ANNOTATION_PARTS] = str(len(parts))
    # Without labels, the parts appear in no watch or list of revisions.
    objects = [
        _make_object(stack, revision, name, data=part, labels={}, annotations={})
        for name, part in zip(name_parts(revision.name, len(parts)), parts, strict=True)
    ]
    return [*objects, _make_object(stack, revision, revision.name, data=data, labels=labels, annotations=annotations)]


def _make_object(
    stack: StackObject,
    revision: Revision,
    name: str,
    *,
    data: Object,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Object:
    metadata = {
        "name": name,
        "namespace": stack.namespace,
        "labels": dict(labels),
        "annotations": dict(annotations),
        "ownerReferences": [make_owner(stack)],
    }
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.name,
        "metadata": {key: value for key, value in metadata.items() if value},
        "revision": revision.number,
        "data": data,
    }


def make_owner(stack: StackObject) -> Object:
    """Create the owner reference of a revision of the Stack."""
    return {
        "apiVersion": stack.api_version,
        "kind": stack.kind_name,
        "name": stack.name,
        "uid": stack.uid,
        "controller": True,
        # Foreground deletion of the Stack must not wait for its revisions, which are needed until the end.
        "blockOwnerDeletion": False,
    }


def make_annotations(revision: Revision) -> dict[str, str]:
    """Create the annotations that describe a revision without its definition."""
    finished = {names.ANNOTATION_FINISHED: revision.finished} if revision.finished else {}
    return finished | {
        names.ANNOTATION_HASH: revision.hash,
        names.ANNOTATION_KINDS: ",".join(sorted(revision.kinds)),
        # The `revision` field of the object has the same number, but metadata watches do not show it.
        names.ANNOTATION_REVISION: str(revision.number),
        names.ANNOTATION_SIGNATURE: revision.signature,
    }


def encode_definition(definition: Object, *, raw: bytes | None = None) -> list[Object]:
    """Return the stored form of the definition, compressed and in several objects if it is large. raw: its JSON.

    Raises InvalidDefinition if it is too large to be read back.
    """
    raw = orjson.dumps(definition) if raw is None else raw
    if len(raw) <= COMPRESSED_FROM:
        return [definition]
    if excess := find_excess(raw):
        raise make_too_large(excess)
    # Without a timestamp, the same definition always produces the same bytes.
    text = base64.b64encode(gzip.compress(raw, FAST, mtime=0)).decode()
    if len(text) > limits.PART_BYTES:
        text = base64.b64encode(gzip.compress(raw, mtime=0)).decode()
    parts = [{"compressed": text[at : at + limits.PART_BYTES]} for at in range(0, len(text), limits.PART_BYTES)]
    if len(parts) > limits.REVISION_PARTS + 1:
        most = (limits.REVISION_PARTS + 1) * limits.PART_BYTES
        raise make_too_large(f"compressed and in base 64 it has {len(text)} characters, at most {most} are stored")
    return parts


def write_data(data: Object) -> bytes:
    """Return the JSON of `data` exactly as the API server writes it when any client patches the object.

    The API server compares the bytes: a patch of only the metadata (a label, or the owner that the garbage collector
    removes) fails as a change of immutable data if it would write them in another way.
    """
    text = keyed_hash.canonical(data)
    for character, escape in ESCAPES:
        text = text.replace(character, escape)
    return text


def find_excess(raw: bytes) -> str:
    """Describe how the JSON of a definition exceeds the limits of a revision. Returns "" if it does not."""
    if len(raw) > limits.REVISION_BYTES:
        return f"it has {len(raw)} bytes as JSON, at most {limits.REVISION_BYTES} are stored"
    if packing.has_more_values(raw, limits.REVISION_VALUES):
        return f"it holds more than {limits.REVISION_VALUES} values"
    return ""


def make_too_large(excess: str) -> errors.InvalidDefinition:
    """Create the error for a definition that no revision can contain."""
    message = f"the template with its parameters is too large for a revision: {excess}; split it into several Stacks"
    return errors.InvalidDefinition([errors.Mistake(path="spec", message=message)])


def write_definition(definition: Object, stack: StackObject) -> bytes:
    """Return the JSON of a definition; unchanged parameters of the spec keep the JSON of the Stack."""
    stated = stack.parsed_spec.get("parameters") if stack.parsed_spec is not None else None
    if stated is None or definition["parameters"] is not stated or not stack.packed_parameters:
        return orjson.dumps(definition)
    return orjson.dumps({**definition, "parameters": orjson.Fragment(stack.packed_parameters)})


def name_parts(name: str, count: int) -> list[str]:
    """Return the names of the further objects of the revision `name`, which follow from its own name."""
    return [names.shorten(f"{name}-part-{at}", length=names.NAME_LENGTH) for at in range(1, count + 1)]


def read_part_count(annotations: Mapping[str, str]) -> int:
    """Return the number of further objects, or 0 if it is implausible, so that the content cannot match its hash."""
    text = annotations.get(names.ANNOTATION_PARTS, "0")
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS else 0
    return count if count <= limits.REVISION_PARTS else 0


def make_tampered(name: str, fault: object) -> errors.TamperedRevision:
    """Create the error for a revision without its definition."""
    return errors.TamperedRevision(
        f"controllerrevision.apps/{name} contains no definition ({fault}). It was modified after this operator "
        f"stored it, and is not used. Delete it, and set the definition that you want in the spec"
    )


def parse_definition(raw: Mapping[str, Any], parts: Sequence[Mapping[str, Any]] = ()) -> Object:
    """Return the definition in a stored revision and its further objects. Raises TamperedRevision if there is none."""
    data = raw.get("data") or {}
    try:
        if "compressed" in data:
            texts = [data["compressed"], *(part["data"]["compressed"] for part in parts)]
            data = orjson.loads(inflate(base64.b64decode("".join(texts), validate=True)))
        found = {"template": data["template"], "parameters": data["parameters"]}
        return found | {key: data[key] for key in OPTIONAL_PARTS if data.get(key)}
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise make_tampered(raw["metadata"]["name"], error) from error


def inflate(compressed: bytes) -> bytes:
    """Decompress a text. Raises ValueError or zlib.error if it is invalid or larger than any definition."""
    text = packing.inflate(compressed, limit=limits.REVISION_BYTES)
    if excess := find_excess(text):
        raise ValueError(excess)
    return text


def parse_revision(metadata: Object) -> Revision:
    """Parse the metadata of a ControllerRevision; its author is unknown, so verify them before use."""
    annotations = metadata.get("annotations") or {}
    finished = annotations.get(names.ANNOTATION_FINISHED, "")
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("controller") is True)
    return Revision(
        name=metadata["name"],
        number=read_number(annotations.get(names.ANNOTATION_REVISION, "")),
        hash=annotations.get(names.ANNOTATION_HASH, "")[:HASH_LENGTH],
        kinds=parse_kinds(annotations.get(names.ANNOTATION_KINDS, "")[:KINDS_LENGTH]),
        namespace=metadata.get("namespace", ""),
        owner=next((str(each.get("uid", "")) for each in owners), ""),
        signature=annotations.get(names.ANNOTATION_SIGNATURE, "")[:HASH_LENGTH],
        parts=read_part_count(annotations),
        definition_revision=read_number(annotations.get(names.ANNOTATION_DEFINITION_REVISION, "")),
        finished=finished if len(finished) <= limits.FINISHED_RECORD_BYTES else "",
    )


def read_number(text: str) -> int:
    """Return the number in an annotation, or 0 if it has none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= limits.COUNT_DIGITS else 0


@functools.lru_cache(maxsize=KINDS_KEPT)
def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds that a revision claims to have applied; one set in memory for equal texts."""
    return frozenset(text.split(",")) if text else frozenset()
