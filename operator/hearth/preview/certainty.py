"""Which outcomes of a preview depend on values that only the run can know."""

from __future__ import annotations

from hearth.model import names
from hearth.model.errors import ApiStatusError
from hearth.model.groups import members
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.preview.changes import Action
from hearth.preview.preview_run import PreviewRun

HALTED = frozenset({ResourceState.STOPPED, ResourceState.FAILED, ResourceState.RETRYING})


async def find_uncertain(run: PreviewRun) -> set[str]:
    """Return the resources whose outcome is uncertain: of their own, or because of one that they require."""
    planner = run.reconciler.planner
    if planner is None:
        return set()
    changes = run.recorder.changes
    uncertain = {each.resource for each in changes if each.is_uncertain}
    known = {each.resource for each in changes}
    moved = {each.resource for each in changes if each.is_uncertain and each.action is Action.REPLACE}
    for name, resource in planner.blueprint.resources.items():
        status = planner.statuses.get(name)
        required = {each for need in resource.requires for each in expand(need, planner)}
        if status is None or name in uncertain:
            continue
        is_blocked = status.state is ResourceState.WAITING and not required.isdisjoint(uncertain)
        if (
            is_blocked
            or not required.isdisjoint(moved)
            or (name not in known and status.state in HALTED and not await is_certain(run, planner, name, status))
        ):
            uncertain.add(name)
    return uncertain


def expand(required: str, planner: StackPlanner) -> tuple[str, ...]:
    """Return the resource that is required, or all members of a collection."""
    if not members.is_all(required):
        return (required,)
    return planner.blueprint.collections[members.root_of(required)].members


async def is_certain(run: PreviewRun, planner: StackPlanner, name: str, status: ResourceStatus) -> bool:
    """Return whether a halted resource changes regardless of the unknown values."""
    desired = planner.find_desired(name, status.child) if status.child is not None else None
    if desired is None:
        return True
    stack = run.world.stack
    manager = names.field_manager(stack.namespace, stack.name, kind=stack.kind)
    try:
        return await run.world.cluster.changes_for_sure(desired.manifest, kind=desired.kind, manager=manager)
    except ApiStatusError:
        return True
