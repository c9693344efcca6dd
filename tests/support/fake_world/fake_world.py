"""A story's world in memory and in virtual time: the fake server, the engine on it, and simulated probes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
from collections.abc import Callable, Coroutine, Iterator, Mapping, MutableMapping
from typing import Any, Concatenate, ParamSpec, TypeAlias

import structlog

from hearth import supervision
from hearth.engine import services, stack_controller, work_queue
from hearth.engine.ports import Evaluations
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from hearth.model.tenancy import Mode, Tenancy
from hearth.plan.health import health_rules
from hearth.plan.ownership import keyed_hash
from hearth.plan.retry import backoff
from support import virtual_time
from support.checks import secret_leaks
from support.checks.deletion_invariants import Oversight
from support.checks.invariants import Witness
from support.checks.volume_writers import VolumeWriters
from support.fake_world import fake_user
from support.fake_world.fake_user import FakeUser
from support.ports import fake_remote_clusters
from support.ports.fake_connection import FakeWire
from support.ports.fake_health_mark_client import FakeMarks
from support.ports.fake_management_cluster import FakeManagementCluster
from support.ports.fake_plans import FakePlans, FakePreviews
from support.ports.fake_remote_clusters import FakeRemoteClusters, OtherServer
from support.ports.fake_snapshot_client import FakeSnapshots
from support.ports.fake_stack_definitions import FakeStackDefinitions
from support.ports.fake_workload_cluster import FakeWorkloadCluster
from support.ports.silent_ports import SilentObserver
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.server.request_faults import Traffic
from support.stories import deployment_controller, probe_controller
from support.stories.world import Check, find_nothing
from support.units.in_process import InProcess
from support.virtual_time import VirtualClock

WORKLOADS = (fake_kinds.DEPLOYMENT.kind, fake_kinds.JOB.kind, fake_kinds.POD.kind)
"""Kinds that the simulated controllers and kubelet watch."""
QUIET = 30.0
"""Seconds without a request or a change after which the world is at rest."""
LONGEST = 3600.0
"""Maximum seconds until a world must be at rest."""
MOST_JUMPS = 500
"""Maximum number of timers that may fire within a second without a request or change."""
RESTART_AFTER = 1.0
"""Seconds from the crash of an operator to the start of the next one."""
FIRST_UID_THERE = 1_000_000
"""The first UID of another cluster, higher than any UID of the first cluster."""
OPERATOR_NAMESPACE = "default"
"""The namespace of the operator's own objects in all fake worlds."""
HASHER = keyed_hash.KeyedHasher(fake_user.HASH_KEY)


class NeverRests(AssertionError):
    """Something was still busy after the longest time that a story may take."""


Connect: TypeAlias = Callable[[FakeServer, Traffic], FakeWire]
"""Creates the connection of an operator."""
Evaluate: TypeAlias = Callable[[work_queue.WorkQueue], Evaluations]
"""Creates the evaluator of long expressions for an operator."""
Parameters = ParamSpec("Parameters")


class InternalError(AssertionError):
    """An error that must never happen in any world."""


@contextlib.contextmanager
def diary() -> Iterator[list[str]]:
    """The errors that operators log inside the block; nothing is printed."""
    mistakes: list[str] = []

    def keep(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        shown = structlog.processors.format_exc_info(logger, method, event)
        reported = "\n".join(str(value) for value in shown.values())
        if method in {"error", "critical", "exception"}:
            mistakes.append(reported)
        mistakes.extend(secret_leaks.find_leaks("the log", reported))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield mistakes
    finally:
        structlog.configure(**before)


def run(test: Callable[[FakeWorld], Coroutine[Any, Any, None]], *, shards: int = 1) -> None:
    """Run a test in its own fake world, with that many operators.

    Raises InternalError if an operator logged one, or if an invariant was violated.
    """
    if mistakes := find_mistakes(test, shards=shards):
        raise InternalError("\n".join(mistakes))


def in_world(
    test: Callable[Concatenate[FakeWorld, Parameters], Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Wrap a test so that it runs in its own fake world in virtual time; see `run`."""

    def run_test(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        run(lambda world: test(world, *args, **kwargs))

    return virtual_time.stand_for(test, run_test, given=1)


def find_mistakes(test: Callable[[FakeWorld], Coroutine[Any, Any, None]], *, shards: int = 1) -> list[str]:
    """Run a test that makes operators log errors; return these errors and all violations of invariants."""

    async def play() -> None:
        world = FakeWorld(shards=shards)
        await test(world)
        mistakes.extend(secret_leaks.find_leaks("an Event", world.traffic.events))
        mistakes.extend([*world.witness.wrong, *world.oversight.wrong, *world.writers.wrong])

    with diary() as mistakes, supervision.using(supervision.Supervisor(jitter=lambda: 0.5)):
        virtual_time.run(play)
    return mistakes


def run_shared(test: Callable[[FakeWorld], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a world that it shares with tenants, whose faults are ignored.

    Raises InternalError if an invariant was violated for its own Stacks.
    """

    async def play() -> None:
        world = FakeWorld(is_shared=True)
        await test(world)
        wrong.extend([*world.witness.wrong, *world.oversight.wrong, *world.writers.wrong])

    wrong: list[str] = []
    with diary(), supervision.using(supervision.Supervisor()):
        virtual_time.run(play)
    if wrong:
        raise InternalError("\n".join(wrong))


class Controller:
    """One life of the operator."""

    def __init__(
        self,
        server: FakeServer,
        traffic: Traffic,
        share: Share,
        *,
        concurrency: int,
        tenancy: Tenancy | None = None,
        connect: Connect = FakeWire,
        others: Mapping[str, OtherServer] | None = None,
        evaluate: Evaluate = lambda _queue: InProcess(),
        hasher: keyed_hash.KeyedHasher = HASHER,
    ) -> None:
        """concurrency: maximum child writes in flight; connect: makes its connection to the server.

        hasher: with the key of all hashes and signatures; evaluate: makes the evaluator of long expressions; others:
        the other clusters by their names.
        """
        self._evaluate = evaluate
        self._hasher = hasher
        self._others = others if others is not None else {}
        self._tenancy = tenancy or Tenancy()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clock = VirtualClock()
        self._context = contextvars.copy_context()
        self._context.run(virtual_time.OWNER.set, self._tasks)
        self._context.run(lambda: self._make(connect(server, traffic), share, concurrency))

    def _make(self, wire: FakeWire, share: Share, concurrency: int) -> None:
        self.wire = wire
        observer = SilentObserver()
        self.limits = observer.limits
        heard = work_queue.WorkQueue(self._clock.monotonic)
        workload_cluster = FakeWorkloadCluster(self.wire, heard, signatures=self._hasher, share=share)
        evaluations = self._evaluate(heard)
        self.remotes = FakeRemoteClusters(self._others, wire.traffic, heard, signatures=self._hasher, share=share)
        management_cluster = FakeManagementCluster(self.wire, heard, share=share)
        definitions = FakeStackDefinitions(self.wire, management_cluster, share.leads)
        shared = services.Services(
            management_cluster=management_cluster,
            definitions=definitions,
            definition_groups=frozenset({fake_kinds.DEFINED_GROUP}),
            health_marks=FakeMarks(self.wire, heard.on_health_mark),
            snapshots=FakeSnapshots(self.wire, heard.on_stack_snapshot),
            plans=FakePlans(self.wire, heard.on_plan),
            previews=FakePreviews(self.wire.server, self._hasher),
            workload_cluster=workload_cluster,
            remote_clusters=self.remotes,
            share=share,
            clock=self._clock,
            hashes=self._hasher,
            queue=heard,
            backoff=backoff.BackoffPolicy(jitter=lambda: 0.5),
            health_rules=health_rules.HealthRules(schemas=workload_cluster.kinds, scripts=evaluations),
            evaluations=evaluations,
            own_namespace=OPERATOR_NAMESPACE,
            tenancy=self._tenancy,
            on_limit=observer.on_limit,
        )
        self.engine = stack_controller.StackController(services=shared, observer=observer, concurrency=concurrency)
        if self.engine.definitions is not None:
            definitions.on_change = self.engine.definitions.reconcile_now

    async def start(self) -> None:
        """Start the operator."""
        await asyncio.get_running_loop().create_task(self.engine.start(), context=self._context)

    def kill(self) -> None:
        """Kill it at this moment: none of its pending requests gets through."""
        self.wire.cut()
        self.remotes.cut()
        self._clock.stop()
        for task in list(self._tasks):
            task.cancel()


class FakeWorld:
    """The protocol `World`; made inside a virtual loop."""

    has_virtual_time = True
    hasher = HASHER
    """The key that operators started later sign with."""
    latency: float | None = None
    """One-way latency in seconds for operators started later; None for the default."""
    find_latency: Callable[[], float] | None = None
    """Latency per request; None: all requests take the same time."""

    definer_accounts: frozenset[str] = frozenset()
    """The accounts that StackDefinitions may name, for operators started later."""

    def __init__(self, *, namespace: str = "default", shards: int = 1, is_shared: bool = False) -> None:
        """shards: the number of operators that share the Stacks. They start and crash together.

        is_shared: whether there are tenants in other namespaces, whose changes and requests are ignored.
        """
        self.namespace = namespace
        self._shares = [Share(index=index, count=shards) for index in range(shards)]
        self.traffic = Traffic(kill=self._on_death, namespaces=frozenset({"", namespace}) if is_shared else None)
        self._clock = VirtualClock()
        self.server = FakeServer(self._clock.now)
        self.controllers: list[Controller] = []
        self.event_delay: float | None = None
        """Delay of events in seconds for operators started later; None for the default."""
        self.evaluate: Evaluate = lambda _queue: InProcess()
        """Creates the evaluator of long expressions for operators started later."""
        self.tenancy = Mode.ISOLATED
        """The tenancy of operators started later."""
        self.default_account = ""
        """The ServiceAccount of Stacks that name none, for operators started later."""
        self.concurrency = stack_controller.CONCURRENCY
        """Maximum number of child writes in flight, for operators started later."""
        self.others: dict[str, OtherServer] = {}
        """The other clusters by name."""
        self.user = FakeUser(self.server, self.others)
        self._player = probe_controller.Player(self.user, now=self._now)
        self._workloads = deployment_controller.Controller(self.server)
        self._change = asyncio.Event()
        self._changes = self._others_changes = 0
        self.witness = Witness()
        self.oversight = Oversight(self.traffic, self._clock.monotonic)
        self.writers = VolumeWriters()
        self.traffic.listeners.append(self.oversight.on_request)
        self.server.watchers.append(self._on_change)
        self.server.create(probe_controller.definition(), manager=fake_user.MANAGER)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now(), tz=datetime.UTC)

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        ours = self.traffic.namespaces
        if raw is None or ours is None or raw["metadata"].get("namespace", "") in ours:
            self._changes += 1
            self._others_changes += self.traffic.acting is None
            self._change.set()
            self.witness.on_change(kind, before, after)
            self.oversight.on_change(kind, before, after)
            self.writers.on_change(kind, before, after)
        if kind.group == probe_controller.GROUP:
            # A separate context: tasks that the player starts must outlive the operator that triggered it.
            asyncio.get_running_loop().call_soon(self._show, before, after, context=contextvars.Context())
        elif kind in WORKLOADS:
            asyncio.get_running_loop().call_soon(
                self._workloads.show, kind, before, after, context=contextvars.Context()
            )

    def _show(self, before: Object | None, after: Object | None) -> None:
        """Report a change to the simulated probes."""
        if after is not None:
            self._player.show(after)
        elif before is not None:
            self._player.forget(before["metadata"]["uid"])

    # ------------------------------------------------------------ the operator

    async def start_controller(self) -> None:
        """As the protocol says."""
        started = self.controllers = [
            Controller(
                self.server,
                self.traffic,
                share,
                concurrency=self.concurrency,
                tenancy=Tenancy(
                    mode=self.tenancy,
                    default_account=self.default_account,
                    definer_accounts=self.definer_accounts,
                ),
                evaluate=self.evaluate,
                others=self.others,
                hasher=self.hasher,
            )
            for share in self._shares
        ]
        for each in started:
            each.wire.latency = each.wire.latency if self.latency is None else self.latency
        if (find_latency := self.find_latency) is not None:
            for each in started:
                each.wire.find_latency = find_latency
        if self.event_delay is not None:
            for each in started:
                each.wire.delay = self.event_delay
            self.oversight.events_take(self.event_delay)
        await asyncio.gather(*(each.start() for each in started))

    async def kill_controller(self) -> None:
        """As the protocol says."""
        self._end()

    def _end(self) -> None:
        for each in self.controllers:
            each.kill()
        self.controllers = []

    def _on_death(self) -> None:
        """A planned crash at a write: the next operator starts a moment later."""
        self._end()
        loop = asyncio.get_running_loop()
        loop.call_later(RESTART_AFTER, self._rise, context=contextvars.Context())

    def _rise(self) -> None:
        if not self.controllers:
            self._rising = asyncio.ensure_future(self.start_controller())

    # ------------------------------------------------------------ other clusters

    async def add_cluster(self, name: str) -> None:
        """As the protocol says."""
        server = FakeServer(self._clock.now, first_uid=FIRST_UID_THERE)
        server.watchers.append(self._on_change)
        server.create(probe_controller.definition(), manager=fake_user.MANAGER)
        self.others[name] = OtherServer(server)
        await self.user.create(fake_remote_clusters.make_secret(name, self.namespace))

    def set_away(self, cluster: str, *, is_away: bool) -> None:
        """As the protocol says."""
        self.others[cluster].set_away(is_away=is_away)
        self._changes += 1
        self._others_changes += 1

    # ------------------------------------------------------------ events

    def hold_events(self, kind: str) -> None:
        """As the protocol says."""
        for each in self.controllers:
            each.wire.hold(kind)

    def release_events(self, kind: str) -> None:
        """See the protocol; an operator that was started since then has received all events."""
        for each in self.controllers:
            each.wire.release(kind)

    # ------------------------------------------------------------ time

    def now(self) -> float:
        """As the protocol says."""
        return self._clock.now()

    async def wait(self, seconds: float) -> None:
        """As the protocol says."""
        await asyncio.sleep(seconds)

    async def wait_until(self, check: Check) -> list[str]:
        """See the protocol; checks after every single change."""
        while True:
            self._change.clear()
            wrong = await check()
            if not wrong:
                return []
            try:
                async with asyncio.timeout(QUIET):
                    await self._change.wait()
            except TimeoutError:
                return await check()

    async def wait_rest(self, check: Check = find_nothing, *, patience: float = 0.0) -> list[str]:
        """As the protocol says."""
        await self._rest()
        latest = self._clock.monotonic() + patience
        while (wrong := await check()) and self._clock.monotonic() < latest:
            await self._rest()
        return wrong

    async def _rest(self) -> None:
        """Wait until no request was sent and nothing changed for a while."""
        begun = self._clock.monotonic()
        seen = None
        while seen != self._activity():
            seen = self._activity()
            await self._sleep_quietly()
            if self._clock.monotonic() > begun + LONGEST:
                raise NeverRests(f"still busy after {LONGEST:.0f} virtual seconds: {self.traffic.requests[-5:]}")

    async def _sleep_quietly(self) -> None:
        """Let time pass; a busy loop would take hours. Raises NeverRests."""
        for _ in range(int(QUIET)):
            loop, seen = virtual_time.get_loop(), self._activity()
            before = loop.jumps
            await asyncio.sleep(1.0)
            if seen == self._activity() and (jumps := loop.jumps - before) > MOST_JUMPS:
                raise NeverRests(f"something was due {jumps} times within a second, and nothing came of it")

    @property
    def circumstances(self) -> tuple[object, ...]:
        """Remains equal as long as only operators act, and no user, probe or test."""
        return self._others_changes, len(self.traffic.troubles), len(self.traffic.denied)

    def _activity(self) -> tuple[int, int]:
        return self._changes, len(self.traffic.requests)
