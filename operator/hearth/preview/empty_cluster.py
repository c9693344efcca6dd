"""`EmptyCluster`, an in-memory `LiveCluster` for tests of Stacks. It contains only objects from files.

It accepts all manifests: it has no schemas, defaults or admission plugins.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hearth.model import object_fields
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, Kinds, ObjectRef
from hearth.plan.ownership import apply_obstacles
from hearth.preview import object_copies
from hearth.preview.object_copies import Place

NOT_FOUND: Final = 404
CONFLICT: Final = 409


class EmptyCluster:
    """The protocol `LiveCluster`. Every kind counts as served, and every user has all permissions."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._objects: dict[Place, Object] = {}

    def add(self, raw: Mapping[str, object], *, namespace: str) -> None:
        """Add an object of a file, unless it has no kind or name. namespace: if it sets none."""
        kind = self._kinds.find(object_fields.text(raw, "apiVersion"), object_fields.text(raw, "kind"))
        name = object_fields.text(raw, "metadata", "name")
        if kind is None or not name:
            return
        usual = {
            "uid": str(uuid.uuid4()),
            "resourceVersion": "1",
            **({"namespace": namespace} if kind.namespaced else {}),
        }
        whole = {**raw, "metadata": {**usual, **object_fields.mapping(raw, "metadata")}}
        self._objects[object_copies.find_place(kind, whole)] = whole

    @property
    def kinds(self) -> Kinds:
        """The kinds that the cluster serves."""
        return self._kinds

    async def load_schemas(self, kinds: Collection[Kind]) -> None:
        """Load nothing: the schemas of files are there."""

    async def list_children(self, kind: Kind, stack_uid: str) -> list[Object]:  # noqa: ARG002 -- the port
        """Return none: the Stack is new."""
        return []

    async def list_objects(self, kind: Kind, namespace: str, *, selector: str) -> list[Object]:  # noqa: ARG002 -- the port
        """Return the objects of a kind. The caller compares the labels."""
        return [
            raw
            for place, raw in self._objects.items()
            if place[:2] == (kind.group, kind.name) and namespace in ("", place[2])
        ]

    async def get(self, ref: ObjectRef, *, kind: Kind, user: str = "") -> Object:  # noqa: ARG002 -- the port
        """Return the object."""
        found = self._objects.get(object_copies.place_of(ref))
        if found is None:
            raise refuse(NOT_FOUND, "NotFound", f"{ref} not found", kind=ref.kind, name=ref.name)
        return found

    async def try_apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool, user: str = "") -> Object:  # noqa: ARG002 -- the port
        """Return the object with the fields of the manifest."""
        found = self._objects.get(object_copies.find_place(kind, manifest))
        merged: Object = object_copies.merge(found, manifest)
        return merged

    async def try_create(self, manifest: Object, *, kind: Kind, user: str = "") -> Object:  # noqa: ARG002 -- the port
        """Return the manifest."""
        name = object_fields.text(manifest, "metadata", "name")
        if name and object_copies.find_place(kind, manifest) in self._objects:
            raise refuse(
                CONFLICT, "AlreadyExists", f"{kind.name.lower()} {name} exists already", kind=kind.name, name=name
            )
        return manifest

    async def try_change(self, ref: ObjectRef, patch: Object, *, kind: Kind, user: str = "") -> Object:
        """Return the result of a merge patch."""
        changed: Object = apply_obstacles.patched(await self.get(ref, kind=kind, user=user), patch)
        return changed

    async def try_delete(self, ref: ObjectRef, *, kind: Kind, uid: str, user: str = "") -> None:  # noqa: ARG002 -- the port
        """Do nothing if the object exists."""
        await self.get(ref, kind=kind, user=user)

    async def is_allowed(self, verb: str, *, kind: Kind, namespace: str, name: str = "", user: str = "") -> bool:  # noqa: ARG002 -- the port
        """Return True."""
        return True


def refuse(
    code: int, reason: str, message: str, *, kind: str, name: str, causes: Sequence[Mapping[str, str]] = ()
) -> ApiStatusError:
    """Return the API server's response that rejects a request about an object. causes: the rejected fields."""
    details = {"kind": kind, "name": name, **({"causes": list(causes)} if causes else {})}
    status = {"code": code, "reason": reason, "message": message, "details": details}
    return ApiStatusError(code=code, status=status)
