"""Desired objects of the resources of one blueprint, evaluated again only when their inputs change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

from hearth.model import applied_manifest, limits, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.plan.environment.inherited_rules import InheritedRules
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import blocked_status
from hearth.plan.resource.blocked_status import Unevaluated
from hearth.plan.state import requirements, run_policy
from hearth.plan.state.desired import ChildOwner, DesiredObject, DesiredResource, hash_desired, make_desired
from hearth.plan.state.requirements import ExternalStatus, Required, Value
from hearth.plan.target import volume_restore
from hearth.template.blueprint import (
    Blueprint,
    DriftPolicy,
    EvaluationError,
    Known,
    ResourceBlueprint,
    StackIdentity,
    Values,
)
from hearth.template.cel import expressions
from hearth.template.parser import object_metadata
from hearth.template.text import error_hints


class DesiredObjects:
    """The desired objects of one Stack."""

    def __init__(self, blueprint: Blueprint, *, stack: StackIdentity, hashes: HashFunction) -> None:
        """Evaluate nothing before it is requested."""
        self._blueprint = blueprint
        self._stack = stack
        self._hashes = hashes
        self._known: dict[str, DesiredResource] = {}
        self._seen: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {}
        """By resource, the fields of its child and their form for expressions."""
        self._size = 0
        """Size in bytes of the manifests that depend on other resources."""

    def update_blueprint(self, blueprint: Blueprint, changed: Collection[str]) -> None:
        """Continue with another blueprint. changed: the resources that it changed or removed."""
        for name in changed:
            self._seen.pop(name, None)
            known = self._known.pop(name, None)
            if known is not None and not self._blueprint.resources[name].is_constant:
                self._size -= len(known.packed)
        self._blueprint = blueprint

    def get(self, name: str) -> DesiredResource | None:
        """Return the desired resource as last evaluated; None before that."""
        return self._known.get(name)

    def has_all(self, names: Sized) -> bool:
        """Return whether as many resources were evaluated at some time."""
        return len(self._known) >= len(names)

    def find(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object as last evaluated: for that child, otherwise for the first incarnation."""
        known = self._known.get(name)
        if known is None or child is None:
            return known.at(1) if known is not None else None
        return known.at(child.incarnation, child=child)

    def evaluate(
        self,
        resource: ResourceBlueprint,
        kind: Kind,
        *,
        required: Required,
        read: Collection[ExternalStatus] = (),
        values: Values,
        inherited: InheritedRules | None,
    ) -> DesiredResource | Unevaluated:
        """Return the desired resource, or why it has no manifest.

        read: the external objects; values: of `required` and `read`, by the names in expressions; inherited: the rules that a nested Stack gets.
        """
        signatures = [found.fingerprint for found in (*required.values(), *read)]
        inputs: object = (kind, inherited, *signatures) if signatures or inherited is not None else kind
        known = self._known.get(resource.name)
        if known is not None and (known.inputs is inputs or known.inputs == inputs):
            return known
        manifest = self._evaluate_manifest(resource, kind, values)
        if not isinstance(manifest, Known):
            return manifest
        desired = self._make(resource, kind, manifest.value, required=required, inputs=inputs, inherited=inherited)
        if not resource.is_constant and not self._count(known, desired):
            message = (
                f"makes the objects of the Stack together larger than {limits.WANTED_BYTES} bytes; split the Stack"
            )
            return EvaluationError(path=f"{resource.path}.manifest", message=message)
        self._known[resource.name] = desired
        return desired

    def _evaluate_manifest(self, resource: ResourceBlueprint, kind: Kind, values: Values) -> Known | Unevaluated:
        """Evaluate the manifest, and check what only its value shows."""
        outcome = resource.manifest.evaluate({name: self._enlarge(name, fields) for name, fields in values.items()})
        if not isinstance(outcome, Known):
            return outcome
        if resource.has_computed_metadata:
            mistake = blocked_status.find_mistake(resource, outcome.value)
            if mistake is not None:
                return mistake
        for key in applied_manifest.find_unencodable(outcome.value, group=kind.group, kind=kind.name):
            found = object_metadata.name_type(outcome.value["stringData"][key])
            path = f"{resource.path}.manifest.stringData{error_hints.write_key(key)}"
            return EvaluationError(path=path, message=f"must be text, found {found}; write string(…) in the expression")
        return blocked_status.find_repeated(resource, outcome.value) or outcome

    def _make(
        self,
        resource: ResourceBlueprint,
        kind: Kind,
        value: Object,
        *,
        required: Required,
        inputs: object,
        inherited: InheritedRules | None,
    ) -> DesiredResource:
        applied = applied_manifest.convert(value, group=kind.group, kind=kind.name)
        is_constant = applied is value and resource.restored is None
        if resource.restored is not None:
            applied = volume_restore.restore_content(applied, resource.restored)
        requires = tuple(f"{each}/{requirements.incarnation_of(found)}" for each, found in required.items())
        return make_desired(
            applied,
            kind=kind,
            hash_=hash_desired(applied, is_retained=resource.is_retained, hashes=self._hashes),
            owner=ChildOwner(stack=self._stack, resource=resource.name, requires=requires, signer=self._hashes),
            packed=resource.constant if is_constant else None,
            inputs=inputs,
            is_retained=resource.is_retained,
            inherited=inherited,
            run=run_policy.find(resource, kind, value),
            applied_fields=applied_fields.make_applied_fields(
                applied,
                whole=resource.drift_policy is not DriftPolicy.REPAIR,
                ignored=resource.ignore_fields,
                replacing=tuple(each for each in resource.replace_on if each[-1] != names.ANNOTATION_RESTORED),
                owner=f"{self._stack.uid}/{resource.name}",
                hashes=self._hashes,
            ),
        )

    def _enlarge(self, name: str, fields: Value) -> Value:
        """Return the fields of a child as expressions take them. Their size is checked only when they change."""
        if fields is None or isinstance(fields, tuple):
            return fields
        seen = self._seen.get(name)
        if seen is None or seen[0] is not fields:
            seen = self._seen[name] = fields, expressions.enlarge(fields)
        return seen[1]

    def _count(self, known: DesiredResource | None, desired: DesiredResource) -> bool:
        """Replace the size of the known manifest with the new one. Return whether it is within the limit."""
        size = self._size + len(desired.packed) - (len(known.packed) if known is not None else 0)
        if size > limits.WANTED_BYTES:
            return False
        self._size = size
        return True
