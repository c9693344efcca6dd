"""Budgets for the size of lists: of servers that a tenant chose, and of all users of a page together.

Sizes are those of the JSON. The objects take about five times as much memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.kinds import Kind

FOREIGN_BYTES: Final = 64 * 2**20
"""Size of all lists, as JSON, that foreign servers may add to one snapshot of a Stack."""


class ListTooLarge(errors.ApiStatusError):
    """A server sends more objects of a kind than this program reads."""

    def __init__(self, kind: Kind, limit: str) -> None:
        """limit: the exceeded one, for example `200 pages`."""
        message = f"the list of {kind.plural} has more than {limit}, and is not read"
        super().__init__(code=413, status={"message": message})


class MemoryInUse(errors.Unreachable):
    """Other reads take the memory of this server at the moment; retry later."""


def measure(answer: Object) -> int:
    """Return the size of a parsed answer."""
    return len(orjson.dumps(answer))


def describe_excess(most: int) -> str:
    """Return the limit in words."""
    return f"{most // 2**20} MiB, together with the lists before it"


@dataclass(slots=True)
class ForeignBudget:
    """The bytes that all foreign servers together may add to one snapshot of a Stack."""

    left: int = FOREIGN_BYTES

    def reset(self) -> None:
        """Begin another snapshot."""
        self.left = FOREIGN_BYTES

    def spend(self, kind: Kind, size: int) -> None:
        """Count an answer of this size. Raises ListTooLarge beyond the budget."""
        self.left -= size
        if self.left < 0:
            raise ListTooLarge(kind, describe_excess(FOREIGN_BYTES))


@dataclass(slots=True, weakref_slot=True)
class ReadMemory:
    """The memory of reads in progress, of one user or of all."""

    most: int
    whole_memory: ReadMemory | None = None
    """The memory of all users, which this one is a part of."""
    used: int = 0

    def take(self, size: int) -> None:
        """Take memory. Raises MemoryInUse if too little is left."""
        if self.used + size > self.most:
            raise MemoryInUse("this page reads a lot of data at the moment; it tries again in a few seconds")
        if self.whole_memory is not None:
            self.whole_memory.take(size)
        self.used += size

    def give_back(self, size: int) -> None:
        """Return memory."""
        if self.whole_memory is not None:
            self.whole_memory.give_back(size)
        self.used -= size


@dataclass(slots=True)
class ReadMeter:
    """The size of the lists that one page is made from."""

    memory: ReadMemory
    most: int
    _used: int = field(default=0, init=False)
    _is_closed: bool = field(default=False, init=False)

    def spend(self, kind: Kind, size: int) -> None:
        """Count an answer of this size. Raises ListTooLarge and MemoryInUse."""
        if self._is_closed:
            # Another list failed, and the page with it.
            raise MemoryInUse("the page that needed this list has ended")
        if self._used + size > self.most:
            raise ListTooLarge(kind, describe_excess(self.most))
        self.memory.take(size)
        self._used += size

    def reset(self) -> None:
        """Return the memory: the page is made."""
        self.memory.give_back(self._used)
        self._used = 0

    def close(self) -> None:
        """Return the memory, and reject lists that are still being read."""
        self.reset()
        self._is_closed = True


@dataclass(slots=True)
class PageMemory:
    """The memory of the lists of Stacks of one user."""

    row_memory: ReadMemory
    """Of the rows that are kept."""
    read_memory: ReadMemory | None
    """Of the objects while they are drawn; None without a limit."""
    list_turns: asyncio.Semaphore
    """Pages of lists that all users read at the same time."""

    def make_meter(self) -> ReadMeter | None:
        """Return the meter of a list."""
        return ReadMeter(self.read_memory, most=limits.PAGE_READ_BYTES) if self.read_memory is not None else None


CURRENT: Final[contextvars.ContextVar[ReadMeter | None]] = contextvars.ContextVar("read_meter", default=None)
"""The meter of the page that this task makes; None for programs with one user, which have no budget."""


@contextlib.contextmanager
def metering(meter: ReadMeter | None) -> Iterator[None]:
    """Count all lists that this task and its parts read. None: no limit."""
    token = CURRENT.set(meter)
    try:
        yield
    finally:
        CURRENT.reset(token)
        if meter is not None:
            meter.close()


def begin_again() -> None:
    """Return the memory of this task's reads: what they made is not kept."""
    if (meter := CURRENT.get()) is not None:
        meter.reset()
