"""B9: nothing to do. Stacks are complete and at rest for a while; then the operator restarts.

Neither requires a write. The first phase shows the cost of idling, the second the cost of a restart.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bench.instruments import lab as lab_module
from bench.instruments import usage, user, workload
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.workload import Workload

STACKS = 1000
QUICK = 20
MEBIBYTE = 1024 * 1024
REST, QUICK_REST = 30.0, 3.0
"""Seconds."""
AFTER_RESTART = 10.0
"""Seconds after its readiness during which a restarted operator might start to write."""


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases."""
    stacks, rest = (QUICK, QUICK_REST) if options.quick else (STACKS, REST)
    work = Workload(template=workload.make_small_template(), stacks=stacks)
    async with lab_module.opened(options, name, kinds=work.kinds) as lab:
        async with lab.operator() as operator:
            lab.say(f"creating {work.stacks} Stacks")
            await user.create(lab, work)
            await operator.wait_quiet()
            lab.say(f"resting for {rest:.0f} s")
            at_rest = await lab.measure(operator, "at rest", work, lambda: asyncio.sleep(rest))
            found = {
                "CPU s per minute": 60 * at_rest.operator_cpu / at_rest.seconds,
                "RSS MiB": usage.read_memory(operator.number) / MEBIBYTE,
            }
            at_rest = replace(at_rest, found=found)
        restarted = await restart(lab, work)
    return [at_rest, restarted]


async def restart(lab: Lab, work: Workload) -> Phase:
    """A second life of the operator, measured from the start of its process."""
    before = await lab.look(None)
    async with lab.operator() as operator:
        done = await lab.look(operator)
        await asyncio.sleep(AFTER_RESTART)
        restarted = await lab.finish(operator, "restarted", work, before=before, done=done)
        return replace(restarted, found={"RSS MiB": usage.read_memory(operator.number) / MEBIBYTE})


BENCHMARKS = (
    Benchmark(
        id="B9",
        work=f"{STACKS:,} Stacks of 4 objects at rest for {REST:.0f} s; then the operator restarted (until ready)",
        measure=measure,
    ),
)
