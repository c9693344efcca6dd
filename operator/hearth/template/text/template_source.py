"""The template in a source outside the Stack, parsed as kubectl would parse it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import yaml

from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template import chunked_work
from hearth.template.chunked_work import ChunkedWork
from hearth.template.text import kubectl_yaml

CACHE_SIZE = 16
"""Templates that are parsed once for all Stacks that name them: parsing takes nearly as long as compiling."""
KEPT_CHARACTERS = 2 * 1024**2
"""Characters of all cached templates: their values take some ten times as many bytes."""

_known: OrderedDict[tuple[str, str], Object] = OrderedDict()


def parse_template(text: str, *, place: str) -> Object:
    """Parse the one template in `text`, which callers must not change.

    Raises InvalidDefinition, whose paths begin with `place`.
    """
    return chunked_work.finish(parse_in_pieces(text, place=place))


def parse_in_pieces(text: str, *, place: str) -> ChunkedWork[Object]:
    """Parse the template in short pieces with pauses."""
    key = (text, place)
    found = _known.get(key)
    if found is None:
        found = yield from _parse(text, place)
        _known[key] = found
        while len(_known) > CACHE_SIZE or sum(len(each) for each, _ in _known) > KEPT_CHARACTERS:
            _known.popitem(last=False)
    return found


def _parse(text: str, place: str) -> ChunkedWork[Object]:
    values: list[Any] = []
    try:
        for document in kubectl_yaml.read(text):
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
