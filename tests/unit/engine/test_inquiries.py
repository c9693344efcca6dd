"""Requests next to the reconciles: one in flight per name, repeated with growing delays, and never answered by an error."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from hearth.engine.inquiries import Inquiries
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model.errors import ApiStatusError, Unreachable
from hearth.model.retry_delays import RetryDelay
from support import virtual_time

DELAY = RetryDelay("read a test object", 2.0, 6.0)


class LoopClock:
    """The clock of the event loop."""

    early = 0.0
    """Seconds that each timer fires early."""

    def now(self) -> float:
        """As the port says."""
        return asyncio.get_running_loop().time()

    monotonic = now

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """As the port says."""
        return asyncio.get_running_loop().call_later(delay - self.early, action).cancel


class Asker:
    """A Stack that asks one question at each reconcile, until it has an answer."""

    def __init__(self, *errors: Exception) -> None:
        self.asked_at: list[float] = []
        self.answers: list[str] = []
        self.queue = WorkQueue()
        self.clock = LoopClock()
        self.tasks = NamedTasks(lambda _name, _error: None)
        self.inquiries = Inquiries("s1", tasks=self.tasks, queue=self.queue, clock=self.clock)
        self._errors = list(errors)

    async def reconcile_for(self, seconds: float, *, step: float = 0.1) -> None:
        """Reconcile the Stack at once, and whenever it is enqueued, for that many seconds."""
        self.reconcile()
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            await asyncio.sleep(step)
            if self.queue.get() is not None:
                self.reconcile()

    def reconcile(self) -> None:
        """Ask the question unless it is answered."""
        if not self.answers:
            self.inquiries.ask("question", self._request, self._take_answer, delay=DELAY)

    async def _request(self) -> str:
        self.asked_at.append(round(self.clock.now(), 1))
        await asyncio.sleep(0.01)
        if self._errors:
            raise self._errors.pop(0)
        return "yes"

    def _take_answer(self, answer: str) -> bool:
        self.answers.append(answer)
        return True


@virtual_time.in_virtual_time
async def test_a_request_is_repeated_with_growing_delays_until_it_is_answered() -> None:
    lost = Unreachable("away")
    asker = Asker(lost, lost, lost, lost)
    await asker.reconcile_for(60)

    delays = [later - earlier for earlier, later in itertools.pairwise(asker.asked_at)]
    assert delays == pytest.approx([2.0, 4.0, 6.0, 6.0], abs=0.3)
    assert asker.answers == ["yes"]
    assert asker.inquiries.find_error("question") is None


@virtual_time.in_virtual_time
async def test_a_request_is_repeated_even_if_the_timer_fires_early() -> None:
    asker = Asker(Unreachable("away"))
    asker.clock.early = 0.01
    await asker.reconcile_for(5, step=0.001)

    assert asker.answers == ["yes"]


@virtual_time.in_virtual_time
async def test_each_name_has_at_most_one_request_in_flight() -> None:
    asker = Asker()
    for _ in range(3):
        asker.reconcile()
    await asyncio.sleep(0.1)

    assert len(asker.asked_at) == 1


@virtual_time.in_virtual_time
async def test_an_answer_enqueues_the_stack() -> None:
    asker = Asker()
    asker.reconcile()
    await asyncio.sleep(0.1)

    taken = asker.queue.get()
    assert taken is not None
    assert taken[:2] == ("s1", {DirtyScope.STACK})


@virtual_time.in_virtual_time
async def test_an_error_is_kept_for_the_status_and_is_no_answer() -> None:
    denied = ApiStatusError(code=403, status={"message": "forbidden"})
    asker = Asker(denied)
    asker.reconcile()
    await asyncio.sleep(0.1)

    assert asker.inquiries.find_error("question") is denied
    assert asker.inquiries.is_waiting
    assert asker.answers == []
    # The status reports it now, not after the delay.
    assert asker.queue.get() is not None


@virtual_time.in_virtual_time
async def test_nothing_is_asked_before_the_delay_is_over() -> None:
    asker = Asker(Unreachable("away"))
    for _ in range(10):
        asker.reconcile()
        await asyncio.sleep(0.1)

    assert len(asker.asked_at) == 1


@virtual_time.in_virtual_time
async def test_the_delay_that_the_server_requests_is_the_minimum() -> None:
    asker = Asker(ApiStatusError(code=429, status=None, retry_after=20.0))
    await asker.reconcile_for(30)

    assert asker.asked_at[1] - asker.asked_at[0] == pytest.approx(20.0, abs=0.3)


@virtual_time.in_virtual_time
async def test_no_server_postpones_a_request_for_an_hour() -> None:
    asker = Asker(ApiStatusError(code=503, status=None, retry_after=3_600.0))
    await asker.reconcile_for(70)
    assert asker.answers == ["yes"]


@virtual_time.in_virtual_time
async def test_a_forgotten_failure_delays_nothing() -> None:
    asker = Asker(Unreachable("away"))
    asker.reconcile()
    await asyncio.sleep(0.1)
    asker.inquiries.forget("question")
    asker.reconcile()
    await asyncio.sleep(0.1)

    assert asker.answers == ["yes"]


@virtual_time.in_virtual_time
async def test_a_stack_that_no_longer_asks_causes_no_request() -> None:
    asker = Asker(Unreachable("away"))
    asker.reconcile()
    await asyncio.sleep(60)

    assert len(asker.asked_at) == 1
    assert not asker.inquiries.is_waiting
