"""Whether a Stack is idle: nothing is in progress, no timer runs, and all that its reconciler holds can be made again."""

from __future__ import annotations

from collections.abc import Collection

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.stack.cache_sync import CacheSync
from hearth.model.kinds import Kind
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState

MAX_RESOURCES = 100
"""Resources of a Stack that may be unloaded. To load a larger one takes noticeably longer than most events."""


def find_kinds(
    planner: StackPlanner, memory: InMemoryState, definition_sync: DefinitionSync, *, cache_sync: CacheSync
) -> Collection[Kind] | None:
    """Return the kinds that the state of an idle Stack depends on; None if it is not idle."""
    is_idle = (
        is_plan_idle(planner)
        and is_definition_idle(definition_sync)
        and memory.is_replaceable(definition_sync.services.clock.monotonic())
        and cache_sync.is_synced
    )
    return cache_sync.find_required_watches(planner.blueprint) if is_idle else None


def is_plan_idle(planner: StackPlanner) -> bool:
    """Return whether the target is reached without anything to report, and soon planned again."""
    return (
        planner.is_complete
        and not planner.is_suspended
        and not planner.requeues
        and not planner.preserved
        and not planner.withheld
        and not any(planner.conditions.by_type.values())
        and len(planner.blueprint.resources) <= MAX_RESOURCES
    )


def is_definition_idle(definition_sync: DefinitionSync) -> bool:
    """Return whether the definition in the spec is in use and depends on nothing else, in the management cluster.

    A Stack that was rolled back would read its revision again when it is loaded.
    """
    targets = definition_sync.targets
    target = targets.current
    return (
        definition_sync.rejection is None
        and not definition_sync.is_deleting
        and not definition_sync.options.is_paused
        and not definition_sync.revisions.tampered
        and not definition_sync.refreshed_parameters
        and not definition_sync.hidden_texts
        and definition_sync.schedule.is_idle
        and target is not None
        and target.is_completed
        and not target.is_rollback
        and targets.is_persisted
        and not targets.is_resumed
        and not definition_sync.services.find_link(definition_sync.uid).is_remote
    )
