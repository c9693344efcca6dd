"""`ObjectList`, the objects of a collection or list that an expression reads, packed until they are accessed.

Unpacked objects take ten to fifteen times as much memory, and a namespace may read tens of megabytes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from hearth.model import child_fields
from hearth.model.child import Child
from hearth.model.child_fields import KnownTexts
from hearth.model.chunked_work import LARGE, ChunkedWork
from hearth.model.kinds import Kind


class ObjectList:
    """Objects in order. Each iteration unpacks them again, one at a time."""

    __slots__ = ("size", "sources")

    def __init__(self, sources: Iterable[Child | Mapping[str, Any]]) -> None:
        """sources: the objects, or the recorded fields of finished objects that no longer exist."""
        self.sources = tuple(sources)
        self.size = sum(len(each.packed_fields) for each in self.sources if isinstance(each, Child))
        """Bytes of the packed objects."""

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (each.fields if isinstance(each, Child) else each for each in self.sources)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same fields in the same order, without unpacking them."""
        if not isinstance(other, ObjectList) or len(self) != len(other):
            return False
        return all(map(has_same_fields, self.sources, other.sources))

    __hash__ = None  # type: ignore[assignment]  # of thousands of objects

    def identify(self) -> bytes:
        """Return bytes that are the same for equal lists within this process."""
        # Python caches the hash of bytes and strings.
        keys = (
            hash((each.packed_fields, each.known_texts)) if isinstance(each, Child) else hash(orjson.dumps(each))
            for each in self.sources
        )
        return b"".join(key.to_bytes(8, "big", signed=True) for key in keys)

    def write(self) -> Iterator[bytes]:
        """Yield each object as one line of JSON, from which `read` restores its fields."""
        for each in self.sources:
            if isinstance(each, Child):
                kind, *texts = each.known_texts
                yield b"".join(
                    (b"[", each.packed_fields, b",", orjson.dumps([kind.group, kind.version, kind.name, *texts]), b"]")
                )
            else:
                yield orjson.dumps(each)


def has_same_fields(one: Child | Mapping[str, Any], other: Child | Mapping[str, Any]) -> bool:
    """Whether two objects of lists are equal in all fields that are read."""
    if isinstance(one, Child) and isinstance(other, Child):
        return one.packed_fields == other.packed_fields and one.known_texts == other.known_texts
    return one == other


def unpack_in_pieces(objects: ObjectList) -> ChunkedWork[list[Mapping[str, Any]]]:
    """Return the fields of all objects."""
    found: list[Mapping[str, Any]] = []
    pieces = 0
    for each in objects.sources:
        found.append(child_fields.unpack(each.packed_fields, each.known_texts) if isinstance(each, Child) else each)
        pieces += len(each.packed_fields) if isinstance(each, Child) else LARGE
        if pieces >= LARGE:
            pieces = 0
            yield
    return found


def read(line: bytes) -> Mapping[str, Any]:
    """Return the fields of an object that `ObjectList.write` wrote."""
    found = orjson.loads(line)
    if isinstance(found, dict):
        return found
    parts, (group, version, name, *texts) = found
    kind = Kind(group=group, version=version, name=name, plural="", namespaced=True)
    return child_fields.restore_fields(parts, KnownTexts(kind, *texts))
