"""B7: a user takes one field back ten times a second, for a minute, while objects of another Stack are deleted.

It shows how often the contested object is written, and whether other Stacks have to wait for that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from bench.instruments import bare_api, figures, repairs, user, watches, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.watches import Arrivals
from bench.instruments.workload import CONFIG_MAP, Workload
from hearth.model.child import Object

OBJECTS, QUICK = 100, 10
SECONDS, QUICK_SECONDS = 60.0, 3.0
PAUSE = 0.1
"""Seconds between two changes by another client."""


class Answers:
    """Counts how often one object was written back."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.count = 0

    def take(self, event: Object) -> None:
        """Receive a change."""
        self.count += event["object"]["metadata"]["name"] == self._name and repairs.is_mended(event)


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases: repairs of another Stack's objects without the contest, and during it."""
    count, seconds = (QUICK, QUICK_SECONDS) if options.quick else (OBJECTS, SECONDS)
    work = Workload(template=workload.make_flat_template(count), stacks=2)
    async with contextlib.AsyncExitStack() as parts:
        lab = await parts.enter_async_context(lab_module.opened(options, name, kinds=work.kinds))
        operator = await parts.enter_async_context(lab.operator())
        heard = await parts.enter_async_context(repairs.hearing(lab.api, lab.namespace))
        await user.create(lab, work)
        await operator.wait_quiet()
        paths = [repairs.path_of(lab.namespace, f"stack-1-settings{number}") for number in range(count)]
        times: list[float] = []
        alone = await lab.measure(operator, "alone", work, lambda: repair(lab, heard, paths, seconds, times))
        found = figures.describe_times(times, "back after")
        times.clear()
        async with contesting(lab, "stack-0-settings0") as answers:
            beside = await lab.measure(operator, "in conflict", work, lambda: repair(lab, heard, paths, seconds, times))
            written = {"writes/s to the object in conflict": answers.count / beside.seconds}
        contested = figures.describe_times(times, "back after") | written
        await user.delete(lab, work)
    return [replace(alone, found=found), replace(beside, found=contested)]


async def repair(lab: Lab, heard: Arrivals, paths: Sequence[str], seconds: float, times: list[float]) -> None:
    """Delete one object after the other, spread over that many seconds."""
    for path in paths:
        times.append(await repairs.take_away(lab.api, heard, path))
        await asyncio.sleep(seconds / len(paths))


@contextlib.asynccontextmanager
async def contesting(lab: Lab, name: str) -> AsyncIterator[Answers]:
    """Let a user change one field of that object repeatedly within the block."""
    path = repairs.path_of(lab.namespace, name)
    answers = Answers(name)

    async def change() -> None:
        while True:
            await lab.api.send("PATCH", path, body=repairs.TAMPERED, content_type=bare_api.MERGE)
            await asyncio.sleep(PAUSE)

    async with watches.watching(lab.api, CONFIG_MAP, lab.namespace, answers.take), asyncio.TaskGroup() as group:
        task = group.create_task(change())
        yield answers
        task.cancel()


BENCHMARKS = (
    Benchmark(
        id="B7",
        work=f"{OBJECTS} objects deleted one by one; the same while another manager takes a field of another Stack back at 10 Hz",
        measure=measure,
    ),
)
