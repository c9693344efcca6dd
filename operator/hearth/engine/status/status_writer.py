"""Writes Stack statuses and their Events: the first change immediately, further ones at most once per interval."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import structlog

from hearth import answers, supervision
from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Services
from hearth.engine.stack import faults
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import DirtyScope
from hearth.engine.writes.fair_executor import FairExecutor
from hearth.model import retry_delays, value_class
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.phases import ConditionType
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.status import conditions, stack_notices, status_builder, status_changes
from hearth.plan.target import target_status

logger = structlog.get_logger(__name__)

WRITERS = 16
"""Status writes in flight. They are separate from steps, so neither waits for the other. With half as many, statuses
fall behind in a burst of new Stacks: out of a thousand, 347 complete Stacks stay loaded while they wait for a write,
instead of 153."""
BLOCKED_AFTER = 10.0
"""Seconds that a deletion may be blocked before an Event reports it. Most finalizers take less."""
UNWRITABLE = frozenset({400, 413, 422})
"""Response codes for a status that the API server never accepts: one with too large an output, for example."""
STATUS = "status"
"""The only key of each Stack in the write queue."""
BYTES_PER_SECOND = 50_000
"""Bytes of a Stack's spec per second between two progress-only statuses.

The API server processes the whole Stack at any write. A Stack of 2,000 resources took nearly half a second of CPU.
"""
PROGRESS_WRITES_PER_SECOND = 10
"""Progress-only writes per second of all processes.

No user follows thousands of Stacks at once, and the API server has more important work.
"""
START_GRACE = 1.0
"""Seconds that a Stack must work towards a new target before its status reports it.

Most Stacks are complete by then, and need one status write instead of two. `observedGeneration` distinguishes the two
cases.
"""
START_REPORTED_AFTER = 30.0
"""Seconds after which the start is reported, no matter how many other Stacks are in progress.

A thousand Stacks with four resources each that are created at once take about as long. Any other change is reported
sooner.
"""
REPAIR_GRACE = 1.0
"""Seconds that a complete, large Stack must be at work again before its status reports it.

A repair takes some hundredths of a second. Its two statuses would take longer and delay the next repair.
"""


class Outcome(enum.Enum):
    """Closed set: results of a status update."""

    WRITTEN = "written"
    """The status is up to date."""
    PUT_OFF = "put off"
    FAILED = "failed"
    """The status cannot be written as a whole."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """A planned status update."""

    due: float
    """Monotonic time in seconds."""
    cancel: Callable[[], None]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DeletionBlock:
    """The obstacle to a deletion, with the text of its condition."""

    message: str
    due: float
    """Monotonic time in seconds of the Event; infinite after it was posted."""


@value_class.dataclass(frozen=True, slots=True)
class Look:
    """When a status was built, written or delayed."""

    at: float
    """Monotonic time in seconds."""
    had_outcome: bool
    """Whether the Stack had an outcome: see `StackReconciler`."""


class StatusWriter:
    """The only writer of Stack statuses."""

    def __init__(
        self,
        services: Services,
        *,
        find_reconciler: Callable[[str], StackReconciler | None],
        interval: float,
        on_write: Callable[[str], None] = lambda _stack_uid: None,
        on_settled: Callable[[str], None] = lambda _stack_uid: None,
    ) -> None:
        """interval: minimum seconds between two writes of one Stack's status; on_write: called before each.

        on_settled: called when a status is as it must be, with the UID of the Stack.
        """
        self._services = services
        self._management_cluster = services.management_cluster
        self._clock = services.clock
        self._find_reconciler = find_reconciler
        self._interval = interval
        self._on_write = on_write
        self._on_settled = on_settled
        self._rate_limiter = StatusRateLimiter(interval=interval, processes=services.share.count)
        self._looks: dict[str, Look] = {}
        """The last built status of each Stack, written or delayed."""
        self._planned: dict[str, PlannedWrite] = {}
        self._blockages: dict[str, DeletionBlock] = {}
        """The obstacle to the deletion of each Stack."""
        self._writing: set[str] = set()
        """Stacks whose status is being written."""
        self._owed: dict[str, frozenset[str]] = {}
        """The conditions of each Stack that became True and whose Event waits for the name of a field manager."""
        self._failed_at: dict[str, int] = {}
        """The generation of each Stack whose complete status could not be written."""
        self._executor = FairExecutor(workers=WRITERS, take_step=self._write, clock=services.clock, where="status")

    def start(self) -> None:
        """Start writing."""
        self._executor.start()

    async def stop(self) -> None:
        """Stop at once; the next process writes the remaining statuses."""
        await self._executor.stop()

    def find_stall(self) -> str:
        """Explain why no status is written if writing has stalled."""
        return self._executor.find_stall()

    def request(self, stack_uid: str, *, delay: float = 0.0, is_urgent: bool = False) -> None:
        """Request a status update because its content may have changed.

        delay: seconds until the update is useful; is_urgent: work waits for the write, so the interval does not apply.
        """
        now = self._clock.monotonic()
        due = now + delay
        if not is_urgent:
            due = max(due, self._find_next_look(stack_uid))
        if stack_uid in self._failed_at:
            due = max(due, self._find_retry(stack_uid))
        planned = self._planned.get(stack_uid)
        if planned is not None:
            if planned.due <= due:
                return
            planned.cancel()
        cancel = self._clock.call_later(due - now, lambda: self._offer(stack_uid))
        self._planned[stack_uid] = PlannedWrite(due=due, cancel=cancel)

    def _find_next_look(self, stack_uid: str) -> float:
        """Return the monotonic time in seconds before which the status is not built again."""
        look = self._looks.get(stack_uid)
        if look is None:
            return float("-inf")
        is_start_pending = self._rate_limiter.is_start_pending(stack_uid)
        if (is_start_pending or not look.had_outcome) and self._has_outcome(stack_uid):
            # Progress is built more often than it is written. An outcome only waits for the interval since the last
            # write.
            return float("-inf") if is_start_pending else self._rate_limiter.find_written(stack_uid) + self._interval
        return look.at + self._interval

    def _has_outcome(self, stack_uid: str) -> bool:
        reconciler = self._find_reconciler(stack_uid)
        return reconciler is not None and reconciler.has_outcome

    def is_idle(self, stack_uid: str) -> bool:
        """Return whether the status is written and all its Events are posted."""
        is_busy = stack_uid in self._planned or stack_uid in self._writing or stack_uid in self._failed_at
        return not is_busy and not self._owed.get(stack_uid) and not self._executor.is_queued(stack_uid)

    def forget(self, stack_uid: str) -> None:
        """Drop a deleted Stack."""
        self._rate_limiter.forget(stack_uid)
        self._looks.pop(stack_uid, None)
        self._failed_at.pop(stack_uid, None)
        self._blockages.pop(stack_uid, None)
        self._owed.pop(stack_uid, None)
        planned = self._planned.pop(stack_uid, None)
        if planned is not None:
            planned.cancel()

    def _offer(self, stack_uid: str) -> None:
        self._planned.pop(stack_uid, None)
        self._executor.enqueue(stack_uid, [STATUS], namespace=self._services.find_namespace(stack_uid))

    async def _write(self, stack_uid: str, _key: str) -> None:
        """Write one status per Stack at a time. Otherwise an older one could arrive last and remain."""
        if stack_uid in self._writing:
            self.request(stack_uid, delay=self._interval)
            return
        stack, reconciler = self._management_cluster.find_stack(stack_uid), self._find_reconciler(stack_uid)
        if stack is None or reconciler is None or not (reconciler.is_known or reconciler.is_faulty):
            return
        self._writing.add(stack_uid)
        self._on_write(stack_uid)
        try:
            outcome = await supervision.contain(
                "status", lambda: self._write_changes(stack, reconciler), lambda: Outcome.FAILED, stack=stack_uid
            )
            if outcome is Outcome.FAILED:
                await self._write_without_details(stack, reconciler)
            elif outcome is Outcome.WRITTEN and self._failed_at.pop(stack_uid, None) is not None:
                reconciler.clear_fault(faults.STATUS)
        finally:
            self._writing.discard(stack_uid)
        if outcome is Outcome.WRITTEN:
            self._on_settled(stack_uid)

    def _find_retry(self, stack_uid: str) -> float:
        """Return the monotonic time in seconds of the retry, or 0 if the spec changed."""
        stack, reconciler = self._management_cluster.find_stack(stack_uid), self._find_reconciler(stack_uid)
        if stack is None or reconciler is None or self._failed_at[stack_uid] != stack.generation:
            return 0.0
        return reconciler.faults.find_due(faults.STATUS)

    async def _write_without_details(self, stack: StackObject, reconciler: StackReconciler) -> None:
        """Report at least that the status cannot be built; the complete one is retried later."""
        self._failed_at[stack.uid] = stack.generation
        reconciler.faults.note(faults.STATUS, what=DirtyScope.STACK)
        before = stack.status
        status = status_builder.build_without_details(
            reconciler.make_status_input(is_writable=False), before=before, now=self._clock.now()
        )
        status = self._finish(stack, reconciler, status)
        # All other fields keep their last written values.
        known = {key: before[key] for key in before if key in status or key in target_status.MEMORY}
        patch = status_changes.find_changes(known, status)
        if patch and (error := await answers.find_error(self._management_cluster.write_status(stack, patch))):
            logger.warning("status update failed; retrying", stack=stack.uid, error=str(error))
            return
        reconciler.note_written({**before, **status})

    def _build(self, stack: StackObject, reconciler: StackReconciler, before: Object) -> Object:
        """Build and sign the status."""
        self._services.evaluations.begin(stack.uid)
        status = status_builder.build_status(
            reconciler.make_status_input(),
            reconciler.planner,
            memory=reconciler.memory,
            before=before,
            now=self._clock.now(),
            monotonic=self._clock.monotonic(),
        )
        return self._finish(stack, reconciler, status)

    def _finish(self, stack: StackObject, reconciler: StackReconciler, status: Object) -> Object:
        """Redact, shorten and sign a status that was built."""
        status = status_builder.shorten_status(status_builder.redact_status(status, reconciler.definition.hidden_texts))
        # The signature covers the final content.
        return target_status.sign(status, uid=stack.uid, hashes=self._services.hashes)

    async def _write_changes(self, stack: StackObject, reconciler: StackReconciler) -> Outcome:
        """Write the changed fields of the status."""
        stack_uid = stack.uid
        if self._is_withheld(stack_uid, reconciler):
            return Outcome.PUT_OFF
        if reconciler.is_superseded:
            # The reconcile after the newer spec is processed requests the status again.
            self.request(stack_uid, delay=self._interval)
            return Outcome.PUT_OFF
        before = stack.status
        status, unfinished = self._build(stack, reconciler, before), find_unfinished(reconciler.planner)
        # Outputs may have just requested read rights. Until the answer, they lack values that the account can read.
        if self._is_withheld(stack_uid, reconciler):
            return Outcome.PUT_OFF
        await self._contain_event(lambda: self._warn(stack, status), stack)
        patch = status_changes.find_changes(before, status)
        if not patch:
            self._rate_limiter.clear(stack_uid)
            reconciler.note_written(status)
            return Outcome.WRITTEN
        # Building a status of thousands of resources is too expensive for every reconcile.
        now = self._clock.monotonic()
        self._looks[stack_uid] = Look(now, reconciler.has_outcome)
        if (
            not reconciler.is_status_overdue
            and (wait := self._rate_limiter.find_delay(stack, before, status, now=now)) > 0
        ):
            self.request(stack_uid, delay=wait)
            return Outcome.PUT_OFF
        self._rate_limiter.on_written(stack_uid, now=now)
        if error := await answers.find_error(self._management_cluster.write_status(stack, patch)):
            logger.warning("status update failed; retrying", stack=stack_uid, error=str(error))
            if isinstance(error, ApiStatusError) and error.code in UNWRITABLE:
                return Outcome.FAILED
            self.request(stack_uid, delay=retry_delays.STATUS.find_seconds(retry_after=error.retry_after))
            return Outcome.PUT_OFF
        reconciler.note_written(status)
        latest = self._management_cluster.find_stack(stack_uid)
        if latest is not None and status_changes.find_changes(latest.status, status):
            # Only apparent differences were sent. If an earlier write was lost, more fields differ.
            self.request(stack_uid, delay=self._interval)
        await self._contain_event(lambda: self._post_events(stack, before, status, unfinished=unfinished), stack)
        return Outcome.WRITTEN

    def _is_withheld(self, stack_uid: str, reconciler: StackReconciler) -> bool:
        """Whether the status would contain facts that are not known yet; if so, schedule another check."""
        if (grace := reconciler.cache_sync.grace_left()) > 0:
            self.request(stack_uid, delay=grace)
        return grace > 0

    async def _contain_event(self, emit: Callable[[], Awaitable[None]], stack: StackObject) -> None:
        """Emit an Event without letting a failure block the status write."""
        await supervision.contain("event", emit, lambda: None, stack=stack.uid)

    async def _warn(self, stack: StackObject, status: Mapping[str, Any]) -> None:
        """Emit an Event if the same objects have blocked the deletion for a while."""
        message = conditions.find(status, ConditionType.DELETION_BLOCKED).get("message")
        if message is None:
            self._blockages.pop(stack.uid, None)
            return
        known, now = self._blockages.get(stack.uid), self._clock.monotonic()
        if known is None or known.message != message:
            known = self._blockages[stack.uid] = DeletionBlock(message=message, due=now + BLOCKED_AFTER)
        if known.due > now:
            if known.due < float("inf"):
                self.request(stack.uid, delay=known.due - now)
            return
        self._blockages[stack.uid] = DeletionBlock(message=message, due=float("inf"))
        text = f"the deletion of Stack {stack.namespace}/{stack.name} is blocked: {message}"
        await self._management_cluster.emit_event(
            stack, type_="Warning", reason=ConditionType.DELETION_BLOCKED, message=text
        )

    async def _post_events(
        self, stack: StackObject, before: Mapping[str, Any], after: Mapping[str, Any], *, unfinished: Collection[str]
    ) -> None:
        """Post the Events and notifications that the change deserves. unfinished: see `status_changes.find_conditions`."""
        found, self._owed[stack.uid] = status_changes.find_events(
            before, after, unfinished=unfinished, owed=self._owed.get(stack.uid, ())
        )
        for notice in stack_notices.find_notices(before, after, found):
            self._services.notify(stack, notice)
        for each in found:
            await self._management_cluster.emit_event(
                stack, type_=each.severity, reason=each.reason, message=each.message
            )


def find_unfinished(planner: StackPlanner | None) -> frozenset[str]:
    """Return the types of the conditions whose text still waits for the name of a field manager."""
    if planner is None:
        return frozenset()
    by_type = planner.conditions.by_type
    return frozenset(
        str(type_)
        for type_ in by_type
        if any(condition.query is not None for condition in planner.conditions.first(type_).values())
    )


class StatusRateLimiter:
    """When a change of a Stack is worth a write: times of written and pending statuses, by Stack, in monotonic seconds.

    Real changes are written at once. Progress and short repairs are delayed if the Stack is large or one of many, because each
    write makes the API server process the whole Stack.
    """

    def __init__(self, *, interval: float, processes: int = 1) -> None:
        """interval: seconds between two writes of one Stack's status; a Stack with a longer size-based pause is large.

        processes: number of processes that share the rate.
        """
        self._interval = interval
        self._between = processes / PROGRESS_WRITES_PER_SECOND
        """Seconds between two progress writes of this process."""
        self._written: dict[str, float] = {}
        """Time of the last status write of each Stack."""
        self._turns: dict[str, float] = {}
        """Time of the next allowed progress write of each Stack."""
        self._next_turn = 0.0
        self._setbacks: dict[str, float] = {}
        """Start of the repairs that are not reported yet, by Stack."""
        self._starts: dict[str, float] = {}
        """Start of the work towards new targets that is not reported yet, by Stack."""

    def is_start_pending(self, uid: str) -> bool:
        """Return whether the status does not report yet that the Stack works towards its target."""
        return uid in self._starts

    def find_written(self, uid: str) -> float:
        """Return the time of the last status write; infinitely long ago if there was none."""
        return self._written.get(uid, float("-inf"))

    def find_delay(
        self, stack: StackObject, before: Mapping[str, Any], after: Mapping[str, Any], *, now: float
    ) -> float:
        """Return the seconds until the change is worth a write; 0 or less for now."""
        pause = stack.spec_size / BYTES_PER_SECOND
        if pause > self._interval and status_changes.is_repair_only(before, after):
            return self._setbacks.setdefault(stack.uid, now) + REPAIR_GRACE - now
        if status_changes.is_start_only(before, after):
            begun = self._starts.setdefault(stack.uid, now)
            turn = max(begun + START_GRACE, self._find_turn(stack.uid, now))
            return min(turn, begun + START_REPORTED_AFTER) - now
        if not status_changes.is_progress_only(before, after):
            return 0.0
        paced = self.find_written(stack.uid) + pause
        return max(paced, self._find_turn(stack.uid, now)) - now

    def on_written(self, uid: str, *, now: float) -> None:
        """Record that the complete status is being written."""
        self.clear(uid)
        self._written[uid] = now

    def clear(self, uid: str) -> None:
        """Clear the pending times: nothing is left to report."""
        self._turns.pop(uid, None)
        self._setbacks.pop(uid, None)
        self._starts.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Drop a deleted Stack."""
        self.clear(uid)
        self._written.pop(uid, None)

    def _find_turn(self, uid: str, now: float) -> float:
        """Find the time of the Stack's next progress write; the writes of one second may come in a burst."""
        if uid not in self._turns:
            # Stacks with other changes never use their slots, so the number of waiting Stacks limits the time.
            turn = max(now - 1, min(self._next_turn, now + (len(self._turns) + 1) * self._between))
            self._turns[uid], self._next_turn = turn, turn + self._between
        return self._turns[uid]
