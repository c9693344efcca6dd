"""Orders objects after the workloads that serve them.

Custom resources follow their controller, all objects follow the webhooks that review them, and an aggregated
ClusterRole follows the roles that it collects. The order is derived from RBAC and webhook rules only, so an order that
would close a cycle is dropped. Deletion uses the reverse order, so that a controller can remove its finalizers before
it is deleted.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hearth.cli.importer import manifest_references
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_references import ManifestIndex
from hearth.model import object_fields
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""A label that each Namespace has."""
ANY: Final = "*"
CLUSTER_ROLE: Final = f"ClusterRole.{manifest_references.RBAC}"
CLUSTER_BINDING: Final = f"ClusterRoleBinding.{manifest_references.RBAC}"
ALL_RIGHTS: Final[Mapping[str, Any]] = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
"""The rule of the ClusterRole `cluster-admin`, which every cluster has."""
DEFAULT_ACCOUNT: Final = "default"
USER, GROUP = "system:serviceaccount:", "system:serviceaccounts"
"""The prefix of the user name of an account, and the group that contains all accounts or, with a suffix, those in a
namespace.
"""
PASSING: Final = frozenset({"Job.batch", "CronJob.batch"})
"""Kinds whose pods run to completion."""
MOST_SERVERS: Final = 16
"""Maximum number of workloads that could serve one kind. With more, the owner is unclear."""
NATIVE_GROUPS: Final = frozenset(
    {
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        *(
            f"{group}.k8s.io"
            for group in (
                *("admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization"),
                *("certificates", "coordination", "discovery", "events", "flowcontrol.apiserver", "internal.apiserver"),
                *("networking", "node", "rbac.authorization", "resource", "scheduling", "storage", "storagemigration"),
            )
        ),
    }
)
"""Groups that the API server and the controllers of every cluster serve."""
LENT: Final = frozenset({f"Ingress.{manifest_references.NETWORKING}"})
"""Kinds in these groups that only add-ons serve."""


def add(required: Sequence[set[int]], index: ManifestIndex) -> None:
    """Add the requirements of this module to each document's own, unless they would close a cycle."""
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
    """Yield pairs of positions: a document, and a document that should be ready before it."""
    workloads = ServingWorkloads(index)
    workloads.fill()
    strangers = find_strangers(workloads, index)
    interfaces = find_interfaces(required, index)
    for position, document in enumerate(index.documents):
        if is_served_by_workload(document):
            found = (*workloads.find(document), *find_converters(document, index))
            yield from ((position, each) for each in found if (document.group, each) not in strangers)
            yield from ((position, each) for each in interfaces.get(document.api_version, ()))
        if document.key == CLUSTER_ROLE:
            yield from ((position, each) for each in find_aggregated(document, index) if each != position)
    yield from find_watched(required, index)


def find_strangers(workloads: ServingWorkloads, index: ManifestIndex) -> set[tuple[str, int]]:
    """Return the groups that a workload cannot serve, because the workload starts only after an object of the group is
    processed.

    For example, a workload mounts the Secret of a Certificate.
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
    """Return the APIServices that workloads among the manifests serve, by `group/version`."""
    found: dict[str, list[int]] = defaultdict(list)
    for position in index.keys.get(manifest_references.API_SERVICE, ()):
        spec = object_fields.mapping(index.documents[position].manifest, "spec")
        if calls_workload(position, required, index):
            found[f"{object_fields.text(spec, 'group')}/{object_fields.text(spec, 'version')}"].append(position)
    return found


def calls_workload(position: int, required: Sequence[set[int]], index: ManifestIndex) -> bool:
    """Return whether a document requires a workload: a webhook or an APIService does if its Service selects one."""
    return any(
        manifest_references.find_pod_template(index.documents[each].manifest) is not None for each in required[position]
    )


def find_watched(required: Sequence[set[int]], index: ManifestIndex) -> Iterator[tuple[int, int]]:
    """Yield the objects that webhooks see, each with the configuration of the webhook."""
    for key in sorted(manifest_references.WEBHOOKS):
        for position in index.keys.get(key, ()):
            if calls_workload(position, required, index):
                webhooks = object_fields.entries(index.documents[position].manifest, "webhooks")
                for seen, document in enumerate(index.documents):
                    if seen != position and any(sees(each, document, index) for each in webhooks):
                        yield seen, position


def sees(webhook: Mapping[str, Any], document: ManifestDocument, index: ManifestIndex) -> bool:
    """Whether the API server calls a webhook for an object. Cases that cannot be decided here count as no."""
    if document.group == manifest_references.ADMISSION:
        return False
    if not any(covers(rule, document, index) for rule in object_fields.entries(webhook, "rules")):
        return False
    labels = object_fields.mapping(document.metadata, "labels")
    if not is_match(object_fields.mapping(webhook, "objectSelector"), labels):
        return False
    if document.kind != "Namespace" and index.is_cluster_wide(document):
        return True
    chosen = object_fields.mapping(webhook, "namespaceSelector")
    return not chosen or is_match(chosen, find_namespace_labels(document, index))


def covers(rule: Mapping[str, Any], document: ManifestDocument, index: ManifestIndex) -> bool:
    """Return whether the rule of a webhook covers the kind of a document."""
    served = describe_kind(document, index)
    group, _, version = document.api_version.rpartition("/")
    # `pods/exec` and `pods/*` match requests to subresources, not writes of the object itself.
    resources = {each.removesuffix("/*") if each == "*/*" else each for each in object_fields.texts(rule, "resources")}
    return (
        not {ANY, group}.isdisjoint(object_fields.texts(rule, "apiGroups"))
        and not {ANY, version}.isdisjoint(object_fields.texts(rule, "apiVersions"))
        and not {ANY, *served.plurals}.isdisjoint(resources)
        and not {ANY, "CREATE", "UPDATE"}.isdisjoint(object_fields.texts(rule, "operations"))
    )


def find_namespace_labels(document: ManifestDocument, index: ManifestIndex) -> dict[str, Any]:
    """Return the known labels of a document's namespace."""
    name = document.name if document.kind == "Namespace" else index.find_namespace(document)
    for position in index.keys.get("Namespace", ()):
        if index.documents[position].name == name:
            return {**object_fields.mapping(index.documents[position].metadata, "labels"), NAMESPACE_LABEL: name}
    return {NAMESPACE_LABEL: name}


# The workloads that serve a kind: the controllers that watch its objects and report on them, according to RBAC. An
# object with a finalizer can be deleted only while its controller runs and has its rights. If RBAC does not show which
# workload serves a kind, no requirement is added.


class Evidence(enum.IntEnum):
    """How strongly a permission suggests that its account serves a kind."""

    NONE = 0
    ANY_KIND = 1
    """It may watch all kinds."""
    NAMED = 2
    """It may watch or change this one, named by its group."""
    REPORTS = 3
    """It may write the status or the finalizers of this one, which users of a kind do not need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKind:
    """A kind as rules name it."""

    group: str
    plurals: frozenset[str]
    is_defined: bool
    """Whether its CustomResourceDefinition is among the manifests."""


@dataclass(slots=True)
class ServingWorkloads:
    """The workloads that may serve kinds, and their rights."""

    index: ManifestIndex
    rights: dict[int, list[tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)
    """The rules of each workload by its position, each with the namespace where it applies; "" for all."""
    _found: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    def fill(self) -> None:
        """Find the rights of all workloads."""
        granted = find_granted(self.index)
        for position, document in enumerate(self.index.documents):
            template = manifest_references.find_pod_template(document.manifest)
            if template is not None and document.key not in PASSING:
                account = find_account(document, template, self.index)
                named = [account, *((account[0], ""), ("", ""))]
                self.rights[position] = [rule for each in named for rule in granted.get(each, ())]

    def find(self, document: ManifestDocument) -> list[int]:
        """Return the positions of the workloads that serve the kind of a document; none if that is uncertain."""
        namespace = self.index.find_namespace(document)
        key = (document.group, document.kind, namespace)
        if key not in self._found:
            self._found[key] = self._choose(document, namespace) if is_served_by_workload(document) else []
        return self._found[key]

    def _choose(self, document: ManifestDocument, namespace: str) -> list[int]:
        served = describe_kind(document, self.index)
        weighed = {
            position: max((weigh(rule, served) for where, rule in rules if where in ("", namespace)), default=Evidence.NONE)
            for position, rules in self.rights.items()
        }  # fmt: skip
        best = max(weighed.values(), default=Evidence.NONE)
        # If no manifest defines the kind, the program that serves it may be missing from the manifests as well.
        is_certain = best == Evidence.REPORTS or (served.is_defined and best != Evidence.NONE)
        chosen = [position for position, evidence in weighed.items() if evidence == best] if is_certain else []
        return chosen if len(chosen) <= MOST_SERVERS else []


def is_served_by_workload(document: ManifestDocument) -> bool:
    """Return whether an installed controller serves the kind, instead of every cluster."""
    return document.group not in NATIVE_GROUPS or document.key in LENT


def describe_kind(document: ManifestDocument, index: ManifestIndex) -> ServedKind:
    """Return the kind of a document as RBAC rules name it. Without a definition, the plural is guessed."""
    definition = index.served.get((document.group, document.kind))
    if definition is not None:
        plural = object_fields.text(index.documents[definition].manifest, "spec", "names", "plural")
        return ServedKind(group=document.group, plurals=frozenset({plural}), is_defined=True)
    word = document.kind.lower()
    plurals = {word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies"}
    return ServedKind(group=document.group, plurals=frozenset(plurals), is_defined=False)


def weigh(rule: Mapping[str, Any], served: ServedKind) -> Evidence:
    """Return how strongly a permission suggests that its owner serves a kind."""
    groups, verbs = (frozenset(object_fields.texts(rule, word)) for word in ("apiGroups", "verbs"))
    resources = object_fields.texts(rule, "resources")
    parts = [tuple(each.partition("/")[::2]) for each in resources if each.partition("/")[0] in {"*", *served.plurals}]
    is_named = served.group in groups
    writes, watches = not verbs.isdisjoint({"*", "update", "patch"}), not verbs.isdisjoint({"*", "watch", "list"})
    if is_named and writes and any(plural != "*" and part in ("status", "finalizers") for plural, part in parts):
        return Evidence.REPORTS
    if not (writes or watches) or not any(not part for _, part in parts):
        return Evidence.NONE
    if is_named:
        return Evidence.NAMED
    return Evidence.ANY_KIND if "*" in groups else Evidence.NONE


Account = tuple[str, str]
"""Namespace and name.

An empty name means all accounts of the namespace; if both are empty, all accounts of the cluster.
"""


def find_account(document: ManifestDocument, template: Mapping[str, Any], index: ManifestIndex) -> Account:
    """Return the account of a workload's pods."""
    spec = object_fields.mapping(template, "spec")
    stated = object_fields.text(spec, "serviceAccountName") or object_fields.text(spec, "serviceAccount")
    return index.find_namespace(document), stated or DEFAULT_ACCOUNT


def find_granted(index: ManifestIndex) -> dict[Account, list[tuple[str, Mapping[str, Any]]]]:
    """Return the rules that bindings grant, by account, each with its namespace; "" for all."""
    granted: dict[Account, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for key in manifest_references.BINDINGS:
        for position in index.keys.get(key, ()):
            binding = index.documents[position]
            own = index.find_namespace(binding)
            rules = list(find_rules(binding, index))
            for account in find_accounts(binding, own):
                granted[account] += [("" if key == CLUSTER_BINDING else own, rule) for rule in rules]
    return granted


def find_accounts(document: ManifestDocument, namespace: str) -> Iterator[Account]:
    """Yield the accounts that are subjects of a binding. namespace: its own."""
    for subject in object_fields.entries(document.manifest, "subjects"):
        name = object_fields.text(subject, "name")
        kind = subject.get("kind")
        if kind == "ServiceAccount" and name:
            yield object_fields.text(subject, "namespace") or namespace, name
        elif kind == "User" and name.startswith(USER):
            where, _, account = name.removeprefix(USER).partition(":")
            yield where, account
        elif kind == "Group" and f"{name}:".startswith(f"{GROUP}:"):
            yield name.removeprefix(GROUP).removeprefix(":"), ""


def find_rules(document: ManifestDocument, index: ManifestIndex) -> Iterator[Mapping[str, Any]]:
    """Yield the rules of the role that a binding grants, with those that are aggregated in it."""
    kind, name = (object_fields.text(document.manifest, "roleRef", word) for word in ("kind", "name"))
    is_wide = kind == "ClusterRole"
    namespace = "" if is_wide else index.find_namespace(document)
    position = index.objects.get(ObjectRef(group=manifest_references.RBAC, kind=kind, namespace=namespace, name=name))
    if position is None:
        if is_wide and name == "cluster-admin":
            yield ALL_RIGHTS
        return
    for at in (position, *find_aggregated(index.documents[position], index)):
        yield from object_fields.entries(index.documents[at].manifest, "rules")


def find_aggregated(role: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Yield the positions of the ClusterRoles whose rules the control plane copies into this one."""
    chosen = object_fields.entries(role.manifest, "aggregationRule", "clusterRoleSelectors")
    for position in index.keys.get(CLUSTER_ROLE, ()) if chosen else ():
        labels = object_fields.mapping(index.documents[position].metadata, "labels")
        if any(is_match(each, labels) for each in chosen):
            yield position


def find_converters(document: ManifestDocument, index: ManifestIndex) -> Iterator[int]:
    """Yield the workloads that convert the objects of a document's kind between versions."""
    definition = index.served.get((document.group, document.kind))
    if definition is not None:
        path = ("spec", "conversion", "webhook", "clientConfig", "service")
        for mention in manifest_references.find_service(
            object_fields.mapping(index.documents[definition].manifest, *path)
        ):
            for reference in index.locate(mention, index.documents[definition]):
                yield from manifest_references.find_answering(reference, index)


def is_match(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether labels satisfy a selector; an empty one matches everything, one with an unknown operator nothing."""
    stated = object_fields.mapping(selector, "matchLabels")
    expressions = object_fields.entries(selector, "matchExpressions")
    return stated.items() <= labels.items() and all(is_satisfied(each, labels) for each in expressions)


def is_satisfied(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether labels satisfy one expression: `{key: tier, operator: In, values: [web]}`."""
    key, values = object_fields.text(expression, "key"), object_fields.texts(expression, "values")
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
