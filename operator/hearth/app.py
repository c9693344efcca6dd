"""Builds the parts of the process around the engine, connects them, and runs the process.

`hearth.runtime` builds the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import structlog
import uvloop

import hearth
from hearth import clusters_process, leadership, supervision
from hearth.cli import profiling
from hearth.clusters_process import ClustersProcess
from hearth.handlers import kopf_supervisor
from hearth.handlers.callbacks import DefinitionCallbacks
from hearth.handlers.kopf_supervisor import KopfSupervisor
from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.leader_election import leader_elector
from hearth.kube.objects import installed_crds
from hearth.leadership import Leadership
from hearth.model import errors
from hearth.model.sharding import Place
from hearth.runtime import KubeRuntime
from hearth.serve import http_server, logs, process_upkeep, tracing
from hearth.serve.metrics import Metrics
from hearth.settings import LEASE_HELD_EXIT_CODE, Address, Settings

if TYPE_CHECKING:
    from hearth.admission import AdmissionService

log = structlog.get_logger(__name__)

GC_THRESHOLD = 10_000
"""Allocated and not yet freed objects after which Python collects garbage. With the usual 700, it would repeatedly
traverse the objects of requests in flight, which contain no cycles."""
SHUTDOWN_TIMEOUT = 4.5
"""Seconds from the first signal to the end of the process, even if a task hangs. The documented limit is five."""


class Runtime(Protocol):
    """The parts of the engine, and the caches below it, that the process needs."""

    async def reconcile_definition(self, name: str) -> None:
        """Reconcile a StackDefinition that may have changed. Raises ApiStatusError and Unreachable."""

    async def start(self) -> None:
        """Start to watch and reconcile, and return at once. Raises HearthError if that cannot start."""

    async def stop(self) -> None:
        """Start nothing new, and stop. Requests in flight may be cut off, because a stop at any point is safe."""

    def on_kinds(self) -> None:
        """Handle a change of the served kinds."""

    def find_dead_watches(self) -> Sequence[str]:
        """Return one sentence for each feature that stops working until the process restarts."""

    def find_not_ready(self) -> Sequence[str]:
        """Return the caches that are not synced yet, a sentence each."""

    def count_cached_objects(self) -> Mapping[str, float]:
        """Return the number of cached objects, by kind."""

    def count_cached_bytes(self) -> Mapping[str, float]:
        """Return the bytes of cached contents, by kind."""

    def count_elsewhere(self) -> int:
        """Count the Stacks of other clusters, which another process serves."""

    def count_stacks(self) -> Mapping[str, float]:
        """Return the number of Stacks, by phase."""

    def count_conditions(self) -> Mapping[str, float]:
        """Count the Stacks by true condition."""

    def count_definitions(self) -> Mapping[str, float]:
        """Count the StackDefinitions by the reason of their condition `Ready`."""

    def measure_actions(self) -> Mapping[str, float]:
        """Age of the oldest action in progress, by phase, in seconds."""

    def count_writes(self) -> Mapping[str, float]:
        """Count the writes of children by their state."""

    def measure_clusters(self) -> Mapping[str, Mapping[str, float]]:
        """Return measures of the other clusters, by their hosts."""


BuildRuntime: TypeAlias = Callable[[Settings, CredentialSource, Metrics, Callable[[], None]], Runtime]
"""Builds the engine. The last argument is called for each Stack that belongs to the process for other clusters."""


def run(settings: Settings, *, build: BuildRuntime = KubeRuntime, grace: float = SHUTDOWN_TIMEOUT) -> int:
    """Run the operator until a signal stops it, and return the exit code. grace: seconds that the shutdown may take."""
    logs.configure(format_=settings.log_format, level=settings.log_level)
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    settings = settings.find_own_part()
    if settings.share.place is Place.ELSEWHERE:
        clusters_process.limit_itself(settings.clusters_memory)
    try:
        with profiling.profiled(settings.profile), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_operator(settings, build, grace))
    except leader_elector.LeadershipLost as error:
        log.error("leadership lost; exiting", reason=str(error))  # noqa: TRY400 -- as below
        return 1
    except leader_elector.LeaseHeld as error:
        log.error("cannot start", reason=str(error))  # noqa: TRY400 -- as below
        return LEASE_HELD_EXIT_CODE
    except (errors.HearthError, http_server.CannotListen) as error:
        log.error("cannot start", reason=str(error))  # noqa: TRY400 -- a sentence for the user, who needs no stack
        return 1
    return 0


async def run_operator(settings: Settings, build: BuildRuntime, grace: float) -> None:
    """Run the process from start to end, in reading order. The parts stop in reverse order."""
    stopping = handle_signals(grace)
    observer = make_observer()
    if settings.share.place is Place.ELSEWHERE:
        clusters_process.follow_parent(stopping.set, render=observer.render)
    source = await find_checked_source(settings)
    clusters = ClustersProcess(settings, on_end=observer.on_clusters_process_end)
    engine = build(settings, source, observer, clusters.note_stack)
    sample(observer, engine)
    leader = leadership.make_leadership(settings, source, observer, grace=grace)

    admission = make_admission(settings, source, observer)
    kopf = make_kopf(source, engine, leader, observer, admission=admission)

    lateness = process_upkeep.Lateness()
    async with contextlib.AsyncExitStack() as parts:
        parts.callback(observer.close)
        endpoints = make_endpoints(engine, leader, observer, lateness, clusters=clusters, admission=admission)
        address = await parts.enter_async_context(run_http(endpoints, settings, observer))

        await parts.enter_async_context(run_admission(admission, kopf))
        leader.start()
        parts.push_async_callback(leader.stop)
        await supervision.wait_any(
            leader.acquired.wait(), leader.lost.wait(), stopping.wait(), name="wait for an event"
        )

        if leader.acquired.is_set():
            frames = find_frames(settings, kopf, source, engine, observer)
            await parts.enter_async_context(run_active(engine, frames, clusters, observer, lateness))
            log.info("started", version=hearth.__version__, http=str(address), namespace=settings.namespace or "all")
            await supervision.wait_any(leader.lost.wait(), stopping.wait(), name="wait for an event")
        log.info("stopping")
    if leader.lost.is_set():
        raise leader.explain_loss()
    log.info("stopped")


def make_observer() -> Metrics:
    """Make the observer that receives all errors that no code expects."""
    observer = tracing.make_observer(os.environ)
    supervision.current().on_error = observer.on_internal_error
    asyncio.get_running_loop().set_exception_handler(supervision.handle_loop_error)
    return observer


def sample(metrics: Metrics, runtime: Runtime) -> None:
    """Let the observer read the measures of the engine."""
    metrics.sample(
        cached_objects=runtime.count_cached_objects,
        cached_bytes=runtime.count_cached_bytes,
        stacks=runtime.count_stacks,
        conditions=runtime.count_conditions,
        actions=runtime.measure_actions,
        definitions=runtime.count_definitions,
        writes=runtime.count_writes,
        clusters=runtime.measure_clusters,
    )


async def find_checked_source(settings: Settings) -> CredentialSource:
    """Return the credentials. Raises HearthError for problems that an administrator must correct before anything else
    starts.
    """
    source = credentials.find_source(kubeconfig=settings.kubeconfig, context=settings.context, environ=os.environ)
    # Read the credentials once, so that an error in them is reported in one sentence and ends the start.
    await asyncio.to_thread(source.load)
    # Check before the election: if a rolling update precedes its CRDs, the earlier version keeps working.
    await installed_crds.check_source(source)
    return source


def make_admission(settings: Settings, source: CredentialSource, metrics: Metrics) -> AdmissionService | None:
    """Make the admission webhook; None if it is off."""
    if settings.webhook_address is None:
        return None
    # Imported here, because certificates need a large library.
    from hearth import admission

    return admission.AdmissionService(settings, settings.webhook_address, source, metrics)


def make_kopf(
    source: CredentialSource,
    runtime: Runtime,
    leader: Leadership,
    metrics: Metrics,
    *,
    admission: AdmissionService | None,
) -> KopfSupervisor:
    """Make the frame of the handlers."""

    def on_kinds() -> None:
        if admission is not None:
            admission.on_kinds()
        if leader.acquired.is_set():
            runtime.on_kinds()

    return kopf_supervisor.make_supervisor(
        source,
        kopf_supervisor.KopfCallbacks(on_kinds=on_kinds, on_restart=metrics.on_kopf_restart),
        admission=admission.callbacks if admission is not None else None,
    )


def find_frames(
    settings: Settings, kopf: KopfSupervisor, source: CredentialSource, runtime: Runtime, metrics: Metrics
) -> Sequence[KopfSupervisor]:
    """Return each kopf that only the active process runs; with a webhook, every replica runs the kopf of the reviews."""
    is_apart = settings.share.place is Place.ELSEWHERE
    frames = [kopf] if settings.webhook_address is None and not is_apart else []
    if settings.serves_definitions and not is_apart:
        frames.append(
            kopf_supervisor.make_definitions_supervisor(
                source,
                DefinitionCallbacks(reconcile=runtime.reconcile_definition, leads=settings.share.leads),
                on_restart=metrics.on_kopf_restart,
            )
        )
    return frames


def make_endpoints(
    runtime: Runtime,
    leader: Leadership,
    metrics: Metrics,
    lateness: process_upkeep.Lateness,
    *,
    clusters: ClustersProcess,
    admission: AdmissionService | None = None,
) -> http_server.Endpoints:
    """Make the HTTP endpoints. A standby is ready when it knows the leader, and either when it serves the webhook."""

    def find_not_ready() -> Sequence[str]:
        unready = runtime.find_not_ready() if leader.acquired.is_set() else leader.find_not_ready()
        return [*unready, *(admission.find_not_ready() if admission is not None else ())]

    return http_server.Endpoints(
        alive=lambda: [*runtime.find_dead_watches(), *lateness.find_trouble()],
        ready=find_not_ready,
        metrics=lambda: metrics.render(clusters.metrics),
    )


@contextlib.asynccontextmanager
async def run_http(
    endpoints: http_server.Endpoints, settings: Settings, metrics: Metrics
) -> AsyncIterator[Address | None]:
    """Serve the HTTP endpoints; a process for other clusters is part of its parent's."""
    if settings.share.place is Place.ELSEWHERE:
        yield None
        return
    http = http_server.HttpServer(endpoints, on_limit=metrics.on_limit)
    address = await http.start(settings.http_address)
    try:
        yield address
    finally:
        await http.stop()


@contextlib.asynccontextmanager
async def run_admission(admission: AdmissionService | None, kopf: KopfSupervisor) -> AsyncIterator[None]:
    """Run the admission webhook, which every replica serves: its kopf does not wait for the leadership."""
    if admission is None:
        yield
        return
    admission.start()
    kopf.start()
    try:
        yield
    finally:
        await asyncio.gather(kopf.stop(), admission.stop())


@contextlib.asynccontextmanager
async def run_active(
    runtime: Runtime,
    frames: Sequence[KopfSupervisor],
    clusters: ClustersProcess,
    metrics: Metrics,
    lateness: process_upkeep.Lateness,
) -> AsyncIterator[None]:
    """Run the parts that only the active process runs. frames: see `find_frames`."""
    metrics.on_leading()
    await runtime.start()
    clusters.start(runtime.count_elsewhere)
    for each in frames:
        each.start()

    heap = process_upkeep.HeapTrimmer(process_upkeep.find_trim())

    def note_lag(seconds: float) -> None:
        metrics.on_lag(seconds)
        lateness.note(seconds)
        heap.look()

    measuring = supervision.spawn_forever("lag", lambda: process_upkeep.measure_lag(note_lag))
    try:
        yield
    finally:
        measuring.cancel()
        # Stop both together: kopf takes time, and the engine must not work in the meantime.
        await asyncio.gather(runtime.stop(), clusters.stop(), *(each.stop() for each in frames))


def handle_signals(grace: float) -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets. A second one, or `grace` seconds, end the process."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        # Otherwise, a thread that hangs, for example in an exec plugin, would keep the interpreter from exiting.
        end = threading.Timer(grace, os._exit, args=(leadership.FORCED_EXIT_CODE,))
        end.daemon = True
        end.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping
