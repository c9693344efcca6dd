"""What one Stack wants, as this process knows it: recalled from the status once, kept since, and written by the recorder.

Decides nothing: see `hearth.plan.target.target`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hearth.engine.ports import Revision, StackObject
from hearth.model import names
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.status import check_result, conditions
from hearth.plan.status.check_result import CheckResult
from hearth.plan.target import status_signature, suspend_transition, target_status
from hearth.plan.target import target as wishes
from hearth.plan.target.target import CompletedRevisions, Target, TargetChoice, TargetRequest

REQUESTS: Mapping[str, str] = {"retry": names.REQUEST_RETRY, "cleanup": names.REQUEST_CLEANUP}
"""By their name in `status.handled` the annotations of a Stack whose tokens are obeyed once each."""
CONTINUE = "continue"
"""The name of that verb in `status.handled`."""
ORDER_LENGTH = 512
"""Characters of an order to go on that are looked at: more than any path of names."""


@dataclass(slots=True)
class TargetTracker:
    """The present wish of one Stack, and what was reached and obeyed before."""

    current: Target | None = None
    completed: CompletedRevisions = field(default_factory=CompletedRevisions)
    handled: dict[str, str] = field(default_factory=dict)
    """By verb the token that was obeyed last."""
    last_failed: int | None = None
    """The revision that failed last, as far as the status tells."""
    check: CheckResult | None = None
    """Of the last check of an earlier process."""
    failure: str = ""
    """Why the present wish is to be given up."""
    is_retried: bool = False
    """Whether the user asked for another try since the spec was looked at."""
    was_idle: bool = False
    """Whether nothing could be done for the wish, so that its time is still to begin."""
    is_restored: bool = False
    """Whether the wish stems from another process and was not looked at since: it may have been reached unnoticed."""
    _is_known: bool = False
    _is_unseen: bool = False
    """Whether no status was ever written."""
    _written: object = None
    """Which wish the status is known to name."""

    @property
    def needed(self) -> frozenset[int]:
        """The numbers of the revisions that may not go; all of them were stored."""
        wish = self.current
        found = [self.completed.last, self.completed.previous]
        if wish is not None:
            found += [
                wish.revision,
                *wish.protected_revisions,
                wish.rollback.revision if wish.rollback is not None else None,
            ]
        return frozenset(number for number in found if number)

    def load(self, stack: StackObject, *, hashes: HashFunction, count_revisions: Callable[[], int]) -> None:
        """Read what an earlier process left in the status; the second time only whether there is a status by now.

        Only what is signed counts. Where it is not, all of it is lost.
        """
        if self._is_known:
            # What the server has was seen, also where no answer told that it was written.
            self._is_unseen = self._is_unseen and "phase" not in stack.status
            return
        self._is_known = True
        status = stack.status
        memory = status_signature.read_memory(status, uid=stack.uid, hashes=hashes)
        is_lost = memory is None and (status_signature.is_written(status) or count_revisions() > 1)
        self.current = target_status.decode(memory.get("wish")) if memory is not None else None
        self.is_restored = self.current is not None
        self._written = persisted_identity(self.current)
        self._is_unseen = "phase" not in status
        self.completed = target_status.read_completed(None if is_lost else memory or {})
        self.last_failed = target_status.find_number(memory or {}, "lastFailedRevision")
        self.check = check_result.decode({**(memory or {}), "phase": status.get("phase")})
        # Which tokens were obeyed is lost as well: none of them is obeyed twice.
        self.handled = find_tokens(stack) if is_lost else target_status.read_handled(memory or {})
        is_stopped = str(status.get("phase", "")).endswith("Stopped")
        self.was_idle = is_stopped or conditions.find(status, "Paused").get("status") == "True"

    def take_requests(self, stack: StackObject) -> list[str]:
        """The verbs whose tokens were not obeyed yet; they count as obeyed from here on."""
        found = []
        for verb, annotation in REQUESTS.items():
            token = stack.annotations.get(annotation, "")
            if token and self.handled.get(verb) != token:
                self.handled[verb] = token
                found.append(verb)
        return found

    @property
    def is_persisted(self) -> bool:
        """Whether the status names the wish and what was passed under it, or need not as the spec does."""
        if self.current is None or not (self.current.is_rollback or not self.current.cleared.is_empty):
            return True
        return self._written == persisted_identity(self.current)

    def on_status_written(self, status: Object) -> bool:
        """The status was written, or says so already; whether work that waited for it may begin."""
        was_recorded, self._is_unseen = self.is_persisted, False
        self._written = persisted_identity(target_status.decode(status.get("wish")))
        self.last_failed = status.get("lastFailedRevision", self.last_failed)
        return self.is_persisted and not was_recorded

    def choose(self, hashed: str, to_revision: int | None, *, revisions: Iterable[Revision]) -> TargetChoice:
        """What is to be wanted now. Raises ImpossibleOrder.

        hashed: of the definition in the spec, "" where it cannot be read; revisions: all that are kept.
        """
        hashes = {revision.number: revision.hash for revision in revisions}
        failed = hashes.get(self.current.revision, "") if self.current is not None else ""
        # What failed was given up in vain where the spec wants something else by now.
        failure = self.failure if hashed in ("", failed) else ""
        asked = TargetRequest(
            hash=hashed or (failed if failure else ""),
            to_revision=to_revision,
            failure=failure,
            is_retried=self.is_retried and self.current is not None and self.current.is_completed,
        )
        return wishes.choose_target(asked, before=self.current, hashes=hashes, completed=self.completed)

    def start(self, aim: TargetChoice, *, revision: int, now: float) -> Target:
        """Want what is aimed at from here on. now: seconds since the epoch."""
        before = self.current
        if before is not None and aim.failure and aim.failure != before.failure:
            self.last_failed = before.revision
        wish = wishes.start_target(
            aim,
            revision=revision,
            before=before,
            given=wishes.TargetContext(
                now=now,
                is_recalled=self.is_restored,
                is_retried=self.is_retried,
                is_unseen=self._is_unseen,
            ),
        )
        self.is_restored = self.is_restored and persisted_identity(before) == persisted_identity(wish)
        self.failure, self.is_retried = "", False
        self.current = wish
        return wish

    def complete(self) -> None:
        """The wish is reached in full."""
        if self.current is not None:
            self.current = wishes.complete_target(self.current)
            self.completed = self.completed.note(self.current.revision)

    def follow_suspend(self, *, is_suspended: bool, now: float) -> None:
        """Follow whether the Stack is to be suspended. now: seconds since the epoch."""
        if self.current is not None:
            self.current = suspend_transition.follow_suspend(self.current, is_suspended=is_suspended, now=now)

    def complete_suspend(self) -> None:
        """What was suspended is at nothing, or what was resumed is back."""
        if self.current is not None and self.current.suspend is not None and not self.current.suspend.is_completed:
            self.current = dataclasses.replace(
                self.current, suspend=dataclasses.replace(self.current.suspend, is_completed=True)
            )

    def find_continue_request(self, stack: StackObject) -> str:
        """Which breakpoint is to be passed, as it was written, unless that was obeyed already."""
        order = stack.annotations.get(names.REQUEST_CONTINUE, "")[:ORDER_LENGTH]
        return order if self.handled.get(CONTINUE) != order else ""

    def record_continue(self, order: str, passed: tuple[str, str] | None) -> None:
        """An order to go on was obeyed, or answered. passed: the resource and its hook."""
        self.handled[CONTINUE] = order
        if passed is not None and self.current is not None:
            self.current = dataclasses.replace(self.current, cleared=self.current.cleared.clear(*passed))

    def record_post_delete(self, parting: Mapping[str, Iterable[str]]) -> None:
        """These resources' objects are about to be deleted, and others wait for what they required."""
        if self.current is not None:
            self.current = dataclasses.replace(self.current, cleared=self.current.cleared.add_post_delete(parting))

    def waive_cleanup(self) -> None:
        """Hold obsolete objects back no longer, for the present wish."""
        if self.current is not None:
            self.current = dataclasses.replace(self.current, is_cleanup_waived=True)

    def note_idle(self, *, is_idle: bool, now: float) -> None:
        """Nothing is done, or is done again: the time that a wish may take does not run meanwhile."""
        if self.was_idle and not is_idle and self.current is not None:
            self.current = suspend_transition.restart_timeout(self.current, now=now)
        self.was_idle = is_idle


def find_tokens(stack: StackObject) -> dict[str, str]:
    """By verb the token on a Stack."""
    annotations = {**REQUESTS, check_result.VERB: names.REQUEST_CHECK, CONTINUE: names.REQUEST_CONTINUE}
    found = {verb: stack.annotations.get(annotation, "") for verb, annotation in annotations.items()}
    found[CONTINUE] = found[CONTINUE][:ORDER_LENGTH]
    return {verb: token for verb, token in found.items() if token}


def persisted_identity(wish: Target | None) -> object:
    """What makes a wish another one for whoever must know it before anything is done."""
    return (wish.revision, wish.cause, wish.rollback, wish.failed_hash, wish.cleared) if wish is not None else None
