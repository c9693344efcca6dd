"""What one judgement of a resource is about. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.model.child import Child
from hearth.plan import gates
from hearth.plan.desired import Wanted
from hearth.plan.gates import Gates
from hearth.plan.healing import Ward
from hearth.plan.health import Rulebook
from hearth.plan.suspend_records import SuspendRecords
from hearth.plan.world import Memory
from hearth.template.blueprint import Blueprint, ResourceBlueprint, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one judgement is about."""

    resource: ResourceBlueprint
    wanted: Wanted
    children: tuple[Child, ...]
    """The objects that carry the resource's label."""
    values: Values
    memory: Memory
    now: float
    """Monotonic seconds."""
    blueprint: Blueprint
    """Of the whole Stack."""
    ward: Ward
    """Which unhealthy resources may be replaced now."""
    adopts: bool
    """Whether an object that is there already and nobody's child may be taken over."""
    rules: Rulebook
    """How objects do, by kind."""
    records: SuspendRecords
    """What suspended objects remember."""
    gates: Gates = gates.OPEN
    """What its user wants it held by."""

    @property
    def name(self) -> str:
        """Of the resource."""
        return self.resource.name
