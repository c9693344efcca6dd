"""Memory and CPU per process when the Stacks are divided among a growing number of processes.

Run by hand against an otherwise idle cluster, after `make cluster`:

    PYTHONPATH=operator:tests python tests/bench/shards.py --kubeconfig "$(python tests/control_plane/controlplane.py kubeconfig)"

Prints a line for each number of processes; the first line is a process without Stacks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from support.real import operator_fleet, real_user
from support.real.operator_fleet import Crew
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser
from support.server import fake_kinds
from support.stories.world import Address

COUNTS = (1, 2, 4)
PATIENCE = 400.0
"""Seconds for anything."""
QUIET = 2.0
"""Seconds with almost no CPU use after which a process is idle."""
AT_REST = 0.1
"""Seconds of CPU in that time: renewals, and being asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of one process since its start."""

    seconds: float
    """Of CPU."""
    mebibytes: float
    """Of memory, now."""


async def measure(operators: list[OperatorProcess]) -> list[Usage]:
    seconds = [await asyncio.to_thread(each.read_metric, "process_cpu_seconds_total") for each in operators]
    return [Usage(seconds=taken, mebibytes=each.read_memory()) for taken, each in zip(seconds, operators, strict=True)]


async def wait_quiet(operators: list[OperatorProcess]) -> None:
    """Until none of them does anything."""
    before = [0.0] * len(operators)
    while True:
        now = [each.seconds for each in await measure(operators)]
        if all(later - sooner < AT_REST for sooner, later in zip(before, now, strict=True)):
            return
        before = now
        await asyncio.sleep(QUIET)


def tell(what: str, found: list[Usage], *, took: float | None = None) -> None:
    """One line: of each process its CPU and memory."""
    seconds = ", ".join(f"{each.seconds:.1f}" for each in found)
    memory = ", ".join(f"{each.mebibytes:.0f}" for each in found)
    suffix = f"   in {took:.1f} s" if took is not None else ""
    print(f"{what:<42} CPU {seconds} s   memory {memory} MiB{suffix}", flush=True)


@contextlib.asynccontextmanager
async def namespace(connection: Connection) -> AsyncIterator[RealUser]:
    """A fresh namespace, deleted at the end."""
    kind = fake_kinds.NAMESPACE.kind
    top = {"apiVersion": kind.api_version, "kind": kind.name}
    made = await RealUser(connection, "").create({**top, "metadata": {"generateName": "bench-shards-"}})
    user = RealUser(connection, made["metadata"]["name"])
    yield user
    await operator_fleet.abandon_stacks(user)
    await user.delete(Address.of({**top, "metadata": made["metadata"]}))


@contextlib.asynccontextmanager
async def working(user: RealUser, kubeconfig: Path, count: int) -> AsyncIterator[list[OperatorProcess]]:
    """Run that many operators, which divide the Stacks of that namespace."""
    with tempfile.TemporaryDirectory(prefix="hearth-shards-") as folder:
        workers = Crew(kubeconfig=kubeconfig, namespace=user.namespace, folder=Path(folder))
        try:
            yield await asyncio.gather(
                *(workers.hire(f"--shards={count}", f"--shard={index}") for index in range(count))
            )
        finally:
            await workers.dismiss()


async def create(user: RealUser, stacks: list[dict[str, Any]]) -> None:
    """All of them, some at a time, and wait until they are complete."""
    at_once = asyncio.Semaphore(16)

    async def create_one(stack: dict[str, Any]) -> None:
        async with at_once:
            await user.create(stack)

    await asyncio.gather(*(create_one(stack) for stack in stacks))
    await operator_fleet.wait_complete(user, *stacks, seconds=PATIENCE)


async def run_one(connection: Connection, kubeconfig: Path, *, count: int, stacks: int, size: int) -> None:
    """Create everything with that many processes, then restart them."""
    async with namespace(connection) as user:
        if count == 1:
            async with working(user, kubeconfig, 1) as operators:
                await wait_quiet(operators)
                tell("no Stacks", await measure(operators))
        async with working(user, kubeconfig, count) as operators:
            begun = time.monotonic()
            await create(
                user,
                [operator_fleet.make_stack(user.namespace, size=size, name=f"s{number}") for number in range(stacks)],
            )
            took = time.monotonic() - begun
            tell(f"{count} of them create all", await measure(operators), took=took)
        async with working(user, kubeconfig, count) as operators:
            await wait_quiet(operators)
            tell(f"{count} of them restarted", await measure(operators))


async def main() -> None:
    """Measure, for each number of processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--stacks", type=int, default=400)
    parser.add_argument("--size", type=int, default=10, help="resources of each Stack")
    options = parser.parse_args()
    source = credentials.find_source(kubeconfig=str(options.kubeconfig), context=None, environ={})
    print(f"{options.stacks} Stacks of {options.size} ConfigMaps")
    async with Connection(source) as connection:
        await real_user.install_all(RealUser(connection, ""))
        for count in COUNTS:
            await run_one(connection, options.kubeconfig, count=count, stacks=options.stacks, size=options.size)


if __name__ == "__main__":
    asyncio.run(main())
