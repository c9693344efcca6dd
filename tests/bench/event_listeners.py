"""Two ways to receive events about Stacks, each as a separate process: `event_listeners.py kopf|cache KUBECONFIG
NAMESPACE STACKS ROUNDS`.

Prints a line when all Stacks are known, a line whenever each of them has changed once more, and finally the CPU seconds
since they were known. Each listener gets the Stack parsed, as a handler or a pass does.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import kopf
import uvloop

from hearth.handlers import kopf_run
from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.cache.stack_cache import StackCache
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.serve import logs

SETTLE = 2.0
"""Seconds until all work after an event is done."""


@dataclass(slots=True)
class Count:
    """Counts the events of a round, and prints a line when the round is complete."""

    stacks: int
    heard: int = 0
    rounds: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    def add(self) -> None:
        self.heard += 1
        if self.heard % self.stacks == 0:
            self.rounds.put_nowait(None)

    async def tell(self, rounds: int) -> None:
        """Print the result of this module."""
        await self.rounds.get()
        await asyncio.sleep(SETTLE)
        begun = time.process_time()
        print("known", flush=True)
        for _ in range(rounds):
            await self.rounds.get()
            print("round", flush=True)
        await asyncio.sleep(SETTLE)
        print(time.process_time() - begun, flush=True)


class Listen(Protocol):
    """Type of the two listeners."""

    async def __call__(self, source: CredentialSource, namespace: str, count: Count) -> None:
        """Listen until cancelled."""


async def listen_by_kopf(source: CredentialSource, namespace: str, count: Count) -> None:
    """Listen with a kopf event handler, with the operator's settings."""
    registry = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return kopf_run.make_connection_info(await asyncio.to_thread(source.load))

    async def hear(**_: Any) -> None:
        count.add()

    kopf.on.login(id="log-in", registry=registry)(log_in)
    kopf.on.event(names.GROUP, names.VERSION, "stacks", id="hear", registry=registry)(hear)
    settings = kopf_run.make_settings()
    await kopf.operator(registry=registry, settings=settings, standalone=True, namespaces=[namespace])


class PassingListener:
    """Does the first steps of a reconcile."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.cache: StackCache | None = None

    def on_stack(self, uid: str) -> None:
        """A Stack was added, changed or deleted."""
        assert self.cache is not None
        self.cache.find_stack(uid)
        self._count.add()


async def listen_by_cache(source: CredentialSource, namespace: str, count: Count) -> None:
    """Listen with the engine's own cache."""
    listener = PassingListener(count)
    async with Connection(source) as connection:
        listener.cache = StackCache(connection, listener.on_stack, namespace=namespace)
        listener.cache.start()
        await asyncio.get_running_loop().create_future()


async def run(listen: Listen, kubeconfig: str, namespace: str, *, stacks: int, rounds: int) -> None:
    """Listen, and print."""
    source = credentials.find_source(kubeconfig=kubeconfig, context=None, environ={})
    count = Count(stacks)
    listening = asyncio.ensure_future(listen(source, namespace, count))
    telling = asyncio.create_task(count.tell(rounds))
    done, _ = await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    listening.cancel()
    await asyncio.wait({listening})


def main() -> None:
    """Do as the module says."""
    way, kubeconfig, namespace, stacks, rounds = sys.argv[1:]
    # Log to standard error, because the benchmark reads standard output.
    logs.configure(format_="text", level="warning")
    listen, make_loop = {
        # As in the operator, kopf has its own default event loop.
        "kopf": (listen_by_kopf, asyncio.new_event_loop),
        "cache": (listen_by_cache, uvloop.new_event_loop),
    }[way]
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(run(listen, kubeconfig, namespace, stacks=int(stacks), rounds=int(rounds)))


if __name__ == "__main__":
    main()
