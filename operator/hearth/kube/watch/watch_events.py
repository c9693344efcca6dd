"""The events of a watch stream, read off its bytes.

Pure: bytes in, events out; must not know where they come from or what becomes of them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson

from hearth.kube.client import api_status, salvage
from hearth.kube.watch import watch_errors
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import limits
from hearth.model.child import Object

WatchEvent: TypeAlias = tuple[str, Object, int]
"""The event's type, its object, and the object's resourceVersion (0 for an ERROR). A tuple: one is made per event."""

TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Nameless(Exception):
    """An event whose object has no name or version that can be read; its line can only be skipped."""


class LineSplitter:
    """Cuts chunks of any size into lines; of one that is too long only the beginning is kept."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
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
        """Keep a piece of a line that goes on."""
        if self._length <= limits.LINE_BYTES < self._length + len(piece):
            # Cut as short as what is looked for in it, which makes it no JSON.
            self._rest = [b"".join([*self._rest, piece])[: limits.LINE_HEAD_BYTES]]
        elif self._length <= limits.LINE_BYTES:
            self._rest.append(piece)
        self._length += len(piece)

    def finish(self) -> None:
        """Nothing may be left at the end of a stream: half a line is a stream that was cut."""
        if any(piece.strip() for piece in self._rest):
            raise watch_errors.interrupt(
                WatchEndReason.BROKEN, f"the stream ended within a line, after {self._length} bytes"
            )


def parse(line: bytes) -> WatchEvent | None:
    """The event in one line; None where it is no JSON that can be read as a whole. Raises `Interrupted` or `Nameless`."""
    try:
        frame = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return check(frame, line)


def salvage_event(line: bytes) -> WatchEvent:
    """The event in a line that cannot be read as a whole. Raises `Interrupted` or `Nameless`."""
    try:
        return check(salvage.read_event(line), line)
    except ValueError as error:
        raise not_an_event(line) from error


def check(frame: Any, line: bytes) -> WatchEvent:
    """The parts of an event that was read."""
    try:
        event_type = frame["type"]
        raw = frame["object"]
        if event_type == "ERROR":
            return event_type, api_status.clean(raw), 0
        is_known = event_type in TYPES
    except (KeyError, TypeError) as error:
        raise not_an_event(line) from error
    if not is_known:
        raise watch_errors.interrupt(WatchEndReason.BROKEN, f"an event of the unknown type {str(event_type)[:50]!r}")
    try:
        return event_type, raw, int(raw["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError) as error:
        raise Nameless from error


def not_an_event(line: bytes) -> watch_errors.WatchInterrupted:
    """The end of a stream that does not speak as a watch does."""
    # What the line says is not repeated: it may be half a Secret.
    return watch_errors.interrupt(WatchEndReason.BROKEN, f"a line of {len(line)} bytes that is no event")


def is_list_end(raw: Object) -> bool:
    """Whether a bookmark says that the initial set is complete."""
    annotations = raw["metadata"].get("annotations")
    return isinstance(annotations, dict) and annotations.get(INITIAL_EVENTS_END) == "true"
