"""A Stack's revision as the `apps/v1 ControllerRevision` that keeps it, and back.

Must not know when revisions are made, nor how they travel.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import orjson

from hearth.engine.ports import Revision, StackObject
from hearth.kube import provenance
from hearth.kube.revision_cache import CONTROLLER_REVISION
from hearth.model import errors, names, shards
from hearth.model.child import Object

COMPRESSED_FROM = 64 * 1024
"""Bytes; below that, people may read a revision with kubectl."""


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
                names.LABEL_BUCKET: shards.label_of(stack.uid),
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
    }


def encode_definition(definition: Object) -> Object:
    """The definition as it is stored: as it is, or compressed where it is large."""
    raw = orjson.dumps(definition)
    if len(raw) <= COMPRESSED_FROM:
        return definition
    # No time in it: the same definition always gives the same bytes.
    return {"compressed": base64.b64encode(gzip.compress(raw, mtime=0)).decode()}


def parse_definition(raw: Mapping[str, Any]) -> Object:
    """The definition in a stored revision. Raises MissingSource where it cannot be read any more."""
    data = raw.get("data") or {}
    try:
        if "compressed" in data:
            data = orjson.loads(gzip.decompress(base64.b64decode(data["compressed"], validate=True)))
        found = {"template": data["template"], "parameters": data["parameters"]}
        return {**found, "sensitive": data["sensitive"]} if data.get("sensitive") else found
    except (KeyError, TypeError, ValueError, EOFError, OSError) as error:
        name = raw["metadata"]["name"]
        raise errors.MissingSource(
            f"controllerrevision.apps/{name} holds no definition: {error!r}; somebody has spoilt it, choose another one"
        ) from error
