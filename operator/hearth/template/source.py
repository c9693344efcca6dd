"""YAML as people write it, read as the JSON that Kubernetes means by it."""

from __future__ import annotations

from typing import Any

import yaml

from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.problems import Mistake


class PlainLoader(yaml.CSafeLoader):
    """Safe, and without dates: `2024-01-01` stays the text that the API server would read."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def parse_documents(text: str) -> list[Any]:
    """Every document in `text` that is not empty. Raises yaml.YAMLError, whose message tells line and column."""
    # The loader is derived from the safe one: nothing is made of what the text says but plain values.
    return [document for document in yaml.load_all(text, Loader=PlainLoader) if document is not None]


def parse_template(text: str, *, place: str) -> Object:
    """The one template in `text`. Raises InvalidDefinition, whose paths begin with `place`."""
    try:
        documents = parse_documents(text)
    except yaml.YAMLError as error:
        raise InvalidDefinition([Mistake(path=place, message=f"is no YAML: {error}")]) from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        message = f"must hold one mapping with `resources`, found {len(documents)} documents"
        raise InvalidDefinition([Mistake(path=place, message=message)])
    return documents[0]
