"""Where the language server and its lint process get the schemas of kinds: a folder, or once from a cluster."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import orjson

from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.model import value_class
from hearth.model.kinds import Kinds


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KindsSource:
    """The options of the command that decide which kinds exist."""

    schemas: str = ""
    """A folder; empty for none."""
    cluster: ClusterOptions | None = None
    """None: do not query a cluster."""

    def load(self) -> Kinds:
        """Return the kinds with their schemas. Raises HearthError if the cluster does not answer."""
        if self.cluster is None:
            return FolderKinds(Path(self.schemas) if self.schemas else None)
        return asyncio.run(read_cluster(self.cluster))

    def write(self) -> str:
        """Return the source as an argument of a process."""
        return orjson.dumps(dataclasses.asdict(self)).decode()


def read_source(written: str) -> KindsSource:
    """Return the source that `write` wrote."""
    found = orjson.loads(written)
    cluster = ClusterOptions(**found["cluster"]) if found["cluster"] is not None else None
    return KindsSource(schemas=found["schemas"], cluster=cluster)


async def read_cluster(cluster: ClusterOptions) -> Kinds:
    """Return the kinds that a cluster serves now, with all schemas."""
    async with cluster.open_session() as session:
        await session.kinds.refresh()
        await session.schemas.load([*session.kinds.all()])
        return session.kinds
