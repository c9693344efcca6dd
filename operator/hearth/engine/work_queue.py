"""Who is to be looked at: every trigger ends here, as a name and nothing else. A lost or doubled one changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.retry.retry_triggers import RetryTrigger

ALL_RESOURCES = "*"
"""Not a resource name: all resources of the Stack."""
STACK_SELF = "@stack"
"""Not a resource name: the Stack object itself, or something that its definition is read from."""
EVALUATED = "@evaluated"
"""Not a resource name: whichever resources wait for an evaluation."""
KINDS = "kinds"
"""What is broadcast when the set of served kinds changed."""


class WorkQueue:
    """The Listener that the caches call; hands out Stacks in the order in which they were first marked."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Nobody is marked. now: seconds that never jump."""
        self._now = now
        self._marks: dict[str, set[str]] = {}
        self._since: dict[str, float] = {}
        self._arrived = asyncio.Event()
        self._broadcasts: set[object] = set()
        self._health_marks: set[str] = set()

    def __len__(self) -> int:
        """How many Stacks wait for a pass."""
        return len(self._marks)

    def enqueue(self, stack_uid: str, what: str) -> None:
        """Have that Stack looked at, at least as to `what`."""
        marks = self._marks.get(stack_uid)
        if marks is None:
            self._marks[stack_uid] = {what}
            self._since[stack_uid] = self._now()
            self._arrived.set()
        else:
            marks.add(what)

    def on_child(self, stack_uid: str, resource: str) -> None:
        """A child with these labels came, changed or went."""
        self.enqueue(stack_uid, resource)

    def on_stack(self, uid: str) -> None:
        """A Stack came, changed or went."""
        self.enqueue(uid, STACK_SELF)

    def on_kinds(self) -> None:
        """The set of served kinds changed: whoever waits for one is told."""
        self._broadcast(KINDS)

    def on_synced(self, kind: Kind) -> None:
        """A cache holds what was asked of it: whoever waits for it is told."""
        self._broadcast(kind)

    def on_rules(self, change: RuleChange) -> None:
        """Objects of some kinds are judged otherwise since: whoever has any is told."""
        self._broadcast(change)

    def on_source(self, ref: ObjectRef) -> None:
        """A source of definitions changed: whoever reads it is told."""
        self._broadcast(ref)

    def on_retry_trigger(self, cause: RetryTrigger) -> None:
        """Something that refusals hang on changed: whoever was refused for it is told."""
        self._broadcast(cause)

    def on_health_mark(self, uid: str) -> None:
        """A HealthMark came, changed or went."""
        self._health_marks.add(uid)
        self._arrived.set()

    def take_health_marks(self) -> set[str]:
        """The UIDs of the HealthMarks that came, changed or went since the last call."""
        taken, self._health_marks = self._health_marks, set()
        return taken

    def _broadcast(self, what: object) -> None:
        self._broadcasts.add(what)
        self._arrived.set()

    def take_broadcasts(self) -> set[object]:
        """What happened that no single Stack is named by, since the last call."""
        taken, self._broadcasts = self._broadcasts, set()
        return taken

    def get(self) -> tuple[str, set[str], float] | None:
        """The Stack that waits longest, what was marked of it, and when that began; None where nobody waits."""
        uid = next(iter(self._marks), None)
        if uid is None:
            if not self._broadcasts and not self._health_marks:
                self._arrived.clear()
            return None
        return uid, self._marks.pop(uid), self._since.pop(uid)

    async def wait(self) -> None:
        """Returns once somebody is marked, or something was broadcast."""
        await self._arrived.wait()
