"""What should come after the program that serves it: custom resources after their controller, any object after the
webhook that sees it, aggregated rights before the role that collects them.

It is known by rights and rules alone, so it yields to each reference between manifests: an order that would close a cycle
is left out. On deletion the order is reversed, which lets a controller remove its finalizers before it goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds, kind_references, pod_references, served_kinds
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_index import ManifestIndex
from hearth.cli.importer.served_kinds import ServingWorkloads
from hearth.model.text import redaction

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""A label that each Namespace has."""
ANY: Final = "*"


def add(required: Sequence[set[int]], index: ManifestIndex) -> None:
    """Add to the requirements of each document those of this module, unless they would close a cycle."""
    dependents: dict[int, list[int]] = defaultdict(list)
    for dependent, target in find_order(required, index):
        dependents[target].append(dependent)
    for target, found in sorted(dependents.items()):
        before = find_all_required(target, required)
        for dependent in found:
            if dependent not in before:
                required[dependent].add(target)
    for at, direct in enumerate(required):
        implied = {inner for each in direct & dependents.keys() for inner in required[each] if at in dependents[inner]}
        direct.difference_update(implied)


def find_all_required(position: int, required: Sequence[set[int]]) -> set[int]:
    """Return the positions that a document requires, directly or not, and its own."""
    found, pending = {position}, [position]
    while pending:
        new = required[pending.pop()] - found
        found |= new
        pending += new
    return found


def find_order(required: Sequence[set[int]], index: ManifestIndex) -> Iterator[tuple[int, int]]:
    """Yield pairs of positions: a document, and what should be ready before it."""
    workloads = ServingWorkloads(index)
    workloads.fill()
    strangers = find_strangers(workloads, index)
    interfaces = find_interfaces(required, index)
    for position, document in enumerate(index.documents):
        if served_kinds.is_served_by_workload(document):
            found = (*workloads.find(document), *served_kinds.find_converters(document, index))
            yield from ((position, each) for each in found if (document.group, each) not in strangers)
            version = document.api_version
            yield from ((position, each) for each in interfaces.get(version, ()))
        if cluster_scoped_kinds.key_of(document.group, document.kind) == served_kinds.CLUSTER_ROLE:
            yield from ((position, each) for each in served_kinds.find_aggregated(document, index) if each != position)
    yield from find_watched(required, index)


def find_strangers(workloads: ServingWorkloads, index: ManifestIndex) -> set[tuple[str, int]]:
    """Return groups and workloads that cannot serve them: they start only when an object of that group has had an effect.

    Such a one is the Certificate whose Secret they mount.
    """
    missing = {position: set(find_missing(position, index)) for position in workloads.rights}
    found: set[tuple[str, int]] = set()
    for document in index.documents:
        for position in workloads.find(document):
            if missing[position] and not missing[position].isdisjoint(redaction.find_texts(document.manifest)):
                found.add((document.group, position))
    return found


def find_missing(position: int, index: ManifestIndex) -> Iterator[str]:
    """Yield the names of the Secrets and ConfigMaps that a workload needs and that are not among the manifests."""
    for reference in index.locate_mentions(index.documents[position]):
        if reference.kind in ("Secret", "ConfigMap") and reference not in index.objects:
            yield reference.name


def find_interfaces(required: Sequence[set[int]], index: ManifestIndex) -> dict[str, list[int]]:
    """Return the APIServices that workloads among the manifests answer, by `group/version`."""
    found: dict[str, list[int]] = defaultdict(list)
    for position in index.keys.get(kind_references.API_SERVICE, ()):
        spec = object_fields.mapping(index.documents[position].manifest, "spec")
        if calls_workload(position, required, index):
            found[f"{object_fields.text(spec, 'group')}/{object_fields.text(spec, 'version')}"].append(position)
    return found


def calls_workload(position: int, required: Sequence[set[int]], index: ManifestIndex) -> bool:
    """Return whether a document requires a workload: a webhook or an APIService does if its Service selects one."""
    return any(pod_references.find_template(index.documents[each].manifest) is not None for each in required[position])


def find_watched(required: Sequence[set[int]], index: ManifestIndex) -> Iterator[tuple[int, int]]:
    """Yield the objects that webhooks see, each with the configuration of the webhook."""
    for key in sorted(kind_references.WEBHOOKS):
        for position in index.keys.get(key, ()):
            if calls_workload(position, required, index):
                webhooks = object_fields.entries(index.documents[position].manifest, "webhooks")
                for seen, document in enumerate(index.documents):
                    if seen != position and any(sees(each, document, index) for each in webhooks):
                        yield seen, position


def sees(webhook: Mapping[str, Any], document: ManifestDocument, index: ManifestIndex) -> bool:
    """Return whether the API server calls a webhook for an object. What it cannot tell here counts as no."""
    if document.group == kind_references.ADMISSION:
        return False
    if not any(covers(rule, document, index) for rule in object_fields.entries(webhook, "rules")):
        return False
    labels = object_fields.mapping(document.metadata, "labels")
    if not served_kinds.is_match(object_fields.mapping(webhook, "objectSelector"), labels):
        return False
    if document.kind != "Namespace" and index.is_cluster_wide(document):
        return True
    chosen = object_fields.mapping(webhook, "namespaceSelector")
    return not chosen or served_kinds.is_match(chosen, find_namespace_labels(document, index))


def covers(rule: Mapping[str, Any], document: ManifestDocument, index: ManifestIndex) -> bool:
    """Return whether the rule of a webhook covers the kind of a document."""
    served = served_kinds.describe_kind(document, index)
    group, _, version = document.api_version.rpartition("/")
    # `pods/exec` and `pods/*` are requests about an object, not those that write it.
    resources = {each.removesuffix("/*") if each == "*/*" else each for each in object_fields.texts(rule, "resources")}
    return (
        not {ANY, group}.isdisjoint(object_fields.texts(rule, "apiGroups"))
        and not {ANY, version}.isdisjoint(object_fields.texts(rule, "apiVersions"))
        and not {ANY, *served.plurals}.isdisjoint(resources)
        and not {ANY, "CREATE", "UPDATE"}.isdisjoint(object_fields.texts(rule, "operations"))
    )


def find_namespace_labels(document: ManifestDocument, index: ManifestIndex) -> dict[str, Any]:
    """Return the labels of a document's namespace, as far as they are known."""
    name = document.name if document.kind == "Namespace" else document.namespace or index.default_namespace
    for position in index.keys.get("Namespace", ()):
        if index.documents[position].name == name:
            return {**object_fields.mapping(index.documents[position].metadata, "labels"), NAMESPACE_LABEL: name}
    return {NAMESPACE_LABEL: name}
