"""Filter that reduces a cache of Stacks to one shard and records only the existence of the other Stacks.

Stacks belong to users and have no label of Hearth. Therefore all of them are watched, and most are dropped at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from hearth.model import names, stack_tree
from hearth.model.child import Object
from hearth.model.stack_tree import Node, NodeState

if TYPE_CHECKING:
    from hearth.kube.watch.watch_context import WatchHandler
    from hearth.model.sharding import Share
    from hearth.model.stack_tree import StackTree

Name: TypeAlias = tuple[str, str]
"""Namespace and name."""


class ShardFilter:
    """A watch handler in front of another handler, which receives only its own shard."""

    def __init__(self, inner: WatchHandler, share: Share, tree: StackTree, *, kind: str = names.STACK) -> None:
        """Create the filter. tree: receives the other Stacks here; the Stacks of `inner` are added elsewhere."""
        self._kind = kind
        self._tree = tree
        self._inner = inner
        self._share = share
        self._names: dict[str, Name] = {}
        """Names by UID."""
        self._counts: Counter[Name] = Counter()
        self._shown: set[str] = set()

    def has_uid(self, uid: str) -> bool:
        """Return whether another process manages a Stack with this UID."""
        return uid in self._names

    def has_name(self, namespace: str, name: str) -> bool:
        """Return whether another process manages a Stack with this name."""
        return (namespace, name) in self._counts

    def on_list_started(self) -> None:
        """Start a new full set."""
        self._shown = set()
        self._inner.on_list_started()

    def on_object(self, raw: Object) -> None:
        """Handle an object that exists."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if self._share.has(uid):
            self._inner.on_object(raw)
            return
        self._shown.add(uid)
        parent = (metadata.get("labels") or {}).get(names.LABEL_STACK_UID, "")
        proof = stack_tree.find_proof(metadata.get("annotations") or {}, parent)
        self._tree.put(Node(uid, metadata["namespace"], metadata["name"], parent, self._kind, proof))
        if parent or self._tree.find_nested(uid):
            self._tree.states[uid] = read_state(raw)
        if uid not in self._names:
            name = (metadata["namespace"], metadata["name"])
            self._names[uid] = name
            self._counts[name] += 1

    def on_deleted(self, raw: Object) -> None:
        """Handle a deleted object."""
        uid = raw["metadata"]["uid"]
        if self._share.has(uid):
            self._inner.on_deleted(raw)
        else:
            self._drop(uid)

    def on_synced(self, version: int | None) -> None:
        """Drop the Stacks that the full set did not show."""
        for uid in self._names.keys() - self._shown:
            self._drop(uid)
        self._shown = set()
        self._inner.on_synced(version)

    def _drop(self, uid: str) -> None:
        self._shown.discard(uid)
        name = self._names.pop(uid, None)
        self._tree.states.pop(uid, None)
        if name is not None:
            self._tree.drop(uid)
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]


def read_state(raw: Object) -> NodeState:
    """Return what the status of a Stack says; whatever it does not say counts as undecided."""
    generation = raw["metadata"].get("generation", 0)
    if "deletionTimestamp" in raw["metadata"]:
        # It wants no object any more.
        return NodeState(generation, generation, 0)
    status = raw.get("status")
    found = status if isinstance(status, dict) else {}
    observed, undecided = found.get("observedGeneration"), found.get("undecided", 0)
    return NodeState(
        generation,
        observed if isinstance(observed, int) else -1,
        undecided if isinstance(undecided, int) else 1,
    )
