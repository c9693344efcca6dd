"""Compiles a definition to a blueprint, or reports all mistakes at once.

It calls the steps in order, and each step has its own module. The caller passes the kinds that the cluster serves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from hearth.graph import order
from hearth.model import chunked_work, errors, limits, members, value_class
from hearth.model.chunked_work import ChunkedWork
from hearth.model.errors import Mistake
from hearth.model.kinds import Kinds
from hearth.model.text import redaction
from hearth.template.blueprint import Blueprint, Definition, ResourceBlueprint, StackIdentity
from hearth.template.cel import evaluation, expressions, type_checker, value_sizes
from hearth.template.cel.evaluation import Evaluator, Unevaluated
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator
from hearth.template.compiler import blueprint_assembly, resource_analysis, sensitivity, template_conditions
from hearth.template.compiler.partial_evaluation import PartialEvaluator, ignore_size
from hearth.template.compiler.resource_analysis import (
    AnalyzedResource,
    AnalyzedValues,
    analyze_condition,
    analyze_output,
)
from hearth.template.compiler.sensitivity import SensitivityTracker
from hearth.template.compiler.template_constants import CONDITIONS, Constants
from hearth.template.parser import template_parser
from hearth.template.parser.template_parser import VALUES, TemplateSource
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
    """Whether all parameters are valid. If not, expressions are not evaluated, because that would only cause follow-up
    errors."""
    sensitivity: SensitivityTracker
    resources: list[AnalyzedResource]
    values: AnalyzedValues
    constants: Constants
    edges: dict[str, list[str]]
    validator: ExpressionValidator


def compile_template(
    definition: Definition, *, stack: StackIdentity, kinds: Kinds, evaluator: Evaluator = evaluation.ALONE
) -> Blueprint:
    """Compile `definition` to a blueprint. Raises InvalidDefinition with every error that was found."""
    return chunked_work.finish(compile_in_pieces(definition, stack=stack, kinds=kinds, evaluator=evaluator))


def compile_in_pieces(
    definition: Definition,
    *,
    stack: StackIdentity,
    kinds: Kinds,
    evaluator: Evaluator = evaluation.ALONE,
    previous: Blueprint | None = None,
    on_size: Callable[[int], None] = ignore_size,
) -> ChunkedWork[Blueprint]:
    """Compile in short pieces with pauses, so that other work does not wait for thousands of resources.

    previous: the blueprint to share unchanged resources with; on_size: called with the bytes of the manifests so far.
    """
    try:
        analysis = yield from analyze(definition, kinds=kinds)
        blueprint, partial_evaluator = yield from bind(
            definition, analysis, stack=stack, evaluator=evaluator, on_size=on_size
        )
    except RecursionError:
        message = "is nested too deeply; Kubernetes rejects such an object"
        raise errors.InvalidDefinition([Mistake(path=definition.template_path, message=message)]) from None
    waiting = yield from value_sizes.measure_in_pieces(partial_evaluator.kept.values())
    resources = blueprint.resources if previous is None else (yield from share(blueprint.resources, previous))
    return dataclasses.replace(blueprint, resources=resources, size=partial_evaluator.size + waiting)


def share(resources: Mapping[str, ResourceBlueprint], previous: Blueprint) -> ChunkedWork[dict[str, ResourceBlueprint]]:
    """Return the resources, with the `content` that they have in `previous` if they did not change.

    An unchanged manifest without expressions is in memory only once. Expressions keep the new values. Otherwise, the
    values of the previous definition would stay in memory for each member that has not changed since.
    """
    shared: dict[str, ResourceBlueprint] = {}
    for number, (name, new) in enumerate(resources.items()):
        # Expressions that wait for objects may contain large values.
        if number % chunked_work.MARKS_IN_A_PIECE == 0 or not new.is_constant:
            yield
        shared[name], known = new, previous.resources.get(name)
        if known is not None and known.move_to(new) == new:
            manifest = known.manifest if new.is_constant else new.manifest
            shared[name] = dataclasses.replace(new, manifest=manifest, constant=known.constant, content=known.content)
    return shared


def analyze(definition: Definition, *, kinds: Kinds) -> ChunkedWork[Analysis]:
    """Validate the template and the parameters, with errors in the validator. Raises InvalidDefinition for too many."""
    indices = definition.size.find_indices(surge=definition.surge) if definition.size is not None else None
    reader = template_parser.TemplateParser(definition.template_path, indices=indices)
    source = yield from reader.read(definition.template)
    refuse_many(reader.mistakes)
    hidden = SensitivityTracker(parameters=sensitivity.find_sensitive(definition))
    params, wrong_parameters = yield from resolve_parameters(definition, source, hidden, reader.effort)

    resources: list[AnalyzedResource] = []
    for resource in source.resources.values():
        resources.append(resource_analysis.identify(resource, kinds=kinds, params=params))
        yield
    yield
    constants = Constants(source.path, {CONDITIONS: source.conditions, VALUES: source.values})
    named = find_shapes(source, resources)
    lists = [resource.name for resource in source.resources.values() if resource.is_list]
    validator = ExpressionValidator(
        scope=type_checker.TypeScope(named, collections=lists),
        constants=constants.roots,
        mistakes=[*reader.mistakes, *wrong_parameters],
        effort=reader.effort,
        externals={
            resource.name: resource.external.is_in_all_namespaces
            for resource in source.resources.values()
            if resource.external is not None
        },
        secrets=frozenset(each.source.name for each in resources if (each.group, each.kind) == ("", "Secret")),
    )
    yield from constants.examine(validator)
    if source.values:
        validator.scope = type_checker.TypeScope({**named, **constants.find_shapes()}, collections=lists)
    values = yield from examine_all(source, resources, validator)
    edges = yield from find_edges(resources, validator)
    return Analysis(
        source=source,
        params=params,
        is_known=not wrong_parameters and not source.unsound_parameters,
        sensitivity=hidden,
        resources=resources,
        values=values,
        constants=constants,
        edges=edges,
        validator=validator,
    )


def bind(
    definition: Definition,
    analysis: Analysis,
    *,
    stack: StackIdentity,
    evaluator: Evaluator,
    on_size: Callable[[int], None],
) -> ChunkedWork[tuple[Blueprint, PartialEvaluator]]:
    """Bind all expressions; return the blueprint and the evaluator. Raises InvalidDefinition with all errors."""
    identity = {"name": stack.name, "namespace": stack.namespace, "uid": stack.uid}
    hidden, mistakes = analysis.sensitivity, analysis.validator.mistakes
    params = expressions.enlarge(analysis.params)
    constants: dict[str, Any] = {"params": params, CONDITIONS: {}, "stack": identity}
    if analysis.source.values:
        # Each expression receives only the values that it reads, because all together may be large.
        constants[VALUES] = value_sizes.Large()
    partial_evaluator = PartialEvaluator(
        constants=constants,
        given=definition.read,
        sensitivity=hidden,
        mistakes=mistakes,
        evaluator=evaluator,
        on_size=on_size,
    )
    blueprint = None
    if analysis.is_known and (yield from analysis.constants.evaluate(partial_evaluator)):
        blueprint = yield from blueprint_assembly.assemble(
            analysis.resources,
            analysis.values,
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
    """Raise InvalidDefinition if there are more errors than one message lists; finding all would take long."""
    if len(mistakes) > limits.MISTAKES:
        raise errors.InvalidDefinition(mistakes)


def hide_values(mistakes: list[Mistake], sensitivity: SensitivityTracker) -> list[Mistake]:
    """Redact sensitive values in the errors. Only the displayed errors are searched."""
    if not sensitivity.texts:
        return mistakes
    texts = frozenset(sensitivity.texts)
    shown = [
        Mistake(path=each.path, message=redaction.redact(each.message, texts)) for each in mistakes[: limits.MISTAKES]
    ]
    return shown + [Mistake(path=each.path, message=redaction.ELLIPSIS) for each in mistakes[limits.MISTAKES :]]


def resolve_parameters(
    definition: Definition, source: TemplateSource, sensitivity: SensitivityTracker, effort: Effort
) -> ChunkedWork[tuple[dict[str, Any], list[Mistake]]]:
    """Return the values of valid parameters and the errors in the given ones; add sensitive values to `sensitivity`."""
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
    return (
        yield from parameters.resolve(
            source.parameters,
            readable,
            path=definition.parameters_path,
            template_path=definition.template_path,
            origins=definition.origins,
            sensitive=sensitivity.parameters,
            effort=effort,
        )
    )


def find_shapes(source: TemplateSource, resources: list[AnalyzedResource]) -> dict[str, shapes.Shape]:
    """Find every name that an expression may use, with its shape, except `values`."""
    rules = {**source.parameters, **{name: {} for name in sorted(source.unsound_parameters)}}
    return {
        "params": parameters.find_shape(rules),
        CONDITIONS: template_conditions.find_shape(tuple(source.conditions)),
        "stack": _STACK_SHAPE,
        **{analyzed.source.name: analyzed.shape for analyzed in resources},
    }


def examine_all(
    source: TemplateSource, resources: list[AnalyzedResource], validator: ExpressionValidator
) -> ChunkedWork[AnalyzedValues]:
    """Validate every resource, output and condition for the status; return the outputs and conditions without errors."""
    allowed = AllowedNames(names=validator.scope.types, rule="cannot be used here")
    for analyzed in resources:
        yield from resource_analysis.examine(analyzed, validator, allowed)
        refuse_many(validator.mistakes)
        yield
    values = AnalyzedValues()
    for output in source.outputs.values():
        values.outputs.append((yield from analyze_output(output, validator, allowed)))
        yield
    refuse_many(validator.mistakes)
    for condition in source.status_conditions:
        values.conditions[condition.type] = yield from analyze_condition(condition, validator, allowed)
    refuse_many(validator.mistakes)
    return values


def find_edges(resources: list[AnalyzedResource], validator: ExpressionValidator) -> ChunkedWork[dict[str, list[str]]]:
    """Find the dependencies of each resource; record unknown names and cycles."""
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
