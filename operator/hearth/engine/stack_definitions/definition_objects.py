"""What a StackDefinition makes besides its instances: signed objects without a namespace, distinguished from those of others."""

from __future__ import annotations

from typing import Any, Final

from hearth.engine.ports import StackDefinitionClient
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION
from hearth.plan.ownership.keyed_hash import HashFunction

PURPOSES: Final = {
    CUSTOM_RESOURCE_DEFINITION: "kind of a StackDefinition",
    CLUSTER_ROLE: "role of a StackDefinition",
}
"""What a signature of such an object is for."""


class NotOwn(Exception):
    """An object of that name exists that was not made for the StackDefinition."""


@value_class.dataclass(frozen=True, slots=True)
class DefinitionObjects:
    """The objects of all StackDefinitions."""

    client: StackDefinitionClient
    hashes: HashFunction

    async def keep(self, kind: Kind, wanted: Object, *, uid: str, parts: tuple[str, ...] = ("spec",)) -> Object:
        """Return the object as it is now; it is applied unless it is as wanted. Raises NotOwn and ApiStatusError.

        uid: of the StackDefinition; parts: the fields of the object that are compared.
        """
        name = wanted["metadata"]["name"]
        live = await self.client.get_object(kind, name)
        if live is not None and not self.is_own(kind, live, uid):
            raise NotOwn
        hashed = self.hashes.hash([PURPOSES[kind], wanted])
        if live is not None and is_as_made(live, hashed, wanted, parts):
            return live
        annotations = {
            names.ANNOTATION_DEFINITION: uid,
            names.ANNOTATION_SIGNATURE: self.hashes.sign(PURPOSES[kind], [name, uid]),
            names.ANNOTATION_HASH: hashed,
        }
        return await self.client.apply_object(
            kind, {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}
        )

    async def find(self, kind: Kind, name: str) -> Object | None:
        """Return the object of that name, which anyone may have made; None if there is none."""
        return await self.client.get_object(kind, name)

    async def delete(self, kind: Kind, live: Object) -> None:
        """Delete exactly this object."""
        if "deletionTimestamp" not in live["metadata"]:
            await self.client.delete_object(kind, live)

    def is_own(self, kind: Kind, live: Object, uid: str) -> bool:
        """Return whether this operator made an object for the StackDefinition with that UID."""
        annotations = live["metadata"].get("annotations") or {}
        signature = annotations.get(names.ANNOTATION_SIGNATURE, "")
        named = annotations.get(names.ANNOTATION_DEFINITION)
        return named == uid and self.hashes.is_signed(PURPOSES[kind], [live["metadata"]["name"], uid], signature)


def is_as_made(live: Object, hashed: str, wanted: Object, parts: tuple[str, ...]) -> bool:
    """Return whether an object is as it was made last. hashed: of what is wanted."""
    annotations = live["metadata"].get("annotations") or {}
    is_same = all(contains(live.get(part), wanted[part]) for part in parts)
    return annotations.get(names.ANNOTATION_HASH) == hashed and is_same


def contains(found: Any, wanted: Any) -> bool:
    """Return whether all that is wanted is in what was found, which may have defaults beside it."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            contains(found.get(key), value) for key, value in wanted.items() if value
        )
    if isinstance(wanted, list):
        is_list = isinstance(found, list) and len(found) == len(wanted)
        return is_list and all(contains(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)
