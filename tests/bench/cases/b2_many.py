"""B2: 5,000 Stacks of 10 ConfigMaps; B4: the operator restarts with these 50,000 children.

They show whether the cost of a child stays constant, its memory, and the duration of a restart.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from bench.instruments import bare_api, repairs, usage, user, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.workload import Workload

STACKS = 5000
QUICK = 20
CHILDREN = 10
KIBIBYTE = 1024


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases: all Stacks are created, then the operator restarts with one object to repair."""
    stacks = QUICK if options.quick else STACKS
    work = Workload(template=workload.make_flat_template(CHILDREN), stacks=stacks)
    async with lab_module.opened(options, name, kinds=work.kinds) as lab:
        async with lab.operator() as operator:
            lab.say(f"creating {work.stacks} Stacks of {CHILDREN}")
            empty = usage.read_memory(operator.number)
            created = await lab.measure(operator, "created", work, lambda: user.create(lab, work))
            per_child = (usage.read_memory(operator.number) - empty) / work.objects
            created = replace(created, found={"RSS KiB per child": per_child / KIBIBYTE})
        restarted = await restart(lab, work)
    return [created, restarted]


async def restart(lab: Lab, work: Workload) -> Phase:
    """The second life, measured from the start of its process.

    One object is deleted while no operator runs. The time until it is recreated is the time to the first repair.
    """
    path = repairs.path_of(lab.namespace, "stack-0-settings0")
    async with contextlib.AsyncExitStack() as parts:
        heard = await parts.enter_async_context(repairs.hearing(lab.api, lab.namespace))
        await lab.api.send("DELETE", path)
        back = parts.enter_context(heard.expect("stack-0-settings0", repairs.is_added))
        begun, before = time.perf_counter(), await lab.look(None)
        async with lab.operator() as operator:
            ready = time.perf_counter() - begun
            await back.wait()
            repaired = time.perf_counter() - begun
            done = await lab.look(operator)
            phase = await lab.finish(operator, "restarted", work, before=before, done=done)
            listed = len(await lab.api.send("GET", f"{path.rpartition('/')[0]}", accept=bare_api.METADATA_LIST))
            found = {"ready after s": ready, "first repair after s": repaired, "list MiB": listed / KIBIBYTE**2}
    return replace(phase, found=found)


BENCHMARKS = (
    Benchmark(
        id="B2",
        work=f"{STACKS:,} Stacks of {CHILDREN} ConfigMaps, created; B4: the operator restarted, one object gone meanwhile",
        measure=measure,
        is_usual=False,
    ),
)
