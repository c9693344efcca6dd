"""The ConfigMaps that definitions are read from: each is watched by its name from the first time it is asked for.

Must not know what is read out of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hearth.kube import cache, requests, store
from hearth.kube.cache import Health
from hearth.kube.store import Store
from hearth.kube.watch import Connection, Observer, Rules, Server, Watch
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)


class Listener(Protocol):
    """The part of the engine's listener that hears of sources."""

    def on_source(self, ref: ObjectRef) -> None:
        """It came, changed or went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """What is kept of a ConfigMap."""

    uid: str
    resource_version: int
    data: Mapping[str, str]


class Source:
    """One ConfigMap and its watch."""

    def __init__(self, ref: ObjectRef, *, server: Server, listener: Listener) -> None:
        self.ref = ref
        self._listener = listener
        self._store: Store[SourceRecord] = store.Store(self)
        self.watch = Watch(
            server,
            requests.collection_path(CONFIG_MAP, ref.namespace),
            self._store,
            name=CONFIG_MAP.key,
            selector={"fieldSelector": f"metadata.name={ref.name}"},
        )

    @property
    def data(self) -> Mapping[str, str] | None:
        """What it says, or None where it is not there."""
        # While one object is replaced by the next of its name, both may be known: the newest counts.
        newest = max(self._store.records.values(), key=lambda record: record.resource_version, default=None)
        return None if newest is None else newest.data

    def put(self, raw: Object) -> Mapping[str, str]:
        """Take in what was read elsewhere; told only to those who have read something else."""
        return self._store.put(raw, passed=self.watch.version).data

    def parse(self, raw: Object) -> SourceRecord:
        """What is kept."""
        metadata = raw["metadata"]
        return SourceRecord(
            uid=metadata["uid"], resource_version=int(metadata["resourceVersion"]), data=raw.get("data") or {}
        )

    def replace(self, old: SourceRecord | None, new: SourceRecord | None, *, is_ours: bool) -> None:
        """It came, changed or went."""
        is_same = old is not None and new is not None and old.data == new.data
        is_first_reading = is_ours and old is None
        # A change that one Stack's reading brings to light would otherwise be no news to the others any more.
        if not is_same and not is_first_reading:
            self._listener.on_source(self.ref)

    def complete(self) -> None:
        """A fresh list is there."""


class SourceCache:
    """Every source that was ever asked for. Its watches run until `close`."""

    def __init__(
        self,
        connection: Connection,
        listener: Listener,
        *,
        rules: Rules | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._server = Server(connection=connection, rules=rules or Rules(), observer=observer)
        self._sources: dict[ObjectRef, Source] = {}

    async def get_source(self, ref: ObjectRef) -> Mapping[str, str]:
        """The data of that ConfigMap, which is watched from now on.

        Raises `Refused` with code 404 where there is none, and whatever the first reading of it raises.
        """
        source = self._sources.get(ref)
        if source is None:
            source = self._sources[ref] = Source(ref, server=self._server, listener=self._listener)
            source.watch.start()
        if not source.watch.is_synced:
            # Asked for directly, since a watch that is refused goes on trying and would tell the user nothing.
            path = requests.object_path(CONFIG_MAP, ref.namespace, ref.name)
            return source.put(await self._connection.request("GET", path))
        data = source.data
        if data is None:
            raise not_found(ref)
        return data

    def health(self) -> list[Health]:
        """How each watch is doing."""
        return [
            cache.measure(CONFIG_MAP.key, source.watch, objects=int(source.data is not None))
            for source in self._sources.values()
        ]

    async def close(self) -> None:
        """End all watches; the listener hears nothing more."""
        await asyncio.gather(*(source.watch.close() for source in self._sources.values()))


def not_found(ref: ObjectRef) -> errors.Refused:
    """What the server would say about a ConfigMap that is not there."""
    details = {"name": ref.name, "kind": CONFIG_MAP.plural}
    message = f'{CONFIG_MAP.plural} "{ref.name}" not found'
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": message, "details": details}
    return errors.Refused(code=404, status=status)
