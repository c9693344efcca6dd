"""Restricts a cache of Stacks to one shard, and records only the existence of all other Stacks.

Users create Stacks without a label of Hearth, so a selector cannot restrict the watch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import orjson

from hearth.engine import cluster_objects
from hearth.engine.cluster_objects import StackObject
from hearth.model import instance_fields, names, stack_tree
from hearth.model.child import Object
from hearth.model.sharding import Place
from hearth.model.stack_tree import Node, NodeState

if TYPE_CHECKING:
    from hearth.kube.watch.reflector import WatchHandler
    from hearth.model.sharding import Share
    from hearth.model.stack_tree import StackTree

Name: TypeAlias = tuple[str, str]
"""Namespace and name."""


class ShardFilter:
    """A watch handler in front of another handler, which receives only its own share."""

    def __init__(
        self,
        inner: WatchHandler,
        share: Share,
        tree: StackTree,
        *,
        kind: str = names.STACK,
        on_elsewhere: Callable[[], None] = lambda: None,
        on_other: Callable[[str, Object | None], None] = lambda _uid, _raw: None,
    ) -> None:
        """Create the filter.

        tree: receives the other Stacks here; the Stacks of `inner` are added elsewhere. on_elsewhere: called for each
        Stack of this shard that another process serves because its objects are in another cluster; on_other: gets each
        state of a Stack of another process, None once it is deleted or this process has it.
        """
        self._on_other = on_other
        self._kind = kind
        self._on_elsewhere = on_elsewhere
        self._tree = tree
        self._inner = inner
        self._share = share
        self._names: dict[str, Name] = {}
        """Names by UID."""
        self._counts: Counter[Name] = Counter()
        self._shown: set[str] = set()
        self.elsewhere: set[str] = set()
        """UIDs of the Stacks of this shard whose objects are in another cluster and which another process serves."""

    def has_uid(self, uid: str) -> bool:
        """Return whether another process manages a Stack with this UID."""
        return uid in self._names

    def has_name(self, namespace: str, name: str) -> bool:
        """Return whether another process manages a Stack with this name."""
        return (namespace, name) in self._counts

    def is_own(self, raw: Object) -> bool:
        """Return whether the share contains a Stack."""
        return self._share.has_stack(raw["metadata"]["uid"], is_remote=self._is_remote(raw))

    def _is_remote(self, raw: Object) -> bool:
        return is_remote(raw, is_instance=self._kind not in names.STACK_KINDS)

    def _has_same_place(self, raw: Object) -> bool:
        """Return whether the objects of a Stack may be in the cluster that this process serves."""
        other = Place.HERE if self._is_remote(raw) else Place.ELSEWHERE
        return self._share.place is not other

    def on_list_started(self) -> None:
        """Start a new full set."""
        self._shown = set()
        self._inner.on_list_started()

    def on_object(self, raw: Object) -> None:
        """Handle an object that exists."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if self.is_own(raw):
            if uid in self._names:
                self._drop(uid)
            self._inner.on_object(raw)
            return
        # An edit of `spec.kubeConfig` can move a Stack to another process.
        self._inner.on_deleted(raw)
        self._shown.add(uid)
        if self._share.has_bucket(uid) and self._is_remote(raw):
            self.elsewhere.add(uid)
            self._on_elsewhere()
        parent = (metadata.get("labels") or {}).get(names.LABEL_STACK_UID, "")
        annotations = metadata.get("annotations") or {}
        proof, offer = stack_tree.find_proof(annotations, parent), stack_tree.find_offer(annotations, parent)
        self._tree.put(Node(uid, metadata["namespace"], metadata["name"], parent, self._kind, proof, offer))
        if parent or self._tree.find_nested(uid):
            self._tree.states[uid] = read_state(raw, wants_any=self._has_same_place(raw))
        if uid not in self._names:
            name = (metadata["namespace"], metadata["name"])
            self._names[uid] = name
            self._counts[name] += 1
        self._on_other(uid, raw)

    def on_deleted(self, raw: Object) -> None:
        """Handle a deleted object."""
        self._inner.on_deleted(raw)
        self._drop(raw["metadata"]["uid"])

    def on_synced(self, version: int | None) -> None:
        """Drop the Stacks that the full set did not show."""
        for uid in self._names.keys() - self._shown:
            self._drop(uid)
        self._shown = set()
        self._inner.on_synced(version)

    def _drop(self, uid: str) -> None:
        self._shown.discard(uid)
        self.elsewhere.discard(uid)
        name = self._names.pop(uid, None)
        self._tree.states.pop(uid, None)
        if name is not None:
            self._on_other(uid, None)
            self._tree.drop(uid)
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]


def is_remote(raw: Object, *, is_instance: bool = False) -> bool:
    """Return whether the objects of a Stack are in another cluster. Its spec may be the record that has it."""
    spec = raw.get("spec")
    if isinstance(spec, StackObject):
        if not is_instance:
            return spec.kubeconfig is not None
        spec = orjson.loads(spec.packed_stated)
    if is_instance and isinstance(spec, dict):
        # Ignore whether its revision allows the option, because all processes must agree on which one serves the
        # instance.
        spec = spec.get(instance_fields.OPTIONS)
    return cluster_objects.find_kubeconfig(spec) is not None


def read_state(raw: Object, *, wants_any: bool = True) -> NodeState:
    """Return the status of a Stack; everything that it does not contain counts as undecided.

    wants_any: whether it may want an object of the Stacks that this process serves.
    """
    generation = raw["metadata"].get("generation", 0)
    if not wants_any or "deletionTimestamp" in raw["metadata"]:
        return NodeState(generation, generation, 0)
    status = raw.get("status")
    found = status if isinstance(status, dict) else {}
    observed, undecided = found.get("observedGeneration"), found.get("undecided", 0)
    return NodeState(
        generation, observed if isinstance(observed, int) else -1, undecided if isinstance(undecided, int) else 1
    )
