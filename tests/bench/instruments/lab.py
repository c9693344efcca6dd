"""The shared parts of benchmarks: namespaces, the operator, the user's observations, and measuring."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.instruments import bare_api, operator_run, place, profiles, usage, watches
from bench.instruments.bare_api import BareApi
from bench.instruments.figures import Phase
from bench.instruments.operator_run import Operator
from bench.instruments.watches import Children, Stacks
from bench.instruments.workload import Workload
from hearth.model.kinds import Kind

PATIENCE = 900.0
"""Seconds for one piece of work, on a machine that is busy with something else."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkOptions:
    """The user's options for a run."""

    kubeconfig: Path
    """Absolute."""
    quick: bool
    """Use only a few objects, to test that it works, not how fast."""
    profiles: Path | None
    """A folder for profiles of the operator; making them slows it down by half."""
    say: Say
    as_account: bool = False
    """Whether each Stack names a ServiceAccount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    id: str
    work: str
    """In words."""
    measure: Callable[[BenchmarkOptions, str], Awaitable[list[Phase]]]
    """Called with the options and the name of the benchmark."""
    is_usual: bool = True
    """Whether it runs by default; benchmarks of many minutes do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The counts up to that time; CPU in seconds."""

    time: float
    machine_cpu: float
    known_cpu: float
    """CPU of the operator, the control plane and this process."""
    control_plane_cpu: float
    operator_cpu: float
    requests: Counter[str]
    """The operator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """Everything that a benchmark needs; made by `opened`."""

    benchmark: str
    options: BenchmarkOptions
    api: BareApi
    namespace: str
    ceiling_namespace: str
    stacks: Stacks
    children: Children
    servers: list[int]
    """The processes of the API server and etcd; empty if they are not on this machine."""
    rest_of_control_plane: list[int]

    def say(self, sentence: str) -> None:
        """Print progress."""
        self.options.say(f"{self.benchmark}: {sentence}")

    def operator(self, *options: str) -> AbstractAsyncContextManager[Operator]:
        """Run the operator within the block, with these further flags."""
        folder = self.options.profiles
        profile = profiles.path_of(folder, self.benchmark) if folder else None
        return operator_run.running(
            str(self.options.kubeconfig), namespace=self.namespace, profile=profile, options=options
        )

    def read_bare_cpu(self) -> float | None:
        """Seconds of CPU used by us and the control plane; None if they are not on this machine."""
        return usage.read_cpu([os.getpid(), *self.servers]) if self.servers else None

    async def look(self, operator: Operator | None) -> Moment:
        """The current state. None: it does not exist yet."""
        control_plane_cpu = usage.read_cpu(self.servers)
        operator_cpu = usage.read_cpu([operator.number]) if operator else 0.0
        ours = usage.read_cpu([os.getpid(), *self.rest_of_control_plane])
        return Moment(
            time=time.perf_counter(),
            machine_cpu=usage.read_machine_cpu(),
            known_cpu=ours + control_plane_cpu + operator_cpu,
            control_plane_cpu=control_plane_cpu,
            operator_cpu=operator_cpu,
            requests=await operator.get_requests() if operator else Counter(),
        )

    async def measure(
        self, operator: Operator, name: str, workload: Workload, work: Callable[[], Awaitable[object]]
    ) -> Phase:
        """The operator's cost during the work, and until it was idle."""
        before = await self.look(operator)
        async with asyncio.timeout(PATIENCE):
            await work()
        return await self.finish(operator, name, workload, before=before, done=await self.look(operator))

    async def finish(self, operator: Operator, name: str, workload: Workload, *, before: Moment, done: Moment) -> Phase:
        """The figures of work that ended at a moment, including the operator's activity for it since then."""
        await operator.wait_quiet()
        after = await self.look(operator)
        written = self.children.last_change - before.time
        phase = Phase(
            benchmark=self.benchmark,
            name=name,
            stacks=workload.stacks,
            objects=workload.objects,
            seconds=done.time - before.time,
            written_seconds=written if written > 0 else None,
            operator_cpu=after.operator_cpu - before.operator_cpu,
            control_plane_cpu=after.control_plane_cpu - before.control_plane_cpu if self.servers else None,
            others_share=find_others_share(before, done),
            peak_rss=usage.read_peak_memory(operator.number),
            requests=dict(sorted((after.requests - before.requests).items())),
        )
        self.say(f"{phase.name}: {phase.objects} objects in {phase.seconds:.1f} s")
        return phase


def find_others_share(before: Moment, after: Moment) -> float:
    """The share of the machine's CPU time of processes unrelated to the benchmark."""
    machine = after.machine_cpu - before.machine_cpu
    known = after.known_cpu - before.known_cpu
    return min(1.0, max(0.0, 1 - known / machine)) if machine > 0 else 0.0


@contextlib.asynccontextmanager
async def opened(options: BenchmarkOptions, benchmark: str, *, kinds: list[Kind]) -> AsyncIterator[Lab]:
    """A lab for one benchmark. kinds: the kinds of the children that it creates."""
    folder = options.kubeconfig.parent
    async with contextlib.AsyncExitStack() as parts:
        api = await parts.enter_async_context(bare_api.connected(str(options.kubeconfig)))
        await place.install(api)
        namespace = await parts.enter_async_context(place.namespace(api, benchmark))
        if options.as_account:
            await place.make_account(api, namespace)
        yield Lab(
            benchmark=benchmark,
            options=options,
            api=api,
            namespace=namespace,
            ceiling_namespace=await parts.enter_async_context(place.namespace(api, f"{benchmark}-ceiling")),
            stacks=await parts.enter_async_context(watches.watching_stacks(api, namespace)),
            children=await parts.enter_async_context(watches.watching_children(api, namespace, kinds)),
            servers=usage.find_processes(usage.SERVERS, folder=folder),
            rest_of_control_plane=usage.find_processes(usage.REST_OF_CONTROL_PLANE, folder=folder),
        )
