"""Everything that decides the plan of one Stack, apart from its definition, its objects and the in-memory state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from hearth.model import members, value_class
from hearth.model.external_objects import UNKNOWN_VIEW, ExternalView
from hearth.model.stack_tree import Node
from hearth.model.tenancy import Boundary
from hearth.plan.environment import active_environment
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.retry import backoff
from hearth.plan.state.cleanup_policy import CleanupPolicy
from hearth.plan.state.healing import HealingPolicy
from hearth.plan.state.member_growth import GrowthLimit
from hearth.plan.state.stack_tree import TreeQueries
from hearth.plan.target.target import DetachedSet, Target


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """The input of one plan. The planner compares it with the previous one, and plans what depends on a difference."""

    boundary: Boundary
    """Where the objects may be, and which account writes them."""
    target: Target | None = None
    is_suspended: bool = False
    """Whether the planner plans only suspend steps."""
    is_paused: bool = False
    """Whether no step may start. Drift is then reported."""
    healing: HealingPolicy = field(default_factory=HealingPolicy)
    environment: ActiveEnvironment = active_environment.UNRESTRICTED
    """The restrictions on the steps that the user set."""
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)
    """Which obsolete objects stay."""
    retry_limit: int = backoff.LIMIT
    """Failures after which a step is not retried any more."""
    retries: tuple[str, ...] = ()
    """The values of the retry annotations, which nested Stacks inherit."""
    circle: tuple[Node, ...] = ()
    """The Stack and its ancestors, innermost first, if the Stack is nested in itself: the last one is among its own
    children. One process prevents this, but Stacks of two processes can adopt each other at the same moment."""
    growth_limits: Mapping[str, GrowthLimit] = field(default_factory=dict)
    """By collection."""
    tree: TreeQueries = field(default_factory=TreeQueries)
    find_external: Callable[[str, str], ExternalView] = lambda _uid, _name: UNKNOWN_VIEW
    """Returns the cached state of an external object, by the UID of the Stack and the name in its template."""

    @property
    def is_completed(self) -> bool:
        """Return whether there is a target, and it was reached."""
        return self.target is not None and self.target.is_completed

    @property
    def is_at_rest(self) -> bool:
        """Return whether the Stack is paused, and its target was completed."""
        return self.is_paused and self.is_completed

    @property
    def is_rollback(self) -> bool:
        """Return whether the target differs from the definition in the spec."""
        return self.target is not None and self.target.is_rollback

    @property
    def detached(self) -> tuple[DetachedSet, ...]:
        """Return the detached StatefulSets. Their successors must have the same names."""
        return self.target.detached if self.target is not None else ()

    def needs_full_plan(self, before: PlanInput) -> bool:
        """Return whether every name must be planned again because of a difference to the input before.

        A planner that is suspended or resumed does that in any case.
        """
        return (
            (self.boundary, self.circle) != (before.boundary, before.circle)
            or (self.is_paused, self.is_at_rest) != (before.is_paused, before.is_at_rest)
            or self._has_other_rules(before)
            or any(map(members.is_all, self._find_cleared(before)))
        )

    def _has_other_rules(self, before: PlanInput) -> bool:
        """Return whether the rules of the environment differ, or the stops that they apply to."""
        environment, known = self.environment, before.environment
        if environment is known:
            return False
        # Without rules, nothing depends on the target.
        is_moved = environment.key != known.key and not environment.is_unrestricted
        return environment.rules != known.rules or is_moved

    def find_changed(self, before: PlanInput) -> set[str]:
        """Find the resources whose own part of the input differs."""
        changed = self._find_cleared(before)
        if self.detached != before.detached:
            changed |= {each.resource for each in {*self.detached} ^ {*before.detached}}
        return changed

    def _find_cleared(self, before: PlanInput) -> set[str]:
        """Find the resources whose breakpoints were cleared or set since the input before."""
        cleared, known = self.environment.cleared, before.environment.cleared
        return cleared.find_changed(known) if cleared is not known else set()
