"""The template that a source besides the Stack holds, read as kubectl would read it."""

from __future__ import annotations

import functools

import yaml

from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.problems import Mistake
from hearth.template import plain_yaml

KEPT = 16
"""Templates that are read only once however many Stacks name them: reading one takes nearly as long as compiling it."""


@functools.lru_cache(maxsize=KEPT)
def parse_template(text: str, *, place: str) -> Object:
    """The one template in `text`, which is not to be changed. Raises InvalidDefinition, whose paths begin with `place`."""
    try:
        found = [document.value for document in plain_yaml.parse_documents(text) if document.value is not None]
    except yaml.YAMLError as error:
        raise InvalidDefinition([Mistake(path=place, message=f"is no YAML: {plain_yaml.describe(error)}")]) from error
    if len(found) != 1 or not isinstance(found[0], dict):
        message = f"must hold one mapping with `resources`, found {len(found)} documents"
        raise InvalidDefinition([Mistake(path=place, message=message)])
    return found[0]
