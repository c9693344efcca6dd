"""Functions that CEL lacks and templates need: JSON and YAML of a value, a digest, and maps and lists put together.

Each result is the same for equal inputs: keys are sorted, so that nothing is written again without a change.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from cel_expr_python import cel

from hearth.template.cel import cel_values

NAMES: Final = frozenset({"toJson", "toYaml", "sha256", "merge", "sort", "sum"})


def make_functions(*, is_for_checks: bool) -> list[Any]:
    """Return the declarations. is_for_checks: for the type checker, which knows types that no value has when it runs."""
    kinds = cel.Type
    every = (
        kinds.STRING,
        kinds.INT,
        kinds.UINT,
        kinds.DOUBLE,
        kinds.BOOL,
        kinds.NULL,
        kinds.MAP,
        kinds.LIST,
        kinds.BYTES,
    )
    any_value = [[kinds.DYN]] if is_for_checks else [[each] for each in (*every, kinds.TIMESTAMP, kinds.DURATION)]

    def function(name: str, parameters: Sequence[list[Any]], returns: Any, implementation: Callable[..., Any]) -> Any:
        overloads = [
            cel.Overload(f"{name}_{at}", return_type=returns, parameters=each, is_member=False, impl=implementation)
            for at, each in enumerate(parameters)
        ]
        return cel.FunctionDecl(name, overloads)

    maps = [[kinds.DYN, kinds.DYN]] if is_for_checks else [[kinds.MAP, kinds.MAP]]
    lists = [[kinds.DYN]] if is_for_checks else [[kinds.LIST]]
    return [
        function("toJson", any_value, kinds.STRING, to_json),
        function("toYaml", any_value, kinds.STRING, to_yaml),
        function("sha256", [[kinds.STRING]], kinds.STRING, digest),
        function("merge", maps, kinds.MAP, merge),
        function("sort", lists, kinds.LIST, sort),
        function("sum", lists, kinds.DYN if is_for_checks else kinds.DOUBLE, total),
    ]


def to_json(value: Any) -> str:
    """Write a value as JSON on one line, keys sorted. Raises UnrepresentableValue."""
    return orjson.dumps(to_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def to_yaml(value: Any) -> str:
    """Write a value as YAML, keys sorted, without a line break at the end. Raises UnrepresentableValue."""
    from hearth.template.text import kubectl_yaml

    # A round through JSON sorts the keys.
    return kubectl_yaml.write(orjson.loads(to_json(value))).rstrip("\n")


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it; nulls stay, unlike in a manifest. Raises UnrepresentableValue."""
    match value:
        case dict():
            return {cel_values.convert_key(key): to_plain(item) for key, item in value.items()}
        case list():
            return [to_plain(item) for item in value]
        case (
            None | bool() | int() | str() | float() | bytes() | bytearray() | datetime.datetime() | datetime.timedelta()
        ):
            return cel_values.convert(value)
    # An unsigned integer has a class of its own.
    return int(value)


def digest(text: str) -> str:
    """Return the SHA-256 of a text in 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def merge(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both maps; those of the second win."""
    return {**first, **second}


def sort(values: Sequence[Any]) -> list[Any]:
    """Return a list of texts or of numbers in order. Raises ValueError for any other."""
    is_text = all(isinstance(each, str) for each in values)
    if not is_text and not all(is_number(each) for each in values):
        raise ValueError("sort takes a list of texts or a list of numbers")
    return sorted(values)


def total(values: Sequence[Any]) -> float:
    """Return the sum of a list of numbers, 0 of none. Raises ValueError."""
    if not all(is_number(each) for each in values):
        raise ValueError("sum takes a list of numbers")
    return math.fsum(values)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that sorts among others."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
