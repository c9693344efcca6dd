"""The life of a workload, measured: all Stacks created, then a field of each child changed, then all Stacks deleted."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bench.cases import ceiling
from bench.instruments import figures, user
from bench.instruments import lab as lab_module
from bench.instruments.figures import Ceiling, Phase
from bench.instruments.lab import BenchmarkOptions, Lab
from bench.instruments.workload import Workload

FindCeiling: TypeAlias = Callable[..., Awaitable[Ceiling]]


async def measure(
    options: BenchmarkOptions, benchmark: str, workload: Workload, *, find_ceiling: FindCeiling = ceiling.measure
) -> list[Phase]:
    """Three phases, each compared with the ceiling that was measured right before and after.

    If the ceiling sends more than the children, each phase is also compared with only the children.
    """
    async with lab_module.opened(options, benchmark, kinds=workload.kinds) as lab:
        alone = ceiling.measure if find_ceiling is not ceiling.measure else None
        before = await measure_ceiling(lab, workload, "before", find_ceiling)
        children_before = await measure_ceiling(lab, workload, "of children alone, before", alone) if alone else None
        phases = await live(lab, workload)
        children_after = await measure_ceiling(lab, workload, "of children alone, after", alone) if alone else None
        after = await measure_ceiling(lab, workload, "after", find_ceiling)
    if children_before is not None and children_after is not None:
        children = figures.mean(children_before, children_after)
        phases = [figures.beside_children(phase, children) for phase in phases]
    between = figures.mean(before, after)
    return [figures.with_ceiling(phase, between) for phase in phases]


async def measure_ceiling(
    lab: Lab, workload: Workload, when: str, find_ceiling: FindCeiling = ceiling.measure
) -> Ceiling:
    """The rate of a bare loop."""
    found = await find_ceiling(lab.api, workload, namespace=lab.ceiling_namespace, read_cpu=lab.read_bare_cpu)
    lab.say(
        f"ceiling {when}, objects a second: {found.created.rate:.0f} created, "
        f"{found.changed.rate:.0f} changed, {found.deleted.rate:.0f} deleted"
    )
    return found


async def live(lab: Lab, workload: Workload) -> list[Phase]:
    """The phases, without a ceiling yet."""
    async with lab.operator() as operator:
        await operator.wait_started()
        return [
            await lab.measure(operator, name, workload, functools.partial(act, lab, workload))
            for name, act in (("created", user.create), ("changed", user.change), ("deleted", user.delete))
        ]
