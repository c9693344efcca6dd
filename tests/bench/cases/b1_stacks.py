"""B1: many small Stacks of four objects (ConfigMap, ServiceAccount, Role, RoleBinding), created, changed and deleted.

It shows the cost of a Stack in addition to its children: reading it, compiling its template, its revision and its
status. The ceiling sends the same requests, including those about the Stacks.
"""

from __future__ import annotations

import functools

from bench.cases import lifecycle, same_requests
from bench.instruments import workload
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions
from bench.instruments.workload import Workload

QUICK = 20


async def measure(options: BenchmarkOptions, name: str, *, stacks: int) -> list[Phase]:
    """The phases of that many Stacks."""
    number = QUICK if options.quick else stacks
    work = Workload(template=workload.make_small_template(), stacks=number)
    return await lifecycle.measure(options, name, work, find_ceiling=same_requests.measure)


BENCHMARKS = (
    Benchmark(
        id="B1-100",
        work="100 Stacks of 4 objects, created; a field of each object changed; deleted",
        measure=functools.partial(measure, stacks=100),
        is_usual=False,
    ),
    Benchmark(
        id="B1",
        work="1,000 Stacks of 4 objects, created; a field of each object changed; deleted",
        measure=functools.partial(measure, stacks=1000),
    ),
)
