"""Parses `${…}` expressions in the strings of a template, with `$${` as a literal `${`.

It follows the quoting of CEL to find the end of an expression.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hearth.model import limits, value_class

OPENING = "${"
LITERAL_OPENING = "$${"
QUOTED_LENGTH = 80
# The tokens that decide where an expression ends: strings (raw ones have no escapes), comments and braces.
_TOKEN = re.compile(
    r"""
      (?P<string> (?<![\w]) (?P<prefix>[bBrR]{0,2}) (?P<quote>\"\"\"|'''|"|')) | (?P<bare_quote>\"\"\"|'''|"|')
    | (?P<comment>//[^\n]*)
    | (?P<quoted_name>`[^`\n]*`)
    | (?P<open>\{) | (?P<close>\})
    """,
    re.VERBOSE,
)
# A parameter of a shell, with the operators that may follow it: `VAR:-default`, `#array[@]`, `VAR%%.*`, `@`.
_SHELL = re.compile(r"[!#]?(?:[A-Za-z_]\w*|\d+|[@*?$!#-])(?:\[[^\]]*\])?(?:\Z|[-:=?+%#/^,@~}])")
AS_LITERAL = "write $${ for a literal ${"


@value_class.dataclass(frozen=True, slots=True)
class ExpressionSource:
    """The text of one expression, without the braces and the surrounding white space."""

    text: str


class UnterminatedExpression(ValueError):
    """A `${` whose `}` is missing or too far away, or one of too many."""

    def __init__(self, rest: str, *, is_crowded: bool = False) -> None:
        """Store the text after the opening, for the message."""
        self.is_crowded = is_crowded
        self.rest = rest[:QUOTED_LENGTH]
        self.is_long = len(rest) > limits.EXPRESSION_LENGTH
        super().__init__(f"no closing brace after {self.rest!r}")


def has_expressions(string: str) -> bool:
    """Return whether `parse` would change `string`."""
    return OPENING in string


def parse(string: str) -> tuple[str | ExpressionSource, ...]:
    """Parse `string` into literal parts and expressions, in order.

    No literal part is empty, and no two are adjacent. Raises UnterminatedExpression.
    """
    parts: list[str | ExpressionSource] = []
    literal = ""
    at = 0
    while (mark := string.find(OPENING, at)) >= 0:
        if mark > at and string[mark - 1] == "$":
            literal += string[at : mark - 1] + OPENING
            at = mark + len(OPENING)
            continue
        literal += string[at:mark]
        end = find_end(string, mark + len(OPENING))
        if literal:
            parts.append(literal)
        parts.append(ExpressionSource(string[mark + len(OPENING) : end].strip()))
        if len(parts) > 2 * limits.EXPRESSIONS_IN_TEXT:
            raise UnterminatedExpression("", is_crowded=True)
        literal, at = "", end + 1
    literal += string[at:]
    if literal:
        parts.append(literal)
    return tuple(parts)


def list_expressions(string: str) -> list[str]:
    """Return the texts of the expressions in `string`, in order. Raises UnterminatedExpression."""
    return [part.text for part in parse(string) if isinstance(part, ExpressionSource)]


def find_spans(string: str) -> Iterator[tuple[int, int]]:
    """Yield where each expression begins and ends, without the braces, up to one that is not terminated."""
    at = 0
    while (mark := string.find(OPENING, at)) >= 0:
        if mark > at and string[mark - 1] == "$":
            at = mark + len(OPENING)
            continue
        try:
            end = find_end(string, mark + len(OPENING))
        except UnterminatedExpression:
            return
        yield mark + len(OPENING), end
        at = end + 1


def find_expressions(value: Any) -> Iterator[str]:
    """Yield the text of each expression in a value, its keys included; none of a string that is malformed."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            if has_expressions(each):
                with contextlib.suppress(UnterminatedExpression):
                    yield from list_expressions(each)
        elif isinstance(each, Mapping):
            pending += each.values()
            pending += each.keys()
        elif isinstance(each, list):
            pending += each


def is_like_shell(expression: str) -> bool:
    """Return whether a text that is not an expression looks like an expansion of a shell."""
    return _SHELL.match(expression) is not None


def for_shell(expression: str) -> str:
    """Return the next step for a `${…}` that is meant for a shell: how to escape it."""
    quoted = expression if len(expression) <= QUOTED_LENGTH else expression[: QUOTED_LENGTH - 1] + "…"
    return f"if a shell is to expand it, write {LITERAL_OPENING}{quoted}}}"


def escape(string: str) -> str:
    """Return the template string that stands for the literal `string`."""
    return string.replace(OPENING, LITERAL_OPENING)


def find_end(string: str, start: int) -> int:
    """Find the brace that closes the expression that begins at `start`.

    Raises UnterminatedExpression.
    """
    depth = 0
    at = start
    # At most the length of an expression: searching further would take quadratic time for some texts.
    stop = start + limits.EXPRESSION_LENGTH + 1
    while token := _TOKEN.search(string, at, stop):
        at = token.end()
        quote = token["quote"] or token["bare_quote"]
        if quote:
            is_raw = "r" in (token["prefix"] or "").lower()
            at = find_end_of_string(string, at, stop, quote=quote, is_raw=is_raw)
            if at < 0:
                break
        elif token["open"]:
            depth += 1
        elif token["close"]:
            if depth == 0:
                return token.start()
            depth -= 1
    raise UnterminatedExpression(string[start - len(OPENING) : stop + 1])


def find_end_of_string(string: str, start: int, stop: int, *, quote: str, is_raw: bool) -> int:
    """Find the position after the closing `quote` of a CEL string.

    start: the beginning of its content. Returns -1 if there is no quote before `stop`.
    """
    at = start
    while (end := string.find(quote, at, stop)) >= 0:
        backslash = -1 if is_raw else string.find("\\", at, end)
        if backslash < 0:
            return end + len(quote)
        at = backslash + 2
    return -1
