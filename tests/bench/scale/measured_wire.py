"""A connection to the fake server on which everything takes as long as was measured.

The process does one thing after the other, and so does the server; what it tells watches of is work for it too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from bench.instruments import workload
from bench.scale.scale_costs import Costs
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.sharding import Share
from support import virtual_time
from support.ports import fake_cache
from support.ports.fake_connection import FakeWire
from support.server import fake_kinds
from support.server.fake_server import FakeServer
from support.server.request_faults import Request, Traffic

Answer = TypeVar("Answer")

BUCKETED = frozenset({fake_kinds.CONTROLLER_REVISION.kind, workload.CONFIG_MAP})
"""Kinds of which a process watches what carries its buckets alone. Of Stacks it watches those as well, and all besides."""


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
    """Requests are counted, and not kept: there are too many."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def record(self, request: Request) -> str | None:
        """Count it; nothing is planned for any."""
        self.counts[request.verb] += 1
        return None


@dataclass(slots=True)
class Site:
    """What all processes share."""

    costs: Costs
    api: Station = field(default_factory=Station)


class MeasuredWire(FakeWire):
    """A connection on which everything takes its time: the process's, then the server's."""

    def __init__(self, server: FakeServer, log: Traffic, *, site: Site, share: Share) -> None:
        self.process = Station()
        self._site = site
        self._share = share
        super().__init__(server, log)

    async def send(self, request: Request, act: Callable[[], Answer]) -> Answer:
        """The answer, when its turn has come twice."""
        costs = self._site.costs
        await self.process.work(costs.of_process(request.verb))
        await self._site.api.work(costs.of_server(request.verb))
        return await super().send(request, act)

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """A change is offered to every watch, and sent to those that ask for it."""
        site, raw = self._site, after or before or {}
        is_own = self._share.has_all_buckets or fake_cache.is_labelled(raw, self._share)
        if kind in BUCKETED and names.LABEL_STACK_UID in (raw["metadata"].get("labels") or {}) and not is_own:
            site.api.charge(site.costs.offered / site.costs.cores)
            return
        site.api.charge(site.costs.sent / site.costs.cores)
        if kind.name in names.STACK_KINDS and not self._share.has_bucket(raw["metadata"]["uid"]):
            self.process.charge(site.costs.other_stack)
        super()._on_change(kind, before, after)
