"""Replacement of the claims of StatefulSets in a restore, while all workloads of the Stack are suspended.

Acts as the account of the Stack. `hearth.plan.target.volume_restore` decides on each claim from the live object, so
an interrupted restore continues with the claims that are left. A claim must be deleted before another one can have its
name, so its data is kept in a VolumeSnapshot until the Stack is ready: it would be lost if the restore failed. These copies
are named by the restore alone, so an operator that stops at any point continues with the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from hearth.engine import stack_snapshots, stateful_set_claims
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import ClusterRequests, WorkloadCluster
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, SnapshotNotUsable, Unreachable
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.state import requirements
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.plan.target.volume_restore import ClaimStep

logger = structlog.get_logger(__name__)

SOON = 1.0
"""Seconds until a claim that is being deleted is read again; doubled as long as the restore waits for the same."""
RETRY = 10.0
"""At most, and after a rejected or lost request."""
PURPOSE = "kept claim data"
BOUND = "Bound"


class SetClaims(StackPart):
    """The claims of one Stack's StatefulSets during a restore."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self.problem = ""
        """What the restore waits for; "" for nothing."""
        self.restored = ""
        """The token of the restore whose claims are all replaced."""
        self._waiting = ""
        """What the first claim waits for that is not merely about to go; "" for nothing."""
        self._pause = SOON
        """Seconds until the claims are read again."""
        self._dropped = ""
        """The token of the restore whose copies of the former data are deleted."""

    def are_replaced(self, request: RollbackRequest) -> bool:
        """Return whether no claim of a StatefulSet is left to replace."""
        return self.restored == request.token or not any(each.claim for each in request.claims)

    def has_copies(self, request: RollbackRequest) -> bool:
        """Return whether copies of the former data may be left."""
        return self._dropped != request.token and any(each.claim for each in request.claims)

    async def drop_copies(self) -> None:
        """Delete the copies of the former data after a restore; enqueue the Stack. One that cannot be deleted stays."""
        stack, target = self._services.management_cluster.find_stack(self._uid), self._definition_sync.targets.current
        request = target.restore if target is not None else None
        if stack is None or request is None:
            return
        kept = self._make_kept(stack, request)
        for each in request.claims:
            try:
                stateful_set = await self._find_set(stack, each, kept.cluster) if each.claim else None
                if stateful_set is not None:
                    await kept.drop(stateful_set["metadata"]["namespace"], each.claim)
            except (ApiStatusError, SnapshotNotUsable) as error:
                logger.warning("cannot delete a copy of replaced data", stack=self._uid, error=str(error))
            except Unreachable:
                self._services.enqueue_after(RETRY, self._uid, DirtyScope.STACK)
                return
        self._dropped = request.token
        self._services.queue.enqueue(self._uid, DirtyScope.STACK)

    def _make_kept(self, stack: StackObject, request: RollbackRequest) -> KeptData:
        return KeptData(
            stack=stack, cluster=self._services.find_cluster(stack), hashes=self._services.hashes, token=request.token
        )

    async def replace(self) -> None:
        """Replace claims as far as possible now; enqueue the Stack when more is possible or all is done."""
        stack, target = self._services.management_cluster.find_stack(self._uid), self._definition_sync.targets.current
        request = target.restore if target is not None else None
        if stack is None or request is None or not self._definition_sync.is_halting:
            return
        self._waiting = ""
        try:
            left = [
                each.claim for each in request.claims if each.claim and not await self._replace(stack, each, request)
            ]
        except (ApiStatusError, Unreachable, SnapshotNotUsable) as error:
            self.problem = f"cannot replace the claims of StatefulSets: {error}; the operator retries"
            logger.warning("cannot replace a claim", stack=self._uid, error=str(error))
            self._services.enqueue_after(RETRY, self._uid, DirtyScope.STACK)
            return
        problem = (self._waiting or f"waits until persistentvolumeclaim/{left[0]} is replaced") if left else ""
        self._pause = min(2 * self._pause, RETRY) if problem == self.problem else SOON
        self.problem = problem
        if not left:
            self.restored = request.token
        self._services.enqueue_after(self._pause if left else 0.0, self._uid, DirtyScope.STACK)

    async def _replace(self, stack: StackObject, claim: RestoredClaim, request: RollbackRequest) -> bool:
        """Take the next step for one claim; return whether it is replaced. Raises `ApiStatusError` or `Unreachable`."""
        cluster = self._services.find_cluster(stack)
        kind = cluster.kinds.find("v1", "PersistentVolumeClaim")
        stateful_set = await self._find_set(stack, claim, cluster)
        template = volume_restore.find_claim_template(stateful_set, claim.claim) if stateful_set is not None else None
        if kind is None or stateful_set is None or template is None:
            self._waiting = self._waiting or f"no StatefulSet of resource {claim.resource} has a claim {claim.claim}"
            return False
        namespace = stateful_set["metadata"]["namespace"]
        ref = ObjectRef(group="", kind=kind.name, namespace=namespace, name=claim.claim)
        if self._services.find_boundary(stack).find_denial(ref):
            return False
        live = await stateful_set_claims.find_live(cluster, ref, kind=kind)
        match volume_restore.find_claim_step(claim, request, live):
            case ClaimStep.DONE:
                return True
            case ClaimStep.DELETE if live is not None:
                if foreign := volume_restore.explain_foreign_claim(live, stateful_set):
                    self._waiting = self._waiting or (
                        f"persistentvolumeclaim/{claim.claim} {foreign}, so its data is not replaced; delete it, or restore from another snapshot"
                    )
                    return False
                if waiting := await self._make_kept(stack, request).keep(live):
                    self._waiting = self._waiting or waiting
                    return False
                await cluster.delete_object(dict(live), kind=kind)
            case ClaimStep.CREATE:
                least = await find_size(cluster, namespace, claim.snapshot)
                manifest = volume_restore.make_claim(
                    claim, request, stateful_set=stateful_set, template=template, least=least
                )
                await cluster.create_object(manifest, kind=kind)
                return True
        return False

    async def _find_set(
        self, stack: StackObject, claim: RestoredClaim, cluster: ClusterRequests
    ) -> Mapping[str, Any] | None:
        """Return the live StatefulSet that uses the claim."""
        children = self._services.find_children_cluster(stack.uid).children_of(stack.uid, claim.resource)
        child = requirements.find_current(children)
        return await stateful_set_claims.find_live(cluster, child.ref, kind=child.kind) if child is not None else None


async def find_size(cluster: WorkloadCluster, namespace: str, name: str) -> str:
    """Return the size that a VolumeSnapshot needs, "" if unknown."""
    kind = stack_snapshots.find_volume_kind(cluster)
    if kind is None:
        return ""
    ref = stack_snapshots.make_volume_ref(namespace, name)
    live = await stateful_set_claims.find_live(cluster, ref, kind=kind)
    return str(((live or {}).get("status") or {}).get("restoreSize") or "")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KeptData:
    """The copies of one restore."""

    stack: StackObject
    cluster: WorkloadCluster
    """The cluster as the account of the Stack accesses it."""
    hashes: HashFunction
    token: str
    """Of the restore."""

    async def keep(self, claim: Mapping[str, Any]) -> str:
        """Return what the copy of a live claim waits for; "" once it is complete. Raises as the port says."""
        if (claim.get("status") or {}).get("phase") != BOUND:
            # It has no volume, so there is no data.
            return ""
        kind, ref = self._find_kind(), self._make_ref(claim["metadata"]["namespace"], claim["metadata"]["name"])
        name = claim["metadata"]["name"]
        live = await stateful_set_claims.find_live(self.cluster, ref, kind=kind)
        if live is None:
            await self.cluster.create_object(self._make_manifest(ref, name), kind=kind)
            return f"waits until volumesnapshot/{ref.name} keeps the present data of persistentvolumeclaim/{name}"
        if not self._is_ours(live, ref, name):
            return f"volumesnapshot/{ref.name} was not created by this restore; delete it"
        status = live.get("status") or {}
        if status.get("readyToUse") is True:
            return ""
        error = status.get("error")
        cause = f": {error.get('message')}" if isinstance(error, dict) else ""
        way_out = "; if that data is not needed, delete the claim" if cause else ""
        return f"waits until volumesnapshot/{ref.name} keeps the present data of persistentvolumeclaim/{name}{cause}{way_out}"

    async def drop(self, namespace: str, claim: str) -> None:
        """Delete the copy of a claim, if there is one. Raises as the port says."""
        kind, ref = self._find_kind(), self._make_ref(namespace, claim)
        live = await stateful_set_claims.find_live(self.cluster, ref, kind=kind)
        if live is not None and self._is_ours(live, ref, claim):
            await self.cluster.delete_object(dict(live), kind=kind)

    def _find_kind(self) -> Kind:
        kind = stack_snapshots.find_volume_kind(self.cluster)
        if kind is None:
            raise SnapshotNotUsable("VolumeSnapshotNotReady", stack_snapshots.NOT_SERVED)
        return kind

    def _make_ref(self, namespace: str, claim: str) -> ObjectRef:
        name = names.shorten(f"{claim}-kept-{self.token}", length=limits.NAME_LENGTH)
        return stack_snapshots.make_volume_ref(namespace, name)

    def _make_manifest(self, ref: ObjectRef, claim: str) -> Object:
        owner = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": names.STACK,
            "name": self.stack.name,
            "uid": self.stack.uid,
        }
        return stack_snapshots.make_volume_snapshot(
            ref,
            claim,
            labels={names.LABEL_STACK: names.stack_label(self.stack.name)},
            signature=self.hashes.sign(PURPOSE, self._describe(ref, claim)),
            # An owner in another namespace would have it deleted at once.
            owners=[owner] if ref.namespace == self.stack.namespace else (),
        )

    def _is_ours(self, live: Mapping[str, Any], ref: ObjectRef, claim: str) -> bool:
        signature = stack_snapshots.find_signature(live, claim)
        return bool(signature) and self.hashes.is_signed(PURPOSE, self._describe(ref, claim), signature)

    def _describe(self, ref: ObjectRef, claim: str) -> list[str]:
        """Return the signed value."""
        return [self.stack.uid, ref.namespace, ref.name, claim]
