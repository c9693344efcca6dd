"""Which parameters the expressions of a template read, and which of them only name the elements of collections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from hearth.template.cel.expression_validator import ValidExpression
from hearth.template.compiler.analysis import Analysis
from hearth.template.compiler.changes import definition_part
from hearth.template.compiler.resource_analysis import AnalyzedResource
from hearth.template.compiler.template_conditions import ConditionValue

ROOT = "params"


def find_member_lists(analysis: Analysis) -> frozenset[str]:
    """Return the parameters that nothing but `forEach` reads, and that as a whole.

    A list whose members read another collection at a computed position is none: a changed element may give another one,
    which only the compilation from nothing compares with the number of members.
    """
    collections = [each for each in analysis.resources if each.collection is not None]
    named = {find_own_list(each) for each in collections}
    roots = {each.source.name for each in collections}
    others = {find_own_list(each) or "" for each in collections if computes_positions(each, roots)}
    for expression in find_expressions(analysis):
        for read in expression.parsed.reading.reads:
            if read.root == ROOT:
                others.update(read.path[:1] or analysis.source.parameters)
    return frozenset(name for name in named if name is not None and name not in others)


def find_own_list(resource: AnalyzedResource) -> str | None:
    """Return the parameter that `forEach` of a collection names."""
    return definition_part.find_list(resource.collection.for_each) if resource.collection is not None else None


def computes_positions(resource: AnalyzedResource, collections: Set[str]) -> bool:
    """Return whether an expression of the resource reads one of the collections at a position that it computes."""
    found = (
        *find_pieces(resource.expressions.values()),
        *(test for test, _ in resource.ready_when + resource.failed_when),
    )
    return any(
        each.parsed.reading.is_dynamic and not (collections - {resource.source.name}).isdisjoint(each.parsed.roots)
        for each in found
    )


def find_expressions(analysis: Analysis) -> Iterator[ValidExpression]:
    """Return all expressions besides those of `forEach` that are only a parameter."""
    for resource in analysis.resources:
        yield from find_pieces(resource.expressions.values())
        yield from (test for test, _ in (*resource.ready_when, *resource.failed_when))
        yield from find_tests((resource.when,))
        found = resource.collection
        if found is not None and found.key is not None:
            yield found.key
        if found is not None and found.for_each is not None and definition_part.find_list(found.for_each) is None:
            yield found.for_each
    for output in analysis.outputs:
        yield from find_pieces(output.expressions.values())
        yield from find_tests((output.when,))
    yield from find_tests(analysis.conditions.decided.values())


def find_pieces(many: Iterable[Iterable[str | ValidExpression]]) -> Iterator[ValidExpression]:
    """Return the expressions among the pieces of texts."""
    return (piece for pieces in many for piece in pieces if isinstance(piece, ValidExpression))


def find_tests(tests: Iterable[ConditionValue | None]) -> Iterator[ValidExpression]:
    """Return the expressions of conditions and `when`."""
    return (test.expression for test in tests if test is not None and test.expression is not None)
