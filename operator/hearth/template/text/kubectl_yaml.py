"""Parses YAML as kubectl does, and writes YAML that kubectl reads back unchanged.

Values are JSON values. Scalars differ from those of PyYAML: `22:22` and `2024-01-01` are text; `y`, `1e3` and `0o644`
are not.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml
from yaml import events

from hearth.model import limits, value_class
from hearth.model.text import invisible

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
EVENTS_IN_A_PIECE = 500
"""Half a millisecond of work."""
DIRECTIVES = 100
"""Lines that begin with `%`: libyaml compares each `%TAG` with all others."""
_ABSENT: Final = object()
_MERGE_KEY: Final = object()
"""The key `<<`."""

ReadScalar: TypeAlias = Callable[[str, str, yaml.Mark], Any]
"""Makes a value of a tag without its prefix, a text and its position. Raises ValueError if the text does not fit the
tag."""
Fail: TypeAlias = yaml.constructor.ConstructorError


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The size limits of one text, after expansion."""

    nodes: int = limits.JSON_NODES
    depth: int = limits.JSON_DEPTH
    size: int = limits.SOURCE_BYTES
    """Characters."""


class Excess(yaml.constructor.ConstructorError):
    """A text that exceeds its bounds; the message names no value."""

    def __init__(self, message: str, mark: yaml.Mark | None) -> None:
        super().__init__(None, None, message, mark)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a YAML text."""

    value: Any
    number: int
    """Counts from 1, empty documents included."""
    line: int
    """The line where it begins, from 1."""


@value_class.dataclass(frozen=True, slots=True)
class Anchored:
    """A value with an anchor, and the size that each alias of it adds."""

    value: Any
    nodes: int
    size: int
    height: int
    """Levels of maps and lists."""


@dataclass(slots=True)
class Frame:
    """A map or list that is not complete."""

    value: dict[str, Any] | list[Any]
    mark: yaml.Mark
    anchor: str | None
    nodes: int
    """The counters when it began."""
    size: int
    height: int = 1
    key: Any = _ABSENT
    """The key of a map that waits for its value."""
    lines: dict[str, int] = field(default_factory=dict)
    """By key of a map, its line."""
    merged: list[dict[str, Any]] = field(default_factory=list)
    """The additions of `<<`, the least important first."""


class Builder:
    """Reads one text."""

    def __init__(self, loader: Any, read_scalar: ReadScalar, bounds: Bounds) -> None:
        self._loader = loader
        self._read_scalar = read_scalar
        self._bounds = bounds
        self._nodes = self._size = 0
        self._begin()

    def _begin(self) -> None:
        """Start a document."""
        self._frames: list[Frame] = []
        self._anchors: dict[str, Anchored | None] = {}
        self._root: Any = None

    def documents(self) -> Generator[Document | None, None, None]:
        """Yield each document that is not empty; None at intervals, as a pause. Raises yaml.YAMLError."""
        number = line = done = 0
        while True:
            event = self._loader.get_event()
            done += 1
            if done % EVENTS_IN_A_PIECE == 0:
                yield None
            match event:
                case events.DocumentStartEvent():
                    number += 1
                    self._begin()
                    line = self._loader.peek_event().start_mark.line + 1
                case events.DocumentEndEvent():
                    if self._root is not None:
                        yield Document(value=self._root, number=number, line=line)
                case events.StreamEndEvent():
                    return
                case _:
                    self._take(event)

    def _take(self, event: Any) -> None:
        match event:
            case events.ScalarEvent():
                self._take_scalar(event)
            case events.AliasEvent():
                self._take_alias(event)
            case events.MappingStartEvent():
                self._open(event, {})
            case events.SequenceStartEvent():
                self._open(event, [])
            case events.MappingEndEvent() | events.SequenceEndEvent():
                self._close()

    def _count(self, nodes: int, size: int, mark: yaml.Mark) -> None:
        self._nodes += nodes
        self._size += size
        if self._nodes > self._bounds.nodes:
            raise Excess(f"holds more than {self._bounds.nodes} values, aliases expanded; split it", mark)
        if self._size > self._bounds.size:
            raise Excess(f"holds more than {self._bounds.size} characters, aliases expanded; split it", mark)

    def _check_depth(self, height: int, mark: yaml.Mark) -> None:
        if len(self._frames) + height > self._bounds.depth:
            raise Excess(f"is nested more than {self._bounds.depth} levels deep; flatten it", mark)

    def _take_scalar(self, event: Any) -> None:
        text: str = event.value
        self._count(0 if self._is_key_due() else 1, len(text), event.start_mark)
        is_implicit = event.tag is None or event.tag == "!"
        tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit) if is_implicit else event.tag
        if tag == MERGE and self._is_key_due():
            self._frames[-1].key = _MERGE_KEY
            return
        value = self._make_scalar(tag, event, is_implicit=is_implicit)
        if event.anchor is not None:
            self._anchors[event.anchor] = Anchored(value, 1, len(text), 0)
        self._put(value, event.start_mark, 0)

    def _make_scalar(self, tag: str, event: Any, *, is_implicit: bool) -> Any:
        self._check_tag(tag, event.start_mark)
        try:
            return self._read_scalar(tag.removeprefix(TAG), event.value, event.start_mark)
        except ValueError:
            # Like kubectl, treat a scalar that only looks like a number as text, for example `0x_`.
            if is_implicit:
                return event.value
        raise Fail(None, None, f"this value is not a valid {tag.removeprefix(TAG)}; remove the tag", event.start_mark)

    def _check_tag(self, tag: str, mark: yaml.Mark) -> None:
        if tag not in self._loader.yaml_constructors and tag != MERGE:
            raise Fail(None, None, f"could not determine a constructor for the tag {tag!r}", mark)

    def _take_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise Fail(None, None, f"found undefined alias {event.anchor!r}", event.start_mark)
        found = self._anchors[event.anchor]
        if found is None:
            message = f"the alias {event.anchor!r} refers to a value that contains it; write the value out"
            raise Fail(None, None, message, event.start_mark)
        self._count(found.nodes, found.size, event.start_mark)
        self._check_depth(found.height, event.start_mark)
        self._put(found.value, event.start_mark, found.height)

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if event.tag is not None and event.tag != "!":
            self._check_tag(event.tag, event.start_mark)
        if self._is_key_due():
            raise Fail(None, None, "a key must be text", event.start_mark)
        self._check_depth(1, event.start_mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._frames.append(Frame(value, event.start_mark, event.anchor, self._nodes, self._size))
        self._count(1, 0, event.start_mark)

    def _close(self) -> None:
        frame = self._frames.pop()
        value = frame.value
        if frame.merged and isinstance(value, dict):
            stated, value = value, {}
            for each in (*frame.merged, stated):
                value.update(each)
        if frame.anchor is not None:
            weight = Anchored(value, self._nodes - frame.nodes, self._size - frame.size, frame.height)
            self._anchors[frame.anchor] = weight
        self._put(value, frame.mark, frame.height)

    def _is_key_due(self) -> bool:
        return bool(self._frames) and isinstance(self._frames[-1].value, dict) and self._frames[-1].key is _ABSENT

    def _put(self, value: Any, mark: yaml.Mark, height: int) -> None:
        """Store a complete value in its parent. height: how deeply its maps and lists are nested."""
        if not self._frames:
            self._root = value
            return
        frame = self._frames[-1]
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is _ABSENT:
            self._take_key(frame, value, mark)
        elif frame.key is _MERGE_KEY:
            frame.merged += list_merged(value, mark)
            frame.key = _ABSENT
        else:
            frame.value[frame.key] = value
            frame.key = _ABSENT

    def _take_key(self, frame: Frame, value: Any, mark: yaml.Mark) -> None:
        key = write_key(value, mark)
        if key in frame.lines:
            message = f"the key {key!r} is a duplicate, first used in line {frame.lines[key]}"
            raise Fail(None, None, message, mark)
        frame.lines[key] = mark.line + 1
        frame.key = key


def write_key(value: Any, mark: yaml.Mark) -> str:
    """Return a key as JSON writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Fail(None, None, "a key must be text", mark)


def list_merged(value: Any, mark: yaml.Mark) -> list[dict[str, Any]]:
    """List the maps that `<<: value` merges in, the least important first."""
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return value[::-1]
    raise Fail(None, None, "expected a mapping or list of mappings for merging", mark)


def check_directives(text: str, bounds: Bounds) -> None:
    """Raise Excess for directives that libyaml would take too long to process."""
    if len(text) > bounds.size:
        raise Excess(f"has {len(text)} characters, but at most {bounds.size} are allowed; split it", None)
    if text.count("\n%") > DIRECTIVES:
        raise Excess(f"has more than {DIRECTIVES} lines that start with %; indent them, or remove them", None)


BOOLEANS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}
INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
# The order matters: a scalar that is not an integer may still be a float, like `08`.
PLAIN = (
    (
        "bool",
        re.compile(r"(?:[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$"),
        "yYnNtTfFoO",
    ),
    ("null", re.compile(r"(?:~|null|Null|NULL|)$"), "~nN"),
    ("int", INTEGER, "-+0123456789"),
    ("float", FLOAT, "-+.0123456789"),
    ("merge", re.compile(r"<<$"), "<"),
)
"""Types of an unquoted scalar, other than text, and the characters that it may begin with."""
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
"""The range of integers that kubectl does not convert to floats."""
EXACT = 2**53
"""Up to here, JSON writers write a float without a fraction as an integer, with the same meaning."""
LONGEST_INTEGER = 1_100
"""Digits: the largest float has 309 decimal or 1,024 binary ones."""
BOUNDS: Final = Bounds()
MISLEADING: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{invisible.INVISIBLE}]")
"""Characters that force quotes and escapes, so that a reader sees the exact text."""
UNLIMITED = 2**31 - 1
"""Characters in a line: line breaks would make long lines no easier to read, and harder to compare."""


class Loader(yaml.CSafeLoader):
    """Knows only the tags of JSON values."""

    def construct_json(self, node: yaml.ScalarNode) -> Any:
        """Return the value of a scalar. Raises yaml.YAMLError."""
        kind = node.tag.removeprefix(TAG)
        try:
            return read_scalar(kind, node.value, node.start_mark)
        except ValueError:
            message = f"this value is not a valid {kind}; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None


Loader.yaml_constructors = {
    # Sets, dates and the other YAML types have no counterpart in JSON.
    **{
        f"{TAG}{name}": Loader.construct_json
        for name in ("null", "bool", "int", "float", "binary", "str", "seq", "map", "value", "timestamp")
    },
    None: yaml.CSafeLoader.construct_undefined,
}
Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in PLAIN:
    Loader.add_implicit_resolver(f"{TAG}{_name}", _pattern, [*_first, ""] if _name == "null" else list(_first))


class Dumper(yaml.CSafeDumper):
    """Writes every value in place, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML requires it
        """Return true, so that PyYAML writes no anchors. They would depend on which objects share memory."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote text that a parser might take for another type, or that looks like other text to a reader."""
        style = '"' if MISLEADING.search(text) else "|" if "\n" in text else None
        return self.represent_scalar(f"{TAG}str", text, style=style)


Dumper.add_representer(str, Dumper.represent_text)
for _name, _pattern, _first in PLAIN:
    # In addition to PyYAML's rules, so that both kinds of parsers read text as text.
    Dumper.add_implicit_resolver(f"{TAG}{_name}", _pattern, [*_first, ""] if _name == "null" else list(_first))


def parse_documents(text: str, bounds: Bounds = BOUNDS) -> Iterator[Document]:
    """Yield each document that is not empty, in order. Raises yaml.YAMLError; see `describe`."""
    return (found for found in read(text, bounds) if found is not None)


def read(text: str, bounds: Bounds = BOUNDS) -> Iterator[Document | None]:
    """Read the documents in pieces: None at intervals, when other work may run."""
    check_directives(text, bounds)
    try:
        loader = Loader(text)
        try:
            yield from Builder(loader, read_scalar, bounds).documents()
        finally:
            loader.dispose()
    except UnicodeError:
        raise yaml.YAMLError("contains characters that are not valid UTF-8") from None


def compose(text: str, bounds: Bounds = BOUNDS) -> yaml.Node | None:
    """Compose the nodes of the one document in a text, with the position of each value. Raises yaml.YAMLError."""
    for _ in read(text, bounds):
        pass
    root: yaml.Node | None = yaml.compose(text, Loader=Loader)
    return root


def describe(error: yaml.YAMLError) -> str:
    """Format an error in one line: `line 12, column 3: …`."""
    mark = getattr(error, "problem_mark", None)
    sentences = (getattr(error, "context", None), getattr(error, "problem", None))
    text = ": ".join(sentence for sentence in sentences if sentence) or " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}" if mark is not None else text


def write(value: Any) -> str:
    """Write `value` as a YAML document, with unchanged key order and unlimited line length.

    Characters that hide or reorder their neighbors are written as escapes.
    """
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, width=UNLIMITED, allow_unicode=True)
    # libyaml does not escape some characters. Text with these characters is in double quotes, where an escape has the
    # same meaning.
    return MISLEADING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def read_scalar(kind: str, text: str, mark: yaml.Mark) -> Any:
    """Return the value of a scalar whose tag ends in `kind`.

    Raises ValueError if the text does not match the tag, yaml.YAMLError if JSON has no such type.
    """
    match kind:
        case "null":
            return None
        case "bool":
            return read_boolean(text)
        case "int":
            return parse_integer(text)
        case "float":
            return read_float(text, mark)
        case "binary":
            return read_binary(text, mark)
    return text


def read_boolean(text: str) -> bool:
    """Parse a boolean. Raises ValueError."""
    if text.lower() not in BOOLEANS:
        raise ValueError
    return BOOLEANS[text.lower()]


def read_float(text: str, mark: yaml.Mark) -> int | float | str:
    """Parse a number; text if it is too large for one. Raises ValueError."""
    if "inf" in text.lower() or "nan" in text.lower():
        raise yaml.constructor.ConstructorError(None, None, f"{text[:10]} is not a JSON number", mark)
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() and abs(number) < EXACT else number


def read_binary(text: str, mark: yaml.Mark) -> str:
    """Decode base 64 to text."""
    try:
        return base64.b64decode(text.encode("ascii")).decode()
    except ValueError:
        raise yaml.constructor.ConstructorError(None, None, "!!binary does not contain text", mark) from None


def parse_integer(text: str) -> int | float | str:
    """Parse an integer of YAML 1.1 or 1.2.

    The result is a float if it is too large for an integer, and text if it is too large for a float. Raises ValueError.
    """
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > LONGEST_INTEGER:
        return text
    is_old_octal = len(digits) > 1 and digits.isdigit() and digits.startswith("0")
    number = sign * (int(digits, 8) if is_old_octal else int(digits, 0))
    try:
        return number if SMALLEST <= number <= LARGEST else float(number)
    except OverflowError:
        return text
