"""Which Stack is nested in which, of all Stacks that the process knows of, those of other processes included.

A plain index, kept by the cache of Stacks; must not know what a Stack wants, nor how deep nesting may go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """One Stack."""

    uid: str
    namespace: str
    name: str
    parent: str
    """The UID of the Stack that its label calls its parent; "" for none."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class StackTree:
    """Stacks by their UIDs, and by those of their parents."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes whenever a Stack comes, goes or gets another parent."""
        self._nodes: dict[str, Node] = {}
        self._nested: dict[str, set[str]] = {}
        self._names: dict[str, dict[str, str]] = {}
        """By namespace and name the UID of the Stack that came last."""
        self._ordered: dict[str, list[str]] = {}
        """By namespace the names in order, as far as somebody has asked for them since they changed."""

    def put(self, node: Node) -> None:
        """The Stack is there."""
        known = self._nodes.get(node.uid)
        if known == node:
            return
        if known is not None:
            self.drop(node.uid)
        self.generation += 1
        self._nodes[node.uid] = node
        self._names.setdefault(node.namespace, {})[node.name] = node.uid
        self._ordered.pop(node.namespace, None)
        if node.parent:
            self._nested.setdefault(node.parent, set()).add(node.uid)

    def drop(self, uid: str) -> None:
        """The Stack is gone. What is nested in it keeps naming it, in case it is only missing from a list."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        self.generation += 1
        self._drop_name(node)
        siblings = self._nested.get(node.parent)
        if siblings is not None:
            siblings.discard(uid)
            if not siblings:
                del self._nested[node.parent]

    def find_uid(self, namespace: str, name: str) -> str:
        """Of the Stack of that name; "" where there is none."""
        return self._names.get(namespace, {}).get(name, "")

    def list_uids(self, namespace: str) -> Collection[str]:
        """Of all Stacks of a namespace."""
        return self._names.get(namespace, {}).values()

    def list_names(self, namespace: str) -> list[str]:
        """The same by name, in order."""
        if namespace not in self._names:
            return []
        if namespace not in self._ordered:
            self._ordered[namespace] = sorted(self._names[namespace])
        return self._ordered[namespace]

    def find(self, uid: str) -> Node | None:
        """The Stack, None where there is none."""
        return self._nodes.get(uid)

    def find_nested(self, uid: str) -> Collection[str]:
        """The UIDs of the Stacks whose label calls this one their parent."""
        return self._nested.get(uid, ())

    def climb(self, uid: str, *, most: int) -> Iterator[Node]:
        """The Stack and those that it is nested in, the innermost first; no more than so many, since labels may form a cycle."""
        node = self._nodes.get(uid)
        while node is not None and most > 0:
            yield node
            most -= 1
            node = self._nodes.get(node.parent) if node.parent else None

    def _drop_name(self, node: Node) -> None:
        # The next Stack of that name may have been seen before the end of this one.
        by_name = self._names[node.namespace]
        if by_name.get(node.name) == node.uid:
            self._ordered.pop(node.namespace, None)
            del by_name[node.name]
            if not by_name:
                del self._names[node.namespace]
