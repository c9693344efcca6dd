"""Limits the memory that the Stacks of each namespace use: at most half of the memory that other namespaces leave.

It counts all data that grows with tenants' content: cached fields, compiled definitions and evaluated manifests.
"""

from __future__ import annotations

import weakref
from collections import Counter

from hearth.model import limits, turns

SMALL = 8 * 1024
"""Size up to which a definition, or the manifests of one Stack, are not counted: a loaded Stack takes as much anyway.
"""


class MemoryShares:
    """The shares of all namespaces."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.total = limits.KEPT_BYTES
        """The bytes that all namespaces may keep together."""
        self._held: Counter[str] = Counter()
        """By namespace."""
        self.total_held = 0
        """In bytes."""
        self._by_owner: dict[int, Counter[str]] = {}
        """Bytes by the `id` of the object that keeps them, and by namespace.

        They are released when the object is garbage-collected.
        """

    def find_room(self, namespace: str) -> int:
        """Return how many more bytes a namespace may keep."""
        held = self._held[namespace]
        return max(0, turns.find_share(held, free=self.total - self.total_held, most=self.total) - held)

    def find_held(self, owner: object) -> int:
        """Return the bytes that an object keeps."""
        return self._by_owner[id(owner)].total() if id(owner) in self._by_owner else 0

    def add(self, owner: object, namespace: str, change: int) -> None:
        """Count bytes that `owner` keeps for a namespace, or release some if `change` is negative."""
        if not change:
            return
        if id(owner) not in self._by_owner:
            self._by_owner[id(owner)] = Counter()
            weakref.finalize(owner, self._release, id(owner))
        self._by_owner[id(owner)][namespace] += change
        self._count(namespace, change)

    def keep(self, owner: object, namespace: str, size: int) -> None:
        """Set the bytes that `owner` keeps to `size`. Small sizes are not counted."""
        known = self.find_held(owner)
        if known or size > SMALL:
            self.add(owner, namespace, size - known)

    def _release(self, key: int) -> None:
        for namespace, size in self._by_owner.pop(key).items():
            self._count(namespace, -size)

    def _count(self, namespace: str, change: int) -> None:
        self.total_held += change
        self._held[namespace] += change
        if not self._held[namespace]:
            del self._held[namespace]


memory_shares = MemoryShares()
"""The shares of this process."""


def describe_excess(namespace: str) -> str:
    """Explain that a namespace has used up its share, and how its users can reduce it."""
    return (
        f"the Stacks of namespace {namespace} use their share of the operator's memory already: half of what other namespaces "
        f"leave of {memory_shares.total // 2**20} MiB"
    )
