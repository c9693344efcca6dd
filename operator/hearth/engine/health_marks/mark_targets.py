"""Which resource the object stands for that a HealthMark names, looked up without a search through all children.

Keeps an index of a namespace while a mark there names an object that no Stack has, and says which mark it is when that
object comes. Reads caches; writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.engine.ports import StackObject, WorkloadCluster
from hearth.engine.work_queue import ALL_RESOURCES
from hearth.model.child import Child

GroupKind: TypeAlias = tuple[str, str]
Key: TypeAlias = tuple[GroupKind, str]
"""Group and kind of an object, and its name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose object it was when that was last looked at."""

    stack: StackObject
    resource: str


@dataclass(slots=True)
class Index:
    """The objects of one namespace."""

    owners: dict[GroupKind, dict[str, Owner]] = field(default_factory=dict)
    ordered: dict[GroupKind, list[str]] = field(default_factory=dict)
    """Their names in order, as far as somebody has asked for them since they changed."""

    def put(self, key: Key, owner: Owner) -> None:
        """It is there."""
        by_name = self.owners.setdefault(key[0], {})
        if key[1] not in by_name:
            self.ordered.pop(key[0], None)
        by_name[key[1]] = owner

    def drop(self, key: Key) -> None:
        """It is not there any more."""
        self.owners[key[0]].pop(key[1], None)
        self.ordered.pop(key[0], None)

    def list_names(self, kind: GroupKind) -> list[str]:
        """Of all objects of a kind, in order."""
        if kind not in self.ordered:
            self.ordered[kind] = sorted(self.owners.get(kind, ()))
        return self.ordered[kind]


@dataclass(slots=True)
class Targets:
    """The objects of the namespaces in which marks look for theirs."""

    cluster: WorkloadCluster
    _indexes: dict[str, Index] = field(default_factory=dict)
    _waiting: dict[str, dict[Key, set[str]]] = field(default_factory=dict)
    """By namespace and object the UIDs of the marks that look for it."""
    _keys: dict[str, tuple[str, Key]] = field(default_factory=dict)
    """By mark what it looks for."""

    def find(self, namespace: str, key: Key, stacks: Iterable[StackObject]) -> Owner | None:
        """Whose child that object is. stacks: all of the namespace; looked at where there is no index yet."""
        index = self._get_index(namespace, stacks)
        owner = index.owners.get(key[0], {}).get(key[1])
        if owner is None or self._has(owner, key, namespace):
            return owner
        index.drop(key)
        return None

    def list_names(self, namespace: str, kind: GroupKind, stacks: Iterable[StackObject]) -> list[str]:
        """The names of all objects of that kind, in order. stacks: as above."""
        return self._get_index(namespace, stacks).list_names(kind)

    def wait(self, uid: str, namespace: str, key: Key) -> None:
        """A mark looks for an object that nobody has: `hear` is to name it when that comes."""
        if self._keys.get(uid) != (namespace, key):
            self.forget(uid)
            self._keys[uid] = (namespace, key)
            self._waiting.setdefault(namespace, {}).setdefault(key, set()).add(uid)

    def forget(self, uid: str) -> None:
        """A mark looks for nothing any more. With the last one its namespace's index goes."""
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

    def hear(self, stack: StackObject, what: Collection[str]) -> list[str]:
        """That much of a Stack is looked at: the marks whose object is there now. Costs one lookup where none waits."""
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
                for child in self._list_children(stack, (ALL_RESOURCES,)):
                    index.put(make_key(child), Owner(stack, child.resource))
            if namespace in self._waiting:
                self._indexes[namespace] = index
        return index

    def _list_children(self, stack: StackObject, what: Collection[str]) -> Iterator[Child]:
        """The objects of these resources that a mark in the Stack's namespace may name."""
        found: Mapping[str, tuple[Child, ...]] = self.cluster.children(stack.uid)
        names = found if ALL_RESOURCES in what else [name for name in what if name in found]
        for name in names:
            for child in found[name]:
                if child.is_identified and child.namespace in ("", stack.namespace):
                    yield child

    def _has(self, owner: Owner, key: Key, namespace: str) -> bool:
        """Whether that is still so."""
        children = self.cluster.children_of(owner.stack.uid, owner.resource)
        return any(
            make_key(child) == key and child.is_identified and child.namespace in ("", namespace) for child in children
        )


def make_key(child: Child) -> Key:
    """What a mark names an object by."""
    return (child.kind.group, child.kind.name), child.name
