"""The port `Cluster` on the fake server: replaces `hearth.kube.workload_cluster` for one engine.

Every request is counted, and may be refused, lost, or followed by a crash of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy as shallow
from dataclasses import replace
from typing import Any, TypeVar

from hearth.engine.ports import CacheListener
from hearth.kube.client import api_requests
from hearth.model import child as children
from hearth.model import child_fields, errors, names
from hearth.model.child import Child, Object, Path
from hearth.model.external_objects import ExternalQuery, ExternalView
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures
from hearth.model.tenancy import Boundary
from hearth.plan.retry.retry_triggers import RetryTrigger
from support.checks import members
from support.ports.fake_cache import FakeCache
from support.ports.fake_connection import FakeWire
from support.ports.fake_externals import FakeCauses, FakeExternals
from support.server import fake_kinds
from support.server.fake_objects import copy
from support.server.request_faults import Request

Answer = TypeVar("Answer")

MANAGER = "hearth"


class UserWire:
    """A wire whose requests a user of the cluster sends."""

    def __init__(self, wire: FakeWire | UserWire, user: str) -> None:
        self._wire = wire
        self._user = user

    def __getattr__(self, name: str) -> Any:
        """Forward everything other than requests of that user."""
        return getattr(self._wire, name)

    async def send(self, request: Request, act: Callable[[], Answer]) -> Answer:
        """As the wire does."""
        return await self._wire.send(replace(request, user=self._user), act)


class FakeWorkloadCluster:
    """One engine's access to the children."""

    def __init__(
        self, wire: FakeWire, listener: CacheListener, *, signatures: Signatures | None = None, share: Share = WHOLE
    ) -> None:
        """signatures: recognizes children; share: the Stacks whose children this engine watches."""
        self._signatures = signatures
        self._wire: FakeWire | UserWire = wire
        self._server = wire.server
        self._schemas: set[Kind] = set()
        self._kinds = _KnownKinds(self._server.kinds, self._schemas)
        self.cache = FakeCache(wire, listener, signatures=signatures, share=share)
        self._externals = FakeExternals(wire, listener)
        self._causes = FakeCauses(wire, listener)

    @property
    def kinds(self) -> Kinds:
        """As the port says."""
        return self._kinds

    def acting_as(self, user: str) -> FakeWorkloadCluster:
        """As the port says."""
        found = shallow(self)
        found._wire = UserWire(self._wire, user)
        return found

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """As the port says."""
        await self._wire.travel()
        self._schemas.update(kinds)

    async def refresh_kinds(self) -> None:
        """See the port; the fake server's table is always current."""
        await self._wire.travel()

    def follow(self, kind: Kind, paths: Collection[Path], *, namespace: str = "") -> bool:
        """As the port says."""
        return self.cache.follow(kind, paths)

    def find_denial(self, kind: Kind, *, namespace: str = "") -> str:
        """As the port says."""
        return self.cache.find_denial(kind)

    def is_failing(self, kind: Kind, *, namespace: str = "") -> bool:
        """As the port says."""
        return kind.name in self._wire.traffic.failing

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """As the port says."""
        return self.cache.children(stack_uid)

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """As the port says."""
        return self.cache.children_of(stack_uid, resource)

    def follow_externals(self, stack_uid: str, queries: Mapping[str, ExternalQuery], *, namespace: str) -> None:
        """As the port says."""
        self._externals.follow(stack_uid, queries)

    def find_external(self, stack_uid: str, name: str) -> ExternalView:
        """As the port says."""
        return self._externals.find(stack_uid, name)

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """As the port says."""
        sent = copy(manifest)
        request = describe("apply", kind, sent)
        answer = await self._wire.send(
            request, lambda: self._server.apply(sent, kind=kind, manager=manager, force=force)
        )
        return self.cache.put(kind, answer, is_ours=True)

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """As the port says."""
        sent, request = copy(manifest), describe("dry-run", kind, manifest)
        found: Object = copy(
            await self._wire.send(
                request, lambda: self._server.apply(sent, kind=kind, manager=manager, force=True, dry_run=True)
            )
        )
        return found

    async def check_definition(self, manifest: Object, *, kind: Kind) -> None:
        """As the port says."""
        try:
            await self._try_create(api_requests.without_state(manifest), describe("dry-run", kind, manifest))
        except errors.ApiStatusError as error:
            if not error.is_already_exists:
                raise

    async def create_dry_run(self, manifest: Object, *, kind: Kind) -> Object:
        """As the port says."""
        return await self._try_create(api_requests.generated(manifest), describe("dry-run", kind, manifest))

    async def _try_create(self, manifest: Object, request: Request) -> Object:
        sent = copy(manifest)
        answer = await self._wire.send(request, lambda: self._server.create(sent, manager=MANAGER, dry_run=True))
        found: Object = copy(answer)
        return found

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="dry-run", kind=kind, namespace=ref.namespace, name=ref.name)
        found: Object = copy(
            await self._wire.send(
                request, lambda: self._server.check_change(kind, ref.namespace, ref.name, copy(patch))
            )
        )
        return found

    async def change(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Child:
        """As the port says."""
        request = Request(verb="change", kind=kind, namespace=ref.namespace, name=ref.name)
        sent = copy(patch)
        answer = await self._wire.send(
            request, lambda: self._server.patch(kind, ref.namespace, ref.name, sent, manager=MANAGER)
        )
        return self.cache.put(kind, answer, is_ours=True)

    async def get(self, ref: ObjectRef, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="get", kind=kind, namespace=ref.namespace, name=ref.name)
        raw: Object = copy(await self._wire.send(request, lambda: self._server.get(kind, ref.namespace, ref.name)))
        return raw

    async def create_object(self, manifest: Object, *, kind: Kind) -> Object:
        """As the port says."""
        metadata, sent = manifest["metadata"], copy(manifest)
        request = Request(verb="create", kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
        made: Object = copy(await self._wire.send(request, lambda: self._server.create(sent, manager=MANAGER)))
        return made

    async def change_object(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """As the port says."""
        request = Request(verb="change", kind=kind, namespace=ref.namespace, name=ref.name)
        return await self._wire.send(
            request, lambda: copy(self._server.patch(kind, ref.namespace, ref.name, patch, manager=MANAGER))
        )

    async def delete_object(self, raw: Object, *, kind: Kind) -> None:
        """As the port says."""
        metadata = raw["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        request = Request(verb="delete-object", kind=kind, namespace=namespace, name=name)
        try:
            await self._wire.send(request, lambda: self._server.delete(kind, namespace, name, uid=metadata["uid"]))
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """As the port says."""
        try:
            return await self._delete(child, keeps_dependents=keeps_dependents)
        except errors.ApiStatusError as error:
            if error.code != 409:
                raise
            live = await self._find_child(child)
            if live is None:
                return True
            if live.must_not_delete and not child.must_not_delete:
                raise
        return await self._delete(live, keeps_dependents=keeps_dependents)

    async def _delete(self, child: Child, *, keeps_dependents: bool) -> bool:
        kind, version = child.kind, str(child.resource_version)
        options = api_requests.delete_options(child.uid, keeps_dependents=keeps_dependents, kind=kind)
        request = describe_child("delete", child)
        try:
            is_gone = await self._wire.send(
                request,
                lambda: self._server.delete(
                    kind,
                    child.namespace,
                    child.name,
                    uid=child.uid,
                    version=version,
                    policy=options["propagationPolicy"],
                ),
            )
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            is_gone = True
        if is_gone:
            self.cache.forget(child)
            return True
        live = self._server.find(kind, child.namespace, child.name)
        if live is not None:
            self.cache.put(kind, live, is_ours=True)
        return False

    async def release(self, child: Child) -> None:
        """As the port says."""
        try:
            await self._release(child)
        except errors.ApiStatusError as error:
            if error.code not in {404, 409}:
                raise
            live = await self._find_child(child)
            if live is not None:
                await self._release(live)

    async def _release(self, child: Child) -> None:
        kind = child.kind
        patch = api_requests.release_patch(
            child.fields["metadata"], uid=child.uid, version=child.resource_version, finalizers=child.finalizers
        )
        answer = await self._wire.send(
            describe_child("release", child),
            lambda: self._server.patch(kind, child.namespace, child.name, patch, manager=MANAGER),
        )
        self.cache.put(kind, answer, is_ours=True)

    async def mark(self, child: Child, reason: str | None, *, mark_id: str = "") -> Child | None:
        """As the port says."""
        try:
            return await self._mark(child, reason, mark_id)
        except errors.ApiStatusError as error:
            if error.code not in {404, 409}:
                raise
            live = await self._find_child(child)
        return await self._mark(live, reason, mark_id) if live is not None else None

    async def _mark(self, child: Child, reason: str | None, mark_id: str) -> Child:
        kind = child.kind
        patch = api_requests.mark_patch(reason, mark_id=mark_id, uid=child.uid, version=child.resource_version)
        answer = await self._wire.send(
            describe_child("mark", child),
            lambda: self._server.patch(kind, child.namespace, child.name, patch, manager=MANAGER),
        )
        return self.cache.put(kind, answer, is_ours=True)

    async def _find_child(self, child: Child) -> Child | None:
        """The current state of that object, or None if it was deleted or no longer belongs to that Stack."""
        try:
            live = await self.get(child.ref, kind=child.kind)
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            live = None
        if live is None or live["metadata"]["uid"] != child.uid:
            self.cache.forget(child)
            return None
        found = self.cache.put(child.kind, live, is_ours=True)
        return found if found.stack_uid == child.stack_uid else None

    async def list_children(
        self,
        kind: Kind,
        stack_uid: str,
        *,
        namespace: str = "",
        whole: bool = False,
    ) -> list[Child]:
        """As the port says."""
        request = Request(verb="list", kind=kind, namespace="", name="")
        try:
            labelled, as_of = await self._wire.send(request, lambda: self._list_labelled(kind, stack_uid))
        except errors.ApiStatusError as error:
            if error.code == 404:
                return []
            raise
        self.cache.take_list(labelled, kind=kind, stack_uid=stack_uid, as_of=as_of)
        return [
            children.parse_child(
                raw, kind=kind, paths=child_fields.find_whole(raw) if whole else (), signatures=self._signatures
            )
            for raw in labelled
        ]

    def _list_labelled(self, kind: Kind, stack_uid: str) -> tuple[list[Object], int]:
        """The objects with that Stack's label, and their resourceVersion."""
        return [raw for raw in self._server.list_all(kind) if stack_of(raw) == stack_uid], self._server.version

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """As the port says."""
        request = Request(verb="access-review", kind=kind, namespace=namespace, name=name)
        return await self._wire.send(request, lambda: (verb, kind.name) not in self._wire.traffic.denied)

    async def may(self, verb: str, boundary: Boundary, *, kind: Kind, namespace: str, name: str = "") -> bool:
        """As the port says."""
        request = Request(verb="access-review", kind=kind, namespace=namespace, name=name)
        return await self._wire.send(request, lambda: (verb, kind.name) not in self._wire.traffic.denied)

    async def is_kind_going(self, kind: Kind) -> bool:
        """As the port says."""
        definitions = fake_kinds.CUSTOM_RESOURCE_DEFINITION.kind
        request = Request(verb="list", kind=definitions, namespace="", name=f"{kind.plural}.{kind.group}")
        live = await self._wire.send(request, lambda: self._server.find(definitions, "", f"{kind.plural}.{kind.group}"))
        is_deleted = live is not None and "deletionTimestamp" in live["metadata"]
        return is_deleted or self._server.kinds.find_served(kind) is None

    async def list_pods(self, namespace: str, *, labels: str) -> list[Object]:
        """As the port says; the labels of pods are `key=value`, separated by commas."""
        wanted = dict(each.split("=", 1) for each in labels.split(","))
        kind = self._server.kinds.find("v1", "Pod")
        if kind is None:
            return []
        request = Request(verb="list", kind=kind, namespace=namespace, name="")
        pods = await self._wire.send(request, lambda: self._server.list_all(kind))
        return [copy(pod) for pod in pods if wanted.items() <= (pod["metadata"].get("labels") or {}).items()]

    async def get_log_end(self, ref: ObjectRef, *, container: str, limit: int) -> str:
        """The end of the log: the text in a Pod's annotation of this name."""
        kind = self._server.kinds.find("v1", "Pod")
        if kind is None:
            return ""
        request = Request(verb="get", kind=kind, namespace=ref.namespace, name=ref.name)
        pod = await self._wire.send(request, lambda: self._server.get(kind, ref.namespace, ref.name))
        return str((pod["metadata"].get("annotations") or {}).get("testing.hearth.dev/log", ""))[:limit]

    def watch_trigger(self, trigger: RetryTrigger) -> None:
        """As the port says."""
        self._causes.watch(trigger)

    def retain_triggers(self, causes: Collection[RetryTrigger]) -> None:
        """As the port says."""
        self._causes.keep(causes)


def label_of(raw: Mapping[str, Any]) -> str:
    """The resource in an object's label."""
    return members.resource_of(raw)


def stack_of(raw: Mapping[str, Any]) -> str:
    """The UID of the Stack in an object's label."""
    return str((raw["metadata"].get("labels") or {}).get(names.LABEL_STACK_UID, ""))


class _KnownKinds:
    """The served kinds, with the schemas that were loaded."""

    def __init__(self, table: fake_kinds.KindTable, loaded: Collection[Kind]) -> None:
        self._table = table
        self._loaded = loaded

    @property
    def generation(self) -> int:
        return self._table.generation

    def find(self, api_version: str, kind: str) -> Kind | None:
        return self._table.find(api_version, kind)

    def all(self) -> Collection[Kind]:
        return self._table.all()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        return self._table.find_schema(kind) if kind in self._loaded else None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        return self._table.find_definition(reference)


def describe_child(verb: str, child: Child) -> Request:
    """A request about a child that is known."""
    return Request(
        verb=verb,
        kind=child.kind,
        namespace=child.namespace,
        name=child.name,
        resource=child.resource,
        stack=child.stack_uid,
    )


def describe(verb: str, kind: Kind, raw: Mapping[str, Any]) -> Request:
    """A request about a child."""
    metadata = raw["metadata"]
    return Request(
        verb=verb,
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        resource=label_of(raw),
        stack=stack_of(raw),
    )
