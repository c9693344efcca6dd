"""The copied objects of one Stack, as the dry runs change them.

`merge` predicts an apply without the API server, for example in a namespace that does not exist yet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from hearth.model import child as child_module
from hearth.model import names, value_class
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.signatures import Signatures
from hearth.plan.ownership import field_changes

Place: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name."""
FIRST_VERSION = 10**15
"""Resource version of the copies: higher than the version of any object of a cluster."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DryRunWrite:
    """One write."""

    before: Object | None
    """The object in the copy, or None if there was none."""
    after: Object | None
    """The object after the write, or None if it was deleted."""
    stated: Object | None = None
    """The manifest that was applied, with stand-ins."""
    unchecked: str = ""
    """Why the API server did not check the write, or "" if it did."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCopy:
    """One object of the copy."""

    kind: Kind
    raw: Object
    child: Child
    is_live: bool
    """Whether the cluster has the object, perhaps in another state."""


class ObjectCopies:
    """All objects of the copy, indexed as the caches of the operator are."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._versions = itertools.count(FIRST_VERSION)
        self._copies: dict[Place, ObjectCopy] = {}
        self._removed: set[Place] = set()
        self._index: dict[str, dict[str, tuple[Child, ...]]] = {}

    def put(self, raw: Object, *, kind: Kind, is_live: bool) -> Child:
        """Store an object in a new version."""
        raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(next(self._versions))}}
        place = find_place(kind, raw)
        self._unindex(place)
        self._removed.discard(place)
        child = self._parse(raw, kind)
        self._copies[place] = ObjectCopy(kind=kind, raw=raw, child=child, is_live=is_live)
        by_key = self._index.setdefault(child.stack_uid, {})
        by_key[child.index_key] = (*by_key.get(child.index_key, ()), child)
        return child

    def _parse(self, raw: Object, kind: Kind) -> Child:
        """Parse an object with all its fields. A signature counts only on the object that it was made for."""
        metadata = raw["metadata"]
        identity = names.identity(
            stack_uid=(metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""),
            group=kind.group,
            kind=kind.name,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
        )
        is_own = (metadata.get("annotations") or {}).get(names.ANNOTATION_IDENTITY) == identity
        paths = [(key,) for key in raw if key not in ("apiVersion", "kind", "metadata")]
        try:
            return child_module.parse_child(
                raw, kind=kind, paths=paths, signatures=self._signatures if is_own else None
            )
        except ValueError:
            # Something that looks like a signature does not count.
            return child_module.parse_child(raw, kind=kind, paths=paths)

    def remove(self, place: Place) -> None:
        """Remove an object."""
        self._unindex(place)
        self._copies.pop(place, None)
        self._removed.add(place)

    def _unindex(self, place: Place) -> None:
        known = self._copies.get(place)
        if known is None:
            return
        child = known.child
        by_key = self._index[child.stack_uid]
        left = tuple(each for each in by_key[child.index_key] if each.uid != child.uid)
        if left:
            by_key[child.index_key] = left
        else:
            del by_key[child.index_key]

    def find(self, place: Place) -> ObjectCopy | None:
        """Return the object at that place."""
        return self._copies.get(place)

    def is_removed(self, place: Place) -> bool:
        """Return whether the copy had an object at that place and has none now."""
        return place in self._removed

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """Return the objects with that Stack's label by resource."""
        return self._index.get(stack_uid, {})

    def __iter__(self) -> Iterator[ObjectCopy]:
        """Iterate over all objects."""
        return iter(list(self._copies.values()))


def find_place(kind: Kind, raw: Object) -> Place:
    """Return the place of an object."""
    metadata = raw["metadata"]
    return kind.group, kind.name, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"]


def place_of(ref: ObjectRef) -> Place:
    """Return the place that a reference names."""
    return ref.group, ref.kind, ref.namespace, ref.name


def merge(live: Any, stated: Any) -> Any:
    """Return `live` with the fields of `stated`. Lists are replaced; nothing is removed or defaulted."""
    if not isinstance(stated, Mapping):
        return stated
    found = live if isinstance(live, Mapping) else {}
    return {**found, **{key: merge(found.get(key), value) for key, value in stated.items()}}


def is_changed(before: Object, after: Object) -> bool:
    """Whether the object differs outside its metadata and status."""
    one, other = ({**field_changes.prune(raw), "metadata": None} for raw in (before, after))
    return one != other


def with_hash(answer: Object, before: Object) -> Object:
    """Return the answer to a dry run with the hash of the copy, in place of the one that the operator's key made."""
    stated, present = (raw["metadata"].get("annotations") or {} for raw in (answer, before))
    if names.ANNOTATION_HASH not in stated or names.ANNOTATION_HASH not in present:
        return answer
    recorded = {key: present[key] for key in (names.ANNOTATION_HASH, names.ANNOTATION_LAST_APPLIED) if key in present}
    return {**answer, "metadata": {**answer["metadata"], "annotations": {**stated, **recorded}}}
