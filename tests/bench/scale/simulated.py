"""The engine itself on the fake cluster, in virtual time, where everything takes its measured time.

One API server for all, which does one write after the other and also spends time on watch events; one operator process
per shard, which also does one thing after the other. The engine decides and sends everything; only time is simulated.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from bench.instruments import usage, workload
from bench.scale.scale_costs import Costs
from bench.scale.scale_model import Tree
from hearth.engine import stack_controller
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from support import virtual_time
from support.fake_world import fake_world
from support.fake_world.fake_world import Controller
from support.ports import fake_cache
from support.ports.fake_connection import FakeWire
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.server.request_faults import WRITES, Request, Traffic
from support.virtual_time import VirtualClock

Answer = TypeVar("Answer")

NAMESPACE = "default"
USER = "user"
TOP = "tree"
PHASES = ("created", "changed", "restarted", "deleted")
QUIET = 3.0
"""Virtual seconds without a request after which nothing follows: longer than status writes are delayed."""
TELL_EVERY = 5.0
"""Real seconds between two progress messages."""
API_VERSION = f"{names.GROUP}/{names.VERSION}"
BUCKETED = frozenset({fake_kinds.CONTROLLER_REVISION.kind, workload.CONFIG_MAP})
"""Kinds that a process watches only with the label of its buckets. It watches Stacks both with that label and
without.
"""


class Station:
    """Something that does one piece of work after the other."""

    def __init__(self) -> None:
        self._loop = virtual_time.get_loop()
        self._free_at = 0.0
        self.busy = 0.0
        """Seconds of all work so far."""

    def charge(self, seconds: float) -> float:
        """Take on some work; the seconds until it is done."""
        now = self._loop.time()
        self._free_at = max(now, self._free_at) + seconds
        self.busy += seconds
        return self._free_at - now

    async def work(self, seconds: float) -> None:
        """Take on some work, and wait until it is done."""
        await asyncio.sleep(self.charge(seconds))


class Tally(Traffic):
    """Counts requests without storing them, because there are too many."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def record(self, request: Request) -> str | None:
        """Count a request; no faults are planned."""
        self.counts[request.verb] += 1
        return None


@dataclass(slots=True)
class Site:
    """The parts that all processes share."""

    costs: Costs
    api: Station = field(default_factory=Station)


class MeasuredWire(FakeWire):
    """A connection on which everything takes its time: first the process's, then the server's."""

    def __init__(self, server: FakeServer, log: Traffic, *, site: Site, share: Share) -> None:
        self.process = Station()
        self._site = site
        self._share = share
        super().__init__(server, log)

    async def send(self, request: Request, act: Callable[[], Answer]) -> Answer:
        """Return the response after the time of the process and of the server."""
        costs = self._site.costs
        await self.process.work(costs.of_process(request.verb))
        await self._site.api.work(costs.of_server(request.verb))
        return await super().send(request, act)

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """A change is filtered for every watch, and sent to the matching ones."""
        site, raw = self._site, after or before or {}
        is_own = self._share.has_all_buckets or fake_cache.is_labelled(raw, self._share)
        if kind in BUCKETED and names.LABEL_STACK_UID in (raw["metadata"].get("labels") or {}) and not is_own:
            site.api.charge(site.costs.offered / site.costs.cores)
            return
        site.api.charge(site.costs.sent / site.costs.cores)
        if kind.name in names.STACK_KINDS and not self._share.has_bucket(raw["metadata"]["uid"]):
            self.process.charge(site.costs.other_stack)
        super()._on_change(kind, before, after)


class Uneven(ValueError):
    """A tree without such a shape; the text suggests one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The cost of one phase."""

    phase: str
    requests: dict[str, int]
    """By verb."""
    virtual_seconds: float
    server_busy: float
    """Seconds of them that the API server was busy."""
    process_busy: float
    """Busy seconds of the busiest process."""
    cpu: float
    """Real seconds of CPU that it took to run, engine and fake server together."""
    memory: int
    """Memory of this process afterward, in bytes."""
    largest: dict[str, int]
    """By kind the bytes of the largest object, as JSON."""

    @property
    def writes(self) -> int:
        """Events included."""
        return sum(count for verb, count in self.requests.items() if verb in WRITES or verb == "event")


class Simulation:
    """A tree from creation to deletion; created in a virtual loop."""

    def __init__(
        self, tree: Tree, *, shards: int, costs: Costs, say: Callable[[str], None], in_groups: bool = False
    ) -> None:
        """in_groups: whether the lowest level are ResourceGroups instead of Stacks."""
        self._tree = tree
        self._in_groups = in_groups
        self._widths = find_widths(tree)
        self._say = say
        self._shares = [Share(index=index, count=shards) for index in range(shards)]
        self.site = Site(costs)
        self.traffic = Tally()
        self.server = FakeServer(VirtualClock().now)
        self.server.watchers.append(self._on_change)
        self._controllers: list[Controller] = []
        self._top: Object | None = None
        self._changed = asyncio.Event()
        self._reported = time.monotonic()
        self._begun = time.monotonic()
        self._largest: dict[str, int] = {}

    async def live(self, phases: Collection[str] = PHASES) -> list[Found]:
        """Run the requested phases: create, change a field of each resource, restart the processes, delete."""
        await self._start()
        acts = dict(zip(PHASES, (self._create, self._change, self._restart, self._delete), strict=True))
        found = []
        for phase in PHASES:
            if phase == PHASES[0] or phase in phases:
                found.append(await self._measure(phase, acts[phase]))
                self._say(f"{phase}: {found[-1].cpu:.0f} s of CPU, {found[-1].memory >> 20} MiB; {self._tell()}")
        return found

    # ------------------------------------------------------------ events

    async def _create(self) -> None:
        for level, width in enumerate(self._widths[:-1], 1):
            is_above_groups = self._in_groups and level == len(self._widths) - 1
            template = make_upper_template(width, below=level + 1)
            self._keep_template(level, make_groups_template(width, self._widths[-1]) if is_above_groups else template)
        if not self._in_groups:
            self._keep_template(len(self._widths), workload.make_flat_template(self._widths[-1]))
        self.server.create(make_stack(TOP, level=1, value="one", namespace=NAMESPACE), manager=USER)
        await self._until(lambda: self._is_complete(generation=1))

    def _keep_template(self, level: int, template: Object) -> None:
        data = {"template.yaml": encode(template)}
        metadata = {"name": name_template(level), "namespace": NAMESPACE}
        self.server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, manager=USER)

    async def _change(self) -> None:
        kind = fake_kinds.STACK.kind
        self.server.patch(kind, NAMESPACE, TOP, {"spec": {"parameters": {"value": "two"}}}, manager=USER)
        await self._until(lambda: self._is_complete(generation=2))

    async def _restart(self) -> None:
        for each in self._controllers:
            each.kill()
        await self._start()

    async def _delete(self) -> None:
        self.server.delete(fake_kinds.STACK.kind, NAMESPACE, TOP)
        await self._until(lambda: self._top is None)

    async def _start(self) -> None:
        self._controllers = [
            Controller(
                self.server,
                self.traffic,
                share,
                concurrency=stack_controller.CONCURRENCY,
                connect=self._connector(share),
            )
            for share in self._shares
        ]
        await asyncio.gather(*(each.start() for each in self._controllers))

    def _connector(self, share: Share) -> Callable[[FakeServer, Traffic], FakeWire]:
        return lambda server, traffic: MeasuredWire(server, traffic, site=self.site, share=share)

    # ------------------------------------------------------------ observations

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if raw is None:
            return
        if kind == fake_kinds.STACK.kind and raw["metadata"]["name"] == TOP:
            self._top = after
            self._changed.set()
        if after is not None and kind.name in (*names.STACK_KINDS, "ControllerRevision", "ConfigMap"):
            self._note_size(kind.name, after)
        if time.monotonic() - self._reported > TELL_EVERY:
            self._reported = time.monotonic()
            self._say(self._tell())

    def _note_size(self, kind: str, raw: Object) -> None:
        """Check every object, so that the largest one is not missed."""
        if kind != "ConfigMap":
            self._largest[kind] = max(self._largest.get(kind, 0), len(encode(raw)))

    def _tell(self) -> str:
        summary = ((self._top or {}).get("status") or {}).get("summary", "–")
        done = self.traffic.counts
        now = virtual_time.get_loop().time()
        return (
            f"{time.monotonic() - self._begun:.0f} s: virtual second {now:,.0f}, {done['apply']:,} applies, "
            f"{done['delete']:,} deletions, {done['status']:,} statuses; at the top {summary}"
        )

    def _is_complete(self, *, generation: int) -> bool:
        status = (self._top or {}).get("status") or {}
        return status.get("observedGeneration") == generation and str(status.get("phase")).endswith("Complete")

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def _measure(self, phase: str, act: Callable[[], Any]) -> Found:
        before, loop = Counter(self.traffic.counts), virtual_time.get_loop()
        begun, cpu, server = loop.time(), time.process_time(), self.site.api.busy
        processes = self._read_processes()
        await act()
        taken = loop.time() - begun
        if phase == "restarted":
            processes = [0.0] * len(self._controllers)
        await self._rest()
        return Found(
            phase=phase,
            requests=dict(sorted((self.traffic.counts - before).items())),
            virtual_seconds=taken,
            server_busy=self.site.api.busy - server,
            process_busy=max(now - then for now, then in zip(self._read_processes(), processes, strict=True)),
            cpu=time.process_time() - cpu,
            memory=usage.read_memory(usage.OURSELVES),
            largest=dict(self._largest),
        )

    def _read_processes(self) -> list[float]:
        wires = (each.wire for each in self._controllers)
        return [wire.process.busy for wire in wires if isinstance(wire, MeasuredWire)]

    async def _rest(self) -> None:
        """Until nothing was sent for a while."""
        seen = -1
        while seen != self.traffic.counts.total():
            seen = self.traffic.counts.total()
            await asyncio.sleep(QUIET)


def run(
    tree: Tree,
    *,
    shards: int,
    costs: Costs,
    say: Callable[[str], None],
    phases: Collection[str] = PHASES,
    in_groups: bool = False,
) -> list[Found]:
    """Run the engine on that tree. Raises InternalError where it logged one, Uneven where no tree has that shape."""
    find_widths(tree)

    async def in_loop() -> list[Found]:
        return await Simulation(tree, shards=shards, costs=costs, say=say, in_groups=in_groups).live(phases)

    with fake_world.diary() as mistakes:
        found = virtual_time.run(in_loop)
    if mistakes:
        raise fake_world.InternalError("\n".join(mistakes))
    return found


def find_widths(tree: Tree) -> list[int]:
    """How many children a Stack of each level has, the highest first. Raises Uneven if these numbers differ."""
    counts = [*tree.levels, tree.resources]
    widths = [below // above for above, below in itertools.pairwise(counts)]
    if any(above * width != below for above, below, width in zip(counts, counts[1:], widths, strict=False)):
        raise Uneven(
            f"{tree.resources:,} resources do not divide into Stacks of {tree.per_stack:,}, and these into Stacks of "
            f"{tree.fan_out:,}; choose a product of these numbers"
        )
    return widths


def name_template(level: int) -> str:
    """The ConfigMap that holds the template of all Stacks of a level; the highest is 1."""
    return f"level-{level}"


def make_stack(name: str, *, level: int, value: str, namespace: str = "") -> Object:
    """A Stack of that level, whose template all of its level share."""
    metadata = {"metadata": {"name": name, "namespace": namespace}} if name else {}
    spec = {
        "templateRef": {"kind": "ConfigMap", "name": name_template(level), "key": "template.yaml"},
        "parameters": {"value": value},
    }
    return {"apiVersion": API_VERSION, "kind": "Stack", **metadata, "spec": spec}


def make_upper_template(width: int, *, below: int) -> Object:
    """Stacks of the level below; each gets the value."""
    inner = make_stack("", level=below, value="${params.value}")
    return workload.make_template({f"part{number}": inner for number in range(width)})


def make_groups_template(width: int, size: int) -> Object:
    """Groups of that size; each gets the value."""
    group = workload.make_group("", "", workload.make_member_template(), size)
    del group["metadata"]
    group["spec"]["parameters"] = {"value": "${params.value}"}
    return workload.make_template({f"part{number}": group for number in range(width)})


def encode(raw: Any) -> str:
    """As JSON."""
    return orjson.dumps(raw).decode()
