"""Lookup of the owners of fields named in a condition: one GET for each of the few named resources.

The cache stores only the operator's own part of `managedFields`. The other parts would outweigh the rest of a child.
"""

from __future__ import annotations

import functools

from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.plan.resource import reverted_values
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.retry.step_governor import Work, WorkType
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ManagerQuery

TASK = "holder of "
"""How the names of its tasks begin."""


def resolve_queries(
    stack_uid: str,
    plan: StackPlanner,
    memory: InMemoryState,
    *,
    tasks: NamedTasks,
    services: Services,
    backoff: BackoffPolicy,
) -> float:
    """Start the lookups that the last reconcile requested; each answer enqueues its resource.

    Returns the seconds until the next one that is delayed, since others about the same resource went before it; 0 for
    none.
    """
    if not memory.manager_queries:
        return 0.0
    now, delays = services.clock.monotonic(), []
    named = {name for type_ in plan.conditions.by_type for name in plan.conditions.first(type_)}
    for name in named & memory.manager_queries.keys():
        work = Work(resource=name, type=WorkType.LOOK_UP)
        if (due := memory.governor.find_due(work)) > now:
            delays.append(due - now)
            continue
        memory.governor.count(work, now=now, backoff=backoff)
        look_up = functools.partial(_look_up, stack_uid, name, memory.manager_queries.pop(name), memory, services)
        tasks.run(f"{TASK}{name}", look_up)
    return min(delays, default=0.0)


async def _look_up(stack_uid: str, name: str, query: ManagerQuery, memory: InMemoryState, services: Services) -> None:
    child, stack = query.child, services.management_cluster.find_stack(stack_uid)
    if stack is None or services.find_boundary(stack).find_denial(child.ref):
        return
    try:
        raw = await services.find_cluster(stack).get(child.ref, kind=child.kind)
    except (ApiStatusError, Unreachable):
        # The condition names no owner until other fields are lost.
        memory.field_managers[child.uid] = (query.lost, reverted_values.UNREADABLE)
        services.queue.enqueue(stack_uid, name)
        return
    if raw["metadata"]["uid"] == child.uid:
        memory.field_managers[child.uid] = (query.lost, reverted_values.describe_managers(raw, query))
        services.queue.enqueue(stack_uid, name)
