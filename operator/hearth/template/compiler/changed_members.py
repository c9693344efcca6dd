"""Compilation of a definition of which only elements of long lists, or the size of a group, differ from the last one.

A member depends on its element, its position and on nothing else that differs, so only the members of the changed
elements are compiled; all others stay the same objects. All that could differ besides, and all mistakes, are left to the
compilation from nothing, which reports them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hearth.model import limits, members, value_class
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import Kinds
from hearth.template.blueprint import (
    Blueprint,
    CollectionBlueprint,
    CompiledFrom,
    Definition,
    Outline,
    ResourceBlueprint,
    StackIdentity,
)
from hearth.template.cel import evaluation, expressions
from hearth.template.cel.evaluation import Evaluator
from hearth.template.cel.expressions import Reads
from hearth.template.compiler import blueprint_assembly, compiler, object_names, outlines, resource_binding, sensitivity
from hearth.template.compiler.compiler import Analysis
from hearth.template.compiler.outlines import DefinitionPart
from hearth.template.compiler.resource_analysis import AnalyzedResource
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
    return made if previous is None else (yield from share(made, previous))


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
    shortened = shorten(definition, part)
    try:
        analysis = yield from compiler.analyze(shortened, kinds=inputs.kinds, part=part)
        yield from check_lists(definition, analysis, outline, known.outline)
        bound = compiler.bind(shortened, analysis, stack=inputs.stack, evaluator=inputs.evaluator, part=part)
        found, _ = yield from bound
    except (InvalidDefinition, RecursionError):
        return None
    names = find_names(analysis, part, found, previous, outline=outline)
    changed = yield from choose_changed(found, previous)
    if names is None or changed is None:
        return None
    return (yield from combine(Changes(analysis, found, names, changed), outline, inputs, previous=previous))


def is_similar(outline: Outline, known: Outline) -> bool:
    """Return whether nothing but the elements of long lists, or the size of a group, can differ."""
    mine, theirs = ((each.head, each.stack, each.size is None, each.lists.keys()) for each in (outline, known))
    return mine == theirs


def find_part(outline: Outline, compiled: CompiledFrom) -> DefinitionPart | None:
    """Return the members to compile: the changed ones, and one of each collection that does not change.

    Others may require the collection, which therefore has a member. Returns None if more than members depends on a
    changed list, or if too many elements changed.
    """
    positions: dict[str, Sequence[int]] = {}
    for name, each in outline.lists.items():
        changed = outlines.find_changed(compiled.outline.lists[name], each)
        is_changed = each != compiled.outline.lists[name]
        if len(changed) > MOST * each.length or (is_changed and name not in compiled.member_lists):
            return None
        if name in compiled.member_lists:
            positions[name] = changed or (0,)
    if outline.size is None or compiled.outline.size is None:
        return DefinitionPart(positions=positions)
    before = compiled.outline.size.find_indices(surge=compiled.outline.surge)
    after = outline.size.find_indices(surge=outline.surge)
    added = find_others(after, before)
    if len(added) > MOST * len(after) or len(added) == len(after):
        return None
    kept = min(frozenset(after).difference(added))
    return DefinitionPart(positions=positions, indices=tuple(sorted((kept, *added))))


def shorten(definition: Definition, part: DefinitionPart) -> Definition:
    """Return the definition with only the elements of the part."""
    given = definition.parameters
    read = {outlines.name_read(name): each.value for name, each in definition.read.items()}
    values = {**given, **read}
    lists = {name: [values[name][position] for position in found] for name, found in part.positions.items()}
    return dataclasses.replace(
        definition,
        parameters={name: lists.get(name, value) for name, value in given.items()},
        read={
            name: dataclasses.replace(each, value=lists.get(outlines.name_read(name), each.value))
            for name, each in definition.read.items()
        },
    )


def check_lists(definition: Definition, analysis: Analysis, outline: Outline, known: Outline) -> ChunkedWork[None]:
    """Check each changed list as a whole; its elements are checked one by one. Raises InvalidDefinition."""
    for name, each in outline.lists.items():
        if each != known.lists[name] and name in definition.parameters:
            rules = parameters.select_rules(analysis.source.parameters.get(name), of_list=True)
            budget = analysis.validator.effort.budget
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
        if after.requires != before.requires or object_names.find_place(after) != object_names.find_place(before):
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
    removed = {root: find_others(previous.collections[root].members, some) for root, some in names.items()}
    gone = [previous.resources[name] for some in removed.values() for name in some]
    left = [*gone, *(previous.resources[name] for name in changed if name in previous.resources)]
    reads = merge_reads(previous, left, [*changed.values(), *find_samples(changes, previous)])
    resized = [root for root, some in names.items() if some is not previous.collections[root].members]
    if known is None or reads is None or not all(names[root] for root in resized):
        return None
    if not all(is_free(previous.collections[root], previous, removed[root]) for root in resized):
        return None
    if resized:
        made = yield from replace_all(previous, changed, names)
    else:
        made = dataclasses.replace(previous, resources={**previous.resources, **changed})
    if made.externals:
        made = dataclasses.replace(made, externals=resource_binding.note_dependents(made.externals, made.resources))
    if exceeds_limits(changes, made) or not (yield from has_own_objects(changes, made, inputs, previous=previous)):
        return None
    rolling = {
        each.source.name: blueprint_assembly.make_rolling_policy(
            each.source, each.source.rolling, names[each.source.name], surge=outline.surge
        )
        for each in changes.analysis.resources
        if each.source.rolling is not None and each.source.name in names
    }
    size = known.size + sum(map(find_size, changed.values())) - sum(map(find_size, left))
    steps_left = known.steps_left - (limits.RULE_STEPS - changes.analysis.validator.effort.budget.left)
    if size > limits.WANTED_BYTES or steps_left < 0:
        return None
    origin = dataclasses.replace(known, outline=outline, resources=made.resources, size=size, steps_left=steps_left)
    return dataclasses.replace(made, reads=reads, rolling=rolling, surge=outline.surge, compiled_from=origin)


def find_size(resource: ResourceBlueprint) -> int:
    """Return the known bytes of a manifest."""
    return len(object_names.find_raw(resource))


def find_samples(changes: Changes, previous: Blueprint) -> Iterator[ResourceBlueprint]:
    """Return one member of each collection that stays as it is, if there is one."""
    for some in changes.names.values():
        name = next((name for name in some if name not in changes.changed), None)
        if name is not None:
            yield previous.resources[name]


def exceeds_limits(changes: Changes, made: Blueprint) -> bool:
    """Return whether the members are too many, or fewer than a rolling update keeps."""
    expressions = 0
    for resource in changes.analysis.resources:
        some = changes.names.get(resource.source.name, ())
        expressions += resource.count_expressions() * len(some)
        stated = resource.source.rolling
        is_group = resource.source.indices is not None
        if stated is not None and not is_group and blueprint_assembly.is_standstill(stated, len(some)):
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
    return not (yield from object_names.has_conflict(new, all_others, stack=inputs.stack, kinds=inputs.kinds))


# Resources of a new blueprint that are the same as in the previous one: both then contain the same object. Planning
# finds by identity what a change of the definition concerns, however many resources it has.


def share(made: Blueprint, previous: Blueprint) -> ChunkedWork[Blueprint]:
    """Return the blueprint with the objects of `previous` for all resources that did not change."""
    resources = dict(made.resources)
    for number, (name, resource) in enumerate(made.resources.items()):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        known = previous.resources.get(name)
        if known is not None and known is not resource and known == resource:
            resources[name] = known
    origin = made.compiled_from
    if origin is not None:
        origin = dataclasses.replace(origin, resources=resources)
    return dataclasses.replace(made, resources=resources, compiled_from=origin)


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
    length = outline.lists[outlines.find_list(for_each) or ""].length
    names = [*known[:length], *[""] * (length - len(known))]
    for position, name in zip(positions, compiled, strict=True):
        names[position] = name
    return tuple(names)


# The previous blueprint with other members: some changed, and maybe some added, removed or in another order. Gives
# every resource the position and the dependents that a compilation from nothing gives it.

Name = TypeVar("Name", str, int)
IN_A_PIECE = 256
"""Resources that get their place in one piece, some 0.5 ms."""


def is_free(collection: CollectionBlueprint, previous: Blueprint, removed: Iterable[str]) -> bool:
    """Return whether nothing but its own members depends on which members a collection has."""
    whole = (members.name_all(collection.name),)
    if collection.dependents or any(collection.name in output.reads for output in previous.outputs.values()):
        return False
    return all(previous.resources[name].dependents == whole for name in removed)


def replace_all(
    previous: Blueprint, changed: Mapping[str, ResourceBlueprint], names: Mapping[str, tuple[str, ...]]
) -> ChunkedWork[Blueprint]:
    """Return the blueprint with other members in the order of `names`, by collection. changed: those that are new, too."""
    dependents = find_dependents(previous, changed, names)
    yield
    resources: dict[str, ResourceBlueprint] = {}
    collections: dict[str, CollectionBlueprint] = {}
    index = 0
    for root in find_order(previous):
        known = previous.collections.get(root)
        for name in (root,) if known is None else names[root]:
            resource = changed.get(name) or previous.resources[name]
            own = dependents.get(name, resource.dependents)
            if resource.index != index or own is not resource.dependents:
                resource = dataclasses.replace(resource, index=index, dependents=own)
            resources[name] = resource
            index += 1
            if index % IN_A_PIECE == 0:
                yield
        if known is not None:
            own = dependents.get(members.name_all(root), known.dependents)
            collections[root] = dataclasses.replace(known, index=index, members=names[root], dependents=own)
            index += 1
    return dataclasses.replace(previous, resources=resources, collections=collections)


def find_order(previous: Blueprint) -> Iterator[str]:
    """Return the names of resources and collections in dependency order."""
    places = {name: each.index for name, each in previous.collections.items()}
    places |= {name: each.index for name, each in previous.resources.items() if not members.is_member(name)}
    return iter(sorted(places, key=places.__getitem__))


def find_dependents(
    previous: Blueprint, changed: Mapping[str, ResourceBlueprint], names: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the dependents, as far as they are others, of what added and removed members require."""
    found: dict[str, set[str]] = {}

    def at(required: str) -> set[str]:
        known = previous.collections[members.root_of(required)] if members.is_all(required) else None
        before = known.dependents if known is not None else previous.resources[required].dependents
        return found.setdefault(required, set(before))

    for root, new in names.items():
        for name in find_others(previous.collections[root].members, new):
            for required in previous.resources[name].requires:
                at(required).discard(name)
        for name in find_others(new, previous.collections[root].members):
            for required in changed[name].requires:
                at(required).add(name)
    return {name: tuple(sorted(some)) for name, some in found.items()}


def find_others(some: Collection[Name], others: Collection[Name]) -> list[Name]:
    """Return the names or indices in `some` that are not among the others."""
    if some is others:
        return []
    known = frozenset(others)
    return [name for name in some if name not in known]


def find_reads(resource: ResourceBlueprint) -> list[Reads]:
    """Return what each expression of a resource reads."""
    return [each.reads for each in (resource.manifest, *resource.ready_when, *resource.failed_when)]


def merge_reads(
    previous: Blueprint, left: Iterable[ResourceBlueprint], kept: Iterable[ResourceBlueprint]
) -> Reads | None:
    """Return what the blueprint reads with other members; None if only a look at all of them shows that.

    left: members that are gone, or changed; kept: those that are new, and one of each collection that is not.
    """
    present = [find_reads(each) for each in kept]
    if any(find_reads(each) not in present for each in left):
        return None
    merged = expressions.merge_reads([previous.reads, *(reads for some in present for reads in some)])
    return previous.reads if merged == previous.reads else merged
