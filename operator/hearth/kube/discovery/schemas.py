"""The OpenAPI v3 schemas of the kinds that somebody asked for, fetched by group and version, once per hash.

Must not know what a schema is used for. Memory is watched: texts for people are left out, and a definition is kept as
JSON until somebody reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from hearth.kube.client import salvage, skips
from hearth.kube.client.connection import Connection
from hearth.kube.discovery import single_flight
from hearth.model import errors, limits, packing
from hearth.model.child import Object
from hearth.model.kinds import Kind

ROOT = "/openapi/v3"
REFERENCE_PREFIX = "#/components/schemas/"
INDEX_INTERVAL = 1.0
"""Seconds between two looks at the index, which every refresh of the kinds brings about."""
RETRY_INTERVAL = 10.0
"""Seconds before a document that could not be had is asked for again; a broken aggregated API stays so for a while."""
TIMEOUT = 20.0
"""Seconds; the server computes a document when it is first asked for it."""
VALUES = frozenset({"default", "enum", "example"})
"""The words of a schema below which there are values, not schemas."""

GroupVersion: TypeAlias = tuple[str, str]
KindKey: TypeAlias = tuple[str, str, str]
"""Group, version, kind."""


class Schemas:
    """Definitions by name, and which one describes which kind."""

    def __init__(self, connection: Connection, *, observer: skips.Counter | None = None) -> None:
        self._connection = connection
        self._skips = skips.Skips("OpenAPI", observer)
        self._hashes: dict[GroupVersion, str] = {}
        """Of each document, by the index; the hash is whatever stands for the content in the document's URL."""
        self._loaded: dict[GroupVersion, str] = {}
        """The hash under which each document was loaded."""
        self._asked: set[GroupVersion] = set()
        self._retry_at: dict[GroupVersion, float] = {}
        self._by_kind: dict[KindKey, str] = {}
        """The name of the definition."""
        self._raw: dict[str, bytes] = {}
        self._parsed: dict[str, Object] = {}
        self._loading = asyncio.Lock()
        self._update_index = single_flight.SingleFlight(self._get_index, interval=INDEX_INTERVAL)
        self.generation = 0
        """Rises whenever a schema that was asked for changed, or came later than it was asked for."""

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The kind's schema, or None where none was loaded."""
        name = self._by_kind.get((kind.group, kind.version, kind.name))
        return self.find_definition(REFERENCE_PREFIX + name) if name else None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """What `#/components/schemas/…` points to."""
        name = reference.removeprefix(REFERENCE_PREFIX)
        parsed = self._parsed.get(name)
        if parsed is None and name in self._raw:
            parsed = self._parsed[name] = orjson.loads(self._raw[name])
        return parsed

    async def load(self, kinds: Collection[Kind]) -> None:
        """Let `find_schema` know these kinds; what cannot be had is left out. Sends nothing for what is known."""
        now = asyncio.get_running_loop().time()
        missing = sorted({(kind.group, kind.version) for kind in kinds} - self._loaded.keys())
        missing = [pair for pair in missing if self._retry_at.get(pair, 0.0) <= now]
        if not missing:
            return
        if any(pair not in self._hashes for pair in missing):
            await self._update_index()
        async with self._loading:
            came_late = [await self._load(pair) and pair in self._asked for pair in missing]
        self._asked.update(missing)
        self.generation += any(came_late)

    async def refresh(self) -> None:
        """Look whether documents that were asked for changed or came, and load those."""
        if not self._asked:
            return
        await self._update_index()
        async with self._loading:
            changed = [await self._load(pair) for pair in sorted(self._asked)]
        self.generation += any(changed)

    async def _get_index(self) -> None:
        """Learn which documents there are; where that cannot be had, the last answer stands."""
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

    async def _load(self, pair: GroupVersion) -> bool:
        """Load one document, unless it is not there, or known; whether there is anything new."""
        wanted = self._hashes.get(pair)
        if wanted is None or self._loaded.get(pair) == wanted:
            return False
        group, version = pair
        path = f"{ROOT}/apis/{group}/{version}" if group else f"{ROOT}/api/{version}"
        try:
            # Without the hash in the URL: a document that changed since would be a redirect, and this one is newer.
            document = await self._connection.request("GET", path, timeout=TIMEOUT)
        except (errors.ApiStatusError, errors.Unreachable):
            self._retry_at[pair] = asyncio.get_running_loop().time() + RETRY_INTERVAL
            return False
        found = await asyncio.to_thread(extract, document)
        self._loaded[pair] = wanted
        self._raw.update(found.raw)
        self._by_kind.update({key: name for key, name in found.by_kind.items() if key[:2] == pair})
        for name in found.raw:
            self._parsed.pop(name, None)
        for name in found.unreadable:
            # What was known of it before describes something else.
            self._raw.pop(name, None)
            self._parsed.pop(name, None)
            self._note_unreadable(pair, name)
        return True

    def _note_unreadable(self, pair: GroupVersion, name: str) -> None:
        """Say once that a definition is left out: kinds that use it are untyped."""
        self._skips.note({"uid": (pair, name), "name": name}, reason="schema", detail="/".join(filter(None, pair)))


@dataclass(frozen=True, slots=True)
class Extract:
    """What is kept of an OpenAPI document."""

    raw: Mapping[str, bytes]
    """The definitions by name, as JSON."""
    by_kind: Mapping[KindKey, str]
    """By kind the name of its definition."""
    unreadable: Sequence[str]
    """The names of definitions that are left out."""


def extract(document: Object) -> Extract:
    """The definitions of an OpenAPI document that can be read; one that cannot leaves the others as they are."""
    components = document.get("components")
    found = components.get("schemas") if isinstance(components, dict) else None
    raw: dict[str, bytes] = {}
    by_kind: dict[KindKey, str] = {}
    unreadable = [] if salvage.find_omission(document) is None else ["components.schemas"]
    for name, schema in found.items() if isinstance(found, dict) else ():
        try:
            kinds = list(find_kinds(schema))
            raw[name] = packing.pack(without_texts(schema))
        # RecursionError: too deep to be walked through; TypeError: to be written, or no schema at all.
        except (RecursionError, TypeError):
            unreadable.append(name)
        else:
            for kind in kinds:
                by_kind[kind] = name
    return Extract(raw, by_kind, unreadable)


def find_kinds(schema: Any) -> Iterator[KindKey]:
    """The kinds that a definition describes. Raises TypeError for what is no definition."""
    if not isinstance(schema, dict):
        raise TypeError(type(schema).__name__)
    for entry in schema.get("x-kubernetes-group-version-kind") or ():
        if not isinstance(entry, dict):
            raise TypeError(type(entry).__name__)
        group, version, kind = (entry.get(word, "") for word in ("group", "version", "kind"))
        if isinstance(group, str) and isinstance(version, str) and isinstance(kind, str):
            yield group, version, kind


def without_texts(schema: Any, *, depth: int = 0) -> Any:
    """The same schema without its descriptions, which are most of it; a property of that name stays.

    Raises RecursionError where it is nested too deeply.
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
