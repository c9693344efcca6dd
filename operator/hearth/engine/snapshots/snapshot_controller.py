"""Controller of StackSnapshots: binds each to a revision, creates its VolumeSnapshots, and deletes them with it.

It runs alongside the reconciles and writes no children. `hearth.plan.snapshot_decision` decides on each snapshot from
live state only, so the controller can lose its in-memory state at any time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from hearth import answers
from hearth.engine import stack_snapshots
from hearth.engine.cluster_objects import StackObject, StackSnapshotObject
from hearth.engine.services import Services
from hearth.engine.snapshots.stack_observation import StackObserver
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.stack_snapshots import VolumeSnapshots
from hearth.engine.writes import step_execution
from hearth.engine.writes.object_loop import ObjectLoop
from hearth.engine.writes.step_execution import StepDone, StepExecutor
from hearth.model import growing_delay, limits, names, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.text import hidden_texts
from hearth.plan import snapshot_decision
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.snapshot_decision import (
    ObservedStack,
    ObservedVolume,
    ParsedSnapshot,
    SnapshotDecision,
    SnapshotMemory,
    SnapshotPhase,
    SnapshotProblem,
    SnapshotVolume,
    VolumeState,
)
from hearth.plan.state.steps import CreatePart, DeletePart
from hearth.plan.status import status_changes

logger = structlog.get_logger(__name__)

POLL, LONGEST_POLL = 2.0, 60.0
"""Seconds between two checks of a waiting snapshot, doubled each time. The checks are a safeguard: normally, the
watches of Stacks and VolumeSnapshots report the awaited events, if the operator may watch them."""
StackKey: TypeAlias = tuple[str, str]
"""Namespace and name of a Stack."""


class SnapshotController:
    """The only writer of StackSnapshot statuses and of their VolumeSnapshots."""

    def __init__(
        self,
        services: Services,
        *,
        find_reconciler: Callable[[str], StackReconciler | None],
        on_limit: Callable[[str], None],
    ) -> None:
        self._services = services
        self._stacks = StackObserver(services=services, find_reconciler=find_reconciler)
        self._slots = SnapshotSlots(on_limit)
        self._loop = ObjectLoop(
            where="stack_snapshot", advance=self._process, enqueue=self._enqueue, clock=services.clock
        )
        self._looks: Counter[str] = Counter()
        """Number of checks since the last change, by snapshot."""
        self._unreported: set[str] = set()
        """Snapshots that changed after the Stacks that wait for them were last notified."""
        self._names: dict[str, tuple[str, str]] = {}
        """Namespace and name of each Stack with snapshots, by UID."""

    def start(self) -> None:
        """Start the controller and enqueue every snapshot. Those with a revision come first, to keep their slots."""
        self._loop.start()
        uids = self._services.snapshots.snapshots()
        self.enqueue(sorted(uids, key=lambda uid: not self._has_revision(uid)))

    async def stop(self) -> None:
        """Stop at once."""
        await self._loop.stop()

    def find_stall(self) -> str:
        """Explain why no StackSnapshot is processed if processing has stalled."""
        return self._loop.find_stall()

    def enqueue(self, uids: Collection[str]) -> None:
        """Enqueue snapshots that changed, or whose VolumeSnapshots changed."""
        self._unreported.update(uids)
        self._reconcile_now(uids)

    def _reconcile_now(self, uids: Collection[str]) -> None:
        """Enqueue snapshots whose Stack changed. It is not notified of that: it would sync and enqueue them again."""
        for uid in uids:
            self._looks.pop(uid, None)
            self._enqueue(uid)

    def _enqueue(self, uid: str) -> None:
        snapshot = self._services.snapshots.find_snapshot(uid)
        self._loop.enqueue(snapshot.namespace if snapshot is not None else "", uid)

    def on_reconcile(self, stack: StackObject) -> None:
        """Enqueue the snapshots that wait for the Stack. Costs one lookup without snapshots."""
        if stack.is_group:
            return
        found = self._services.snapshots.snapshots_of(stack.namespace, stack.owner_key)
        if found:
            self._names[stack.uid] = (stack.namespace, stack.owner_key)
            self._reconcile_now([each.uid for each in found if stack.deleting or "revision" not in each.status])

    def forget(self, stack_uid: str) -> None:
        """Enqueue the snapshots of a deleted Stack."""
        where = self._names.pop(stack_uid, None)
        if where is not None:
            self._reconcile_now([each.uid for each in self._services.snapshots.snapshots_of(*where)])

    def _has_revision(self, uid: str) -> bool:
        snapshot = self._services.snapshots.find_snapshot(uid)
        return snapshot is not None and "revision" in snapshot.status

    async def _process(self, uid: str) -> bool:
        """Take one step; after the last one, notify the Stacks that wait for the snapshot if it changed."""
        self._loop.cancel(uid)
        is_next = await self._advance(uid)
        if is_next:
            self._unreported.add(uid)
        elif uid in self._unreported:
            self._unreported.discard(uid)
            self._stacks.notify(uid)
        return is_next

    async def _advance(self, uid: str) -> bool:
        """Take one step; return whether another one can follow immediately."""
        snapshot = self._services.snapshots.find_snapshot(uid)
        if snapshot is None:
            self._forget(uid)
            return False
        state = stack_snapshots.parse_snapshot(snapshot, self._services.hashes)
        if not self._stacks.is_responsible(snapshot, SnapshotMemory() if state.is_restored else state.memory):
            return False
        if state.is_deleting:
            return await self._carry_out(snapshot, state, await self._decide_deletion(snapshot, state))
        if state.is_restored:
            return await self._carry_out(snapshot, state, await self._decide_restored(snapshot, state))
        if state.memory.is_bound:
            self._slots.admit(snapshot, is_bound=True)
            self._names[state.memory.stack_uid] = (snapshot.namespace, snapshot.owner_key)
            return await self._carry_out(snapshot, state, await self._decide_progress(snapshot, state))
        return await self._carry_out(snapshot, state, await self._decide_binding(snapshot, state))

    async def _decide_binding(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> SnapshotDecision:
        if self._slots.admit(snapshot, is_bound=False):
            stack = await self._stacks.observe(snapshot)
        else:
            stack = ObservedStack(problem=explain(names.describe_owner(snapshot.owner_key)))
        return snapshot_decision.decide_binding(parsed, stack, now=self._services.clock.now())

    async def _decide_restored(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> SnapshotDecision:
        """Decide on a complete snapshot that lost its status, once its Stack exists."""
        stack, now = self._stacks.find_stack(snapshot), self._services.clock.now()
        if stack is None:
            waiting = dataclasses.replace(parsed, memory=SnapshotMemory())
            return snapshot_decision.decide_binding(waiting, await self._stacks.observe(snapshot), now=now)
        bound = stack_snapshots.bind_to_successor(parsed, stack, self._services)
        _, observed = await self._observe_volumes(snapshot, bound)
        return snapshot_decision.decide_restored(bound, self._stacks.observe_bound(bound.memory), observed, now=now)

    async def _record_content(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> None:
        """Write the annotation that keeps a complete snapshot complete if it is restored from a backup."""
        if stack_snapshots.parse_content(snapshot, self._services.hashes) is not None:
            return
        content = stack_snapshots.sign_content(snapshot, parsed.memory, self._services.hashes)
        if not content or content == snapshot.content:
            return
        if error := await answers.find_error(self._services.snapshots.write_snapshot_content(snapshot, content)):
            logger.warning("cannot annotate a complete StackSnapshot", snapshot=snapshot.uid, error=str(error))
            if not isinstance(error, ApiStatusError) or error.is_conflict or error.code >= 500:
                self._look_later(snapshot.uid)

    async def _decide_progress(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> SnapshotDecision:
        """Decide on a bound snapshot; first create the VolumeSnapshots that are missing."""
        stack, now = self._stacks.observe_bound(parsed.memory), self._services.clock.now()
        if parsed.memory.phase is SnapshotPhase.COMPLETE:
            await self._record_content(snapshot, parsed)
            return snapshot_decision.decide_progress(parsed, stack, (), now=now)
        volumes, observed = await self._observe_volumes(snapshot, parsed)
        decision = snapshot_decision.decide_progress(parsed, stack, observed, now=now)
        if not decision.create:
            return decision
        writes = self._find_writes(volumes, parsed)
        errors = {
            each: await writes.create(each, stack=names.split_owner(snapshot.owner_key)[1]) for each in decision.create
        }
        observed = [await self._observe_created(volumes, each, errors) for each in observed]
        return snapshot_decision.decide_progress(parsed, stack, observed, now=now)

    async def _observe_volumes(
        self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot
    ) -> tuple[VolumeSnapshots, list[ObservedVolume]]:
        """Return the VolumeSnapshots of a snapshot and their states; watch them from now on."""
        volumes = self._find_volumes(snapshot, parsed)
        if volumes.kind is not None:
            self._services.snapshots.watch_volumes(volumes.kind)
        return volumes, [await volumes.observe(each) for each in parsed.memory.volumes]

    async def _observe_created(
        self, volumes: VolumeSnapshots, before: ObservedVolume, errors: dict[SnapshotVolume, ObservedVolume | None]
    ) -> ObservedVolume:
        """Return the state of a VolumeSnapshot after the creations; never absent."""
        if before.volume not in errors:
            return before
        found = await volumes.observe(before.volume, observed_error=errors[before.volume])
        if found.state is VolumeState.ABSENT:
            return ObservedVolume(volume=before.volume, state=VolumeState.UNKNOWN)
        return found

    async def _decide_deletion(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> SnapshotDecision:
        """Decide on a snapshot that is being deleted; first delete its VolumeSnapshots."""
        is_being_restored = self._stacks.is_being_restored(snapshot, parsed.memory)
        if is_being_restored is None:
            return snapshot_decision.NOTHING
        if is_being_restored:
            message = f"waits until {names.describe_owner(snapshot.owner_key)} is restored from this StackSnapshot"
            return snapshot_decision.decide_blocked(parsed, message, now=self._services.clock.now())
        volumes = self._find_volumes(snapshot, parsed)
        now, wanted = self._services.clock.now(), () if parsed.retains else parsed.memory.volumes
        observed = [await volumes.observe(each) for each in wanted]
        decision = snapshot_decision.decide_deletion(parsed, observed, is_namespace_terminating=False, now=now)
        if decision.delete:
            writes = self._find_writes(volumes, parsed)
            errors = {each: await writes.delete(each) for each in decision.delete}
            observed = [await self._observe_deleted(volumes, each, errors) for each in observed]
        is_unknown = any(each.state is VolumeState.UNKNOWN for each in observed)
        is_terminating = is_unknown and await self._services.is_terminating(snapshot.namespace)
        return snapshot_decision.decide_deletion(parsed, observed, is_namespace_terminating=is_terminating, now=now)

    async def _observe_deleted(
        self, volumes: VolumeSnapshots, before: ObservedVolume, errors: dict[SnapshotVolume, str]
    ) -> ObservedVolume:
        """Return the state of a VolumeSnapshot after the deletions."""
        error = errors.get(before.volume)
        if error:
            return ObservedVolume(volume=before.volume, state=VolumeState.UNKNOWN, message=error)
        if error is None:
            return before
        found = await volumes.observe(before.volume)
        has_object = found.state not in (VolumeState.ABSENT, VolumeState.OTHER)
        return ObservedVolume(volume=found.volume, state=found.state, is_deleting=has_object)

    def _find_volumes(self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot) -> VolumeSnapshots:
        """Return the VolumeSnapshots of a snapshot, as the account of its Stack accesses them, now or in the past."""
        stack = self._services.management_cluster.find_stack(parsed.memory.stack_uid)
        account = stack.service_account if stack is not None else parsed.memory.account
        boundary = self._services.tenancy.find_boundary(snapshot.namespace, account)
        cluster = self._services.workload_cluster.acting_as(boundary.user)
        hashes = self._services.hashes
        return VolumeSnapshots(
            snapshot=snapshot, memory=parsed.memory, cluster=cluster, boundary=boundary, hashes=hashes
        )

    def _find_writes(self, volumes: VolumeSnapshots, parsed: ParsedSnapshot) -> VolumeWrites:
        """Return the writes of the VolumeSnapshots, by the same account."""
        executor = step_execution.make_part_executor(
            parsed.memory.stack_uid, cluster=volumes.cluster, boundary=volumes.boundary, services=self._services
        )
        return VolumeWrites(volumes=volumes, executor=executor)

    async def _carry_out(
        self, snapshot: StackSnapshotObject, parsed: ParsedSnapshot, decision: SnapshotDecision
    ) -> bool:
        """Write the finalizer or the status; return whether anything was written."""
        is_settled = parsed.memory.phase is SnapshotPhase.COMPLETE and not (parsed.is_deleting or parsed.is_restored)
        others = [each for each in snapshot.finalizers if each != names.SNAPSHOT_FINALIZER]
        try:
            if decision.add_finalizer or decision.remove_finalizer:
                wanted = [*others, *([names.SNAPSHOT_FINALIZER] if decision.add_finalizer else [])]
                await self._services.snapshots.write_snapshot_finalizers(snapshot, wanted)
                return True
            if decision.status is not None and await self._write(snapshot, decision.status):
                return True
        except (ApiStatusError, Unreachable) as error:
            logger.warning(
                "cannot write a StackSnapshot", snapshot=snapshot.uid, stack=name_stack(snapshot), error=str(error)
            )
            is_settled = False
        if not is_settled and (not parsed.is_deleting or parsed.has_finalizer):
            self._look_later(snapshot.uid)
        return False

    async def _write(self, snapshot: StackSnapshotObject, status: Object) -> bool:
        """Write the status if it differs; return whether it was written."""
        status = hidden_texts.redact_messages(status, name_stack(snapshot))
        signed = stack_snapshots.sign_status(snapshot, status, self._services.hashes)
        patch = status_changes.find_changes(snapshot.status, signed)
        if patch:
            await self._services.snapshots.write_snapshot_status(snapshot, patch)
        return bool(patch)

    def _look_later(self, uid: str) -> None:
        """Schedule the next check of a waiting snapshot."""
        delay = growing_delay.find(self._looks[uid] + 1, first=POLL, longest=LONGEST_POLL)
        self._looks[uid] += 1
        self._loop.enqueue_later(uid, delay)

    def _forget(self, uid: str) -> None:
        """Drop a deleted snapshot."""
        self._looks.pop(uid, None)
        self._unreported.discard(uid)
        self._loop.cancel(uid)
        follower = self._slots.release(uid)
        if follower is not None:
            self._enqueue(follower)


@dataclass(slots=True)
class SnapshotSlots:
    """The admitted snapshots, in the order they were seen."""

    on_limit: Callable[[str], None]
    _admitted: dict[StackKey, set[str]] = field(default_factory=dict)
    _refused: dict[StackKey, dict[str, None]] = field(default_factory=dict)
    _stacks: dict[str, StackKey] = field(default_factory=dict)
    """The Stack of each snapshot, by UID of the snapshot."""

    def admit(self, snapshot: StackSnapshotObject, *, is_bound: bool) -> bool:
        """Return whether the snapshot is admitted. A bound one always is, because it already pins a revision."""
        key = self._stacks.setdefault(snapshot.uid, (snapshot.namespace, snapshot.owner_key))
        admitted = self._admitted.setdefault(key, set())
        if not is_bound and snapshot.uid not in admitted and len(admitted) >= limits.SNAPSHOTS_PER_STACK:
            refused = self._refused.setdefault(key, {})
            if snapshot.uid not in refused:
                refused[snapshot.uid] = None
                self.on_limit("stack-snapshots")
            return False
        admitted.add(snapshot.uid)
        self._refused.get(key, {}).pop(snapshot.uid, None)
        return True

    def release(self, uid: str) -> str | None:
        """Release the slot of a deleted snapshot; return the UID of one that may use it."""
        key = self._stacks.pop(uid, None)
        if key is None:
            return None
        admitted, refused = self._admitted.get(key, set()), self._refused.get(key, {})
        admitted.discard(uid)
        refused.pop(uid, None)
        if not admitted:
            self._admitted.pop(key, None)
        if not refused:
            self._refused.pop(key, None)
            return None
        return next(iter(refused)) if len(admitted) < limits.SNAPSHOTS_PER_STACK else None


def explain(owner: str) -> SnapshotProblem:
    """Explain why a snapshot is not admitted."""
    message = (
        f"{owner} has {limits.SNAPSHOTS_PER_STACK} StackSnapshots, which is the limit; this one is taken when there "
        "is room; delete StackSnapshots that are no longer needed"
    )
    return SnapshotProblem(reason="TooManySnapshots", message=message)


def name_stack(snapshot: StackSnapshotObject) -> str:
    """Return `namespace/name` of the Stack that the snapshot refers to."""
    return f"{snapshot.namespace}/{names.split_owner(snapshot.owner_key)[1]}"


# Writes of VolumeSnapshots, each as a step. No rule of a Stack prevents them, because the user who creates or deletes
# the StackSnapshot requests them, and the Stack may no longer exist.


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeWrites:
    """The writes of the VolumeSnapshots of one StackSnapshot."""

    volumes: VolumeSnapshots
    executor: StepExecutor
    """Executes steps with the account of the Stack."""

    async def create(self, volume: SnapshotVolume, *, stack: str) -> ObservedVolume | None:
        """Create a VolumeSnapshot; return why that failed, or None. An existing object with that name stays unchanged."""
        kind = self.volumes.kind
        if kind is None:
            return None
        manifest = self.volumes.make_manifest(volume, stack=stack)
        result = await self.executor.execute_step(CreatePart(resource=volume.resource, kind=kind, manifest=manifest))
        if isinstance(result, StepDone):
            return None
        is_refused = result.is_final or result.code in stack_snapshots.REFUSALS
        state = VolumeState.FAILED if is_refused else VolumeState.UNKNOWN
        return ObservedVolume(volume=volume, state=state, message=result.message)

    async def delete(self, volume: SnapshotVolume) -> str:
        """Delete a VolumeSnapshot that is proven to belong to this StackSnapshot; return why that failed, or ""."""
        kind = self.volumes.kind
        if kind is None:
            return ""
        live = await answers.try_request(self.volumes.find_live(volume, kind=kind))
        if live is None or (isinstance(live, ApiStatusError) and live.is_not_found):
            return ""
        if isinstance(live, answers.REQUEST_ERRORS):
            return str(live)
        result = await self.executor.execute_step(DeletePart(resource=volume.resource, kind=kind, live=live))
        return result.message if isinstance(result, StepFailure) else ""
