"""Limit on StackSnapshots per Stack. Must not know the content of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.engine.snapshot_ports import StackSnapshotObject
from hearth.model import limits
from hearth.plan.snapshot_decision import SnapshotProblem

StackKey: TypeAlias = tuple[str, str]
"""Namespace and name of a Stack."""


@dataclass(slots=True)
class SnapshotSlots:
    """The admitted snapshots, in the order in which they were seen."""

    on_limit: Callable[[str], None]
    _admitted: dict[StackKey, set[str]] = field(default_factory=dict)
    _refused: dict[StackKey, dict[str, None]] = field(default_factory=dict)
    _stacks: dict[str, StackKey] = field(default_factory=dict)
    """By UID of the snapshot."""

    def admit(self, snapshot: StackSnapshotObject, *, is_bound: bool) -> bool:
        """Return whether the snapshot is admitted. A bound one always is: it pins a revision already."""
        key = self._stacks.setdefault(snapshot.uid, (snapshot.namespace, snapshot.stack_name))
        admitted = self._admitted.setdefault(key, set())
        if not is_bound and snapshot.uid not in admitted and len(admitted) >= limits.SNAPSHOTS_PER_STACK:
            refused = self._refused.setdefault(key, {})
            if snapshot.uid not in refused:
                refused[snapshot.uid] = None
                self.on_limit("stack-snapshots")
            return False
        admitted.add(snapshot.uid)
        self._refused.get(key, {}).pop(snapshot.uid, None)
        return True

    def release(self, uid: str) -> str | None:
        """Release the slot of a deleted snapshot; return the UID of one that may use it."""
        key = self._stacks.pop(uid, None)
        if key is None:
            return None
        admitted, refused = self._admitted.get(key, set()), self._refused.get(key, {})
        admitted.discard(uid)
        refused.pop(uid, None)
        if not admitted:
            self._admitted.pop(key, None)
        if not refused:
            self._refused.pop(key, None)
            return None
        return next(iter(refused)) if len(admitted) < limits.SNAPSHOTS_PER_STACK else None


def explain(stack: str) -> SnapshotProblem:
    """Explain why a snapshot is not admitted."""
    message = (
        f"Stack {stack} has {limits.SNAPSHOTS_PER_STACK} StackSnapshots, which is the limit; this one is taken when "
        f"there is room: delete unneeded ones"
    )
    return SnapshotProblem(reason="TooManySnapshots", message=message)
