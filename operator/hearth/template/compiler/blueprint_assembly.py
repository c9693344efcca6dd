"""Assembles the blueprint from validated resources: presence, order, outputs and rolling updates.

Mistakes are collected in the `PartialEvaluator`. The blueprint is valid only if there are none.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hearth.graph import order
from hearth.model import applied_manifest, limits, members, rolling_batches
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.field_paths import PathPattern
from hearth.template.blueprint import (
    Blueprint,
    CollectionBlueprint,
    Evaluable,
    ExternalBlueprint,
    FindRepeated,
    ResourceBlueprint,
    RollingPolicy,
    StackIdentity,
)
from hearth.template.cel.expressions import merge_reads_in_pieces
from hearth.template.compiler import member_positions, object_names, resource_binding, sensitivity, template_conditions
from hearth.template.compiler.manifest_template import ManifestTemplate
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedOutput, AnalyzedResource, AnalyzedValues
from hearth.template.compiler.resource_binding import BoundResource
from hearth.template.compiler.template_conditions import ConditionValue
from hearth.template.parser.policies import RollingSource
from hearth.template.parser.template_parser import ResourceSource
from hearth.template.schema import literal_validator
from hearth.template.schema.shapes import Type
from hearth.template.text import bounds

IN_PLAIN_TEXT = (
    "spec.parameters of a nested Stack is readable by every reader of Stacks; "
    "put the value into a Secret, and reference it in the nested Stack's spec.parametersFrom"
)
"""Why no sensitive value may be there, and the next step."""
IN_CONDITIONS = "everyone who can read the Stack sees its conditions; remove it from the expression"
"""Why no condition may depend on a sensitive value, and the next step."""


def assemble(
    resources: Sequence[AnalyzedResource],
    values: AnalyzedValues,
    *,
    evaluator: PartialEvaluator,
    edges: Mapping[str, Sequence[str]],
    stack: StackIdentity,
    surge: int = 0,
) -> ChunkedWork[Blueprint | None]:
    """Assemble the blueprint; leave invalid parts out and record their errors in `evaluator`.

    surge: members of a group beyond its size.
    """
    absent = {
        analyzed.source.name for analyzed in resources if not is_present(analyzed.when, evaluator, analyzed.source.path)
    }
    evaluator.collections = frozenset(each.source.name for each in resources if each.source.is_list)
    evaluator.externals = frozenset(each.source.name for each in resources if each.source.external is not None)
    evaluator.absent = absent - evaluator.collections
    evaluator.stacks = frozenset(each.source.name for each in resources if each.is_stack)
    # An absent collection has no members.
    evaluator.constants.update({name: [] for name in absent & evaluator.collections})
    evaluator.fields = {
        analyzed.source.name: analyzed.shape.fields for analyzed in resources if analyzed.shape.type is Type.OBJECT
    }
    yield
    names_in_order = yield from order.sort_in_pieces(edges)
    yield from trace(resources, evaluator, names_in_order)
    chosen = [analyzed for analyzed in resources if analyzed.source.name not in absent]
    read = resource_binding.bind_externals(chosen, evaluator)
    evaluator.take_read({name: each.identity for name, each in read.items()})
    if not (yield from resource_binding.expand(chosen, evaluator)):
        return None
    collections = [each for each in chosen if each.collection is not None]
    present = yield from bind_present([each for each in chosen if each.source.external is None], evaluator)
    bound = [each for found in present.values() for each in found]
    yield from object_names.refuse_duplicates(bound, evaluator, stack)
    documents = yield from bind_outputs(values.outputs, evaluator, sizes=count_members(present, evaluator))
    conditions = yield from bind_conditions(values.conditions, evaluator, sizes=count_members(present, evaluator))
    judged = [each for fields in conditions.values() for each in fields.values()]
    refuse_many_reads(present, [*documents.values(), *judged], evaluator)
    rolling = make_rolling_policies(present, evaluator, surge=surge)
    retained = frozenset(analyzed.source.name for analyzed in resources if analyzed.source.is_retained)
    made = yield from make_blueprint(
        names_in_order,
        present,
        documents,
        conditions,
        evaluator,
        retained=retained,
        externals=read,
        member_kinds={each.source.name: (each.api_version, each.kind) for each in collections},
    )
    scope = yield from object_names.refuse_own_references(bound, made, evaluator, stack)
    made = resource_binding.note_members(made, collections, evaluator)
    return dataclasses.replace(made, rolling=rolling, surge=surge, scope=max(made.scope, scope))


def bind_present(
    resources: Sequence[AnalyzedResource], evaluator: PartialEvaluator
) -> ChunkedWork[dict[str, list[BoundResource]]]:
    """Return the resources without errors by name: one object, or the members of a collection."""
    present: dict[str, list[BoundResource]] = {}
    for analyzed in resources:
        found = yield from resource_binding.bind(analyzed, evaluator)
        if found is not None:
            present[analyzed.source.name] = found
        if len(evaluator.mistakes) > limits.MISTAKES:
            break
        yield
    sizes = count_members(present, evaluator)
    for index, analyzed in enumerate(resources):
        resource_binding.refuse_unknown_members(analyzed, present, evaluator)
        yield from member_positions.refuse_in_resource(analyzed, sizes, evaluator)
        if index % MARKS_IN_A_PIECE == 0:
            yield
    return present


def count_members(present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator) -> dict[str, int]:
    """Return the number of members of each collection without errors."""
    return {name: len(present[name]) for name in evaluator.collections if name in present}


def refuse_many_reads(
    present: Mapping[str, Sequence[BoundResource]], documents: Sequence[Evaluable], evaluator: PartialEvaluator
) -> None:
    """Record the first resource whose reads of collections make all of them too many."""
    sizes = count_members(present, evaluator)
    total = sum(sizes.get(name, 0) for document in documents for name in document.reads)
    for own, found in present.items() if sizes else ():
        read = {
            name: sizes[name]
            for each in found[:1]
            for evaluable in each.evaluables()
            for name in evaluable.reads
            if name != own and name in sizes
        }
        total += len(found) * sum(read.values())
        if total > limits.MEMBER_READS:
            what = " and ".join(f"the {size} members of '{name}'" for name, size in read.items())
            times = f", for each of its {len(found)} members" if own in sizes else ""
            message = f"reads {what}{times}; a template may read at most {limits.MEMBER_READS} members in all"
            evaluator.note(
                found[0].analyzed.source.path,
                f"{message}; read them in one resource, or set the names of their objects and use dependsOn",
            )
            return


def make_blueprint(  # noqa: PLR0913 -- what the parts of a template became
    names_in_order: Sequence[str],
    present: Mapping[str, Sequence[BoundResource]],
    documents: dict[str, Evaluable],
    conditions: dict[str, dict[str, Evaluable]],
    evaluator: PartialEvaluator,
    *,
    retained: frozenset[str],
    externals: Mapping[str, ExternalBlueprint],
    member_kinds: Mapping[str, tuple[str, str]],
) -> ChunkedWork[Blueprint]:
    """Make the blueprint of resources and outputs without errors.

    externals: objects that are only read; member_kinds: by collection the apiVersion and kind of its members.
    """
    # In dependency order, each collection as a whole after its members.
    ordered: dict[str, BoundResource | None] = {}
    requires: dict[str, list[str]] = {}
    for name in (name for name in names_in_order if name in present):
        for bound in present[name]:
            ordered[bound.name] = bound
            requires[bound.name] = resource_binding.find_required(bound, present, evaluator)
            if len(ordered) % MARKS_IN_A_PIECE == 0:
                yield
        if name in evaluator.collections:
            ordered[members.name_all(name)] = None
            requires[members.name_all(name)] = [bound.name for bound in present[name]]
            yield
    dependents = yield from order.invert_in_pieces(requires)
    # Read the texts after binding, which finds values that are derived from sensitive ones.
    hidden = frozenset(evaluator.sensitivity.texts)
    made: dict[str, ResourceBlueprint] = {}
    collections: dict[str, CollectionBlueprint] = {}
    for index, (name, one) in enumerate(ordered.items()):
        if one is None:
            root = members.root_of(name)
            collections[root] = CollectionBlueprint(
                name=root,
                index=index,
                members=tuple(requires[name]),
                dependents=tuple(sorted(dependents[name])),
                max_removed=evaluator.max_removed.get(root),
                member_kind=member_kinds[root],
            )
        else:
            made[name] = make_resource(one, index, requires=requires[name], dependents=dependents[name])
            if read := resource_binding.find_externals(one, externals, evaluator.unresolved):
                made[name] = dataclasses.replace(made[name], externals=read)
            if one.analyzed.source.name in evaluator.sensitivity.fields:
                made[name] = dataclasses.replace(made[name], hidden=hidden)
        if index % MARKS_IN_A_PIECE == 0:
            yield
    firsts = (found[0] for found in present.values() if found)
    evaluables = itertools.chain(
        (evaluable for one in ordered.values() if one is not None for evaluable in one.evaluables()),
        (test for each in externals.values() for test in each.ready_when),
        documents.values(),
        *(fields.values() for fields in conditions.values()),
    )
    return Blueprint(
        resources=made,
        outputs=documents,
        status_conditions=conditions,
        reads=(yield from merge_reads_in_pieces(evaluable.reads for evaluable in evaluables)),
        collections=collections,
        externals=resource_binding.note_dependents(externals, made),
        retained=retained,
        sensitive_texts=hidden,
        scope=max(evaluator.scope, object_names.find_scope(map(object_names.find_naming, firsts))),
    )


def make_rolling_policies(
    present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator, *, surge: int
) -> dict[str, RollingPolicy]:
    """Return the rolling update policies that collections set, by collection. surge: members of a group beyond its
    size.
    """
    found: dict[str, RollingPolicy] = {}
    for name, bound in present.items():
        source = bound[0].analyzed.source if bound else None
        if source is not None and source.rolling is not None:
            if source.indices is None:
                refuse_standstill(source.rolling, len(bound), evaluator)
            found[name] = make_rolling_policy(source, source.rolling, tuple(each.name for each in bound), surge=surge)
    return found


def make_rolling_policy(
    source: ResourceSource, rolling: RollingSource, names: tuple[str, ...], *, surge: int
) -> RollingPolicy:
    """Return the policy of one collection with these members. surge: members of a group beyond its size.

    A group may grow to keep enough members in service.
    """
    is_group = source.indices is not None
    size = len(names) - surge if is_group else len(names)
    batch = rolling_batches.find_batch_size(rolling.max_batch, members=size)
    return RollingPolicy(
        collection=source.name,
        members=names,
        max_batch=batch,
        min_ready=min(rolling.min_ready, size),
        min_ready_stated=rolling.min_ready,
        pause=rolling.pause,
        surge=rolling_batches.find_surge(size, batch=batch, in_service=rolling.min_ready) if is_group else 0,
    )


def refuse_standstill(source: RollingSource, size: int, evaluator: PartialEvaluator) -> None:
    """Record a minimum that leaves no member to change."""
    if 0 < size <= source.min_ready:
        message = f"is {source.min_ready}, but there are {size} members, so none could ever change; use a lower number"
        evaluator.note(f"{source.path}.minReady", message)


def trace(
    resources: Sequence[AnalyzedResource], evaluator: PartialEvaluator, ordered: Sequence[str]
) -> ChunkedWork[None]:
    """Record the fields of every object that contain a sensitive value. ordered: the names in dependency order."""
    by_name = {analyzed.source.name: analyzed for analyzed in resources}
    for index, name in enumerate(ordered):
        if index % MARKS_IN_A_PIECE == 0:
            yield
        analyzed = by_name[name]
        if analyzed.source.external is not None:
            resource_binding.refuse_sensitive_reference(analyzed, evaluator)
            if analyzed.kind == "Secret" and not analyzed.group:
                evaluator.sensitivity.note_secret(name)
            continue
        with evaluator.hide(resource_binding.find_sensitive_names(analyzed, evaluator)):
            trace_strings(analyzed, evaluator)
        if analyzed.kind == "Secret" and not analyzed.group:
            evaluator.sensitivity.note_secret(name)


def trace_strings(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> None:
    """Record the fields of one object, or of each member, that contain a sensitive value."""
    for mark in analyzed.parsed.strings:
        expressions = analyzed.find_within(mark)
        if any(evaluator.is_sensitive(expression) for expression in expressions):
            evaluator.sensitivity.note_field(analyzed.source.name, mark.keys)
            if sensitivity.is_name(mark.keys):
                evaluator.refuse_sensitive(
                    mark.path, expressions, why="names and kinds are not secret; use another parameter"
                )
            if analyzed.is_stack and sensitivity.is_parameter(mark.keys):
                evaluator.refuse_sensitive(mark.path, expressions, why=IN_PLAIN_TEXT)


def is_present(when: ConditionValue | None, evaluator: PartialEvaluator, path: str) -> bool:
    """Return whether `when` is true; an undecided one counts as true, to avoid follow-up errors."""
    return when is None or template_conditions.decide(when, evaluator, path=f"{path}.when") is not False


def bind_outputs(
    outputs: Sequence[AnalyzedOutput], evaluator: PartialEvaluator, *, sizes: Mapping[str, int]
) -> ChunkedWork[dict[str, Evaluable]]:
    """Bind the present outputs by name. A sensitive output shows only that it is present.

    sizes: the numbers of members of all collections.
    """
    found: dict[str, Evaluable] = {}
    for output in outputs:
        if output.is_sound and is_present(output.when, evaluator, output.path):
            yield from member_positions.refuse_in_output(output, sizes, evaluator)
            document = yield from evaluator.bind_document(output.parsed, output.expressions)
            if document is not None:
                check_output(document, output, evaluator)
                is_sensitive = any(map(evaluator.is_sensitive, output.list_within()))
                may_hide = is_sensitive or sensitivity.reads_outputs(document)
                found[output.name] = sensitivity.RedactedOutput(document, is_sensitive) if may_hide else document
    return found


def bind_conditions(
    conditions: Mapping[str, Mapping[str, AnalyzedOutput]], evaluator: PartialEvaluator, *, sizes: Mapping[str, int]
) -> ChunkedWork[dict[str, dict[str, Evaluable]]]:
    """Bind the fields of the conditions for the status. Record an error for each that reads a sensitive value.

    sizes: the numbers of members of all collections.
    """
    found: dict[str, dict[str, Evaluable]] = {type_: {} for type_ in conditions}
    for type_, fields in conditions.items():
        for name, each in fields.items():
            if not each.is_sound:
                continue
            if any(map(evaluator.is_sensitive, each.list_within())):
                evaluator.refuse_sensitive(each.path, each.list_within(), why=IN_CONDITIONS)
                continue
            yield from member_positions.refuse_in_output(each, sizes, evaluator)
            document = yield from evaluator.bind_document(each.parsed, each.expressions)
            if document is not None:
                found[type_][name] = document
    return found


def check_output(template: ManifestTemplate, output: AnalyzedOutput, evaluator: PartialEvaluator) -> None:
    """Record an error if the known part of an output is too large for a status."""
    if not template.is_constant:
        return
    try:
        bounds.refuse_large(len(template.raw), limits.OUTPUT_BYTES, what="is")
        # One more level for the list around it.
        bounds.measure(orjson.loads(template.raw), depth=limits.OUTPUT_DEPTH + 1)
    except bounds.TooLarge as error:
        evaluator.note(f"{output.path}.value", str(error))


def find_check(bound: BoundResource) -> FindRepeated | None:
    """Return a function that finds repeated elements once values are known; None if there can be none."""
    if bound.template.is_constant or not bound.analyzed.may_repeat:
        return None
    return functools.partial(literal_validator.find_repeated, shape=bound.analyzed.lists, shows_values=False)


def make_resource(
    bound: BoundResource, index: int, *, requires: Sequence[str], dependents: Sequence[str]
) -> ResourceBlueprint:
    """Make the resource's blueprint."""
    analyzed = bound.analyzed
    metadata = analyzed.source.manifest.get("metadata") or {}
    return ResourceBlueprint(
        name=bound.name,
        index=index,
        path=analyzed.source.path,
        api_version=analyzed.api_version,
        kind=analyzed.kind,
        is_kind_known=analyzed.served is not None,
        manifest=bound.template,
        is_constant=bound.template.is_constant,
        has_computed_metadata=bound.template.has_slot_in("metadata"),
        find_repeated=find_check(bound),
        constant=bound.template.raw if bound.template.is_constant else None,
        is_name_pinned=metadata.get("name") is not None,
        requires=tuple(requires),
        dependents=tuple(sorted(dependents)),
        ready_when=bound.ready_when,
        failed_when=bound.failed_when,
        replacement=analyzed.source.replacement,
        replace_on=tuple(find_applied_path(each, analyzed) for each in analyzed.source.replace_on),
        drift_policy=analyzed.source.drift_policy,
        ignore_fields=tuple(find_ignored_field(each, analyzed) for each in analyzed.source.ignore_fields),
        is_retained=analyzed.source.is_retained,
        is_stack=analyzed.is_stack,
        adopts=analyzed.source.adopts,
        completion=analyzed.source.completion,
        retry=analyzed.source.retry,
    )


def find_applied_path(path: tuple[Any, ...], analyzed: AnalyzedResource) -> tuple[Any, ...]:
    """Return the path that a field of the user's manifest has in the object."""
    return applied_manifest.find_applied_path(path, group=analyzed.group, kind=analyzed.kind)


def find_ignored_field(pattern: PathPattern, analyzed: AnalyzedResource) -> PathPattern:
    """Return the field of the object that is left to others: the whole list or map if it has one owner as a whole."""
    found: PathPattern = find_applied_path(pattern, analyzed)
    shape = analyzed.shape
    for depth, key in enumerate(found):
        if depth and shape.is_atomic:
            return found[:depth]
        shape = literal_validator.find_place(shape, (key if isinstance(key, str) else 0,))
    return found
