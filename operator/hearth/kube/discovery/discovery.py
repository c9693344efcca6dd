"""Discovers the kinds that the API server serves and their OpenAPI v3 schemas, and caches them in memory.

Fetches the schemas of requested kinds by group and version, and again only if their hash changes. To save memory, it
drops descriptions, and parses a definition on first use.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth import answers
from hearth.kube.client import salvage
from hearth.kube.client.connection import Connection
from hearth.kube.discovery import refresh_timing
from hearth.model import errors, limits, packing, retry_delays
from hearth.model.child import Object
from hearth.model.kinds import Kind

AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
"""The format with all kinds in one response; served since Kubernetes 1.26."""
REFRESH_INTERVAL = 1.0
"""Minimum seconds between two requests, even if many templates use kinds that are not served yet."""
WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")
"""Pattern of a group, version, kind or plural. They become parts of URL paths without escaping."""
VERBS = frozenset({"delete", "list", "patch", "watch"})
"""Verbs that a kind must support so that its objects can be children: apply, watch, delete."""

KindMap: TypeAlias = Mapping[tuple[str, str], Kind]
"""Kinds by apiVersion and kind."""

SCHEMAS_PATH = "/openapi/v3"
REFERENCE_PREFIX = "#/components/schemas/"
INDEX_INTERVAL = 1.0
"""Minimum seconds between two reads of the index, which every refresh of the kinds requests."""
SCHEMA_TIMEOUT = 20.0
"""Seconds; the server computes a document on its first request."""
PUBLISH_TIMEOUT = 5.0
"""Seconds to wait for the schema of a new kind. The server serves a kind about a second before it publishes the schema.
For some kinds, it never publishes one.
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
        """Fetches the kinds again. Concurrent callers share one request. Raises `ApiStatusError` or `Unreachable`."""

    @property
    def generation(self) -> int:
        """Number that increases when a kind is added, removed, or gets another schema."""
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
        # At the first refresh, it is unknown which kinds are new.
        self.schemas.expect(after - before if before else ())
        self._kinds = found
        self._generation += 1

    def _report(self) -> None:
        if self.generation != self._reported:
            self._reported = self.generation
            self._on_change()

    def _parse_answer(self, answer: Object) -> Iterator[Kind]:
        """Yield all usable kinds in a response."""
        if answer.get("kind") != "APIGroupDiscoveryList":
            raise errors.Unreachable(
                f"discovery: expected an APIGroupDiscoveryList, found {answer.get('kind')!r}; "
                "Hearth needs Kubernetes 1.26 or newer"
            )
        items = answer.get("items")
        for group in items if isinstance(items, list) else ():
            yield from self._parse_group(group)

    def _parse_group(self, group: Any) -> Sequence[Kind]:
        """Return the usable kinds of a group. Empty if the API server's description of the group is unreadable."""
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
        """Yield the usable kinds of a group version, or the previous kinds while its API server does not respond."""
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
    """Return the name of a group. Empty for the core group and for a group without a name."""
    metadata = group.get("metadata") if isinstance(group, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def is_well_formed(kind: Kind) -> bool:
    """Whether all parts of the kind are safe to use in a URL path."""
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
        """hold: called with the change in stored bytes. Raises OSError if the total exceeds the limit."""
        self._connection = connection
        self._hold = hold
        self._held: dict[GroupVersion, int] = {}
        """Stored bytes by document."""
        self._skips = salvage.Skips("OpenAPI", observer)
        self._hashes: dict[GroupVersion, str] = {}
        """Hash of each document, from the index. It is the part of the document's URL that identifies its content."""
        self._loaded: dict[GroupVersion, str] = {}
        """Hash of each document when it was loaded."""
        self._requested: set[GroupVersion] = set()
        self._expected: dict[KindKey, float] = {}
        """Deadline of the wait for the schema of each new kind."""
        self._retry_at: dict[GroupVersion, float] = {}
        self._by_kind: dict[KindKey, str] = {}
        """The name of the schema definition by kind."""
        self._raw: dict[str, bytes] = {}
        self._parsed: dict[str, Object] = {}
        self._loading = asyncio.Lock()
        self._update_index = refresh_timing.SingleFlight(self._get_index, interval=INDEX_INTERVAL)
        self.generation = 0
        """Increases when a requested schema changes, or arrives after a kind was used without it."""

    def close(self) -> None:
        """Report the stored bytes as released."""
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
        """Make `load` wait for the schemas of these new kinds."""
        now = asyncio.get_running_loop().time()
        self._expected = {key: until for key, until in self._expected.items() if until > now}
        self._expected |= {find_key(kind): now + PUBLISH_TIMEOUT for kind in kinds}

    def forget(self, kinds: Collection[Kind]) -> None:
        """Drop the schemas of removed kinds, because a later kind can have the same name."""
        for kind in kinds:
            if self._by_kind.pop(find_key(kind), None) is not None:
                self._loaded.pop((kind.group, kind.version), None)

    async def load(self, kinds: Collection[Kind]) -> None:
        """Load the schemas of these kinds for `find_schema`. Skips unavailable and already loaded schemas."""
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
        """Load requested documents that changed or became available."""
        if not self._requested:
            return
        await self._update_index()
        async with self._loading:
            for pair in sorted(self._requested):
                await self._load(pair)

    async def _get_index(self) -> None:
        """Read the list of documents. If that fails, keep the previous list."""
        request = self._connection.request("GET", SCHEMAS_PATH, timeout=SCHEMA_TIMEOUT)
        answer = await answers.find_answer(request, None)
        if answer is None:
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
        """Load a missing or changed document. Counts new content immediately, because the caller may be cancelled."""
        wanted = self._hashes.get(pair)
        if wanted is None or self._loaded.get(pair) == wanted:
            return
        group, version = pair
        path = f"{SCHEMAS_PATH}/apis/{group}/{version}" if group else f"{SCHEMAS_PATH}/api/{version}"
        # Omit the hash from the URL: if the document changed in the meantime, the server would redirect the request.
        request = self._connection.request("GET", path, timeout=SCHEMA_TIMEOUT)
        document = await answers.find_answer(request, None)
        if document is None:
            self._retry_at[pair] = asyncio.get_running_loop().time() + retry_delays.SCHEMA.first
            return
        raw, by_kind, unreadable = await asyncio.to_thread(extract_definitions, document)
        self._loaded[pair] = wanted
        size = sum(map(len, raw.values()))
        try:
            self._hold(size - self._held.get(pair, 0))
        except OSError:
            # Treat its kinds as untyped, as for a document that is too large.
            self._note_unreadable(pair, "components.schemas")
            return
        self._held[pair] = size
        self._raw.update(raw)
        self._by_kind.update({key: name for key, name in by_kind.items() if key[:2] == pair})
        for name in raw:
            self._parsed.pop(name, None)
        for name in unreadable:
            # The previous definition is outdated.
            self._raw.pop(name, None)
            self._parsed.pop(name, None)
            self._note_unreadable(pair, name)
        self.generation += pair in self._requested

    def _note_unreadable(self, pair: GroupVersion, name: str) -> None:
        """Report once that a definition was skipped, so that kinds that use it are untyped."""
        self._skips.note({"uid": (pair, name), "name": name}, reason="schema", detail="/".join(filter(None, pair)))


def find_key(kind: Kind) -> KindKey:
    """Return the parts of a kind that identify its definition."""
    return kind.group, kind.version, kind.name


def extract_definitions(document: Object) -> tuple[dict[str, bytes], dict[KindKey, str], list[str]]:
    """Parse an OpenAPI document into the form in which it is stored.

    Returns the definitions as JSON by name, the name of the definition by kind, and the names of unreadable
    definitions, which do not affect the others.
    """
    components = document.get("components")
    found = components.get("schemas") if isinstance(components, dict) else None
    raw: dict[str, bytes] = {}
    by_kind: dict[KindKey, str] = {}
    unreadable = [] if salvage.find_omission(document) is None else ["components.schemas"]
    for name, schema in found.items() if isinstance(found, dict) else ():
        try:
            # A kind whose definition is unreadable counts as published, so nothing waits for its schema.
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
    """Return the schema without descriptions, which take most of its size. Keeps properties named `description`.

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
