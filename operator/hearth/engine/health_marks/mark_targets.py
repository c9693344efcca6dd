"""Finds the resource of an object that a HealthMark names, without a search through all children.

While a mark names an object without a Stack, the objects of its namespace are indexed, and the mark is notified when
the object appears. Reads caches; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.engine.cluster_links import ClusterLink
from hearth.engine.cluster_objects import StackObject
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.model import value_class
from hearth.model.child import Child

GroupKind: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[GroupKind, str]
"""Group and kind of an object, and its name."""


@value_class.dataclass(frozen=True, slots=True)
class Owner:
    """The last known owner of an object."""

    stack: StackObject
    resource: str


@dataclass(slots=True)
class Index:
    """The objects of one namespace."""

    owners: dict[GroupKind, dict[str, Owner]] = field(default_factory=dict)
    ordered: dict[GroupKind, list[str]] = field(default_factory=dict)
    """Sorted names by kind, if they were requested since the last change."""

    def put(self, key: Key, owner: Owner) -> None:
        """Add an object."""
        by_name = self.owners.setdefault(key[0], {})
        if key[1] not in by_name:
            self.ordered.pop(key[0], None)
        by_name[key[1]] = owner

    def drop(self, key: Key) -> None:
        """Remove an object."""
        self.owners[key[0]].pop(key[1], None)
        self.ordered.pop(key[0], None)

    def list_names(self, kind: GroupKind) -> list[str]:
        """Return the sorted names of all objects of a kind."""
        if kind not in self.ordered:
            self.ordered[kind] = sorted(self.owners.get(kind, ()))
        return self.ordered[kind]


@dataclass(slots=True)
class Targets:
    """The indexed objects of all namespaces with marks that search for an object."""

    find_link: Callable[[str], ClusterLink]
    """Returns the link to the cluster of a Stack's objects, by UID."""
    _indexes: dict[str, Index] = field(default_factory=dict)
    _waiting: dict[str, dict[Key, set[str]]] = field(default_factory=dict)
    """UIDs of the marks that search for an object, by namespace and object."""
    _keys: dict[str, tuple[str, Key]] = field(default_factory=dict)
    """The object that each mark searches for, by UID of the mark."""

    def find(self, namespace: str, key: Key, stacks: Iterable[StackObject]) -> Owner | None:
        """Return the owner of an object. stacks: all Stacks of the namespace; read only to build its index."""
        index = self._get_index(namespace, stacks)
        owner = index.owners.get(key[0], {}).get(key[1])
        if owner is None or self._has(owner, key, namespace):
            return owner
        index.drop(key)
        return None

    def list_names(self, namespace: str, kind: GroupKind, stacks: Iterable[StackObject]) -> list[str]:
        """Return the sorted names of all objects of that kind. stacks: as above."""
        return self._get_index(namespace, stacks).list_names(kind)

    def wait(self, uid: str, namespace: str, key: Key) -> None:
        """Register a mark that searches for an object without a Stack. `find_affected` later returns the mark."""
        if self._keys.get(uid) != (namespace, key):
            self.forget(uid)
            self._keys[uid] = (namespace, key)
            self._waiting.setdefault(namespace, {}).setdefault(key, set()).add(uid)

    def forget(self, uid: str) -> None:
        """Remove a mark's search. The last search in a namespace removes the namespace's index."""
        namespace, key = self._keys.pop(uid, ("", None))
        if key is None:
            return
        waiting = self._waiting[namespace]
        waiting[key].discard(uid)
        if not waiting[key]:
            del waiting[key]
        if not waiting:
            del self._waiting[namespace]
            self._indexes.pop(namespace, None)

    def find_affected(self, stack: StackObject, what: Collection[DirtyItem]) -> list[str]:
        """Return the marks whose object is among the dirty resources of a Stack. Costs one lookup if none searches."""
        waiting = self._waiting.get(stack.namespace)
        if waiting is None:
            return []
        index = self._indexes.get(stack.namespace)
        found: list[str] = []
        for child in self._list_children(stack, what):
            key = make_key(child)
            if index is not None:
                index.put(key, Owner(stack, child.resource))
            found += waiting.get(key, ())
        return found

    def _get_index(self, namespace: str, stacks: Iterable[StackObject]) -> Index:
        index = self._indexes.get(namespace)
        if index is None:
            index = Index()
            for stack in stacks:
                for child in self._list_children(stack, (DirtyScope.ALL_RESOURCES,)):
                    index.put(make_key(child), Owner(stack, child.resource))
            if namespace in self._waiting:
                self._indexes[namespace] = index
        return index

    def _list_children(self, stack: StackObject, what: Collection[DirtyItem]) -> Iterator[Child]:
        """List the objects of these resources that a mark in the Stack's namespace may name."""
        link = self.find_link(stack.uid)
        # A mark names an object of its own cluster. An object with the same name in another cluster is a different
        # object.
        found: Mapping[str, tuple[Child, ...]] = {} if link.is_remote else link.cluster.children(stack.uid)
        dirty = (item for item in what if isinstance(item, str) and item in found)
        names = found if DirtyScope.ALL_RESOURCES in what else dirty
        for name in names:
            for child in found[name]:
                if child.is_identified and child.namespace in ("", stack.namespace):
                    yield child

    def _has(self, owner: Owner, key: Key, namespace: str) -> bool:
        """Return whether the owner still has the object."""
        children = self.find_link(owner.stack.uid).cluster.children_of(owner.stack.uid, owner.resource)
        return any(
            make_key(child) == key and child.is_identified and child.namespace in ("", namespace) for child in children
        )


def make_key(child: Child) -> Key:
    """Return the key that a mark uses to name an object."""
    return (child.kind.group, child.kind.name), child.name
