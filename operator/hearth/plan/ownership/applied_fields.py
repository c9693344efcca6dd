"""What a manifest states of the fields that others may keep, remembered on the object itself: has the value changed since?

The record is an annotation, written with the apply that states the values: the key's prefix, then a short keyed hash of
each field and its value. A value is the one that was stated last if its hash is in the record; which field a hash is of,
or what a value was, nobody can tell from it. Must not know who owns what.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from hearth.model import field_paths, names, packing
from hearth.model.child import Child, Object
from hearth.model.field_paths import ElementPath, PathPattern
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.keyed_hash import HashFunction

Address: TypeAlias = tuple[str, ...]
"""A way into any version of a manifest: items of lists go by their key field where they have one."""

DIGITS = 8
"""Hexadecimal digits of one hash. Of a thousand changes of a value, one among a million would be missed."""
LEAVES_AT_MOST = 4096
"""Fields in one record: 32 KiB of an object's annotations, which may hold 256."""
REPLICAS: ElementPath = ("spec", "replicas")
LIST_KEYS = (
    *("name", "mountPath", "containerPort", "port", "key", "type", "ip", "devicePath", "topologyKey", "uid", "id"),
)
"""Fields by which Kubernetes tells items of a list apart. Where items have none, an item goes by its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFields:
    """What one manifest states, for a resource of which others may keep something."""

    packed: bytes = field(repr=False)
    """JSON of the manifest as the user means it."""
    covers_all: bool
    """Whether others may keep whatever they take."""
    ignored: tuple[PathPattern, ...]
    """Otherwise what they may keep, besides a replica count that they scale."""
    owner: str
    """Goes into every hash, so that equal values of two resources do not show."""
    hashes: HashFunction
    record: str
    """As the annotation says it; equal for equal statements."""

    @property
    def manifest(self) -> Object:
        """As the user means it, made anew at every call: nobody asks while nothing is taken."""
        found: Object = orjson.loads(self.packed)
        return found

    def is_tolerable(self, place: ElementPath, *, is_scaled: bool) -> bool:
        """Whether others may keep what they took there. is_scaled: the replica count is set by way of its subresource."""
        if self.covers_all or (is_scaled and place == REPLICAS):
            return True
        manifest = self.manifest
        return any(field_paths.covers(pattern, place, manifest) for pattern in self.ignored)

    def is_recorded(self, place: ElementPath, record: str) -> bool:
        """Whether an earlier record holds what is stated at and below a place as it is stated now."""
        known = split(record)
        manifest = self.manifest
        leaves = find_leaves(field_paths.read(manifest, place), find_address(manifest, place))
        return all(digest(each, value, owner=self.owner, hashes=self.hashes) in known for each, value in leaves)


def make_applied_fields(
    manifest: Object, *, whole: bool, ignored: tuple[PathPattern, ...], owner: str, hashes: HashFunction
) -> AppliedFields | None:
    """What `manifest` states, None where nothing of it may be kept by others."""
    spec = manifest.get("spec")
    has_replicas = isinstance(spec, dict) and isinstance(spec.get("replicas"), int)
    if not (whole or ignored or has_replicas):
        return None
    places = [] if whole else [*find_places(manifest, ignored), *([REPLICAS] if has_replicas else [])]
    found = find_applied(manifest) if whole else find_below(manifest, places)
    digests = {
        digest(address, value, owner=owner, hashes=hashes) for address, value in itertools.islice(found, LEAVES_AT_MOST)
    }
    prefix = hashes.hash(owner).partition(":")[0]
    return AppliedFields(
        packed=packing.pack(manifest),
        covers_all=whole,
        ignored=ignored,
        owner=owner,
        hashes=hashes,
        record=f"{prefix}:{''.join(sorted(digests))}",
    )


def read_applied_record(child: Child) -> str:
    """What the object says was stated of it last."""
    annotations = child.fields["metadata"].get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_LAST_APPLIED, ""))


def split(record: str) -> frozenset[str]:
    """The hashes of a record."""
    digits = record.rpartition(":")[2]
    return frozenset(digits[at : at + DIGITS] for at in range(0, len(digits), DIGITS))


def digest(address: Address, value: Any, *, owner: str, hashes: HashFunction) -> str:
    """The short hash of one field and its value."""
    return hashes.hash([owner, address, value]).rpartition(":")[2][:DIGITS]


def find_applied(manifest: Mapping[str, Any]) -> Iterator[tuple[Address, Any]]:
    """Every field that a manifest states and others can take."""
    for key, value in manifest.items():
        if key == "metadata" and isinstance(value, dict):
            kept = {name: inner for name, inner in value.items() if name not in field_ownership.UNOWNED_METADATA}
            yield from find_leaves(kept, (key,))
        elif key not in field_ownership.UNOWNED:
            yield from find_leaves(value, (key,))


def find_below(manifest: Mapping[str, Any], places: list[ElementPath]) -> Iterator[tuple[Address, Any]]:
    """The fields at and below these places."""
    for place in places:
        yield from find_leaves(field_paths.read(manifest, place), find_address(manifest, place))


def find_places(manifest: Any, patterns: tuple[PathPattern, ...]) -> Iterator[ElementPath]:
    """Where a manifest states what the patterns name."""
    for pattern in patterns:
        yield from match(pattern, manifest, ())


def match(pattern: PathPattern, value: Any, place: ElementPath) -> Iterator[ElementPath]:
    """The places at and below `place` that the rest of a pattern names."""
    if not pattern:
        yield place
        return
    wanted = pattern[0]
    if isinstance(wanted, field_paths.ListItem):
        for at, item in enumerate(value) if isinstance(value, list) else ():
            if wanted.fits(item):
                yield from match(pattern[1:], item, (*place, at))
    elif isinstance(value, dict) and wanted in value:
        yield from match(pattern[1:], value[wanted], (*place, wanted))


def find_leaves(value: Any, address: Address) -> Iterator[tuple[Address, Any]]:
    """The fields at and below an address; of a list of maps also which items it has."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from find_leaves(inner, (*address, key))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        called = name_items(value)
        yield address, called
        for name, item in zip(called, value, strict=True):
            yield from find_leaves(item, (*address, name))
    elif value is not None:
        yield address, value


def find_address(manifest: Any, place: ElementPath) -> Address:
    """The address of a place."""
    found: list[str] = []
    for key in place:
        if isinstance(key, int):
            is_keyed = all(isinstance(item, dict) for item in manifest)
            found.append(name_items(manifest)[key] if is_keyed else str(key))
        else:
            found.append(key)
        manifest = manifest[key]
    return tuple(found)


def name_items(items: list[Any]) -> list[str]:
    """What the items of a list of maps go by."""
    for key in LIST_KEYS:
        values = [item.get(key) for item in items]
        if all(isinstance(value, str | int) for value in values) and len(set(values)) == len(values):
            return [f"{key}={value}" for value in values]
    return [str(at) for at in range(len(items))]
