"""Holds the target of one Stack in this process. It is loaded from the status once; the status writer persists it.

`hearth.plan.target` makes the decisions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.engine.cluster_objects import Revision, StackObject
from hearth.model import names
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.stack.options import ReconcileOptions
from hearth.plan.state import finished_work
from hearth.plan.status import check_result, conditions
from hearth.plan.status.check_result import CheckResult
from hearth.plan.target import change_hold, change_plans, target_choice, target_status
from hearth.plan.target.change_hold import ChangeHold
from hearth.plan.target.change_plans import ApprovalPolicy
from hearth.plan.target.target import CompletedRevisions, DetachedSet, LastBatch, RollbackRequest, Target, TargetCause
from hearth.plan.target.target_choice import TargetChoice, TargetContext, TargetRequest

RETRY = "retry"
"""The name of the retry request in `status.handled`."""
CLEANUP = "cleanup"
"""The name of the cleanup request in `status.handled`."""
INHERITED_RETRY = "inheritedRetry"
"""The name of the retry of an ancestor in `status.handled`."""
RETRIES = frozenset({RETRY, INHERITED_RETRY})
REQUESTS: Mapping[str, str] = {
    RETRY: names.REQUEST_RETRY,
    INHERITED_RETRY: names.REQUEST_INHERITED_RETRY,
    CLEANUP: names.REQUEST_CLEANUP,
}
"""Annotations with request tokens, by their name in `status.handled`. Each token is handled once."""
APPROVAL = "approval"
"""The name in `status.handled` of the plan that ran last, or of the generation since when changes need an approval."""
APPROVALS_END = "approvalsEnd"
"""The name in `status.handled` of the fact that the running plan is the last one: it switches approvals off."""
SEPARATE = "separateApprover"
"""The name in `status.handled` of the rule that the author of a change cannot approve it."""
RISKS_ONLY = "risksOnly"
"""The name in `status.handled` of the rule that a change without risky steps needs no approval."""
CONTINUE = "continue"
"""The name of the continue request in `status.handled`."""
ORDER_LENGTH = 512
"""Maximum characters of a continue request that are read. No path of names is longer."""


@dataclass(slots=True)
class TargetTracker:
    """The current target of one Stack, with completed revisions and handled requests."""

    current: Target | None = None
    completed: CompletedRevisions = field(default_factory=CompletedRevisions)
    handled: dict[str, str] = field(default_factory=dict)
    """The last handled token, by request."""
    last_failed: int | None = None
    """The last failed revision, from the status."""
    check: CheckResult | None = None
    """Result of the last check of an earlier process."""
    stored_finished: Any = None
    """The finished work from the signed status of an earlier process; None without a signed status."""
    failure: str = ""
    """Why the current target has failed."""
    failure_reason: str = ""
    was_idle: bool = False
    """Whether no work was possible for the target, so that its timeout has not started."""
    _is_retried: bool = False
    """Whether the user requested a retry since the spec was last processed."""
    _ends_rollback: bool = False
    """Whether that retry is for the definition that the user rolled back from."""
    _is_retry_seen: bool = False
    """Whether the last choice of a target considered that retry."""
    _retry_before: Mapping[str, str] | None = None
    """The previous retry tokens; None before the first change."""
    _cleanup_before: str = ""
    """The previous cleanup token."""
    _is_retry_processed: bool = False
    """Whether the definition was processed for the last retry tokens."""
    has_window: bool = False
    """Whether changes of the definition may have to wait."""
    is_restored: bool = False
    """Whether an earlier process set the target and no reconcile has checked it yet. It may already be completed."""
    is_resumed: bool = False
    """Whether an earlier process worked on the Stack without writing a status, so that the next status cannot wait."""
    is_first_lost: bool = False
    """Whether the state of an earlier process was lost, and no target was chosen since then."""
    _highest_stored: int = 0
    """See `TargetContext.highest_stored`."""
    is_loaded: bool = False
    """Whether the state of an earlier process was loaded, so that the current target is known."""
    _is_unseen: bool = False
    """Whether no status was ever written."""
    _written: object = None
    """Identity of the target and of the last approval in the status."""
    _supersedes: bool = False
    """Whether the target replaced an incomplete one."""
    _is_moved: bool = False
    """Whether the target and the previous one have different revisions of the StackDefinition."""

    @property
    def is_completed(self) -> bool:
        """Whether there is a target, and it was reached."""
        return self.current is not None and self.current.is_completed

    @property
    def is_rolled_back(self) -> bool:
        """Whether a rollback that the user requested is complete."""
        return self.is_completed and self.current is not None and self.current.cause is TargetCause.ROLLBACK

    @property
    def needed(self) -> frozenset[int]:
        """The numbers of the revisions that must be retained; all of them were stored."""
        target = self.current
        found = [self.completed.last, self.completed.previous]
        if target is not None:
            found += [
                target.revision,
                *target.protected_revisions,
                target.rollback.revision if target.rollback is not None else None,
            ]
        return frozenset(number for number in found if number)

    def load(
        self,
        stack: StackObject,
        *,
        hashes: HashFunction,
        count_revisions: Callable[[], int],
        has_former: Callable[[], bool],
    ) -> None:
        """Load the state of an earlier process from the status; later calls only check whether a status exists.

        Only signed state counts. Without a valid signature, all of it is lost. has_former: whether the Stack was restored
        from a backup, which drops statuses.
        """
        if self.is_loaded:
            # The status exists on the API server, even if the write got no answer.
            self._is_unseen = self._is_unseen and "phase" not in stack.status
            return
        self.is_loaded = True
        status = stack.status
        memory = target_status.read_memory(status, uid=stack.uid, hashes=hashes)
        is_lost = memory is None and (target_status.is_written(status) or count_revisions() > 1)
        self.is_first_lost = is_lost or (memory is None and has_former())
        self.current = target_status.decode(memory) if memory is not None else None
        self.is_restored = self.current is not None
        self._written = read_persisted_identity(memory or {})
        self._is_unseen = "phase" not in status
        self.is_resumed = self._is_unseen and count_revisions() > 0
        self.completed = target_status.read_completed(None if self.is_first_lost else memory or {})
        self.last_failed = target_status.find_number(memory or {}, "lastFailedRevision")
        self.check = check_result.decode({**(memory or {}), "phase": status.get("phase")})
        # The handled tokens are lost too. Treat all present tokens as handled, so that none is handled twice.
        self.handled = find_tokens(stack) if self.is_first_lost else target_status.read_handled(memory or {})
        self.stored_finished = memory.get(finished_work.FIELD, []) if memory is not None else None
        is_stopped = str(status.get("phase", "")).endswith("Stopped")
        self.was_idle = is_stopped or conditions.find(status, "Paused").get("status") == "True"

    def find_persisted_tokens(
        self, *, has_open_runs: bool = False, has_open_removals: bool = False
    ) -> Mapping[str, str]:
        """Return the handled tokens for the status. A retry's token appears with the target that is chosen for it.

        Earlier, the next process would neither handle the token nor know that the definition was to be tried again.
        has_open_runs: whether failed work still has to run again for that request; has_open_removals: whether members
        that a cleanup released still have objects.
        """
        tokens = self.handled
        if self._retry_before is not None and (has_open_runs or not self._is_retry_processed):
            tokens = {**tokens, **self._retry_before}
        if has_open_removals:
            tokens = {**tokens, CLEANUP: self._cleanup_before}
        return tokens if tokens is self.handled else {verb: token for verb, token in tokens.items() if token}

    def take_requests(self, stack: StackObject, *, is_settled: bool) -> list[str]:
        """Return the requests whose tokens are not handled yet, and record them as handled.

        is_settled: whether the target follows from the current spec. A cleanup waits for that, because it applies to
        the target that the user sees in the spec.
        """
        found: list[str] = []
        persisted = self.find_persisted_tokens()
        earlier = {verb: persisted.get(verb, "") for verb in RETRIES}
        for verb, annotation in REQUESTS.items():
            token = stack.annotations.get(annotation, "")
            if verb == CLEANUP and (not RETRIES.isdisjoint(found) or not is_settled):
                continue
            if token and self.handled.get(verb) != token:
                if verb == CLEANUP:
                    self._cleanup_before = self.handled.get(verb, "")
                self.record_handled(verb, token)
                found.append(verb)
        if not RETRIES.isdisjoint(found):
            self._retry_before, self._is_retry_processed = earlier, False
        return found

    def end_retry(self) -> None:
        """Record that the definition was processed after a requested retry, so that the retry is handled."""
        self._is_retry_processed = True

    @property
    def is_persisted(self) -> bool:
        """Whether the status contains the target and its cleared breakpoints, or the spec is sufficient.

        The spec does not suffice if another target is incomplete: a definition that is rejected after a crash leads
        back to the target in the status, whose cleanup deletes objects that the later target needs.
        """
        target = self.current
        if target is None:
            return True
        # A new revision is known by its storage to have started, but not one that is used again.
        # Until the status records an approval, another process would find it unused.
        may_be_held = (self.has_window and target.earlier_revision > 0) or APPROVAL in self.handled
        if not (self._supersedes or self._is_moved or needs_persistence(target) or may_be_held):
            return True
        return self._written == (persisted_identity(target), self.handled.get(APPROVAL))

    def on_status_written(self, status: Object) -> bool:
        """Record the written status; return whether work that waited for it may start."""
        was_recorded, self._is_unseen, self.is_resumed = self.is_persisted, False, False
        self._written = read_persisted_identity(status)
        self.last_failed = status.get("lastFailedRevision", self.last_failed)
        return self.is_persisted and not was_recorded

    def has_resolved(self, snapshot: str, hashed: str = "") -> bool:
        """Return whether the restore of that snapshot needs no resolution: resolved before, or overridden since.

        hashed: hash of the definition in the spec, "" if unreadable.
        """
        known = self.current.rollback if self.current is not None else None
        if known is None or known.snapshot != snapshot:
            return False
        return known.is_resolved or known.is_overridden(hashed)

    def record_rejected_rollback(self, request: RollbackRequest) -> None:
        """Record a rollback that is impossible now, so that it does not apply to a later definition."""
        target = self.current
        if target is not None and target.restore is None and request.spec_hash:
            self.current = dataclasses.replace(target, rollback=request)

    def choose(
        self,
        hashed: str,
        options: ReconcileOptions,
        *,
        revisions: Iterable[Revision],
        active: str,
        rollback: RollbackRequest | None = None,
        hold: ChangeHold | None = None,
    ) -> TargetChoice:
        """Choose the target. Raises RollbackRevisionNotFound.

        hashed: hash of the definition in the spec, "" if unreadable; revisions: all stored ones; active: hash of the
        active revision, "" for none; rollback: the resolution of the requested snapshot, unless it was resolved before;
        hold: why a change of the definition waits now, None if it does not.
        """
        hashes = {revision.number: revision.hash for revision in revisions}
        self._is_retry_seen = self._is_retried
        # The failure no longer matters if the spec has a different definition.
        failure = self.failure if hashed in ("", active) else ""
        request = TargetRequest(
            hash=hashed or (active if failure else ""),
            to_revision=options.to_revision,
            to_snapshot=options.to_snapshot,
            rollback=rollback,
            failure=failure,
            failure_reason=self.failure_reason if failure else "",
            is_retried=self._is_retried and self.is_completed,
            ends_rollback=self._is_retried and self._ends_rollback and self.is_completed,
        )
        before, completed = self.current, self.completed
        self._highest_stored = max(hashes, default=0) if self.is_first_lost else 0
        choice = target_choice.choose_target(request, before=before, hashes=hashes, completed=completed)
        if hold is None or not change_hold.is_change(choice, hashed, before=before, hashes=hashes, completed=completed):
            return choice
        return self.keep_running(choice, hashes)

    def keep_running(self, choice: TargetChoice, hashes: Mapping[int, str]) -> TargetChoice:
        """Return the choice of what runs while the chosen definition waits. hashes: of all stored revisions, by number.

        There must be a target or a stored revision.
        """
        # A revision that a crashed process stored is abandoned now. It waits if its definition returns.
        self._highest_stored = max(hashes, default=0)
        return change_hold.keep_running(
            choice,
            before=self.current,
            hashes=hashes,
            completed=self.completed,
            failure=self.failure,
            failure_reason=self.failure_reason,
        )

    def start(self, choice: TargetChoice, *, revision: int, context: TargetContext) -> Target:
        """Start the chosen target. context: lacks the values that this tracker adds."""
        before = self.current
        if before is not None and choice.failure and choice.failure != before.failure:
            self.last_failed = before.revision
        known = dataclasses.replace(
            context,
            is_recalled=self.is_restored,
            is_retried=self._is_retry_seen,
            is_unseen=self._is_unseen,
            highest_stored=self._highest_stored,
        )
        target = target_choice.start_target(choice, revision=revision, before=before, context=known)
        self.is_first_lost = False
        self.is_restored = self.is_restored and persisted_identity(before) == persisted_identity(target)
        # A retry that was requested after the choice counts for the next choice.
        self.failure, self._is_retried = "", self._is_retried and not self._is_retry_seen
        if before is not None and persisted_identity(before) != persisted_identity(target):
            self._supersedes = not before.is_completed
            self._is_moved = before.definition_revision != target.definition_revision
        self.current = target
        return target

    @property
    def removed(self) -> tuple[int, ...]:
        """Indices of a group that no member has any longer."""
        return self.current.removed if self.current is not None else ()

    @property
    def surge(self) -> int:
        """The number of surge members of a group."""
        return self.current.surge if self.current is not None else 0

    def set_surge(self, surge: int) -> bool:
        """Set the number of surge members of a group; return whether it changed."""
        if self.current is None or self.current.surge == surge:
            return False
        self.current = dataclasses.replace(self.current, surge=surge)
        return True

    def record_batches(self, batches: Iterable[LastBatch]) -> None:
        """Record the last completed batches of the target."""
        if self.current is not None and (found := tuple(batches)) != self.current.batches:
            self.current = dataclasses.replace(self.current, batches=found)

    def record_detached(self, found: Iterable[DetachedSet], *, ended: Collection[str] = ()) -> bool:
        """Record StatefulSets that are about to be deleted without their Pods and claims; return whether any is new.

        ended: the resources whose next StatefulSet exists.
        """
        if self.current is None:
            return False
        known = {each.resource: each for each in self.current.detached if each.resource not in ended}
        known |= {each.resource: each for each in found}
        detached = tuple(known.values())
        if detached == self.current.detached or len(detached) > target_status.DETACHED_KEPT:
            return False
        self.current = dataclasses.replace(self.current, detached=detached)
        return True

    def request_retry(self, *, ends_rollback: bool) -> None:
        """Try the target once more, at the user's request. ends_rollback: or the definition from which they rolled back."""
        self._is_retried, self._ends_rollback = True, ends_rollback

    def fail(self, reason: str, message: str) -> None:
        """Record that the target has failed, which the next choice of a target considers."""
        self.failure, self.failure_reason = message, reason

    def confirm(self) -> None:
        """Record that a reconcile of this process checked the target."""
        self.is_restored = False

    def record_handled(self, verb: str, token: str) -> None:
        """Record that a request was handled."""
        self.handled[verb] = token

    def follow_approval(self, policy: ApprovalPolicy | None, *, generation: int, now: float) -> None:
        """Record since when changes need an approval. generation: of the Stack; now: seconds since the epoch.

        policy: in the spec. Afterward, only an approved change makes it weaker. Each record is a new one, so that no earlier
        plan counts.
        """
        if policy is None:
            return
        if APPROVAL not in self.handled:
            at = f" at {times.format_time(now)}" if self.is_first_lost else ""
            self.record_handled(APPROVAL, f"generation {generation}{at}")
            self._follow_risks(policy)
        self.handled.pop(APPROVALS_END, None)
        if policy.is_separate:
            self.record_handled(SEPARATE, "true")
        if not policy.is_for_risks:
            self.handled.pop(RISKS_ONLY, None)

    def record_approval(self, plan_uid: str, policy: ApprovalPolicy | None) -> None:
        """Record that the change of a plan begins. policy: which approval later changes need; None for none."""
        self.record_handled(APPROVAL, plan_uid)
        if policy is None:
            self.record_handled(APPROVALS_END, "true")
        if policy is None or not policy.is_separate:
            self.handled.pop(SEPARATE, None)
        self._follow_risks(policy)

    def _follow_risks(self, policy: ApprovalPolicy | None) -> None:
        if policy is not None and policy.is_for_risks:
            self.record_handled(RISKS_ONLY, "true")
        else:
            self.handled.pop(RISKS_ONLY, None)

    def end_plan(self) -> None:
        """Record that the last plan does not restrict repairs. The record keeps its UID, so that no plan counts twice."""
        plan_uid = self.handled.get(APPROVAL, "")
        if change_plans.is_plan(plan_uid):
            self.record_handled(APPROVAL, f"after {plan_uid}")

    def end_approvals(self) -> None:
        """Record that the last plan ended, if it switches approvals off. Until then, its change is compared with it."""
        if self.handled.pop(APPROVALS_END, ""):
            self.handled.pop(APPROVAL, None)

    def complete(self) -> None:
        """Record that the target is completed."""
        if self.current is not None:
            self.current = target_choice.complete_target(self.current)
            self.completed = self.completed.note(self.current.revision)

    def note_halted(self) -> None:
        """Record that the workloads are suspended for the restore."""
        if self.current is not None and self.current.restore is not None:
            rollback = dataclasses.replace(self.current.restore, is_halted=True)
            self.current = dataclasses.replace(self.current, rollback=rollback)

    def follow_suspend(self, *, is_suspended: bool, now: float) -> None:
        """Follow whether the Stack must be suspended. now: seconds since the epoch."""
        if self.current is not None:
            self.current = target_choice.follow_suspend(self.current, is_suspended=is_suspended, now=now)

    def complete_suspend(self) -> None:
        """Record that suspended workloads run nothing or resumed ones are back."""
        if self.current is not None and self.current.suspend is not None and not self.current.suspend.is_completed:
            self.current = dataclasses.replace(
                self.current, suspend=dataclasses.replace(self.current.suspend, is_completed=True)
            )

    def find_continue_request(self, stack: StackObject) -> str:
        """Return the continue request as written, or "" if it is handled already."""
        order = stack.annotations.get(names.REQUEST_CONTINUE, "")[:ORDER_LENGTH]
        return order if self.handled.get(CONTINUE) != order else ""

    def record_continue(self, order: str, passed: Iterable[tuple[str, str]]) -> None:
        """Record that a continue request was handled. passed: resources, each with its hook."""
        self.record_handled(CONTINUE, order)
        if self.current is None:
            return
        cleared = self.current.cleared
        for resource, hook in passed:
            cleared = cleared.clear(resource, hook)
        self.current = dataclasses.replace(self.current, cleared=cleared)

    def record_post_delete(self, parting: Mapping[str, Iterable[str]]) -> None:
        """Record resources whose objects are about to be deleted while others wait after them."""
        if self.current is not None:
            self.current = dataclasses.replace(self.current, cleared=self.current.cleared.add_post_delete(parting))

    def waive_cleanup(self) -> None:
        """Stop protecting obsolete objects for the current target."""
        if self.current is not None:
            self.current = dataclasses.replace(self.current, is_cleanup_waived=True)

    def note_idle(self, *, is_idle: bool, now: float) -> None:
        """Record whether work is stopped; the timeout does not run while it is."""
        if self.was_idle and not is_idle and self.current is not None:
            self.current = target_choice.restart_timeout(self.current, now=now)
        self.was_idle = is_idle


def find_tokens(stack: StackObject) -> dict[str, str]:
    """Return the request tokens of a Stack by request."""
    annotations = {**REQUESTS, check_result.VERB: names.REQUEST_CHECK, CONTINUE: names.REQUEST_CONTINUE}
    found = {verb: stack.annotations.get(annotation, "") for verb, annotation in annotations.items()}
    found[CONTINUE] = found[CONTINUE][:ORDER_LENGTH]
    return {verb: token for verb, token in found.items() if token}


def needs_persistence(target: Target) -> bool:
    """Return whether the status must contain the target, because the spec does not determine all of it."""
    # Only the status records which other cluster has the objects.
    has_memory = bool(target.cluster or target.removed or target.surge or target.breakpoint_key or target.detached)
    return target.is_rollback or not target.cleared.is_empty or has_memory


def is_deferred(target: Target) -> bool:
    """Return whether a rollback waits for the end of a suspension. The status reports its start before any step."""
    is_suspended = target.suspend is not None and target.suspend.is_suspended
    return target.is_rollback and not target.is_completed and is_suspended


def persisted_identity(target: Target | None) -> object:
    """Return the facts that must be persisted in the status before acting on a target."""
    return (
        (
            *(target.revision, target.cause, target.rollback, target.failed_hash, target.cleared, target.cluster),
            *(target.removed, target.surge, target.breakpoint_key, target.detached, is_deferred(target)),
            target.definition_revision,
        )
        if target is not None
        else None
    )


def read_persisted_identity(status: Mapping[str, Any]) -> object:
    """Return the identity of the target in a status, and the record of the last approval."""
    return persisted_identity(target_status.decode(status)), target_status.read_handled(status).get(APPROVAL)
