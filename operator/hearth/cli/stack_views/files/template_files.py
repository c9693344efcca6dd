"""The template of a Stack in a file: inline, or from the ConfigMaps in the documents beside it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hearth.cli import object_fields
from hearth.engine.definition.sources import template_sources
from hearth.engine.definition.sources.template_sources import TemplateSource
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.errors import Mistake
from hearth.template import chunked_work
from hearth.template.text import error_hints, template_source

SINGLE, SEVERAL = "templateRef", "templateRefs"


def find_template(spec: Mapping[str, Any], beside: Sequence[Any]) -> Any:
    """Return the template of a spec, united if it is in several objects. beside: all documents of all files.

    Raises InvalidDefinition with all that is missing or wrong.
    """
    if "template" in spec:
        return spec["template"]
    sources = template_sources.find_references("", read_references(spec))
    if not sources:
        raise errors.InvalidDefinition([Mistake(path="spec.template", message="is missing; set template")])
    templates: list[Object] = []
    wrong: list[Mistake] = []
    for source in sources:
        try:
            templates.append(read_source(source, beside))
        except errors.InvalidDefinition as error:
            wrong += error.mistakes
    if wrong:
        raise errors.InvalidDefinition(wrong)
    return templates[0] if len(templates) == 1 else template_sources.unite(sources, templates)


def read_references(spec: Mapping[str, Any]) -> Object:
    """Return the references of a spec without what has a wrong type, which the schema reports."""
    if isinstance(spec.get(SINGLE), Mapping):
        return {SINGLE: read_reference(spec[SINGLE])}
    return {SEVERAL: [read_reference(each) for each in object_fields.entries(spec, SEVERAL)]}


def read_reference(stated: Mapping[str, Any]) -> Object:
    """Return name and key as texts."""
    return {"name": object_fields.text(stated, "name"), "key": object_fields.text(stated, "key")}


def read_source(source: TemplateSource, beside: Sequence[Any]) -> Object:
    """Return the template in one of the documents. Raises InvalidDefinition."""
    part = "binaryData" if source.is_compressed else "data"
    for document in beside:
        is_named = object_fields.text(document, "metadata", "name") == source.ref.name
        if not is_named or object_fields.text(document, "kind") != source.ref.kind:
            continue
        data = object_fields.mapping(document, part)
        if source.key not in data:
            found = error_hints.list_words(sorted(data)) or "none"
            message = f"{source.ref} has no key {source.key!r} in {part}; its keys: {found}"
            raise errors.InvalidDefinition([Mistake(path=f"{source.field}.key", message=message)])
        text = object_fields.text(data, source.key)
        if source.is_compressed:
            text = template_sources.inflate(text, place=source.path, limit=limits.REVISION_BYTES)
        pieces = template_source.parse_in_pieces(text, place=source.path, size=limits.REVISION_BYTES)
        return chunked_work.finish(pieces)
    message = f"is in {source.ref}; pass its file as well"
    raise errors.InvalidDefinition([Mistake(path=source.field, message=message)])
