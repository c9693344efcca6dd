"""The values that a resource reads from its requirements: single resources, or all members of a collection.

The cost of a change of one member does not depend on the number of members, unless an expression reads all objects.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearth.model import members
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.model.object_list import ObjectList
from hearth.plan.state.resource_status import ResourceStatus


@dataclass(slots=True)
class CollectionStatus:
    """The statuses of all members as a single status."""

    members: tuple[str, ...]
    """In the order of the source."""
    _statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    _unready: dict[str, None] = field(init=False)
    _stuck: set[str] = field(default_factory=set)
    """The members that are stuck and not ready."""
    _held: set[str] = field(default_factory=set)
    _version: int = 0
    """Number of changes of ready members so far."""
    is_unlisted: bool = False
    """Whether objects of former members may be unknown yet."""
    _former: Mapping[str, Child] = field(default_factory=dict)
    """Objects that stay although their members are no longer wanted, by name."""
    _seen: tuple[object, ...] = ()
    """The fingerprint that the dependents were planned with."""

    def __post_init__(self) -> None:
        """Begin without the status of any member."""
        self._unready = dict.fromkeys(self.members)

    def update(self, name: str, status: ResourceStatus) -> None:
        """Replace the status of a member, whose fingerprint has changed."""
        self._statuses[name] = status
        self._version += 1
        if status.is_ready:
            self._unready.pop(name, None)
        else:
            self._unready[name] = None
        _set(self._stuck, name, is_in=status.is_stuck and not status.is_ready)
        _set(self._held, name, is_in=status.is_held)

    def set_members(self, names: tuple[str, ...]) -> None:
        """Replace the members; new members have no status yet."""
        if names == self.members:
            return
        new = frozenset(names)
        for name in self.members:
            if name not in new:
                self._statuses.pop(name, None)
                self._unready.pop(name, None)
                self._stuck.discard(name)
                self._held.discard(name)
        known = frozenset(self.members)
        self._unready.update({name: None for name in names if name not in known})
        self.members = names
        self._version += 1

    def set_former(self, former: Mapping[str, Child], *, is_unlisted: bool) -> bool:
        """Replace the objects of members that are no longer wanted and stay; return whether dependents are affected.

        Expressions read these objects as well: a list that loses members by mistake must not change its readers.
        """
        if (former, is_unlisted) == (self._former, self.is_unlisted):
            return False
        self._former, self.is_unlisted = former, is_unlisted
        self._version += 1
        return True

    def take_changed(self) -> bool:
        """Return whether the dependents must be planned again, and treat them as planned."""
        before, self._seen = self._seen, self.fingerprint
        return before != self._seen

    @property
    def is_ready(self) -> bool:
        """Return whether all members are ready, and all former ones known."""
        return not self._unready and not self.is_unlisted

    @property
    def is_held(self) -> bool:
        """Return whether the repair of any member is held."""
        return bool(self._held)

    @property
    def is_stuck(self) -> bool:
        """Return whether all members that are not ready are stuck."""
        return bool(self._unready) and len(self._stuck) == len(self._unready)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Return the state that dependents depend on. It includes the objects only when all members are ready."""
        return (self.is_ready, self.is_held, self.is_stuck, self._version if self.is_ready else 0)

    @property
    def fields(self) -> ObjectList | None:
        """Return the fields of all objects in the order of the source; None while one is missing."""
        return self.list_with_former(self._statuses.get(name) for name in self.members)

    def list_with_former(self, statuses: Iterable[ResourceStatus | None]) -> ObjectList | None:
        """Return the objects of all members, by these statuses, and of former ones that stay, or None if one is missing."""
        found: list[Child | Mapping[str, Any]] = []
        for status in statuses:
            source = (status.child or status.finished_fields) if status is not None else None
            if source is None:
                return None
            found.append(source)
        if not self._former:
            return ObjectList(found)
        every = [*zip(self.members, found, strict=True), *sorted(self._former.items())]
        if list(self.members) == sorted(self.members):
            every.sort(key=operator.itemgetter(0))
        return ObjectList([each for _, each in every])

    @property
    def children(self) -> tuple[Child, ...]:
        """Return the objects that exist."""
        present = (status.child for status in self._statuses.values() if status.child is not None)
        return (*present, *self._former.values())


def _set(names: set[str], name: str, *, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)


@dataclass(slots=True, kw_only=True)
class ExternalStatus:
    """Status of one external object or list. It never changes after its creation."""

    status: ResourceStatus
    """Ready, waiting or failed; never with a step."""
    ref: ObjectRef | None = None
    """The referenced object; for a list, the name is empty. None while the kind is not served."""
    objects: tuple[Child, ...] = ()
    is_list: bool = False
    is_awaited: bool = False
    """Whether members that are created from it are missing in the blueprint. Dependents may read these members."""

    @property
    def is_ready(self) -> bool:
        """Return whether dependents may proceed."""
        return self.status.is_ready and not self.is_awaited

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Return the state that dependents depend on: readiness, and the cached fields of the objects."""
        return (self.is_ready, *((each.uid, each.packed_fields) for each in self.objects if self.is_ready))

    @property
    def fields(self) -> Mapping[str, Any] | ObjectList | None:
        """Return the fields of the object or list for expressions. None while it is not ready."""
        if not self.status.is_ready:
            return None
        if self.is_list:
            return ObjectList(self.objects)
        return self.objects[0].fields if self.objects else {}


Required: TypeAlias = Mapping[str, ResourceStatus | CollectionStatus]
"""By the names in `requires`."""
Value: TypeAlias = Mapping[str, Any] | ObjectList | None


def find_current(children: tuple[Child, ...]) -> Child | None:
    """Return the newest object of a resource, regardless of its plan."""
    candidates = [child for child in children if child.is_identified]
    return max(candidates, key=lambda child: (not child.deleting, child.incarnation), default=None)


def find_value_name(required: str) -> str:
    """Return the name that expressions use for a requirement: `workers` for `workers[*]`."""
    return members.root_of(required) if members.is_all(required) else required


def find_value(required: ResourceStatus | CollectionStatus) -> Value:
    """Return the fields that expressions can read: of the child, or of all members' children."""
    if isinstance(required, CollectionStatus):
        return required.fields
    return find_fields(required)


def find_fields(status: ResourceStatus) -> Mapping[str, Any] | None:
    """Return the fields of the child; for finished, deleted work the fields that were kept."""
    return status.child.fields if status.child is not None else status.finished_fields


def find_children(required: ResourceStatus | CollectionStatus) -> tuple[Child, ...]:
    """Return the child, or the children of all members."""
    if isinstance(required, CollectionStatus):
        return required.children
    return (required.child,) if required.child is not None else ()


def incarnation_of(required: ResourceStatus | CollectionStatus) -> int:
    """Return the incarnation of a child, or the first before it exists. A collection always has the first."""
    child = required.child if isinstance(required, ResourceStatus) else None
    return child.incarnation if child is not None else 1
