"""The port `Home` on the fake server: replaces `hearth.kube.management_cluster` for one engine."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.kube.cache import source_cache, stack_cache
from hearth.kube.cache.shard_filter import ShardFilter
from hearth.kube.objects import controller_revision
from hearth.model import errors, names, well_known_kinds
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.sharding import WHOLE, Share
from hearth.model.stack_tree import StackTree
from hearth.template.instances.instance_form import InstanceForms
from support.ports.fake_connection import FakeWire
from support.server import api_errors, fake_kinds
from support.server.fake_objects import copy
from support.server.request_faults import Request

MANAGER = "hearth"
STACK_KINDS = fake_kinds.STACK_KINDS
REVISION = fake_kinds.CONTROLLER_REVISION.kind


@dataclass(frozen=True, slots=True)
class Stored:
    """A revision, and the resourceVersion that was read."""

    version: int
    revision: Revision


class ManagementListener(Protocol):
    """Receives changes of Stacks and their parts."""

    def on_stack(self, uid: str) -> None:
        """Handle a Stack that was added, changed (spec, metadata or status) or deleted."""

    def on_revision(self, stack_uid: str) -> None:
        """Handle a ControllerRevision with this Stack's label that another writer added, changed or deleted."""

    def on_source(self, ref: ObjectRef) -> None:
        """Handle a definition's ConfigMap or Secret that was added, changed or deleted."""


class NullListener:
    """Ignores events for the cache of another shard."""

    def on_list_started(self) -> None:
        """Ignored."""

    def on_object(self, raw: Object) -> None:
        """Ignored."""

    def on_deleted(self, raw: Object) -> None:
        """Ignored."""

    def on_synced(self, version: int | None) -> None:
        """Ignored."""


class FakeManagementCluster:
    """One engine's access to Stacks, including existing ones."""

    def __init__(self, wire: FakeWire, listener: ManagementListener, *, share: Share = WHOLE) -> None:
        """share: the Stacks that this engine works on."""
        self._share = share
        self.tree = StackTree()
        self._others = {kind: ShardFilter(NullListener(), share, self.tree, kind=kind) for kind in STACK_KINDS}
        self._wire = wire
        self._server = wire.server
        self._listener = listener
        self._stacks: dict[str, StackObject] = {}
        self._gone: set[str] = set()
        self._instances: dict[str, tuple[Kind, InstanceForms]] = {}
        """The kinds of StackDefinitions by `Kind.group`."""
        self._served_elsewhere: dict[str, StackObject] = {}
        """Instances that other engines serve."""
        self._revisions: dict[str, dict[tuple[str, str], Stored]] = {}
        """The revisions by Stack, then by namespace and name."""
        self._sources = Counter[ObjectRef]()
        """Number of Stacks that read each source."""
        self._followed: dict[str, frozenset[ObjectRef]] = {}
        wire.receive(self._take)
        for kind in (*STACK_KINDS.values(), REVISION):
            for raw in self._server.list_all(kind):
                self._take(kind, None, raw)

    # ------------------------------------------------------------ instances of StackDefinitions

    def serve(self, kind: Kind, forms: InstanceForms) -> None:
        """As `StackDefinitionClient` says."""
        if kind.key in self._instances:
            return
        self._instances[kind.key] = kind, forms
        self._others[kind.key] = ShardFilter(
            NullListener(),
            self._share,
            self.tree,
            kind=kind.key,
            on_other=lambda uid, raw: self._take_other(kind, forms, uid, raw),
        )
        for raw in self._server.list_all(kind):
            self._take(kind, None, raw)

    def withdraw(self, kind: Kind) -> None:
        """As `StackDefinitionClient` says."""
        self._instances.pop(kind.key, None)
        for uid in [each.uid for each in self.find_instances(kind)]:
            self._stacks.pop(uid, None)
            self._served_elsewhere.pop(uid, None)
            self.tree.drop(uid)
            self._listener.on_stack(uid)

    def find_instances(self, kind: Kind) -> list[StackObject]:
        """As `StackDefinitionClient` says."""
        known = (*self._stacks.values(), *self._served_elsewhere.values())
        return [each for each in known if each.kind == kind.key]

    def _take_other(self, kind: Kind, forms: InstanceForms, uid: str, raw: Object | None) -> None:
        if raw is None:
            self._served_elsewhere.pop(uid, None)
        else:
            self._served_elsewhere[uid] = stack_cache.parse_instance(raw, kind=kind, forms=forms)
        self._listener.on_stack(uid)

    def move(self, kind: Kind, uid: str, number: int) -> None:
        """As `StackDefinitionClient` says."""
        known = self._stacks.get(uid)
        if known is not None and known.definition_revision != number:
            _, forms = self._instances[kind.key]
            self._stacks[uid] = stack_cache.put_into_form(known, forms.by_number[number], forms)
            self._listener.on_stack(uid)

    def renew_rights(self, kind: Kind) -> None:
        """As `StackDefinitionClient` says."""
        _, forms = self._instances[kind.key]
        for uid, known in list(self._stacks.items()):
            if known.kind == kind.key and (renewed := stack_cache.renew_rights(known, forms)) is not known:
                self._stacks[uid] = renewed
                self._listener.on_stack(uid)

    def _parse(self, raw: Object, kind: str, known: StackObject | None) -> StackObject:
        """The engine's view of a Stack, group or instance. kind: its `kind`."""
        if kind in self._instances:
            served, forms = self._instances[kind]
            return stack_cache.parse_instance(raw, kind=served, forms=forms, known=known)
        return stack_cache.parse_stack(raw, kind=kind, known=known)

    def find_kind(self, stack: StackObject) -> Kind:
        """The kind of a Stack, group or instance."""
        return STACK_KINDS[stack.kind] if stack.kind in STACK_KINDS else self._instances[stack.kind][0]

    def has_listed(self, kind: str) -> bool:
        """As the port says."""
        return True

    def find_forms(self, key: str) -> InstanceForms | None:
        """As the port says."""
        return self._instances[key][1] if key in self._instances else None

    def complete_kind(self, name: str) -> str:
        """As the port says."""
        found = [key for key in self._instances if key.startswith(f"{name}.")]
        return found[0] if len(found) == 1 else ""

    def is_other_shard_uid(self, uid: str) -> bool:
        """As the port says."""
        return any(each.has_uid(uid) for each in self._others.values())

    def is_other_shard_name(self, namespace: str, name: str, *, kind: str = names.STACK) -> bool:
        """As the port says."""
        return self._others[kind].has_name(namespace, name)

    # ------------------------------------------------------------ events

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        raw = after if after is not None else before
        if raw is None:
            return
        if kind in STACK_KINDS.values():
            self._take_stack(raw, kind.name, is_gone=after is None)
        elif kind.key in self._instances:
            self._take_stack(raw, kind.key, is_gone=after is None)
        elif kind == REVISION:
            self._take_revision(raw, is_gone=after is None)
        elif self._sources:
            self._take_source(kind, raw)

    def _take_stack(self, raw: Object, kind: str, *, is_gone: bool) -> None:
        others = self._others[kind]
        if not others.is_own(raw):
            (others.on_deleted if is_gone else others.on_object)(raw)
            return
        known = self._stacks.get(raw["metadata"]["uid"])
        stack = self._parse(raw, kind, known)
        if is_gone:
            self._stacks.pop(stack.uid, None)
            self.tree.drop(stack.uid)
            self._revisions.pop(stack.uid, None)
        elif stack.uid in self._gone or (known is not None and known.resource_version >= stack.resource_version):
            return
        else:
            self._stacks[stack.uid] = stack
            self.tree.put(stack.node)
        self._listener.on_stack(stack.uid)

    def _take_revision(self, raw: Object, *, is_gone: bool, is_ours: bool = False) -> None:
        owner = (raw["metadata"].get("labels") or {}).get(names.LABEL_STACK_UID)
        if owner is None:
            return
        if not self._share.has_bucket(owner):
            return
        found = self._revisions.setdefault(owner, {})
        metadata, version = raw["metadata"], int(raw["metadata"]["resourceVersion"])
        where = metadata["namespace"], metadata["name"]
        if is_gone:
            is_news = found.pop(where, None) is not None
        elif is_news := where not in found or found[where].version < version:
            found[where] = Stored(version, controller_revision.parse_revision(raw["metadata"]))
        if is_news and not is_ours:
            self._listener.on_revision(owner)

    def _take_source(self, kind: Kind, raw: Object) -> None:
        metadata = raw["metadata"]
        namespace = metadata.get("namespace", "")
        ref = ObjectRef(group=kind.group, kind=kind.name, namespace=namespace, name=metadata["name"])
        if ref in self._sources:
            self._listener.on_source(ref)

    def _put(self, raw: Object) -> None:
        """Store the response to our own write without notifying; earlier changes by others are reported."""
        known = self._stacks.get(raw["metadata"]["uid"])
        stack = self._parse(raw, known.kind if known is not None else raw["kind"], known)
        if known is not None and known.resource_version < stack.resource_version:
            self._stacks[stack.uid] = stack
            if stack_cache.has_user_change(known, stack):
                self._listener.on_stack(stack.uid)

    # ------------------------------------------------------------ the port

    def find_stack(self, uid: str) -> StackObject | None:
        """As the port says."""
        return self._stacks.get(uid)

    async def open_stack(self, stack: StackObject) -> StackObject:
        """As the port says."""
        return stack.with_parsed_spec()

    def stacks(self) -> Collection[str]:
        """As the port says."""
        return tuple(self._stacks)

    def revisions(self, stack_uid: str) -> tuple[Revision, ...]:
        """As the port says."""
        found = [stored.revision for stored in self._revisions.get(stack_uid, {}).values()]
        return tuple(sorted(found, key=lambda revision: revision.number))

    def find_former_revisions(self, stack: StackObject) -> Collection[tuple[str, Revision]]:
        """As the port says."""
        found = []
        for uid, stored in self._revisions.items():
            for namespace, name in stored:
                raw = self._server.find(REVISION, namespace, name)
                metadata = raw["metadata"] if raw is not None else {}
                kind = metadata.get("annotations", {}).get(names.ANNOTATION_STACK_KIND, names.STACK)
                label = metadata.get("labels", {}).get(names.LABEL_STACK)
                if uid != stack.uid and (kind, namespace, label) == (
                    stack.kind,
                    stack.namespace,
                    names.stack_label(stack.name),
                ):
                    found.append((uid, stored[namespace, name].revision))
        return found

    async def adopt_revision(self, stack: StackObject, revision: Revision) -> None:
        """As the port says."""
        patch = {"metadata": {"ownerReferences": [controller_revision.make_owner(stack)]}}
        for name in (revision.name, *controller_revision.name_parts(revision.name, revision.parts)):
            request = Request(verb="revision", kind=REVISION, namespace=stack.namespace, name=name)
            act = functools.partial(self._server.patch, REVISION, stack.namespace, name, patch, manager=MANAGER)
            try:
                await self._wire.send(request, act)
            except errors.ApiStatusError as error:
                if error.code != 404:
                    raise

    async def annotate_revision(self, stack: StackObject, revision: Revision, annotation: str, text: str) -> None:
        """As the port says."""
        patch = {"metadata": {"annotations": {annotation: text}}}
        request = Request(verb="finished-record", kind=REVISION, namespace=stack.namespace, name=revision.name)
        act = functools.partial(self._server.patch, REVISION, stack.namespace, revision.name, patch, manager=MANAGER)
        try:
            await self._wire.send(request, act)
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    async def get_revision(self, stack: StackObject, name: str) -> Revision | None:
        """As the port says."""
        try:
            raw = await self._get_revision(stack.namespace, name, verb="get-revision")
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            return None
        return controller_revision.parse_revision(raw["metadata"])

    async def create_revision(self, stack: StackObject, revision: Revision, definition: Object) -> Revision:
        """As the port says."""
        stored: Object = {}
        for raw in copy(controller_revision.make_objects(stack, revision, definition)):
            name = raw["metadata"]["name"]
            verb = "definition-revision" if stack.kind == names.DEFINITION_KIND else "revision"
            request = Request(verb=verb, kind=REVISION, namespace=stack.namespace, name=name)
            stored = await self._wire.send(request, functools.partial(self._store, raw))
            if name != revision.name and stored["data"] != raw["data"]:
                raise controller_revision.make_tampered(name, "its content is another one")
        self._take_revision(stored, is_gone=False, is_ours=True)
        return controller_revision.parse_revision(stored["metadata"])

    def _store(self, raw: Object) -> Object:
        """Create a revision, unless it exists already."""
        metadata = raw["metadata"]
        found = self._server.find(REVISION, metadata["namespace"], metadata["name"])
        return found if found is not None else self._server.create(raw, manager=MANAGER)

    async def get_definition(self, stack: StackObject, revision: Revision) -> Object:
        """As the port says."""
        verb = "get-definition" if stack.kind == names.DEFINITION_KIND else "get"
        raw = await self._get_revision(stack.namespace, revision.name, verb=verb)
        count = controller_revision.read_part_count(raw["metadata"].get("annotations") or {})
        parts = []
        for name in controller_revision.name_parts(revision.name, count):
            try:
                parts.append(await self._get_revision(stack.namespace, name))
            except errors.ApiStatusError as error:
                if error.code != 404:
                    raise
                raise controller_revision.make_tampered(revision.name, f"{name} does not exist") from error
        return controller_revision.parse_definition(raw, parts)

    async def _get_revision(self, namespace: str, name: str, *, verb: str = "get") -> Object:
        request = Request(verb=verb, kind=REVISION, namespace=namespace, name=name)
        raw: Object = copy(await self._wire.send(request, lambda: self._server.get(REVISION, namespace, name)))
        return raw

    async def delete_revision(self, stack: StackObject, revision: Revision) -> None:
        """As the port says."""
        for name in (revision.name, *controller_revision.name_parts(revision.name, revision.parts)):
            request = Request(verb="delete-revision", kind=REVISION, namespace=stack.namespace, name=name)
            act = functools.partial(self._server.delete, REVISION, stack.namespace, name)
            try:
                await self._wire.send(request, act)
            except errors.ApiStatusError as error:
                if error.code != 404:
                    raise
        self._revisions.get(stack.uid, {}).pop((stack.namespace, revision.name), None)

    async def add_finalizer(self, stack: StackObject) -> None:
        """As the port says."""
        if names.FINALIZER not in stack.finalizers:
            await self._write_finalizers(stack, [*stack.finalizers, names.FINALIZER])

    async def remove_finalizer(self, stack: StackObject) -> None:
        """As the port says."""
        if names.FINALIZER not in stack.finalizers:
            return
        try:
            await self._write_finalizers(stack, [name for name in stack.finalizers if name != names.FINALIZER])
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    async def delete_stack(self, stack: StackObject) -> None:
        """As the port says."""
        kind, version = self.find_kind(stack), str(stack.resource_version)
        try:
            await self._wire.send(
                stack_request("delete-stack", stack),
                lambda: self._server.delete(kind, stack.namespace, stack.name, uid=stack.uid, version=version),
            )
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    async def _write_finalizers(self, stack: StackObject, finalizers: list[str]) -> None:
        metadata = {"finalizers": finalizers or None, "resourceVersion": str(stack.resource_version)}

        def act() -> Object:
            self._check_uid(stack)
            return self._server.patch(
                self.find_kind(stack), stack.namespace, stack.name, {"metadata": metadata}, manager=MANAGER
            )

        answer = await self._wire.send(stack_request("finalizer", stack), act)
        if "deletionTimestamp" in answer["metadata"] and not finalizers:
            self._gone.add(stack.uid)
            self._stacks.pop(stack.uid, None)
        else:
            self._put(answer)

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        sent = copy(status)

        def act() -> Object:
            self._check_uid(stack)
            return self._server.patch_status(self.find_kind(stack), stack.namespace, stack.name, sent, manager=MANAGER)

        try:
            self._put(await self._wire.send(stack_request("status", stack), act))
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    def _check_uid(self, stack: StackObject) -> None:
        """Reject a patch with a uid if the name now belongs to another Stack."""
        kind = self.find_kind(stack)
        live = self._server.get(kind, stack.namespace, stack.name)
        if live["metadata"]["uid"] != stack.uid:
            raise api_errors.conflict(kind, stack.name, "the UID in the precondition is another one")

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        kind = fake_kinds.SOURCES[ref.kind]
        request = Request(verb="source", kind=kind, namespace=ref.namespace, name=ref.name, user=user)
        raw = await self._wire.send(request, lambda: self._server.get(kind, ref.namespace, ref.name))
        return well_known_kinds.find_source_data(copy(raw), ref.kind)

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        kind = fake_kinds.SOURCES[ref.kind]
        request = Request(verb="source", kind=kind, namespace=ref.namespace, name=ref.name, user=user)
        raw = await self._wire.send(request, lambda: self._server.get(kind, ref.namespace, ref.name))
        return well_known_kinds.find_source_data(copy(raw), ref.kind, is_binary=True)

    def follow_sources(self, stack_uid: str, refs: Collection[ObjectRef]) -> None:
        """As the port says."""
        before, self._followed[stack_uid] = self._followed.get(stack_uid, frozenset()), frozenset(refs)
        self._sources.update(refs)
        self._sources.subtract(before)
        for ref in [ref for ref in before if not self._sources[ref]]:
            del self._sources[ref]

    def find_polled_sources(self, stack_uid: str) -> Sequence[ObjectRef]:
        """As the port says."""
        return ()

    def find_source_creators(self, stack_uid: str) -> frozenset[str]:
        """As the port says."""
        refs = self._followed.get(stack_uid, frozenset())
        found = (self._server.find(fake_kinds.SOURCES[ref.kind], ref.namespace, ref.name) for ref in refs)
        return frozenset(source_cache.find_stack_uid(each["metadata"]) for each in found if each) - {""}

    async def emit_event(self, stack: StackObject, *, type_: str, reason: str, message: str) -> None:
        """As the port says."""
        self._wire.traffic.events.append((stack.name, type_, reason, message))
        await self._wire.send(stack_request("event", stack), lambda: None)

    async def emit_source_event(self, ref: ObjectRef, *, type_: str, reason: str, message: str) -> None:
        """As the port says."""
        self._wire.traffic.events.append((ref.name, type_, reason, message))
        request = Request(verb="event", kind=fake_kinds.SOURCES[ref.kind], namespace=ref.namespace, name=ref.name)
        await self._wire.send(request, lambda: None)


def stack_request(verb: str, stack: StackObject) -> Request:
    """A request about a Stack, or about an instance, which requests identify by kind only."""
    return Request(verb=verb, kind=fake_kinds.find_owner_kind(stack), namespace=stack.namespace, name=stack.name)
