"""Implements `hearth.engine.ports.ManagementCluster` on a real API server, and stores the key of all hashes.

Data that is read often comes from caches.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

import orjson

from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.objects import controller_revision, event_recorder
from hearth.model import errors, limits, names
from hearth.model.child import Object
from hearth.model.well_known_kinds import CONTROLLER_REVISION, NAMESPACE, SECRET

if TYPE_CHECKING:
    from hearth.engine.cluster_objects import Revision, StackObject
    from hearth.kube.cache.revision_cache import RevisionCache
    from hearth.kube.cache.source_cache import SourceCache
    from hearth.kube.cache.stack_cache import StackCache
    from hearth.kube.client.api_requests import RequestObserver
    from hearth.kube.client.connection import Connection
    from hearth.model.kinds import Kind, ObjectRef
    from hearth.template.instances.instance_form import InstanceForms

HASH_KEY_NAME = "hearth-hash-key"
HASH_KEY_FIELD = "key"
HASH_KEY_LENGTH = 32
"""Bytes; the length of the hash that uses it."""


class KubeManagementCluster:
    """The cluster that stores the Stacks."""

    def __init__(  # noqa: PLR0913 -- each cache is a separate source
        self,
        connection: Connection,
        *,
        stacks: StackCache,
        revisions: RevisionCache,
        sources: SourceCache,
        groups: StackCache | None = None,
        observer: RequestObserver | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create the adapter. groups: of ResourceGroups, with the tree of `stacks`; now: seconds since the epoch."""
        self._sender = ApiClient(connection, observer)
        self.tree = stacks.tree
        """The nesting of all known Stacks."""
        self._caches = {names.STACK: stacks, **({names.GROUP_KIND: groups} if groups is not None else {})}
        """The caches by `StackObject.kind`."""
        self._revisions = revisions
        self._sources = sources
        self._events = event_recorder.EventRecorder(self._sender, now=now)
        # Methods of the port that need only one cache.
        self.revisions = revisions.revisions
        self.get_source, self.get_binary_data = sources.get_source, sources.get_binary_data
        self.follow_sources, self.find_polled_sources = sources.follow_sources, sources.find_polled
        self.find_source_creators = sources.find_creators

    def find_stack(self, uid: str) -> StackObject | None:
        """Return the Stack, or None if it does not exist."""
        for cache in self._caches.values():
            if (found := cache.find_stack(uid)) is not None:
                return found
        return None

    async def open_stack(self, stack: StackObject) -> StackObject:
        """Return a Stack with its spec parsed; read it if its spec is not in memory."""
        opened = stack.with_parsed_spec()
        if not opened.omitted_size:
            return opened
        cache = self._find_cache(stack)
        path = api_requests.object_path(cache.kind, stack.namespace, stack.name)
        live = await self._sender.send("get", cache.kind, path)
        if live["metadata"]["uid"] != stack.uid:
            raise errors.Unreachable(
                f"{stack.kind} {stack.namespace}/{stack.name} was replaced; the new one is read next"
            )
        return cache.open(live)

    def stacks(self) -> Collection[str]:
        """Return the UIDs of all Stacks in the shard of this process."""
        return [uid for cache in self._caches.values() for uid in cache.stacks()]

    @property
    def caches(self) -> Collection[StackCache]:
        """Return the caches of all kinds."""
        return self._caches.values()

    def add_kind(self, cache: StackCache) -> None:
        """Treat the instances of a StackDefinition as Stacks."""
        self._caches[cache.kind.key] = cache

    def remove_kind(self, kind: Kind) -> StackCache | None:
        """Stop treating the instances of a StackDefinition as Stacks; return their cache."""
        return self._caches.pop(kind.key, None)

    def has_listed(self, kind: str) -> bool:
        """Return whether all Stacks, or all ResourceGroups, are known. The operator may lack the right to list one of them."""
        cache = self._caches.get(kind)
        return cache is not None and cache.is_synced

    def find_forms(self, key: str) -> InstanceForms | None:
        """Return the revisions of the StackDefinition that makes a kind, or None if none does. key: `Kind.group`."""
        cache = self._caches.get(key)
        return cache.forms if cache is not None else None

    def complete_kind(self, name: str) -> str:
        """Return `Kind.group` of the only kind with that name that a StackDefinition creates, otherwise ""."""
        found = [key for key in self._caches if key.startswith(f"{name}.")]
        return found[0] if len(found) == 1 else ""

    def _find_cache(self, stack: StackObject) -> StackCache:
        """Return the cache of its kind."""
        return self._caches[stack.kind]

    def is_other_shard_uid(self, uid: str) -> bool:
        """Return whether another process manages a Stack with this UID."""
        return any(cache.others.has_uid(uid) for cache in self._caches.values())

    def is_other_shard_name(self, namespace: str, name: str, *, kind: str = names.STACK) -> bool:
        """Return whether another process manages a Stack with this name."""
        cache = self._caches.get(kind)
        return cache is not None and cache.others.has_name(namespace, name)

    def find_former_revisions(self, stack: StackObject) -> Collection[tuple[str, Revision]]:
        """Return all revisions of other Stacks of this kind, namespace and name."""
        return self._revisions.find_former(stack.uid, kind=stack.kind, namespace=stack.namespace, name=stack.name)

    async def adopt_revision(self, stack: StackObject, revision: Revision) -> None:
        """Make the Stack the owner of a revision."""
        patch = {"metadata": {"ownerReferences": [controller_revision.make_owner(stack)]}}
        for name in (revision.name, *controller_revision.name_parts(revision.name, revision.parts)):
            path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, name)
            await self._sender.send_existing("patch", CONTROLLER_REVISION, path, body=patch)

    async def annotate_revision(self, stack: StackObject, revision: Revision, annotation: str, text: str) -> None:
        """Write an annotation of a revision; ignore a deleted one."""
        path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, revision.name)
        patch = {"metadata": {"annotations": {annotation: text}}}
        answer = await self._sender.send_existing("patch", CONTROLLER_REVISION, path, body=patch)
        if answer is not None:
            self._revisions.put(answer)

    async def get_revision(self, stack: StackObject, name: str) -> Revision | None:
        """Return the live revision with that name, or None if it does not exist."""
        path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, name)
        live = await self._sender.send_existing("get", CONTROLLER_REVISION, path)
        return controller_revision.parse_revision(live["metadata"]) if live is not None else None

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """Store the revision; if the name exists already, leave that object unchanged and return it."""
        *parts, body = controller_revision.make_objects(stack, revision, definition)
        for part in parts:
            stored = await self._create_or_get(part)
            if stored.get("data") != part["data"]:
                raise controller_revision.make_tampered(part["metadata"]["name"], "its content is another one")
        written = {**body, "data": orjson.Fragment(controller_revision.write_data(body["data"]))}
        return self._revisions.put(await self._create_or_get(written)).revision

    async def _create_or_get(self, body: Object) -> Object:
        """Create a ControllerRevision; return it, or the object that has its name already."""
        made = await self._sender.create_new(CONTROLLER_REVISION, body)
        if made is not None:
            return made
        return await self._get_revision(body["metadata"]["namespace"], body["metadata"]["name"])

    async def _get_revision(self, namespace: str, name: str) -> Object:
        path = api_requests.object_path(CONTROLLER_REVISION, namespace, name)
        return await self._sender.send("get", CONTROLLER_REVISION, path)

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """Return the stored `{"template": …, "parameters": …}`, with `sensitive` if present."""
        raw = await self._get_revision(stack.namespace, revision.name)
        parts = []
        count = controller_revision.read_part_count(raw["metadata"].get("annotations") or {})
        for name in controller_revision.name_parts(revision.name, count):
            try:
                parts.append(await self._get_revision(stack.namespace, name))
            except errors.ApiStatusError as error:
                if not error.is_not_found:
                    raise
                raise controller_revision.make_tampered(revision.name, f"{name} does not exist") from error
        return controller_revision.parse_definition(raw, parts)

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Delete the revision, then its further objects; ignore missing ones.

        A crash in between leaves objects that nothing names. The garbage collector deletes them with the Stack.
        """
        for name in (revision.name, *controller_revision.name_parts(revision.name, revision.parts)):
            path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, name)
            await self._sender.send_existing("delete", CONTROLLER_REVISION, path)
            self._revisions.forget_revision(stack.uid, name)

    async def add_finalizer(self, stack: StackObject) -> None:
        """Add Hearth's finalizer; send nothing if it is present."""
        if names.FINALIZER not in stack.finalizers:
            await self._write_finalizers(stack, lambda known: [*known, names.FINALIZER])

    async def remove_finalizer(self, stack: StackObject) -> None:
        """Remove Hearth's finalizer; ignore a deleted Stack."""

        async def write(latest_stack: StackObject) -> None:
            if names.FINALIZER in latest_stack.finalizers:
                await self._write_finalizers(
                    latest_stack, lambda known: [name for name in known if name != names.FINALIZER]
                )

        # Another client may change the Stack or its status. The finalizer still belongs to Hearth.
        await self._write_to_live(stack, write)

    async def _write_finalizers(self, stack: StackObject, change: Callable[[Sequence[str]], list[str]]) -> None:
        # A merge patch replaces the whole list. Patching any other list than the one read would drop finalizers of
        # others.
        known: Sequence[str] = stack.finalizers
        if len(known) >= limits.STACK_FINALIZERS_KEPT:
            path = api_requests.object_path(self._find_cache(stack).kind, stack.namespace, stack.name)
            live = await self._sender.send("get", self._find_cache(stack).kind, path)
            # If the live finalizers differ from the cached ones, the version in the patch is rejected.
            known = live["metadata"].get("finalizers") or ()
        finalizers = change(known)
        answer = await self._patch(stack, {"metadata": {"finalizers": finalizers}})
        if "deletionTimestamp" in answer["metadata"] and not finalizers:
            # Removing the last finalizer deletes the Stack.
            self._find_cache(stack).forget(stack.uid)
        else:
            self._find_cache(stack).put(answer)

    async def delete_stack(self, stack: StackObject) -> None:
        """Delete exactly this version of a Stack; ignore a deleted Stack."""
        kind = self._find_cache(stack).kind
        preconditions = {"uid": stack.uid, "resourceVersion": str(stack.resource_version)}
        body: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        }
        path = api_requests.object_path(kind, stack.namespace, stack.name)
        await self._sender.send_existing("delete", kind, path, body=body)

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """Merge-patch the status; ignore a deleted Stack."""

        async def write(latest_stack: StackObject) -> None:
            answer = await self._patch(latest_stack, {"status": status}, "/status")
            self._find_cache(stack).put(answer)

        # Only resourceVersion protects a status write from reaching the next Stack with the same name. If this Stack still
        # exists, another client changed another part of it. Hearth can then still write the fields that it owns.
        await self._write_to_live(stack, write)

    async def _write_to_live(self, stack: StackObject, write: Callable[[StackObject], Awaitable[None]]) -> None:
        """Write to the known state, or to the live one if that is another; ignore a deleted Stack."""
        latest_stack: StackObject | None = stack
        for is_last in (False, False, True):
            if latest_stack is None:
                return
            try:
                await write(latest_stack)
            except errors.ApiStatusError as refused:
                if refused.is_not_found:
                    return
                if not refused.is_conflict or is_last:
                    raise
            else:
                return
            latest_stack = await self._get_stack(stack)

    async def _get_stack(self, stack: StackObject) -> StackObject | None:
        """Return the live Stack with the same UID, or None if it does not exist."""
        cache = self._find_cache(stack)
        path = api_requests.object_path(cache.kind, stack.namespace, stack.name)
        live = await self._sender.send_existing("get", cache.kind, path)
        return cache.put(live) if live is not None and live["metadata"]["uid"] == stack.uid else None

    async def _patch(self, stack: StackObject, body: Object, subresource: str = "") -> Object:
        """Send a merge patch and return the Stack; the API server rejects it unless the version matches."""
        cache = self._find_cache(stack)
        path = api_requests.object_path(cache.kind, stack.namespace, stack.name) + subresource
        patch = api_requests.at_version(body, stack.resource_version)
        return await self._sender.send("patch", cache.kind, path, body=patch, read=cache.read_answer)

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post an Event about the Stack; never raise."""
        await self._events.emit(stack, event_recorder.EventContent(type_=type_, reason=reason, message=message))

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """Post an Event about a followed source; never raise."""
        said = event_recorder.EventContent(type_=type_, reason=reason, message=message)
        await self._events.emit_about_source(ref, uid=self._sources.find_uid(ref), event=said)

    async def get_hash_key(self, namespace: str) -> bytes:
        """Return the key of all hashes; create it if missing. `namespace` is the operator's."""
        return await get_or_create_hash_key(self._sender, namespace, entropy=os.urandom)


class InvalidHashKey(errors.HearthError):
    """Error for a Secret without a valid key; an administrator must fix it."""


async def get_or_create_hash_key(client: ApiClient, namespace: str, *, entropy: Callable[[int], bytes]) -> bytes:
    """Return the key; create it and the namespace if missing. Raises InvalidHashKey.

    entropy: returns this number of random bytes.
    """
    key = await find_hash_key(client, namespace)
    if key is not None:
        return key
    made = entropy(HASH_KEY_LENGTH)
    if await create_hash_key(client, namespace, made):
        return made
    # Another process stored a key first. That key is valid, because objects may already have its hashes.
    key = await find_hash_key(client, namespace)
    if key is None:
        raise errors.Unreachable(
            f"secret/{HASH_KEY_NAME} in namespace {namespace} is created and deleted repeatedly; try again"
        )
    return key


async def find_hash_key(client: ApiClient, namespace: str) -> bytes | None:
    """Return the stored key, or None before it exists."""
    secret = await client.send_existing("get", SECRET, api_requests.object_path(SECRET, namespace, HASH_KEY_NAME))
    return parse_hash_key(secret, namespace) if secret is not None else None


def parse_hash_key(secret: Object, namespace: str) -> bytes:
    """Return the key in the Secret."""
    data = secret.get("data")
    text = data.get(HASH_KEY_FIELD, "") if isinstance(data, dict) else ""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        key = b""
    if len(key) != HASH_KEY_LENGTH:
        raise InvalidHashKey(
            f"secret/{HASH_KEY_NAME} in namespace {namespace}: data.{HASH_KEY_FIELD} must be {HASH_KEY_LENGTH} bytes in "
            f"base64, found {len(key)}; restore it, or delete the Secret to create a new key"
        )
    return key


async def create_hash_key(client: ApiClient, namespace: str, key: bytes) -> bool:
    """Store a new key; return False if another process has stored one, or deletes the namespace again."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": HASH_KEY_NAME, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "hearth"}},
        # A different key under the same name would invalidate every hash.
        "immutable": True,
        "data": {HASH_KEY_FIELD: base64.b64encode(key).decode()},
    }
    code = await client.create_if_possible(SECRET, body)
    if code == api_requests.NOT_FOUND:
        namespace_body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create_if_possible(NAMESPACE, namespace_body)
        code = await client.create_if_possible(SECRET, body)
    return code == api_requests.CREATED
