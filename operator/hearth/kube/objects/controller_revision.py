"""Conversion between a Stack's revision and the `apps/v1 ControllerRevision` that stores it.

Must not know when revisions are created or how they are sent.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Mapping
from typing import Any

import orjson

from hearth.engine.ports import Revision, StackObject
from hearth.kube.objects import provenance
from hearth.kube.well_known_kinds import CONTROLLER_REVISION
from hearth.model import errors, limits, names, sharding
from hearth.model.child import Object

COMPRESSED_FROM = 64 * 1024
"""Minimum bytes for compression; smaller revisions stay readable with kubectl."""
GZIP = 16 + zlib.MAX_WBITS
"""Window bits that make zlib expect a gzip header."""


def make_revision(stack: StackObject, revision: Revision, definition: Object) -> Object:
    """Create the object to store; the garbage collector deletes it with its Stack."""
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.name,
        "metadata": {
            "name": revision.name,
            "namespace": stack.namespace,
            "labels": {
                names.LABEL_STACK_UID: stack.uid,
                names.LABEL_STACK: names.stack_label(stack.name),
                names.LABEL_BUCKET: sharding.label_of(stack.uid),
            },
            "annotations": {**make_annotations(revision), **provenance.describe(stack)},
            "ownerReferences": [
                {
                    "apiVersion": f"{names.GROUP}/{names.VERSION}",
                    "kind": "Stack",
                    "name": stack.name,
                    "uid": stack.uid,
                    "controller": True,
                    # Foreground deletion of the Stack must not wait for the history, which is needed until the end.
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "revision": revision.number,
        "data": encode_definition(definition),
    }


def make_annotations(revision: Revision) -> dict[str, str]:
    """Create the annotations that describe a revision without its definition."""
    return {
        names.ANNOTATION_HASH: revision.hash,
        names.ANNOTATION_KINDS: ",".join(sorted(revision.kinds)),
        # The object's own field has the same number, but a metadata watch does not show it.
        names.ANNOTATION_REVISION: str(revision.number),
        names.ANNOTATION_SIGNATURE: revision.signature,
    }


def encode_definition(definition: Object) -> Object:
    """Return the stored form of the definition, compressed if it is large."""
    raw = orjson.dumps(definition)
    if len(raw) <= COMPRESSED_FROM:
        return definition
    # Without a timestamp, the same definition always produces the same bytes.
    return {"compressed": base64.b64encode(gzip.compress(raw, mtime=0)).decode()}


def parse_definition(raw: Mapping[str, Any]) -> Object:
    """Return the definition in a stored revision. Raises TamperedRevision if there is none."""
    data = raw.get("data") or {}
    try:
        if "compressed" in data:
            data = orjson.loads(inflate(base64.b64decode(data["compressed"], validate=True)))
        found = {"template": data["template"], "parameters": data["parameters"]}
        return {**found, "sensitive": data["sensitive"]} if data.get("sensitive") else found
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        name = raw["metadata"]["name"]
        raise errors.TamperedRevision(
            f"controllerrevision.apps/{name} contains no definition ({error}). It was modified after this operator "
            f"stored it, and is not used. Delete it, and set the definition that you want in the spec"
        ) from error


def inflate(compressed: bytes) -> bytes:
    """Decompress a text. Raises ValueError or zlib.error if it is invalid or larger than any definition."""
    stream = zlib.decompressobj(wbits=GZIP)
    text = stream.decompress(compressed, limits.REVISION_BYTES)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is truncated, or inflates to more than {limits.REVISION_BYTES} bytes")
    if sum(map(text.count, b",[{")) > limits.REVISION_VALUES:
        raise ValueError(f"it holds more than {limits.REVISION_VALUES} values")
    return text
