"""The names of all members of each collection, after only some of them were compiled."""

from __future__ import annotations

from hearth.template.blueprint import Blueprint, Outline
from hearth.template.compiler.analysis import Analysis
from hearth.template.compiler.changes import definition_part
from hearth.template.compiler.changes.definition_part import DefinitionPart
from hearth.template.compiler.resource_analysis import AnalyzedResource


def find_names(
    analysis: Analysis, part: DefinitionPart, found: Blueprint, previous: Blueprint, *, outline: Outline
) -> dict[str, tuple[str, ...]] | None:
    """Return by collection the names of its members; those of before if they are the same ones.

    found: the blueprint of the part; outline: of the whole definition. Returns None if a collection came or went, or if
    two members have one name.
    """
    if found.collections.keys() != previous.collections.keys():
        return None
    names: dict[str, tuple[str, ...]] = {}
    for resource in analysis.resources:
        name = resource.source.name
        if name in found.collections:
            known = previous.collections[name].members
            made = list_names(resource, part, found.collections[name].members, known, outline=outline)
            names[name] = known if made == known else made
            if made != known and len(set(made)) < len(made):
                return None
    return names


def list_names(
    resource: AnalyzedResource,
    part: DefinitionPart,
    compiled: tuple[str, ...],
    known: tuple[str, ...],
    *,
    outline: Outline,
) -> tuple[str, ...]:
    """Return the names of all members. compiled: those of the part; known: all of before."""
    if resource.source.indices is not None and outline.size is not None:
        return tuple(map(str, outline.size.find_indices(surge=outline.surge)))
    for_each = resource.collection.for_each if resource.collection is not None else None
    positions = part.find_positions(for_each)
    if positions is None:
        return compiled
    length = outline.lists[definition_part.find_list(for_each) or ""].length
    names = [*known[:length], *[""] * (length - len(known))]
    for position, name in zip(positions, compiled, strict=True):
        names[position] = name
    return tuple(names)
