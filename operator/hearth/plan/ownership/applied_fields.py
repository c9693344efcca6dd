"""Records the applied values of fields that other managers may keep, or whose change replaces the object.

The record shows whether the manifest has changed such a value since the last apply. It is an annotation that the same
apply writes: a prefix of the key, then a short keyed hash of each field and its value. A value is unchanged if its hash
is in the record. The record reveals neither fields nor values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import orjson

from hearth.model import field_paths, names, packing, value_class
from hearth.model.child import Child, Object, Path
from hearth.model.field_paths import ElementPath, PathPattern
from hearth.plan.ownership import field_ownership
from hearth.plan.ownership.keyed_hash import HashFunction

Address: TypeAlias = tuple[str, ...]
"""A path into any version of a manifest. It identifies a list item by its key field, if it has one."""

DIGITS = 8
"""Hexadecimal digits of one hash. With a thousand changed values, the chance of missing one is less than one in a
million."""
LEAVES_AT_MOST = 4096
"""Maximum fields in one record: 32 KiB of the 256 KiB for the annotations of an object."""
REPLICAS: ElementPath = ("spec", "replicas")
LIST_KEYS = (
    *("name", "mountPath", "containerPort", "port", "key", "type", "ip", "devicePath", "topologyKey", "uid", "id"),
)
"""Fields that Kubernetes uses to identify list items. Items without any of these fields are identified by their
position."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFields:
    """Fields that one manifest applies, for a resource whose fields other managers may share."""

    packed: bytes = field(repr=False)
    """JSON of the manifest from the definition."""
    covers_all: bool
    """Whether other managers may keep any field."""
    ignored: tuple[PathPattern, ...]
    """If `covers_all` is false: the fields that other managers may keep, in addition to a scaled replica count."""
    owner: str
    """Part of every hash, so that equal values of two resources have different hashes."""
    hashes: HashFunction
    record: str
    """Value of the annotation; equal for equal fields."""

    @property
    def manifest(self) -> Object:
        """Parse the manifest. It is not cached, because only drift causes calls."""
        found: Object = orjson.loads(self.packed)
        return found

    def is_tolerable(self, place: ElementPath, *, is_scaled: bool) -> bool:
        """Return whether other managers may keep that field. is_scaled: the scale subresource sets the replica count."""
        if self.covers_all or (is_scaled and place == REPLICAS):
            return True
        manifest = self.manifest
        return any(field_paths.covers(pattern, place, manifest) for pattern in self.ignored)

    def is_recorded(self, place: ElementPath, record: str) -> bool:
        """Whether an earlier record holds the current values at and below a path; False without values."""
        known = split(record)
        manifest = self.manifest
        try:
            leaves = find_leaves(field_paths.read(manifest, place), find_address(manifest, place))
        except (KeyError, IndexError, TypeError):
            return False
        return all(self.is_known(each, value, known) for each, value in leaves)

    def is_known(self, address: Address, value: Any, known: frozenset[str]) -> bool:
        """Return whether a record contains this value of one field. known: its hashes."""
        return digest(address, value, owner=self.owner, hashes=self.hashes) in known


def make_applied_fields(
    manifest: Object,
    *,
    whole: bool,
    ignored: tuple[PathPattern, ...],
    replacing: tuple[Path, ...] = (),
    owner: str,
    hashes: HashFunction,
) -> AppliedFields | None:
    """Make the record of a manifest, or return None if it needs none.

    It needs one if other managers may keep some of its fields, or if a changed field replaces the object. replacing:
    the fields of `replaceOn`.
    """
    spec = manifest.get("spec")
    has_replicas = isinstance(spec, dict) and isinstance(spec.get("replicas"), int)
    named = list(find_places(manifest, replacing))
    if not (whole or ignored or has_replicas or named):
        return None
    places = [] if whole else [*find_places(manifest, ignored), *([REPLICAS] if has_replicas else []), *named]
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
    """Read the record from the object's annotation."""
    annotations = child.fields["metadata"].get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_LAST_APPLIED, ""))


def is_record_current(child: Child, record: str) -> bool:
    """Return whether an apply would leave the object's record unchanged. record: of the definition, "" for none.

    An apply does not remove a record that another manager wrote, so an object may have one although its definition has
    none.
    """
    if read_applied_record(child) == record:
        return True
    return not record and not field_ownership.owns_annotation(child.ownership, names.ANNOTATION_LAST_APPLIED)


def split(record: str) -> frozenset[str]:
    """Split a record into its hashes."""
    digits = record.rpartition(":")[2]
    return frozenset(digits[at : at + DIGITS] for at in range(0, len(digits), DIGITS))


def digest(address: Address, value: Any, *, owner: str, hashes: HashFunction) -> str:
    """Make the short hash of one field and its value."""
    return hashes.hash([owner, address, value]).rpartition(":")[2][:DIGITS]


def find_applied(manifest: Mapping[str, Any]) -> Iterator[tuple[Address, Any]]:
    """Find every field of a manifest that other managers can own."""
    for key, value in manifest.items():
        if key == "metadata" and isinstance(value, dict):
            kept = {name: inner for name, inner in value.items() if name not in field_ownership.UNOWNED_METADATA}
            yield from find_leaves(kept, (key,))
        elif key not in field_ownership.UNOWNED:
            yield from find_leaves(value, (key,))


def find_below(manifest: Mapping[str, Any], places: list[ElementPath]) -> Iterator[tuple[Address, Any]]:
    """Find the fields at and below these paths."""
    for place in places:
        yield from find_leaves(field_paths.read(manifest, place), find_address(manifest, place))


def find_places(manifest: Any, patterns: tuple[PathPattern, ...]) -> Iterator[ElementPath]:
    """Find the paths of a manifest that match the patterns."""
    for pattern in patterns:
        yield from match(pattern, manifest, ())


def match(pattern: PathPattern, value: Any, place: ElementPath) -> Iterator[ElementPath]:
    """Find the paths at and below `place` that match the rest of a pattern."""
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
    """Find the fields at and below an address; for a list of maps also the names of its items."""
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
    """Return the address of a path."""
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
    """Name the items of a list of maps."""
    for key in LIST_KEYS:
        values = [item.get(key) for item in items]
        if all(isinstance(value, str | int) for value in values) and len(set(values)) == len(values):
            return [f"{key}={value}" for value in values]
    return [str(at) for at in range(len(items))]
