"""Parses the YAML nodes of an incomplete text with their positions.

A line that cannot be parsed is skipped, so that the rest of the file still has names and fields. Aliases are not
expanded, so that a small text never has many nodes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml
from yaml import events

from hearth.model import limits, value_class
from hearth.template.text import kubectl_yaml
from hearth.template.text.kubectl_yaml import Excess

REPAIRS: Final = 6
"""Maximum number of lines that are left out. Each costs another parse."""
UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML does not allow."""
LINE_START: Final = re.compile(r" *(?:- +)*(?:[\w.-]+:(?= |$))?")
"""The part of a line that is kept if the rest cannot be read: the key, or the dashes of an item."""
OPEN_QUOTE: Final = re.compile(
    r"""^(?:[^\n#"']{0,200}[\[{:,-] +|)(?:"(?:[^"\\\n]|\\.)*|'(?:[^'\n]|'')*)$""", re.MULTILINE
)
"""Matches a line where a quote begins a value and is not closed."""
END: Final = yaml.Mark("", sys.maxsize, 0, 0, "", 0)
EMPTY: Final = yaml.ScalarNode("", "", END, END)
ESCAPE: Final = re.compile(r"\\(?:x..|u....|U........|\r?\n|.)", re.DOTALL)
ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The documents of a text."""

    roots: tuple[yaml.Node, ...]
    is_whole: bool
    """Whether the text is valid YAML."""


def read_nodes(text: str, roots: list[yaml.Node]) -> None:
    """Add the documents of a text to `roots`. Raises yaml.YAMLError; the nodes before the error are added."""
    kubectl_yaml.check_directives(text, kubectl_yaml.BOUNDS)
    inner = roots
    outer: list[tuple[yaml.CollectionNode, list[yaml.Node]]] = []
    count = 0
    loader: Any = kubectl_yaml.Loader(text)
    try:
        # There are tens of thousands of events: a branch for each class takes half the time of `match`.
        while (kind := (event := loader.get_event()).__class__) is not events.StreamEndEvent:
            if kind is events.ScalarEvent:
                inner.append(yaml.ScalarNode("", event.value, event.start_mark, event.end_mark, event.style))
                count += 1
            elif kind is events.MappingStartEvent or kind is events.SequenceStartEvent:
                node = yaml.MappingNode if kind is events.MappingStartEvent else yaml.SequenceNode
                # A node without an end extends to the end of the text.
                outer.append((node("", [], event.start_mark, END), inner))
                inner.append(outer[-1][0])
                inner = []
                count += 1
                if len(outer) > limits.JSON_DEPTH or count > limits.JSON_NODES:
                    raise Excess("is too large or too deep", event.start_mark)
            elif kind is events.MappingEndEvent or kind is events.SequenceEndEvent:
                outer[-1][0].end_mark = event.end_mark
                inner = complete(*outer.pop(), inner)
            elif kind is events.AliasEvent:
                inner.append(yaml.ScalarNode("", "", event.start_mark, event.end_mark, "*"))
    finally:
        loader.dispose()
        while outer:
            inner = complete(*outer.pop(), inner)


def complete(node: yaml.CollectionNode, outer: list[yaml.Node], inner: list[yaml.Node]) -> list[yaml.Node]:
    """Store the content of a map or list; return the content of the one around it."""
    if isinstance(node, yaml.MappingNode):
        # The last key has no value where the text ends.
        values = inner[1::2] if len(inner) % 2 == 0 else [*inner[1::2], EMPTY]
        node.value = list(zip(inner[::2], values, strict=True))
    else:
        node.value = inner
    return outer


def read_outline(text: str) -> Outline:
    """Return the documents of a text, none if it is larger than lint accepts."""
    text = UNREADABLE.sub(" ", text)
    roots: list[yaml.Node] = []
    for attempt in range(REPAIRS + 1):
        roots = []
        try:
            read_nodes(text, roots)
        except Excess:
            return Outline(roots=(), is_whole=False)
        except yaml.YAMLError as error:
            text = leave_out(text, find_cause(text, error))
        else:
            return Outline(roots=tuple(roots), is_whole=attempt == 0)
    return Outline(roots=tuple(roots), is_whole=False)


def find_cause(text: str, error: yaml.YAMLError) -> int:
    """Return an offset in the line that makes a text invalid.

    For an open quote or bracket, this is the line where it begins.
    """
    context = str(getattr(error, "context", None) or "")
    is_open = context.startswith("while scanning") or "flow" in context
    mark = getattr(error, "context_mark" if is_open else "problem_mark", None)
    noticed = mark.index if mark is not None else len(text)
    # The parser fails far from an open quote, because the next quote, many lines later, closes it.
    _, end = find_line(text, noticed)
    quotes = [found.end() for found in OPEN_QUOTE.finditer(text, 0, end)]
    return quotes[-1] if quotes else int(noticed)


def leave_out(text: str, offset: int) -> str:
    """Return a text of the same length where the line at an offset is reduced to its key; if it already is, the key is
    removed as well.
    """
    # If the parser reports the end of the text, the cause is in the last line that is not empty.
    offset = min(offset, max(len(text.rstrip()) - 1, 0))
    start, end = find_line(text, offset)
    line = text[start:end]
    kept = find_start(line)
    if kept.rstrip() == line.rstrip():
        kept = ""
    return text[:start] + kept.ljust(len(line)) + text[end:]


def find_line(text: str, offset: int) -> tuple[int, int]:
    """Return where the line at an offset begins and ends, without the break."""
    end = text.find("\n", offset)
    return text.rfind("\n", 0, offset) + 1, len(text) if end < 0 else end


def find_start(line: str) -> str:
    """Return the dashes and the key that a line begins with."""
    found = LINE_START.match(line)
    return found[0] if found is not None else ""


def find_value(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """Return the node under a path of keys."""
    for step in path:
        node = dict(list_entries(node)).get(step) if node is not None else None
    return node


def list_entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the values of a map by key."""
    return ((key.value, value) for key, value in list_pairs(node))


def list_pairs(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """Yield the text keys of a map with their values; nothing if it is not a map."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return ((key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode))


def list_items(node: yaml.Node | None) -> Sequence[yaml.Node]:
    """Return the items of a list; empty if it is not a list."""
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def read_text(node: yaml.Node | None) -> str:
    """Return the text of a scalar; empty for any other node."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def list_scalars(node: yaml.Node | None, *, without: yaml.Node | None = None) -> Iterator[yaml.ScalarNode]:
    """Yield the scalars in a node, without keys and without one node within it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, yaml.ScalarNode):
            yield each
        elif isinstance(each, yaml.MappingNode) and each is not without:
            waiting += [value for _, value in each.value]
        elif isinstance(each, yaml.SequenceNode):
            waiting += each.value


def read_written(text: str, node: yaml.ScalarNode) -> tuple[str, Sequence[int]]:
    """Return a scalar as its author wrote it but without escapes, and the offset in the text of each of its characters."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        start = min(text.find("\n", start) + 1 or end, end)
    if node.style == "'":
        return unescape(text[start + 1 : end - 1], start + 1, re.compile("''"))
    if node.style == '"':
        return unescape(text[start + 1 : end - 1], start + 1, ESCAPE)
    return text[start:end], range(start, end + 1)


def unescape(written: str, start: int, pattern: re.Pattern[str]) -> tuple[str, Sequence[int]]:
    """Return a text with the escapes of a pattern replaced, and the offsets of its characters."""
    parts: list[str] = []
    offsets: list[int] = []
    at = 0
    for found in pattern.finditer(written):
        parts += [written[at : found.start()], ESCAPED.get(found[0][-1], found[0][-1])]
        offsets += [*range(start + at, start + found.start()), start + found.start()]
        at = found.end()
    offsets += range(start + at, start + len(written) + 1)
    return "".join([*parts, written[at:]]), offsets
