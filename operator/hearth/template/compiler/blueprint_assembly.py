"""Assembly of the blueprint from validated resources: presence, order, and resources that name the same object.

Collects mistakes in its PartialEvaluator. The result is valid only if there are none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from hearth.graph import order
from hearth.model import limits, names, value_class
from hearth.model.kinds import ObjectRef
from hearth.template.blueprint import Blueprint, Evaluable, ResourceBlueprint, StackIdentity
from hearth.template.cel import value_sizes
from hearth.template.cel.expression_validator import ValidExpression
from hearth.template.cel.expressions import merge_reads
from hearth.template.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.template.compiler import sensitivity, sharing_scope, template_conditions
from hearth.template.compiler.manifest_template import InterpolatedString, ManifestTemplate
from hearth.template.compiler.output_analysis import AnalyzedOutput
from hearth.template.compiler.partial_evaluation import BooleanExpression, PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedResource
from hearth.template.compiler.template_conditions import ConditionValue
from hearth.template.parser import object_metadata
from hearth.template.schema.shapes import Type

IN_PLAIN_TEXT = (
    "spec.parameters of a nested Stack is readable by everyone who can read Stacks; "
    "put the value into a Secret, and reference it in the nested Stack's spec.parametersFrom"
)
"""Why no sensitive value may be there, and the next step."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BoundResource:
    """A present resource, with its expressions bound."""

    analyzed: AnalyzedResource
    document: ManifestTemplate
    ready_when: tuple[BooleanExpression, ...]
    failed_when: tuple[BooleanExpression, ...]

    def evaluables(self) -> Iterator[Evaluable]:
        """Return everything that contains expressions."""
        yield self.document
        yield from self.ready_when
        yield from self.failed_when


def assemble(
    resources: Sequence[AnalyzedResource],
    outputs: Sequence[AnalyzedOutput],
    *,
    binder: PartialEvaluator,
    edges: Mapping[str, Sequence[str]],
    stack: StackIdentity,
) -> ChunkedWork[Blueprint]:
    """Assemble the blueprint; leave invalid parts out and record their mistakes in `binder`."""
    absent = {
        analyzed.source.name for analyzed in resources if not is_present(analyzed.when, binder, analyzed.source.path)
    }
    binder.absent = absent
    binder.fields = {
        analyzed.source.name: analyzed.shape.fields for analyzed in resources if analyzed.shape.type is Type.OBJECT
    }
    yield
    names_in_order = yield from order.sort_in_pieces(edges)
    yield from trace(resources, binder, names_in_order)
    present: dict[str, BoundResource] = {}
    for analyzed in resources:
        if analyzed.source.name not in absent and (found := (yield from bind(analyzed, binder))) is not None:
            present[analyzed.source.name] = found
        if len(binder.mistakes) > limits.MISTAKES:
            break
        yield
    yield from refuse_duplicates(present.values(), binder, stack)
    documents = yield from bind_outputs(outputs, binder)
    ordered = [name for name in names_in_order if name in present]
    requires: dict[str, list[str]] = {}
    for index, name in enumerate(ordered):
        requires[name] = find_required(present[name], present)
        if index % MARKS_IN_A_PIECE == 0:
            yield
    dependents = yield from order.invert_in_pieces(requires)
    evaluables = [evaluable for each in present.values() for evaluable in each.evaluables()]
    # Complete only now: binding finds values that are derived from sensitive ones.
    hidden = frozenset(binder.secrecy.texts)
    resources_made: dict[str, ResourceBlueprint] = {}
    for index, name in enumerate(ordered):
        resources_made[name] = make_resource(present[name], index, requires=requires[name], dependents=dependents[name])
        if index % MARKS_IN_A_PIECE == 0:
            yield
    for name in binder.secrecy.fields.keys() & resources_made.keys():
        resources_made[name] = dataclasses.replace(resources_made[name], hidden=hidden)
    return Blueprint(
        resources=resources_made,
        outputs=documents,
        reads=merge_reads(evaluable.reads for evaluable in (*evaluables, *documents.values())),
        retained=frozenset(analyzed.source.name for analyzed in resources if analyzed.source.is_retained),
        sensitive_texts=hidden,
        reach=max(binder.reach, sharing_scope.of_names(map(find_naming, present.values()))),
    )


def trace(resources: Sequence[AnalyzedResource], binder: PartialEvaluator, ordered: Sequence[str]) -> ChunkedWork[None]:
    """Find the fields of every object that contain a sensitive value. ordered: the names in dependency order."""
    by_name = {analyzed.source.name: analyzed for analyzed in resources}
    for index, name in enumerate(ordered):
        if index % MARKS_IN_A_PIECE == 0:
            yield
        analyzed = by_name[name]
        for mark in analyzed.dissection.strings:
            expressions = find_expressions(analyzed.expressions.get(mark.keys, ()))
            if any(binder.is_sensitive(expression) for expression in expressions):
                binder.secrecy.note_field(name, mark.keys)
                if sensitivity.is_name(mark.keys):
                    refuse_place(mark, expressions, binder, why="names and kinds are not secret; use another parameter")
                if analyzed.is_stack and sensitivity.is_parameter(mark.keys):
                    refuse_place(mark, expressions, binder, why=IN_PLAIN_TEXT)
        if analyzed.kind == "Secret" and not analyzed.group:
            binder.secrecy.note_secret(name)


def refuse_names(analyzed: AnalyzedResource, binder: PartialEvaluator) -> bool:
    """Record mistakes in the metadata that is already known; return whether there are any."""
    metadata = analyzed.dissection.skeleton.get("metadata")
    if metadata is None:
        return False
    mistakes = list(object_metadata.find_mistakes(metadata, path=f"{analyzed.source.path}.manifest.metadata"))
    # A mistake that is already recorded is more specific. A value may be quoted only if it is not sensitive.
    known = {mistake.path for mistake in binder.mistakes} if mistakes else frozenset()
    for mistake in mistakes:
        if mistake.path not in known:
            binder.note(mistake.path, mistake.message)
    return bool(mistakes)


def find_expressions(pieces: Iterable[str | ValidExpression]) -> list[ValidExpression]:
    """Return the expressions among the pieces of a text."""
    return [piece for piece in pieces if isinstance(piece, ValidExpression)]


def refuse_place(
    mark: InterpolatedString, expressions: Iterable[ValidExpression], binder: PartialEvaluator, *, why: str
) -> None:
    """Record that a publicly visible path would show a sensitive value. why: the reason and the next step."""
    reads = [read for expression in expressions for read in expression.parsed.reading.reads]
    name = binder.secrecy.find_parameter(reads)
    what = f"the sensitive parameter '{name}'" if name else "something sensitive"
    binder.note(mark.path, f"uses {what}, and {why}")


def is_present(when: ConditionValue | None, binder: PartialEvaluator, path: str) -> bool:
    """Return whether `when` is true; an undecided one counts as true, to avoid follow-up mistakes."""
    return when is None or template_conditions.decide(when, binder, path=f"{path}.when") is not False


def bind(analyzed: AnalyzedResource, binder: PartialEvaluator) -> ChunkedWork[BoundResource | None]:
    """Bind the expressions of the resource; None if it contains a mistake."""
    if not isinstance(analyzed.source.manifest.get("metadata") or {}, dict):
        # Already recorded. If it is one expression, the rest would be valid.
        return None
    if analyzed.dissection.mistakes or any(
        mark.keys not in analyzed.expressions for mark in analyzed.dissection.strings
    ):
        return None
    document = yield from binder.bind_document(analyzed.dissection, analyzed.expressions)
    ready_when, failed_when = bind_tests(analyzed.ready_when, binder), bind_tests(analyzed.failed_when, binder)
    if document is None or refuse_names(analyzed, binder):
        return None
    return BoundResource(analyzed=analyzed, document=document, ready_when=ready_when, failed_when=failed_when)


def bind_tests(tests: Iterable[tuple[ValidExpression, str]], binder: PartialEvaluator) -> tuple[BooleanExpression, ...]:
    """Bind the tests that contain no mistake."""
    bound = (binder.bind_test(expression, path=path) for expression, path in tests)
    return tuple(test for test in bound if test is not None)


def bind_outputs(outputs: Sequence[AnalyzedOutput], binder: PartialEvaluator) -> ChunkedWork[dict[str, Evaluable]]:
    """Bind by name the outputs that are present; a sensitive one shows only that it is present."""
    found: dict[str, Evaluable] = {}
    for output in outputs:
        dissection = output.dissection
        is_sound = not dissection.mistakes and all(mark.keys in output.expressions for mark in dissection.strings)
        if is_sound and is_present(output.when, binder, output.path):
            document = yield from binder.bind_document(output.dissection, output.expressions)
            expressions = find_expressions(piece for pieces in output.expressions.values() for piece in pieces)
            if document is not None:
                check_output(document, output, binder)
                is_sensitive = any(binder.is_sensitive(expression) for expression in expressions)
                found[output.name] = sensitivity.RedactedOutput(document) if is_sensitive else document
    return found


def check_output(document: ManifestTemplate, output: AnalyzedOutput, binder: PartialEvaluator) -> None:
    """Record a mistake if the known part of an output is too large for a status."""
    if not document.is_constant:
        return
    try:
        value_sizes.check(len(document.raw), limits.OUTPUT_BYTES, what="is")
        # One more for the list around it.
        value_sizes.measure(orjson.loads(document.raw), depth=limits.OUTPUT_DEPTH + 1)
    except value_sizes.TooLarge as error:
        binder.note(f"{output.path}.value", str(error))


def find_required(bound: BoundResource, present: Mapping[str, BoundResource]) -> list[str]:
    """Find the present resources that it reads or depends on."""
    name = bound.analyzed.source.name
    found = {other for evaluable in bound.evaluables() for other in evaluable.reads}
    found.update(other for other, _ in bound.analyzed.source.depends_on)
    return sorted(other for other in found if other in present and other != name)


def make_resource(
    bound: BoundResource, index: int, *, requires: Sequence[str], dependents: Sequence[str]
) -> ResourceBlueprint:
    """Make the resource's blueprint."""
    analyzed = bound.analyzed
    metadata = analyzed.source.manifest.get("metadata") or {}
    return ResourceBlueprint(
        name=analyzed.source.name,
        index=index,
        path=analyzed.source.path,
        api_version=analyzed.api_version,
        kind=analyzed.kind,
        manifest=bound.document,
        is_constant=bound.document.is_constant,
        has_computed_metadata=bound.document.has_slot_in("metadata"),
        constant=bound.document.raw if bound.document.is_constant else None,
        is_name_pinned=metadata.get("name") is not None,
        requires=tuple(requires),
        dependents=tuple(sorted(dependents)),
        ready_when=bound.ready_when,
        failed_when=bound.failed_when,
        replacement=analyzed.source.replacement,
        replace_on=analyzed.source.replace_on,
        drift_policy=analyzed.source.drift_policy,
        ignore_fields=analyzed.source.ignore_fields,
        is_retained=analyzed.source.is_retained,
        is_stack=analyzed.is_stack,
        adopts=analyzed.source.adopts,
    )


def refuse_duplicates(
    present: Iterable[BoundResource], binder: PartialEvaluator, stack: StackIdentity
) -> ChunkedWork[None]:
    """Record every resource that names the same object as an earlier one."""
    owners: dict[ObjectRef, str] = {}
    for index, bound in enumerate(present):
        if index % MARKS_IN_A_PIECE == 0:
            yield
        ref = find_object(bound, stack)
        if ref is None:
            continue
        path, name = bound.analyzed.source.path, bound.analyzed.source.name
        owner = owners.setdefault(ref, name)
        if owner != name:
            place = f"{path}.manifest.metadata.name"
            binder.note(place, f"names {ref}, which the resource '{owner}' also names; rename one of them")


def find_naming(bound: BoundResource) -> sharing_scope.ObjectNaming:
    """Find how the resource's object gets its name."""
    stated = bound.analyzed.source.manifest.get("metadata") or {}
    is_placed = stated.get("namespace") is not None
    return sharing_scope.ObjectNaming(
        bound.analyzed.group, bound.analyzed.kind, stated.get("name") is not None, is_placed
    )


def find_object(bound: BoundResource, stack: StackIdentity) -> ObjectRef | None:
    """Find the first object of the resource, if its name is known beforehand."""
    analyzed = bound.analyzed
    # Constants were filled in when the document was made.
    metadata = analyzed.dissection.skeleton.get("metadata") or {}
    stated = analyzed.source.manifest.get("metadata") or {}
    is_cluster_wide = analyzed.served is not None and not analyzed.served.namespaced
    namespace = metadata.get("namespace") if stated.get("namespace") is not None else stack.namespace
    if is_cluster_wide:
        namespace = ""
    name = metadata.get("name")
    if stated.get("name") is None and isinstance(namespace, str):
        name = names.child_name(
            stack=stack.name,
            stack_namespace=stack.namespace,
            stack_uid=stack.uid,
            resource=analyzed.source.name,
            incarnation=1,
            namespace=namespace,
        )
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return ObjectRef(group=analyzed.group, kind=analyzed.kind, namespace=namespace, name=name)
