"""Handmade blueprints, children and planners, for tests of planner decisions."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.model import names
from hearth.model.child import Child, Object, Path, parse_child
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary
from hearth.plan.health import health_rules
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState, Observation, RefusedChange
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.state.steps import Apply
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.plan.target.target import Target, TargetCause
from hearth.template.blueprint import (
    Blueprint,
    Evaluable,
    Known,
    Outcome,
    Pending,
    ResourceBlueprint,
    StackIdentity,
    Values,
)

STACK = StackIdentity(name="shop", namespace="default", uid="stack-1")
TRUSTED = Boundary(namespace=STACK.namespace, is_confined=False)
"""A boundary without restrictions."""
TRUSTED_INPUT = PlanInput(boundary=TRUSTED)
COMPLETED = Target(revision=1, cause=TargetCause.SPEC, since=0.0, is_completed=True)
HASHER = KeyedHasher(b"a key for tests, long enough")
MANAGER = names.field_manager(STACK.namespace, STACK.name)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
GADGET = Kind(group="example.org", version="v1", name="Gadget", plural="gadgets", namespaced=True)


@dataclass(frozen=True)
class Constant:
    """A value that reads nothing."""

    value: Any
    reads: Mapping[str, frozenset[Path]] = field(default_factory=dict)

    def evaluate(self, values: Values) -> Outcome:
        """Always the same, always fresh."""
        return Known(copy.deepcopy(self.value))


@dataclass(frozen=True)
class Reading:
    """A value computed from other resources."""

    make: Callable[[Any], Any]
    reads: Mapping[str, frozenset[Path]]

    def evaluate(self, values: Values) -> Outcome:
        """Waits while `make` finds a key missing."""
        try:
            return Known(self.make(values))
        except (KeyError, TypeError) as error:
            return Pending(missing=(str(error),))


class ServedKinds:
    """The port `Kinds` over a handful."""

    def __init__(self, *kinds: Kind) -> None:
        self.served = {(kind.api_version, kind.name): kind for kind in kinds}
        self.generation = 1

    def find(self, api_version: str, kind: str) -> Kind | None:
        """As the protocol says."""
        return self.served.get((api_version, kind))

    def all(self) -> Collection[Kind]:
        """As the protocol says."""
        return list(self.served.values())

    def find_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """None is known."""
        return None

    def find_definition(self, reference: str) -> Mapping[str, Any] | None:
        """None is known."""
        return None


def make_blueprint(
    requires: Mapping[str, Iterable[str]],
    *,
    kind: Kind = CONFIG_MAP,
    manifests: Mapping[str, Evaluable] | None = None,
    outputs: Mapping[str, Evaluable] | None = None,
    ready_when: Mapping[str, tuple[Evaluable, ...]] | None = None,
) -> Blueprint:
    """Resources by name with their requirements, in a valid order."""
    resources = {
        name: ResourceBlueprint(
            name=name,
            index=index,
            path=f"spec.template.resources.{name}",
            api_version=kind.api_version,
            kind=kind.name,
            manifest=(manifests or {}).get(name, Constant({"apiVersion": kind.api_version, "kind": kind.name})),
            is_constant=name not in (manifests or {}),
            is_name_pinned=False,
            requires=tuple(sorted(needed)),
            dependents=tuple(other for other, theirs in requires.items() if name in tuple(theirs)),
            ready_when=(ready_when or {}).get(name, ()),
        )
        for index, (name, needed) in enumerate(requires.items())
    }
    return Blueprint(resources=resources, outputs=outputs or {}, reads={})


@dataclass
class World:
    """The children of one Stack, changed by hand, and the planner on them."""

    children: dict[str, list[Child]] = field(default_factory=dict)
    memory: InMemoryState = field(default_factory=InMemoryState)
    now: float = 0.0
    count: int = 0
    newly_failed: list[str] = field(default_factory=list)
    """Resources that failed in the last plan."""
    parting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The deletions to record after the last plan."""

    def of(self, resource: str) -> tuple[Child, ...]:
        """As `hearth.plan.state.memory.Children` says."""
        return tuple(self.children.get(resource, ()))

    def resources(self) -> Iterable[str]:
        """As `hearth.plan.state.memory.Children` says."""
        return [name for name, children in self.children.items() if children]

    def plan(self, planner: StackPlanner, *dirty: str, is_full: bool = False, **changes: Any) -> PlanResult:
        """Run one plan. changes: of the planner's input."""
        plan_input = dataclasses.replace(planner.input, **changes)
        observation = Observation(children=self, memory=self.memory, now=self.now)
        return planner.plan(plan_input, observation, dirty, is_full=is_full)

    def refresh(self, planner: StackPlanner, *dirty: str, **changes: Any) -> list[str]:
        """Run one plan, by default of everything, and apply its memory updates. Returns the keys of the planned steps."""
        result = self.plan(planner, *dirty, is_full=not dirty, **changes)
        self.memory.apply_updates(result.memory_updates, now=self.now)
        self.newly_failed, self.parting = [each.name for each in result.failures], result.parting
        return result.planned

    def carry_out(self, step: Apply, *, status: Object | None = None) -> Child:
        """Carry out an apply; returns the resulting child."""
        self.count += 1
        old = [child for child in self.of(step.resource) if child.ref == step.ref]
        uid = old[0].uid if old else f"uid-{self.count}"
        child = make_child(step.manifest, kind=step.kind, uid=uid, version=self.count, status=status)
        self.memory.ownership_baseline[uid] = (step.hash, child.ownership)
        others = [each for each in self.of(step.resource) if each.ref != step.ref]
        self.children[step.resource] = [*others, child]
        return child

    def settle(self, planner: StackPlanner) -> int:
        """Run passes and applies until nothing remains to apply; return the number of applies."""
        applies, planned = 0, self.refresh(planner)
        while planned:
            steps = [(key, planner.take_step(key)) for key in planned]
            for _, step in steps:
                if isinstance(step, Apply):
                    self.carry_out(step)
                    applies += 1
            planned = self.refresh(planner, *(key for key, _ in steps))
        return applies


def make_child(
    manifest: Object, *, kind: Kind = CONFIG_MAP, uid: str, version: int = 1, status: Object | None = None, **extra: Any
) -> Child:
    """The cache's view of an object that was applied as `manifest`. extra: more metadata."""
    metadata = {**manifest["metadata"], "uid": uid, "resourceVersion": str(version), "generation": 1, **extra}
    fields: Object = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in metadata["labels"]}}}
    fields["f:metadata"]["f:annotations"] = {f"f:{key}": {} for key in metadata["annotations"]}
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
    raw = {**manifest, "metadata": {**metadata, "managedFields": [entry]}}
    if status is not None:
        raw["status"] = status
    return parse_child(raw, kind=kind, paths=[("status",), ("data",)], signatures=HASHER)


def make_planner(
    blueprint: Blueprint,
    *,
    kinds: ServedKinds | None = None,
    unwatched: Collection[Kind] = (),
    only_namespace: str = "",
    plan_input: PlanInput = TRUSTED_INPUT,
) -> StackPlanner:
    """A planner before its first plan."""
    return StackPlanner(
        blueprint=blueprint,
        stack=STACK,
        kinds=WatchedKinds(
            served=kinds or ServedKinds(CONFIG_MAP, GADGET), unsynced=unwatched, only_namespace=only_namespace
        ),
        hashes=HASHER,
        rules=health_rules.DEFAULT_RULES,
        plan_input=plan_input,
    )


def settle(blueprint: Blueprint) -> tuple[World, StackPlanner]:
    """A world where everything exists and is ready, and its planner."""
    world, planner = World(), make_planner(blueprint)
    world.settle(planner)
    assert planner.is_complete
    return world, planner


def refuse(world: World, blueprint: Blueprint) -> StackPlanner:
    """A planner on a world where the server rejects the change of `a`."""
    planner = make_planner(blueprint)
    world.refresh(planner)
    step = planner.take_step("a")
    assert isinstance(step, Apply)
    assert step.uid is not None
    world.memory.immutable[step.uid] = RefusedChange(step.hash, "data")
    world.refresh(planner, "a")
    return planner
