"""Creation of a Stack's planner for its active blueprint, and its options."""

from __future__ import annotations

from hearth import supervision
from hearth.engine.cluster_objects import StackObject
from hearth.engine.clusters.cluster_links import ClusterLink
from hearth.engine.definition import revision_builder
from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.services import Services
from hearth.engine.stack.cache_sync import CacheSync
from hearth.plan.stack.blind_planner import BlindPlanner
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import read_access
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.template.blueprint import Blueprint


def create(stack: StackObject, blueprint: Blueprint, *, services: Services, cache_sync: CacheSync) -> StackPlanner:
    """Return a planner that has planned nothing. Its kinds follow the watches of `cache_sync`."""
    # The function below lives as long as the planner, and must not keep this state of the Stack, with its spec.
    uid = stack.uid
    link = services.find_link(uid)
    planner_type = BlindPlanner if blueprint.is_unknown else StackPlanner
    return planner_type(
        blueprint=blueprint,
        stack=revision_builder.identify(stack),
        kinds=find_kinds(link, services=services, cache_sync=cache_sync),
        hashes=services.hashes.of_stack(uid),
        rules=link.rules,
        on_error=lambda resource, error: supervision.report("resource", error, stack=uid, resource=resource),
        boundary=services.find_boundary(stack),
        # What a kubeconfig opens, every account that may read the kubeconfig may read.
        access=read_access.UNLIMITED if link.is_remote else services.read_rights.of(uid),
    )


def may_suspend_blindly(definition_sync: DefinitionSync) -> bool:
    """Return whether the objects must be suspended although no definition is available."""
    is_blind = definition_sync.blueprint is None and definition_sync.is_suspendable
    return is_blind and definition_sync.is_suspended


def update_options(
    planner: StackPlanner, definition_sync: DefinitionSync, memory: InMemoryState, *, is_paused: bool
) -> bool:
    """Pass the options of the Stack on to its planner; return whether to plan every resource again."""
    is_suspended = definition_sync.is_suspended or definition_sync.is_halting
    is_turned = planner.set_suspended(is_suspended=is_suspended)
    if is_turned:
        # Attempts of one direction say nothing about the other.
        memory.reset_for_target(())
    is_limited = memory.set_limit(definition_sync.options.retry_limit)
    is_paused_anew = planner.set_paused(is_paused=is_paused, is_completed=definition_sync.targets.is_completed)
    return is_paused_anew or is_turned or is_limited


def find_kinds(link: ClusterLink, *, services: Services, cache_sync: CacheSync) -> WatchedKinds:
    """Return the kinds of the cluster, with the watches of `cache_sync`."""
    return WatchedKinds(
        served=link.cluster.kinds,
        unsynced=cache_sync.unsynced.keys(),
        denied=cache_sync.denied,
        only_namespace=link.namespace,
        in_namespace_of_stack=() if link.is_remote else services.namespaced_watches,
    )
