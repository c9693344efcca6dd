"""All benchmarks in the order they run. A new benchmark is a module with `BENCHMARKS`, and a line here.

Benchmarks that leave much work for the garbage collector come last, where it disturbs no other benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.cases import (
    b1_stacks,
    b2_many,
    b3_one_stack,
    b5_repairs,
    b6_targets,
    b7_contest,
    b9_nothing,
    b10_pure,
    b11_groups,
    b16_instances,
    b17_page,
)
from bench.cases.clusters import b14_clusters, b15_away
from bench.instruments.lab import Benchmark

ALL = (
    *b10_pure.BENCHMARKS,
    *b3_one_stack.BENCHMARKS,
    *b5_repairs.BENCHMARKS,
    *b6_targets.BENCHMARKS,
    *b7_contest.BENCHMARKS,
    *b1_stacks.BENCHMARKS,
    *b9_nothing.BENCHMARKS,
    *b11_groups.BENCHMARKS,
    *b16_instances.BENCHMARKS,
    *b17_page.BENCHMARKS,
    *b14_clusters.BENCHMARKS,
    *b15_away.BENCHMARKS,
    *b2_many.BENCHMARKS,
)


class NoSuchBenchmark(Exception):
    """Error for an unknown benchmark; the text lists the known ones."""


def choose(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks with these names, in any case; by default, the usual ones."""
    known = {each.id.lower(): each for each in ALL}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise NoSuchBenchmark(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(b.id for b in ALL)}")
    return [known[name.lower()] for name in names] or [each for each in ALL if each.is_usual]
