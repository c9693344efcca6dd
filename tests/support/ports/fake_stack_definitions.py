"""The port `StackDefinitionClient` on the fake server: replaces `hearth.kube.stack_definition_client` for one
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.kube.objects import controller_revision
from hearth.kube.stack_definition_client import MANAGER
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.template.instances.instance_form import InstanceForms
from support.ports.fake_connection import FakeWire
from support.ports.fake_management_cluster import FakeManagementCluster
from support.server import api_errors, fake_kinds
from support.server.fake_objects import copy
from support.server.request_faults import Request

DEFINITION = fake_kinds.STACK_DEFINITION.kind


class FakeStackDefinitions:
    """One engine's client for StackDefinitions, which also reports each change as kopf does."""

    def __init__(self, wire: FakeWire, management_cluster: FakeManagementCluster, leads: Callable[[str], bool]) -> None:
        """leads: whether the engine leads the StackDefinition with that UID, which kopf then handles."""
        self._leads = leads
        self._wire = wire
        self._server = wire.server
        self._management_cluster = management_cluster
        self.on_change: Callable[[str], None] = lambda _name: None
        """Called with the name of each StackDefinition that another client changed."""
        self._follow: Callable[[str, str], None] = lambda _name, _uid: None
        wire.receive(self._take)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        raw = after or before
        if kind != DEFINITION or raw is None:
            return
        self._follow(raw["metadata"]["name"], raw["metadata"]["uid"])
        is_status = before is not None and after is not None and is_same_but_status(before, after)
        if not is_status and self._leads(raw["metadata"]["uid"]):
            self.on_change(raw["metadata"]["name"])

    def follow(self, on_change: Callable[[str, str], None]) -> None:
        """As the port says."""
        self._follow = on_change
        for raw in self._server.list_all(DEFINITION):
            on_change(raw["metadata"]["name"], raw["metadata"]["uid"])

    async def list_revisions(self, uid: str, namespace: str) -> list[Revision]:
        """As the port says."""
        kind = fake_kinds.CONTROLLER_REVISION.kind
        found = await self._wire.send(request("list-revisions", kind, ""), lambda: self._server.list_all(kind))
        parsed = [controller_revision.parse_revision(raw["metadata"]) for raw in found]
        return sorted((each for each in parsed if each.owner == uid), key=lambda each: each.number)

    async def list_definitions(self) -> list[Object]:
        """As the port says."""
        found = await self._wire.send(
            request("list-definitions", DEFINITION, ""), lambda: self._server.list_all(DEFINITION)
        )
        return [copy(raw) for raw in found]

    async def get_definition(self, name: str) -> Object | None:
        """As the port says."""
        found = await self._wire.send(
            request("get-definition", DEFINITION, name), lambda: self._server.find(DEFINITION, "", name)
        )
        return copy(found) if found is not None else None

    async def write_finalizers(self, raw: Object, finalizers: list[str]) -> Object | None:
        """As the port says."""
        metadata = {"finalizers": finalizers or None, "resourceVersion": raw["metadata"]["resourceVersion"]}
        name = raw["metadata"]["name"]

        def act() -> Object:
            return self._server.patch(DEFINITION, "", name, {"metadata": metadata}, manager=MANAGER)

        try:
            stored: Object = copy(await self._wire.send(request("definition-finalizer", DEFINITION, name), act))
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise
            return None
        return stored

    async def write_definition_status(self, raw: Object, status: Object) -> None:
        """As the port says."""
        name, sent = raw["metadata"]["name"], copy(status)

        def act() -> None:
            live = self._server.get(DEFINITION, "", name)
            if live["metadata"]["uid"] != raw["metadata"]["uid"]:
                raise api_errors.conflict(DEFINITION, name, "the UID in the precondition is another one")
            self._server.patch_status(DEFINITION, "", name, sent, manager=MANAGER)

        try:
            await self._wire.send(request("definition-status", DEFINITION, name), act)
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    async def get_object(self, kind: Kind, name: str) -> Object | None:
        """As the port says."""
        found = await self._wire.send(request("get-kind", kind, name), lambda: self._server.find(kind, "", name))
        return copy(found) if found is not None else None

    async def apply_object(self, kind: Kind, manifest: Object) -> Object:
        """As the port says."""

        def act() -> Object:
            self._server.apply(copy(manifest), kind=kind, manager=MANAGER, force=True)
            return self._server.get(kind, "", manifest["metadata"]["name"])

        stored: Object = copy(await self._wire.send(request("apply-kind", kind, manifest["metadata"]["name"]), act))
        return stored

    async def delete_object(self, kind: Kind, raw: Object) -> None:
        """As the port says."""
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        try:
            await self._wire.send(
                request("delete-kind", kind, name), lambda: self._server.delete(kind, "", name, uid=uid)
            )
        except errors.ApiStatusError as error:
            if error.code != 404:
                raise

    def serve(self, kind: Kind, forms: InstanceForms) -> None:
        """As the port says."""
        self._management_cluster.serve(kind, forms)

    async def wait_served(self, kind: Kind) -> None:
        """As the port says."""

    async def withdraw(self, kind: Kind) -> None:
        """As the port says."""
        self._management_cluster.withdraw(kind)

    async def release_instances(self, kind: Kind) -> int:
        """As the port says."""
        held = [raw for raw in self._server.list_all(kind) if names.FINALIZER in raw["metadata"].get("finalizers", ())]
        for raw in held:
            metadata = raw["metadata"]
            left = [each for each in metadata["finalizers"] if each != names.FINALIZER]
            patch = {"metadata": {"finalizers": left or None}}

            def act(metadata: Object = metadata, patch: Object = patch) -> None:
                self._server.patch(kind, metadata["namespace"], metadata["name"], patch, manager=MANAGER)

            await self._wire.send(request("release-instance", kind, metadata["name"]), act)
        return len(held)

    def find_instances(self, kind: Kind) -> Collection[StackObject]:
        """As the port says."""
        return self._management_cluster.find_instances(kind)

    def move(self, kind: Kind, uid: str, number: int) -> None:
        """As the port says."""
        self._management_cluster.move(kind, uid, number)

    def renew_rights(self, kind: Kind) -> None:
        """As the port says."""
        self._management_cluster.renew_rights(kind)


def request(verb: str, kind: Kind, name: str) -> Request:
    """A request about a StackDefinition or its kind."""
    return Request(verb=verb, kind=kind, namespace="", name=name)


def is_same_but_status(before: Object, after: Object) -> bool:
    """Whether only the status differs."""
    same = before["metadata"].get("generation") == after["metadata"].get("generation")
    keys = ("deletionTimestamp", "finalizers", "annotations")
    return same and all(before["metadata"].get(key) == after["metadata"].get(key) for key in keys)
