"""Binding of what a Stack only reads: which object or list of objects, and when that counts as ready.

Collects mistakes in its PartialEvaluator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth.model import label_selectors
from hearth.model.child import Path
from hearth.model.chunked_work import finish
from hearth.model.errors import Mistake
from hearth.template.blueprint import Blueprint, ExternalBlueprint, Known, ResourceBlueprint
from hearth.template.cel import expressions
from hearth.template.compiler import collection_analysis, resource_analysis, resource_binding
from hearth.template.compiler.partial_evaluation import PartialEvaluator
from hearth.template.compiler.resource_analysis import AnalyzedResource
from hearth.template.parser import object_metadata


def bind_all(resources: Iterable[AnalyzedResource], evaluator: PartialEvaluator) -> dict[str, ExternalBlueprint]:
    """Return by name what is only read and has no mistakes."""
    found: dict[str, ExternalBlueprint] = {}
    for analyzed in resources:
        if analyzed.source.external is not None and (bound := bind(analyzed, evaluator)) is not None:
            found[analyzed.source.name] = bound
    return found


def bind(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> ExternalBlueprint | None:
    """Return what the resource reads; None in case of a mistake."""
    source, external = analyzed.source, analyzed.source.external
    metadata = source.manifest.get("metadata")
    if external is None or not analyzed.is_sound or not isinstance(metadata, dict):
        return None
    document = finish(evaluator.bind_document(analyzed.parsed, analyzed.expressions))
    ready_when = resource_binding.bind_tests(analyzed.ready_when, evaluator)
    outcome = document.evaluate({}) if document is not None else None
    if not isinstance(outcome, Known):
        return None
    stated: Mapping[str, Any] = outcome.value["metadata"]
    mistakes = list(find_mistakes(stated, path=f"{resource_analysis.find_manifest_path(source)}.metadata"))
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


def find_mistakes(metadata: Mapping[str, Any], *, path: str) -> Iterator[Mistake]:
    """Find the mistakes in an evaluated reference. path: of its metadata."""
    yield from object_metadata.find_mistakes_in_names(metadata, path=path)
    if "selector" in metadata:
        yield from label_selectors.find_mistakes(metadata["selector"], path=f"{path}.selector")


def refuse_sensitive(analyzed: AnalyzedResource, evaluator: PartialEvaluator) -> None:
    """Record each part of a reference that contains a sensitive value: the status and requests show it."""
    for mark in analyzed.parsed.strings:
        if found := list(filter(evaluator.is_sensitive, analyzed.find_within(mark))):
            evaluator.refuse_sensitive(mark.path, found, why="what is read is not secret; use another parameter")


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
    """Return the blueprint with what `forEach` reads of external objects, and which collections are not known."""
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
    """Return by name what a collection reads of external objects, by its `forEach` and by the elements."""
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
