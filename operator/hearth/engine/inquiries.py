"""Requests to the API server next to the reconciles of one Stack, repeated with backoff until they are answered.

A reconcile asks and does not wait. At most one request per name is in flight. Its answer enqueues the Stack, and so
does the end of the delay after a failure. The next reconcile asks again if it still needs the answer. A failed request
has no answer, so nothing is ever deleted because it could not be read.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from hearth import answers
from hearth.answers import RequestError
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.ports import Clock
from hearth.engine.work_queue import DirtyItem, DirtyScope, WorkQueue
from hearth.model import retry_delays, value_class
from hearth.model.retry_delays import RetryDelay

logger = structlog.get_logger(__name__)

Answer = TypeVar("Answer")
EARLY = 0.05
"""Maximum seconds that a timer fires early. Its reconcile must find the request due, because no other may follow."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FailedInquiry:
    """A request without an answer."""

    count: int
    """Number of consecutive failures."""
    due: float
    """Monotonic time in seconds from which the request is sent again."""
    error: RequestError


class Inquiries:
    """The requests for one Stack. They end with its reconciler."""

    def __init__(self, uid: str, *, tasks: NamedTasks, queue: WorkQueue, clock: Clock) -> None:
        """uid: of the Stack; tasks: run the requests and report unexpected exceptions."""
        self._uid = uid
        self._tasks = tasks
        self._enqueue = functools.partial(queue.enqueue, uid)
        self._clock = clock
        self._failed: dict[str, FailedInquiry] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether any failed request waits for its retry."""
        now = self._clock.monotonic()
        return any(each.due > now for each in self._failed.values())

    def ask(
        self,
        name: str,
        request: Callable[[], Awaitable[Answer]],
        on_answer: Callable[[Answer], bool],
        *,
        delay: RetryDelay,
        what: DirtyItem = DirtyScope.STACK,
    ) -> None:
        """Start a request, unless one of that name is in flight or waits for its retry.

        on_answer: takes the answer; returns whether to enqueue `what`. It must be False for an answer that changes
        nothing, because the next reconcile asks again.
        """
        if self.is_due(name):
            self._tasks.run(name, lambda: self._find_answer(name, request, on_answer, delay=delay, what=what))

    async def _find_answer(
        self,
        name: str,
        request: Callable[[], Awaitable[Answer]],
        on_answer: Callable[[Answer], bool],
        *,
        delay: RetryDelay,
        what: DirtyItem,
    ) -> None:
        answer = await self.attempt(name, request(), delay=delay, what=what)
        if not isinstance(answer, answers.REQUEST_ERRORS) and on_answer(answer):
            self._enqueue(what)

    async def attempt(
        self, name: str, request: Awaitable[Answer], *, delay: RetryDelay, what: DirtyItem = DirtyScope.STACK
    ) -> Answer | RequestError:
        """Return the answer to a request, or its error after scheduling the retry. The caller runs in a task."""
        answer = await answers.try_request(request)
        if isinstance(answer, answers.REQUEST_ERRORS):
            self._note_failure(name, answer, delay, what)
        else:
            self._failed.pop(name, None)
        return answer

    def is_due(self, name: str) -> bool:
        """Return whether a request may be sent, because its last one did not fail or the delay is over."""
        failed = self._failed.get(name)
        return failed is None or failed.due <= self._clock.monotonic()

    def find_error(self, name: str) -> RequestError | None:
        """Return why the last request of that name failed, or None if it was answered."""
        failed = self._failed.get(name)
        return failed.error if failed is not None else None

    def forget(self, name: str) -> None:
        """Drop the failures of a request, so that the next one is sent at once."""
        self._failed.pop(name, None)

    def _note_failure(self, name: str, error: RequestError, delay: RetryDelay, what: DirtyItem) -> None:
        before = self._failed.get(name)
        count = before.count + 1 if before is not None else 1
        pause = min(error.retry_after or 0.0, max(delay.longest, retry_delays.LONGEST_OBEYED_PAUSE))
        seconds = delay.find_seconds(count, retry_after=pause)
        self._failed[name] = FailedInquiry(count=count, due=self._clock.monotonic() + seconds - EARLY, error=error)
        logger.warning(
            "request failed; retrying",
            stack=self._uid,
            request=delay.request,
            error=str(error),
            attempt=count,
            retry_in_seconds=seconds,
        )
        enqueue = self._enqueue
        # The timer must not keep this object, and with it the state of a Stack that was unloaded.
        self._clock.call_later(seconds, lambda: enqueue(what))
        if before is None or str(before.error) != str(error):
            # The status reports the error.
            self._enqueue(what)
