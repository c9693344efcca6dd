"""B3: one large Stack, created, changed and deleted.

It shows whether the cost of one resource stays the same, however many stand beside it.
"""

from __future__ import annotations

import functools

import lifecycle
import workload
from benchmark import Benchmark
from figures import Phase
from lab import Wish
from workload import Workload

QUICK = 50


async def measure_flat(wish: Wish, name: str, *, resources: int) -> list[Phase]:
    """The phases of one Stack of ConfigMaps that have nothing to do with each other."""
    number = QUICK if wish.quick else resources
    return await lifecycle.measure(wish, name, Workload(template=workload.make_flat_template(number), stacks=1))


BENCHMARKS = (
    Benchmark(
        id="B3-500",
        work="one Stack of 500 ConfigMaps, created; a field of each changed; deleted",
        measure=functools.partial(measure_flat, resources=500),
    ),
)
