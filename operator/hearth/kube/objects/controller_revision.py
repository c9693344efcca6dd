"""A Stack's revision as the `apps/v1 ControllerRevision` that keeps it, and back.

Must not know when revisions are made, nor how they travel.
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
"""Bytes; below that, people may read a revision with kubectl."""
GZIP = 16 + zlib.MAX_WBITS
"""What tells zlib that a gzip header comes first."""


def make_revision(stack: StackObject, revision: Revision, definition: Object) -> Object:
    """The object to store; the garbage collector takes it away with its Stack."""
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
                    # Deleting the Stack in the foreground must not wait for its history: that is needed to the end.
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "revision": revision.number,
        "data": encode_definition(definition),
    }


def make_annotations(revision: Revision) -> dict[str, str]:
    """What is known of a revision without reading its definition."""
    return {
        names.ANNOTATION_HASH: revision.hash,
        names.ANNOTATION_KINDS: ",".join(sorted(revision.kinds)),
        # Beside the object's own field, which a watch of metadata does not show.
        names.ANNOTATION_REVISION: str(revision.number),
        names.ANNOTATION_SIGNATURE: revision.signature,
    }


def encode_definition(definition: Object) -> Object:
    """The definition as it is stored: as it is, or compressed where it is large."""
    raw = orjson.dumps(definition)
    if len(raw) <= COMPRESSED_FROM:
        return definition
    # No time in it: the same definition always gives the same bytes.
    return {"compressed": base64.b64encode(gzip.compress(raw, mtime=0)).decode()}


def parse_definition(raw: Mapping[str, Any]) -> Object:
    """The definition in a stored revision. Raises TamperedRevision where there is none."""
    data = raw.get("data") or {}
    try:
        if "compressed" in data:
            data = orjson.loads(inflate(base64.b64decode(data["compressed"], validate=True)))
        found = {"template": data["template"], "parameters": data["parameters"]}
        return {**found, "sensitive": data["sensitive"]} if data.get("sensitive") else found
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        name = raw["metadata"]["name"]
        raise errors.TamperedRevision(
            f"controllerrevision.apps/{name} holds no definition ({error}). It is not as this operator stored it, and is "
            f"not used. Delete it, and put the definition that you want into the spec"
        ) from error


def inflate(compressed: bytes) -> bytes:
    """The text that was compressed. Raises ValueError or zlib.error where it is none, or larger than any definition."""
    stream = zlib.decompressobj(wbits=GZIP)
    text = stream.decompress(compressed, limits.REVISION_BYTES)
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is cut off, or inflates to more than {limits.REVISION_BYTES} bytes")
    if sum(map(text.count, b",[{")) > limits.REVISION_VALUES:
        raise ValueError(f"it holds more than {limits.REVISION_VALUES} values")
    return text
