"""Which resource of a Stack names each object, so that no two of them write the same one.

Must not know manifests. A resource that changes costs the same however many others there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearth.model.kinds import ObjectRef


class ObjectClaims:
    """The objects that the resources of one Stack name."""

    def __init__(self) -> None:
        """Begin without any."""
        self._owners: dict[ObjectRef, str] = {}
        self._first: dict[str, ObjectRef] = {}
        """By resource the first object that it names; nearly all name only one."""
        self._others: dict[str, list[ObjectRef]] = {}
        """By resource all further objects: those of later incarnations."""

    def claim(self, ref: ObjectRef, name: str) -> str:
        """Return the resource that names the object: the first one that claimed it, otherwise `name` from now on."""
        count = len(self._owners)
        owner = self._owners.setdefault(ref, name)
        if len(self._owners) > count and self._first.setdefault(name, ref) is not ref:
            self._others.setdefault(name, []).append(ref)
        return owner

    def find(self, ref: ObjectRef) -> str:
        """Return the resource that names the object now; "" for none. A resource names the last one that it claimed."""
        owner = self._owners.get(ref, "")
        if owner and (others := self._others.get(owner)) and others[-1] != ref:
            return ""
        return owner

    def release(self, names: Iterable[str]) -> None:
        """Forget which objects these resources name, because they may name others now."""
        for name in names:
            first = self._first.pop(name, None)
            if first is not None:
                for ref in (first, *self._others.pop(name, ())):
                    del self._owners[ref]
