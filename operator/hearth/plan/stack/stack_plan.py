"""Read-only view of what the planner of a Stack found: for statuses, checks, and all others that plan nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from hearth.model.child import Child
from hearth.plan.environment.active_environment import ActiveEnvironment
from hearth.plan.environment.environment_rules import EnvironmentRule
from hearth.plan.retry.backoff import Attempt
from hearth.plan.stack.cleanup_planner import WithheldObject
from hearth.plan.stack.deletion_guard import HeldDeletion
from hearth.plan.state.desired import DesiredObject
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.read_access import Reader
from hearth.plan.state.resource_conditions import ConditionType, ExtraCondition, ResourceCondition
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.rolling_updates import RollingUpdates
from hearth.plan.state.steps import Step
from hearth.plan.state.watched_kinds import WatchedKinds
from hearth.template.blueprint import Blueprint


class ConditionsView(Protocol):
    """Resource conditions, and the Stack's conditions that follow from them."""

    @property
    def by_type(self) -> Mapping[ConditionType, Mapping[str, ResourceCondition]]:
        """Return the resource conditions by type and resource."""

    def first(self, type_: ConditionType) -> Mapping[str, ResourceCondition]:
        """Return, by resource, the conditions that the Stack's condition names."""

    def conditions(self) -> Iterator[ExtraCondition]:
        """Return the Stack's conditions that are true because of resource conditions."""


class ObsoleteView(Protocol):
    """Obsolete children of a Stack."""

    @property
    def children(self) -> Mapping[str, Child]:
        """Return them by UID."""

    @property
    def is_expected(self) -> bool:
        """Return whether a write in flight may create another one."""


class DeletionsView(Protocol):
    """Deletions that the environment prevents."""

    @property
    def held_deletions(self) -> Mapping[str, HeldDeletion]:
        """Return them by UID."""

    @property
    def denied(self) -> list[HeldDeletion]:
        """Return those that a rule denies, in a stable order."""


class StackPlan(Protocol):
    """Statuses and steps of one Stack, as of the last refresh."""

    @property
    def blueprint(self) -> Blueprint:
        """Return the blueprint that was planned."""

    @property
    def definition_warnings(self) -> tuple[str, ...]:
        """Return what the definition allows and its user probably does not mean."""

    @property
    def statuses(self) -> Mapping[str, ResourceStatus]:
        """Return the statuses by resource."""

    @property
    def reader(self) -> Reader:
        """Return as which account the Stack reads its objects."""

    @property
    def by_state(self) -> Mapping[ResourceState, Collection[str]]:
        """Return the resources by state, in the order of detection, which is another one after a restart."""

    @property
    def ready_steps(self) -> Mapping[str, Step]:
        """Return the steps to execute now, by key."""

    @property
    def requeues(self) -> Mapping[str, float]:
        """Return the monotonic seconds of the next refresh, by key."""

    @property
    def cleanup(self) -> ObsoleteView:
        """Return the obsolete children to delete or release."""

    @property
    def preserved(self) -> Mapping[str, Child]:
        """Return the obsolete objects that cleanup preserves, by UID."""

    @property
    def withheld(self) -> Mapping[str, WithheldObject]:
        """Return the obsolete objects that stay for other Stacks of the tree, by UID."""

    @property
    def conditions(self) -> ConditionsView:
        """Return the conditions of the resources."""

    @property
    def stopped(self) -> Mapping[str, str]:
        """Return the hook at which a resource stops, by resource."""

    @property
    def deletion_guard(self) -> DeletionsView:
        """Return the deletions that the environment prevents."""

    @property
    def environment(self) -> ActiveEnvironment:
        """Return the environment that restricts the steps."""

    @property
    def kinds(self) -> WatchedKinds:
        """Return the kinds of the cluster, and which of them are watched."""

    @property
    def rolling(self) -> RollingUpdates:
        """Return the rolling updates of collections."""

    @property
    def is_suspended(self) -> bool:
        """Return whether only suspend steps are planned."""

    @property
    def is_complete(self) -> bool:
        """Return whether the target is complete."""

    def has_failed(self, memory: InMemoryState) -> bool:
        """Return whether a resource or a deletion has failed, so that the Stack is Failed."""

    def find_desired(self, name: str, child: Child | None = None) -> DesiredObject | None:
        """Return the desired object of a resource, if it is known. child: the current object of the resource."""

    def find_deferred(self) -> list[Child]:
        """Find the obsolete objects whose deletion waits until every resource is ready. Checks all of them."""

    def find_unnamed(self) -> Mapping[str, list[Child]]:
        """Find, by resource, the obsolete objects that stay until the name of its object is known. Checks all of them."""

    def find_failed_deletions(self, memory: InMemoryState) -> list[tuple[Child, Attempt]]:
        """Find the obsolete objects with a failed deletion, suspend or restore, with the attempts; in a stable order."""

    def find_idle_rules(self) -> Iterator[EnvironmentRule]:
        """Find the rules that match no resource of the blueprint, and no resource that still has an object."""

    def find_post_delete_stops(self) -> list[str]:
        """Find the deleted resources that still stop at their post-delete hook."""
