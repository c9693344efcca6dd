"""Decides when obsolete children may be deleted: after their dependents, unless a policy or another Stack keeps them.

The order is updated incrementally, because the deletion of a Stack with thousands of children queries it after each
deleted child.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hearth.graph import order
from hearth.model import chunked_work, members
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.plan.resource import replacement
from hearth.template.blueprint import StackIdentity


def incarnation_key(child: Child) -> str:
    """Return the key of a child in the records of its dependents."""
    return f"{child.resource}/{child.incarnation}"


def resource_of(required: str) -> str:
    """Return the resource of an incarnation key."""
    return required.partition("/")[0]


def find_keys(child: Child) -> tuple[str, ...]:
    """Return all keys that records of dependents may use for the child: its own, and the key of its whole collection."""
    own = incarnation_key(child)
    if not members.is_member(child.resource):
        return (own,)
    # A record of a whole collection always has incarnation 1.
    return own, f"{members.name_all(members.root_of(child.resource))}/1"


@dataclass(slots=True)
class ObsoleteChildren:
    """Obsolete children of one Stack, and the subset that no other obsolete child requires."""

    children: dict[str, Child] = field(default_factory=dict)
    """By UID."""
    deletable: dict[str, None] = field(default_factory=dict)
    """UIDs of the children that no other obsolete child requires."""
    changed: dict[str, None] = field(default_factory=dict)
    """UIDs that were added, changed, removed or made deletable since the planner last emptied this map."""
    is_expected: bool = False
    """Whether a write in flight may create another obsolete child."""
    _dependents: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """By resource and incarnation key: the UIDs of the obsolete children that require it."""
    _places: dict[str, set[str]] = field(default_factory=dict)
    """By incarnation key: the UIDs of the obsolete children."""
    _refs: dict[ObjectRef, str] = field(default_factory=dict)
    """The UIDs by reference."""
    _resources: dict[str, set[str]] = field(default_factory=dict)
    """By resource, and by collection as a whole: the UIDs of its obsolete children."""
    _heads: dict[str, None] | None = None
    """See `_find_heads`, or None if unknown."""

    @property
    def has_any(self) -> bool:
        """Return whether there is an obsolete child, or may be one soon."""
        return bool(self.children) or self.is_expected

    def replace(self, old: Iterable[Child], new: Iterable[Child]) -> None:
        """Remove `old` and add `new`; refresh the children in both."""
        fresh = {child.uid: child for child in new}
        for child in old:
            if child.uid not in fresh:
                self._remove(child.uid)
        for child in fresh.values():
            self._remove(child.uid)
            self._add(child)

    def may_delete(self, uid: str) -> bool:
        """Whether the other obsolete children allow the deletion of the child.

        Children in a dependency cycle (records of revisions that reversed a dependency) would block each other forever.
        If only these children and their requirements are left, each cycle that no other child requires may be deleted.
        """
        return uid in (self.deletable or self._find_heads())

    def _find_heads(self) -> dict[str, None]:
        """Return the UIDs of the children in cycles that no child outside of them requires."""
        if self._heads is None:
            dependents = {uid: list(self._find_dependents(child)) for uid, child in self.children.items()}
            knots = chunked_work.finish(order.find_knots(dependents))
            free = [knot for knot in knots if all(each in knot for uid in knot for each in dependents[uid])]
            self._heads = {uid: None for knot in free for uid in knot}
        return self._heads

    def find_at(self, ref: ObjectRef) -> Child | None:
        """Return the child with that reference."""
        uid = self._refs.get(ref)
        return self.children[uid] if uid is not None else None

    def at(self, place: str) -> Iterable[str]:
        """Return the UIDs of the children with an incarnation key."""
        if members.is_all(resource_of(place)):
            return self._resources.get(resource_of(place), ())
        return self._places.get(place, ())

    def _add(self, child: Child) -> None:
        self._forget_heads()
        self.children[child.uid] = child
        self.changed[child.uid] = None
        self._refs[child.ref] = child.uid
        self._places.setdefault(incarnation_key(child), set()).add(child.uid)
        for name in find_names(child):
            self._resources.setdefault(name, set()).add(child.uid)
        for required in child.requires:
            dependents = self._dependents.setdefault(resource_of(required), {}).setdefault(required, set())
            dependents.add(child.uid)
            if len(dependents) == 1 or not members.is_all(resource_of(required)):
                self._update_deletable(resource_of(required))
        self._update_deletable(child.resource)

    def _remove(self, uid: str) -> None:
        child = self.children.pop(uid, None)
        if child is None:
            return
        self._forget_heads()
        self.changed[uid] = None
        self.deletable.pop(uid, None)
        if self._refs.get(child.ref) == uid:
            del self._refs[child.ref]
        _discard(self._places, incarnation_key(child), uid)
        for name in find_names(child):
            _discard(self._resources, name, uid)
        for required in set(child.requires):
            dependents = self._dependents[resource_of(required)]
            _discard(dependents, required, uid)
            if not dependents:
                del self._dependents[resource_of(required)]
            if required not in dependents or not members.is_all(resource_of(required)):
                self._update_deletable(resource_of(required))
        self._update_deletable(child.resource)
        if not self.deletable:
            self.changed.update(dict.fromkeys(self.children))

    def _update_deletable(self, resource: str) -> None:
        """Add the children of a resource to `deletable`, or remove them."""
        for uid in self._resources.get(resource, ()):
            # A child is free if no other obsolete child requires it.
            is_free = next(self._find_dependents(self.children[uid]), None) is None
            if is_free == (uid in self.deletable):
                continue
            self.changed[uid] = None
            if is_free:
                self.deletable[uid] = None
            else:
                self.deletable.pop(uid, None)

    def _forget_heads(self) -> None:
        """Plan the children in cycles again, because they may now have to wait for others."""
        if self._heads is not None:
            self.changed.update(self._heads)
            self._heads = None

    def _find_dependents(self, child: Child) -> Iterator[str]:
        """Find the UIDs of the other obsolete children that require it. One may be found twice.

        A record of a deleted incarnation counts for each remaining incarnation.
        """
        # A dependent of all members is not a member itself.
        if members.is_member(child.resource):
            for uids in self._dependents.get(members.name_all(members.root_of(child.resource)), {}).values():
                yield from uids
        for required, uids in self._dependents.get(child.resource, {}).items():
            if required == incarnation_key(child) or required not in self._places:
                yield from (uid for uid in uids if uid != child.uid)


def find_names(child: Child) -> tuple[str, ...]:
    """Return the names that cover the child: its resource, and its collection as a whole."""
    name = child.resource
    return (name, members.name_all(members.root_of(name))) if members.is_member(name) else (name,)


def _discard(index: dict[str, set[str]], key: str, uid: str) -> None:
    uids = index.get(key)
    if uids is not None:
        uids.discard(uid)
        if not uids:
            del index[key]


def is_replaceable(child: Child, stack: StackIdentity) -> bool:
    """Return whether another object would be as good: it holds no data, and only its own resource gives its name."""
    name = stack.name_child(child.resource, incarnation=child.incarnation, namespace=child.namespace)
    return child.name == name and child.kind.key in replacement.CREATE_FIRST_KINDS
