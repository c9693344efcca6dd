"""A kind may be served before it is described: its schema is searched for, for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hearth.kube.discovery.late_schemas import DELAYS, LateSchemas
from hearth.model.errors import Unreachable
from hearth.model.kinds import Kind
from support import virtual_time

WIDGET, GADGET = (
    Kind(group="example.org", version="v1", name=name, plural=f"{name.lower()}s", namespaced=True)
    for name in ("Widget", "Gadget")
)


@dataclass
class Server:
    """Describes kinds from a time on."""

    described: dict[Kind, float] = field(default_factory=dict)
    loaded: set[Kind] = field(default_factory=set)
    reads: int = 0
    is_away: bool = False

    async def refresh(self) -> None:
        """Load what is described now."""
        self.reads += 1
        if self.is_away:
            raise Unreachable("away")
        now = asyncio.get_running_loop().time()
        self.loaded |= {kind for kind, since in self.described.items() if since <= now}


def make(server: Server) -> LateSchemas:
    """The search on that server."""
    return LateSchemas(has_schema=lambda kind: kind in server.loaded, refresh=server.refresh)


def test_a_schema_that_comes_late_is_found() -> None:
    """Then the search ends, and a known schema starts none."""

    async def run() -> None:
        server = Server(described={WIDGET: 2.5})
        late = make(server)
        late.search([WIDGET])
        late.search([WIDGET])
        await asyncio.sleep(60)
        assert (server.loaded, server.reads) == ({WIDGET}, 2)
        late.search([WIDGET])
        await asyncio.sleep(60)
        assert server.reads == 2

    virtual_time.run(run)


def test_a_kind_that_is_never_described_is_searched_for_once() -> None:
    """Another kind is searched for all the same; a server that is away ends no search."""

    async def run() -> None:
        server = Server(is_away=True)
        late = make(server)
        late.search([WIDGET])
        await asyncio.sleep(2 * sum(DELAYS))
        late.search([WIDGET])
        await asyncio.sleep(2 * sum(DELAYS))
        assert server.reads == len(DELAYS)
        server.is_away, server.described = False, {GADGET: 0.0}
        late.search([WIDGET, GADGET])
        await asyncio.sleep(2 * sum(DELAYS))
        assert (server.loaded, server.reads) == ({GADGET}, len(DELAYS) + 1)

    virtual_time.run(run)


def test_no_search_outlives_its_cluster() -> None:
    """Closing stops it."""

    async def run() -> None:
        server = Server()
        late = make(server)
        late.search([WIDGET])
        await asyncio.sleep(DELAYS[0] / 2)
        await late.close()
        await asyncio.sleep(60)
        assert server.reads == 0

    virtual_time.run(run)
