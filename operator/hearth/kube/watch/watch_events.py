"""Parses the events of a watch stream. Pure."""

from __future__ import annotations

import asyncio
import re
from typing import Any, TypeAlias

import orjson

from hearth.kube.client import api_status, salvage
from hearth.kube.watch import watch_errors
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import limits
from hearth.model.child import Object

WatchEvent: TypeAlias = tuple[str, Object, int]
"""The event's type, its object, and the object's resourceVersion (0 for an ERROR). A tuple, because one is created per
event."""

Echo: TypeAlias = tuple[bytes, str, int]
"""The event's type, and the UID and resourceVersion of its object."""

METADATA_BYTES = 16 * 1024
"""Maximum bytes in which the end of the metadata is searched."""
TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


IDENTITY = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"(?:kind|apiVersion)":"[^"\\]*+","(?:kind|apiVersion)":"[^"\\]*+",'
    rb'"metadata":\{(?:"(?:name|generateName|namespace|selfLink)":"[^"\\]*+",)*+"uid":"([^"\\]++)",'
    rb'"resourceVersion":"([1-9][0-9]{0,18})"[,}]'
)
"""The beginning of an event with the field order of the API server's built-in types."""

CUSTOM_BEGIN = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"apiVersion":"[^"\\]*+","kind":"[^"\\]*+","metadata":\{'
)
"""The beginning of an event with alphabetical field order, as in all custom resources."""
CUSTOM_END = re.compile(rb'"resourceVersion":"([1-9][0-9]{0,18})","uid":"([^"\\]++)"\},"(?:spec|status)":')
"""The end of the metadata of a custom resource, and the beginning of the next field.

The text before it contains only the metadata's own maps and lists: texts, where quotes are escaped, and the names of
managed fields, which have prefixes. None of them is followed by `spec` or `status`, so the first match is the right
one.
"""


class Nameless(Exception):
    """Error for an event whose object has no readable name or version; its line can only be skipped."""


class LineSplitter:
    """Splitter of chunks of any size into lines; it retains only the beginning of a line that is too long."""

    def __init__(self, most: int = limits.LINE_BYTES) -> None:
        """most: bytes of a line that is kept as a whole."""
        self._most = most
        self._rest: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        if not self._rest:
            *lines, rest = chunk.split(b"\n")
        else:
            head, _, chunk = chunk.partition(b"\n")
            self._keep(head)
            *lines, rest = chunk.split(b"\n")
            lines = [b"".join(self._rest), *lines]
        self._rest, self._length = [], 0
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        """Store a piece of an incomplete line."""
        if self._length <= self._most < self._length + len(piece):
            # Truncate to the length that the salvage reads. The remaining text is not valid JSON.
            self._rest = [b"".join([*self._rest, piece])[: min(self._most, limits.LINE_HEAD_BYTES)]]
        elif self._length <= self._most:
            self._rest.append(piece)
        self._length += len(piece)

    def finish(self) -> None:
        """Check that nothing is left at the end of a stream: a partial line means a truncated stream."""
        if any(piece.strip() for piece in self._rest):
            raise watch_errors.interrupt(
                WatchEndReason.BROKEN, f"the stream ended within a line, after {self._length} bytes"
            )


def find_identity(line: bytes) -> Echo | None:
    """Read an event's object and state, at a fraction of the cost of parsing. Returns None if that is unclear."""
    found = IDENTITY.match(line)
    if found is not None:
        return found[1], found[2].decode(errors="replace"), int(found[3])
    begin = CUSTOM_BEGIN.match(line)
    end = CUSTOM_END.search(line, begin.end(), begin.end() + METADATA_BYTES) if begin is not None else None
    return (begin[1], end[2].decode(errors="replace"), int(end[1])) if begin is not None and end is not None else None


def parse(line: bytes) -> WatchEvent | None:
    """Parse the event in one line; return None if it is not JSON that can be read as a whole, or in one go.

    Raises `WatchInterrupted` or `Nameless`.
    """
    if len(line) > limits.WIRE_VALUES and salvage.has_too_many_values(line):
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return check(event, line)


def salvage_event(line: bytes) -> WatchEvent:
    """Parse the event in a line that cannot be read as a whole. Raises `WatchInterrupted` or `Nameless`."""
    try:
        return check(salvage.read_event(line), line)
    except ValueError as error:
        raise not_an_event(line) from error


async def salvage_large(line: bytes) -> WatchEvent:
    """Parse the same, in a thread if that takes long."""
    if len(line) <= limits.INLINE_BYTES:
        return salvage_event(line)
    return await asyncio.to_thread(salvage_event, line)


def check(event: Any, line: bytes) -> WatchEvent:
    """Validate and return the parts of a parsed event."""
    try:
        event_type = event["type"]
        raw = event["object"]
        if event_type == "ERROR":
            return event_type, api_status.clean(raw), 0
        is_known = event_type in TYPES
    except (KeyError, TypeError) as error:
        raise not_an_event(line) from error
    if not is_known:
        raise watch_errors.interrupt(WatchEndReason.BROKEN, f"an event of unknown type {str(event_type)[:50]!r}")
    try:
        return event_type, raw, int(raw["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError) as error:
        raise Nameless from error


def not_an_event(line: bytes) -> watch_errors.WatchInterrupted:
    """Create the exception for a stream that violates the watch protocol."""
    # Do not repeat the line in the message, because it may contain part of a Secret.
    return watch_errors.interrupt(WatchEndReason.BROKEN, f"a line of {len(line)} bytes that is not an event")


def is_list_end(raw: Object) -> bool:
    """Return whether a bookmark marks the end of the initial set."""
    annotations = raw["metadata"].get("annotations")
    return isinstance(annotations, dict) and annotations.get(INITIAL_EVENTS_END) == "true"
