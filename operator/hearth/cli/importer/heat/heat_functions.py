"""Translates the intrinsic functions of HOT to CEL.

Source: Heat's template guide, "Intrinsic functions" and "Condition functions", up to version wallaby.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from hearth.cli.importer.heat import heat_values
from hearth.cli.importer.heat.heat_values import CSV, Expression, Lost, Mixed, Value, make_expression, to_cel
from hearth.template.text import error_hints

COMBINATIONS: Final = 1_000
"""Elements that a `repeat` over lists in the template may have."""


class References(Protocol):
    """Values that the functions read: they differ between a template and a reference."""

    def read_parameter(self, name: str) -> Value:
        """Return the value of a parameter, pseudo parameters included."""

    def read_resource(self, name: str) -> Value:
        """Return the text that represents a resource: its identity."""

    def read_attribute(self, name: str, path: Sequence[Value]) -> Value:
        """Return an attribute of a resource, or a part of it."""

    def read_file(self, name: str) -> str:
        """Return the text of a file."""

    def read_condition(self, name: str) -> Value:
        """Return the condition with that name."""

    def lose(self, what: str, reason: str) -> None:
        """Record that a part of a value is lost while the rest is kept."""


def translate(value: Any, references: References) -> Value:
    """Return a value of HOT with its functions as expressions. Raises Lost."""
    if isinstance(value, list):
        return [translate(each, references) for each in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        (name, argument), *_ = value.items()
        if name in FUNCTIONS:
            return FUNCTIONS[name](argument, references)
        if isinstance(name, str) and (name.startswith("Fn::") or name in WITHOUT_FORM):
            raise Lost(WITHOUT_FORM.get(name, f"{name} has no equivalent"))
    return {str(key): translate(each, references) for key, each in value.items()}


def translate_condition(value: Any, references: References) -> Value:
    """Return a condition: a name, a boolean or a function. Raises Lost."""
    found = references.read_condition(value) if isinstance(value, str) else translate(value, references)
    if not isinstance(found, Expression | bool):
        raise Lost(f"a condition must be a name or a function, found {error_hints.describe(found)}")
    return found


def take(argument: Any, references: References, *, name: str, least: int, most: int | None = None) -> list[Value]:
    """Return the arguments of a function that takes a list. Raises Lost."""
    if not isinstance(argument, list) or not least <= len(argument) <= (most or least):
        raise Lost(f"{name} takes a list of {least} values, found {error_hints.describe(argument)}")
    return [translate(each, references) for each in argument]


def take_map(argument: Any, name: str, *keys: str) -> list[Any]:
    """Return the arguments of a function that takes a map, None for missing ones. Raises Lost."""
    if not isinstance(argument, Mapping):
        raise Lost(f"{name} takes a map, found {error_hints.describe(argument)}")
    return [argument.get(key) for key in keys]


# References.


def get_param(argument: Any, references: References) -> Value:
    """`get_param: name`, or `[name, key, …]`."""
    name, *path = argument if isinstance(argument, list) and argument else [argument]
    if not isinstance(name, str):
        raise Lost(f"get_param takes a name, found {error_hints.describe(name)}")
    return select(references.read_parameter(name), translate(path, references))


def get_resource(argument: Any, references: References) -> Value:
    """`get_resource: name`."""
    if not isinstance(argument, str):
        raise Lost(f"get_resource takes a name, found {error_hints.describe(argument)}")
    return references.read_resource(argument)


def get_attr(argument: Any, references: References) -> Value:
    """`get_attr: [name, attribute, key, …]`."""
    name, *path = argument if isinstance(argument, list) and argument else [None]
    if not isinstance(name, str):
        raise Lost(f"get_attr takes a list of a resource and an attribute, found {error_hints.describe(argument)}")
    return references.read_attribute(name, translate(path, references))


def get_file(argument: Any, references: References) -> Value:
    """`get_file: name`."""
    if not isinstance(argument, str):
        raise Lost(f"get_file takes a name, found {error_hints.describe(argument)}")
    return references.read_file(argument)


def select(value: Value, path: Sequence[Value]) -> Value:
    """Return the part of a value at a path."""
    for at, step in enumerate(path):
        if isinstance(value, Expression):
            return heat_values.select(value, path[at:])
        if isinstance(value, Mapping) and isinstance(step, str) and step in value:
            value = value[step]
        elif isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return heat_values.select(make_expression(to_cel(value)), path[at:])
    return value


# Texts.


def str_replace(argument: Any, references: References) -> Value:
    """`str_replace: {template, params}`.

    Longer keys match first. A key whose value cannot be converted stays in the text.
    """
    template, params = take_map(argument, "str_replace", "template", "params")
    text = translate(template, references)
    replaced = translate(params, references) if not isinstance(params, Mapping) or is_function(params) else params
    if not isinstance(replaced, Mapping):
        raise Lost("str_replace with parameters that are only known at run time has no equivalent")
    values: dict[str, Value] = {}
    for key, each in replaced.items():
        try:
            values |= {str(key): translate(each, references)} if key != "" else {}
        except Lost as reason:
            references.lose(f"str_replace of {error_hints.shorten(str(key))}", str(reason))
    if isinstance(text, Expression):
        made = text.text
        for key in sorted(values, key=len, reverse=True):
            made += f".replace({heat_values.quote(key)}, {to_cel(heat_values.to_string(values[key]))})"
        return make_expression(made, "string")
    if not values:
        return heat_values.to_string(text)
    pattern = re.compile("|".join(re.escape(key) for key in sorted(values, key=len, reverse=True)))
    return heat_values.join(
        piece
        for part in heat_values.list_parts(text)
        for piece in (replace_all(part, pattern, values) if isinstance(part, str) else [part])
    )


def replace_all(text: str, pattern: re.Pattern[str], values: Mapping[str, Value]) -> Sequence[str | Expression]:
    """Return a text in parts, each match replaced by its value."""
    parts: list[str | Expression] = []
    at = 0
    for match in pattern.finditer(text):
        parts += [text[at : match.start()], *heat_values.list_parts(values[match[0]])]
        at = match.end()
    return [*parts, text[at:]]


def list_join(argument: Any, references: References) -> Value:
    """`list_join: [delimiter, list, …]`."""
    if not isinstance(argument, list) or not 1 < len(argument) <= COMBINATIONS:
        raise Lost("list_join takes a delimiter and lists")
    delimiter, *lists = (translate(each, references) for each in argument)
    if isinstance(delimiter, str) and all(isinstance(each, list) for each in lists):
        pieces = [heat_values.list_parts(each) for each in itertools.chain(*lists)]
        return heat_values.join(
            part for at, piece in enumerate(pieces) for part in ([delimiter, *piece] if at else piece)
        )
    texts = [
        [heat_values.to_string(each) for each in listed] if isinstance(listed, list) else listed for listed in lists
    ]
    joined = " + ".join(map(to_cel, texts))
    return make_expression(f"({joined}).join({to_cel(delimiter)})", "string")


def str_split(argument: Any, references: References) -> Value:
    """`str_split: [delimiter, text, position]`."""
    delimiter, text, *position = take(argument, references, name="str_split", least=2, most=3)
    split = make_expression(f"{to_cel(text)}.split({to_cel(delimiter)})", CSV)
    return heat_values.select(split, position)


def digest(argument: Any, references: References) -> Value:
    """`digest: [algorithm, text]`: any algorithm for a literal text, otherwise only sha256."""
    algorithm, text = take(argument, references, name="digest", least=2)
    if isinstance(text, str) and algorithm in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
        return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()
    if algorithm != "sha256":
        raise Lost(f"digest: {algorithm} has no equivalent; sha256 has")
    return make_expression(f"sha256({to_cel(heat_values.to_string(text))})", "string")


def make_url(argument: Any, references: References) -> Value:
    """`make_url: {scheme, username, password, host, port, path, query, fragment}`."""
    words = ("scheme", "username", "password", "host", "port", "path", "query", "fragment")
    scheme, user, password, host, port, path, query, fragment = (
        None if each is None else translate(each, references) for each in take_map(argument, "make_url", *words)
    )
    if isinstance(query, Mapping) and heat_values.is_plain(query):
        query = urllib.parse.urlencode(query)
    elif query is not None and not isinstance(query, str):
        raise Lost("make_url with a query that is only known at run time has no equivalent")
    login = [*([":", password] if password is not None else []), "@"] if user is not None else []
    is_address = isinstance(host, str) and ":" in host and not host.startswith("[")
    pieces: list[Value] = [
        *([scheme, "://"] if scheme is not None else ["//"] if host is not None else []),
        *([user, *login] if user is not None else []),
        *((["[", host, "]"] if is_address else [host]) if host is not None else []),
        *([":", port] if port is not None else []),
        *([] if path is None or host is None or str(path).startswith("/") or isinstance(path, Expression) else ["/"]),
        *([path] if path is not None else []),
        *(["?", query] if query else []),
        *(["#", fragment] if fragment is not None else []),
    ]
    return heat_values.join(part for piece in pieces for part in heat_values.list_parts(piece))


# Lists and maps.


def list_concat(argument: Any, references: References) -> Value:
    """`list_concat: [list, …]`."""
    lists = translate(argument, references)
    if not isinstance(lists, list):
        raise Lost("list_concat takes a list of lists")
    if all(isinstance(each, list) for each in lists):
        return [*itertools.chain(*lists)]
    return make_expression(" + ".join(to_cel(each) for each in lists if each is not None), "list")


def list_concat_unique(argument: Any, references: References) -> Value:
    """`list_concat_unique: [list, …]`. Assumes that no list repeats its own elements."""
    lists = translate(argument, references)
    if not isinstance(lists, list) or not lists:
        raise Lost("list_concat_unique takes a list of lists")
    made = to_cel(lists[0])
    for each in lists[1:]:
        made = f"cel.bind(first, {made}, first + {to_cel(each)}.filter(each, !(each in first)))"
    return make_expression(made, "list")


def map_merge(argument: Any, references: References) -> Value:
    """`map_merge: [map, …]`: the last one wins."""
    maps = translate(argument, references)
    if not isinstance(maps, list):
        raise Lost("map_merge takes a list of maps")
    maps = [each for each in maps if each is not None]
    if all(isinstance(each, Mapping) for each in maps):
        return {key: value for each in maps for key, value in each.items()}
    made = to_cel(maps[0])
    for each in maps[1:]:
        made = f"merge({made}, {to_cel(each)})"
    return make_expression(made, "map")


def map_replace(argument: Any, references: References) -> Value:
    """`map_replace: [map, {keys, values}]`, for a map that the template itself contains."""
    stated, changes = take(argument, references, name="map_replace", least=2)
    keys, values = take_map(changes, "map_replace", "keys", "values")
    keys, values = keys or {}, values or {}
    if not isinstance(stated, Mapping) or not isinstance(keys, Mapping) or not isinstance(values, Mapping):
        raise Lost("map_replace of a map that is only known at run time has no equivalent: CEL cannot compute keys")
    if not heat_values.is_plain(keys):
        raise Lost("map_replace with keys that are only known at run time has no equivalent: CEL cannot compute keys")
    made: dict[str, Value] = {}
    for key, value in stated.items():
        other = values.get(value, value) if isinstance(value, str | int | float | bool) else value
        made[str(keys.get(key, key))] = other
    return made


def repeat(argument: Any, references: References) -> Value:
    """`repeat: {template, for_each, permutations}`."""
    template, for_each, permutations = take_map(argument, "repeat", "template", "for_each", "permutations")
    if not isinstance(for_each, Mapping) or not for_each or is_function(for_each):
        raise Lost("repeat takes a map of lists in for_each")
    lists = {str(word): translate(each, references) for word, each in for_each.items()}
    if all(isinstance(each, list) for each in lists.values()):
        is_paired = permutations in (False, "false")
        rows = list(itertools.islice((zip if is_paired else itertools.product)(*lists.values()), COMBINATIONS + 1))
        if len(rows) > COMBINATIONS:
            raise Lost(f"repeat produces more than {COMBINATIONS} elements")
        return [fill(template, dict(zip(lists, row, strict=True)), references) for row in rows]
    if len(lists) > 1:
        raise Lost("repeat over several lists that are only known at run time has no equivalent")
    ((word, listed),) = lists.items()
    element = make_expression("each", "string" if isinstance(listed, Expression) and listed.type == CSV else "")
    body = to_cel(fill(template, {word: element}, references))
    return make_expression(f"{to_cel(listed)}.map(each, {body})", "list")


def fill(template: Any, variables: Mapping[str, Value], references: References) -> Value:
    """Return the template of a `repeat` with its placeholders replaced in texts, keys and function arguments."""
    words = re.compile("|".join(re.escape(each) for each in sorted(variables, key=len, reverse=True) if each) or "(?!)")

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(each) for each in value]
        if isinstance(value, Mapping):
            return {change_key(str(key)): change(each) for key, each in value.items()}
        if not isinstance(value, str) or not words.search(value):
            return value
        if value in variables:
            return variables[value]
        return heat_values.join(replace_all(value, words, variables))

    def change_key(key: str) -> str:
        changed = change(key)
        if not isinstance(changed, str):
            raise Lost("repeat with keys that are only known at run time has no equivalent: CEL cannot compute keys")
        return changed

    return translate(change(template), references)


def filter_list(argument: Any, references: References) -> Value:
    """`filter: [values, list]`: the list without these values."""
    values, listed = take(argument, references, name="filter", least=2)
    if isinstance(values, list) and isinstance(listed, list) and heat_values.is_plain([values, listed]):
        return [each for each in listed if each not in values]
    return make_expression(f"{to_cel(listed)}.filter(each, !(each in {to_cel(values)}))", "list")


# Conditions.


def choose(argument: Any, references: References) -> Value:
    """`if: [condition, value, otherwise]`."""
    if not isinstance(argument, list) or len(argument) not in (2, 3):
        raise Lost("if takes a condition and two values")
    condition = translate_condition(argument[0], references)
    first, second = (translate(each, references) for each in (*argument[1:], None)[:2])
    if isinstance(condition, bool):
        return first if condition else second
    return combine(condition, first, second)


def combine(condition: Expression, first: Value, second: Value) -> Expression:
    """Return one of two values by a condition."""
    kinds = {each.type if isinstance(each, Expression) else NAMES.get(type(each), "") for each in (first, second)}
    if len(kinds) == 1 and "" not in kinds:
        return make_expression(f"({condition.text} ? {to_cel(first)} : {to_cel(second)})", kinds.pop())
    return make_expression(f"({condition.text} ? dyn({to_cel(first)}) : dyn({to_cel(second)}))")


NAMES: Final[Mapping[type, str]] = {
    str: "string",
    Mixed: "string",
    bool: "boolean",
    int: "integer",
    list: "list",
    dict: "map",
}


def negate(argument: Any, references: References) -> Value:
    """`not: condition`."""
    condition = translate_condition(argument, references)
    return not condition if isinstance(condition, bool) else make_expression(f"!({condition.text})", "boolean")


def connect(word: str) -> Callable[[Any, References], Value]:
    """Return the function `and` or `or`."""

    def function(argument: Any, references: References) -> Value:
        if not isinstance(argument, list) or not argument:
            raise Lost("and, or take a list of conditions")
        conditions = [translate_condition(each, references) for each in argument]
        return make_expression("(" + f" {word} ".join(map(to_cel, conditions)) + ")", "boolean")

    return function


def equals(argument: Any, references: References) -> Value:
    """`equals: [a, b]`; Heat compares a number with its text."""
    first, second = take(argument, references, name="equals", least=2)
    if heat_values.is_plain([first, second]):
        return bool(str(first) == str(second) if isinstance(first, str) or isinstance(second, str) else first == second)
    if isinstance(first, Expression) and isinstance(second, str | int | float):
        second = heat_values.to_type(second, first.type)
    elif isinstance(second, Expression) and isinstance(first, str | int | float):
        first = heat_values.to_type(first, second.type)
    return make_expression(f"{to_cel(first)} == {to_cel(second)}", "boolean")


def contains(argument: Any, references: References) -> Value:
    """`contains: [value, list]`."""
    value, listed = take(argument, references, name="contains", least=2)
    is_text = isinstance(listed, str | Mixed) or (isinstance(listed, Expression) and listed.type == "string")
    if is_text:
        return make_expression(f"{to_cel(listed)}.contains({to_cel(value)})", "boolean")
    return make_expression(f"{to_cel(value)} in {to_cel(listed)}", "boolean")


# YAQL: paths, and the calls that have an equivalent in CEL.

YAQL_STEP: Final = re.compile(r"\.(\w+)(?:\(([^()]*)\))?|\[(\d+)\]")
YAQL_CALLS: Final[Mapping[str, str]] = {
    "len": "size({0})",
    "count": "size({0})",
    "sum": "sum({0})",
    "first": "{0}[0]",
    "last": "{0}[size({0}) - 1]",
    "toLower": "{0}.lowerAscii()",
    "toUpper": "{0}.upperAscii()",
    "trim": "{0}.trim()",
    "orderBy": "sort({0})",
    "keys": "{0}.map(key, key)",
    "any": "size({0}) > 0",
}
YAQL_LAMBDA: Final = re.compile(r"\$((?:\.\w+)*)(?:\s*(=|!=|>=|<=|>|<)\s*('[^'\\]*'|\d+))?")


def yaql(argument: Any, references: References) -> Value:
    """`yaql: {expression, data}`, if every step has an equivalent in CEL."""
    expression, data = take_map(argument, "yaql", "expression", "data")
    text = expression.strip() if isinstance(expression, str) else ""
    if not re.match(r"\$\.data\b", text):
        raise Lost(f"yaql: {error_hints.shorten(text)} has no equivalent")
    value = translate(data, references)
    at = len("$.data")
    while at < len(text):
        step = YAQL_STEP.match(text, at)
        if step is None:
            raise Lost(f"yaql: {error_hints.shorten(text[at:])} has no equivalent")
        value, at = apply_yaql(value, step), step.end()
    return value


def apply_yaql(value: Value, step: re.Match[str]) -> Value:
    """Apply one step of a path to a value. Raises Lost."""
    name, inner, position = step[1], step[2], step[3]
    if position is not None:
        return select(value, [int(position)])
    if inner is None:
        return select(value, [name])
    one = YAQL_LAMBDA.fullmatch(inner.strip())
    if name in ("select", "where") and one is not None and (one[2] is None) == (name == "select"):
        operator = {"=": "=="}.get(one[2], one[2])
        body = f"each{one[1]}" + (f" {operator} {one[3]}" if one[2] else "")
        return make_expression(f"{to_cel(value)}.{'map' if name == 'select' else 'filter'}(each, {body})", "list")
    if name == "join" and re.fullmatch(r"'[^'\\]*'", inner.strip()):
        return make_expression(f"{to_cel(value)}.join({inner.strip()})", "string")
    if name not in YAQL_CALLS or inner.strip():
        raise Lost(f"yaql: {name}() has no equivalent")
    return make_expression(YAQL_CALLS[name].format(to_cel(value)))


def is_function(value: Any) -> bool:
    """Return whether a map is the call of a function."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in FUNCTIONS


def select_element(argument: Any, references: References) -> Value:
    """`Fn::Select: [position, list]`."""
    position, listed = take(argument, references, name="Fn::Select", least=2)
    return select(listed, [int(position) if isinstance(position, str) and position.isdecimal() else position])


FUNCTIONS: Final[Mapping[str, Callable[[Any, References], Value]]] = {
    "get_param": get_param,
    "get_resource": get_resource,
    "get_attr": get_attr,
    "get_file": get_file,
    "str_replace": str_replace,
    "str_replace_strict": str_replace,
    "str_replace_vstrict": str_replace,
    "str_split": str_split,
    "list_join": list_join,
    "list_concat": list_concat,
    "list_concat_unique": list_concat_unique,
    "map_merge": map_merge,
    "map_replace": map_replace,
    "repeat": repeat,
    "filter": filter_list,
    "digest": digest,
    "make_url": make_url,
    "yaql": yaql,
    "if": choose,
    "not": negate,
    "and": connect("&&"),
    "or": connect("||"),
    "equals": equals,
    "contains": contains,
    "Fn::Select": select_element,
}
WITHOUT_FORM: Final[Mapping[str, str]] = {
    "resource_facade": "resource_facade has no equivalent: a nested Stack cannot read the resource that created it",
}
