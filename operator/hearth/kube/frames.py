"""The events of a watch stream, read off its bytes.

Pure: bytes in, events out; must not know where they come from or what becomes of them.
"""

from __future__ import annotations

from typing import TypeAlias

import orjson

from hearth.kube import interruptions
from hearth.kube.interruptions import Reason
from hearth.model.child import Object

Frame: TypeAlias = tuple[str, Object, int]
"""The event's type, its object, and the object's resourceVersion (0 for an ERROR). A tuple: one is made per event."""

TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; an object has at most 3 MiB, so this is no line of a watch."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Lines:
    """Cuts chunks of any size into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise interruptions.interrupt(Reason.BROKEN, f"a line of more than {LONGEST_LINE} bytes")
        return lines

    def finish(self) -> None:
        """Nothing may be left at the end of a stream: half a line is a stream that was cut."""
        if self._rest.strip():
            raise interruptions.interrupt(
                Reason.BROKEN, f"the stream ended within a line, after {len(self._rest)} bytes"
            )


def parse(line: bytes) -> Frame:
    """The event in one line. Raises `Interrupted` for anything else."""
    try:
        frame = orjson.loads(line)
        event_type = frame["type"]
        raw = frame["object"]
        if event_type == "ERROR":
            return event_type, dict(raw), 0
        version = int(raw["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError) as error:
        # What the line says is not repeated: it may be half a Secret.
        raise interruptions.interrupt(Reason.BROKEN, f"a line of {len(line)} bytes that is no event") from error
    if event_type not in TYPES:
        raise interruptions.interrupt(Reason.BROKEN, f"an event of the unknown type {event_type!r}")
    return event_type, raw, version


def is_list_end(raw: Object) -> bool:
    """Whether a bookmark says that the initial set is complete."""
    annotations = raw["metadata"].get("annotations") or {}
    return bool(annotations.get(INITIAL_EVENTS_END) == "true")
