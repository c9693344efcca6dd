"""Replaces the claims of StatefulSets during a restore, while all workloads of the Stack are suspended.

Reads as the account of the Stack, and plans each write as a step, so breakpoints and restricted actions apply.
`hearth.plan.target.volume_restore` decides on each claim from the live object, so an interrupted restore continues with
the remaining claims. A claim must be deleted before a new one can take its name. Its data is therefore first copied to
a VolumeSnapshot, which stays until the Stack is ready, in case the restore fails. The name of this copy depends only on
the restore, so a restarted operator continues with the same copy.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import structlog

from hearth.engine import stack_snapshots, stateful_set_claims
from hearth.engine.cluster_objects import StackObject
from hearth.engine.ports import ClusterRequests, WorkloadCluster
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.work_queue import DirtyScope
from hearth.model import growing_delay, limits, names, retry_delays, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.resource import step_planning
from hearth.plan.resource.enforcement import CLAIM_ACTIONS
from hearth.plan.state import requirements
from hearth.plan.state.steps import CreatePart, DeletePart, PartStep
from hearth.plan.target import volume_restore
from hearth.plan.target.target import RestoredClaim, RollbackRequest
from hearth.plan.target.volume_restore import ClaimStep

logger = structlog.get_logger(__name__)

SOON = 1.0
"""Seconds until a claim that is being deleted is read again, doubled while the restore waits for the same claims."""
LONGEST_WAIT = 10.0
"""Maximum of that time."""
OWNER = "claims"
"""The owner of the steps, see `steps.make_part_key`."""
REPLACE, DROP = "replace claims", "drop copies"
PURPOSE = "kept claim data"
BOUND = "Bound"


class SetClaims(StackPart):
    """The claims of one Stack's StatefulSets during a restore. Finds the due steps, which the planner starts."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self.restored = ""
        """The token of the last restore whose claims are all replaced."""
        self._waiting = ""
        """Reason why the restore waits, other than the steps that are due; "" for none."""
        self._looks = 0
        """Number of consecutive looks at claims that wait for the same reason."""
        self._dropped = ""
        """The token of the last restore whose copies of the former data are deleted."""

    @property
    def problem(self) -> str:
        """Reason why the restore waits; "" for none."""
        failure = self._memory.find_part_failure(OWNER)
        cause = failure.message if failure is not None else self._inquiries.find_error(REPLACE)
        return f"cannot replace the claims of StatefulSets: {cause}; the operator retries" if cause else self._waiting

    def are_replaced(self, request: RollbackRequest) -> bool:
        """Return whether no claim of a StatefulSet is left to replace."""
        return self.restored == request.token or not any(each.claim for each in request.claims)

    def has_copies(self, request: RollbackRequest) -> bool:
        """Return whether copies of the former data may be left."""
        return self._dropped != request.token and any(each.claim for each in request.claims)

    def review(self) -> None:
        """Withdraw the steps of a restore that ended."""
        target = self._definition_sync.targets.current
        if target is None or target.restore is None or self._definition_sync.is_deleting:
            self._memory.offer_parts(OWNER, ())

    def drop_copies(self, request: RollbackRequest) -> None:
        """Delete the copies of the former data after a restore. One that cannot be deleted stays."""
        self._inquiries.ask(
            DROP,
            functools.partial(self._find_copies, request),
            functools.partial(self._offer_deletions, request),
            delay=retry_delays.CLAIMS,
        )

    async def _find_copies(self, request: RollbackRequest) -> list[DeletePart]:
        """Return the steps that delete the copies of the former data."""
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return []
        kept, due = self._make_kept(stack, request), list[DeletePart]()
        for each in request.claims:
            try:
                stateful_set = await self._find_set(each, kept.cluster) if each.claim else None
                if stateful_set is not None:
                    due += await kept.find_drop(each, stateful_set["metadata"]["namespace"])
            except ApiStatusError as error:
                logger.warning("cannot delete a copy of replaced data", stack=self._uid, error=str(error))
        return due

    def _offer_deletions(self, request: RollbackRequest, due: list[DeletePart]) -> bool:
        if not due or self._memory.find_part_failure(OWNER) is not None:
            self._dropped, due = request.token, []
        return self._memory.offer_parts(OWNER, due) or not due

    def _make_kept(self, stack: StackObject, request: RollbackRequest) -> KeptData:
        return KeptData(
            stack=stack, cluster=self._services.find_cluster(stack), hashes=self._services.hashes, token=request.token
        )

    def replace(self, request: RollbackRequest) -> None:
        """Find the steps that are due now; enqueue the Stack when there are any, or when all claims are replaced."""
        self._inquiries.ask(
            REPLACE,
            functools.partial(self._make_plans, request),
            functools.partial(self._offer_due, request),
            delay=retry_delays.CLAIMS,
        )

    async def _make_plans(self, request: RollbackRequest) -> list[tuple[RestoredClaim, ClaimPlan]] | None:
        """Return the due work for each claim; None if the restore was withdrawn."""
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None or not self._definition_sync.is_halting:
            return None
        return [(each, await self._plan(stack, each, request)) for each in request.claims if each.claim]

    def _offer_due(self, request: RollbackRequest, plans: list[tuple[RestoredClaim, ClaimPlan]] | None) -> bool:
        if plans is None:
            return False
        left = [(claim, plan) for claim, plan in plans if not plan.is_done]
        waiting = next((plan.waiting for _, plan in left if plan.waiting), "")
        if left and not waiting:
            waiting = f"waits until persistentvolumeclaim/{left[0][0].claim} is replaced"
        self._looks = self._looks + 1 if waiting == self._waiting else 1
        self._waiting = waiting
        if not left:
            self.restored = request.token
        is_news = self._memory.offer_parts(OWNER, [plan.step for _, plan in left if plan.step is not None])
        if not is_news and any(plan.step is None or plan.waiting for _, plan in left):
            # Poll only here: the end of a step, or of the obstacle to it, enqueues the Stack.
            pause = growing_delay.find(self._looks, first=SOON, longest=LONGEST_WAIT)
            self._services.enqueue_after(pause, self._uid, DirtyScope.STACK)
        return is_news or not left

    async def _plan(self, stack: StackObject, claim: RestoredClaim, request: RollbackRequest) -> ClaimPlan:
        """Return the due work for one claim. Raises `ApiStatusError` or `Unreachable`."""
        cluster = self._services.find_cluster(stack)
        kind = cluster.kinds.find("v1", "PersistentVolumeClaim")
        stateful_set = await self._find_set(claim, cluster)
        template = volume_restore.find_claim_template(stateful_set, claim.claim) if stateful_set is not None else None
        if kind is None or stateful_set is None or template is None:
            return ClaimPlan(waiting=f"no StatefulSet of resource {claim.resource} has a claim {claim.claim}")
        namespace = stateful_set["metadata"]["namespace"]
        ref = ObjectRef(group="", kind=kind.name, namespace=namespace, name=claim.claim)
        if self._services.find_boundary(stack).find_denial(ref):
            return ClaimPlan()
        live = await stateful_set_claims.find_live(cluster, ref, kind=kind)
        match volume_restore.find_claim_step(claim, request, live):
            case ClaimStep.DONE:
                return ClaimPlan(is_done=True)
            case ClaimStep.DELETE if live is not None:
                if why := self._find_objection(claim, live, stateful_set):
                    return ClaimPlan(waiting=f"persistentvolumeclaim/{claim.claim} {why}")
                kept = await self._make_kept(stack, request).keep(claim, live)
                if kept is not None:
                    return kept
                step = DeletePart(resource=claim.resource, kind=kind, live=dict(live), actions=CLAIM_ACTIONS)
                return ClaimPlan(step=step)
            case ClaimStep.CREATE:
                least = await find_size(cluster, namespace, claim.snapshot)
                manifest = volume_restore.make_claim(
                    claim, request, stateful_set=stateful_set, template=template, least=least
                )
                return ClaimPlan(step=CreatePart(resource=claim.resource, kind=kind, manifest=manifest))
        return ClaimPlan()

    def _find_objection(self, claim: RestoredClaim, live: Mapping[str, Any], stateful_set: Mapping[str, Any]) -> str:
        """Return why a claim must not be deleted, and what to do, or "" if it may."""
        if foreign := volume_restore.explain_foreign_claim(live, stateful_set):
            return f"{foreign}, so its data is not replaced; delete it, or restore from another snapshot"
        child, blueprint = self._find_child(claim), self._definition_sync.blueprint
        if child is not None and blueprint is not None and step_planning.is_retained(child, blueprint):
            return f"is kept, since {step_planning.explain_retained_data(child)}"
        return ""

    def _find_child(self, claim: RestoredClaim) -> Child | None:
        """Return the object of the claim's resource as the cache has it."""
        children = self._services.find_children_cluster(self._uid).children_of(self._uid, claim.resource)
        return requirements.find_current(children)

    async def _find_set(self, claim: RestoredClaim, cluster: ClusterRequests) -> Mapping[str, Any] | None:
        """Return the live StatefulSet that uses the claim."""
        child = self._find_child(claim)
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
class ClaimPlan:
    """The due work for one claim."""

    step: PartStep | None = None
    waiting: str = ""
    """Why the claim has to wait; "" if it is simply about to be deleted."""
    is_done: bool = False
    """Whether the claim is replaced."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KeptData:
    """The copies of the data that one restore replaces."""

    stack: StackObject
    cluster: WorkloadCluster
    """The cluster as the account of the Stack accesses it."""
    hashes: HashFunction
    token: str
    """The token of the restore."""

    async def keep(self, restored: RestoredClaim, claim: Mapping[str, Any]) -> ClaimPlan | None:
        """Return the next step for the copy of a live claim; None once it is complete. Raises the errors of the port."""
        if (claim.get("status") or {}).get("phase") != BOUND:
            # The claim has no volume, so there is no data to keep.
            return None
        ref, name = self._make_ref(claim["metadata"]["namespace"], claim["metadata"]["name"]), claim["metadata"]["name"]
        kind = stack_snapshots.find_volume_kind(self.cluster)
        if kind is None:
            return ClaimPlan(
                waiting=f"cannot keep the data of persistentvolumeclaim/{name}: {stack_snapshots.NOT_SERVED}"
            )
        live = await stateful_set_claims.find_live(self.cluster, ref, kind=kind)
        waits = f"waits until volumesnapshot/{ref.name} keeps the present data of persistentvolumeclaim/{name}"
        if live is None:
            step = CreatePart(resource=restored.resource, kind=kind, manifest=self._make_manifest(ref, name))
            return ClaimPlan(step=step, waiting=waits)
        if not self._is_ours(live, ref, name):
            return ClaimPlan(waiting=f"volumesnapshot/{ref.name} was not created by this restore; delete it")
        status = live.get("status") or {}
        if status.get("readyToUse") is True:
            return None
        error = status.get("error")
        cause = f": {error.get('message')}" if isinstance(error, dict) else ""
        way_out = "; if that data is not needed, delete the claim" if cause else ""
        return ClaimPlan(waiting=f"{waits}{cause}{way_out}")

    async def find_drop(self, restored: RestoredClaim, namespace: str) -> list[DeletePart]:
        """Return the step that deletes the copy of a claim; none if there is no copy. Raises the port's errors."""
        kind, ref = stack_snapshots.find_volume_kind(self.cluster), self._make_ref(namespace, restored.claim)
        if kind is None:
            return []
        live = await stateful_set_claims.find_live(self.cluster, ref, kind=kind)
        if live is None or "deletionTimestamp" in live["metadata"] or not self._is_ours(live, ref, restored.claim):
            return []
        return [DeletePart(resource=restored.resource, kind=kind, live=dict(live))]

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
