"""B11: a group compared with one Stack of as many objects. B12: a rolling update. B13: one of many members changes.

They show whether members cost as much as single resources, and the cost of changing one of many members.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from bench.instruments import bare_api, user, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.operator_run import Operator
from bench.instruments.workload import CONFIG_MAP, GroupWorkload, Workload
from hearth.model.child import Object

MEMBERS, QUICK = 5_000, 40
ROLLED, QUICK_ROLLED = 1_000, 40
BATCH, QUICK_BATCH = 50, 10
CHANGES, QUICK_CHANGES = 20, 3
LIFE = (("created", user.create), ("changed", user.change), ("deleted", user.delete))


async def measure_beside(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Measure a Stack, a group, and the Stack again.

    The group is compared with the mean of both Stacks. Also a group that grows by one.
    """
    count = QUICK if options.quick else MEMBERS
    stack = Workload(template=workload.make_flat_template(count), stacks=1)
    group = GroupWorkload(template=workload.make_member_template(), stacks=1, size=count)
    async with lab_module.opened(options, name, kinds=[CONFIG_MAP]) as lab, lab.operator() as operator:
        await operator.wait_started()
        first = [await measure_act(lab, operator, "Stack", stack, act) for act in LIFE]
        members = [await measure_act(lab, operator, "group", group, act) for act in LIFE[:2]]
        grown = await measure_growth(lab, operator, group)
        members.append(await measure_act(lab, operator, "group", group, LIFE[2]))
        again = [await measure_act(lab, operator, "Stack again", stack, act) for act in LIFE]
    beside = [
        dataclasses.replace(each, found=compare(each, one, other))
        for each, one, other in zip(members, first, again, strict=True)
    ]
    return [*first, *beside, grown, *again]


async def measure_act(lab: Lab, operator: Operator, owner: str, work: Workload, act: tuple[str, user.Act]) -> Phase:
    """One phase of the life of a Stack or group."""
    phase, do = act
    return await lab.measure(operator, f"{owner} {phase}", work, functools.partial(do, lab, work))


def compare(phase: Phase, one: Phase, other: Phase) -> Mapping[str, float]:
    """The group's figures relative to the Stack's."""
    seconds, cpu = (one.seconds + other.seconds) / 2, (one.operator_cpu + other.operator_cpu) / 2
    return {"seconds / Stack": phase.seconds / seconds, "operator CPU / Stack": phase.operator_cpu / cpu}


async def measure_growth(lab: Lab, operator: Operator, group: GroupWorkload, *, generation: int = 2) -> Phase:
    """Repeatedly raise the group's size by one. generation: the current one."""
    count = QUICK_CHANGES if lab.options.quick else CHANGES
    (raw,) = group.make_stacks(lab.namespace)

    async def grow() -> None:
        for number in range(1, count + 1):
            await edit(lab, raw, {"spec": {"replicas": group.size + number}}, generation=generation + number)

    work = GroupWorkload(template=group.template, stacks=1, size=count)
    phase = await lab.measure(operator, f"group grown by 1, {count} times", work, grow)
    return dataclasses.replace(phase, found={"operator CPU ms/size": 1000 * phase.operator_cpu / count})


async def edit(lab: Lab, raw: Object, patch: Object, *, generation: int) -> None:
    """Change the spec of a Stack or group and wait until that generation is complete."""
    await lab.api.send("PATCH", user.path_of(raw), body=patch, content_type=bare_api.MERGE)
    await lab.stacks.wait_settled(1, generation=generation)


async def measure_rolling(options: BenchmarkOptions, name: str) -> list[Phase]:
    """A group whose members change all at once, and one whose members change in batches."""
    count, batch = (QUICK_ROLLED, QUICK_BATCH) if options.quick else (ROLLED, BATCH)
    group = GroupWorkload(template=workload.make_member_template(), stacks=1, size=count)
    async with lab_module.opened(options, name, kinds=[CONFIG_MAP]) as lab, lab.operator() as operator:
        await operator.wait_started()
        await user.create(lab, group)
        (raw,) = group.make_stacks(lab.namespace)

        async def change(value: str, rolling: Object | None, generation: int) -> None:
            spec = {"parameters": {"value": value}, "rollingUpdate": rolling}
            await edit(lab, raw, {"spec": spec}, generation=generation)

        at_once = await lab.measure(operator, "at once", group, lambda: change("two", None, 2))
        batches = {"maxBatchSize": batch}
        rolled = await lab.measure(operator, f"in batches of {batch}", group, lambda: change("three", batches, 3))
        await user.delete(lab, group)
    found = {
        "ms/batch": 1000 * rolled.seconds * batch / count,
        "operator CPU / at once": rolled.operator_cpu / at_once.operator_cpu,
    }
    return [at_once, dataclasses.replace(rolled, found=found)]


async def measure_one_changed(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Repeatedly change one member of a small and of a large collection, add members to the large one, and grow a
    group.
    """
    many = QUICK if options.quick else MEMBERS
    count = QUICK_CHANGES if options.quick else CHANGES
    async with lab_module.opened(options, name, kinds=[CONFIG_MAP]) as lab, lab.operator() as operator:
        await operator.wait_started()
        phases = [await measure_changes(lab, operator, size, count) for size in (10, many)]
        phases.append(await measure_changes(lab, operator, many, count, adds=True))
        group = GroupWorkload(template=workload.make_member_template(), stacks=1, size=many)
        await user.create(lab, group)
        await operator.wait_quiet()
        phases.append(await measure_growth(lab, operator, group, generation=1))
        await user.delete(lab, group)
    return phases


async def measure_changes(lab: Lab, operator: Operator, size: int, count: int, *, adds: bool = False) -> Phase:
    """The phase that changes one of that many members repeatedly, or adds one with `adds`."""
    elements = [{"name": f"m{number}", "value": "one"} for number in range(size)]
    raw = workload.make_stack(f"stack-of-{size}", lab.namespace, workload.make_collection_template())
    raw["spec"]["parameters"] = {"members": elements}
    path = user.path_of(raw)
    await lab.api.send("POST", path.rpartition("/")[0], body=raw)
    await lab.stacks.wait_settled(1, generation=1)
    await operator.wait_quiet()

    async def change() -> None:
        for number in range(1, count + 1):
            if adds:
                elements.append({"name": f"new{number}", "value": "one"})
            else:
                elements[size // 2] = {**elements[size // 2], "value": f"changed {number}"}
            await edit(lab, raw, {"spec": {"parameters": {"members": elements}}}, generation=1 + number)

    work = GroupWorkload(template=workload.make_member_template(), stacks=1, size=count)
    what = f"one more than {size:,}" if adds else f"one of {size:,}"
    phase = await lab.measure(operator, f"{what}, {count} times", work, change)
    await lab.api.send("DELETE", path)
    await lab.stacks.wait_gone()
    return dataclasses.replace(phase, found={"operator CPU ms/change": 1000 * phase.operator_cpu / count})


BENCHMARKS = (
    Benchmark(
        id="B11",
        work=f"a ResourceGroup of {MEMBERS:,} ConfigMaps beside one Stack of {MEMBERS:,}, created, changed, deleted",
        measure=measure_beside,
    ),
    Benchmark(
        id="B12",
        work=f"a ResourceGroup of {ROLLED:,} ConfigMaps changed at once, and in batches of {BATCH}",
        measure=measure_rolling,
    ),
    Benchmark(
        id="B13",
        work=f"one member of a collection of 10, and of {MEMBERS:,}, changed {CHANGES} times; one more; a group grown by one",
        measure=measure_one_changed,
    ),
)
