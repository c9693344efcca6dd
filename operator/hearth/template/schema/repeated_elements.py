"""Elements of a list that stand for the same thing: two ports of one number, an environment variable set twice.

The API server merges such lists element by element, and cannot apply one in which two elements are the same. Knows the
lists from the schema of a kind; those of Kubernetes' own kinds also without one. Must not know expressions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from hearth.model import limits
from hearth.template.schema import shapes
from hearth.template.schema.shapes import Schema, Shape, Type
from hearth.template.text import error_hints, interpolation

BUILT_IN: Final = Path(__file__).with_name("keyed_lists.json")
"""The lists of Kubernetes' own kinds, from its published schemas: see `keyed_lists.prune` of the tests."""
SCALARS: Final = frozenset({Type.STRING, Type.INTEGER, Type.NUMBER, Type.BOOLEAN})
Identity: TypeAlias = tuple[Any, ...]


def find_shape(known: Shape, api_version: str, kind: str) -> Shape:
    """Find the shape that tells which lists have keys: that of Kubernetes' own kind, else the `known` one.

    So that a definition has the same mistakes with and without a cluster; an API server does not take back a key.
    """
    built_in = find_built_in(f"{api_version}/{kind}")
    return known if built_in is shapes.OPEN else built_in


@functools.cache
def read_built_in() -> Mapping[str, Mapping[str, Schema]]:
    """Read the schemas of Kubernetes' own kinds, of which only the lists are left."""
    found: Mapping[str, Mapping[str, Schema]] = orjson.loads(BUILT_IN.read_bytes())
    return found


@functools.lru_cache(maxsize=256)
def find_built_in(kind: str) -> Shape:
    """Find the shape of a kind of Kubernetes by `apps/v1/Deployment`; OPEN for any other."""
    content = read_built_in()
    name = content["kinds"].get(kind)
    definitions = content["definitions"]
    if name is None:
        return shapes.OPEN
    return shapes.make_shape({"$ref": name}, find=definitions.get, memory={}, name=kind.rpartition("/")[2])


def find_repeated(value: Any, shape: Shape, *, shows_values: bool = True) -> list[tuple[str, str]]:
    """Find the paths below `value` of elements that repeat an earlier one, and what is wrong with each.

    At most as many as one message lists. An element with an expression in its key, or with null there, is not compared.
    shows_values: whether a message may contain values.
    """
    found: list[tuple[str, str]] = []
    for each in walk(value, shape, shows_values=shows_values):
        found.append(each)
        if len(found) > limits.MISTAKES:
            break
    return found


def walk(value: Any, shape: Shape, *, shows_values: bool, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the path and the mistake of each repeated element in a value."""
    if shape is shapes.OPEN or depth > limits.JSON_DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                for below, message in walk(
                    inner, shape.find_entry(str(key)), shows_values=shows_values, depth=depth + 1
                ):
                    yield error_hints.write_key(str(key)) + below, message
    elif isinstance(value, list):
        yield from compare(value, shape, shows_values=shows_values)
        for at, inner in enumerate(value):
            if isinstance(inner, dict | list):
                for below, message in walk(inner, shape.element, shows_values=shows_values, depth=depth + 1):
                    yield f"[{at}]{below}", message


def compare(elements: list[Any], shape: Shape, *, shows_values: bool) -> Iterator[tuple[str, str]]:
    """Yield the position of each element of one list that repeats an earlier one."""
    keys = shape.list_keys
    if keys is None:
        return
    seen: dict[Identity, int] = {}
    for at, element in enumerate(elements):
        identity = identify(element, keys, shape.element)
        if identity is None:
            continue
        first = seen.setdefault(identity, at)
        if first != at:
            yield f"[{at}]", explain(first, keys, identity, shows_values=shows_values)


def identify(element: Any, keys: tuple[str, ...], shape: Shape) -> Identity | None:
    """Return what tells an element apart; None if that is not known, or the API server rejects it anyway."""
    if not keys:
        return (normalize(element),) if is_known(element) else None
    if not isinstance(element, dict):
        return None
    values = [element[key] if key in element else shape.find_default(key) for key in keys]
    return tuple(map(normalize, values)) if all(map(is_known, values)) else None


def is_known(value: Any) -> bool:
    """Return whether a value is a scalar without an expression."""
    if isinstance(value, str):
        return not interpolation.has_expressions(value)
    return isinstance(value, bool | int | float)


def normalize(value: Any) -> Any:
    """Return a value that is equal only if JSON's is: true is not 1."""
    return ("boolean", value) if isinstance(value, bool) else value


def explain(first: int, keys: tuple[str, ...], identity: Identity, *, shows_values: bool) -> str:
    """Describe a repeated element. first: the position of the one that it repeats."""
    values = [each[1] if isinstance(each, tuple) else each for each in identity]
    if not keys:
        what = f" ({error_hints.describe(values[0])})" if shows_values else ""
        return f"repeats the element [{first}]{what}; remove one of them"
    pairs = zip(keys, values, strict=True)
    stated = [f"{key} {error_hints.shorten(str(value))}" if shows_values else key for key, value in pairs]
    named = error_hints.list_words(stated)
    return f"has the same {named} as the element [{first}]; change or remove one of them"


def may_repeat(shape: Shape, keys: tuple[str | int, ...], *, is_whole: bool) -> bool:
    """Return whether the value of an expression at that path can make an element repeat another one.

    is_whole: whether the value may be a map or a list.
    """
    place = shape
    for at, key in enumerate(keys):
        list_keys = place.list_keys
        if list_keys is not None:
            rest = keys[at + 1 :]
            if not rest or (len(rest) == 1 and rest[0] in list_keys):
                return True
        if place is shapes.OPEN:
            return False
        place = place.element if isinstance(key, int) else place.find_entry(key)
    return is_whole and place is not shapes.OPEN and place.type not in SCALARS
