"""`ResourceContext`, the input for planning one resource."""

from __future__ import annotations

from hearth.model import value_class
from hearth.model.child import Child
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.resource.suspend_object import SuspendRecords
from hearth.plan.state.desired import DesiredResource
from hearth.plan.state.healing import UnhealthyTracker
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.read_access import Reader
from hearth.plan.state.stack_tree import FindContents, contain_nothing
from hearth.plan.target.target import DetachedSet
from hearth.template.blueprint import Blueprint, ResourceBlueprint, Values


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContext:
    """Input for planning one resource."""

    resource: ResourceBlueprint
    desired: DesiredResource
    children: tuple[Child, ...]
    """The objects that carry the resource's label."""
    values: Values
    memory: InMemoryState
    now: float
    """Monotonic seconds."""
    blueprint: Blueprint
    """The blueprint of the whole Stack."""
    unhealthy: UnhealthyTracker
    """The unhealthy resources, and whether they may be replaced now."""
    rules: HealthRules
    """Health rules by kind."""
    records: SuspendRecords
    """Records of suspended objects."""
    reader: Reader
    """The account that the Stack uses to read its objects."""
    environment: ActiveEnvironment = active_environment.UNRESTRICTED
    """The environment that the user set for the Stack."""

    find_contents: FindContents = contain_nothing
    detached: DetachedSet | None = None
    """The StatefulSet whose Pods and claims the next object takes over, or None."""
    is_rollback: bool = False
    """Whether the target differs from the definition in the spec."""
    is_paused: bool = False
    """Whether no step may start. Drift is then reported."""
    is_at_rest: bool = False
    """Whether the Stack was paused after its target was completed. Drift then does not change the state of resources."""
    awaits_repair: bool = False
    """Whether a required object has drifted and is not repaired, so that its values are not the desired ones."""
    sources: tuple[Child, ...] = ()
    """The required objects of a nested Stack or instance. Its definition may be read from them."""

    @property
    def name(self) -> str:
        """Return the name of the resource."""
        return self.resource.name

    @property
    def adopts(self) -> bool:
        """Return whether an existing object without an owner may be adopted."""
        return self.blueprint.adopts if self.resource.adopts is None else self.resource.adopts
