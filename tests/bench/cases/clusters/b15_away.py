"""B15: Stacks of this cluster, one after the other, with and without other clusters that refuse, hang or respond late.

Rounds alternate, so that other load on the machine affects both equally. The ratio of the 99th percentiles shows the
effect on a tenant of this cluster.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.instruments import bare_api, figures, operator_run, usage, watches, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.operator_run import Operator
from bench.instruments.watches import Arrivals
from hearth.cli.demo import operator_process
from hearth.kube.auth import credentials
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK
from support.real import other_cluster

ROUNDS, QUICK_ROUNDS = 4, 1
STACKS, QUICK_STACKS = 100, 5
"""Stacks in a round, one after the other."""
EACH = 4
"""Clusters of each sort, with a Stack each."""
REMOTE_OBJECTS = 10
"""ConfigMaps of a Stack in another cluster."""
LATE = 0.3
"""Delay in seconds of each piece of a response."""
SETTLE = 5.0
"""Seconds until every other cluster was tried."""
EDIT_EVERY = 5.0
"""Seconds between two changes of the Stacks in late clusters. They share the API server with the Stacks here, so more
changes would measure its load.
"""
PIECE = 65_536
HOST = "127.0.0.1"
OPTIONS = ("--allow-loopback-clusters",)
SORTS = ("refuses", "hangs", "late")


@dataclass(frozen=True, slots=True)
class Delay:
    """The delay of a server's responses: late, or none at all."""

    target: tuple[str, int] | None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it closes. At the end of the run it is canceled, which Python 3.11 reports as an
        error.
        """
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if self.target is None:
                while await reader.read(PIECE):
                    pass
                return
            back, forth = await asyncio.open_connection(*self.target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(pass_on(reader, forth, delay=0.0))
                    group.create_task(pass_on(back, writer, delay=LATE))
            finally:
                forth.close()
                writer.close()


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, delay: float) -> None:
    """Forward all data, each piece with the delay."""
    with contextlib.suppress(OSError):
        while piece := await source.read(PIECE):
            await asyncio.sleep(delay)
            target.write(piece)
            await target.drain()
    target.close()


@contextlib.asynccontextmanager
async def answering(target: tuple[str, int] | None) -> AsyncIterator[str]:
    """The address of a server that forwards everything with a delay. Without a target, it never answers."""
    server = await asyncio.start_server(Delay(target).serve, HOST, 0)
    try:
        yield f"https://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases: all rounds without other clusters, and all rounds with them."""
    rounds, count = (QUICK_ROUNDS, QUICK_STACKS) if options.quick else (ROUNDS, STACKS)
    alone: list[tuple[Phase, list[float]]] = []
    beside: list[tuple[Phase, list[float]]] = []
    async with contextlib.AsyncExitStack() as parts:
        lab = await parts.enter_async_context(lab_module.opened(options, name, kinds=[]))
        await put_kubeconfigs(lab, options.kubeconfig, parts)
        others = make_remote_stacks(lab.namespace)
        for number in range(rounds):
            async with serving(lab) as operator:
                alone.append(await measure_round(lab, operator, f"alone {number}", count))
                await delete(lab, [])
            async with serving(lab) as operator:
                await create(lab, others)
                await asyncio.sleep(SETTLE)
                editing = asyncio.create_task(keep_editing(lab))
                beside.append(await measure_round(lab, operator, f"beside {number}", count))
                editing.cancel()
                await delete(lab, others)
    return summarize(alone, beside)


@contextlib.asynccontextmanager
async def serving(lab: Lab) -> AsyncIterator[Operator]:
    """Run an operator, and wait some time after its start."""
    kubeconfig = str(lab.options.kubeconfig)
    async with operator_run.running(kubeconfig, namespace=lab.namespace, options=OPTIONS) as operator:
        await asyncio.sleep(SETTLE)
        yield operator


async def put_kubeconfigs(lab: Lab, kubeconfig: Path, parts: contextlib.AsyncExitStack) -> None:
    """Create a Secret for each other cluster, whose servers live as long as `parts`."""
    found = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={}).load()
    host, _, port = found.server.removeprefix("https://").partition(":")
    for number in range(EACH):
        servers = {
            "refuses": f"https://{HOST}:{operator_process.find_free_port()}",
            "hangs": await parts.enter_async_context(answering(None)),
            "late": await parts.enter_async_context(answering((host, int(port)))),
        }
        for sort, server in servers.items():
            content = other_cluster.make_kubeconfig(found, server=server)
            content["contexts"][0]["context"]["namespace"] = lab.namespace
            data = {"value": base64.b64encode(orjson.dumps(content)).decode()}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{sort}-{number}"}, "data": data}
            await lab.api.send("POST", f"/api/v1/namespaces/{lab.namespace}/secrets", body=body)


def make_remote_stacks(space: str) -> list[Object]:
    """A Stack in each other cluster, named like its Secret."""
    names = [f"{sort}-{number}" for sort in SORTS for number in range(EACH)]
    made = [workload.make_stack(name, space, workload.make_flat_template(REMOTE_OBJECTS)) for name in names]
    return [
        {**each, "spec": {**each["spec"], "kubeConfig": {"secretRef": {"name": each["metadata"]["name"]}}}}
        for each in made
    ]


async def keep_editing(lab: Lab) -> None:
    """Repeatedly change the Stacks in late clusters."""
    value = 0
    while True:
        value += 1
        for number in range(EACH):
            path = api_requests.object_path(STACK, lab.namespace, f"late-{number}")
            patch = workload.make_change(str(value))
            await lab.api.send("PATCH", path, body=patch, content_type=bare_api.MERGE)
        await asyncio.sleep(EDIT_EVERY)


async def measure_round(lab: Lab, operator: Operator, name: str, count: int) -> tuple[Phase, list[float]]:
    """Create Stacks one after the other; the seconds from each request until the Stack says that it is ready."""
    work = workload.Workload(template=workload.make_small_template(), stacks=count)
    arrivals, times = Arrivals(), []
    async with watches.watching(lab.api, STACK, lab.namespace, arrivals.take):
        before = await lab.look(operator)
        for stack in work.make_stacks(lab.namespace):
            with arrivals.expect(stack["metadata"]["name"], is_ready) as arrival:
                begun = time.perf_counter()
                await lab.api.send("POST", api_requests.collection_path(STACK, lab.namespace), body=stack)
                await asyncio.wait_for(arrival.wait(), lab_module.PATIENCE)
            times.append(time.perf_counter() - begun)
        after = await lab.look(operator)
    phase = Phase(
        benchmark=lab.benchmark,
        name=name,
        stacks=count,
        objects=work.objects,
        seconds=after.time - before.time,
        operator_cpu=after.operator_cpu - before.operator_cpu,
        control_plane_cpu=after.control_plane_cpu - before.control_plane_cpu if lab.servers else None,
        others_share=lab_module.find_others_share(before, after),
        peak_rss=usage.read_peak_memory(operator.number),
        requests=dict(sorted((after.requests - before.requests).items())),
    )
    lab.say(f"{name}: {describe(times)}")
    return phase, times


def is_ready(event: Object) -> bool:
    """Whether that event reports the Stack as complete."""
    return event["type"] != "DELETED" and watches.find_reached(event["object"]) > 0


def describe(times: Sequence[float]) -> str:
    """The two percentiles."""
    return ", ".join(f"{name} {value:.0f}" for name, value in figures.describe_times(times, "").items())


async def create(lab: Lab, stacks: Sequence[Object]) -> None:
    """Create them; they are not awaited."""
    for stack in stacks:
        await lab.api.send("POST", api_requests.collection_path(STACK, lab.namespace), body=stack)


async def delete(lab: Lab, others: Sequence[Object]) -> None:
    """Delete the Stacks of a round, and others; returns when none is left."""
    count = QUICK_STACKS if lab.options.quick else STACKS
    work = workload.Workload(template=workload.make_small_template(), stacks=count)
    for stack in (*others, *work.make_stacks(lab.namespace)):
        await lab.api.send("DELETE", api_requests.object_path(STACK, lab.namespace, stack["metadata"]["name"]))
    async with asyncio.timeout(lab_module.PATIENCE):
        await lab.stacks.wait_gone()


def summarize(alone: Sequence[tuple[Phase, list[float]]], beside: Sequence[tuple[Phase, list[float]]]) -> list[Phase]:
    """Both phases, with the percentiles of all their rounds."""
    found = [figures.describe_times([time for _, times in each for time in times], "ready") for each in (alone, beside)]
    ratios = {name.replace(" ms", " / alone"): found[1][name] / found[0][name] for name in found[0]}
    return [
        dataclasses.replace(merge([phase for phase, _ in alone], "alone"), found=found[0]),
        dataclasses.replace(merge([phase for phase, _ in beside], "beside"), found={**found[1], **ratios}),
    ]


def merge(rounds: Sequence[Phase], name: str) -> Phase:
    """One phase of several."""
    known = [each.control_plane_cpu for each in rounds if each.control_plane_cpu is not None]
    return dataclasses.replace(
        rounds[0],
        name=name,
        stacks=sum(each.stacks for each in rounds),
        objects=sum(each.objects for each in rounds),
        seconds=sum(each.seconds for each in rounds),
        operator_cpu=sum(each.operator_cpu for each in rounds),
        control_plane_cpu=sum(known) if known else None,
        others_share=sum(each.others_share for each in rounds) / len(rounds),
        peak_rss=max(each.peak_rss for each in rounds),
        requests=dict(sorted(sum((Counter(each.requests) for each in rounds), Counter()).items())),
    )


BENCHMARKS = (
    Benchmark(
        id="B15",
        work=f"{ROUNDS} times {STACKS} Stacks of 4 objects, one after the other; alone, and beside {len(SORTS) * EACH} "
        f"Stacks in clusters that refuse, hang or answer {LATE} s late",
        measure=measure,
        is_usual=False,
    ),
)
