"""Paths, queries and bodies of requests to the Kubernetes API; nothing in here sends anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib import parse

from hearth.model import errors, limits, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share

APPLY = "application/apply-patch+yaml"
"""JSON is YAML, and the only one of the two that is quick to write."""
MERGE_PATCH = "application/merge-patch+json"
INVALID = 422
RELATIVE = frozenset({".", ".."})
SEGMENT = re.compile(rf"[^/%\x00-\x1f\x7f]{{1,{limits.NAME_LENGTH}}}")
"""One segment of a path."""
GENERATED_LENGTH = 50
"""Of a prefix of generated names; the server adds five characters and keeps to 63."""
PAGE_SIZE = 500
"""Objects in one answer to a list: parsing them holds the event loop for some ten milliseconds."""
SMALLER = 8
"""Times, is each further try of a page that was too large to be read."""


def collection_path(kind: Kind, namespace: str = "") -> str:
    """Where all objects of a kind are; those of one namespace where that is given."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{quote(namespace)}" if kind.namespaced and namespace else ""
    return f"{root}{within}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str) -> str:
    """Where one object is."""
    return f"{collection_path(kind, namespace)}/{quote(name)}"


def quote(segment: object) -> str:
    """A name as one segment of a path. Raises `Refused` where it cannot be one.

    Quoting is not enough: the API server decodes `%2F`, and takes what follows for a subresource.
    """
    if not isinstance(segment, str) or segment in RELATIVE or not SEGMENT.fullmatch(segment):
        message = f"{segment!r:.100} is no name of an object: it must be text without /, % and control characters"
        status = {"kind": "Status", "code": INVALID, "reason": "Invalid", "message": message}
        raise errors.ApiStatusError(code=INVALID, status=status)
    return parse.quote(segment, safe="")


def apply_query(*, manager: str, force: bool) -> dict[str, str]:
    """Of a server-side apply."""
    return {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}


def apply_dry_run_query(manager: str) -> dict[str, str]:
    """Of a server-side apply by force that writes nothing."""
    return {**apply_query(manager=manager, force=True), "dryRun": "All"}


DRY_RUN_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


def generated(manifest: Object) -> Object:
    """The same manifest under a generated name, bound to no object that exists."""
    metadata = {
        key: value for key, value in manifest["metadata"].items() if key not in ("name", "resourceVersion", "uid")
    }
    prefix = str(manifest["metadata"].get("name", "hearth"))[:GENERATED_LENGTH].rstrip("-.")
    return {**manifest, "metadata": {**metadata, "generateName": f"{prefix}-"}}


def delete_options(uid: str, *, version: int) -> Object:
    """The body that deletes that very object in that very state; the policy is stated since kinds differ in theirs."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid, "resourceVersion": str(version)},
    }


def release_patch(metadata: Mapping[str, Any], *, uid: str, version: int) -> Object:
    """The merge patch that takes what is ours off an object with that metadata, as long as it is in that very state."""
    kept = {"uid": uid, "resourceVersion": str(version)}
    taken = {
        part: dict.fromkeys(key for key in metadata.get(part) or {} if names.is_ours(key))
        for part in ("labels", "annotations")
    }
    return {"metadata": {**kept, **{part: keys for part, keys in taken.items() if keys}}}


def mark_patch(reason: str | None, *, uid: str, version: int) -> Object:
    """The merge patch that writes a mark onto an object, or takes it off (None), as long as it is in that very state."""
    annotations = {names.ANNOTATION_UNHEALTHY: reason}
    return {"metadata": {"uid": uid, "resourceVersion": str(version), "annotations": annotations}}


def children_selector(share: Share) -> dict[str, str]:
    """Of a list or watch of the children, or revisions, of a share of all Stacks."""
    if share.is_whole:
        return {"labelSelector": names.LABEL_STACK_UID}
    buckets = ",".join(map(str, share.list_buckets()))
    return {"labelSelector": f"{names.LABEL_STACK_UID},{names.LABEL_BUCKET} in ({buckets})"}


def children_query(stack_uid: str, *, continued: str, size: int = PAGE_SIZE) -> dict[str, str]:
    """Of a list of a Stack's children, a page at a time."""
    query = {"labelSelector": f"{names.LABEL_STACK_UID}={stack_uid}", "limit": str(size)}
    return {**query, "continue": continued} if continued else query


def access_review(verb: str, *, kind: Kind, namespace: str) -> Object:
    """The question whether our own account may do that."""
    attributes = {"verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural}
    if kind.namespaced:
        attributes["namespace"] = namespace
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
