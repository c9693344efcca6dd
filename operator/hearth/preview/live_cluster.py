"""`LiveCluster`, the port of a preview to the real cluster: reads, and writes as dry runs. It never changes anything.

A request raises `ApiStatusError` for any answer other than 2xx and `Unreachable` for no answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from hearth.model.child import Object
from hearth.model.kinds import Kind, Kinds, ObjectRef


class LiveCluster(Protocol):
    """One cluster, accessed with the credentials of the user who asks for the preview."""

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Make the schemas of these kinds available in `kinds.find_schema`."""

    async def list_children(self, kind: Kind, stack_uid: str) -> list[Object]:
        """Return the objects with the label of that Stack; none if the kind is not served."""

    async def list_objects(self, kind: Kind, namespace: str, *, selector: str) -> list[Object]:
        """Return the objects with these labels. namespace: "" for all, and for cluster scope."""

    async def get(self, ref: ObjectRef, *, kind: Kind, user: str = "") -> Object:
        """Return the object. user: the reading user, "" for the user of the preview."""

    async def try_apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, user: str = "") -> Object:
        """Return the result of a server-side apply in a dry run. user: as in `get`."""

    async def try_create(self, manifest: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a create in a strict dry run. user: as in `get`."""

    async def try_change(self, ref: ObjectRef, patch: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a merge patch in a dry run. user: as in `get`."""

    async def try_delete(self, ref: ObjectRef, *, kind: Kind, uid: str, user: str = "") -> None:
        """Delete exactly this object in a dry run. user: as in `get`."""

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "") -> bool:
        """Return whether the user may do that. name: of the object, "" for all."""
