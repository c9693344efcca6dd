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
from hearth.plan.state.desired import Hashes
from hearth.plan.status import check_result, conditions
from hearth.plan.status.check_result import Outcome
from hearth.plan.target import status_signature, suspend_transition, target_status
from hearth.plan.target import target as wishes
from hearth.plan.target.target import Aim, Asked, Completed, Wish

VERBS: Mapping[str, str] = {"retry": names.VERB_RETRY, "cleanup": names.VERB_CLEANUP}
"""By their name in `status.handled` the annotations of a Stack whose tokens are obeyed once each."""
CONTINUE = "continue"
"""The name of that verb in `status.handled`."""
ORDER_LENGTH = 512
"""Characters of an order to go on that are looked at: more than any path of names."""


@dataclass(slots=True)
class Wishes:
    """The present wish of one Stack, and what was reached and obeyed before."""

    wish: Wish | None = None
    completed: Completed = field(default_factory=Completed)
    handled: dict[str, str] = field(default_factory=dict)
    """By verb the token that was obeyed last."""
    last_failed: int | None = None
    """The revision that failed last, as far as the status tells."""
    check: Outcome | None = None
    """Of the last check of an earlier process."""
    failure: str = ""
    """Why the present wish is to be given up."""
    is_retried: bool = False
    """Whether the user asked for another try since the spec was looked at."""
    was_idle: bool = False
    """Whether nothing could be done for the wish, so that its time is still to begin."""
    is_recalled: bool = False
    """Whether the wish stems from another process and was not looked at since: it may have been reached unnoticed."""
    _is_known: bool = False
    _is_unseen: bool = False
    """Whether no status was ever written."""
    _written: object = None
    """Which wish the status is known to name."""

    @property
    def needed(self) -> frozenset[int]:
        """The numbers of the revisions that may not go; all of them were stored."""
        wish = self.wish
        found = [self.completed.last, self.completed.previous]
        if wish is not None:
            found += [wish.revision, *wish.keeps, wish.order.revision if wish.order is not None else None]
        return frozenset(number for number in found if number)

    def recall(self, stack: StackObject, *, hashes: Hashes, count_revisions: Callable[[], int]) -> None:
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
        self.wish = target_status.read(memory.get("wish")) if memory is not None else None
        self.is_recalled = self.wish is not None
        self._written = which(self.wish)
        self._is_unseen = "phase" not in status
        self.completed = target_status.read_completed(None if is_lost else memory or {})
        self.last_failed = target_status.find_number(memory or {}, "lastFailedRevision")
        self.check = check_result.read({**(memory or {}), "phase": status.get("phase")})
        # Which tokens were obeyed is lost as well: none of them is obeyed twice.
        self.handled = find_tokens(stack) if is_lost else target_status.read_handled(memory or {})
        is_stopped = str(status.get("phase", "")).endswith("Stopped")
        self.was_idle = is_stopped or conditions.find(status, "Paused").get("status") == "True"

    def take_verbs(self, stack: StackObject) -> list[str]:
        """The verbs whose tokens were not obeyed yet; they count as obeyed from here on."""
        found = []
        for verb, annotation in VERBS.items():
            token = stack.annotations.get(annotation, "")
            if token and self.handled.get(verb) != token:
                self.handled[verb] = token
                found.append(verb)
        return found

    @property
    def is_recorded(self) -> bool:
        """Whether the status names the wish and what was passed under it, or need not as the spec does."""
        if self.wish is None or not (self.wish.is_rollback or not self.wish.passages.is_empty):
            return True
        return self._written == which(self.wish)

    def note_written(self, status: Object) -> bool:
        """The status was written, or says so already; whether work that waited for it may begin."""
        was_recorded, self._is_unseen = self.is_recorded, False
        self._written = which(target_status.read(status.get("wish")))
        self.last_failed = status.get("lastFailedRevision", self.last_failed)
        return self.is_recorded and not was_recorded

    def choose(self, hashed: str, to_revision: int | None, *, revisions: Iterable[Revision]) -> Aim:
        """What is to be wanted now. Raises ImpossibleOrder.

        hashed: of the definition in the spec, "" where it cannot be read; revisions: all that are kept.
        """
        hashes = {revision.number: revision.hash for revision in revisions}
        failed = hashes.get(self.wish.revision, "") if self.wish is not None else ""
        # What failed was given up in vain where the spec wants something else by now.
        failure = self.failure if hashed in ("", failed) else ""
        asked = Asked(
            hash=hashed or (failed if failure else ""),
            to_revision=to_revision,
            failure=failure,
            is_retried=self.is_retried and self.wish is not None and self.wish.is_completed,
        )
        return wishes.choose(asked, before=self.wish, hashes=hashes, completed=self.completed)

    def begin(self, aim: Aim, *, revision: int, now: float) -> Wish:
        """Want what is aimed at from here on. now: seconds since the epoch."""
        before = self.wish
        if before is not None and aim.failure and aim.failure != before.failure:
            self.last_failed = before.revision
        wish = wishes.begin(
            aim,
            revision=revision,
            before=before,
            given=wishes.Circumstances(
                now=now,
                is_recalled=self.is_recalled,
                is_retried=self.is_retried,
                is_unseen=self._is_unseen,
            ),
        )
        self.is_recalled = self.is_recalled and which(before) == which(wish)
        self.failure, self.is_retried = "", False
        self.wish = wish
        return wish

    def complete(self) -> None:
        """The wish is reached in full."""
        if self.wish is not None:
            self.wish = wishes.complete(self.wish)
            self.completed = self.completed.note(self.wish.revision)

    def turn(self, *, is_suspended: bool, now: float) -> None:
        """Follow whether the Stack is to be suspended. now: seconds since the epoch."""
        if self.wish is not None:
            self.wish = suspend_transition.follow(self.wish, is_suspended=is_suspended, now=now)

    def reach_turn(self) -> None:
        """What was suspended is at nothing, or what was resumed is back."""
        if self.wish is not None and self.wish.turn is not None and not self.wish.turn.is_reached:
            self.wish = dataclasses.replace(self.wish, turn=dataclasses.replace(self.wish.turn, is_reached=True))

    def find_continue(self, stack: StackObject) -> str:
        """Which breakpoint is to be passed, as it was written, unless that was obeyed already."""
        order = stack.annotations.get(names.VERB_CONTINUE, "")[:ORDER_LENGTH]
        return order if self.handled.get(CONTINUE) != order else ""

    def take_continue(self, order: str, passed: tuple[str, str] | None) -> None:
        """An order to go on was obeyed, or answered. passed: the resource and its hook."""
        self.handled[CONTINUE] = order
        if passed is not None and self.wish is not None:
            self.wish = dataclasses.replace(self.wish, passages=self.wish.passages.let(*passed))

    def part(self, parting: Mapping[str, Iterable[str]]) -> None:
        """These resources' objects are about to be deleted, and others wait for what they required."""
        if self.wish is not None:
            self.wish = dataclasses.replace(self.wish, passages=self.wish.passages.part(parting))

    def waive(self) -> None:
        """Hold obsolete objects back no longer, for the present wish."""
        if self.wish is not None:
            self.wish = dataclasses.replace(self.wish, is_waived=True)

    def note_idle(self, *, is_idle: bool, now: float) -> None:
        """Nothing is done, or is done again: the time that a wish may take does not run meanwhile."""
        if self.was_idle and not is_idle and self.wish is not None:
            self.wish = suspend_transition.restart(self.wish, now=now)
        self.was_idle = is_idle


def find_tokens(stack: StackObject) -> dict[str, str]:
    """By verb the token on a Stack."""
    annotations = {**VERBS, check_result.VERB: names.VERB_CHECK, CONTINUE: names.VERB_CONTINUE}
    found = {verb: stack.annotations.get(annotation, "") for verb, annotation in annotations.items()}
    found[CONTINUE] = found[CONTINUE][:ORDER_LENGTH]
    return {verb: token for verb, token in found.items() if token}


def which(wish: Wish | None) -> object:
    """What makes a wish another one for whoever must know it before anything is done."""
    return (wish.revision, wish.motive, wish.order, wish.failed_hash, wish.passages) if wish is not None else None
