"""B5: one of 2,000 objects is deleted or changed, in many rounds; then 1,000 are deleted at once.

It shows the time until they are repaired, compared with a bare loop that only watches and applies.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.instruments import figures, repairs, user, workload
from bench.instruments import lab as lab_module
from bench.instruments.bare_api import BareApi
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.watches import Arrivals
from bench.instruments.workload import Workload

OBJECTS, QUICK = 2000, 40
ROUNDS, QUICK_ROUNDS = 50, 5


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Three phases: objects deleted one by one, changed one by one, and half of all deleted at once."""
    count, rounds = (QUICK, QUICK_ROUNDS) if options.quick else (OBJECTS, ROUNDS)
    work = Workload(template=workload.make_flat_template(count), stacks=1)
    async with lab_module.opened(options, name, kinds=work.kinds) as lab:
        bare = await measure_bare(lab, work, rounds)
        async with lab.operator() as operator, repairs.hearing(lab.api, lab.namespace) as heard:
            await user.create(lab, work)
            await operator.wait_quiet()
            phases = []
            for act, times in bare.items():
                site = Site(lab=lab, heard=heard, paths=name_paths(lab.namespace, work), rounds=rounds)
                phase = await lab.measure(operator, act, work, functools.partial(site.act, act))
                compared = site.times | {f"bare {key}": value for key, value in times.items()}
                phases.append(replace(phase, objects=site.broken, found=compared))
            await user.delete(lab, work)
    return phases


async def measure_bare(lab: Lab, work: Workload, rounds: int) -> dict[str, dict[str, float]]:
    """The times of the bare loop by action."""
    targets = work.make_children(lab.ceiling_namespace, value="one")
    found = {}
    async with (
        repairs.hearing(lab.api, lab.ceiling_namespace) as heard,
        repairs.repairing(lab.api, lab.ceiling_namespace, targets),
    ):
        for act in ACTS:
            site = Site(lab=lab, heard=heard, paths=[target.path for target in targets], rounds=rounds)
            await site.act(act)
            found[act] = site.times
    return found


def name_paths(namespace: str, work: Workload) -> list[str]:
    """The paths of the objects of the only Stack."""
    return [repairs.path_of(namespace, f"stack-0-{name}") for name in work.template["resources"]]


@dataclass(slots=True, kw_only=True)
class Site:
    """Objects that are broken and repaired, and the time this takes."""

    lab: Lab
    heard: Arrivals
    paths: Sequence[str]
    rounds: int
    times: dict[str, float] = field(default_factory=dict)
    broken: int = 0

    async def act(self, name: str) -> None:
        """Do one of `ACTS`."""
        await ACTS[name](self)

    async def one_by_one(self, break_: Callable[[BareApi, Arrivals, str], Awaitable[float]]) -> None:
        """Break one object in each round."""
        chosen = self.paths[:: max(1, len(self.paths) // self.rounds)][: self.rounds]
        times = [await break_(self.lab.api, self.heard, path) for path in chosen]
        self.broken = len(chosen)
        self.times = figures.describe_times(times, "back after")

    async def half_at_once(self) -> None:
        """Delete every other object."""
        chosen = self.paths[::2]
        self.broken = len(chosen)
        self.times = {"all back after s": await repairs.take_all_away(self.lab.api, self.heard, chosen)}


ACTS: Mapping[str, Callable[[Site], Awaitable[None]]] = {
    "one deleted": lambda site: site.one_by_one(repairs.take_away),
    "one changed": lambda site: site.one_by_one(repairs.tamper),
    "half deleted": lambda site: site.half_at_once(),
}
BENCHMARKS = (
    Benchmark(
        id="B5",
        work=f"of {OBJECTS:,} objects one deleted, or changed, {ROUNDS} times; then half of them deleted at once",
        measure=measure,
    ),
)
