"""What the parts of the engine share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hearth.engine.ports import Clock, Evaluations, HealthMarkClient, ManagementCluster, WorkloadCluster
from hearth.engine.unassisted import Unassisted
from hearth.engine.work_queue import WorkQueue
from hearth.model.child import Child
from hearth.model.sharding import WHOLE, Share
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.retry.backoff import BackoffPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The ports, and the few settings that go with them."""

    management_cluster: ManagementCluster
    health_marks: HealthMarkClient
    workload_cluster: WorkloadCluster
    clock: Clock
    hashes: HashFunction
    queue: WorkQueue
    backoff: BackoffPolicy
    health_rules: HealthRules
    """How objects do, by kind."""
    evaluations: Evaluations = field(default_factory=Unassisted)
    """Of expressions that may take long."""
    own_namespace: str = ""
    """Where the operator's own objects are, rules of users among them; "" where nobody looks for any."""
    only_namespace: str = ""
    """The one that is served; "" for all."""
    share: Share = WHOLE
    """Of all Stacks, the part that this process works on."""

    def stack_may_exist(self, stack_uid: str, namespace: str) -> bool:
        """Whether there is a Stack of that UID. One that is not served here may always be there, for all we know."""
        is_seen = self.only_namespace in ("", namespace)
        return (
            not is_seen
            or self.management_cluster.find_stack(stack_uid) is not None
            or self.management_cluster.is_other_shard_uid(stack_uid)
        )

    def enqueue_after(self, delay: float, stack_uid: str, what: str) -> None:
        """Have a Stack looked at after `delay` seconds."""
        self.clock.call_later(delay, lambda: self.queue.enqueue(stack_uid, what))


@dataclass(frozen=True, slots=True)
class StackChildren:
    """The observed children of one Stack, as the board asks for them."""

    cluster: WorkloadCluster
    stack_uid: str

    def of(self, resource: str) -> tuple[Child, ...]:
        """Those that carry this resource's label."""
        return self.cluster.children_of(self.stack_uid, resource)

    def resources(self) -> Iterable[str]:
        """The resource labels of all of them."""
        return self.cluster.children(self.stack_uid)
