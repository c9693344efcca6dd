"""Reads JSON of objects that is too deep, too large, truncated or invalid, and omits the unreadable parts.

The object keeps its name and version, and an `Omission` lists the missing parts so that its owner can be notified.
`Skips` logs and counts each affected object once. When a response is readable, only its size and the identity of its
objects are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
import structlog

from hearth.model import limits, value_class
from hearth.model.child import Object

log = structlog.get_logger(__name__)

OMITTED = "hearth.dev/omitted"
"""The key of an `Omission` in an object. Its value is a Python object, which no client can send as JSON."""
NAME_LENGTH = 100
"""Maximum characters of a part's name in a message."""
EXPLANATIONS: Final = {
    "depth": f"is nested too deeply; the limit is {limits.JSON_DEPTH} levels",
    "values": f"has more than {limits.WIRE_VALUES} commas and brackets; make it smaller",
    "size": f"is larger than {limits.LINE_BYTES} bytes; make the object smaller",
    "malformed": "contains data that cannot be parsed; write it again",
}
NOTHING: Final = object()

STRING = rb'"(?:[^"\\]++|\\.)*+"'
FLAT = rb'(?:[^"{}\[\]]++|' + STRING + rb")"
LEAF = rb"[{\[]" + FLAT + rb"*+[}\]]"
BRACKETS = re.compile(rb"(?:" + FLAT + rb"|" + LEAF + rb"){0,2000}+([{\[]++|[}\]]++)?", re.DOTALL)
"""Matches up to and including the next brackets that are outside texts and contain more than plain values, at the speed
of C.

The length of a match is limited, because matching blocks everything else in the process.
"""
KEY = re.compile(rb"[\s,]*+(" + STRING + rb")\s*+:\s*+", re.DOTALL)
END = re.compile(rb"\s*+}")
GAP = re.compile(rb"[\s,]*+")
SCALAR = re.compile(STRING + rb"|[^\s,\]}\"]++", re.DOTALL)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """The omitted parts of one object."""

    paths: tuple[str, ...]
    """The locations of the omitted parts, for example `spec.parameters`; "" for the whole object."""
    reason: str
    """Why the first part is omitted: `depth`, `values`, `size` or `malformed`, the label in metrics."""

    def __str__(self) -> str:
        name = self.paths[0][:NAME_LENGTH] or "the object"
        others = f"; {len(self.paths) - 1} other parts cannot be read either" if len(self.paths) > 1 else ""
        return f"{name} {EXPLANATIONS[self.reason]}{others}"

    def within(self, key: str) -> Omission | None:
        """Return the omission of one member; None if it is complete. An omitted object omits each member."""
        paths = tuple(path for path in self.paths if path in ("", key) or path.startswith(f"{key}."))
        return Omission(paths=paths, reason=self.reason) if paths else None


def find_omission(raw: Mapping[str, Any]) -> Omission | None:
    """Return the omission of an object; None if it is complete."""
    found = raw.get(OMITTED)
    return found if isinstance(found, Omission) else None


def read_event(line: bytes) -> Object:
    """Parse a watch event and omit unreadable parts of its object. Raises ValueError."""
    return _read_members(line, "object", b"{", read_object)


def read_answer(raw: bytes) -> Object:
    """Parse an object or a list of objects and omit unreadable parts. Raises ValueError."""
    found = _read_members(raw, "items", b"[", _read_items)
    return found if isinstance(found.get("items"), list) else read_object(raw, find_begin(raw))


def read_object(raw: bytes, begin: int) -> Object:
    """Parse the object that starts at `begin`, and the members of its members one by one.

    An unreadable one is omitted, and the `Omission` of the object lists it. So a Stack whose parameters cannot be read
    keeps its deletion policy and its cluster.
    """
    reading = Reading(raw)
    for key, span in _find_members(raw, begin):
        # A large spec must not cost the status.
        reading.values_left = limits.WIRE_VALUES
        if key is NOTHING or raw[span.begin : span.begin + 1] != b"{":
            reading.read(reading.found, key, span, path=key)
            continue
        inner = reading.found[key] = {}
        for name, part in _find_members(raw, span.begin):
            reading.read(inner, name, part, path=f"{key}.{name}")
    return _mark(reading.found, reading.omitted)


def _read_members(raw: bytes, key: str, opening: bytes, read: Callable[[bytes, int], Any]) -> Object:
    """Parse the members of a map individually, one of them with its own reader if it starts with this bracket."""
    found: Object = {}
    for name, span in _find_members(raw, find_begin(raw)):
        is_split = name == key and raw[span.begin : span.begin + 1] == opening
        value = read(raw, span.begin) if is_split else load(raw, span)
        if value is not NOTHING and name is not NOTHING:
            found[name] = value
    return found


def _read_items(raw: bytes, begin: int) -> list[Object]:
    """Return the objects of a list."""
    items: list[Object] = []
    at = begin + 1
    while (gap := GAP.match(raw, at)) and (span := find_value(raw, gap.end())) is not None:
        if raw[span.begin : span.begin + 1] == b"{":
            value = load(raw, span)
            items.append(value if isinstance(value, dict) else read_object(raw, span.begin))
        at = span.end
    return items


def _mark(found: Object, omitted: Mapping[str, str]) -> Object:
    """Return the object with its `Omission`. omitted: the reasons by path."""
    if omitted:
        found[OMITTED] = Omission(paths=tuple(omitted), reason=next(iter(omitted.values())))
    return found


def prune(raw: Object) -> Object:
    """Return the object without parts too deep to encode; its `Omission` lists them."""
    found: Object = {}
    omitted: dict[str, str] = {}
    for key, value in raw.items():
        if is_writable(value):
            found[key] = value
        elif isinstance(value, dict):
            found[key] = {name: part for name, part in value.items() if is_writable(part)}
            omitted |= {f"{key}.{name}": "depth" for name in value if name not in found[key]}
        else:
            omitted[key] = "depth"
    return _mark(found, omitted)


def strip(raw: Any) -> Object | None:
    """Return only the valid identity of an object; None if it has no name, UID or version."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict) or not is_identified(metadata):
        return None
    kept: Object = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    for key in ("labels", "annotations"):
        texts = metadata.get(key)
        if isinstance(texts, dict):
            kept[key] = {name: text for name, text in texts.items() if isinstance(text, str)}
    for key, sort in (("generation", int), ("deletionTimestamp", str), ("creationTimestamp", str)):
        if isinstance(metadata.get(key), sort):
            kept[key] = metadata[key]
    finalizers = metadata.get("finalizers")
    if isinstance(finalizers, list):
        kept["finalizers"] = [name for name in finalizers if isinstance(name, str)]
    return {"metadata": kept, OMITTED: Omission(paths=("",), reason="malformed")}


def identify(raw: Any) -> Object:
    """Return the identifying metadata of an object; empty if they do not identify it."""
    stripped = strip(raw)
    return stripped["metadata"] if stripped is not None else {}


def has_identity(raw: Any) -> bool:
    """Return whether an object is identifiable; otherwise no cache may store it. Cheap: runs for every event."""
    try:
        metadata = raw["metadata"]
        name, uid, namespace = metadata["name"], metadata["uid"], metadata.get("namespace", "")
    except (AttributeError, KeyError, TypeError):
        return False
    return type(name) is str and type(uid) is str and type(namespace) is str


def is_identified(metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata identify an object and its state."""
    texts = (metadata.get("name"), metadata.get("uid"), metadata.get("namespace", ""))
    return all(isinstance(text, str) for text in texts) and is_version(metadata.get("resourceVersion"))


def is_version(version: object) -> bool:
    """Return whether it can be a resourceVersion."""
    if not isinstance(version, str) or not 0 < len(version) <= limits.INTEGER_DIGITS:
        return False
    return version.isascii() and version.isdigit()


def is_writable(value: object) -> bool:
    """Return whether a value can be encoded as JSON; one that is too deep cannot."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


@value_class.dataclass(frozen=True, slots=True)
class Span:
    """Position of a value in the bytes."""

    begin: int
    end: int
    depth: int
    """Nesting depth of maps and lists, without the innermost."""
    is_cut: bool = False
    """Whether the bytes end before the value does."""


def has_too_many_values(raw: bytes, begin: int = 0, end: int | None = None) -> bool:
    """Return whether parsing the bytes at once would block the process.

    Counts commas and brackets, including those in texts. Callers check the length first, so this costs nothing for
    nearly all responses.
    """
    return count_values(raw, begin, len(raw) if end is None else end) > limits.WIRE_VALUES


def count_values(raw: bytes, begin: int, end: int) -> int:
    """Return the number of commas and opening brackets in the bytes."""
    return raw.count(b",", begin, end) + raw.count(b"{", begin, end) + raw.count(b"[", begin, end)


@dataclass(slots=True)
class Reading:
    """The state of reading one object."""

    raw: bytes
    found: Object = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)
    """The reasons by path."""
    values_left: int = limits.WIRE_VALUES
    """Values that the current member of the object may still have."""

    def read(self, found: Object, key: Any, span: Span, *, path: Any) -> None:
        """Add a member to `found`, or note why it is omitted."""
        is_text = self.raw[span.begin : span.begin + 1] == b'"'
        count = 1 if is_text else 1 + count_values(self.raw, span.begin, span.end)
        value = load(self.raw, span) if count <= self.values_left else NOTHING
        if value is not NOTHING and key is not NOTHING:
            self.values_left -= count
            found[key] = value
        elif span.is_cut or key is NOTHING:
            # The rest is also missing.
            self.omitted[""] = "size" if len(self.raw) >= limits.LINE_HEAD_BYTES else "malformed"
        elif span.depth > limits.OBJECT_DEPTH:
            self.omitted[path] = "depth"
        elif count <= self.values_left:
            self.omitted[path] = "malformed"
        else:
            # If the individual values are small, one map contains too many of them.
            self.omitted[path if count > limits.WIRE_VALUES else path.partition(".")[0]] = "values"


def load(raw: bytes, span: Span) -> Any:
    """Return the value in a span; `NOTHING` if it is unreadable, too deep, or has too many values."""
    if span.depth > limits.OBJECT_DEPTH or span.is_cut or is_too_many(raw, span):
        return NOTHING
    try:
        return orjson.loads(raw[span.begin : span.end])
    except orjson.JSONDecodeError:
        return NOTHING


def find_begin(raw: bytes) -> int:
    """Return the start of the map in the bytes. Raises ValueError."""
    begin = len(raw) - len(raw.lstrip())
    if raw[begin : begin + 1] != b"{":
        raise ValueError("no map")
    return begin


def _find_members(raw: bytes, begin: int) -> Iterator[tuple[Any, Span]]:
    """Yield the names and values of the map that starts at `begin`; at last, without a name, a rest that is not JSON."""
    at = begin + 1
    while (member := KEY.match(raw, at)) and (span := find_value(raw, member.end())) is not None:
        yield load(raw, Span(member.start(1), member.end(1), 0)), span
        at = span.end
    if END.match(raw, at) is None:
        yield NOTHING, Span(at, len(raw), 0, is_cut=True)


def find_value(raw: bytes, begin: int) -> Span | None:
    """Find the end of the value that starts at `begin`; return None if there is none."""
    if raw[begin : begin + 1] not in (b"{", b"["):
        found = SCALAR.match(raw, begin)
        if found is None and raw[begin : begin + 1] == b'"':
            return Span(begin, len(raw), 0, is_cut=True)
        return Span(begin, found.end(), 0) if found is not None else None
    at, level, depth = begin + 1, 1, 1
    while (found := BRACKETS.match(raw, at)) and found.end() > at:
        run, at = found[1], found.end()
        if run is None:
            continue
        if run[0] in b"{[":
            level += len(run)
            depth = max(depth, level)
        elif level > len(run):
            level -= len(run)
        else:
            return Span(begin, at - (len(run) - level), depth)
    return Span(begin, len(raw), depth, is_cut=True)


def is_too_many(raw: bytes, span: Span) -> bool:
    """Return whether a map or list has too many values."""
    if span.end - span.begin <= limits.WIRE_VALUES or not span.depth:
        return False
    return has_too_many_values(raw, span.begin, span.end)


class SkipObserver(Protocol):
    """The metrics of skipped objects."""

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Count an object that was received and not stored, or not stored completely."""


class Skips:
    """Objects of one kind that cannot be read, wholly or in part: each is logged and counted only once."""

    def __init__(self, kind: str, observer: SkipObserver | None) -> None:
        self._kind = kind
        self._observer = observer
        self._named: dict[tuple[object, str], None] = {}
        """Omissions already reported, by UID (or another identity) and reason."""

    def note(self, metadata: Mapping[str, Any], *, reason: str, detail: str = "") -> None:
        """Report that an object cannot be read. metadata: of the object; empty if it has none."""
        key = (str(metadata.get("uid")), reason)
        if key in self._named:
            return
        if len(self._named) >= limits.SKIPPED_NAMES:
            self._named.clear()
        self._named[key] = None
        if self._observer is not None:
            self._observer.on_skipped_object(kind=self._kind, reason=reason)
        where = {each: metadata.get(each) for each in ("name", "namespace", "uid", "resourceVersion")}
        log.error("object cannot be read", kind=self._kind, **where, reason=reason, detail=detail)
