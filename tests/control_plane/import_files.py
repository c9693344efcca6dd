"""Imports plain manifests and runs them as Stacks: `import_files.py FILE…` prints one line per file.

Each file gets its own namespace. It is imported, applied, awaited and deleted; then only claims of StatefulSets may be
left. This module simulates the cloud (volumes, addresses of load balancers). The cluster is the one in
HEARTH_TEST_KUBECONFIG.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import import_world
import progress
from import_world import World

from hearth.cli.demo import operator_process
from hearth.cli.demo.demo_cluster import Cluster
from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.well_known_kinds import NAMESPACE, STACK
from hearth.template.text import kubectl_yaml

VARIABLE = "HEARTH_TEST_KUBECONFIG"
LOOK = 0.25
"""Seconds between two looks."""
TIMEOUT = 180.0
START = 60.0
"""Seconds for the operator to start, on a busy machine."""


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of one file."""

    file: str
    parts: list[str] = field(default_factory=list)
    error: str = ""

    def __str__(self) -> str:
        return "  ".join(["FAILED" if self.error else "ok", self.file, *self.parts, self.error]).rstrip()


def main() -> int:
    """Import and run the files; return 1 if one failed."""
    parser = argparse.ArgumentParser(description="Import plain manifests, run them as Stacks, and delete them again.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds for each wait (default: %(default)s)")
    arguments = parser.parse_args()
    kubeconfig = os.environ.get(VARIABLE)
    if kubeconfig is None:
        print(f"error: {VARIABLE} names no cluster; `make test-import FILES=…` sets it", file=sys.stderr)
        return 2
    reports = asyncio.run(try_all(arguments.files, kubeconfig=kubeconfig, seconds=arguments.timeout))
    return 1 if any(report.error for report in reports) else 0


async def try_all(files: list[str], *, kubeconfig: str, seconds: float) -> list[Report]:
    """One report per file, printed as soon as it is known."""
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    reports = []
    async with Connection(source) as connection:
        world, cluster = World(connection), Cluster(connection)
        await cluster.install()
        for file in files:
            trial = Trial(world=world, cluster=cluster, kubeconfig=kubeconfig, seconds=seconds)
            reports.append(await trial.make(file))
            print(reports[-1], flush=True)
    return reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Tries files on one cluster."""

    world: World
    cluster: Cluster
    kubeconfig: str
    seconds: float
    """For each wait."""

    async def make(self, file: str) -> Report:
        """The result of one file."""
        report = Report(file=Path(file).name)
        try:
            async with namespace_of_its_own(self.world) as namespace:
                *maps, stack = await import_file(file, namespace)
                whole = import_world.unite(stack, maps)
                report.parts.append(f"{len(whole['spec']['template']['resources'])} resources")
                report.parts += [f"{len(maps)} ConfigMaps beside it"] if maps else []
                async with import_world.provided(self.world, whole, namespace=namespace), self.operator(whole):
                    for each in maps:
                        await self.cluster.apply(each, kind=import_world.CONFIG_MAP)
                    await self.run(stack, report, maps=maps)
        except (progress.Impossible, errors.HearthError) as error:
            report.error = str(error)
        return report

    @contextlib.asynccontextmanager
    async def operator(self, stack: Any) -> AsyncIterator[None]:
        """Run the operator; if possible only in the Stack's namespace, so that it disturbs no other user."""
        namespace = None if import_world.leaves_namespace(stack) else stack["metadata"]["namespace"]
        with tempfile.TemporaryDirectory() as folder:
            # Manifests for a whole cluster have objects in any namespace.
            running = operator_process.run_operator(
                self.kubeconfig, namespace=namespace, folder=folder, options=("--tenancy=trusted",)
            )
            async with running as operator:
                await wait_until(operator.is_ready, "the operator is ready", seconds=START)
                yield

    async def run(self, stack: Any, report: Report, *, maps: list[Any]) -> None:
        """Apply the Stack, wait for it, delete it, and look for leftovers."""
        namespace, name = stack["metadata"]["namespace"], stack["metadata"]["name"]
        applied = await self.cluster.apply(stack, kind=STACK)
        uid = applied["metadata"]["uid"]

        async def is_ready() -> bool:
            return import_world.is_ready(await self.cluster.find_stack(namespace, name))

        async def is_gone() -> bool:
            return await self.cluster.find_stack(namespace, name) is None

        async def is_clean() -> bool:
            return not (await self.world.find_left(namespace, stack_uid=uid)).others

        async def explain() -> str:
            return import_world.explain(await self.cluster.find_stack(namespace, name))

        try:
            took = await wait_until(is_ready, "the Stack is Ready", seconds=self.seconds, explain=explain)
            report.parts.append(f"Ready after {took:.1f} s")
        finally:
            await self.world.delete(STACK, namespace, name)
            took = await wait_until(is_gone, "the Stack is gone", seconds=self.seconds, explain=explain)
        report.parts.append(f"deleted after {took:.1f} s")
        for each in maps:
            await self.world.delete(import_world.CONFIG_MAP, namespace, each["metadata"]["name"])
        # The report lists leftovers by name.
        with contextlib.suppress(progress.Impossible):
            await wait_until(is_clean, "nothing is left", seconds=self.seconds)
        left = await self.world.find_left(namespace, stack_uid=uid)
        report.parts.append(f"left: {', '.join(left.claims) or 'nothing'}")
        if left.others:
            raise progress.Impossible(f"not deleted: {', '.join(left.others)}")


async def wait_until(
    is_reached: Callable[[], Awaitable[bool]],
    what: str,
    *,
    seconds: float,
    explain: Callable[[], Awaitable[str]] | None = None,
) -> float:
    """Return the seconds until the condition holds. Raises Impossible after the time limit."""
    began = time.monotonic()
    while not await is_reached():
        if time.monotonic() - began > seconds:
            reason = f": {await explain()}" if explain is not None else ""
            raise progress.Impossible(f"waited {seconds:.0f} s until {what}{reason}")
        await asyncio.sleep(LOOK)
    return time.monotonic() - began


async def import_file(file: str, namespace: str) -> list[Any]:
    """Return the objects that `hearth import` makes of the file: the Stack is the last."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hearth", "import", file, "--namespace", namespace),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    if process.returncode != 0:
        raise progress.Impossible(f"cannot be imported: {complaints.decode().strip()}")
    sys.stderr.write(complaints.decode())
    return [document.value for document in kubectl_yaml.parse_documents(output.decode())]


@contextlib.asynccontextmanager
async def namespace_of_its_own(world: World) -> AsyncIterator[str]:
    """The name of a fresh namespace, which is deleted at the end with its contents."""
    name = await world.create_namespace()
    try:
        yield name
    finally:
        await world.delete(NAMESPACE, "", name)


if __name__ == "__main__":
    sys.exit(main())
