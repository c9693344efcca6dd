"""Compilation of a definition of which only elements of long lists, or the size of a group, differ from the last one.

A member depends on its element, its position and on nothing else that differs, so only the members of the changed
elements are compiled; all others stay the same objects. All that could differ besides, and all mistakes, are left to the
compilation from nothing, which reports them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hearth.model import limits, value_class
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kinds
from hearth.template.blueprint import Blueprint, CompiledFrom, Definition, Outline, ResourceBlueprint, StackIdentity
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import Evaluator
from hearth.template.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.template.compiler import compiler, rolling_policies, sensitivity, unchanged_resources
from hearth.template.compiler.analysis import Analysis
from hearth.template.compiler.changes import member_names, member_sets, named_objects, outlines
from hearth.template.compiler.changes.definition_part import DefinitionPart
from hearth.template.schema import parameters

MOST = 0.5
"""The share of changed elements above which a compilation from nothing is as fast."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
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
    if outline == known.outline:
        return previous
    part = find_part(outline, known)
    if part is None:
        return None
    try:
        analysis = yield from compiler.analyze(shorten(definition, part), kinds=inputs.kinds, part=part)
        yield from check_lists(definition, analysis, outline, known.outline)
        bound = compiler.bind(definition, analysis, stack=inputs.stack, evaluator=inputs.evaluator, part=part)
        found, _ = yield from bound
    except (InvalidDefinition, RecursionError):
        return None
    names = member_names.find_names(analysis, part, found, previous, outline=outline)
    changed = yield from choose_changed(found, previous)
    if names is None or changed is None:
        return None
    return (yield from combine(Changes(analysis, found, names, changed), outline, inputs, previous=previous))


def is_similar(outline: Outline, known: Outline) -> bool:
    """Return whether nothing but the elements of long lists, or the size of a group, can differ."""
    mine, theirs = ((each.head, each.stack, each.size is None, each.lists.keys()) for each in (outline, known))
    return mine == theirs


def find_part(outline: Outline, known: CompiledFrom) -> DefinitionPart | None:
    """Return the members to compile: the changed ones, and one of each collection that does not change.

    Others may require the collection, which therefore has a member. Returns None if more than members depends on a
    changed list, or if too many elements changed.
    """
    positions: dict[str, Sequence[int]] = {}
    for name, each in outline.lists.items():
        changed = outlines.find_changed(known.outline.lists[name], each)
        is_changed = each != known.outline.lists[name]
        if len(changed) > MOST * each.length or (is_changed and name not in known.member_lists):
            return None
        if name in known.member_lists:
            positions[name] = changed or (0,)
    if outline.size is None or known.outline.size is None:
        return DefinitionPart(positions=positions)
    before = known.outline.size.find_indices(surge=known.outline.surge)
    after = outline.size.find_indices(surge=outline.surge)
    added = member_sets.find_others(after, before)
    if len(added) > MOST * len(after) or len(added) == len(after):
        return None
    kept = min(frozenset(after).difference(added))
    return DefinitionPart(positions=positions, indices=tuple(sorted((kept, *added))))


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


def choose_changed(found: Blueprint, previous: Blueprint) -> ChunkedWork[dict[str, ResourceBlueprint] | None]:
    """Return the members that are new or differ from the previous ones; None if others depend on the difference."""
    changed: dict[str, ResourceBlueprint] = {}
    for number, name in enumerate(name for each in found.collections.values() for name in each.members):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        after, before = found.resources[name], previous.resources.get(name)
        if before is None:
            changed[name] = after
            continue
        # Only the place among all resources is not known to the part.
        after = dataclasses.replace(after, index=before.index, dependents=before.dependents)
        if after == before:
            continue
        if after.requires != before.requires or named_objects.find_place(after) != named_objects.find_place(before):
            # Another resource may name the same object.
            return None
        changed[name] = after
    return changed


class Changes(NamedTuple):
    """What was compiled."""

    analysis: Analysis
    found: Blueprint
    """The blueprint of the part."""
    names: Mapping[str, tuple[str, ...]]
    """The members of the whole definition, by collection."""
    changed: Mapping[str, ResourceBlueprint]
    """The new and the changed members."""


def combine(
    changes: Changes, outline: Outline, inputs: Inputs, *, previous: Blueprint
) -> ChunkedWork[Blueprint | None]:
    """Return the previous blueprint with the changes; None if these are not all that differs."""
    names, changed, known = changes.names, changes.changed, previous.compiled_from
    removed = {root: member_sets.find_others(previous.collections[root].members, some) for root, some in names.items()}
    gone = [previous.resources[name] for some in removed.values() for name in some]
    left = [*gone, *(previous.resources[name] for name in changed if name in previous.resources)]
    reads = member_sets.merge_reads(previous, left, [*changed.values(), *find_samples(changes, previous)])
    resized = [root for root, some in names.items() if some is not previous.collections[root].members]
    if known is None or reads is None or not all(names[root] for root in resized):
        return None
    if not all(member_sets.is_free(previous.collections[root], previous, removed[root]) for root in resized):
        return None
    made = replace_members(previous, changed)
    if resized:
        made = yield from member_sets.replace_all(previous, changed, names)
    if exceeds_limits(changes, made) or not (yield from has_own_objects(changes, made, inputs, previous=previous)):
        return None
    rolling = {
        each.source.name: rolling_policies.make_one(
            each.source, each.source.rolling, names[each.source.name], surge=outline.surge
        )
        for each in changes.analysis.resources
        if each.source.rolling is not None and each.source.name in names
    }
    size = known.size + sum(map(find_size, changed.values())) - sum(map(find_size, left))
    steps_left = known.steps_left - (limits.RULE_STEPS - changes.analysis.examiner.effort.budget.left)
    if size > limits.WANTED_BYTES or steps_left < 0:
        return None
    origin = dataclasses.replace(known, outline=outline, resources=made.resources, size=size, steps_left=steps_left)
    return dataclasses.replace(made, reads=reads, rolling=rolling, surge=outline.surge, compiled_from=origin)


def find_size(resource: ResourceBlueprint) -> int:
    """Return the known bytes of a manifest."""
    return len(named_objects.find_raw(resource))


def find_samples(changes: Changes, previous: Blueprint) -> Iterator[ResourceBlueprint]:
    """Return one member of each collection that stays as it is, if there is one."""
    for some in changes.names.values():
        name = next((name for name in some if name not in changes.changed), None)
        if name is not None:
            yield previous.resources[name]


def replace_members(previous: Blueprint, changed: Mapping[str, ResourceBlueprint]) -> Blueprint:
    """Return the previous blueprint with other members of the same names."""
    return dataclasses.replace(previous, resources={**previous.resources, **changed})


def exceeds_limits(changes: Changes, made: Blueprint) -> bool:
    """Return whether the members are too many, or fewer than a rolling update keeps."""
    expressions = 0
    for resource in changes.analysis.resources:
        some = changes.names.get(resource.source.name, ())
        expressions += resource.count_expressions() * len(some)
        stated = resource.source.rolling
        is_group = resource.source.indices is not None
        if stated is not None and not is_group and rolling_policies.is_standstill(stated, len(some)):
            return True
    return expressions > limits.MEMBER_EXPRESSIONS or len(made.resources) > limits.RESOURCES


def has_own_objects(changes: Changes, made: Blueprint, inputs: Inputs, *, previous: Blueprint) -> ChunkedWork[bool]:
    """Return whether no new member names the object of another resource."""
    new = [resource for name, resource in changes.changed.items() if name not in previous.resources]
    if not new:
        return True
    others = (resource for name, resource in made.resources.items() if name not in changes.changed)
    rest = (resource for name, resource in changes.changed.items() if name in previous.resources)
    all_others = itertools.chain(others, rest)
    return not (yield from named_objects.has_conflict(new, all_others, stack=inputs.stack, kinds=inputs.kinds))
