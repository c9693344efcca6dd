"""`Evaluator`, the port for evaluations that may exceed the limits of this process, and the types of its answers.

`hearth.sandbox` implements it. Without an implementation, these expressions are not evaluated.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol, TypeAlias

import orjson

from hearth.model import limits, object_list, value_class
from hearth.model.child import Path
from hearth.model.object_list import ObjectList
from hearth.template.cel import value_sizes
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
class Absent:
    """An expression that failed because values are missing."""

    missing: tuple[str, ...]


@value_class.dataclass(frozen=True, slots=True)
class Unwritable:
    """A value that JSON cannot represent."""

    message: str = field(repr=False)


@value_class.dataclass(frozen=True, slots=True)
class Excess:
    """A limit that the expression exceeds; the message names the limit and shows no value."""

    message: str


class Unevaluated(Exception):
    """Expressions that the work needs are still being evaluated. Start the work again afterwards."""


Answer: TypeAlias = Value | Failure | Absent | Unwritable | Excess


@value_class.dataclass(frozen=True, slots=True)
class PackedInput:
    """A list of objects that the evaluator unpacks itself, because that takes long."""

    objects: ObjectList = field(repr=False)
    paths: frozenset[Path]
    """The paths that the expression reads below each input."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PackedInputs:
    """The inputs of an expression that reads packed lists."""

    data: Mapping[str, Any] = field(repr=False)
    """The other inputs."""
    lists: Mapping[str, PackedInput]
    names: tuple[str, ...]
    """Inputs that are objects. The others are constants, which are always available."""

    @property
    def size(self) -> int:
        """Return the bytes of the packed objects."""
        return sum(each.objects.size for each in self.lists.values())

    def explain_excess(self) -> str:
        """Explain that the lists are too large to be read by one expression."""
        found = f"{', '.join(self.lists)}, {self.size / 2**20:.1f} MiB of objects"
        most = f"at most {limits.LIST_READ_BYTES // 2**20} MiB of lists can be read at once"
        return f"reads {found}; {most}, with all fields that Stacks read: read fewer fields, or make the list shorter"

    def identify(self) -> bytes:
        """Return bytes that are equal for equal inputs. Raises TypeError if JSON cannot represent the inputs."""
        return b"\n".join((self._write_head(), *(each.objects.identify() for each in self.lists.values())))

    def write(self) -> bytes:
        """Write them as one line for all, and one for each object. Raises TypeError if JSON cannot represent them."""
        return b"\n".join((self._write_head(), *(row for each in self.lists.values() for row in each.objects.write())))

    def _write_head(self) -> bytes:
        heads = {name: [len(each.objects), sorted(each.paths)] for name, each in self.lists.items()}
        return orjson.dumps([self.data, heads, self.names])


def read_inputs(packed: bytes) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the inputs that `PackedInputs.write` wrote, reduced to the fields that are read, and the names of the
    objects among them.
    """
    stream = io.BytesIO(packed)
    data, heads, names = orjson.loads(stream.readline())
    for name, (count, paths) in heads.items():
        reads = [tuple(path) for path in paths]
        data[name] = [value_sizes.narrow(object_list.read(stream.readline()), reads) for _ in range(count)]
    return data, tuple(names)


class TurnTime(Protocol):
    """The time that one Stack may take in one iteration of the event loop."""

    def begin_work(self, resource: str = "") -> float | None:
        """Return the time, for `end_work`, or None if the Stack has no time left in this turn.

        resource: assesses an object of this resource. The first one of a turn always has time, so that every Stack
        proceeds.
        """

    def end_work(self, began: float) -> None:
        """Count the time since then, unless it was ordinary."""

    def put_off(self) -> None:
        """Let the Stack ask again in its next turn."""


class Untimed:
    """Turns without a limit, for work that delays no other Stack."""

    def begin_work(self, resource: str = "") -> float | None:  # noqa: ARG002 -- a port
        """Return any time: it is not counted."""
        return 0.0

    def end_work(self, began: float) -> None:
        """Count nothing."""

    def put_off(self) -> None:
        """Do nothing: nothing is ever put off."""


class Evaluator(TurnTime, Protocol):
    """Evaluates expressions that may exceed the limits of the operator's own process."""

    def admits(self, cost: Cost) -> bool:
        """Return whether the caller may evaluate an expression of that cost itself, now."""

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Answer | None:
        """Request the answer for the expression on that data.

        Returns None if it is not available yet; the evaluator then notifies the caller when to ask again.
        """


class ScriptEvaluator(TurnTime, Protocol):
    """Runs health scripts of users, in a process with limits."""

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """Request the verdict of a script on an object, a list of status and message or null.

        Returns None if it is not available yet; the evaluator then notifies the caller when to ask again.
        """


class Alone(Untimed):
    """The evaluator of a process that has no other process for evaluations."""

    def admits(self, cost: Cost) -> bool:
        """Return whether the cost is within the limits of one expression."""
        return is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Answer | None:  # noqa: ARG002 -- the port
        """Reject the evaluation."""
        return Excess("may take more time or memory than is allowed here")

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:  # noqa: ARG002 -- the port requires it
        """Reject the script."""
        return Excess("cannot be run here")


ALONE: Final = Alone()


def is_small(cost: Cost) -> bool:
    """Return whether an expression of that cost can be evaluated between other work."""
    return cost.time <= limits.EVALUATION_MICROSECONDS and cost.memory <= limits.EVALUATION_BYTES
