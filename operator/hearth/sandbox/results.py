"""The results of evaluations, by Stack: as many as their bytes allow. The Stack with the most bytes is evicted first.

Knows answers and keys; nothing of processes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hearth.model import limits
from hearth.template.cel.evaluation import Answer, Excess, Value

ENTRY_BYTES = 512
"""What an answer takes besides its value."""


@dataclass(slots=True)
class Shelf:
    """The results of one Stack, the latest used last."""

    answers: OrderedDict[bytes, Answer] = field(default_factory=OrderedDict)
    size: int = 0
    """Bytes."""

    def drop_oldest(self) -> int:
        """Forget the one that was not used for longest; the bytes that it took."""
        _, answer = self.answers.popitem(last=False)
        freed = measure(answer)
        self.size -= freed
        return freed


class Results:
    """The results of all Stacks."""

    def __init__(
        self, *, most: int = limits.EVALUATION_RESULTS, most_per_stack: int = limits.EVALUATION_RESULTS_PER_STACK
    ) -> None:
        """most: bytes."""
        self._most = most
        self._most_per_stack = most_per_stack
        self._shelves: dict[str, Shelf] = {}
        self.size = 0
        """Bytes."""

    def find(self, stack: str, key: bytes) -> Answer | None:
        """Return the answer, which counts as used now."""
        shelf = self._shelves.get(stack)
        answer = shelf.answers.get(key) if shelf is not None else None
        if shelf is not None and answer is not None:
            shelf.answers.move_to_end(key)
        return answer

    def keep(self, stack: str, key: bytes, answer: Answer) -> None:
        """Keep an answer, at the expense of older ones."""
        shelf = self._shelves.setdefault(stack, Shelf())
        shelf.answers[key] = answer
        shelf.size += measure(answer)
        self.size += measure(answer)
        while shelf.size > self._most_per_stack and len(shelf.answers) > 1:
            self.size -= shelf.drop_oldest()
        while self.size > self._most:
            self.size -= max(self._shelves.values(), key=lambda each: each.size).drop_oldest()

    def forget(self, stack: str) -> None:
        """Drop all of a Stack's."""
        shelf = self._shelves.pop(stack, None)
        if shelf is not None:
            self.size -= shelf.size


def measure(answer: Answer) -> int:
    """Return the bytes that an answer takes."""
    content = answer.packed if isinstance(answer, Value) else answer.message
    return ENTRY_BYTES + (0 if isinstance(answer, Excess) else len(content))
