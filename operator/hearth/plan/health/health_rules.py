"""Finds and runs the health rule for a kind, and lists the fields that the caches must store for it.

Rules never read the Stack or the time: the health depends only on the object and the schema of its kind.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Protocol

import yaml

from hearth.model import names, value_class
from hearth.model.child import Path
from hearth.model.kinds import Kind, Kinds
from hearth.plan.health import condition_rules, health_result, health_scripts, rule_cases, rule_parser, workload_rules
from hearth.plan.health.general import general_rule, status_fields
from hearth.plan.health.general.general_rule import GeneralRule
from hearth.plan.health.health_result import (
    HealthResult,
    HealthRule,
    HealthRuleEntry,
    HealthState,
)
from hearth.plan.health.health_scripts import HealthScript, ScriptRule
from hearth.plan.health.rule_cases import RuleCases
from hearth.plan.health.rule_parser import ByKind, RuleIndexBuilder, RuleTable
from hearth.plan.health.suspend_rules import SuspendRule
from hearth.template.blueprint import Blueprint
from hearth.template.cel import evaluation
from hearth.template.cel.evaluation import ScriptEvaluator, TurnTime

__all__ = ["HealthResult", "HealthRules", "HealthState", "RuleChange", "RuleTable", "assess"]

BUILT_IN = ("health_rules.yaml", "suspend_rules.yaml")
"""Names of files next to this module."""
VERDICTS_KEPT = 8
"""Number of results to cache, each with its fields: one reconcile assesses the same object several times. The unpacked
fields of one object may take a MiB."""

POSTPONED: Final = dataclasses.replace(
    health_result.progressing(health_scripts.EVALUATING, "its health is being evaluated"), is_pending=True
)
"""The result for an object that is assessed in the next turn of its Stack."""

EXISTING_KINDS: Final = (
    "ConfigMap", "ControllerRevision.apps", "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io", "CronJob.batch", "CSIDriver.storage.k8s.io",
    "CSINode.storage.k8s.io", "EndpointSlice.discovery.k8s.io", "Endpoints", "Ingress.networking.k8s.io",
    "IngressClass.networking.k8s.io", "Lease.coordination.k8s.io", "LimitRange",
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "MutatingWebhookConfiguration.admissionregistration.k8s.io", "NetworkPolicy.networking.k8s.io", "PodTemplate",
    "PriorityClass.scheduling.k8s.io", "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
    "RuntimeClass.node.k8s.io", "Secret", "ServiceAccount", "StorageClass.storage.k8s.io",
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io", "VolumeAttributesClass.storage.k8s.io",
)  # fmt: skip
"""Kinds whose objects are ready as soon as they exist, so that a watch of their metadata suffices. They include
Ingress, because only some controllers assign an address."""

TABLE: Final[Mapping[str, HealthRuleEntry]] = {
    **dict.fromkeys(EXISTING_KINDS, condition_rules.EXISTING),
    "APIService.apiregistration.k8s.io": condition_rules.REPORTING,
    "CustomResourceDefinition.apiextensions.k8s.io": condition_rules.DEFINITION,
    "DaemonSet.apps": workload_rules.DAEMON_SET,
    "Deployment.apps": workload_rules.DEPLOYMENT,
    "HorizontalPodAutoscaler.autoscaling": condition_rules.AUTOSCALER,
    "Job.batch": workload_rules.JOB,
    "Namespace": condition_rules.NAMESPACE,
    "PersistentVolume": condition_rules.VOLUME,
    "PersistentVolumeClaim": condition_rules.CLAIM,
    "Pod": workload_rules.POD,
    "PodDisruptionBudget.policy": condition_rules.BUDGET,
    "ReplicaSet.apps": workload_rules.REPLICA_SET,
    "ReplicationController": workload_rules.REPLICA_SET,
    "ResourceQuota": condition_rules.QUOTA,
    "Service": condition_rules.SERVICE,
    f"{names.STACK}.{names.GROUP}": condition_rules.STACK,
    f"{names.GROUP_KIND}.{names.GROUP}": condition_rules.STACK,
    "StatefulSet.apps": workload_rules.STATEFUL_SET,
}
"""Rows by `Kind.key`."""


class Schemas(Protocol):
    """Schemas of the kinds that the cluster serves, from memory."""

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Find the OpenAPI v3 schema of the kind's objects, or None if no schema was loaded. The same object while unchanged."""

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """Find the target of a `$ref` within a schema of `find_schema`."""


class HealthRules:
    """Rules in force: users' rules first, then rules in code, the shipped table, and the general rule."""

    def __init__(
        self,
        rules: RuleTable = rule_parser.EMPTY,
        *,
        schemas: Schemas | None = None,
        scripts: ScriptEvaluator = evaluation.ALONE,
    ) -> None:
        """schemas: the schemas of the kinds that the cluster serves, from memory; scripts: runs users' scripts."""
        self._users = rules
        self._scripts = scripts
        self.turn: TurnTime = scripts
        """The time that the current Stack may take for rules."""
        self._schemas = schemas
        self._found: dict[Kind, tuple[object, HealthRuleEntry]] = {}
        """The schema and the rule of each kind."""
        self._judged: OrderedDict[int, tuple[Mapping[str, Any], HealthResult]] = OrderedDict()
        """Cached results: the fields and the result, by `id` of the fields.

        The entry keeps the fields alive, so that their identity stays unique.
        """
        self._derived: weakref.WeakSet[HealthRules] = weakref.WeakSet()
        """Rules that were derived from these for other clusters."""

    def derive(self, schemas: Schemas) -> HealthRules:
        """Return the same rules for another cluster; they follow `replace`. schemas: of that cluster."""
        made = HealthRules(self._users, schemas=schemas, scripts=self._scripts)
        self._derived.add(made)
        return made

    def replace(self, rules: RuleTable) -> RuleChange:
        """Replace the rules of users."""
        before, self._users = self._users, rules
        self._found = {}
        self._judged.clear()
        for each in self._derived:
            each.replace(rules)
        return RuleChange(before=before, after=rules)

    def assess(self, fields: Mapping[str, Any], *, kind: Kind, resource: str = "") -> HealthResult:
        """Assess the object with these fields, which must not change. Accepts any shape and never raises.

        The result is pending if its Stack has no time left in this turn. resource: the resource of the object, if it has
        one.
        """
        entry = self.find_entry(kind)
        known = self._judged.get(id(fields))
        if known is not None:
            return known[1]
        began = self.turn.begin_work(resource)
        if began is None:
            self.turn.put_off()
            return POSTPONED
        verdict = health_result.with_message(entry.rule(fields))
        self.turn.end_work(began)
        if verdict.is_pending:
            return verdict
        self._judged[id(fields)] = fields, verdict
        if len(self._judged) > VERDICTS_KEPT:
            self._judged.popitem(last=False)
        return verdict

    def paths(self, kind: Kind) -> frozenset[Path]:
        """Return the fields that `assess` reads of objects of this kind, in addition to the metadata.

        Empty: metadata suffice.
        """
        return self.find_entry(kind).paths

    def suspension_paths(self, kind: Kind) -> frozenset[Path]:
        """Return the fields that suspending objects of this kind reads, in addition to the metadata."""
        rule = self.find_suspension(kind)
        return rule.paths if rule is not None else frozenset()

    def find_suspension(self, kind: Kind) -> SuspendRule | None:
        """Find the suspend rule of this kind. None: its objects are never suspended."""
        return self._users.find_suspension(kind) or built_in().find_suspension(kind)

    def find_entry(self, kind: Kind) -> HealthRuleEntry:
        """Find the health rule of a kind."""
        schema = self._schemas.find_schema(kind) if self._schemas is not None else None
        found = self._found.get(kind)
        # A new or changed schema is a different object.
        if found is None or found[0] is not schema:
            if found is not None:
                self._judged.clear()
            found = self._found[kind] = schema, self._make_entry(kind, schema)
        return found[1]

    def _make_entry(self, kind: Kind, schema: Mapping[str, Any] | None) -> HealthRuleEntry:
        own = self._users.find(kind)
        shipped = (TABLE.get(kind.key) or built_in().find(kind)) if own is None else None
        if shipped is not None and isinstance(shipped.rule, RuleCases):
            # Only built-in cases are forgiving. Cases of users apply literally.
            shipped = rule_cases.make_forgiving(shipped)
        entry = own or shipped
        if entry is not None and not is_partial(entry.rule):
            return entry
        shape = status_fields.UNKNOWN
        if schema is not None and self._schemas is not None:
            shape = status_fields.find_shape(schema, self._schemas.find_definition)
        elif shipped is not None:
            shape = status_fields.REPORTING_KIND
        general = general_rule.make_entry(f"{kind.group}/{kind.name}".removeprefix("/"), shape)
        if entry is None:
            return general
        if isinstance(entry.rule, HealthScript):
            rule = ScriptRule(entry.rule, scripts=self._scripts, rule=general.rule)
            return HealthRuleEntry(rule=rule, paths=entry.paths | general.paths)
        return rule_cases.complete(entry, general)


def is_partial(rule: HealthRule) -> bool:
    """Return whether the rule leaves some objects to the general rule."""
    return isinstance(rule, HealthScript) or (isinstance(rule, RuleCases) and not rule.is_complete)


@value_class.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleChange:
    """Change of the users' rules."""

    before: RuleTable
    after: RuleTable

    def touches(self, kind: Kind) -> bool:
        """Return whether the rules for objects of this kind differ."""
        before, after = self.before, self.after
        is_judged_so = before.find(kind) == after.find(kind)
        return not is_judged_so or before.find_suspension(kind) != after.find_suspension(kind)


@functools.cache
def built_in() -> BuiltinRules:
    """Return the rules that Hearth ships."""
    return BuiltinRules(read_built_in())


def read_built_in() -> dict[str, str]:
    """Return the texts of the shipped rules by file name."""
    return {name: pathlib.Path(__file__).with_name(name).read_text() for name in BUILT_IN}


DEFAULT_RULES: Final = HealthRules()
"""The rules in force without rules of users."""


@value_class.dataclass(frozen=True, slots=True)
class SingleSchema:
    """The schema of the only kind of interest."""

    schema: Mapping[str, Any] | None

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:  # noqa: ARG002 -- a port that knows one kind
        """Return the schema."""
        return self.schema

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:  # noqa: ARG002 -- it refers to nothing
        """Return None."""
        return None


def assess(fields: Mapping[str, Any], *, kind: Kind, schema: Mapping[str, Any] | None = None) -> HealthResult:
    """Assess the object with these fields by the default rules. schema: of the whole object, without `$ref`."""
    rules = DEFAULT_RULES if schema is None else HealthRules(schemas=SingleSchema(schema))
    return rules.assess(fields, kind=kind)


def is_general(kind: Kind) -> bool:
    """Return whether the general rule assesses all objects of this kind, so that its schema counts."""
    return isinstance(DEFAULT_RULES.find_entry(kind).rule, GeneralRule)


# Built-in rules. Each rule is parsed when its kind is first requested. There are rules for a hundred kinds, and a
# cluster uses a few of them. Parsing all rules would delay the first Stack by a tenth of a second.


@value_class.dataclass(frozen=True, slots=True)
class UnparsedRule:
    """Rule as text."""

    document: str
    text: str


class BuiltinRules:
    """Index of rule texts without errors. Gives the same rules as `hearth.plan.health.rule_parser.read`."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        """documents: texts by name."""
        rules = [rule for name, content in documents.items() for rule in split(name, content)]
        self._health = index(rules, "cases")
        self._suspension = index(rules, "suspend")

    def find(self, kind: Kind) -> HealthRuleEntry | None:
        """Find the health rule of a kind."""
        rule = self._health.find(kind)
        return read(rule).find(kind) if rule is not None else None

    def find_suspension(self, kind: Kind) -> SuspendRule | None:
        """Find the suspend rule of a kind."""
        rule = self._suspension.find(kind)
        return read(rule).find_suspension(kind) if rule is not None else None


def split(name: str, content: str) -> list[tuple[yaml.MappingNode, UnparsedRule]]:
    """Split a document into rules, each as YAML node and as text."""
    # This loader does not resolve the types of scalars, which takes most of the time.
    root = yaml.compose(content, Loader=yaml.CBaseLoader)
    return [
        (node, UnparsedRule(name, f"- {content[node.start_mark.index : node.end_mark.index]}"))
        for node in (root.value if root is not None else ())
    ]


def index(rules: list[tuple[yaml.MappingNode, UnparsedRule]], word: str) -> ByKind[UnparsedRule]:
    """Index the rules that contain this key by kind."""
    builder = RuleIndexBuilder[UnparsedRule]()
    for node, rule in rules:
        words = {key.value: value for key, value in node.value}
        for kind in words["kinds"].value if word in words else ():
            builder.put(kind.value, rule, place=rule.document)
    return builder.close()


@functools.cache
def read(rule: UnparsedRule) -> RuleTable:
    """Parse one rule."""
    table, mistakes = rule_parser.read({rule.document: rule.text})
    assert not mistakes, mistakes  # noqa: S101 -- an error in a shipped rule, which the tests find
    return table


# The fields of each kind's objects that the caches must store to plan a blueprint.

OBSERVED_GENERATION: Path = ("status", "observedGeneration")
"""Shows whether a status that `readyWhen` reads describes the current generation of the object."""
CONDITIONS: Path = ("status", "conditions")
"""Of nested Stacks: the status of the parent also reports what blocks their deletion, even when no blueprint contains
them."""
PROTECTED: Path = ("spec", "protected")
"""Of nested Stacks: whether they may be deleted matters when no blueprint contains them."""
REPLICAS: Path = ("spec", "replicas")
"""The successor of an object starts with the same number, see `hearth.plan.resource.replica_counts`."""
SOURCES: Path = ("status", "sources")
"""Of instances: a status counts only if it describes the latest sources, see `hearth.plan.resource.readiness`."""
DEFINITION_REVISION: Path = ("status", "observedDefinitionRevision")
"""Shows that an object is an instance of a StackDefinition."""
CLAIM = ("", "PersistentVolumeClaim")
DATA_SOURCE: Path = ("spec", "dataSource")
"""A claim keeps the content that it was created with, see `hearth.plan.target.volume_restore`."""


def find_watched_fields(blueprint: Blueprint, kinds: Kinds, rules: HealthRules) -> dict[Kind, frozenset[Path]]:
    """Return the fields that rules and expressions read, by kind that the cluster serves."""
    wanted: dict[Kind, frozenset[Path]] = {}
    for resource in blueprint.resources.values():
        kind = kinds.find(resource.api_version, resource.kind)
        if kind is None:
            continue
        reads = blueprint.reads.get(resource.own_name, frozenset()) | rules.paths(kind) | rules.suspension_paths(kind)
        if resource.ready_when:
            reads |= {OBSERVED_GENERATION}
        reads |= set(resource.replace_on)
        if (kind.group, kind.name) == CLAIM:
            reads |= {DATA_SOURCE}
        if "." in kind.group:
            # A custom kind may have a scale subresource, or be the kind of a StackDefinition.
            reads |= {REPLICAS, SOURCES, DEFINITION_REVISION}
        wanted[kind] = wanted.get(kind, frozenset()) | reads
    for name, collection in blueprint.collections.items():
        # Objects of former members may stay, and expressions read them like objects of members.
        if collection.max_removed is not None and (kind := kinds.find(*collection.member_kind)) is not None:
            wanted[kind] = wanted.get(kind, frozenset()) | blueprint.reads.get(name, frozenset()) | rules.paths(kind)
    return wanted


def find_lasting_fields(kind: Kind, rules: HealthRules) -> frozenset[Path]:
    """Return the fields of a kind that are read even of objects that no blueprint contains."""
    is_stack = names.is_stack(kind.group, kind.name)
    return rules.suspension_paths(kind) | ({CONDITIONS, PROTECTED} if is_stack else frozenset())
