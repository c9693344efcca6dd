"""`hearth.engine.ports.Home` on a real API server: what Hearth reads and writes of Stacks themselves.

Knows the requests; must not judge an answer. What is read again and again comes from caches that watch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hearth.kube.client import api_client, api_requests
from hearth.kube.objects import controller_revision, event_recorder, hash_key
from hearth.kube.well_known_kinds import CONTROLLER_REVISION, STACK
from hearth.model import errors, names

if TYPE_CHECKING:
    from hearth.engine.ports import Revision, StackObject
    from hearth.kube.cache.revision_cache import RevisionCache
    from hearth.kube.cache.source_cache import SourceCache
    from hearth.kube.cache.stack_cache import StackCache
    from hearth.kube.client.api_client import RequestObserver
    from hearth.kube.client.connection import Connection
    from hearth.model.child import Object
    from hearth.model.kinds import ObjectRef
    from hearth.model.stack_tree import StackTree


NOT_FOUND = 404
CONFLICT = 409


class KubeManagementCluster:
    """The cluster that Stacks live in."""

    def __init__(
        self,
        connection: Connection,
        *,
        stacks: StackCache,
        revisions: RevisionCache,
        sources: SourceCache,
        observer: RequestObserver | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """now: seconds since the epoch."""
        self._sender = api_client.ApiClient(connection, observer)
        self._stacks = stacks
        self._revisions = revisions
        self._sources = sources
        self._events = event_recorder.EventRecorder(self._sender, now=now)

    def find_stack(self, uid: str) -> StackObject | None:
        """The Stack, or None once it is gone."""
        return self._stacks.find_stack(uid)

    def stacks(self) -> Collection[str]:
        """The UIDs of all Stacks that this process works on."""
        return self._stacks.stacks()

    @property
    def tree(self) -> StackTree:
        """Which Stack is nested in which, of all that are known."""
        return self._stacks.tree

    def is_other_shard_uid(self, uid: str) -> bool:
        """Whether another process works on a Stack of this UID."""
        return self._stacks.is_other_shard_uid(uid)

    def is_other_shard_name(self, namespace: str, name: str) -> bool:
        """Whether another process works on a Stack of this name."""
        return self._stacks.is_other_shard_name(namespace, name)

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """Of that Stack, by rising number."""
        return self._revisions.revisions(stack_uid)

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """Store it; one that exists already under that name stays as it is, and is the result."""
        body = controller_revision.make_revision(stack, revision, definition)
        try:
            path = api_requests.collection_path(CONTROLLER_REVISION, stack.namespace)
            answer = await self._sender.send("create", CONTROLLER_REVISION, path, body=body)
        except errors.ApiStatusError as refused:
            if refused.code != CONFLICT:
                raise
            path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, revision.name)
            answer = await self._sender.send("get", CONTROLLER_REVISION, path)
        return self._revisions.put(answer)

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """`{"template": …, "parameters": …}` as stored, and `sensitive`, where there is any."""
        path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, revision.name)
        return controller_revision.parse_definition(await self._sender.send("get", CONTROLLER_REVISION, path))

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """Forget it; one that is gone is fine."""
        path = api_requests.object_path(CONTROLLER_REVISION, stack.namespace, revision.name)
        try:
            await self._sender.send("delete", CONTROLLER_REVISION, path)
        except errors.ApiStatusError as refused:
            if refused.code != NOT_FOUND:
                raise
        self._revisions.forget(stack.uid, revision.name)

    async def add_finalizer(self, stack: StackObject) -> None:
        """Add ours; sends nothing where it is there."""
        if names.FINALIZER not in stack.finalizers:
            await self._write_finalizers(stack, [*stack.finalizers, names.FINALIZER])

    async def remove_finalizer(self, stack: StackObject) -> None:
        """Take ours away; a Stack that is gone is fine."""
        seen: StackObject | None = stack
        for is_last in (False, False, True):
            if seen is None or names.FINALIZER not in seen.finalizers:
                return
            try:
                await self._write_finalizers(seen, [name for name in seen.finalizers if name != names.FINALIZER])
            except errors.ApiStatusError as refused:
                if refused.code == NOT_FOUND:
                    return
                if refused.code != CONFLICT or is_last:
                    raise
            else:
                return
            # A status was written meanwhile, or somebody changed the Stack: what is to be taken away is still ours.
            seen = await self._get_stack(stack)

    async def _write_finalizers(self, stack: StackObject, finalizers: list[str]) -> None:
        # A merge patch replaces the whole list, so it must be the list that was read, or somebody's entry is lost.
        answer = await self._patch(stack, {"metadata": {"finalizers": finalizers}}, version=stack.resource_version)
        if "deletionTimestamp" in answer["metadata"] and not finalizers:
            # With its last finalizer the Stack went.
            self._stacks.forget(stack.uid)
        else:
            self._stacks.put(answer)

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """Merge-patch the status; a Stack that is gone is fine."""
        version = stack.resource_version
        for is_last in (False, False, True):
            try:
                answer = await self._patch(stack, {"status": status}, "/status", version=version)
            except errors.ApiStatusError as refused:
                if refused.code == NOT_FOUND:
                    return
                if refused.code != CONFLICT or is_last:
                    raise
            else:
                self._stacks.put(answer)
                return
            # The version is stated since a status knows no other guard against the next Stack of that name. Where this
            # one lives on, somebody changed the rest of it: no reason not to write what is ours alone.
            live = await self._get_stack(stack)
            if live is None:
                return
            version = live.resource_version

    async def _get_stack(self, stack: StackObject) -> StackObject | None:
        """That very Stack as it is on the server now, or None where it is gone."""
        try:
            live = await self._sender.send("get", STACK, api_requests.object_path(STACK, stack.namespace, stack.name))
        except errors.ApiStatusError as refused:
            if refused.code != NOT_FOUND:
                raise
            return None
        return self._stacks.put(live) if live["metadata"]["uid"] == stack.uid else None

    async def _patch(self, stack: StackObject, body: Object, subresource: str = "", *, version: int) -> Object:
        """The Stack after a merge patch, which is refused unless it still has that version."""
        metadata = {**body.get("metadata", {}), "resourceVersion": str(version)}
        path = api_requests.object_path(STACK, stack.namespace, stack.name) + subresource
        return await self._sender.send("patch", STACK, path, body={**body, "metadata": metadata})

    async def get_source(self, ref: ObjectRef) -> Mapping[str, str]:
        """The data of a ConfigMap or Secret, which is watched from then on where somebody follows it."""
        return await self._sources.get_source(ref)

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """These are all the sources that a Stack reads."""
        self._sources.follow_sources(stack_uid, refs)

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:
        """Of these the ones whose changes are noticed late."""
        return self._sources.find_polled(stack_uid)

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """Post an Event about the Stack; never raises."""
        await self._events.emit(stack, event_recorder.EventContent(type_=type_, reason=reason, message=message))

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """The same about a source that is followed."""
        said = event_recorder.EventContent(type_=type_, reason=reason, message=message)
        await self._events.emit_about_source(ref, uid=self._sources.find_uid(ref), occurrence=said)

    async def get_hash_key(self, namespace: str) -> bytes:
        """The key of all hashes, made where there is none; `namespace` is the operator's."""
        return await hash_key.get_hash_key(self._sender, namespace, entropy=os.urandom)
