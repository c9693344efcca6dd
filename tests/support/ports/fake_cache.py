"""The children that one engine knows: a watch per followed kind, fed by events and by its own writes.

Replaces the watch caches in `hearth.kube`. Each engine begins with an empty cache.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.engine.ports import CacheListener
from hearth.model import child as children
from hearth.model import names
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share
from hearth.model.signatures import Signatures
from support.ports.fake_connection import FakeWire
from support.server import fake_kinds

Place: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def place(kind: Kind, raw: Object) -> Place:
    """The place of an object."""
    return kind.group, kind.name, raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def version(raw: Object) -> int:
    """The object's resourceVersion."""
    return int(raw["metadata"]["resourceVersion"])


def is_same(old: Child, new: Child) -> bool:
    """Whether no field that is read differs."""
    return (
        old.uid == new.uid
        and old.fields == new.fields
        and old.deleting == new.deleting
        and old.finalizers == new.finalizers
        and old.ownership == new.ownership
    )


def is_labelled(raw: Object | None, share: Share) -> bool:
    """Whether a watch for that share selects the object."""
    labels = (raw or {}).get("metadata", {}).get("labels") or {}
    if names.LABEL_STACK_UID not in labels:
        return False
    return share.has_all_buckets or labels.get(names.LABEL_BUCKET) in list_labels(share)


@functools.lru_cache(maxsize=256)
def list_labels(share: Share) -> frozenset[str]:
    """The values of the bucket label that a watch for that share selects."""
    return frozenset(str(bucket) for bucket in share.list_buckets())


ASK_AGAIN = 20.0
"""Seconds until a denied watch is requested again."""


@dataclass(slots=True)
class Following:
    """One kind that is watched."""

    kind: Kind
    paths: set[Path] = field(default_factory=set)
    is_listed: bool = False
    """Whether the initial list of the watch has been sent."""
    is_synced: bool = False
    """Whether the initial list has arrived."""
    is_denied: bool = False
    """Whether the operator is not allowed to watch the kind."""


class FakeCache:
    """The children, by the Stack and the resource that their labels name."""

    def __init__(
        self, wire: FakeWire, listener: CacheListener, *, signatures: Signatures | None = None, share: Share = WHOLE
    ) -> None:
        self._share = share
        self._signatures = signatures
        self._wire = wire
        self._server = wire.server
        self._listener = listener
        self._following: dict[tuple[str, str], Following] = {}
        self._known: dict[Place, tuple[Object, Child]] = {}
        self._children: dict[str, dict[str, dict[Place, Child]]] = {}
        self._gone: dict[str, int] = {}
        wire.receive(self._take)

    # ------------------------------------------------------------ events

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        if kind == fake_kinds.CUSTOM_RESOURCE_DEFINITION.kind:
            self._take_definition()
        following = self._following.get((kind.group, kind.name))
        if following is None or not following.is_synced:
            return
        if after is not None and is_labelled(after, self._share):
            self.put(kind, after)
        elif is_labelled(before, self._share) and before is not None:
            self._drop(kind, after if after is not None else before)

    def _take_definition(self) -> None:
        """Handle an added or removed kind: its watches can begin, or end."""
        for following in self._following.values():
            if self._server.kinds.find_served(following.kind) is None:
                following.is_listed = following.is_synced = False
            elif not following.is_listed:
                self._list(following)
        self._listener.on_kinds()

    # ------------------------------------------------------------ children

    def follow(self, kind: Kind, paths: Collection[Path]) -> bool:
        """As the port says."""
        following = self._following.setdefault((kind.group, kind.name), Following(kind=kind))
        if not following.paths.issuperset(paths):
            following.paths.update(paths)
            following.is_listed = following.is_synced = False
        if not following.is_listed:
            self._list(following)
        return following.is_synced

    def _list(self, following: Following) -> None:
        """Request the initial list of a watch; it arrives after earlier events."""
        if self._server.kinds.find_served(following.kind) is None:
            return
        following.is_listed = True
        if following.kind.name in self._wire.traffic.unanswered:
            return
        if ("list", following.kind.name) in self._wire.traffic.denied:
            self._wire.enqueue(lambda: self._deny(following))
            return
        self._wire.call_later(2 * self._wire.latency, lambda: self._send_list(following))

    def _deny(self, following: Following) -> None:
        """Handle a refused list; the watch retries at intervals."""
        if not following.is_denied:
            following.is_denied = True
            self._listener.on_synced(following.kind)
        self._wire.call_later(ASK_AGAIN, lambda: self._list(following))

    def find_denial(self, kind: Kind) -> str:
        """As the port says."""
        following = self._following.get((kind.group, kind.name))
        if following is None or not following.is_denied:
            return ""
        return f'{kind.plural} is forbidden: User "hearth" cannot list resource "{kind.plural}"'

    def _send_list(self, following: Following) -> None:
        if self._server.kinds.find_served(following.kind) is None:
            following.is_listed = False
            return
        found = [raw for raw in self._server.list_all(following.kind) if is_labelled(raw, self._share)]
        as_of = self._server.version
        self._wire.enqueue(lambda: self._take_list(following, found, as_of))

    def _take_list(self, following: Following, found: list[Object], as_of: int) -> None:
        """Take a new list: objects that are missing were deleted; known objects may gain fields."""
        kind = following.kind
        listed = {place(kind, raw): raw for raw in found}
        following.is_synced, following.is_denied = True, False
        for where, (raw, known) in list(self._known.items()):
            if known.kind != kind:
                continue
            if where not in listed and known.resource_version <= as_of:
                self._drop(kind, raw)
            else:
                self._widen(kind, where, raw, known)
        for raw in found:
            self.put(kind, raw)
        self._listener.on_synced(kind)

    def _widen(self, kind: Kind, where: Place, raw: Object, known: Child) -> None:
        """Extend a known object to all fields that are requested now."""
        parsed = self._parse(kind, raw)
        self._known[where] = (raw, parsed)
        if parsed.stack_uid:
            self._children[parsed.stack_uid][parsed.index_key][where] = parsed
        if not is_same(known, parsed):
            self._tell(parsed)

    def put(self, kind: Kind, raw: Object, *, is_ours: bool = False) -> Child:
        """Store an object unless a newer state is known; return its slim view. Hearth's own writes are not reported."""
        where, uid = place(kind, raw), raw["metadata"]["uid"]
        parsed = self._parse(kind, raw)
        known = self._known.get(where)
        old = known[1] if known is not None else None
        if self._gone.get(uid, 0) >= parsed.resource_version:
            return parsed
        if old is not None and old.resource_version >= parsed.resource_version:
            return parsed
        if old is not None:
            self._remove(where, old)
        self._known[where] = (raw, parsed)
        if parsed.stack_uid:
            self._children.setdefault(parsed.stack_uid, {}).setdefault(parsed.index_key, {})[where] = parsed
        if not is_ours and not (old is not None and is_same(old, parsed)):
            self._tell(old, parsed)
        elif old is not None and parsed.stack_uid not in ("", old.stack_uid):
            # The Stack that had the object before did not write it.
            self._listener.on_child(old.stack_uid, old.resource)
        return parsed

    def forget(self, child: Child) -> None:
        """Forget an object after our own deletion, even if late events show it again."""
        where = (child.kind.group, child.kind.name, child.namespace, child.name)
        self._gone[child.uid] = sys.maxsize
        known = self._known.get(where)
        if known is not None and known[1].uid == child.uid:
            del self._known[where]
            self._remove(where, known[1])

    def take_list(self, found: list[Object], *, kind: Kind, stack_uid: str, as_of: int) -> None:
        """Take a requested list of one Stack's objects: missing ones were deleted; no listener is notified."""
        if (kind.group, kind.name) not in self._following:
            return
        shown = {raw["metadata"]["uid"] for raw in found}
        siblings = [pair for each in self._children.get(stack_uid, {}).values() for pair in each.items()]
        for where, known in siblings:
            is_meant = (known.kind.group, known.kind.name) == (kind.group, kind.name)
            if is_meant and known.uid not in shown and known.resource_version <= as_of:
                del self._known[where]
                self._gone[known.uid] = as_of
                self._remove(where, known)
        for raw in found:
            self.put(kind, raw, is_ours=True)

    def _parse(self, kind: Kind, raw: Object) -> Child:
        """The slim view; where only metadata is read, the watch shows no more."""
        following = self._following.get((kind.group, kind.name))
        paths = following.paths if following is not None else ()
        shown = raw if paths else {"metadata": raw["metadata"]}
        known = self._known.get(place(kind, raw))
        earlier = known[1] if known is not None and known[1].uid == raw["metadata"]["uid"] else None
        return children.parse_child(shown, kind=kind, paths=paths, signatures=self._signatures, known=earlier)

    def _drop(self, kind: Kind, raw: Object) -> None:
        """Drop an object that was deleted or lost the label."""
        where, uid = place(kind, raw), raw["metadata"]["uid"]
        self._gone[uid] = max(self._gone.get(uid, 0), version(raw))
        known = self._known.get(where)
        if known is None or known[1].uid != uid or known[1].resource_version > version(raw):
            return
        del self._known[where]
        self._remove(where, known[1])
        self._tell(known[1])

    def _remove(self, where: Place, child: Child) -> None:
        by_resource = self._children.get(child.stack_uid, {})
        siblings = by_resource.get(child.index_key, {})
        siblings.pop(where, None)
        if not siblings:
            by_resource.pop(child.index_key, None)

    def _tell(self, *changed: Child | None) -> None:
        for stack_uid, resource in {(each.stack_uid, each.resource) for each in changed if each is not None}:
            self._listener.on_child(stack_uid, resource)

    def children(self, stack_uid: str) -> Mapping[str, tuple[Child, ...]]:
        """As the port says."""
        return {name: tuple(found.values()) for name, found in self._children.get(stack_uid, {}).items()}

    def children_of(self, stack_uid: str, resource: str) -> tuple[Child, ...]:
        """As the port says."""
        return tuple(self._children.get(stack_uid, {}).get(resource, {}).values())
