"""Compilation of a definition of which only elements of long lists differ from that of the last blueprint.

A member depends on its element, its position and on nothing else that differs, so only the members of the changed
elements are compiled; all others stay the same objects. All that could differ besides, and all mistakes, are left to the
compilation from nothing, which reports them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from hearth.model import limits
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kinds
from hearth.template.blueprint import Blueprint, CompiledFrom, Definition, Outline, ResourceBlueprint, StackIdentity
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import Evaluator
from hearth.template.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.template.compiler import compiler, sensitivity, unchanged_resources
from hearth.template.compiler.changes import outlines
from hearth.template.compiler.changes.definition_part import DefinitionPart
from hearth.template.compiler.compiler import Analysis
from hearth.template.compiler.manifest_template import ManifestTemplate
from hearth.template.schema import parameters

MOST = 0.5
"""The share of changed elements above which a compilation from nothing is as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a compilation needs besides the definition."""

    stack: StackIdentity
    kinds: Kinds
    outline: Outline | None
    """Of the definition and the kinds; None if it has none."""
    evaluator: Evaluator = evaluation.ALONE


def compile_in_pieces(
    definition: Definition, inputs: Inputs, *, previous: Blueprint | None = None
) -> ChunkedWork[Blueprint]:
    """Compile the definition, if possible only what differs from that of the previous blueprint.

    The result is the same, and shares the resources that did not change. Raises InvalidDefinition with every mistake
    that was found.
    """
    outline = inputs.outline
    if previous is not None and outline is not None:
        made = yield from compile_changes(definition, outline, inputs, previous=previous)
        if made is not None:
            return made
    made = yield from compiler.compile_in_pieces(
        definition, stack=inputs.stack, kinds=inputs.kinds, evaluator=inputs.evaluator, outline=outline
    )
    return made if previous is None else (yield from unchanged_resources.share(made, previous))


def compile_changes(
    definition: Definition, outline: Outline, inputs: Inputs, *, previous: Blueprint
) -> ChunkedWork[Blueprint | None]:
    """Compile the changed members; None if anything else may differ, or is wrong."""
    known = previous.compiled_from
    if known is None or known.resources is not previous.resources or not is_similar(outline, known.outline):
        return None
    if previous.sensitive_texts or sensitivity.find_sensitive(definition):
        # All members' sensitive texts would have to be found again.
        return None
    positions = find_positions(outline, known)
    if not positions:
        return previous if outline == known.outline else None
    part = DefinitionPart(positions=positions)
    try:
        analysis = yield from compiler.analyze(shorten(definition, part), kinds=inputs.kinds, part=part)
        yield from check_lists(definition, analysis, outline, known.outline)
        bound = compiler.bind(definition, analysis, stack=inputs.stack, evaluator=inputs.evaluator, part=part)
        found, _ = yield from bound
    except (InvalidDefinition, RecursionError):
        return None
    names = find_names(analysis, part, previous)
    if names != {name: each.members for name, each in found.collections.items() if name in names}:
        return None
    members = yield from choose_changed([each for some in names.values() for each in some], found, previous)
    steps_left = known.steps_left - (limits.RULE_STEPS - analysis.examiner.effort.budget.left)
    if members is None or steps_left < 0:
        return None
    return replace_members(previous, members, known, outline=outline, steps_left=steps_left)


def is_similar(outline: Outline, known: Outline) -> bool:
    """Return whether nothing but the elements of long lists can differ."""
    mine, theirs = ((each.head, each.stack, each.size, each.surge, each.lists.keys()) for each in (outline, known))
    return mine == theirs and all(each.length == known.lists[name].length for name, each in outline.lists.items())


def find_positions(outline: Outline, known: CompiledFrom) -> Mapping[str, Sequence[int]] | None:
    """Return by list the positions of the elements to compile; of an unchanged list the first one.

    Returns None if more than members depends on a changed list, or if too many elements changed.
    """
    found: dict[str, Sequence[int]] = {}
    is_changed = False
    for name, each in outline.lists.items():
        changed = outlines.find_changed(known.outline.lists[name], each)
        if len(changed) > MOST * each.length or (changed and name not in known.member_lists):
            return None
        is_changed = is_changed or bool(changed)
        if name in known.member_lists:
            # Others may require the collection, which therefore has a member.
            found[name] = changed or (0,)
    return found if is_changed else None


def shorten(definition: Definition, part: DefinitionPart) -> Definition:
    """Return the definition with only the elements of the part."""
    given = definition.parameters
    lists = {name: [given[name][position] for position in found] for name, found in part.positions.items()}
    return dataclasses.replace(definition, parameters={**given, **lists})


def check_lists(definition: Definition, analysis: Analysis, outline: Outline, known: Outline) -> ChunkedWork[None]:
    """Check each changed list as a whole; its elements are checked one by one. Raises InvalidDefinition."""
    for name, each in outline.lists.items():
        if each != known.lists[name]:
            rules = parameters.select_rules(analysis.source.parameters.get(name), of_list=True)
            budget = analysis.examiner.effort.budget
            if (yield from parameters.find_faults(rules, definition.parameters[name], budget)):
                raise InvalidDefinition([])


def find_names(analysis: Analysis, part: DefinitionPart, previous: Blueprint) -> dict[str, tuple[str, ...]]:
    """Return by collection the previous names of the members that are compiled again."""
    found: dict[str, tuple[str, ...]] = {}
    for resource in analysis.resources:
        known = previous.collections.get(resource.source.name)
        positions = part.find_positions(resource.collection.for_each) if resource.collection is not None else None
        if known is not None and positions is not None:
            found[known.name] = tuple(known.members[position] for position in positions)
    return found


def choose_changed(
    names: Sequence[str], found: Blueprint, previous: Blueprint
) -> ChunkedWork[dict[str, ResourceBlueprint] | None]:
    """Return the members that differ from the previous ones; None if anything besides depends on the difference."""
    changed: dict[str, ResourceBlueprint] = {}
    for number, name in enumerate(names):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        before = previous.resources[name]
        # Only the position among all resources is not known to the part.
        after = dataclasses.replace(found.resources[name], index=before.index, dependents=before.dependents)
        if after == before:
            continue
        if after.requires != before.requires or find_reads(after) != find_reads(before):
            return None
        if find_place(after) != find_place(before):
            # Another resource may name the same object.
            return None
        changed[name] = after
    return changed


def find_reads(resource: ResourceBlueprint) -> list[Mapping[str, Any]]:
    """Return what each expression of a resource reads."""
    return [each.reads for each in (resource.manifest, *resource.ready_when, *resource.failed_when)]


def find_place(resource: ResourceBlueprint) -> tuple[Any, ...]:
    """Return what determines the name and namespace of the object, as far as it is known."""
    metadata = orjson.loads(find_raw(resource))[0].get("metadata") or {}
    return resource.api_version, resource.kind, metadata.get("name"), metadata.get("namespace")


def find_raw(resource: ResourceBlueprint) -> bytes:
    """Return the known part of a manifest as JSON."""
    assert isinstance(resource.manifest, ManifestTemplate)  # noqa: S101 -- the compiler makes no other
    return resource.manifest.raw


def replace_members(
    previous: Blueprint,
    members: Mapping[str, ResourceBlueprint],
    known: CompiledFrom,
    *,
    outline: Outline,
    steps_left: int,
) -> Blueprint | None:
    """Return the previous blueprint with other members; None if it becomes too large."""
    grown = (len(find_raw(each)) - len(find_raw(previous.resources[name])) for name, each in members.items())
    size = known.size + sum(grown)
    if size > limits.WANTED_BYTES:
        return None
    resources = {**previous.resources, **members}
    origin = dataclasses.replace(known, outline=outline, resources=resources, size=size, steps_left=steps_left)
    return dataclasses.replace(previous, resources=resources, compiled_from=origin)
