"""Binds the expressions of the present resources: of one object, or of each member of a collection.

It also finds the objects or lists that external references select.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hearth.model import label_selectors, limits, members, value_class
from hearth.model.child import Path
from hearth.model.chunked_work import ChunkedWork, finish
from hearth.model.errors import Mistake
from hearth.template.blueprint import Blueprint, Evaluable, ExternalBlueprint, Known, ResourceBlueprint
from hearth.template.cel import expressions
from hearth.template.cel.expression_validator import ValidExpression
from hearth.template.compiler import collection_analysis, resource_analysis
from hearth.template.compiler.manifest_template import ManifestTemplate, ParsedManifest
from hearth.template.compiler.partial_evaluation import BooleanExpression, PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedResource
from hearth.template.parser import object_metadata
from hearth.template.schema import literal_validator


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BoundResource:
    """A present resource, or one member of a collection, with its expressions bound."""

    name: str
    """`web`; for a member `workers[a]`."""
    analyzed: AnalyzedResource
    parsed: ParsedManifest
    """Its manifest as parsed, with constants filled in."""
    template: ManifestTemplate
    ready_when: tuple[BooleanExpression, ...]
    failed_when: tuple[BooleanExpression, ...]

    def evaluables(self) -> Iterator[Evaluable]:
        """Return everything that contains expressions."""
        yield self.template
        yield from self.ready_when
        yield from self.failed_when


def bind(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> ChunkedWork[list[BoundResource] | None]:
    """Bind the resource, or every member of a collection in the order of its source; None in case of an error."""
    metadata = analyzed.source.manifest.get("metadata") or {}
    # An error in the metadata is already recorded. If the metadata is a single expression, the rest would be valid.
    if not isinstance(metadata, dict) or not analyzed.is_sound:
        return None
    if analyzed.source.is_collection:
        return (yield from bind_members(analyzed, evaluator))
    found = yield from bind_one(analyzed, analyzed.parsed, evaluator, name=analyzed.source.name)
    return None if found is None else [found]


def bind_one(
    analyzed: AnalyzedResource, parsed: ParsedManifest, evaluator: PartialEvaluator, *, name: str
) -> ChunkedWork[BoundResource | None]:
    """Bind the expressions of one object; `parsed` is consumed. None in case of an error."""
    document = yield from evaluator.bind_document(parsed, analyzed.expressions)
    ready_when, failed_when = bind_tests(analyzed.ready_when, evaluator), bind_tests(analyzed.failed_when, evaluator)
    if document is None or refuse_names(parsed, evaluator) or refuse_repeated(analyzed, parsed, evaluator):
        return None
    return BoundResource(
        name=name,
        analyzed=analyzed,
        parsed=parsed,
        template=document,
        ready_when=ready_when,
        failed_when=failed_when,
    )


def bind_members(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> ChunkedWork[list[BoundResource] | None]:
    """Bind each member, until too many of them have errors."""
    elements = analyzed.elements
    if elements is None or analyzed.collection is None:
        return None
    bound: list[BoundResource] = []
    before, name = len(evaluator.mistakes), analyzed.source.name
    with evaluator.for_collection(name, sensitive_names=find_sensitive_names(analyzed, evaluator)):
        for element in elements:
            yield
            with evaluator.for_member(element.constants, name=f"member '{element.key}'"):
                named = members.name_member(name, element.key) if analyzed.source.indices is None else element.key
                found = yield from bind_one(analyzed, analyzed.parsed.copy(), evaluator, name=named)
            if found is not None:
                bound.append(found)
            elif len(evaluator.mistakes) - before >= limits.SHOWN_MEMBERS:
                break
    return bound if len(bound) == len(elements) else None


def find_sensitive_names(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> set[str]:
    """Return the names that are sensitive within the members: the element's name, if the list is sensitive."""
    found = analyzed.collection
    is_hidden = found is not None and collection_analysis.is_sensitive(found, evaluator)
    return {collection_analysis.ITEM} if is_hidden else set()


def expand(resources: Iterable[AnalyzedResource], evaluator: PartialEvaluator) -> ChunkedWork[bool]:
    """Find the elements of all collections; return whether they are few enough. Collections with errors have none."""
    counted = expression_count = 0
    for analyzed in resources:
        if analyzed.collection is None:
            counted += 1
            continue
        elements = analyzed.elements = yield from collection_analysis.expand(analyzed.collection, evaluator)
        if elements is None:
            continue
        if not elements and analyzed.source.name not in evaluator.max_removed:
            evaluator.constants[analyzed.source.name] = []
        counted += len(elements)
        in_one = analyzed.count_expressions()
        expression_count += in_one * len(elements)
        path, gives = f"{analyzed.source.path}.forEach", f"gives {len(elements)} elements"
        if counted > limits.RESOURCES:
            most = f"with the resources before it, the template has more than {limits.RESOURCES}"
            evaluator.note(path, f"{gives}; {most}; use several Stacks")
            return False
        if expression_count > limits.MEMBER_EXPRESSIONS:
            most = f"the members of a template may have at most {limits.MEMBER_EXPRESSIONS} expressions in all"
            evaluator.note(path, f"{gives} of {in_one} expressions each, but {most}; use several Stacks")
            return False
    return True


def find_required(
    bound: BoundResource, present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator
) -> list[str]:
    """Find the current resources that it reads or depends on: `web`, one member, or all members `workers[*]`."""
    own = bound.analyzed.source.name
    found: set[str] = set()
    for other in {name for evaluable in bound.evaluables() for name in evaluable.reads}:
        if other != own and may_have_objects(other, present, evaluator):
            found.add(members.name_all(other) if other in evaluator.collections else other)
    for other, _ in bound.analyzed.source.depends_on:
        root = members.root_of(other)
        if root != own and may_have_objects(root, present, evaluator):
            found.add(members.name_all(root) if other in evaluator.collections else other)
    return sorted(found)


def may_have_objects(name: str, present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator) -> bool:
    """Return whether a resource is present: also an empty collection whose former members may stay."""
    return bool(present.get(name)) or (name in present and name in evaluator.max_removed)


def find_externals(
    bound: BoundResource, externals: Collection[str], unresolved: Mapping[str, Collection[str]]
) -> tuple[str, ...]:
    """Find the external objects that it reads or depends on, sorted.

    unresolved: the external objects that define the members of a collection, by collection with unknown members.
    """
    if not externals:
        return ()
    found = {name for evaluable in bound.evaluables() for name in evaluable.reads}
    found |= {members.root_of(other) for other, _ in bound.analyzed.source.depends_on}
    found.update(name for each in found & unresolved.keys() for name in unresolved[each])
    return tuple(sorted(found.intersection(externals)))


def refuse_unknown_members(
    analyzed: AnalyzedResource, present: Mapping[str, Sequence[BoundResource]], evaluator: PartialEvaluator
) -> None:
    """Record each member that `dependsOn` names and that its collection, which is present, does not have."""
    for other, path in analyzed.source.depends_on:
        root = members.root_of(other)
        found = present.get(root) if other != root and root in evaluator.collections else None
        if found is None or members.is_all(other) or any(each.name == other for each in found):
            continue
        elements = found[0].analyzed.elements if found else None
        keys = collection_analysis.describe_keys(elements or ())
        evaluator.note(path, f"there is no member '{other}'; '{root}' has {keys}; use one of them")


def refuse_names(parsed: ParsedManifest, evaluator: PartialEvaluator) -> bool:
    """Record errors in the metadata that is already known; return whether there are any."""
    metadata = parsed.skeleton.get("metadata")
    if metadata is None:
        return False
    mistakes = list(object_metadata.find_mistakes(metadata, path=f"{parsed.path}.metadata"))
    if mistakes:
        # A sensitive value has already been rejected, so that no error here quotes it.
        evaluator.note_others(mistakes)
    return bool(mistakes)


def refuse_repeated(analyzed: AnalyzedResource, parsed: ParsedManifest, evaluator: PartialEvaluator) -> bool:
    """Record repeated elements of lists whose values are known; return whether there are any."""
    if not analyzed.may_repeat:
        return False
    # A value may be sensitive, so none is shown. A literal that repeats another one is already recorded.
    found = literal_validator.find_repeated(parsed.skeleton, analyzed.lists, shows_values=False)
    if found:
        evaluator.note_others(Mistake(path=parsed.path + below, message=message) for below, message in found)
    return bool(found)


def bind_tests(
    tests: Iterable[tuple[ValidExpression, str]], evaluator: PartialEvaluator
) -> tuple[BooleanExpression, ...]:
    """Bind the tests that contain no error."""
    bound = (evaluator.bind_test(expression, path=path) for expression, path in tests)
    return tuple(test for test in bound if test is not None)


def bind_externals(resources: Iterable[AnalyzedResource], evaluator: PartialEvaluator) -> dict[str, ExternalBlueprint]:
    """Return the external references without errors by name."""
    found: dict[str, ExternalBlueprint] = {}
    for analyzed in resources:
        if analyzed.source.external is not None and (bound := bind_external(analyzed, evaluator)) is not None:
            found[analyzed.source.name] = bound
    return found


def bind_external(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> ExternalBlueprint | None:
    """Return the paths that the resource reads; None after an error."""
    source, external = analyzed.source, analyzed.source.external
    metadata = source.manifest.get("metadata")
    if external is None or not analyzed.is_sound or not isinstance(metadata, dict):
        return None
    document = finish(evaluator.bind_document(analyzed.parsed, analyzed.expressions))
    ready_when = bind_tests(analyzed.ready_when, evaluator)
    outcome = document.evaluate({}) if document is not None else None
    if not isinstance(outcome, Known):
        return None
    stated: Mapping[str, Any] = outcome.value["metadata"]
    mistakes = list(find_reference_mistakes(stated, path=f"{resource_analysis.find_manifest_path(source)}.metadata"))
    evaluator.note_others(mistakes)
    if mistakes or (stated.get("name") is None) == (stated.get("selector") is None):
        return None
    return ExternalBlueprint(
        name=source.name,
        path=source.path,
        api_version=analyzed.api_version,
        kind=analyzed.kind,
        is_kind_known=analyzed.served is not None,
        object_name=stated.get("name") or "",
        namespace=stated.get("namespace"),
        selector=label_selectors.parse(stated["selector"]) if external.is_list else None,
        is_in_all_namespaces=external.is_in_all_namespaces,
        is_optional=external.is_optional,
        ready_when=ready_when,
    )


def find_reference_mistakes(metadata: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the errors in an evaluated reference. path: of its metadata."""
    yield from object_metadata.find_mistakes_in_names(metadata, path=path)
    if "selector" in metadata:
        yield from label_selectors.find_mistakes(metadata["selector"], path=f"{path}.selector")


def refuse_sensitive_reference(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> None:
    """Record each part of a reference that contains a sensitive value: the status and requests show it."""
    for mark in analyzed.parsed.strings:
        if found := list(filter(evaluator.is_sensitive, analyzed.find_within(mark))):
            evaluator.refuse_sensitive(mark.path, found, why="the object to read is not secret; use another parameter")


def note_dependents(
    externals: Mapping[str, ExternalBlueprint], resources: Mapping[str, ResourceBlueprint]
) -> dict[str, ExternalBlueprint]:
    """Return the external objects with the resources that depend on each."""
    if not externals:
        return {}
    dependents: dict[str, list[str]] = {name: [] for name in externals}
    for name, resource in resources.items():
        for read in resource.externals:
            dependents[read].append(name)
    return {name: dataclasses.replace(each, dependents=tuple(dependents[name])) for name, each in externals.items()}


def note_members(made: Blueprint, collections: Iterable[AnalyzedResource], evaluator: PartialEvaluator) -> Blueprint:
    """Return the blueprint with the external objects that `forEach` reads, and collections with unknown members."""
    reads: dict[str, set[Path]] = {}
    kinds: set[str] = set()
    for analyzed in collections:
        found = find_member_reads(analyzed, evaluator)
        kinds.update(f"{analyzed.api_version}/{analyzed.kind}" for _ in found)
        for name, paths in found.items():
            reads.setdefault(name, set()).update(paths)
    if not reads:
        return made
    externals = {
        name: dataclasses.replace(each, makes_members=True, is_awaited=name not in evaluator.read)
        if name in reads
        else each
        for name, each in made.externals.items()
    }
    merged = expressions.merge_reads([made.reads, {name: frozenset(paths) for name, paths in reads.items()}])
    return dataclasses.replace(
        made,
        externals=externals,
        reads=merged,
        unresolved=frozenset(evaluator.unresolved),
        member_kinds=frozenset(kinds),
    )


def find_member_reads(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> dict[str, frozenset[Path]]:
    """Return the paths that a collection reads of external objects in `forEach` and in its elements, by object name."""
    collection = analyzed.collection
    for_each = collection.for_each if collection is not None else None
    if collection is None or for_each is None:
        return {}
    found: dict[str, frozenset[Path]] = {}
    for name in evaluator.externals:
        if name not in for_each.parsed.roots:
            continue
        fields = evaluator.fields.get(name, expressions.USUAL_FIELDS)
        paths: frozenset[Path] = frozenset()
        if for_each.parsed.text != name:
            is_list = name in evaluator.collections
            paths = expressions.find_paths(for_each.parsed, name, fields, is_list=is_list)
        if collection.is_of_objects:
            for expression in analyzed.find_expressions():
                if collection_analysis.ITEM in expression.parsed.roots:
                    paths |= expressions.find_paths(expression.parsed, collection_analysis.ITEM, fields)
        found[name] = paths
    return found
