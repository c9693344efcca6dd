"""Ports, settings and shared components that all parts of the engine use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from hearth import answers
from hearth.engine import cluster_links
from hearth.engine.cluster_links import ClusterLink, ClusterLinks
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import (
    ChangePreviews,
    Clock,
    ClusterChildren,
    Evaluations,
    HealthMarkClient,
    ManagementCluster,
    RemoteClusters,
    SnapshotClient,
    StackDefinitionClient,
    StackPlanClient,
    WorkloadCluster,
)
from hearth.engine.read_circles import ReadCircles
from hearth.engine.read_rights import ReadRights
from hearth.engine.relatives import Relatives
from hearth.engine.work_queue import DirtyItem, WorkQueue
from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.kinds import ObjectRef
from hearth.model.sharding import WHOLE, Share
from hearth.model.tenancy import Boundary, Tenancy
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.retry.backoff import BackoffPolicy
from hearth.plan.status.stack_notices import StackNotice
from hearth.template.cel.evaluation import Alone


class Unassisted(Alone):
    """The port `Evaluations` without a helper process: slow expressions are reported as not evaluated."""

    def begin(self, stack_uid: str) -> None:
        """Ignore the Stack: every Stack gets the same answer."""

    async def wait(self, stack_uid: str) -> None:
        """Return at once: no evaluation is ever pending."""

    def forget(self, stack_uid: str) -> None:
        """Do nothing: no state is stored."""


def ignore_notice(_stack: StackObject, _notice: StackNotice) -> None:
    """Send no notification."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The ports, the settings, and the components that Stacks share."""

    management_cluster: ManagementCluster
    health_marks: HealthMarkClient
    snapshots: SnapshotClient
    workload_cluster: WorkloadCluster
    """The home cluster, which contains the Stacks. `find_link` returns the cluster of a Stack's objects."""
    plans: StackPlanClient
    previews: ChangePreviews
    clock: Clock
    hashes: HashFunction
    queue: WorkQueue
    backoff: BackoffPolicy
    health_rules: HealthRules
    """The health rules by kind."""
    asks_approval: bool = True
    """Whether changes of Stacks with `spec.approval` wait for an approval. False only in a preview."""
    evaluations: Evaluations = field(default_factory=Unassisted)
    """Evaluation of slow expressions."""
    own_namespace: str = ""
    """Namespace of the operator's own objects, including user rules; "" disables the lookup."""
    only_namespace: str = ""
    """The only served namespace; "" for all."""
    namespaced_watches: frozenset[str] = frozenset()
    """The kinds (`Kind.group`) that are watched only in the namespaces of Stacks that have them."""
    tenancy: Tenancy = field(default_factory=Tenancy)
    """The namespaces and accounts that Stacks may use."""
    share: Share = WHOLE
    """The share of all Stacks that this process is responsible for."""
    definitions: StackDefinitionClient | None = None
    """The StackDefinitions, or None if this operator serves none."""
    definition_groups: frozenset[str] = frozenset()
    """API groups where StackDefinitions may create kinds."""
    checks_authors: bool = True
    """Whether authors may choose only the ServiceAccounts and kubeconfigs that they may use themselves."""
    remote_clusters: RemoteClusters | None = None
    """The other clusters that Stacks use, or None if this operator uses none."""
    links: ClusterLinks = field(default_factory=ClusterLinks)
    """The cluster of each Stack's objects."""
    relatives: Relatives = field(default_factory=Relatives)
    """The loaded Stacks of each tree."""
    circles: ReadCircles = field(default_factory=ReadCircles)
    """The Stacks whose objects each Stack reads."""
    on_limit: Callable[[str], None] = lambda _limit: None
    """Counts a limit that was reached, by its name in `docs/limits.md`."""
    notify: Callable[[StackObject, StackNotice], None] = ignore_notice
    """Notifies the owner of the installation of a change; returns at once and never raises."""
    read_rights: ReadRights = field(init=False)
    """The read rights of the accounts of Stacks."""

    def __post_init__(self) -> None:
        """Share the answers about accounts among all Stacks, and let namespaces take turns."""
        self.queue.share_turns(self.find_namespace)
        rights = ReadRights(self.workload_cluster, queue=self.queue, clock=self.clock, namespace=self.only_namespace)
        object.__setattr__(self, "read_rights", rights)

    def find_namespace(self, stack_uid: str) -> str:
        """Return the namespace of a Stack, or "" if no Stack has that UID."""
        stack = self.management_cluster.find_stack(stack_uid)
        return stack.namespace if stack is not None else ""

    async def is_terminating(self, namespace: str) -> bool:
        """Return whether a namespace is being deleted, so that no deletion can be deferred; False if unknown."""
        kind = self.workload_cluster.kinds.find("v1", "Namespace")
        if kind is None:
            return False
        ref = ObjectRef(group="", kind="Namespace", namespace="", name=namespace)
        live = await answers.find_answer(self.workload_cluster.get(ref, kind=kind), None)
        return live is not None and "deletionTimestamp" in live["metadata"]

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
        is_remote = self.find_link(stack.uid).is_remote
        return self.tenancy.find_boundary(
            stack.namespace, stack.service_account, is_remote=is_remote, definer=stack.definer
        )

    def find_cluster(self, stack: StackObject) -> WorkloadCluster:
        """Return the cluster of the Stack's objects as the account of the Stack accesses it."""
        return self.find_link(stack.uid).cluster.acting_as(self.find_boundary(stack).user)

    def find_link(self, stack_uid: str) -> ClusterLink:
        """Return the cluster of a Stack's objects."""
        link = self.links.find(stack_uid)
        if link is not None:
            return link
        if not self.links.is_linked(stack_uid):
            stack = self.management_cluster.find_stack(stack_uid)
            if stack is not None and stack.kubeconfig is not None:
                return cluster_links.make_unknown(self.health_rules)
        # Create the home link only once, because every write asks for it.
        home = self.links.home
        if home is None:
            home = self.links.home = ClusterLink(
                cluster=self.workload_cluster, rules=self.health_rules, namespace=self.only_namespace
            )
        return home

    def find_children_cluster(self, stack_uid: str) -> WorkloadCluster:
        """Return the cluster of a Stack's objects as the operator observes it."""
        return self.find_link(stack_uid).cluster

    def may_exist_for(self, stack_uid: str) -> Callable[[str, str], bool]:
        """Return a function that returns whether the Stack of an object to adopt may exist.

        In another cluster, the Stacks of other installations are unknown, so each may exist.
        """
        return (lambda _uid, _namespace: True) if self.find_link(stack_uid).is_remote else self.stack_may_exist

    def enqueue_after(self, delay: float, stack_uid: str, what: DirtyItem) -> None:
        """Enqueue a Stack after `delay` seconds."""
        self.clock.call_later(delay, lambda: self.queue.enqueue(stack_uid, what))


@value_class.dataclass(frozen=True, slots=True)
class StackChildren:
    """The observed children of one Stack, as input of the planner."""

    cluster: ClusterChildren
    stack_uid: str

    def of(self, resource: str) -> tuple[Child, ...]:
        """Return the children with this resource's label."""
        return self.cluster.children_of(self.stack_uid, resource)

    def resources(self) -> Iterable[str]:
        """Return the resource labels of all children."""
        return self.cluster.children(self.stack_uid)
