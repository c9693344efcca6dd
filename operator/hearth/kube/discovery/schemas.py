"""OpenAPI v3 schemas of the requested kinds, fetched by group and version, once per hash.

Must not know how a schema is used. To limit memory, descriptions are dropped and a definition stays JSON until its
first use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from hearth.kube.client import salvage, skips
from hearth.kube.client.connection import Connection
from hearth.kube.discovery import single_flight
from hearth.model import errors, limits, packing, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind

ROOT = "/openapi/v3"
REFERENCE_PREFIX = "#/components/schemas/"
INDEX_INTERVAL = 1.0
"""Minimum seconds between two reads of the index, which every refresh of the kinds requests."""
RETRY_INTERVAL = 10.0
"""Seconds before a failed document is requested again; a broken aggregated API stays broken for a while."""
TIMEOUT = 20.0
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


class Schemas:
    """Definitions by name, and the definition of each kind."""

    def __init__(
        self,
        connection: Connection,
        *,
        observer: skips.Counter | None = None,
        hold: Callable[[int], None] = lambda _change: None,
    ) -> None:
        """hold: gets the change of the stored bytes; raises OSError if they are too many."""
        self._connection = connection
        self._hold = hold
        self._held: dict[GroupVersion, int] = {}
        """Stored bytes by document."""
        self._skips = skips.Skips("OpenAPI", observer)
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
        self._update_index = single_flight.SingleFlight(self._get_index, interval=INDEX_INTERVAL)
        self.generation = 0
        """Number that increases when a requested schema changes or arrives later than its request."""

    def close(self) -> None:
        """Release the account of what is stored."""
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
            answer = await self._connection.request("GET", ROOT, timeout=TIMEOUT)
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
        """Load one document unless it is missing or known. What is new is counted at once: the caller may be cancelled."""
        wanted = self._hashes.get(pair)
        if wanted is None or self._loaded.get(pair) == wanted:
            return
        group, version = pair
        path = f"{ROOT}/apis/{group}/{version}" if group else f"{ROOT}/api/{version}"
        try:
            # No hash in the URL: for a document that changed meanwhile, that would redirect. This one is newer.
            document = await self._connection.request("GET", path, timeout=TIMEOUT)
        except (errors.ApiStatusError, errors.Unreachable):
            self._retry_at[pair] = asyncio.get_running_loop().time() + RETRY_INTERVAL
            return
        found = await asyncio.to_thread(extract, document)
        self._loaded[pair] = wanted
        size = sum(map(len, found.raw.values()))
        try:
            self._hold(size - self._held.get(pair, 0))
        except OSError:
            # Its kinds are untyped, as those of a document that is too large.
            self._note_unreadable(pair, "components.schemas")
            return
        self._held[pair] = size
        self._raw.update(found.raw)
        self._by_kind.update({key: name for key, name in found.by_kind.items() if key[:2] == pair})
        for name in found.raw:
            self._parsed.pop(name, None)
        for name in found.unreadable:
            # The previous definition describes a different content.
            self._raw.pop(name, None)
            self._parsed.pop(name, None)
            self._note_unreadable(pair, name)
        self.generation += pair in self._requested

    def _note_unreadable(self, pair: GroupVersion, name: str) -> None:
        """Report once that a definition is omitted: kinds that use it are untyped."""
        self._skips.note({"uid": (pair, name), "name": name}, reason="schema", detail="/".join(filter(None, pair)))


@value_class.dataclass(frozen=True, slots=True)
class Extract:
    """The stored part of an OpenAPI document."""

    raw: Mapping[str, bytes]
    """The definitions by name, as JSON."""
    by_kind: Mapping[KindKey, str]
    """The name of the definition, by kind."""
    unreadable: Sequence[str]
    """The names of omitted definitions."""


def find_key(kind: Kind) -> KindKey:
    """Return the part of a kind that its definition names."""
    return kind.group, kind.version, kind.name


def extract(document: Object) -> Extract:
    """Return the readable definitions of an OpenAPI document; an unreadable one does not affect the others."""
    components = document.get("components")
    found = components.get("schemas") if isinstance(components, dict) else None
    raw: dict[str, bytes] = {}
    by_kind: dict[KindKey, str] = {}
    unreadable = [] if salvage.find_omission(document) is None else ["components.schemas"]
    for name, schema in found.items() if isinstance(found, dict) else ():
        try:
            # A kind whose definition is unreadable is described, so its schema is not waited for.
            for kind in find_kinds(schema):
                by_kind[kind] = name
            raw[name] = packing.pack(without_texts(schema))
        # RecursionError: too deep to traverse; TypeError: not encodable, or not a schema.
        except (RecursionError, TypeError):
            unreadable.append(name)
    return Extract(raw, by_kind, unreadable)


def find_kinds(schema: Any) -> Iterator[KindKey]:
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
