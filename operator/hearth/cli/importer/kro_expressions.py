"""Translates kro's CEL expressions to Hearth's: other names, a few other functions and explicit conditions.

Functions without an equivalent stay unchanged, and the compiler reports them. Source: kro's documentation, "CEL
Libraries".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from hearth.model import limits, value_class
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.text import interpolation
from hearth.template.text.interpolation import ExpressionSource

TOKEN: Final = re.compile(
    r"""
      [bBrR]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | [A-Za-z_]\w* | \d[\w.]* | \s+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
NAMES: Final[Sequence[tuple[tuple[str, ...], str]]] = (
    (("schema", ".", "spec"), "params"),
    (("schema", ".", "metadata", ".", "name"), "stack.name"),
    (("schema", ".", "metadata", ".", "namespace"), "stack.namespace"),
    (("schema", ".", "metadata", ".", "uid"), "stack.uid"),
    (("json", ".", "marshal"), "toJson"),
    (("omit", "(", ")"), "null"),
)
"""Names in kro, as tokens, and the corresponding names in Hearth."""
HEX_DIGEST: Final = ('"%x"', ".", "format", "(", "[", "hash", ".", "sha256", "(")
"""The beginning of a digest as text; in Hearth, `sha256` gives the text."""
BEGINNINGS: Final = frozenset(old[0] for old, _ in NAMES)
SPEC: Final = NAMES[0][0]
PARAMETERS: Final = NAMES[0][1]
STATUS: Final = "status"
CONDITIONS: Final = 64
"""Conditions that a resource may take over from those that it reads."""
METHODS: Final = frozenset({"merge", "sort", "sum"})
"""Methods that are functions in Hearth: `a.merge(b)` is `merge(a, b)`."""
OPERAND: Final = re.compile(r"[A-Za-z_]\w*|[)\]]")
OPENING: Final = {")": "(", "]": "[", "}": "{"}


NESTED: Final = 32
"""Levels of brackets in an expression that is translated."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The names of one definition that differ between kro and Hearth."""

    roots: Mapping[str, str] = field(default_factory=dict)
    """Ids of resources, and the elements of a list."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """All fields of the status, by the id of a resource that is an object of a kind that is converted as well."""

    def add_roots(self, roots: Mapping[str, str]) -> Words:
        """Return the words of one resource."""
        return dataclasses.replace(self, roots={**self.roots, **roots})


def translate(text: str, words: Words) -> str:
    """Return a text with its expressions translated. Raises interpolation.UnterminatedExpression."""
    return change_all(text, lambda expression: translate_expression(expression, words))


def change_all(text: str, change: Callable[[str], str]) -> str:
    """Return a text with each of its expressions changed. Raises interpolation.UnterminatedExpression."""
    return "".join(
        "${" + change(part.text) + "}" if isinstance(part, ExpressionSource) else interpolation.escape(part)
        for part in interpolation.parse(text)
    )


def translate_all(value: Any, translate_text: Callable[[str], str]) -> Any:
    """Return a value with all texts in it translated."""
    if isinstance(value, dict):
        return {key: translate_all(each, translate_text) for key, each in value.items()}
    if isinstance(value, list):
        return [translate_all(each, translate_text) for each in value]
    return translate_text(value) if isinstance(value, str) else value


def read_single(text: Any) -> str | None:
    """Return the expression that a text consists of, or None if it is something else."""
    try:
        parts = interpolation.parse(text) if isinstance(text, str) else ()
    except interpolation.UnterminatedExpression:
        return None
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], ExpressionSource) else None


def translate_expression(expression: str, words: Words) -> str:
    """Return an expression in Hearth's syntax.

    An expression that is too deep for any template is returned unchanged.
    """
    tokens = split(expression)
    if measure_depth(tokens) > NESTED:
        return expression
    made: list[str] = []
    at = 0
    while at < len(tokens):
        is_member = is_after_dot(made)
        if not is_member and (end := match_at(tokens, at, HEX_DIGEST)):
            inner_end = find_close(tokens, end - 1)
            if match_at(tokens, inner_end, (")", "]", ")")):
                inner = translate_expression("".join(tokens[end:inner_end]), words)
                made.append(f"sha256({inner})")
                at = inner_end + 3
                continue
        at, new = (at + 1, [tokens[at]]) if is_member else translate_name(tokens, at, words)
        made += new
    return "".join(make_functions(made))


def translate_name(tokens: Sequence[str], at: int, words: Words) -> tuple[int, list[str]]:
    """Return the replacement for the name at a position, with its fields, and where the rest begins."""
    for old, new in NAMES if tokens[at] in BEGINNINGS else ():
        if end := match_at(tokens, at, old):
            dot, name, after = read_field(tokens, end)
            if new == PARAMETERS and name in words.parameters:
                return after, [new, *dot, words.parameters[name]]
            return end, [new]
    token = tokens[at]
    root = words.roots.get(token, token)
    dot, name, end = read_field(tokens, at + 1)
    if token in words.outputs and name == STATUS:
        inner_dot, output, after = read_field(tokens, end)
        if output in words.outputs[token]:
            return after, [root, *dot, name, *dot, "outputs", *inner_dot, words.outputs[token][output]]
    return at + 1, [root]


def read_field(tokens: Sequence[str], at: int) -> tuple[Sequence[str], str, int]:
    """Return the field that is read at a position: the tokens before its name, its name, and its end; "" for none."""
    dot = tokens[at : at + 2]
    size = 0 if dot[:1] != ["."] else 2 if dot == [".", "?"] else 1
    if not size or at + size >= len(tokens):
        return (), "", at
    return tokens[at : at + size], tokens[at + size], at + size + 1


def find_unknown_status(expression: str, words: Words) -> Iterator[str]:
    """Yield the status fields that an expression reads from an object of a converted kind and that are not among its
    outputs.
    """
    tokens = split(expression)
    for at, token in enumerate(tokens):
        if token in words.outputs and is_name(tokens, at):
            _, name, end = read_field(tokens, at + 1)
            _, output, _ = read_field(tokens, end)
            if name == STATUS and output and output not in (*words.outputs[token], "conditions"):
                yield f"{token}.status.{output}"


def find_needed(expressions: Iterable[str]) -> set[tuple[str, ...]]:
    """Return the parameter fields that an expression requires and that no expression tests with `has` or `?`."""
    needed: set[tuple[str, ...]] = set()
    tested: set[tuple[str, ...]] = set()
    for expression in expressions:
        tokens = split(expression)
        for at, token in enumerate(tokens):
            if token == SPEC[0] and is_name(tokens, at) and (end := match_at(tokens, at, SPEC)):
                path: tuple[str, ...] = ()
                while len(path) < NESTED:
                    dot, name, after = read_field(tokens, end)
                    if not name or tokens[after : after + 1] == ["("]:
                        break
                    path, end = (*path, name), after
                    needed.add(path)
                    if len(dot) > 1:
                        tested.add(path)
                        break
                if list(tokens[max(at - 2, 0) : at]) == ["has", "("]:
                    tested.add(path)
    return needed - tested


def measure_depth(tokens: Sequence[str]) -> int:
    """Return how deep brackets are nested."""
    depth = deepest = 0
    for token in tokens:
        depth += (token in OPENING.values()) - (token in OPENING)
        deepest = max(deepest, depth)
    return deepest


def make_functions(tokens: list[str]) -> list[str]:
    """Return the tokens with some method calls rewritten as function calls."""
    at = 0
    while at < len(tokens):
        if tokens[at] in METHODS and tokens[at - 1 : at] == ["."] and tokens[at + 1 : at + 2] == ["("]:
            end, start = find_close(tokens, at + 1), find_receiver(tokens, at - 1)
            arguments = "".join(make_functions(tokens[at + 2 : end]))
            receiver = "".join(tokens[start : at - 1])
            call = f"{tokens[at]}({receiver}{', ' if arguments.strip() else ''}{arguments})"
            tokens = [*tokens[:start], call, *tokens[end + 1 :]]
            at = start
        at += 1
    return tokens


def find_receiver(tokens: Sequence[str], dot: int) -> int:
    """Return where the value before a dot begins, which may be a name, text, call, index or list, including the values
    it is read from.
    """
    at = dot - 1
    while at > 0:
        before = tokens[at - 1]
        if tokens[at] in OPENING:
            at = find_open(tokens, at)
            if at > 0 and OPERAND.fullmatch(tokens[at - 1]):
                # It is called, or indexed.
                at -= 1
        elif before == "." and at > 1:
            at -= 2
        elif before == "?" and at > 2 and tokens[at - 2] == ".":
            at -= 3
        else:
            break
    return max(at, 0)


def find_open(tokens: Sequence[str], close: int) -> int:
    """Return the position of the bracket that this one closes."""
    depth = 0
    for at in range(close, -1, -1):
        depth += (tokens[at] in OPENING) - (tokens[at] in OPENING.values())
        if depth == 0:
            return at
    return 0


def find_close(tokens: Sequence[str], opening: int) -> int:
    """Return the position of the bracket that closes this one; the end if none does."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at] in OPENING.values()) - (tokens[at] in OPENING)
        if depth == 0:
            return at
    return len(tokens)


def match_at(tokens: Sequence[str], at: int, wanted: Sequence[str]) -> int:
    """Return the end of these tokens at a position, 0 if there are others."""
    end = at + len(wanted)
    return end if tuple(tokens[at:end]) == tuple(wanted) else 0


def split(expression: str) -> list[str]:
    """Return the tokens of an expression, white space included; one that is too long for any template is a single token."""
    return TOKEN.findall(expression) if len(expression) <= limits.EXPRESSION_LENGTH else [expression]


def is_name(tokens: Sequence[str], at: int) -> bool:
    """Return whether a token is not a field of something else."""
    return not is_after_dot(tokens[max(0, at - 4) : at])


def is_after_dot(tokens: Sequence[str]) -> bool:
    """Return whether the next token is a field name: after a dot or `.?`, but not after `x ?`."""
    last = [each for each in tokens[-4:] if each.strip()][-2:]
    return last[-1:] == ["."] or last == [".", "?"]


# Conditions that a resource or output takes over from the resources that it reads. kro omits a resource together with
# everything that reads it. In Hearth, each resource has its own `when`, and a resource that reads an optional field,
# `a.?b`, exists without it.


def spread(stated: Mapping[str, Sequence[str]], reads: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the conditions of each resource, with the conditions of all resources that it reads. Both by name of the
    resource.

    Raises InvalidDefinition for a resource whose conditions no template could express.
    """
    readers: dict[str, list[str]] = {}
    for name, read in reads.items():
        for other in sorted(read):
            readers.setdefault(other, []).append(name)
    found: dict[str, dict[str, None]] = {name: {} for name in stated}
    due = [(name, each) for name, conditions in stated.items() for each in conditions]
    for name, condition in due:
        # The loop extends `due`; each condition reaches each resource once.
        if condition not in found[name]:
            found[name][condition] = None
            due += [(reader, condition) for reader in readers.get(name, ()) if reader in found]
            if len(found[name]) > CONDITIONS:
                message = (
                    f"{name} depends on more than {CONDITIONS} conditions of the resources that it reads; split it"
                )
                raise InvalidDefinition([Mistake(path="spec.resources", message=message)])
    return {name: sorted(conditions, key=lambda each: each in stated[name]) for name, conditions in found.items()}


def join(conditions: Sequence[str]) -> str:
    """Return one expression that holds if all of them do."""
    return conditions[0] if len(conditions) == 1 else " && ".join(f"({each})" for each in conditions)


def find_reads(value: Any, known: Collection[str]) -> set[str]:
    """Return the resources that the expressions in a value cannot do without. known: all resources."""
    return {
        name
        for expression in interpolation.find_expressions(value)
        for name, is_needed in list_reads(expression, known)
        if is_needed
    }


def list_reads(expression: str, known: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield each resource that an expression reads, and whether the expression needs it, because none of the fields is
    optional.
    """
    tokens = split(expression)
    for at, token in enumerate(tokens):
        if token in known and is_name(tokens, at):
            yield token, "?" not in tokens[at : find_end(tokens, at)]


def make_optional(names: Collection[str]) -> Callable[[str], str]:
    """Return the function that converts `a.b.?c` to `a.?b.?c` in an expression, for resources that might be missing."""

    def change(expression: str) -> str:
        tokens = split(expression)
        made: list[str] = []
        for at, part in enumerate(tokens):
            made.append(part)
            is_read = at > 0 and tokens[at - 1] in names and is_name(tokens, at - 1)
            if is_read and part == "." and tokens[at + 1] != "?" and "?" in tokens[at : find_end(tokens, at - 1)]:
                made.append("?")
        return "".join(made)

    return change


def make_presence_checks(names: Collection[str]) -> Callable[[str], str]:
    """Return the function that converts `a.b.c != null` to `has(a.b.c)` in an expression, for these resources.

    The types of Kubernetes objects have no null. kro compares all values with it.
    """

    def change(expression: str) -> str:
        tokens = split(expression)
        made: list[str] = []
        at = 0
        while at < len(tokens):
            found = find_null_comparison(tokens, at) if tokens[at] in names and is_name(tokens, at) else None
            if found is None:
                made.append(tokens[at])
                at += 1
                continue
            path, is_equal, at = found
            made.append(f"!has({path})" if is_equal else f"has({path})")
        return "".join(made)

    return change


def find_null_comparison(tokens: Sequence[str], at: int) -> tuple[str, bool, int] | None:
    """Return the fields that are compared with null at a position, whether they must equal it, and where the rest begins."""
    end = find_end(tokens, at)
    path = "".join(tokens[at:end])
    # White space is one token, and so is each character of an operator.
    rest = [(each, place) for place, each in enumerate(tokens[end : end + 6], start=end) if not each.isspace()][:3]
    operator = "".join(each for each, _ in rest[:2])
    if "." not in path or "?" in path or operator not in ("==", "!=") or rest[2:3] == [] or rest[2][0] != "null":
        return None
    return path, operator == "==", rest[2][1] + 1


def find_end(tokens: Sequence[str], at: int) -> int:
    """Return the end of the fields that are read from the name at a position."""
    at += 1
    while at + 1 < len(tokens) and tokens[at] == ".":
        at += 3 if tokens[at + 1] == "?" else 2
    return at
