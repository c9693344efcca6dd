"""What one engine hears of the causes of refusals: every change of an object that tells of one it waits for."""

from __future__ import annotations

from collections.abc import Collection

from hearth.engine.ports import CacheListener
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerSource
from support.ports.fake_connection import FakeWire


class FakeCauses:
    """The part of the port `Cluster` that is about causes."""

    def __init__(self, wire: FakeWire, listener: CacheListener) -> None:
        self._wire = wire
        self._listener = listener
        self._awaited: set[RetryTrigger] = set()
        wire.receive(self._take)

    def watch(self, trigger: RetryTrigger) -> None:
        """As the port says; what a watch begins with arrives a moment later, and may hold a change."""
        if trigger in self._awaited:
            return
        self._awaited.add(trigger)
        if retry_triggers.find_sources(trigger):
            self._wire.call_later(2 * self._wire.latency, lambda: self._wire.enqueue(lambda: self._tell(trigger)))

    def keep(self, wanted: Collection[RetryTrigger]) -> None:
        """As the port says."""
        self._awaited.intersection_update(wanted)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """One event arrives."""
        raw = after if after is not None else before
        if raw is not None:
            for cause in [cause for cause in self._awaited if tells_of(cause, kind, raw)]:
                self._tell(cause)

    def _tell(self, trigger: RetryTrigger) -> None:
        if trigger in self._awaited:
            self._listener.on_retry_trigger(trigger)


def tells_of(trigger: RetryTrigger, kind: Kind, raw: Object) -> bool:
    """Whether a change of that object is one of the cause."""
    return any(is_of(source, kind, raw) for source in retry_triggers.find_sources(trigger))


def is_of(source: TriggerSource, kind: Kind, raw: Object) -> bool:
    """Whether a watch of that source shows the object."""
    metadata = raw["metadata"]
    return (
        (source.api_version, source.kind) == (kind.api_version, kind.name)
        and source.namespace in ("", metadata.get("namespace", ""))
        and source.name in ("", metadata["name"])
    )
