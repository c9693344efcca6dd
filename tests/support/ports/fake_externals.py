"""One engine's cache of objects that Stacks only read or that caused refusals; as in `hearth.kube.cache`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.engine.ports import CacheListener
from hearth.kube.cache import external_cache
from hearth.model import child as children
from hearth.model.child import Child, Object
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalQuery, ExternalView
from hearth.model.kinds import Kind
from hearth.plan.retry import retry_triggers
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerSource
from support.ports.fake_cache import ASK_AGAIN
from support.ports.fake_connection import FakeWire
from support.server import fake_kinds

Name: TypeAlias = tuple[str, str]
"""Namespace and name."""


def tells_of(trigger: RetryTrigger, kind: Kind, raw: Object) -> bool:
    """Whether a change of that object affects the cause."""
    return any(is_of(source, kind, raw) for source in retry_triggers.find_sources(trigger))


def is_of(source: TriggerSource, kind: Kind, raw: Object) -> bool:
    """Whether a watch of that source shows the object."""
    metadata = raw["metadata"]
    return (
        (source.api_version, source.kind) == (kind.api_version, kind.name)
        and source.namespace in ("", metadata.get("namespace", ""))
        and source.name in ("", metadata["name"])
    )


@dataclass(slots=True, kw_only=True)
class Followed:
    """An object that one Stack reads under one name."""

    query: ExternalQuery
    is_listed: bool = False
    """Whether the initial list of the watch has been requested."""
    is_known: bool = False
    is_denied: bool = False
    objects: dict[Name, Object] = field(default_factory=dict)


class FakeExternals:
    """Each query has its own watch, because Stacks cannot see whether watches are shared."""

    def __init__(self, wire: FakeWire, listener: CacheListener) -> None:
        self._wire = wire
        self._server = wire.server
        self._listener = listener
        self._followed: dict[str, dict[str, Followed]] = {}
        wire.receive(self._take)

    def follow(self, stack_uid: str, queries: Mapping[str, ExternalQuery]) -> None:
        """As the port says."""
        before = self._followed.get(stack_uid, {})
        self._followed[stack_uid] = {
            name: before[name] if name in before and before[name].query == query else Followed(query=query)
            for name, query in queries.items()
        }
        for name, followed in self._followed[stack_uid].items():
            if followed is not before.get(name):
                self._list(stack_uid, name, followed)

    def find(self, stack_uid: str, name: str) -> ExternalView:
        """As the port says."""
        followed = self._followed.get(stack_uid, {}).get(name)
        if followed is None:
            return UNKNOWN_VIEW
        plural = followed.query.kind.plural
        if followed.is_denied:
            return ExternalView(denial=f'{plural} is forbidden: User "hearth" cannot list resource "{plural}"')
        if not followed.is_known:
            return UNKNOWN_VIEW
        found = tuple(self._parse(followed.query, followed.objects[key]) for key in sorted(followed.objects))
        return ExternalView(objects=found, is_known=True)

    def _parse(self, query: ExternalQuery, raw: Object) -> Child:
        return children.parse_child(raw, kind=query.kind, paths=query.paths)

    def _list(self, stack_uid: str, name: str, followed: Followed) -> None:
        """Request the initial list of a watch."""
        if self._server.kinds.find_served(followed.query.kind) is None:
            return
        followed.is_listed = True
        if ("list", followed.query.kind.name) in self._wire.traffic.denied:
            self._wire.enqueue(lambda: self._deny(stack_uid, name, followed))
            return
        self._wire.call_later(2 * self._wire.latency, lambda: self._send(stack_uid, name, followed))

    def _deny(self, stack_uid: str, name: str, followed: Followed) -> None:
        if not followed.is_denied:
            followed.is_denied = True
            self._listener.on_child(stack_uid, name)
        if self._is_followed(stack_uid, name, followed):
            self._wire.call_later(ASK_AGAIN, lambda: self._list(stack_uid, name, followed))

    def _is_followed(self, stack_uid: str, name: str, followed: Followed) -> bool:
        return self._followed.get(stack_uid, {}).get(name) is followed

    def _send(self, stack_uid: str, name: str, followed: Followed) -> None:
        if self._server.kinds.find_served(followed.query.kind) is None:
            followed.is_listed = False
            return
        found = [raw for raw in self._server.list_all(followed.query.kind) if accepts(followed.query, raw)]
        self._wire.enqueue(lambda: self._take_list(stack_uid, name, followed, found))

    def _take_list(self, stack_uid: str, name: str, followed: Followed, found: list[Object]) -> None:
        followed.objects = {name_of(raw): raw for raw in found}
        followed.is_known, followed.is_denied = True, False
        if self._is_followed(stack_uid, name, followed):
            self._listener.on_child(stack_uid, name)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        if kind == fake_kinds.CUSTOM_RESOURCE_DEFINITION.kind:
            self._take_definition()
        for stack_uid, some in list(self._followed.items()):
            for name, followed in some.items():
                if (followed.query.kind.group, followed.query.kind.name) == (kind.group, kind.name):
                    self._update(stack_uid, name, followed, before, after)

    def _take_definition(self) -> None:
        """Handle a kind that appeared or disappeared; cached data of a removed kind is no longer valid."""
        for stack_uid, some in self._followed.items():
            for name, followed in some.items():
                if self._server.kinds.find_served(followed.query.kind) is None:
                    followed.is_known = followed.is_listed = False
                elif not followed.is_listed:
                    self._list(stack_uid, name, followed)

    def _update(
        self, stack_uid: str, name: str, followed: Followed, before: Object | None, after: Object | None
    ) -> None:
        old = before if before is not None and accepts(followed.query, before) else None
        new = after if after is not None and accepts(followed.query, after) else None
        if not followed.is_known or (old is None and new is None):
            return
        if new is not None:
            followed.objects[name_of(new)] = new
        elif old is not None:
            followed.objects.pop(name_of(old), None)
        was, is_now = [None if raw is None else self._parse(followed.query, raw) for raw in (old, new)]
        if external_cache.has_changed(was, is_now, followed.query):
            self._listener.on_child(stack_uid, name)


def name_of(raw: Object) -> Name:
    """The name of an object."""
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def accepts(query: ExternalQuery, raw: Object) -> bool:
    """Whether the query matches the object."""
    namespace, name = name_of(raw)
    return query.accepts(namespace=namespace, name=name, labels=raw["metadata"].get("labels") or {})


class FakeCauses:
    """The part of the port `Cluster` for causes of refusals."""

    def __init__(self, wire: FakeWire, listener: CacheListener) -> None:
        self._wire = wire
        self._listener = listener
        self._awaited: set[RetryTrigger] = set()
        wire.receive(self._take)

    def watch(self, trigger: RetryTrigger) -> None:
        """Start a watch; its first list arrives a moment later and may contain a change."""
        if trigger in self._awaited:
            return
        self._awaited.add(trigger)
        if retry_triggers.find_sources(trigger):
            self._wire.call_later(2 * self._wire.latency, lambda: self._wire.enqueue(lambda: self._tell(trigger)))

    def keep(self, wanted: Collection[RetryTrigger]) -> None:
        """As the port says."""
        self._awaited.intersection_update(wanted)

    def _take(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Handle an event."""
        raw = after if after is not None else before
        if raw is not None:
            for cause in [cause for cause in self._awaited if tells_of(cause, kind, raw)]:
                self._tell(cause)

    def _tell(self, trigger: RetryTrigger) -> None:
        if trigger in self._awaited:
            self._listener.on_retry_trigger(trigger)
