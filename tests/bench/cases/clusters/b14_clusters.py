"""B14: 100 Stacks, each with one ConfigMap in another cluster: the cost of a cluster in connections, watches and
memory.

There is only one API server: each kubeconfig sets another namespace, so the operator treats it as another cluster.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import re
import time
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.instruments import bare_api, operator_run, place, usage, workload
from bench.instruments import lab as lab_module
from bench.instruments.figures import Phase
from bench.instruments.lab import Benchmark, BenchmarkOptions, Lab
from bench.instruments.operator_run import Operator
from bench.instruments.workload import CONFIG_MAP, Workload
from hearth.kube.auth import credentials
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK
from support.real import other_cluster

CLUSTERS, QUICK = 100, 3
REST, QUICK_REST = 30.0, 2.0
LOOK = 0.2
"""Seconds between two checks whether all Stacks are complete."""
SECRET = "elsewhere"
MEBIBYTE = 1024**2
OPTIONS = ("--allow-loopback-clusters",)
WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The operator's connections and memory, and the API server's watches by all its clients."""

    connections: int
    memory: int
    watches: float


async def look(lab: Lab, operator: Operator) -> Held:
    page = (await lab.api.send("GET", "/metrics")).decode()
    return Held(
        connections=usage.count_sockets(operator.number),
        memory=usage.read_memory(operator.number),
        watches=sum(float(value) for value in WATCHES.findall(page)),
    )


async def measure(options: BenchmarkOptions, name: str) -> list[Phase]:
    """Two phases: all created, and all at rest."""
    count = QUICK if options.quick else CLUSTERS
    work = Workload(template=workload.make_flat_template(1), stacks=count)
    async with contextlib.AsyncExitStack() as parts:
        lab = await parts.enter_async_context(lab_module.opened(options, name, kinds=[CONFIG_MAP]))
        spaces = [await parts.enter_async_context(place.namespace(lab.api, name)) for _ in range(count)]
        for space in spaces:
            await put_kubeconfig(lab, options.kubeconfig, space)
        operator = await parts.enter_async_context(
            operator_run.running(str(options.kubeconfig), namespace=lab.namespace, serves_all=True, options=OPTIONS)
        )
        await operator.wait_started()
        before = await look(lab, operator)
        created = await lab.measure(operator, "created", work, lambda: create(lab, spaces))
        held = await look(lab, operator)
        rest = QUICK_REST if options.quick else REST
        at_rest = await lab.measure(operator, "at rest", work, lambda: asyncio.sleep(rest))
        await delete(lab, spaces)
    found = {
        "connections/cluster": (held.connections - before.connections) / count,
        "watches/cluster": (held.watches - before.watches) / count,
        "RSS MiB/cluster": (held.memory - before.memory) / MEBIBYTE / count,
    }
    still = {"operator CPU % of a core": 100 * at_rest.operator_cpu / rest}
    return [dataclasses.replace(created, found=found), dataclasses.replace(at_rest, found=still)]


async def put_kubeconfig(lab: Lab, kubeconfig: Path, space: str) -> None:
    """Create the Secret with a kubeconfig for only that namespace."""
    found = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={}).load()
    content = other_cluster.make_kubeconfig(found)
    content["contexts"][0]["context"]["namespace"] = space
    data = {"value": base64.b64encode(orjson.dumps(content)).decode()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data}
    await lab.api.send("POST", f"/api/v1/namespaces/{space}/secrets", body=body)


def make_stack(space: str) -> Object:
    stack = workload.make_stack(f"stack-{space}", space, workload.make_flat_template(1))
    return {**stack, "spec": {**stack["spec"], "kubeConfig": {"secretRef": {"name": SECRET}}}}


async def create(lab: Lab, spaces: list[str]) -> None:
    """Create a Stack in each namespace; returns when all are complete."""

    async def send(space: str) -> None:
        await lab.api.send("POST", api_requests.collection_path(STACK, space), body=make_stack(space))

    await bare_api.for_each(spaces, send)
    while sum(map(is_complete, await list_stacks(lab, spaces))) < len(spaces):  # noqa: ASYNC110 -- it is another process
        await asyncio.sleep(LOOK)


async def delete(lab: Lab, spaces: list[str]) -> None:
    """Delete them; returns when none is left."""

    async def send(space: str) -> None:
        await lab.api.send("DELETE", api_requests.object_path(STACK, space, f"stack-{space}"))

    await bare_api.for_each(spaces, send)
    begun = time.monotonic()
    while await list_stacks(lab, spaces) and time.monotonic() < begun + lab_module.PATIENCE:  # noqa: ASYNC110 -- as above
        await asyncio.sleep(LOOK)


async def list_stacks(lab: Lab, spaces: list[str]) -> list[Object]:
    """The Stacks in these namespaces."""
    found = (await lab.api.list(f"/apis/{STACK.api_version}/{STACK.plural}"))["items"]
    return [raw for raw in found if raw["metadata"]["namespace"] in spaces]


def is_complete(stack: Object) -> bool:
    """Whether a Stack says so."""
    return str((stack.get("status") or {}).get("phase")) == "CreateComplete"


BENCHMARKS = (
    Benchmark(
        id="B14",
        work=f"{CLUSTERS} Stacks of one ConfigMap, each in another cluster (one API server); then at rest",
        measure=measure,
        is_usual=False,
    ),
)
