"""The workloads of an import that serve a kind: which controllers watch and report its objects, by their rights.

An object with a finalizer can be deleted only while its controller runs and has rights, so it must go first, and come
last. Where rights do not tell who serves a kind, no workload is named. Must not know which manifests must be ready before which.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hearth.cli import object_fields
from hearth.cli.importer import cluster_scoped_kinds, kind_references, manifest_index, pod_references
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_index import ManifestIndex
from hearth.model.kinds import ObjectRef

CLUSTER_ROLE: Final = f"ClusterRole.{kind_references.RBAC}"
CLUSTER_BINDING: Final = f"ClusterRoleBinding.{kind_references.RBAC}"
ALL_RIGHTS: Final[Mapping[str, Any]] = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
"""The rule of the ClusterRole `cluster-admin`, which every cluster has."""
DEFAULT_ACCOUNT: Final = "default"
USER, GROUP = "system:serviceaccount:", "system:serviceaccounts"
"""How subjects name an account, and the accounts of a namespace or of all, as a user and a group."""
PASSING: Final = frozenset({"Job.batch", "CronJob.batch"})
"""Kinds whose pods end."""
MOST_SERVERS: Final = 16
"""Workloads that could serve one kind. More of them tell nothing."""
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
LENT: Final = frozenset({f"Ingress.{kind_references.NETWORKING}"})
"""Kinds of those groups that no cluster serves by itself."""


class Evidence(enum.IntEnum):
    """How surely an account with some right serves a kind."""

    NONE = 0
    ANY_KIND = 1
    """It may watch all kinds."""
    NAMED = 2
    """It may watch or change this one, named by its group."""
    REPORTS = 3
    """It may write the status or the finalizers of this one, which users of a kind need not."""


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
    """By position of a workload its rules, each with the namespace that it is for; "" for all."""
    _found: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)

    def fill(self) -> None:
        """Find the rights of all workloads."""
        granted = find_granted(self.index)
        for position, document in enumerate(self.index.documents):
            key = cluster_scoped_kinds.key_of(document.group, document.kind)
            template = pod_references.find_template(document.manifest)
            if template is not None and key not in PASSING:
                account = find_account(document, template, self.index)
                named = [account, *((account[0], ""), ("", ""))]
                self.rights[position] = [rule for each in named for rule in granted.get(each, ())]

    def find(self, document: ManifestDocument) -> list[int]:
        """Return the positions of the workloads that serve the kind of a document; none if that is uncertain."""
        namespace = document.namespace or self.index.default_namespace
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
        # Whose kind is not defined here may be served by someone who is not here either.
        is_certain = best == Evidence.REPORTS or (served.is_defined and best != Evidence.NONE)
        chosen = [position for position, evidence in weighed.items() if evidence == best] if is_certain else []
        return chosen if len(chosen) <= MOST_SERVERS else []


def is_served_by_workload(document: ManifestDocument) -> bool:
    """Return whether a controller that someone installs serves the kind, and not every cluster."""
    key = cluster_scoped_kinds.key_of(document.group, document.kind)
    return document.group not in NATIVE_GROUPS or key in LENT


def describe_kind(document: ManifestDocument, index: ManifestIndex) -> ServedKind:
    """Return the kind of a document as rules name it; without its definition by the usual forms of the plural."""
    definition = index.served.get((document.group, document.kind))
    if definition is not None:
        plural = object_fields.text(index.documents[definition].manifest, "spec", "names", "plural")
        return ServedKind(group=document.group, plurals=frozenset({plural}), is_defined=True)
    word = document.kind.lower()
    plurals = {word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies"}
    return ServedKind(group=document.group, plurals=frozenset(plurals), is_defined=False)


def weigh(rule: Mapping[str, Any], served: ServedKind) -> Evidence:
    """Return what a right says about whether its owner serves a kind."""
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
"""Namespace and name; without a name all accounts of a namespace, without both all of the cluster."""


def find_account(document: ManifestDocument, template: Mapping[str, Any], index: ManifestIndex) -> Account:
    """Return the account of a workload's pods."""
    spec = object_fields.mapping(template, "spec")
    stated = object_fields.text(spec, "serviceAccountName") or object_fields.text(spec, "serviceAccount")
    return document.namespace or index.default_namespace, stated or DEFAULT_ACCOUNT


def find_granted(index: ManifestIndex) -> dict[Account, list[tuple[str, Mapping[str, Any]]]]:
    """Return the rules that bindings grant, by account, each with its namespace; "" for all."""
    granted: dict[Account, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for key in kind_references.BINDINGS:
        for position in index.keys.get(key, ()):
            binding = index.documents[position]
            own = binding.namespace or index.default_namespace
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
    namespace = "" if is_wide else document.namespace or index.default_namespace
    position = index.objects.get(ObjectRef(group=kind_references.RBAC, kind=kind, namespace=namespace, name=name))
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
        for mention in kind_references.find_service(object_fields.mapping(index.documents[definition].manifest, *path)):
            for reference in index.locate(mention, index.documents[definition]):
                yield from manifest_index.find_answering(reference, index)


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
