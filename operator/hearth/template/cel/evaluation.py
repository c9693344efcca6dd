"""The port for evaluations that may take long, which bounds their resources, and its answers.

Must not know how the bound is enforced. Without such a port, an expression that may exceed the limits is not evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol, TypeAlias

from hearth.model import limits, value_class
from hearth.template.cel.cost import Cost


@value_class.dataclass(frozen=True, slots=True)
class Value:
    """The value of the expression."""

    packed: bytes = field(repr=False)
    """The value as JSON."""


@value_class.dataclass(frozen=True, slots=True)
class Failure:
    """An error that CEL reported."""

    message: str = field(repr=False)


@value_class.dataclass(frozen=True, slots=True)
class Unwritable:
    """A value that JSON cannot represent."""

    message: str = field(repr=False)


@value_class.dataclass(frozen=True, slots=True)
class Excess:
    """A limit that the expression exceeds; the message names the limit and shows no value."""

    message: str


class Unevaluated(Exception):
    """The work needs expressions whose evaluation is not complete: start it again afterwards."""


Answer: TypeAlias = Value | Failure | Unwritable | Excess


class Evaluator(Protocol):
    """Evaluates expressions that may exceed the limits of the operator's own process."""

    def admits(self, cost: Cost) -> bool:
        """Return whether the caller may evaluate an expression of that cost itself, now."""

    def ask(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """Request the answer for the expression on that data.

        Returns None if it is not available yet; the evaluator then notifies the caller when to ask again.
        """


class ScriptEvaluator(Protocol):
    """Runs health scripts of users, in a process with limits."""

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """Request the verdict of a script on an object, a list of status and message or null.

        Returns None if it is not available yet; the evaluator then notifies the caller when to ask again.
        """


class Alone:
    """The evaluator if only the caller's own process exists."""

    def admits(self, cost: Cost) -> bool:
        """Return whether the cost is within the limits of one expression."""
        return is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any]) -> Answer | None:  # noqa: ARG002 -- the port requires it
        """Reject the evaluation."""
        return Excess("may take more time or memory than is allowed here")

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:  # noqa: ARG002 -- the port requires it
        """Reject the script."""
        return Excess("cannot be run here")


ALONE: Final = Alone()


def is_small(cost: Cost) -> bool:
    """Return whether an expression of that cost can be evaluated between other work."""
    return cost.time <= limits.EVALUATION_MICROSECONDS and cost.memory <= limits.EVALUATION_BYTES
