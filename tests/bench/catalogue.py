"""Every benchmark there is, in the order in which they run. A new one is a module with `BENCHMARKS`, and a line here."""

from __future__ import annotations

from collections.abc import Sequence

import b1_stacks
import b3_one_stack
import b9_nothing
from benchmark import Benchmark

ALL = (*b1_stacks.BENCHMARKS, *b3_one_stack.BENCHMARKS, *b9_nothing.BENCHMARKS)


class NoSuchBenchmark(Exception):
    """The text names those that there are."""


def choose(names: Sequence[str]) -> list[Benchmark]:
    """Those with these names, whatever their case; all where none is named."""
    known = {each.id.lower(): each for each in ALL}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise NoSuchBenchmark(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(b.id for b in ALL)}")
    return [known[name.lower()] for name in names] or list(ALL)
