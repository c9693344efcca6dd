"""Events that name no single Stack, handled for one Stack."""

from __future__ import annotations

from typing import assert_never

from hearth.engine import cluster_links
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack.cache_sync import CacheSync
from hearth.engine.stack.step_results import StepResults
from hearth.engine.work_queue import (
    Broadcast,
    CacheSynced,
    ClusterEvent,
    ClusterStateChanged,
    DirtyScope,
    KindsChanged,
    SourceChanged,
)
from hearth.plan.health.health_rules import RuleChange
from hearth.plan.retry import retry_triggers
from hearth.plan.stack.stack_planner import StackPlanner


class BroadcastHandler:
    """Handler of broadcasts for one Stack."""

    def __init__(
        self,
        uid: str,
        *,
        services: Services,
        definition_sync: DefinitionSync,
        results: StepResults,
        cache_sync: CacheSync,
    ) -> None:
        """Nothing is handled before `handle`."""
        self._uid = uid
        self._services = services
        self._definition_sync = definition_sync
        self._results = results
        self._cache_sync = cache_sync

    def handle(self, event: Broadcast, *, planner: StackPlanner | None) -> None:
        """Handle an event. planner: None without an accepted definition."""
        if isinstance(event, ClusterEvent):
            if self._services.links.concerns(self._uid, event.key):
                self._handle_cluster_event(event.event, planner)
            return
        is_home = self._services.links.concerns(self._uid, cluster_links.HOME)
        match event:
            case CacheSynced() | KindsChanged() if not is_home:
                pass
            case retry_triggers.RetryTrigger():
                # The sources of its definition are in the home cluster in any case.
                self._definition_sync.schedule.on_retry_trigger(event)
                if is_home:
                    self._results.expedite(event)
            case RuleChange():
                if planner is not None:
                    self._cache_sync.on_rules_changed(planner.blueprint, event)
            case SourceChanged(ref):
                self._definition_sync.schedule.on_source_changed(ref)
            case CacheSynced() | KindsChanged():
                self._handle_cluster_event(event, planner)
            case _:
                assert_never(event)

    def _handle_cluster_event(
        self,
        event: CacheSynced | KindsChanged | retry_triggers.RetryTrigger | ClusterStateChanged,
        planner: StackPlanner | None,
    ) -> None:
        """Handle an event in the cluster of the objects."""
        match event:
            case CacheSynced(kind):
                if self._cache_sync.waits_for(kind):
                    self._cache_sync.check_synced()
            case retry_triggers.RetryTrigger():
                self._results.expedite(event)
            case ClusterStateChanged():
                self._definition_sync.schedule.request_now()
            case KindsChanged():
                self._handle_kinds(planner)
            case _:
                assert_never(event)

    def _handle_kinds(self, planner: StackPlanner | None) -> None:
        """Retry what a new kind may allow, and compile the definition again if a kind came or went."""
        self._results.expedite(retry_triggers.KINDS)
        if planner is not None:
            self._cache_sync.on_kinds_changed(planner.blueprint)
        is_waiting = is_waiting_for_kinds(self._definition_sync, planner)
        if is_waiting or (planner is not None and planner.has_lost_kinds()):
            self._definition_sync.schedule.request()
            self._services.queue.enqueue(self._uid, DirtyScope.STACK)


def is_waiting_for_kinds(definition_sync: DefinitionSync, planner: StackPlanner | None) -> bool:
    """Return whether the Stack needs a kind that the cluster did not serve at the last check."""
    return definition_sync.rejection is not None or (planner is not None and planner.is_waiting_for_kinds)
