"""Observes the Stack of a StackSnapshot. Reads caches, and reads claims as the account of the Stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hearth.engine import stack_snapshots, stateful_set_claims, verified_revisions
from hearth.engine.cluster_objects import StackObject, StackSnapshotObject
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.stateful_set_claims import Misses, TooManyMissing
from hearth.model import limits, names, value_class
from hearth.model.child import Child
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.text.enumeration import enumerate_names
from hearth.model.well_known_kinds import VOLUME_CLAIM
from hearth.plan.snapshot_decision import ObservedStack, SnapshotMemory, SnapshotProblem, SnapshotVolume
from hearth.plan.target.target import EMPTY_REVISION

CLAIM = (VOLUME_CLAIM.group, VOLUME_CLAIM.name)
STATEFUL_SET = ("apps", "StatefulSet")
STACK, GROUP = (names.GROUP, names.STACK), (names.GROUP, names.GROUP_KIND)


@dataclass(slots=True)
class StackObserver:
    """Observes the Stacks that StackSnapshots refer to."""

    services: Services
    find_reconciler: Callable[[str], StackReconciler | None]

    def find_stack(self, snapshot: StackSnapshotObject) -> StackObject | None:
        """Return the Stack of a snapshot, or None if it is not in this process."""
        management_cluster = self.services.management_cluster
        kind, name = names.split_owner(snapshot.owner_key)
        return management_cluster.find_stack(management_cluster.tree.find_uid(snapshot.namespace, name, kind=kind))

    def is_responsible(self, snapshot: StackSnapshotObject, memory: SnapshotMemory) -> bool:
        """Return whether this process is responsible: it has the Stack, or else the snapshot in its share."""
        share, management_cluster = self.services.share, self.services.management_cluster
        if share.is_whole:
            return True
        if memory.is_bound:
            if management_cluster.find_stack(memory.stack_uid) is not None:
                return True
            return share.has_request(snapshot.uid) and not management_cluster.is_other_shard_uid(memory.stack_uid)
        if self.find_stack(snapshot) is not None:
            return True
        kind, name = names.split_owner(snapshot.owner_key)
        is_other = management_cluster.is_other_shard_name(snapshot.namespace, name, kind=kind)
        return share.has_request(snapshot.uid) and not is_other

    def notify(self, uid: str) -> None:
        """Notify the Stack of a snapshot that it may be waiting for."""
        snapshot = self.services.snapshots.find_snapshot(uid)
        stack = self.find_stack(snapshot) if snapshot is not None else None
        reconciler = self.find_reconciler(stack.uid) if stack is not None else None
        if snapshot is not None and reconciler is not None:
            reconciler.definition.on_snapshot_changed(snapshot.name)

    def is_being_restored(self, snapshot: StackSnapshotObject, memory: SnapshotMemory) -> bool | None:
        """Return whether its Stack is being restored from this snapshot, or None if that is unknown now.

        After a start, it is unknown until the target of the Stack is loaded. Later, it is unknown while a request is
        processed that may become the target, because the request may have checked the snapshot before its deletion.
        """
        if self.services.management_cluster.find_stack(memory.stack_uid) is None:
            return False
        reconciler = self.find_reconciler(memory.stack_uid)
        if reconciler is None or not reconciler.definition.targets.is_loaded:
            return None
        definition = reconciler.definition
        target = definition.targets.current
        if target is not None and target.restore is not None and target.restore.snapshot_uid == snapshot.uid:
            return True
        is_requested = definition.schedule.is_running and definition.options.to_snapshot == snapshot.name
        return None if is_requested else False

    def observe_bound(self, memory: SnapshotMemory) -> ObservedStack:
        """Return the known state of the Stack of a bound snapshot."""
        stack = self.services.management_cluster.find_stack(memory.stack_uid)
        if stack is None or stack.deleting:
            return ObservedStack(is_gone=True)
        revisions = verified_revisions.load(self.services.management_cluster, self.services.hashes, stack)
        return ObservedStack(has_revision=revisions.find(memory.revision or EMPTY_REVISION) is not None)

    async def observe(self, snapshot: StackSnapshotObject) -> ObservedStack:
        """Return the objects that a snapshot would be bound to, or why that is impossible now."""
        stack = self.find_stack(snapshot)
        if stack is None:
            return deny("StackNotFound", self._explain_absence(snapshot))
        if stack.deleting:
            return deny("StackDeleting", f"Stack {stack.name} is being deleted")
        boundary = self.services.find_boundary(stack)
        if boundary.stack_denial:
            return deny(boundary.denial_reason, boundary.stack_denial)
        revision = find_settled_revision(stack, self.find_reconciler(stack.uid))
        if revision is None:
            message = (
                f"waits until Stack {stack.name} is complete"
                f"{f' (now {stack.phase})' if stack.phase else ''}: a snapshot contains a complete revision"
            )
            return deny("StackNotComplete", message)
        try:
            return await self._find_content(snapshot, stack, revision=revision, account=boundary.account)
        except TooManyMissing as error:
            return deny("TooManyVolumes", f"Stack {stack.name}: {error}")
        except (ApiStatusError, Unreachable) as error:
            return deny("ClaimsUnreadable", f"cannot read the PersistentVolumeClaims of Stack {stack.name}: {error}")

    def _explain_absence(self, snapshot: StackSnapshotObject) -> str:
        kind, _ = names.split_owner(snapshot.owner_key)
        found = self.services.management_cluster.tree.list_names(snapshot.namespace, kind=kind)
        there = f"there are: {enumerate_names(found)}" if found else "it contains no others"
        return f"namespace {snapshot.namespace} has no {names.describe_owner(snapshot.owner_key)}; {there}"

    async def _find_content(
        self, snapshot: StackSnapshotObject, stack: StackObject, *, revision: int, account: str
    ) -> ObservedStack:
        if self.services.find_link(stack.uid).is_remote:
            message = (
                f"the objects of Stack {stack.name} are in another cluster (spec.kubeConfig), whose volumes no StackSnapshot "
                f"of this cluster can contain; create VolumeSnapshots there"
            )
            return deny("OtherCluster", message)
        claims = StackClaims(snapshot=snapshot, stack=stack, services=self.services)
        found, warnings = await claims.find(), list_excluded(claims)
        if len(found) > limits.SNAPSHOT_VOLUMES:
            message = (
                f"Stack {stack.name} has more than {limits.SNAPSHOT_VOLUMES} PersistentVolumeClaims, which is the limit "
                f"of one StackSnapshot; divide the Stack"
            )
            return deny("TooManyVolumes", message)
        if found and not await self._has_volume_snapshots():
            listed = enumerate_names([each.claim for each in found])
            warnings.append(f"{stack_snapshots.NOT_SERVED}, so the data of {listed} is not included")
            found = ()
        return ObservedStack(uid=stack.uid, revision=revision, account=account, claims=found, warnings=tuple(warnings))

    async def _has_volume_snapshots(self) -> bool:
        """Return whether the cluster serves VolumeSnapshots. A known absence may be outdated."""
        cluster = self.services.workload_cluster
        if stack_snapshots.find_volume_kind(cluster) is None:
            await cluster.refresh_kinds()
        return stack_snapshots.find_volume_kind(cluster) is not None


def deny(reason: str, message: str) -> ObservedStack:
    """Return a Stack that cannot be bound now."""
    return ObservedStack(problem=SnapshotProblem(reason=reason, message=message))


def find_settled_revision(stack: StackObject, reconciler: StackReconciler | None) -> int | None:
    """Return the completed revision if no action is in progress, otherwise None."""
    planner = reconciler.planner if reconciler is not None else None
    if reconciler is None or planner is None or planner.blueprint.is_unknown or planner.kinds.unsynced:
        return None
    target = reconciler.definition.targets.current
    if target is None or target.revision == EMPTY_REVISION or reconciler.definition.has_unprocessed_spec(stack):
        return None
    is_settled = target.is_completed and target.started_at is None
    return target.revision if is_settled else None


def list_excluded(claims: StackClaims) -> list[str]:
    """Return warnings about volumes that are not included: of nested Stacks, of groups, and claims of other owners."""
    nested = [child.name for child in claims.list_children(STACK)]
    groups = [child.name for child in claims.list_children(GROUP)]
    found = []
    if nested:
        found.append(f"nested Stacks are not included: {enumerate_names(nested)}; create a StackSnapshot of each")
    if groups:
        found.append(f"volumes of ResourceGroups are not included: {enumerate_names(groups)}")
    if claims.foreign:
        found.append(
            f"claims that were not created by the StatefulSets are not included: {enumerate_names(claims.foreign)}"
        )
    return found


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StackClaims:
    """The claims of one Stack for one StackSnapshot: its children, and the claims that its StatefulSets create."""

    snapshot: StackSnapshotObject
    stack: StackObject
    services: Services
    foreign: list[str] = field(default_factory=list)
    """Claims that are named like those of a StatefulSet but were not created by it. Set by `find`, whose result omits
    them."""

    async def find(self) -> tuple[SnapshotVolume, ...]:
        """Return all claims, at most one more than a snapshot may have.

        Raises `ApiStatusError` or `Unreachable`, and `TooManyMissing` if the search takes too long.
        """
        found = [
            self._make(child.namespace, child.name, resource=child.resource) for child in self.list_children(CLAIM)
        ]
        known = {(each.namespace, each.claim) for each in found}
        cluster = self.services.find_cluster(self.stack)
        kind, misses = cluster.kinds.find(VOLUME_CLAIM.api_version, VOLUME_CLAIM.name), Misses()
        for child in self.list_children(STATEFUL_SET):
            live = await stateful_set_claims.find_live(cluster, child.ref, kind=child.kind)
            if live is None or kind is None:
                continue
            for template in stateful_set_claims.list_templates(live):
                of_set, others = await stateful_set_claims.find_claims(
                    cluster, live, template, kind=kind, misses=misses
                )
                self.foreign.extend(name for name in others if (child.namespace, name) not in known)
                for name in of_set:
                    if len(found) > limits.SNAPSHOT_VOLUMES:
                        return tuple(found)
                    if (child.namespace, name) not in known:
                        found.append(self._make(child.namespace, name, resource=child.resource, is_of_set=True))
        return tuple(found)

    def list_children(self, wanted: tuple[str, str]) -> Iterator[Child]:
        """List the children of a group and kind, in a stable order."""
        by_resource = self.services.find_children_cluster(self.stack.uid).children(self.stack.uid)
        for _resource, children in sorted(by_resource.items()):
            for child in children:
                if (child.kind.group, child.kind.name) == wanted and child.is_identified and not child.deleting:
                    yield child

    def _make(self, namespace: str, claim: str, *, resource: str, is_of_set: bool = False) -> SnapshotVolume:
        name = names.volume_snapshot_name(
            snapshot=self.snapshot.name, snapshot_uid=self.snapshot.uid, namespace=namespace, claim=claim
        )
        return SnapshotVolume(
            claim=claim, namespace=namespace, resource=resource, snapshot=name, is_of_stateful_set=is_of_set
        )
