"""`StackTree`, the nesting of all Stacks that the process knows, including Stacks of other processes.

The cache of Stacks updates this index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from hearth.model import limits, names, value_class


@value_class.dataclass(frozen=True, slots=True)
class Node:
    """One Stack."""

    uid: str
    namespace: str
    name: str
    parent: str
    """The UID of the Stack that its label names as its parent; "" for none."""
    kind: str = names.STACK
    """`Stack` or `ResourceGroup`. A Stack and a ResourceGroup may have the same name."""
    signature: str = ""
    """The proof that it is a child of its parent; "" for none. Untrusted: any user may have written it."""
    offer: str = ""
    """The parent's statement that it no longer needs this Stack; "" for none. Untrusted: any user may have written
    it."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@value_class.dataclass(frozen=True, slots=True)
class NodeState:
    """The status of a Stack that another process serves. A status that a user wrote is ignored."""

    generation: int
    observed: int
    """The generation that the status describes."""
    undecided: int
    """The resources whose objects are not known yet."""


def find_proof(annotations: Mapping[str, str], parent: str) -> str:
    """Return the signature of a nested Stack, or "". A text that is longer than any signature of Hearth is ignored."""
    text = annotations.get(names.ANNOTATION_SIGNATURE, "") if parent else ""
    return text if len(text) <= limits.SIGNATURE_LENGTH else ""


def find_offer(annotations: Mapping[str, str], parent: str) -> str:
    """Return the offer of a nested Stack by its parent, or ""."""
    text = annotations.get(names.ANNOTATION_OFFERED, "") if parent else ""
    return text if len(text) <= limits.SIGNATURE_LENGTH else ""


class StackTree:
    """Stacks by their UIDs and by the UIDs of their parents."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes whenever a Stack appears, disappears or gets another parent."""
        self._nodes: dict[str, Node] = {}
        self.states: dict[str, NodeState] = {}
        """By UID, the states of Stacks that other processes serve."""
        self._nested: dict[str, set[str]] = {}
        self._names: dict[str, dict[tuple[str, str], str]] = {}
        """By namespace, then kind and name, the UID of the most recent Stack."""
        self._ordered: dict[tuple[str, str], list[str]] = {}
        """By namespace and kind, the names in order. Computed on demand after a change."""

    def put(self, node: Node) -> None:
        """Add or update the Stack."""
        known = self._nodes.get(node.uid)
        if known == node:
            return
        if known is not None:
            self.drop(node.uid)
        self.generation += 1
        self._nodes[node.uid] = node
        self._names.setdefault(node.namespace, {})[node.kind, node.name] = node.uid
        self._ordered.pop((node.namespace, node.kind), None)
        if node.parent:
            self._nested.setdefault(node.parent, set()).add(node.uid)

    def drop(self, uid: str) -> None:
        """Remove the Stack. Nested Stacks still name it, in case it is only missing from a list."""
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

    def find_uid(self, namespace: str, name: str, *, kind: str = names.STACK) -> str:
        """Return the UID of the Stack with that name, or "" if it does not exist."""
        return self._names.get(namespace, {}).get((kind, name), "")

    def list_uids(self, namespace: str) -> Collection[str]:
        """Return the UIDs of all Stacks of a namespace."""
        return self._names.get(namespace, {}).values()

    def list_names(self, namespace: str, *, kind: str = names.STACK) -> list[str]:
        """Return the names of all objects of a kind in a namespace, in order."""
        if namespace not in self._names:
            return []
        if (namespace, kind) not in self._ordered:
            found = sorted(name for each, name in self._names[namespace] if each == kind)
            self._ordered[namespace, kind] = found
        return self._ordered[namespace, kind]

    def find(self, uid: str) -> Node | None:
        """Find the Stack, or None if it does not exist."""
        return self._nodes.get(uid)

    def find_nested(self, uid: str) -> Collection[str]:
        """Return the UIDs of the Stacks whose label names this one as their parent."""
        return self._nested.get(uid, ())

    def climb(self, uid: str, *, most: int) -> Iterator[Node]:
        """Return the Stack and its ancestors, the innermost first; at most `most`, since labels may form a cycle."""
        node = self._nodes.get(uid)
        while node is not None and most > 0:
            yield node
            most -= 1
            node = self._nodes.get(node.parent) if node.parent else None

    def find_all(self, uid: str, is_proven: Callable[[Node], bool]) -> dict[str, Node]:
        """Return the tree of the Stack: its outermost ancestor and all nested Stacks of it, by UID.

        is_proven: returns whether a Stack really is a child of the Stack that its label names. Unproven Stacks are the
        root of their own tree.
        """
        root, seen = self._nodes.get(uid), {uid}
        while root is not None and root.parent in self._nodes and root.parent not in seen and is_proven(root):
            seen.add(root.parent)
            root = self._nodes[root.parent]
        found = {root.uid: root} if root is not None else {}
        waiting = list(found)
        while waiting:
            for nested in self._nested.get(waiting.pop(), ()):
                node = self._nodes.get(nested)
                if node is not None and nested not in found and is_proven(node):
                    found[nested] = node
                    waiting.append(nested)
        return found

    def find_circle(self, uid: str) -> tuple[Node, ...]:
        """Return the Stack and its ancestors, the innermost first, if it is its own ancestor; otherwise an empty
        result.
        """
        way: dict[str, Node] = {}
        for node in self.climb(uid, most=len(self._nodes) + 1):
            if node.uid in way:
                return tuple(way.values()) if node.uid == uid else ()
            way[node.uid] = node
        return ()

    def _drop_name(self, node: Node) -> None:
        # The next Stack with that name may have been seen before the deletion of this one.
        by_name = self._names[node.namespace]
        if by_name.get((node.kind, node.name)) == node.uid:
            self._ordered.pop((node.namespace, node.kind), None)
            del by_name[node.kind, node.name]
            if not by_name:
                del self._names[node.namespace]
