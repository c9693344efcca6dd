"""Where an expression is evaluated that may take long: the port to whatever can bound it, and what that answers.

Must not know how the bound is kept. Without such a port an expression that may exceed the limits is not evaluated at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from hearth.model import limits
from hearth.template.cel.cost import Cost


@dataclass(frozen=True, slots=True)
class Value:
    """The expression has its value."""

    packed: bytes = field(repr=False)
    """As JSON."""


@dataclass(frozen=True, slots=True)
class Failure:
    """CEL says that it fails."""

    message: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unwritable:
    """It has a value that JSON has no form for."""

    message: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Excess:
    """It exceeds a limit; the message says which, and shows no value."""

    message: str


Answer: TypeAlias = Value | Failure | Unwritable | Excess


class Evaluator(Protocol):
    """Evaluates expressions that may exceed the limits of the operator's own process."""

    def admits(self, cost: Cost) -> bool:
        """Whether an expression of that cost may be evaluated by the caller, here and now."""

    def ask(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """The answer for the expression on that data; None: it is not there yet, and the caller is told when to ask again."""


class Alone:
    """The evaluator where there is nothing but the caller's own process."""

    def admits(self, cost: Cost) -> bool:
        """Whether it keeps the limits of one expression."""
        return is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any]) -> Answer | None:  # noqa: ARG002 -- as the port says
        """Never evaluated."""
        return Excess("may take more time or memory than it is allowed here")


ALONE: Final = Alone()


def is_small(cost: Cost) -> bool:
    """Whether an expression of that cost can be evaluated between other work."""
    return cost.time <= limits.EVALUATION_MICROSECONDS and cost.memory <= limits.EVALUATION_BYTES
