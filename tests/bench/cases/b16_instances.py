"""B16: instances of a StackDefinition compared with Stacks of the same template, in two operator processes of one run.

They show whether a custom kind costs more than Stacks, how much memory the shared template saves, and the cost of a new
revision that changes a field of each object.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator
from typing import Any

from bench.instruments import bare_api, place, usage, user, watches, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.operator_run import Operator
from bench.instruments.workload import INSTANCE, InstanceWorkload, Workload
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK_DEFINITION

QUICK = 20
KIBIBYTE = 1024
LOOK = 0.1
"""Seconds between two checks of a definition."""
NAME = f"{INSTANCE.plural}.{INSTANCE.group}"
PATH = api_requests.object_path(STACK_DEFINITION, "", NAME)


async def measure(options: BenchmarkOptions, name: str, *, count: int) -> list[Phase]:
    """The phases of that many Stacks, then of that many instances, each compared with the Stacks."""
    number = QUICK if options.quick else count
    template = workload.make_small_template()
    stacks = Workload(template=template, stacks=number)
    instances = InstanceWorkload(template=template, stacks=number)
    async with lab_module.opened(options, name, kinds=stacks.kinds) as lab:
        async with lab.operator() as operator:
            await operator.wait_started()
            of_stacks = await live(lab, operator, stacks, "Stacks")
        async with lab.operator(f"--definition-groups={INSTANCE.group}") as operator, defined(lab, template):
            await operator.wait_started()
            of_instances = await live(lab, operator, instances, "instances")
    compared = [compare(each, other) for each, other in zip(of_instances, of_stacks, strict=True)]
    return [*of_stacks, *compared]


async def live(lab: Lab, operator: Operator, work: Workload, what: str) -> list[Phase]:
    """Create, change a field of each object, and delete."""
    empty = usage.read_memory(operator.number)
    created = await lab.measure(operator, f"{what} created", work, functools.partial(user.create, lab, work))
    held = (usage.read_memory(operator.number) - empty) / work.stacks / KIBIBYTE
    created = dataclasses.replace(created, found={"RSS KiB per unit": held})
    do = change_definition if isinstance(work, InstanceWorkload) else user.change
    changed = await lab.measure(operator, f"{what} changed", work, functools.partial(do, lab, work))
    deleted = await lab.measure(operator, f"{what} deleted", work, functools.partial(user.delete, lab, work))
    return [created, changed, deleted]


def compare(phase: Phase, other: Phase) -> Phase:
    """The figures of instances relative to the figures of Stacks."""
    beside = {
        "seconds / Stacks": phase.seconds / other.seconds,
        "operator CPU / Stacks": phase.operator_cpu / other.operator_cpu,
    }
    return dataclasses.replace(phase, found={**(phase.found or {}), **beside})


@contextlib.asynccontextmanager
async def defined(lab: Lab, template: Object) -> AsyncIterator[None]:
    """Serve and watch the kind within the block."""
    await lab.api.send("POST", PATH.rpartition("/")[0], body=make_definition(template))
    try:
        await wait(lab, lambda status: (status.get("rollout") or {}).get("phase") == "Complete")
        async with watches.watching(lab.api, INSTANCE, lab.namespace, lab.stacks.take):
            yield
    finally:
        await place.release(lab.api, INSTANCE, lab.namespace)
        await lab.api.send("DELETE", PATH)
        await wait(lab, lambda status: status is None)


async def change_definition(lab: Lab, work: Workload) -> None:
    """Change one field of each child by a revision of the definition; returns once all instances have it."""
    found = await lab.api.list(PATH)
    template = workload.make_small_template("${params.value + '-two'}")
    spec = {**found["spec"], "template": template}
    await lab.api.send("PATCH", PATH, body={"spec": spec}, content_type=bare_api.MERGE)
    revision = found["status"]["revision"] + 1

    def is_done(status: Any) -> bool:
        rollout = status.get("rollout") or {}
        return bool(rollout.get("revision") == revision and rollout.get("ready") == work.stacks)

    await wait(lab, is_done)


def make_definition(template: Object) -> Object:
    """The kind, whose revisions reach all instances at once."""
    return {
        "apiVersion": STACK_DEFINITION.api_version,
        "kind": STACK_DEFINITION.name,
        "metadata": {"name": NAME},
        "spec": {
            "group": INSTANCE.group,
            "names": {"kind": INSTANCE.name, "plural": INSTANCE.plural},
            "versions": [{"name": INSTANCE.version}],
            "template": template,
            "rollout": {"strategy": "AllAtOnce"},
        },
    }


async def wait(lab: Lab, is_so: Any) -> None:
    """Wait until the status of the definition matches; None: it is deleted."""
    async with asyncio.timeout(lab_module.PATIENCE):
        while True:
            found = (await lab.api.list(PATH.rpartition("/")[0]))["items"]
            status = next((each.get("status") or {} for each in found if each["metadata"]["name"] == NAME), None)
            if is_so(status):
                return
            await asyncio.sleep(LOOK)


BENCHMARKS = tuple(
    Benchmark(
        id=id_,
        work=f"{count:,} Stacks of 4 objects, then {count:,} instances of a StackDefinition: created; changed, the instances "
        "by a revision of the definition; deleted",
        measure=functools.partial(measure, count=count),
        is_usual=is_usual,
    )
    for id_, count, is_usual in (("B16", 1_000, True), ("B16-10000", 10_000, False))
)
