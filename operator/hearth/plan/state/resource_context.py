"""What one judgement of a resource is about. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.model.child import Child
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.state.desired import DesiredResource
from hearth.plan.state.healing import UnhealthyTracker
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.suspend_record import SuspendRecords
from hearth.template.blueprint import Blueprint, ResourceBlueprint, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContext:
    """What one judgement is about."""

    resource: ResourceBlueprint
    desired: DesiredResource
    children: tuple[Child, ...]
    """The objects that carry the resource's label."""
    values: Values
    memory: InMemoryState
    now: float
    """Monotonic seconds."""
    blueprint: Blueprint
    """Of the whole Stack."""
    unhealthy: UnhealthyTracker
    """Which unhealthy resources may be replaced now."""
    adopts: bool
    """Whether an object that is there already and nobody's child may be taken over."""
    rules: HealthRules
    """How objects do, by kind."""
    records: SuspendRecords
    """What suspended objects remember."""
    environment: ActiveEnvironment = active_environment.UNRESTRICTED
    """What its user wants it held by."""

    @property
    def name(self) -> str:
        """Of the resource."""
        return self.resource.name
