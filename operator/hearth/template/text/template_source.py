"""The template that a source besides the Stack holds, read as kubectl would read it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import yaml

from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.mistakes import Mistake
from hearth.template import chunked_work
from hearth.template.chunked_work import ChunkedWork
from hearth.template.text import kubectl_yaml

CACHE_SIZE = 16
"""Templates that are read only once however many Stacks name them: reading one takes nearly as long as compiling it."""
KEPT_CHARACTERS = 2 * 1024**2
"""Of all that are kept: their values take some ten times as many bytes."""

_known: OrderedDict[tuple[str, str], Object] = OrderedDict()


def parse_template(text: str, *, place: str) -> Object:
    """The one template in `text`, which is not to be changed. Raises InvalidDefinition, whose paths begin with `place`."""
    return chunked_work.finish(parse_in_pieces(text, place=place))


def parse_in_pieces(text: str, *, place: str) -> ChunkedWork[Object]:
    """The same, with a pause after every little piece of work."""
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
        raise InvalidDefinition([Mistake(path=place, message=f"is no YAML: {kubectl_yaml.describe(error)}")]) from error
    if len(values) != 1 or not isinstance(values[0], dict):
        message = f"must hold one mapping with `resources`, found {len(values)} documents"
        raise InvalidDefinition([Mistake(path=place, message=message)])
    return values[0]
