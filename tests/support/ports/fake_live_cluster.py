"""The port of previews on the fake server: reads, and writes that the server only tries."""

from __future__ import annotations

from collections.abc import Collection

from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds, ObjectRef
from support.ports import fake_workload_cluster
from support.server.fake_objects import copy
from support.server.fake_server import FakeServer

MANAGER = "kubectl-stack"


class FakeLiveCluster:
    """The protocol `LiveCluster`, as a user with all rights."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.requests: list[str] = []
        """The verbs of all requests."""

    @property
    def kinds(self) -> Kinds:
        """As the port says."""
        return self._server.kinds

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """See the port; the schemas are always available."""

    async def list_children(self, kind: Kind, stack_uid: str) -> list[Object]:
        """As the port says."""
        self.requests.append("list")
        found = self._server.list_all(kind)
        return [copy(raw) for raw in found if fake_workload_cluster.stack_of(raw) == stack_uid]

    async def list_objects(self, kind: Kind, namespace: str, *, selector: str) -> list[Object]:
        """As the port says; the caller compares the labels."""
        found = self._server.list_all(kind)
        return [raw for raw in found if namespace in ("", raw["metadata"].get("namespace", ""))]

    async def get(self, ref: ObjectRef, *, kind: Kind, user: str = "") -> Object:
        """As the port says."""
        self.requests.append("get")
        found: Object = copy(self._server.get(kind, ref.namespace, ref.name))
        return found

    async def try_apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, user: str = "") -> Object:
        """As the port says."""
        self.requests.append("dry-run")
        found: Object = copy(self._server.apply(copy(manifest), kind=kind, manager=manager, force=force, dry_run=True))
        return found

    async def try_create(self, manifest: Object, *, kind: Kind, user: str = "") -> Object:
        """As the port says."""
        self.requests.append("dry-run")
        found: Object = copy(self._server.create(copy(manifest), manager=MANAGER, dry_run=True))
        return found

    async def try_change(self, ref: ObjectRef, patch: Object, *, kind: Kind, user: str = "") -> Object:
        """As the port says."""
        self.requests.append("dry-run")
        found: Object = copy(self._server.check_change(kind, ref.namespace, ref.name, copy(patch)))
        return found

    async def try_delete(self, ref: ObjectRef, *, kind: Kind, uid: str, user: str = "") -> None:
        """As the port says."""
        self.requests.append("dry-run")
        self._server.get(kind, ref.namespace, ref.name)

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "") -> bool:
        """As the port says."""
        self.requests.append("access-review")
        return True
