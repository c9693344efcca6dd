"""Compilation of a definition to a blueprint: all mistakes at once, or none.

Calls the steps in order; each step has its own module. Pure: the caller passes the kinds that the cluster serves. For
the compilation of what changed since the last blueprint see `hearth.template.compiler.changed_members`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Set
from dataclasses import field
from typing import Any

from hearth.graph import order
from hearth.model import chunked_work, errors, limits, members, value_class
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds
from hearth.model.text import redaction
from hearth.template.blueprint import Blueprint, CompiledFrom, Definition, Outline, StackIdentity
from hearth.template.cel import evaluation, expressions, type_checker, value_sizes
from hearth.template.cel.evaluation import Evaluator, Unevaluated
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.cel.value_sizes import Large
from hearth.template.compiler import blueprint_assembly, outlines, resource_analysis, sensitivity, template_conditions
from hearth.template.compiler.outlines import DefinitionPart
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedOutput, AnalyzedResource, analyze_output
from hearth.template.compiler.sensitivity import SensitivityTracker
from hearth.template.compiler.template_conditions import Conditions, ConditionValue
from hearth.template.parser import template_parser
from hearth.template.parser.template_parser import TemplateSource
from hearth.template.schema import parameters, shapes
from hearth.template.schema.json_schema import Effort
from hearth.template.text import error_hints

_STACK_SHAPE = shapes.make_closed({key: {"type": "string"} for key in ("name", "namespace", "uid")}, name="stack")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A validated template with the values of its parameters, before any expression of a resource is bound."""

    source: TemplateSource
    params: dict[str, Any] = field(repr=False)
    is_known: bool
    """Whether all parameters are valid. If not, expressions are not evaluated: their mistakes would only follow."""
    sensitivity: SensitivityTracker
    resources: list[AnalyzedResource]
    outputs: list[AnalyzedOutput]
    conditions: Conditions
    edges: dict[str, list[str]]
    validator: ExpressionValidator


def compile_template(
    definition: Definition, *, stack: StackIdentity, kinds: Kinds, evaluator: Evaluator = evaluation.ALONE
) -> Blueprint:
    """Compile `definition` to a blueprint. Raises InvalidDefinition with every mistake that was found."""
    return chunked_work.finish(compile_in_pieces(definition, stack=stack, kinds=kinds, evaluator=evaluator))


def compile_in_pieces(
    definition: Definition,
    *,
    stack: StackIdentity,
    kinds: Kinds,
    evaluator: Evaluator = evaluation.ALONE,
    outline: Outline | None = None,
) -> ChunkedWork[Blueprint]:
    """Compile in short pieces with pauses, so that other work does not wait for thousands of resources.

    outline: of the definition, if the blueprint records its inputs.
    """
    try:
        analysis = yield from analyze(definition, kinds=kinds)
        blueprint, partial_evaluator = yield from bind(definition, analysis, stack=stack, evaluator=evaluator)
    except RecursionError:
        message = "is nested too deeply; Kubernetes rejects such an object"
        raise errors.InvalidDefinition([Mistake(path=definition.template_path, message=message)]) from None
    waiting = yield from value_sizes.measure_in_pieces(partial_evaluator.kept.values())
    blueprint = dataclasses.replace(blueprint, size=partial_evaluator.size + waiting)
    if outline is None:
        return blueprint
    origin = CompiledFrom(
        outline=outline,
        resources=blueprint.resources,
        member_lists=find_member_lists(analysis),
        size=partial_evaluator.size,
        steps_left=analysis.validator.effort.budget.left,
        kinds=blueprint.find_kinds(),
    )
    return dataclasses.replace(blueprint, compiled_from=origin)


def analyze(definition: Definition, *, kinds: Kinds, part: DefinitionPart | None = None) -> ChunkedWork[Analysis]:
    """Validate the template and the parameters; the validator has the mistakes. Raises InvalidDefinition with too many.

    part: the members to compile, if not all.
    """
    indices = definition.size.find_indices(surge=definition.surge) if definition.size is not None else None
    reader = template_parser.TemplateParser(definition.template_path, indices=indices if part is None else part.indices)
    source = yield from reader.read(definition.template)
    refuse_many(reader.mistakes)
    hidden = SensitivityTracker(parameters=sensitivity.find_sensitive(definition))
    params, wrong_parameters = yield from resolve_parameters(definition, source, hidden, reader.effort, part=part)

    resources: list[AnalyzedResource] = []
    for resource in source.resources.values():
        resources.append(resource_analysis.identify(resource, kinds=kinds, params=params))
        yield
    yield
    validator = ExpressionValidator(
        scope=type_checker.TypeScope(
            find_shapes(source, resources),
            collections=[resource.name for resource in source.resources.values() if resource.is_list],
        ),
        mistakes=[*reader.mistakes, *wrong_parameters],
        effort=reader.effort,
        externals={
            resource.name: resource.external.is_in_all_namespaces
            for resource in source.resources.values()
            if resource.external is not None
        },
        secrets=frozenset(each.source.name for each in resources if (each.group, each.kind) == ("", "Secret")),
    )
    conditions = Conditions(f"{source.path}.conditions")
    yield from conditions.examine(source.conditions, validator)
    outputs = yield from examine_all(source, resources, validator)
    edges = yield from find_edges(resources, validator)
    return Analysis(
        source=source,
        params=params,
        is_known=not wrong_parameters and not source.unsound_parameters,
        sensitivity=hidden,
        resources=resources,
        outputs=outputs,
        conditions=conditions,
        edges=edges,
        validator=validator,
    )


def bind(
    definition: Definition,
    analysis: Analysis,
    *,
    stack: StackIdentity,
    evaluator: Evaluator,
    part: DefinitionPart | None = None,
) -> ChunkedWork[tuple[Blueprint, PartialEvaluator]]:
    """Bind all expressions; return the blueprint with what bound it. Raises InvalidDefinition with all mistakes.

    part: the members to compile, if not all.
    """
    truths: dict[str, bool] = {}
    identity = {"name": stack.name, "namespace": stack.namespace, "uid": stack.uid}
    # Parameters whose lists are shortened are large as a whole.
    params = expressions.enlarge(analysis.params) if part is None or not part.positions else Large(analysis.params)
    hidden, mistakes = analysis.sensitivity, analysis.validator.mistakes
    constants: dict[str, Any] = {"params": params, "conditions": truths, "stack": identity}
    partial_evaluator = PartialEvaluator(
        constants=constants,
        given=definition.read,
        sensitivity=hidden,
        mistakes=mistakes,
        evaluator=evaluator,
        part=part,
    )
    blueprint = None
    is_decided = analysis.is_known and (yield from analysis.conditions.decide(partial_evaluator, truths))
    if is_decided and len(truths) == len(analysis.source.conditions):
        blueprint = yield from blueprint_assembly.assemble(
            analysis.resources,
            analysis.outputs,
            evaluator=partial_evaluator,
            edges=analysis.edges,
            stack=stack,
            surge=definition.surge,
        )
    if partial_evaluator.is_waiting:
        raise Unevaluated
    if blueprint is None or partial_evaluator.mistakes:
        raise errors.InvalidDefinition(hide_values(list(dict.fromkeys(partial_evaluator.mistakes)), hidden))
    return blueprint, partial_evaluator


def refuse_many(mistakes: list[Mistake]) -> None:
    """Raise InvalidDefinition if there are more mistakes than one message lists; finding all would take long."""
    if len(mistakes) > limits.MISTAKES:
        raise errors.InvalidDefinition(mistakes)


def hide_values(mistakes: list[Mistake], sensitivity: SensitivityTracker) -> list[Mistake]:
    """Redact sensitive values in the mistakes; only those that are shown are searched."""
    if not sensitivity.texts:
        return mistakes
    texts = frozenset(sensitivity.texts)
    shown = [
        Mistake(path=each.path, message=redaction.redact(each.message, texts)) for each in mistakes[: limits.MISTAKES]
    ]
    return shown + [Mistake(path=each.path, message=redaction.ELLIPSIS) for each in mistakes[limits.MISTAKES :]]


def resolve_parameters(
    definition: Definition,
    source: TemplateSource,
    sensitivity: SensitivityTracker,
    effort: Effort,
    *,
    part: DefinitionPart | None = None,
) -> ChunkedWork[tuple[dict[str, Any], list[Mistake]]]:
    """Return the values of valid parameters and the mistakes in the given ones; add sensitive values to `sensitivity`.

    part: whose lists contain only some elements, so that only the rules of each element count.
    """
    # User input: it may differ from its declared type.
    given: Any = definition.parameters
    if given is None:
        given = {}
    if not isinstance(given, dict):
        message = f"must be a map by name, found {error_hints.describe(given)}"
        return {}, [Mistake(path=definition.parameters_path, message=message)]
    for name in sensitivity.parameters & given.keys():
        sensitivity.add(given[name])
    readable = {name: value for name, value in given.items() if name not in source.unsound_parameters}
    shortened = part.positions if part is not None else {}
    return (
        yield from parameters.resolve(
            {
                name: parameters.select_rules(rules, of_list=False) if name in shortened else rules
                for name, rules in source.parameters.items()
            },
            readable,
            path=definition.parameters_path,
            template_path=definition.template_path,
            origins=definition.origins,
            sensitive=sensitivity.parameters,
            effort=effort,
        )
    )


def find_shapes(source: TemplateSource, resources: list[AnalyzedResource]) -> dict[str, shapes.Shape]:
    """Find every name that an expression may use, with its shape."""
    rules = {**source.parameters, **{name: {} for name in sorted(source.unsound_parameters)}}
    return {
        "params": parameters.find_shape(rules),
        "conditions": template_conditions.find_shape(tuple(source.conditions)),
        "stack": _STACK_SHAPE,
        **{analyzed.source.name: analyzed.shape for analyzed in resources},
    }


def examine_all(
    source: TemplateSource, resources: list[AnalyzedResource], validator: ExpressionValidator
) -> ChunkedWork[list[AnalyzedOutput]]:
    """Validate every resource and output; return the outputs without mistakes."""
    allowed = AllowedNames(names=validator.scope.types, rule="cannot be used here")
    for analyzed in resources:
        yield from resource_analysis.examine(analyzed, validator, allowed)
        refuse_many(validator.mistakes)
        yield
    outputs: list[AnalyzedOutput] = []
    for output in source.outputs.values():
        outputs.append((yield from analyze_output(output, validator, allowed)))
        yield
    refuse_many(validator.mistakes)
    return outputs


def find_edges(resources: list[AnalyzedResource], validator: ExpressionValidator) -> ChunkedWork[dict[str, list[str]]]:
    """Find by resource those that it depends on; record unknown names and cycles."""
    by_name = {analyzed.source.name: analyzed for analyzed in resources}
    edges: dict[str, list[str]] = {}
    for index, (name, analyzed) in enumerate(by_name.items()):
        if index % chunked_work.MARKS_IN_A_PIECE == 0:
            yield
        depended = [members.root_of(other) for other, _ in analyzed.source.depends_on]
        edges[name] = sorted({*analyzed.find_used(), *depended} & by_name.keys())
        for other, path in analyzed.source.depends_on:
            root = members.root_of(other)
            if root not in by_name and len(validator.mistakes) <= limits.MISTAKES:
                hint = validator.effort.hint(root, by_name) or "; name a resource of this template, or remove it"
                validator.note(path, f"there is no resource '{error_hints.shorten(root)}'{hint}")
            elif other != root and not by_name[root].source.is_collection:
                message = f"'{root}' has no members, because it has no forEach; write {root}"
                validator.note(path, message)
    cycles = yield from order.find_cycles_in_pieces(edges, most=limits.MISTAKES)
    for cycle in cycles:
        message = f"requires itself: {order.describe(cycle)}; remove one of these references or dependsOn entries"
        validator.note(by_name[cycle[0]].source.path, message)
    return edges


def find_member_lists(analysis: Analysis) -> frozenset[str]:
    """Return the parameters that nothing but `forEach` reads, and that as a whole.

    A list whose members read another collection at a computed position is excluded: a changed element may select
    another member, and only a full compilation compares the position with the number of members.
    """
    collections = [each for each in analysis.resources if each.collection is not None]
    named = {find_own_list(each) for each in collections}
    externals = frozenset(analysis.validator.externals)
    roots = {each.source.name for each in collections}
    others = {find_own_list(each) or "" for each in collections if computes_positions(each, roots)}
    for each in collections:
        if find_own_list(each) is None and each.collection is not None and each.collection.for_each is not None:
            others.update(map(outlines.name_read, externals.intersection(each.collection.for_each.parsed.roots)))
    for expression in find_expressions(analysis):
        for read in expression.parsed.reads.reads:
            if read.root == "params":
                others.update(read.path[:1] or analysis.source.parameters)
    return frozenset(name for name in named if name is not None and name not in others)


def find_own_list(resource: AnalyzedResource) -> str | None:
    """Return the parameter that `forEach` of a collection names."""
    return outlines.find_list(resource.collection.for_each) if resource.collection is not None else None


def computes_positions(resource: AnalyzedResource, collections: Set[str]) -> bool:
    """Return whether an expression of the resource reads one of the collections at a position that it computes."""
    found = (*resource.list_within(), *(test for test, _ in resource.ready_when + resource.failed_when))
    return any(
        each.parsed.reads.is_dynamic and not (collections - {resource.source.name}).isdisjoint(each.parsed.roots)
        for each in found
    )


def find_expressions(analysis: Analysis) -> Iterator[ValidExpression]:
    """Return all expressions outside `forEach` that consist of one parameter."""
    for resource in analysis.resources:
        yield from resource.find_expressions()
        yield from find_tests((resource.when,))
        found = resource.collection
        if found is not None and found.for_each is not None and outlines.find_list(found.for_each) is None:
            yield found.for_each
    for output in analysis.outputs:
        yield from output.list_within()
        yield from find_tests((output.when,))
    yield from find_tests(analysis.conditions.decided.values())


def find_tests(tests: Iterable[ConditionValue | None]) -> Iterator[ValidExpression]:
    """Return the expressions of conditions and `when`."""
    return (test.expression for test in tests if test is not None and test.expression is not None)
