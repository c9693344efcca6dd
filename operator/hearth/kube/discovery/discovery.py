"""The kinds that the API server serves, stored in memory and refreshed on demand.

Must not know how the kinds are used; their schemas are in `hearth.kube.discovery.schemas`.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hearth.kube.client import salvage, skips
from hearth.kube.client.connection import Connection
from hearth.kube.discovery import single_flight
from hearth.kube.discovery.schemas import Schemas
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.kinds import Kind

AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
"""The format with all kinds in one response; served since Kubernetes 1.26."""
REFRESH_INTERVAL = 1.0
"""Minimum seconds between two requests, for any number of templates with kinds that are not served (yet)."""
WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")
"""Pattern of a group, version, kind or plural: they become unquoted parts of paths."""
VERBS = frozenset({"delete", "list", "patch", "watch"})
"""The verbs that a kind needs for its objects to be children: apply, watch, delete."""

KindMap: TypeAlias = Mapping[tuple[str, str], Kind]
"""By apiVersion and kind."""


class Discovery:
    """Implementation of `hearth.model.kinds.Kinds`; empty until the first `refresh`."""

    def __init__(
        self,
        connection: Connection,
        schemas: Schemas,
        *,
        on_change: Callable[[], None],
        observer: skips.Counter | None = None,
    ) -> None:
        self._connection = connection
        self._skips = skips.Skips("APIGroup", observer)
        self._schemas = schemas
        self._on_change = on_change
        self._kinds: KindMap = {}
        self._generation = 0
        self._reported = 0
        """The generation that was reported last."""
        self.refresh = single_flight.SingleFlight(self._refresh, interval=REFRESH_INTERVAL)
        """Ask the server again. Concurrent callers share one request; raises `ApiStatusError` or `Unreachable`."""

    @property
    def generation(self) -> int:
        """Return a number that increases when a kind is added or removed or changes its schema."""
        return self._generation + self._schemas.generation

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind, or None if the cluster does not serve it."""
        return self._kinds.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """Return every kind whose objects can be listed, watched, written and deleted."""
        return self._kinds.values()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the kind's OpenAPI v3 schema, or None if none was loaded."""
        return self._schemas.find_schema(kind)

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return the target of a `$ref` within a schema of `find_schema`."""
        return self._schemas.find_definition(reference)

    async def refresh_schemas(self) -> None:
        """Load the schemas in use that changed."""
        await self._schemas.refresh()
        self._report()

    async def _refresh(self) -> None:
        answers = await asyncio.gather(
            *(self._connection.request("GET", path, accept=AGGREGATED) for path in ("/api", "/apis"))
        )
        kinds = (kind for answer in answers for kind in self._parse_answer(answer))
        found = {(kind.api_version, kind.name): kind for kind in itertools.islice(kinds, limits.CLUSTER_KINDS)}
        if found != self._kinds:
            self._replace(found)
        await self.refresh_schemas()

    def _replace(self, found: KindMap) -> None:
        before, after = set(self._kinds.values()), set(found.values())
        self._schemas.forget(before - after)
        # At the first refresh nothing is known to be new.
        self._schemas.expect(after - before if before else ())
        self._kinds = found
        self._generation += 1

    def _report(self) -> None:
        if self.generation != self._reported:
            self._reported = self.generation
            self._on_change()

    def _parse_answer(self, answer: Object) -> Iterator[Kind]:
        """Yield all usable kinds of a response."""
        if answer.get("kind") != "APIGroupDiscoveryList":
            raise errors.Unreachable(
                f"discovery: expected an APIGroupDiscoveryList, found {answer.get('kind')!r}; "
                "Hearth needs Kubernetes 1.26 or newer"
            )
        items = answer.get("items")
        for group in items if isinstance(items, list) else ():
            yield from self._parse_group(group)

    def _parse_group(self, group: Any) -> Sequence[Kind]:
        """Return the usable kinds of a group; none if its API server describes it in an unreadable form."""
        name = find_name(group)
        found: list[Kind] = []
        try:
            is_whole = salvage.find_omission(group) is None
            for version in group.get("versions") or ():
                found += self._parse_version(name, version)
        except (AttributeError, KeyError, TypeError):
            is_whole = False
        if not is_whole or not all(map(is_well_formed, found)):
            self._skips.note({"uid": name, "name": name}, reason="discovery")
        return [kind for kind in found if is_well_formed(kind)]

    def _parse_version(self, group: str, entry: Object) -> Iterator[Kind]:
        """Yield the usable kinds of a group's version; the previous ones while its API server does not respond."""
        resources = entry.get("resources") or ()
        if not resources and entry.get("freshness") == "Stale":
            wanted = (group, entry["version"])
            yield from (kind for kind in self._kinds.values() if (kind.group, kind.version) == wanted)
        for resource in resources:
            kind = (resource.get("responseKind") or {}).get("kind")
            if kind and VERBS.issubset(resource.get("verbs") or ()):
                yield Kind(
                    group=group,
                    version=entry["version"],
                    name=kind,
                    plural=resource["resource"],
                    namespaced=resource.get("scope") == "Namespaced",
                )


def find_name(group: Any) -> str:
    """Return the name of a group; "" for the core group, and if it has none."""
    metadata = group.get("metadata") if isinstance(group, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def is_well_formed(kind: Kind) -> bool:
    """Return whether all parts of the kind can be parts of a path."""
    words: tuple[object, ...] = (kind.version, kind.name, kind.plural, *([kind.group] if kind.group else []))
    return all(
        isinstance(word, str) and len(word) <= limits.NAME_LENGTH and WORD.fullmatch(word) is not None for word in words
    )
