"""B3: one large Stack, created, changed and deleted: flat, as a chain, and in layers.

It shows whether the cost of one resource stays constant regardless of the size, and how soon the next one follows.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from bench.cases import ceiling, lifecycle
from bench.instruments import workload
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions
from bench.instruments.workload import Workload
from hearth.model.child import Object

QUICK = 50
QUICK_CHAIN = 10
WIDTH = 100


async def measure_flat(options: BenchmarkOptions, name: str, *, resources: int) -> list[Phase]:
    """The phases of one Stack of independent ConfigMaps."""
    number = QUICK if options.quick else resources
    return await measure(options, name, workload.make_flat_template(number))


async def measure_chain(options: BenchmarkOptions, name: str, *, resources: int) -> list[Phase]:
    """A chain where each resource names the previous one, compared with a loop that waits for each in a watch."""
    number = QUICK_CHAIN if options.quick else resources
    template = workload.make_chain_template(number)
    return await measure(options, name, template, find_ceiling=ceiling.measure_in_steps)


async def measure_layers(options: BenchmarkOptions, name: str, *, layers: int) -> list[Phase]:
    """The phases of one Stack whose resources each name a resource of the previous layer."""
    template = workload.make_layered_template(2 if options.quick else layers, width=QUICK if options.quick else WIDTH)
    return await measure(options, name, template)


async def measure(
    options: BenchmarkOptions, name: str, template: Object, *, find_ceiling: lifecycle.FindCeiling = ceiling.measure
) -> list[Phase]:
    """The phases of one Stack of that template."""
    return await lifecycle.measure(options, name, Workload(template=template, stacks=1), find_ceiling=find_ceiling)


def make(id_: str, work: str, measure_: Callable[..., Awaitable[list[Phase]]], **options: int) -> Benchmark:
    return Benchmark(
        id=id_,
        work=f"one Stack of {work}, created; a field of each changed; deleted",
        measure=functools.partial(measure_, **options),
    )


BENCHMARKS = (
    make("B3-200", "200 ConfigMaps", measure_flat, resources=200),
    make("B3", "2,000 ConfigMaps", measure_flat, resources=2000),
    make("B3-chain", "200 ConfigMaps in a chain", measure_chain, resources=200),
    make("B3-layers", "20 layers of 100 ConfigMaps", measure_layers, layers=20),
)
