"""Dependencies shared by the parts of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hearth.engine.ports import (
    Clock,
    Evaluations,
    HealthMarkClient,
    ManagementCluster,
    SnapshotClient,
    StackObject,
    WorkloadCluster,
)
from hearth.engine.unassisted import Unassisted
from hearth.engine.work_queue import DirtyItem, WorkQueue
from hearth.model.child import Child
from hearth.model.sharding import WHOLE, Share
from hearth.model.tenancy import Boundary, Tenancy
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.retry.backoff import BackoffPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The ports and their settings."""

    management_cluster: ManagementCluster
    health_marks: HealthMarkClient
    snapshots: SnapshotClient
    workload_cluster: WorkloadCluster
    clock: Clock
    hashes: HashFunction
    queue: WorkQueue
    backoff: BackoffPolicy
    health_rules: HealthRules
    """How health is assessed, by kind."""
    evaluations: Evaluations = field(default_factory=Unassisted)
    """Evaluation of slow expressions."""
    own_namespace: str = ""
    """Namespace of the operator's own objects, including user rules; "" disables the lookup."""
    only_namespace: str = ""
    """The only served namespace; "" for all."""
    tenancy: Tenancy = field(default_factory=Tenancy)
    """Where the objects of Stacks may be."""
    share: Share = WHOLE
    """The share of all Stacks that this process is responsible for."""
    on_limit: Callable[[str], None] = lambda _limit: None
    """Counts a limit that was reached, by its name in `docs/limits.md`."""

    def stack_may_exist(self, stack_uid: str, namespace: str) -> bool:
        """Return whether a Stack of that UID may exist. A Stack outside the served namespace always may."""
        is_seen = self.only_namespace in ("", namespace)
        return (
            not is_seen
            or self.management_cluster.find_stack(stack_uid) is not None
            or self.management_cluster.is_other_shard_uid(stack_uid)
        )

    def find_boundary(self, stack: StackObject) -> Boundary:
        """Return where the objects of the Stack may be."""
        return self.tenancy.find_boundary(stack.namespace, stack.service_account)

    def find_cluster(self, stack: StackObject) -> WorkloadCluster:
        """Return the cluster as the account of the Stack accesses it."""
        return self.workload_cluster.acting_as(self.find_boundary(stack).user)

    def enqueue_after(self, delay: float, stack_uid: str, what: DirtyItem) -> None:
        """Enqueue a Stack after `delay` seconds."""
        self.clock.call_later(delay, lambda: self.queue.enqueue(stack_uid, what))


@dataclass(frozen=True, slots=True)
class StackChildren:
    """The observed children of one Stack, as input of the planner."""

    cluster: WorkloadCluster
    stack_uid: str

    def of(self, resource: str) -> tuple[Child, ...]:
        """Return the children with this resource's label."""
        return self.cluster.children_of(self.stack_uid, resource)

    def resources(self) -> Iterable[str]:
        """Return the resource labels of all children."""
        return self.cluster.children(self.stack_uid)
