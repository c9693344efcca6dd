"""B6: while 2,000 objects are rolled out, the user changes his mind every two seconds, for a minute.

It shows how much is written for targets that are outdated, and how long the last one takes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from bench.instruments import bare_api, user, watches, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.workload import CONFIG_MAP, Workload
from hearth.model.child import Object

OBJECTS, QUICK = 2000, 40
TARGETS, QUICK_TARGETS = 30, 3
PAUSE = 2.0
"""Seconds between two targets."""


class Waste:
    """How many writes set an outdated value."""

    def __init__(self) -> None:
        self.wanted = ""
        self.is_taken = False
        """Whether the API server has accepted the target. Before that, only the user knows it."""
        self.writes = 0
        self.wasted = 0
        self.wasted_knowingly = 0

    def take(self, event: Object) -> None:
        """Receive a change."""
        if event["type"] in ("ADDED", "MODIFIED"):
            is_wasted = event["object"]["data"]["value"] != self.wanted
            self.writes += 1
            self.wasted += is_wasted
            self.wasted_knowingly += is_wasted and self.is_taken

    def find_shares(self) -> dict[str, float]:
        """The shares of all writes, in percent."""
        one = 100 / max(1, self.writes)
        return {
            "wasted writes %": one * self.wasted,
            "of these after the server answered the change %": one * self.wasted_knowingly,
        }


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases: one undisturbed change of all objects; then a series of changes, each before the previous one is
    complete.
    """
    count, targets = (QUICK, QUICK_TARGETS) if options.quick else (OBJECTS, TARGETS)
    work = Workload(template=workload.make_flat_template(count), stacks=1)
    async with lab_module.opened(options, name, kinds=work.kinds) as lab, lab.operator() as operator:
        await user.create(lab, work)
        await operator.wait_quiet()
        undisturbed = await lab.measure(operator, "undisturbed", work, lambda: user.change(lab, work))
        waste = Waste()
        last: list[float] = []
        async with watches.watching(lab.api, CONFIG_MAP, lab.namespace, waste.take):
            disturbed = await lab.measure(operator, "disturbed", work, lambda: change_often(lab, waste, targets, last))
        await user.delete(lab, work)
    found = {**waste.find_shares(), "last change / undisturbed": last[0] / undisturbed.seconds}
    return [undisturbed, replace(disturbed, found=found)]


async def change_often(lab: Lab, waste: Waste, targets: int, last: list[float]) -> None:
    """Set one target after the other. `last` receives the duration of the last one in seconds."""
    path = user.path_of(workload.make_stack("stack-0", lab.namespace, {}))
    begun = 0.0
    for number in range(targets):
        await asyncio.sleep(PAUSE if number else 0)
        waste.wanted, waste.is_taken = f"target-{number}", False
        begun = time.perf_counter()
        await lab.api.send("PATCH", path, body=workload.make_change(waste.wanted), content_type=bare_api.MERGE)
        waste.is_taken = True
    await lab.stacks.wait_settled(1, generation=targets + 2)
    last.append(time.perf_counter() - begun)


BENCHMARKS = (
    Benchmark(
        id="B6",
        work=f"a change of {OBJECTS:,} objects, undisturbed; then {TARGETS} of them, one every {PAUSE:.0f} s",
        measure=measure,
    ),
)
