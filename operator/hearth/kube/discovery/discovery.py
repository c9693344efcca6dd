"""The kinds that the API server serves and their OpenAPI v3 schemas, stored in memory and refreshed on demand.

Schemas are fetched for requested kinds, by group and version, once per hash. To limit memory, descriptions are dropped and a
definition stays JSON until its first use. Must not know how kinds and schemas are used.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth.kube.client import salvage
from hearth.kube.client.connection import Connection
from hearth.kube.discovery import refresh_timing
from hearth.model import errors, limits, packing
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

SCHEMAS_PATH = "/openapi/v3"
REFERENCE_PREFIX = "#/components/schemas/"
INDEX_INTERVAL = 1.0
"""Minimum seconds between two reads of the index, which every refresh of the kinds requests."""
SCHEMA_RETRY = 10.0
"""Seconds before a failed document is requested again; a broken aggregated API stays broken for a while."""
SCHEMA_TIMEOUT = 20.0
"""Seconds; the server computes a document on its first request."""
PUBLISH_TIMEOUT = 5.0
"""Seconds to wait for the schema of a kind that was just added. The server serves a kind first, and publishes its schema
about a second later; of some kinds it never does.
"""
VALUES = frozenset({"default", "enum", "example"})
"""The schema keywords that contain values, not schemas."""

GroupVersion: TypeAlias = tuple[str, str]
KindKey: TypeAlias = tuple[str, str, str]
"""Group, version, kind."""


class Discovery:
    """Implementation of `hearth.model.kinds.Kinds`; empty until the first `refresh`."""

    def __init__(
        self,
        connection: Connection,
        *,
        on_change: Callable[[], None],
        observer: salvage.SkipObserver | None = None,
        hold: Callable[[int], None] = lambda _change: None,
    ) -> None:
        """hold: see `Schemas`."""
        self.schemas = schemas = Schemas(connection, observer=observer, hold=hold)
        self.find_schema, self.find_definition = schemas.find_schema, schemas.find_definition
        self._connection = connection
        self._skips = salvage.Skips("APIGroup", observer)
        self._on_change = on_change
        self._kinds: KindMap = {}
        self._generation = 0
        self._reported = 0
        """The generation that was reported last."""
        self.refresh = refresh_timing.SingleFlight(self._refresh, interval=REFRESH_INTERVAL)
        """Ask the server again. Concurrent callers share one request; raises `ApiStatusError` or `Unreachable`."""

    @property
    def generation(self) -> int:
        """Return a number that increases when a kind is added or removed or changes its schema."""
        return self._generation + self.schemas.generation

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind, or None if the cluster does not serve it."""
        return self._kinds.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """Return every kind whose objects can be listed, watched, written and deleted."""
        return self._kinds.values()

    async def refresh_schemas(self) -> None:
        """Load the schemas in use that changed."""
        await self.schemas.refresh()
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
        self.schemas.forget(before - after)
        # At the first refresh nothing is known to be new.
        self.schemas.expect(after - before if before else ())
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


class Schemas:
    """Definitions by name, and the definition of each kind."""

    def __init__(
        self,
        connection: Connection,
        *,
        observer: salvage.SkipObserver | None = None,
        hold: Callable[[int], None] = lambda _change: None,
    ) -> None:
        """hold: gets the change of the stored bytes; raises OSError if they are too many."""
        self._connection = connection
        self._hold = hold
        self._held: dict[GroupVersion, int] = {}
        """Stored bytes by document."""
        self._skips = salvage.Skips("OpenAPI", observer)
        self._hashes: dict[GroupVersion, str] = {}
        """The index's hash of each document: the part of the document's URL that represents the content."""
        self._loaded: dict[GroupVersion, str] = {}
        """The hash under which each document was loaded."""
        self._requested: set[GroupVersion] = set()
        self._expected: dict[KindKey, float] = {}
        """Until when the schema of a new kind is waited for."""
        self._retry_at: dict[GroupVersion, float] = {}
        self._by_kind: dict[KindKey, str] = {}
        """The name of the definition."""
        self._raw: dict[str, bytes] = {}
        self._parsed: dict[str, Object] = {}
        self._loading = asyncio.Lock()
        self._update_index = refresh_timing.SingleFlight(self._get_index, interval=INDEX_INTERVAL)
        self.generation = 0
        """Number that increases when a requested schema changes or arrives later than its request."""

    def close(self) -> None:
        """Release the account of the stored documents."""
        self._hold(-sum(self._held.values()))
        self._held.clear()

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the kind's schema, or None if none was loaded."""
        name = self._by_kind.get(find_key(kind))
        return self.find_definition(REFERENCE_PREFIX + name) if name else None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Return the target of `#/components/schemas/…`."""
        name = reference.removeprefix(REFERENCE_PREFIX)
        parsed = self._parsed.get(name)
        if parsed is None and name in self._raw:
            parsed = self._parsed[name] = orjson.loads(self._raw[name])
        return parsed

    def expect(self, kinds: Collection[Kind]) -> None:
        """Let `load` wait for the schemas of these kinds, which were just added."""
        now = asyncio.get_running_loop().time()
        self._expected = {key: until for key, until in self._expected.items() if until > now}
        self._expected |= {find_key(kind): now + PUBLISH_TIMEOUT for kind in kinds}

    def forget(self, kinds: Collection[Kind]) -> None:
        """Drop the schemas of these kinds, which were removed: another kind of the same name may follow."""
        for kind in kinds:
            if self._by_kind.pop(find_key(kind), None) is not None:
                self._loaded.pop((kind.group, kind.version), None)

    async def load(self, kinds: Collection[Kind]) -> None:
        """Load these kinds for `find_schema`; skip unavailable schemas. Send nothing for known kinds."""
        await self._load_missing(kinds)
        while any(map(self._is_expected, kinds)):
            await self.refresh()

    def _is_expected(self, kind: Kind) -> bool:
        key = find_key(kind)
        return key not in self._by_kind and self._expected.get(key, 0.0) > asyncio.get_running_loop().time()

    async def _load_missing(self, kinds: Collection[Kind]) -> None:
        now = asyncio.get_running_loop().time()
        missing = sorted({(kind.group, kind.version) for kind in kinds} - self._loaded.keys())
        missing = [pair for pair in missing if self._retry_at.get(pair, 0.0) <= now]
        if not missing:
            return
        if any(pair not in self._hashes for pair in missing):
            await self._update_index()
        async with self._loading:
            for pair in missing:
                await self._load(pair)
                self._requested.add(pair)

    async def refresh(self) -> None:
        """Check whether requested documents changed or became available, and load those."""
        if not self._requested:
            return
        await self._update_index()
        async with self._loading:
            for pair in sorted(self._requested):
                await self._load(pair)

    async def _get_index(self) -> None:
        """Read the list of documents; after a failure, the last list stays valid."""
        try:
            answer = await self._connection.request("GET", SCHEMAS_PATH, timeout=SCHEMA_TIMEOUT)
        except (errors.ApiStatusError, errors.Unreachable):
            return
        paths = answer.get("paths")
        self._hashes = {
            (group if sort == "apis" else "", version): str(entry.get("serverRelativeURL"))
            for path, entry in (paths.items() if isinstance(paths, dict) else ())
            if isinstance(entry, dict)
            for sort, _, rest in [path.partition("/")]
            for group, _, version in [rest.rpartition("/")]
            if (sort == "apis" and group) or (sort == "api" and version)
        }

    async def _load(self, pair: GroupVersion) -> None:
        """Load one document unless it is missing or known. New content is counted at once: the caller may be cancelled."""
        wanted = self._hashes.get(pair)
        if wanted is None or self._loaded.get(pair) == wanted:
            return
        group, version = pair
        path = f"{SCHEMAS_PATH}/apis/{group}/{version}" if group else f"{SCHEMAS_PATH}/api/{version}"
        try:
            # No hash in the URL: for a document that changed meanwhile, that would redirect. This one is newer.
            document = await self._connection.request("GET", path, timeout=SCHEMA_TIMEOUT)
        except (errors.ApiStatusError, errors.Unreachable):
            self._retry_at[pair] = asyncio.get_running_loop().time() + SCHEMA_RETRY
            return
        raw, by_kind, unreadable = await asyncio.to_thread(extract_definitions, document)
        self._loaded[pair] = wanted
        size = sum(map(len, raw.values()))
        try:
            self._hold(size - self._held.get(pair, 0))
        except OSError:
            # Its kinds are untyped, like the kinds of a document that is too large.
            self._note_unreadable(pair, "components.schemas")
            return
        self._held[pair] = size
        self._raw.update(raw)
        self._by_kind.update({key: name for key, name in by_kind.items() if key[:2] == pair})
        for name in raw:
            self._parsed.pop(name, None)
        for name in unreadable:
            # The previous definition describes a different content.
            self._raw.pop(name, None)
            self._parsed.pop(name, None)
            self._note_unreadable(pair, name)
        self.generation += pair in self._requested

    def _note_unreadable(self, pair: GroupVersion, name: str) -> None:
        """Report once that a definition is omitted: kinds that use it are untyped."""
        self._skips.note({"uid": (pair, name), "name": name}, reason="schema", detail="/".join(filter(None, pair)))


def find_key(kind: Kind) -> KindKey:
    """Return the part of a kind that its definition names."""
    return kind.group, kind.version, kind.name


def extract_definitions(document: Object) -> tuple[dict[str, bytes], dict[KindKey, str], list[str]]:
    """Return the stored form of an OpenAPI document; an unreadable definition does not affect the others.

    That is the definitions by name, as JSON; the name of the definition by kind; and the names of omitted definitions.
    """
    components = document.get("components")
    found = components.get("schemas") if isinstance(components, dict) else None
    raw: dict[str, bytes] = {}
    by_kind: dict[KindKey, str] = {}
    unreadable = [] if salvage.find_omission(document) is None else ["components.schemas"]
    for name, schema in found.items() if isinstance(found, dict) else ():
        try:
            # A kind whose definition is unreadable is described, so its schema is not waited for.
            for kind in find_described_kinds(schema):
                by_kind[kind] = name
            raw[name] = packing.pack(without_texts(schema))
        # RecursionError: too deep to traverse; TypeError: not encodable, or not a schema.
        except (RecursionError, TypeError):
            unreadable.append(name)
    return raw, by_kind, unreadable


def find_described_kinds(schema: Any) -> Iterator[KindKey]:
    """Yield the kinds that a definition describes. Raises TypeError if it is not a definition."""
    if not isinstance(schema, dict):
        raise TypeError(type(schema).__name__)
    for entry in schema.get("x-kubernetes-group-version-kind") or ():
        if not isinstance(entry, dict):
            raise TypeError(type(entry).__name__)
        group, version, kind = (entry.get(word, "") for word in ("group", "version", "kind"))
        if isinstance(group, str) and isinstance(version, str) and isinstance(kind, str):
            yield group, version, kind


def without_texts(schema: Any, *, depth: int = 0) -> Any:
    """Return the schema without its descriptions, which are most of it; retain a property of that name.

    Raises RecursionError if it is nested too deeply.
    """
    if depth > limits.JSON_DEPTH:
        raise RecursionError
    if isinstance(schema, list):
        return [without_texts(item, depth=depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in VALUES else without_texts(value, depth=depth + 1)
        for key, value in schema.items()
        if not (key == "description" and isinstance(value, str))
    }
