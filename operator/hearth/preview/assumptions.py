"""Assumptions of a preview: changed objects become ready, and stand-ins replace values known only at run time.

The blueprint is otherwise unchanged, so the planner decides as in a real run.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.ports import Evaluations
from hearth.model import value_class
from hearth.model.child import Object, Path
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.field_paths import ElementPath
from hearth.model.kinds import Kind
from hearth.model.object_list import ObjectList
from hearth.plan.health import health_result
from hearth.plan.health.health_result import HealthResult
from hearth.plan.health.health_rules import HealthRules, Schemas
from hearth.template.blueprint import (
    Blueprint,
    Definition,
    Evaluable,
    EvaluationError,
    Known,
    Outcome,
    Pending,
    ResourceBlueprint,
    Values,
)
from hearth.template.compiler.manifest_template import ManifestTemplate

ASSUMED = health_result.ready("Assumed")
ROOT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?")
"""The resource in a path as expressions write it."""
DROPPED = object()
"""No value at all."""


class UnknownValues:
    """The stand-ins of one preview, and the objects whose values they replace.

    A stand-in is a word that is valid as a name and a label, and contains a random token, so that no template contains
    one by accident.
    """

    def __init__(self) -> None:
        token = secrets.token_hex(4)
        self._prefix = f"unknown-{token}-"
        self._pattern = re.compile(rf"{self._prefix}(\d+)x")
        self._texts: dict[str, int] = {}
        self.objects: set[str] = set()
        """UIDs of objects with values known only at run time. Their status belongs to an earlier state."""

    def stand_in(self, missing: tuple[str, ...]) -> str:
        """Return the stand-in for a value that needs these paths."""
        roots = dict.fromkeys(match.group() for path in missing if (match := ROOT.match(path)))
        text = f"(known after {' and '.join(roots) or 'the run'} {'are' if len(roots) > 1 else 'is'} ready)"
        number = self._texts.setdefault(text, len(self._texts))
        return f"{self._prefix}{number}x"

    def is_within(self, value: Any) -> bool:
        """Return whether the value contains a stand-in."""
        return next(self.find(value), None) is not None

    def find(self, value: Any, path: ElementPath = ()) -> Iterator[ElementPath]:
        """Yield the paths of all texts with a stand-in."""
        if isinstance(value, str):
            if self._prefix in value:
                yield path
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield from self.find(inner, (*path, key))
        elif isinstance(value, list):
            for at, inner in enumerate(value):
                yield from self.find(inner, (*path, at))

    def explain(self, value: Any) -> Any:
        """Return the value with a readable sentence in place of each stand-in."""
        if isinstance(value, str):
            texts = list(self._texts)
            return self._pattern.sub(lambda found: texts[int(found.group(1))], value) if self._texts else value
        if isinstance(value, dict):
            return {key: self.explain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.explain(inner) for inner in value]
        return value

    def fill(self, value: Any, live: Any) -> Any:
        """Return the value with each stand-in replaced by the value in `live`, or dropped if there is none."""
        if isinstance(value, str):
            return (live if live is not None else DROPPED) if self._prefix in value else value
        if isinstance(value, dict):
            found = live if isinstance(live, dict) else {}
            filled = {key: self.fill(inner, found.get(key)) for key, inner in value.items()}
            return {key: inner for key, inner in filled.items() if inner is not DROPPED}
        if isinstance(value, list):
            others = live if isinstance(live, list) and len(live) == len(value) else [None] * len(value)
            return [each for each in map(self.fill, value, others) if each is not DROPPED]
        return value

    def restore(self, value: Any, stated: Any) -> Any:
        """Return the value with the stand-ins from `stated` put back."""
        if isinstance(stated, str) and self._prefix in stated:
            return stated
        if isinstance(stated, dict) and self.is_within(stated):
            found = value if isinstance(value, dict) else {}
            return {**found, **{key: self.restore(found.get(key), inner) for key, inner in stated.items()}}
        if isinstance(stated, list) and self.is_within(stated):
            if isinstance(value, list) and len(value) == len(stated):
                return list(map(self.restore, value, stated))
            return stated
        return stated if value is None else value


@dataclass(slots=True)
class Assumptions:
    """The assumptions of one preview."""

    unknown: UnknownValues = field(default_factory=UnknownValues)
    ready: set[str] = field(default_factory=set)
    """UIDs of objects that are assumed to become ready."""

    def apply_to(self, blueprint: Blueprint) -> Blueprint:
        """Return the blueprint under these assumptions."""
        rolling = {name: dataclasses.replace(policy, pause=0.0) for name, policy in blueprint.rolling.items()}
        resources = {name: self.adjust(each) for name, each in blueprint.resources.items()}
        return dataclasses.replace(blueprint, resources=resources, rolling=rolling)

    def adjust(self, resource: ResourceBlueprint) -> ResourceBlueprint:
        """Return a resource under these assumptions."""
        manifest: Evaluable = resource.manifest
        if not resource.is_constant and isinstance(manifest, ManifestTemplate):
            manifest = PartialManifest(manifest, self)
        rules = tuple(AssumedRule(rule, resource.own_name, self.ready) for rule in resource.ready_when)
        return dataclasses.replace(resource, manifest=manifest, ready_when=rules)


@value_class.dataclass(frozen=True, slots=True)
class PartialManifest:
    """A manifest where stand-ins replace values that are known only at run time."""

    inner: ManifestTemplate
    assumptions: Assumptions

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return its reads by resource name."""
        return self.inner.reads

    def evaluate(self, values: Values) -> Outcome:
        """Return the value, with stand-ins if a required object is not yet in the state that the run gives it."""
        unknown = self.assumptions.unknown
        objects = [each for found in values.values() for each in (found if isinstance(found, ObjectList) else (found,))]
        # Work that no longer runs has no identity. The same applies to an optional object that does not exist.
        uids = {uid for each in objects if each and (uid := find_uid(each))}
        if uids.isdisjoint(unknown.objects) and uids.isdisjoint(self.assumptions.ready):
            return self.inner.evaluate(values)
        is_tainted = any(unknown.is_within(each) for each in objects)
        roots = tuple(values)

        def stand_in(outcome: Pending | EvaluationError) -> str | None:
            match outcome:
                case Pending(is_evaluating=True):
                    return None
                case Pending(missing=missing):
                    return unknown.stand_in(missing)
                case EvaluationError():
                    return unknown.stand_in(roots) if is_tainted else None

        return self.inner.evaluate(values, stand_in=stand_in)


@value_class.dataclass(frozen=True, slots=True)
class AssumedRule:
    """A rule of `readyWhen` that is met by every object that counts as ready."""

    inner: Evaluable
    own_name: str
    ready: set[str]

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return its reads by resource name."""
        return self.inner.reads

    def evaluate(self, values: Values) -> Outcome:
        """Return whether the object is ready."""
        own = values.get(self.own_name)
        if isinstance(own, Mapping) and find_uid(own) in self.ready:
            return Known(True)
        return self.inner.evaluate(values)


def find_uid(fields: Mapping[str, Any]) -> str:
    """Return the UID of an object; "" if it has none."""
    metadata = fields.get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


class AssumedRules(HealthRules):
    """Health rules that treat every assumed object as ready."""

    def __init__(self, ready: set[str], *, schemas: Schemas, evaluations: Evaluations) -> None:
        """ready: UIDs; others may add to them."""
        super().__init__(schemas=schemas, scripts=evaluations)
        self._ready = ready

    def assess(self, fields: Mapping[str, Any], *, kind: Kind, resource: str = "") -> HealthResult:
        """Assess the object with these fields."""
        if find_uid(fields) in self._ready:
            return ASSUMED
        return super().assess(fields, kind=kind, resource=resource)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRevisionBuilder(RevisionBuilder):
    """The builder of revisions, whose blueprints follow the assumptions. Records all errors of a definition."""

    assumptions: Assumptions
    mistakes: list[Mistake] = field(default_factory=list)
    """The errors of the last rejected definition."""
    hidden: dict[str, None] = field(default_factory=dict)
    """The names of resources whose manifest contains sensitive values, in any blueprint."""
    sensitive_texts: set[str] = field(default_factory=set, repr=False)

    async def read_spec(
        self, namespace: str, spec: Object, *, reader: SourceReader | None = None, removed: Any = ()
    ) -> Definition:
        """Read the definition from the spec of a Stack, see RevisionBuilder."""
        try:
            return await RevisionBuilder.read_spec(self, namespace, spec, reader=reader, removed=removed)
        except InvalidDefinition as error:
            self.mistakes[:] = error.mistakes
            raise

    async def compile(
        self, definition: Definition, stack: StackObject, *, surge: int = 0, previous: Blueprint | None = None
    ) -> Blueprint:
        """Compile the blueprint under the assumptions. previous: ignored, because it already follows them."""
        del previous
        try:
            blueprint = await RevisionBuilder.compile(self, definition, stack, surge=surge)
        except InvalidDefinition as error:
            self.mistakes[:] = error.mistakes
            raise
        self.hidden.update({name: None for name, each in blueprint.resources.items() if each.hidden is not None})
        self.sensitive_texts.update(blueprint.sensitive_texts)
        return self.assumptions.apply_to(blueprint)
