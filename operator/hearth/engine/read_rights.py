"""Read rights of the accounts of Stacks: asks the API server once per account, kind and namespace, and caches answers.

The operator watches children with its own rights, so these answers decide which fields a Stack can use and show. After
a change of RBAC, and otherwise every ten minutes, it asks all questions again.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from hearth import answers, supervision
from hearth.engine.ports import Clock, WorkloadCluster
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import limits, retry_delays, tenancy, value_class
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state.read_access import Access

logger = structlog.get_logger(__name__)

CONCURRENCY = 4
"""Maximum number of questions in flight. Each takes the API server a fraction of a millisecond."""
SETTLED_AFTER = 2.0
"""Seconds after a change until the questions are asked once more, because authorizers learn of it from their own watch.
"""
SHARE = 10.0
"""Minimum pause after repeating all questions, as a multiple of the time that they took. It limits the load in a
cluster whose RBAC changes constantly."""
REFRESH = 600.0
"""Seconds until questions are repeated in any case, for other authorizers and for RBAC that the operator cannot watch.
"""

Key: TypeAlias = tuple[str, str, str, str, str, str]
"""Namespace and name of the account, verb, kind, namespace and name of the object ("" for all)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Question:
    """Whether an account may get one object, or get, list or watch all of a namespace."""

    boundary: Boundary
    verb: str
    kind: Kind
    namespace: str
    name: str
    answer: bool | None = None
    """None until the API server has answered."""
    stacks: set[str] = field(default_factory=set)
    """The Stacks that use the answer."""


class ReadRights:
    """The answers for all Stacks of one cluster. Use it in one event loop only."""

    def __init__(self, cluster: WorkloadCluster, *, queue: WorkQueue, clock: Clock, namespace: str = "") -> None:
        """Ask nothing before the first `find_answer`. namespace: the only one that the operator serves, "" for all."""
        self.trigger = RetryTrigger(type=TriggerType.ALL_RIGHTS, namespace=namespace)
        """The RBAC changes that can change the answers."""
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._questions: dict[Key, Question] = {}
        self._by_stack: dict[str, set[Key]] = {}
        self._new: dict[Key, None] = {}
        self._again: dict[Key, None] = {}
        self._failed: dict[Key, None] = {}
        """Questions without an answer. They are asked last, so that one that always fails does not delay the others."""
        self._task: asyncio.Task[None] | None = None
        self._is_due = False
        """Whether a timer runs that asks all questions again."""
        self._is_repeat_due = False
        """Whether to repeat all questions as soon as the questions in progress are answered."""
        self._not_before = 0.0
        self._has_failed = False

    def of(self, stack_uid: str) -> StackReadRights:
        """Return the view of the answers for one Stack."""
        return StackReadRights(self, stack_uid)

    @property
    def watched(self) -> set[RetryTrigger]:
        """Return the triggers whose watches must be retained."""
        return {self.trigger} if self._questions else set()

    def is_asking(self, stack_uid: str) -> bool:
        """Return whether an answer that concerns the Stack is still pending."""
        if not self._new and not self._failed:
            return False
        return any(key in self._new or key in self._failed for key in self._by_stack.get(stack_uid, ()))

    def is_failing(self, stack_uid: str) -> bool:
        """Return whether the last attempt at a question that concerns the Stack failed."""
        return bool(self._failed) and any(key in self._failed for key in self._by_stack.get(stack_uid, ()))

    def forget(self, stack_uid: str) -> None:
        """Drop answers that no other Stack needs."""
        for key in self._by_stack.pop(stack_uid, ()):
            question = self._questions.get(key)
            if question is not None:
                question.stacks.discard(stack_uid)
                if not question.stacks:
                    del self._questions[key]

    def on_change(self) -> None:
        """Handle a change of RBAC: ask all questions again, now and once the authorizers have observed it too."""
        self._repeat_after(0.0)
        self._clock.call_later(SETTLED_AFTER, lambda: self._repeat_after(0.0))

    async def stop(self) -> None:
        """Stop sending questions."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def find_answer(
        self,
        stack_uid: str,
        boundary: Boundary,
        *,
        kind: Kind,
        namespace: str,
        name: str = "",
        verb: str = tenancy.READING,
    ) -> bool | None:
        """Return the answer, None while it is unknown. name: of the object, "" for all."""
        key = (boundary.account_namespace, boundary.account, verb, kind.key, namespace, name)
        question = self._questions.get(key)
        if question is None:
            question = Question(boundary=boundary, verb=verb, kind=kind, namespace=namespace, name=name)
            self._ask_for(key, question)
        if stack_uid not in question.stacks:
            self._note_user(stack_uid, key, question)
        return question.answer

    def _ask_for(self, key: Key, question: Question) -> None:
        if not self._questions:
            self._cluster.watch_trigger(self.trigger)
            self._clock.call_later(REFRESH, self._refresh)
        self._questions[key] = question
        self._new[key] = None
        self._start_worker()

    def _note_user(self, stack_uid: str, key: Key, question: Question) -> None:
        keys = self._by_stack.setdefault(stack_uid, set())
        if len(keys) >= limits.READ_RIGHTS:
            # Questions of earlier definitions accumulate. Drop all of them; the current ones are asked again.
            self.forget(stack_uid)
            keys = self._by_stack.setdefault(stack_uid, set())
            self._questions[key] = question
        keys.add(key)
        question.stacks.add(stack_uid)

    def _refresh(self) -> None:
        """Ask all questions again from time to time, as long as there are any."""
        if self._questions:
            self._cluster.watch_trigger(self.trigger)
            self._clock.call_later(REFRESH, self._refresh)
            self._repeat_after(0.0)

    def _repeat_after(self, delay: float) -> None:
        left = max(delay, self._not_before - self._clock.monotonic())
        if self._again:
            # A repetition is in progress. Start the next one after it and after its pause, to cover changes in the
            # meantime.
            self._is_repeat_due = True
        elif left <= 0:
            self._again.update(dict.fromkeys(self._questions))
            self._start_worker()
        elif not self._is_due:
            self._is_due = True
            self._clock.call_later(left, self._repeat_now)

    def _repeat_now(self) -> None:
        self._is_due = False
        self._repeat_after(0.0)

    def _start_worker(self) -> None:
        if self._task is None or self._task.done():
            self._task = supervision.spawn_until_done("read rights", self._work)

    async def _work(self) -> None:
        """Ask the due questions, new ones first."""
        repeating_since: float | None = None
        while due := list(itertools.islice(itertools.chain(self._new, self._again, self._failed), CONCURRENCY)):
            if self._again and repeating_since is None:
                repeating_since = self._clock.monotonic()
            if not all(await asyncio.gather(*(self._ask_question(key) for key in due))):
                await asyncio.sleep(retry_delays.READ_RIGHTS.first)
            if repeating_since is not None and not self._again:
                self._end_repetition(repeating_since)
                repeating_since = None

    def _end_repetition(self, since: float) -> None:
        """Pause after repeating all questions, then repeat them for changes in the meantime."""
        now = self._clock.monotonic()
        self._not_before = now + SHARE * (now - since)
        if self._is_repeat_due:
            self._is_repeat_due = False
            self._repeat_after(0.0)

    async def _ask_question(self, key: Key) -> bool:
        """Ask one question; return whether the API server answered it."""
        question = self._questions.get(key)
        if question is not None:
            answer = await answers.try_request(
                self._cluster.may(
                    question.verb,
                    question.boundary,
                    kind=question.kind,
                    namespace=question.namespace,
                    name=question.name,
                )
            )
            if isinstance(answer, answers.REQUEST_ERRORS):
                self._note_failure(answer)
                self._forget_due(key)
                self._failed[key] = None
                return False
            self._store_answer(question, answer=answer)
        self._forget_due(key)
        return True

    def _forget_due(self, key: Key) -> None:
        for due in (self._new, self._again, self._failed):
            due.pop(key, None)

    def _store_answer(self, question: Question, *, answer: bool) -> None:
        """Store an answer, and enqueue the Stacks that it concerns if it changed."""
        if answer != question.answer:
            question.answer = answer
            for uid in question.stacks:
                self._queue.enqueue(uid, DirtyScope.ALL_RESOURCES)

    def _note_failure(self, error: Exception) -> None:
        """Log the first question without an answer."""
        if not self._has_failed:
            self._has_failed = True
            logger.warning("cannot ask what ServiceAccounts may get; retrying", error=str(error))


@value_class.dataclass(frozen=True, slots=True)
class StackReadRights:
    """The answers about the account of one Stack: the port of the planner."""

    rights: ReadRights
    stack_uid: str

    def expect(self, kind: Kind, namespace: str, boundary: Boundary) -> None:
        """Prefetch the answers for a kind that the Stack is about to use in a namespace. Cheap if known."""
        self.rights.find_answer(self.stack_uid, boundary, kind=kind, namespace=namespace)

    def find(self, child: Child, boundary: Boundary) -> Access:
        """Whether the account may get the object: all objects of its kind and namespace, or at least the one of that
        name.

        Asks if that is unknown; cheap.
        """
        for name in ("", child.name):
            answer = self.rights.find_answer(
                self.stack_uid, boundary, kind=child.kind, namespace=child.namespace, name=name
            )
            if answer is None:
                return Access.UNKNOWN
            if answer:
                return Access.GRANTED
        return Access.DENIED

    def find_at(self, kind: Kind, namespace: str, name: str, boundary: Boundary) -> Access:
        """Return whether the account may read an object that might not exist, or list and watch all objects (name: "").

        namespace: "" for all.
        """
        # An account that may get all objects is not asked about each; a list needs both verbs.
        is_single = bool(name)
        questions = (
            [(tenancy.READING, ""), (tenancy.READING, name)] if name else [(verb, "") for verb in tenancy.LISTING]
        )
        for verb, place in questions:
            answer = self.rights.find_answer(
                self.stack_uid, boundary, kind=kind, namespace=namespace, name=place, verb=verb
            )
            if answer is None:
                return Access.UNKNOWN
            if answer is is_single:
                return Access.GRANTED if is_single else Access.DENIED
        return Access.DENIED if is_single else Access.GRANTED
