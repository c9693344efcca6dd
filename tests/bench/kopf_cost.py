"""The CPU cost of a Stack event: kopf with an event handler, compared with the engine's own cache of Stacks.

The figures are in docs/decisions/0001-engine-watches-stacks.md. Both receive the same number of status changes, each in
its own process (`event_listeners.py`), round by round, so that kopf never merges two changes into one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import uvloop

from bench.instruments import bare_api, place, user, workload
from bench.instruments.bare_api import BareApi
from bench.instruments.workload import Workload
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK

VARIABLE = "HEARTH_TEST_KUBECONFIG"
LISTENERS = Path(__file__).resolve().parent / "event_listeners.py"


def main() -> int:
    """Print a line for each way and the ratio; the exit code."""
    parser = argparse.ArgumentParser(description="Measure what an event of a Stack costs kopf, and the engine's cache.")
    parser.add_argument("--stacks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5, help="how often each of them changes")
    arguments = parser.parse_args()
    kubeconfig = os.environ.get(VARIABLE)
    if kubeconfig is None:
        print(f"error: {VARIABLE} names no cluster", file=sys.stderr)
        return 2
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        costs = runner.run(measure(kubeconfig, stacks=arguments.stacks, rounds=arguments.rounds))
    events = arguments.stacks * arguments.rounds
    for way, seconds in costs.items():
        print(f"{way:6} {1e6 * seconds / events:6.0f} µs of CPU per event ({events:,} events, {seconds:.2f} s)")
    print(f"ratio  {costs['kopf'] / costs['cache']:6.1f}")
    return 0


async def measure(kubeconfig: str, *, stacks: int, rounds: int) -> dict[str, float]:
    """CPU seconds of each listener."""
    work = Workload(template=workload.make_small_template(), stacks=stacks)
    async with bare_api.connected(kubeconfig) as api:
        await place.install(api)
        async with place.namespace(api, "kopf-cost") as namespace:
            names = await create(api, work, namespace)
            costs = {}
            for way in ("cache", "kopf"):
                command = [str(LISTENERS), way, kubeconfig, namespace, str(stacks), str(rounds)]
                process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE)
                costs[way] = await make_changes(api, names, process, mark=way, rounds=rounds)
            return costs


async def create(api: BareApi, work: Workload, namespace: str) -> list[str]:
    """Create Stacks that no operator reconciles, and return their paths."""
    made = work.make_stacks(namespace)
    path = api_requests.collection_path(STACK, namespace)

    async def send(stack: Object) -> None:
        await api.send("POST", path, body=stack)

    await bare_api.for_each(made, send)
    return [user.path_of(stack) for stack in made]


async def make_changes(api: BareApi, paths: list[str], listener: Process, *, mark: str, rounds: int) -> float:
    """The CPU seconds of a listener for that many rounds of changes."""
    assert listener.stdout is not None
    await listener.stdout.readline()
    for number in range(rounds):

        async def send(path: str, text: str = f"{mark} {number}") -> None:
            await api.send("PATCH", f"{path}/status", body={"status": {"summary": text}}, content_type=bare_api.MERGE)

        await bare_api.for_each(paths, send)
        await listener.stdout.readline()
    seconds = float(await listener.stdout.readline())
    await listener.wait()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
