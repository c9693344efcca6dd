"""Parses a template that is stored outside the Stack, as YAML or JSON, and caches the result."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import orjson
import yaml

from hearth.model import limits, packing
from hearth.model.child import Object
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.text import bounds, kubectl_yaml

CACHE_SIZE = 16
"""Number of cached templates. Stacks share them, because parsing takes nearly as long as compiling."""
KEPT_CHARACTERS = 2 * 1024**2
"""Characters of all cached templates: their values take some ten times as many bytes."""

_known: OrderedDict[tuple[str, str], Object] = OrderedDict()


def parse_in_pieces(text: str, *, place: str, size: int = limits.SOURCE_BYTES) -> ChunkedWork[Object]:
    """Parse the one template in `text`, which callers must not change, in short pieces with pauses.

    size: characters at most. Raises InvalidDefinition, whose paths begin with `place`.
    """
    key = (text, place)
    found = _known.get(key)
    if found is None:
        found = yield from _parse(text, place, size)
        _known[key] = found
        while len(_known) > CACHE_SIZE or sum(len(each) for each, _ in _known) > KEPT_CHARACTERS:
            _known.popitem(last=False)
    return found


def _parse(text: str, place: str, size: int) -> ChunkedWork[Object]:
    values: list[Any] = []
    found = parse_json(text) if len(text) <= size else None
    if found is not None:
        return found
    try:
        for document in kubectl_yaml.read(text, kubectl_yaml.Bounds(size=size)):
            if document is None:
                yield
            else:
                values.append(document.value)
    except kubectl_yaml.Excess as error:
        raise InvalidDefinition([Mistake(path=place, message=kubectl_yaml.describe(error))]) from None
    except yaml.YAMLError as error:
        raise InvalidDefinition(
            [Mistake(path=place, message=f"is not valid YAML: {kubectl_yaml.describe(error)}")]
        ) from error
    if len(values) != 1 or not isinstance(values[0], dict):
        message = f"must contain one mapping with `resources`, found {len(values)} documents"
        raise InvalidDefinition([Mistake(path=place, message=message)])
    return values[0]


def parse_json(text: str) -> Object | None:
    """Return the mapping that a JSON text contains, or None if it must be parsed as YAML.

    YAML parsing also reports errors. JSON parsing is a hundred times as fast, and bounded so that one call does not
    block the event loop.
    """
    if not text.lstrip().startswith("{") or _has_too_many_values(text):
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and not bounds.find_excess(found) else None


def _has_too_many_values(text: str) -> bool:
    if sum(map(text.count, ",[{")) <= limits.WIRE_VALUES:
        return False
    # Distinguishing values from text takes about 30 ms per MiB at most.
    is_large = len(text) > limits.SOURCE_BYTES
    return is_large or packing.has_more_values(text.encode(errors="replace"), limits.WIRE_VALUES)
