"""The time that expressions take in this process, by their upper bounds, so that their callers share it fairly.

CEL cannot be interrupted, and the process does nothing else during an evaluation. An expression above the limit is
therefore refused, and so is a manifest whose expressions exceed a limit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hearth.model import limits


@dataclass(slots=True)
class EvaluationTime:
    """The sum of the upper bounds of all evaluations. Small expressions do not count."""

    spent: float = 0.0
    """Microseconds."""


TIME: Final = EvaluationTime()


class TimeShare:
    """The time of the expressions that are evaluated one after the other from now on."""

    __slots__ = ("_most", "_start")

    def __init__(self, most: float) -> None:
        """most: microseconds."""
        self._most = most
        self._start = TIME.spent

    @property
    def is_used_up(self) -> bool:
        """Return whether the expressions exceeded the limit."""
        return TIME.spent - self._start > self._most


def explain_sum(what: str, next_step: str) -> str:
    """Explain that the expressions of one manifest or of all outputs take too long together."""
    most = f"at most {limits.MANIFEST_MICROSECONDS / 1000:g} ms are allowed"
    return f"the expressions of {what} may take too long together; {most}; {next_step}"
