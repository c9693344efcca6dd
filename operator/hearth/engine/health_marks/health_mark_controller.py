"""Controller of HealthMarks: writes each mark to its object, and the result to the mark's status.

It runs alongside the reconciles. The reconcile that observes a marked child decides what to do with it.
`hearth.plan.health_mark_decision` decides on each mark from live state only, so the controller can lose its in-memory
state at any time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

import structlog

from hearth import answers, supervision
from hearth.engine.cluster_objects import HealthMarkObject, StackObject
from hearth.engine.health_marks import mark_index, resource_locator
from hearth.engine.health_marks.mark_index import MarkIndex, SignedMarks
from hearth.engine.health_marks.mark_targets import Targets
from hearth.engine.health_marks.resource_locator import MarkPath, ResourceLocator
from hearth.engine.services import Services
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import DirtyItem, DirtyScope
from hearth.engine.writes import step_execution
from hearth.engine.writes.object_loop import ObjectLoop
from hearth.model import limits, names, retry_delays, turns
from hearth.model.errors import ApiStatusError
from hearth.model.text import hidden_texts
from hearth.model.turns import NamespaceLine
from hearth.plan import health_mark_decision
from hearth.plan.health_mark_decision import MarkDecision, MarkedResource, MarkProblem, ParsedHealthMark
from hearth.plan.retry import backoff
from hearth.plan.retry.backoff import Attempt, StepFailure
from hearth.plan.state import steps
from hearth.plan.status import status_changes

logger = structlog.get_logger(__name__)

REMOTE_WORKERS = 2
"""Maximum number of concurrent writes to all other clusters: clusters that hang must not delay the marks of the home
cluster."""


class HealthMarkController:
    """The only writer of HealthMark statuses and of marks on children."""

    def __init__(
        self,
        services: Services,
        *,
        find_reconciler: Callable[[str], StackReconciler | None],
        on_limit: Callable[[str], None],
    ) -> None:
        self._services = services
        self._marks = SignedMarks(services.health_marks, services.hashes)
        self._targets = Targets(services.find_link)
        self._locator = ResourceLocator(services=services, find_reconciler=find_reconciler, targets=self._targets)
        self._loop = ObjectLoop(
            where="health_mark",
            advance=self._advance,
            enqueue=lambda uid: self.enqueue([uid]),
            clock=services.clock,
        )
        self._remote_writes = 0
        """Marks that are being written to other clusters."""
        self._index = MarkIndex(self._marks)
        self._attempts: dict[str, Attempt] = {}
        self._searches: dict[str, tuple[int, int]] = {}
        """By mark: its generation and the number of failed searches for its object."""
        self._slots = MarkSlots(on_limit)

    def start(self) -> None:
        """Start the controller and enqueue every mark."""
        self._loop.start()
        self.enqueue(self._services.health_marks.marks())

    async def stop(self) -> None:
        """Stop at once."""
        await self._loop.stop()

    def find_stall(self) -> str:
        """Explain why no HealthMark is processed if processing has stalled."""
        return self._loop.find_stall()

    def enqueue(self, uids: Collection[str]) -> None:
        """Enqueue marks. All are recorded first, so that each finds the others on its resource."""
        for uid in uids:
            # An unreadable mark must not block the others.
            supervision.attempt("health_mark", partial(self._take, uid), partial(self._loop.retry, uid), mark=uid)

    def _take(self, uid: str) -> None:
        mark = self._marks.find_mark(uid)
        if mark is not None and self._locator.is_plain(mark) and self._admit(mark):
            self._index.update(
                uid,
                resource_locator.resolve_path(mark, self._locator),
                is_open=not mark_index.parse_mark(mark).is_resolved,
            )
        self._loop.enqueue(mark.namespace if mark is not None else "", uid)

    def on_reconcile(self, stack: StackObject, what: Collection[DirtyItem]) -> None:
        """Enqueue the marks that a reconcile of the Stack affects. If there are none, this costs one lookup."""
        self._locator.add_stack(stack)
        if found := self._targets.find_affected(stack, what):
            self.enqueue(found)
        by_resource = self._index.find_resources(stack.namespace, stack.owner_key)
        if not by_resource:
            return
        if DirtyScope.ALL_RESOURCES in what or DirtyScope.STACK in what:
            concerned = list(by_resource)
        else:
            concerned = [name for name in by_resource if name in what]
        self.enqueue([uid for name in concerned for uid in by_resource[name] if self._index.is_open(uid)])

    def forget(self, stack_uid: str) -> None:
        """Enqueue the open marks of a deleted Stack."""
        where = self._locator.forget(stack_uid)
        by_resource = self._index.find_resources(*where) if where is not None else {}
        self.enqueue([uid for uids in by_resource.values() for uid in uids if self._index.is_open(uid)])

    async def _advance(self, uid: str) -> bool:
        """Take one step; return whether another one can follow immediately."""
        mark = self._marks.find_mark(uid)
        if mark is None:
            self._forget(uid)
            return False
        mark_state = self._marks.parse(mark)
        if not self._admit(mark):
            self._index.update(uid, None)
            if mark.status.get("observedUID"):
                # Keep the status from before a restart until the limit admits the mark.
                return False
            full = MarkedResource(stack="", resource="", problem=self._slots.explain(mark.namespace))
            return await self._write(
                mark, health_mark_decision.decide(mark_state, full, now=self._services.clock.now())
            )
        route = resource_locator.resolve_path(mark, self._locator)
        now = self._services.clock.now()
        self._index.update(uid, route, is_open=not mark_state.is_resolved)
        if not self._locator.is_responsible(mark, route.responsible):
            return self._skip_foreign_mark(mark, mark_state, route)
        if mark_state.is_over:
            await self._prove_resolution(mark)
        self._search(mark, is_lost=not route.resources)
        view = None if mark_state.is_resolved else self._observe_mark(mark, mark_state, route)
        if view is None:
            return False
        verdict = health_mark_decision.decide(mark_state, view, now=now)
        return await (
            self._carry_out(mark, mark_state, view, verdict.step) if verdict.step else self._write(mark, verdict)
        )

    async def _prove_resolution(self, mark: HealthMarkObject) -> None:
        """Write the annotation that keeps a mark resolved if it is restored from a backup."""
        if self._marks.is_resolution_signed(mark):
            return
        write = self._services.health_marks.write_mark_resolution(mark, self._marks.sign_resolution(mark))
        if error := await answers.find_error(write):
            logger.warning("cannot annotate a resolved HealthMark", mark=mark.uid, error=str(error))
            if not isinstance(error, ApiStatusError) or error.is_conflict or error.code >= 500:
                self._loop.enqueue_later(mark.uid, retry_delays.HEALTH_MARK.first)

    def _skip_foreign_mark(self, mark: HealthMarkObject, mark_state: ParsedHealthMark, path: MarkPath) -> bool:
        """Skip a mark while another process is, or may be, responsible for its Stack."""
        if not mark_state.is_resolved and (path.responsible is None or self._services.share.has_request(mark.uid)):
            self._search(mark, is_lost=True)
        return False

    def _search(self, mark: HealthMarkObject, *, is_lost: bool) -> None:
        """Search for an object without a Stack: at each reconcile that observes it, and at growing intervals."""
        if not is_lost:
            self._targets.forget(mark.uid)
            self._searches.pop(mark.uid, None)
            return
        if "target" in mark.spec:
            self._targets.wait(mark.uid, mark.namespace, resource_locator.target_of(mark))
        generation, vain = self._searches.get(mark.uid, (mark.generation, 0))
        vain = vain if generation == mark.generation else 0
        self._searches[mark.uid] = (mark.generation, vain + 1)
        self._loop.enqueue_later(mark.uid, retry_delays.MARK_TARGET.find_seconds(vain + 1))

    def _admit(self, mark: HealthMarkObject) -> bool:
        """Return whether the mark is within the limits; a resolved mark does not count."""
        if mark.status and mark_index.parse_mark(mark).is_resolved:
            self._release(mark.uid)
            return True
        return self._slots.admit(mark)

    def _release(self, uid: str) -> None:
        """Release the slot of a mark and enqueue the mark that may use it next."""
        follower = self._slots.release(uid)
        if follower is not None:
            self.enqueue([follower])

    def _forget(self, uid: str) -> None:
        """Drop a deleted mark."""
        self._index.update(uid, None)
        self._attempts.pop(uid, None)
        self._searches.pop(uid, None)
        self._targets.forget(uid)
        self._loop.cancel(uid)
        self._release(uid)

    def _observe_mark(
        self, mark: HealthMarkObject, mark_state: ParsedHealthMark, path: MarkPath
    ) -> MarkedResource | None:
        place = path.resource
        if place is None:
            return path.marked
        view = self._locator.observe(mark, place)
        newer = self._index.find_newer(mark, mark_state, place) if view is not None and view.bound is not None else ""
        return dataclasses.replace(view, newer=newer) if view is not None and newer else view

    async def _carry_out(
        self, mark: HealthMarkObject, mark_state: ParsedHealthMark, marked: MarkedResource, step: steps.WriteHealthMark
    ) -> bool:
        """Write the mark to the object."""
        clock, attempt = self._services.clock, self._attempts.get(mark.uid)
        if (
            attempt is not None
            and attempt.attempt_id == steps.attempt_id(step)
            and attempt.retry_at > clock.monotonic()
        ):
            self._loop.enqueue_later(mark.uid, attempt.retry_at - clock.monotonic())
            return False
        stack = self._services.management_cluster.find_stack(step.child.stack_uid)
        if stack is None:
            return False
        result = await self._execute(step, stack)
        if result is None:
            self._loop.enqueue_later(mark.uid, retry_delays.HEALTH_MARK.first)
            return False
        if not isinstance(result, StepFailure):
            self._attempts.pop(mark.uid, None)
            # The cache does not report the operator's own write, so enqueue the resource here.
            self._services.queue.enqueue(step.child.stack_uid, step.child.resource)
            return True
        attempt = backoff.after_failure(
            attempt,
            result,
            subject=steps.attempt_id(step),
            now=clock.monotonic(),
            backoff=self._services.backoff,
        )
        self._attempts[mark.uid] = attempt
        self._loop.enqueue_later(mark.uid, attempt.retry_at - clock.monotonic())
        answer = health_mark_decision.pending(MarkProblem(reason=result.reason, message=result.message))
        await self._write(
            mark, health_mark_decision.report(mark_state, marked, answer, uid=step.child.uid, now=clock.now())
        )
        return False

    async def _execute(self, step: steps.WriteHealthMark, stack: StackObject) -> step_execution.StepResult | None:
        """Execute the step and return its result; None while its cluster is unreachable, or while too many writes to
        other clusters are in progress.
        """
        link = self._services.find_link(stack.uid)
        is_away = link.is_remote and (link.remote is None or link.remote.trouble is not None)
        if is_away or (link.is_remote and self._remote_writes >= REMOTE_WORKERS):
            return None
        self._remote_writes += link.is_remote
        try:
            return await step_execution.make_executor(stack, self._services).execute_step(step)
        finally:
            self._remote_writes -= link.is_remote

    def _name_stack(self, mark: HealthMarkObject) -> str:
        """Return `namespace/name` of the Stack of the marked resource; "" while it is unknown."""
        place = resource_locator.resolve_path(mark, self._locator).responsible
        return f"{place.namespace}/{names.split_owner(place.stack)[1]}" if place is not None else ""

    async def _write(self, mark: HealthMarkObject, decision: MarkDecision) -> bool:
        """Write the status if it differs; return whether it was written."""
        if decision.status is None:
            return False
        stack = self._name_stack(mark)
        signed = self._marks.sign(mark, hidden_texts.redact_messages(decision.status, stack))
        patch = status_changes.find_changes(self._marks.find_written(mark.uid), signed)
        if not patch:
            return False
        if error := await answers.find_error(self._services.health_marks.write_mark_status(mark, patch)):
            logger.warning("cannot write the status of a HealthMark", mark=mark.uid, stack=stack, error=str(error))
            self._loop.enqueue_later(mark.uid, retry_delays.HEALTH_MARK.first)
            return False
        return True


@dataclass(slots=True)
class MarkSlots:
    """The admitted marks, in the order they were seen."""

    on_limit: Callable[[str], None]
    _admitted: dict[str, str] = field(default_factory=dict)
    """Namespaces of admitted marks, by UID."""
    _counts: Counter[str] = field(default_factory=Counter)
    """Number of admitted marks by namespace."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Namespaces of the marks that wait for a slot, by UID."""
    _line: NamespaceLine = field(default_factory=NamespaceLine)
    """The waiting marks in the order of their turns."""

    def admit(self, mark: HealthMarkObject) -> bool:
        """Return whether the mark is admitted; admit it if a slot is free."""
        if mark.uid in self._admitted:
            return True
        if not self._has_room(mark.namespace):
            if mark.uid not in self._refused:
                self._refused[mark.uid] = mark.namespace
                self._line.add(mark.namespace, mark.uid)
                self.on_limit("health-marks")
            return False
        self._stop_waiting(mark.uid)
        self._admitted[mark.uid] = mark.namespace
        self._counts[mark.namespace] += 1
        return True

    def release(self, uid: str) -> str | None:
        """Release a mark's slot; return the UID of a mark that may use it."""
        self._stop_waiting(uid)
        namespace = self._admitted.pop(uid, None)
        if namespace is None:
            return None
        self._counts[namespace] -= 1
        if not self._counts[namespace]:
            del self._counts[namespace]
        follower = next(filter(self._has_room, self._line.namespaces()), None)
        return self._line.call(follower) if follower is not None else None

    def _stop_waiting(self, uid: str) -> None:
        namespace = self._refused.pop(uid, None)
        if namespace is not None:
            self._line.discard(namespace, uid)

    def explain(self, namespace: str) -> MarkProblem:
        """Explain why a mark is not admitted."""
        message = (
            f"namespace {namespace} or the cluster has reached the limit of unresolved HealthMarks "
            f"({limits.HEALTH_MARKS_PER_NAMESPACE} per namespace, fewer when little is free, {limits.HEALTH_MARKS} "
            "in total); this one is processed when there is room; delete HealthMarks that are no longer needed"
        )
        return MarkProblem(reason="TooManyMarks", message=message)

    def _has_room(self, namespace: str) -> bool:
        held, free = self._counts[namespace], limits.HEALTH_MARKS - len(self._admitted)
        return held < turns.find_share(held, free=free, most=limits.HEALTH_MARKS_PER_NAMESPACE)
