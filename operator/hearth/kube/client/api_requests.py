"""Builds and sends requests to the Kubernetes API, and reports them to the observer."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib import parse

from hearth.kube.client import JSON
from hearth.model import errors, limits, names, workloads
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection
    from hearth.kube.client.http_transport import ReadAnswer

APPLY = "application/apply-patch+yaml"
"""The content type allows JSON, because JSON is YAML. Of the two, only JSON is fast to encode."""
MERGE_PATCH = "application/merge-patch+json"
SUCCESS = 200
"""The code that the observer receives for any 2xx."""
NO_ANSWER = 0
CREATED, EXISTS, NOT_FOUND = 201, 409, 404
METHODS = {
    "get": ("GET", JSON),
    "list": ("GET", JSON),
    "create": ("POST", JSON),
    "apply": ("PATCH", APPLY),
    "patch": ("PATCH", MERGE_PATCH),
    "delete": ("DELETE", JSON),
}
"""The HTTP method and the content type of a body, by verb."""
INVALID = 422
RELATIVE = frozenset({".", ".."})
SEGMENT = re.compile(rf"[^/%\x00-\x1f\x7f]{{1,{limits.NAME_LENGTH}}}")
"""One segment of a path."""
PLAIN = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.NAME_LENGTH}}}")
"""A segment that quoting leaves unchanged: nearly every name."""
GENERATED_LENGTH = 50
"""Maximum prefix length of generated names; the server adds five characters and its limit is 63."""
TEXT = "text"
"""The key of an answer that is not JSON, see `read_text`."""
PAGE_SIZE = 500
"""Objects in one list response: parsing them blocks the event loop for some ten milliseconds."""
SMALLER = 8
"""Factor that each further attempt reduces a page by after it exceeded the size limit."""
DRY_RUN_QUERY = {"dryRun": "All", "fieldValidation": "Strict"}


class RequestObserver(Protocol):
    """The part of the observer that receives requests."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """Count a response of the API server and its duration; code 0: no response arrived."""


class ApiClient:
    """Client that sends requests through one connection."""

    def __init__(self, connection: Connection, observer: RequestObserver | None, *, user: str = "") -> None:
        """user: the user who makes the requests; "" for the operator."""
        self._connection = connection
        self._observer = observer
        self._user = user or None

    def acting_as(self, user: str) -> ApiClient:
        """Return a client of the same connection whose requests are made as that user; "" for the operator."""
        return ApiClient(self._connection, self._observer, user=user)

    async def send(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Object | None = None,
        read: ReadAnswer | None = None,
    ) -> Object:
        """Send a request and return its response.

        verb: `get`, `list`, `create`, `apply`, `patch` (a merge patch) or `delete`; read: reads a response that need not be
        parsed as a whole.
        """
        method, content_type = METHODS[verb]
        code = NO_ANSWER
        # uvloop counts the loop's time in milliseconds and updates it only once per iteration.
        begun = time.monotonic()
        try:
            answer = await self._connection.request(
                method, path, query=query, body=body, content_type=content_type, impersonate=self._user, read=read
            )
            code = SUCCESS
        except errors.ApiStatusError as refused:
            code = refused.code
            raise
        finally:
            if self._observer is not None:
                self._observer.on_request(verb=verb, kind=kind.key, code=code, seconds=time.monotonic() - begun)
        return answer

    async def send_existing(
        self, verb: str, kind: Kind, path: str, *, query: dict[str, str] | None = None, body: Object | None = None
    ) -> Object | None:
        """Send a request and return its response, or None if the server has no such object, or does not serve its kind."""
        try:
            return await self.send(verb, kind, path, query=query, body=body)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return None

    async def create_new(self, kind: Kind, body: Object) -> Object | None:
        """Create an object and return it. Returns None if another one has its name."""
        try:
            return await self.send(
                "create", kind, collection_path(kind, body["metadata"].get("namespace", "")), body=body
            )
        except errors.ApiStatusError as refused:
            if not refused.is_conflict:
                raise
            return None

    async def create_if_possible(self, kind: Kind, body: Object) -> int:
        """Create an object; return 201, 409 if another one has its name, or 404 if its namespace is missing."""
        try:
            return EXISTS if await self.create_new(kind, body) is None else CREATED
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return NOT_FOUND


def collection_path(kind: Kind, namespace: str = "") -> str:
    """Return the path of all objects of a kind, or of those in one namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{quote(namespace)}" if kind.namespaced and namespace else ""
    return f"{root}{within}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str) -> str:
    """Return the path of one object."""
    return f"{collection_path(kind, namespace)}/{quote(name)}"


def path_of(kind: Kind, metadata: Object) -> str:
    """Return the path of the object with this metadata."""
    return object_path(kind, metadata.get("namespace", ""), metadata["name"])


def quote(segment: object) -> str:
    """Return a name as one segment of a path. Raises `ApiStatusError` if it cannot be one.

    Quoting is not sufficient: the API server decodes `%2F` and interprets the rest as a subresource.
    """
    if isinstance(segment, str) and segment not in RELATIVE and PLAIN.fullmatch(segment):
        return segment
    if not isinstance(segment, str) or segment in RELATIVE or not SEGMENT.fullmatch(segment):
        message = f"{segment!r:.100} is not a valid object name: it must be text without /, % and control characters"
        status = {"kind": "Status", "code": INVALID, "reason": "Invalid", "message": message}
        raise errors.ApiStatusError(code=INVALID, status=status)
    return parse.quote(segment, safe="")


def apply_query(*, manager: str, force: bool) -> dict[str, str]:
    """Return the query of a server-side apply."""
    return {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}


def without_state(manifest: Object) -> Object:
    """Return the manifest without preconditions on an existing object."""
    stated = manifest["metadata"].items()
    return {**manifest, "metadata": {key: value for key, value in stated if key not in ("resourceVersion", "uid")}}


def generated(manifest: Object) -> Object:
    """Return the manifest with a generated name, not bound to any existing object."""
    metadata = {key: value for key, value in without_state(manifest)["metadata"].items() if key != "name"}
    prefix = str(manifest["metadata"].get("name", "hearth"))[:GENERATED_LENGTH].rstrip("-.")
    return {**manifest, "metadata": {**metadata, "generateName": f"{prefix}-"}}


def delete_options(
    uid: str, *, version: int | None = None, keeps_dependents: bool = False, kind: Kind | None = None
) -> Object:
    """Return the body that deletes exactly this object, in this state unless `version` is None.

    It sets the propagation policy, because the default differs between kinds: the object of a kind that owns Pods
    exists until they are deleted. keeps_dependents: whether the objects that it owns stay.
    """
    waits = kind is not None and kind.key in workloads.POD_OWNERS
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Orphan" if keeps_dependents else "Foreground" if waits else "Background",
        "preconditions": {"uid": uid, **({"resourceVersion": str(version)} if version is not None else {})},
    }


def at_version(body: Object, version: int) -> Object:
    """Return a merge patch that the API server rejects if the object has changed since that version."""
    return {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(version)}}


def release_patch(metadata: Mapping[str, Any], *, uid: str, version: int, finalizers: Sequence[str] = ()) -> Object:
    """Return the merge patch that removes Hearth's metadata from an object in exactly this state."""
    kept: Object = {"uid": uid, "resourceVersion": str(version)}
    taken = {
        part: dict.fromkeys(key for key in metadata.get(part) or {} if names.is_ours(key))
        for part in ("labels", "annotations")
    }
    if names.FINALIZER_COMPLETION in finalizers:
        kept["finalizers"] = [each for each in finalizers if each != names.FINALIZER_COMPLETION]
    return {"metadata": {**kept, **{part: keys for part, keys in taken.items() if keys}}}


def mark_patch(reason: str | None, *, mark_id: str, uid: str, version: int) -> Object:
    """Return the merge patch that writes or removes (None) a mark on an object in exactly this state."""
    source = mark_id if mark_id and reason is not None else None
    annotations = {names.ANNOTATION_UNHEALTHY: reason, names.ANNOTATION_MARKED_BY: source}
    return {"metadata": {"uid": uid, "resourceVersion": str(version), "annotations": annotations}}


def children_selector(share: Share) -> dict[str, str]:
    """Return the selector of the children, or revisions, of a shard of Stacks, for a list or watch."""
    if share.has_all_buckets:
        return {"labelSelector": names.LABEL_STACK_UID}
    buckets = ",".join(map(str, share.list_buckets()))
    return {"labelSelector": f"{names.LABEL_STACK_UID},{names.LABEL_BUCKET} in ({buckets})"}


def children_query(stack_uid: str, *, continued: str, size: int = PAGE_SIZE) -> dict[str, str]:
    """Return the query of a paginated list of a Stack's children."""
    query = {"labelSelector": f"{names.LABEL_STACK_UID}={stack_uid}", "limit": str(size)}
    return {**query, "continue": continued} if continued else query


def access_review(
    verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "", groups: Sequence[str] = ()
) -> Object:
    """Return the request that checks a permission of a user. name: of the object, "" for all.

    user: with its groups; "" for the account that sends the request.
    """
    attributes = {"verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural}
    if kind.namespaced:
        attributes["namespace"] = namespace
    if name:
        attributes["name"] = name
    subject: Object = {"user": user, "groups": list(groups)} if user else {}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview" if user else "SelfSubjectAccessReview",
        "spec": {**subject, "resourceAttributes": attributes},
    }


def read_text(data: bytes) -> Object:
    """Return an answer that is not JSON, for example a log, under the key `TEXT`."""
    return {TEXT: data.decode(errors="replace")}
