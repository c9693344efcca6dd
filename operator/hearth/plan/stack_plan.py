"""Plans one Stack once, and updates its in-memory state: before the plan for a new input, and afterward."""

from __future__ import annotations

from collections.abc import Collection

from hearth.plan.stack.plan_index import PlanResult
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import Observation
from hearth.plan.state.plan_input import PlanInput
from hearth.plan.status import breakpoint_waits


def plan_stack(
    planner: StackPlanner, plan_input: PlanInput, observation: Observation, dirty: Collection[str], *, is_full: bool
) -> PlanResult:
    """Plan everything in `dirty`, or everything if `is_full`, and apply the updates of the in-memory state."""
    memory, now = observation.memory, observation.now
    if plan_input.boundary != planner.input.boundary:
        # The limits of another account do not apply to this one.
        memory.retry(now)
        memory.field_managers.clear()
    if plan_input.is_suspended is not planner.is_suspended:
        # Failures while suspending do not count against resuming.
        memory.reset_for_target(())
    is_full |= memory.set_limit(plan_input.retry_limit)
    plan_result = planner.plan(plan_input, observation, dirty, is_full=is_full)
    memory.apply_updates(plan_result.memory_updates, now=now)
    memory.prune(observation.children)
    plan_result.is_stopped = breakpoint_waits.is_stopped(planner, memory)
    return plan_result
