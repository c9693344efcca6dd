"""Sends the notifications of one process in a task of its own, which no reconcile waits for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import structlog

from hearth import supervision
from hearth.engine.cluster_objects import StackObject
from hearth.model import retry_delays
from hearth.notifications import fair_queue, messages, receiver
from hearth.notifications.fair_queue import FairQueue, Waiting
from hearth.notifications.messages import Message
from hearth.notifications.receiver import Verdict
from hearth.plan.status.stack_notices import StackNotice

log = structlog.get_logger(__name__)

LOG_INTERVAL = 60.0
"""Seconds between two log lines about notifications that were dropped, or could not be sent."""


class Notifier:
    """Sends notifications one after another, and repeats failed attempts for a limited time."""

    def __init__(
        self,
        directory: str,
        *,
        is_slack: bool,
        source: str,
        on_result: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """is_slack: whether to send texts for Slack instead of signed CloudEvents; directory: see `receiver.read_access`; on_result: gets `sent`, `failed` or `dropped` for each notification."""
        self._directory = Path(directory)
        self._is_slack = is_slack
        self._source = source
        self._on_result = on_result
        self._monotonic = monotonic
        self._queue = FairQueue()
        self._wake = asyncio.Event()
        self._failures = 0
        """Failed attempts since the last answer that was no failure."""
        self._next_attempt = 0.0
        """Monotonic seconds."""
        self._next_log = {"dropped": 0.0, "failed": 0.0}
        """Monotonic seconds before which no line about that result is written."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to send."""
        self._task = supervision.spawn_forever("notifications", self._run)

    async def stop(self) -> None:
        """Stop at once; waiting notifications are lost."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _ in range(waiting := len(self._queue)):
            self._on_result("dropped")
        if waiting:
            log.warning("notifications lost at the end of the process", number=waiting)

    def notify(self, stack: StackObject, notice: StackNotice) -> None:
        """Enqueue a notification; return at once and never raise."""
        supervision.attempt("notifications", lambda: self._enqueue(stack, notice), lambda: None, stack=stack.uid)

    def _enqueue(self, stack: StackObject, notice: StackNotice) -> None:
        message = messages.make_message(stack, notice, is_slack=self._is_slack, source=self._source, now=time.time())
        if (dropped := self._queue.put(message, now=self._monotonic())) is not None:
            self._end(dropped, "dropped", reason="too many in its namespace or in total")
        self._wake.set()

    async def _run(self) -> None:
        async with receiver.make_session() as session:
            while True:
                waiting = await self._wait_due()
                await self._send(session, waiting)

    async def _wait_due(self) -> Waiting:
        """Return the next notification when it is due and the receiver may get another attempt."""
        while True:
            now = self._monotonic()
            waiting = self._queue.take(now=now) if now >= self._next_attempt else None
            if waiting is not None and waiting.expires < now:
                self._end(waiting.message, "failed", reason=f"not sent within {fair_queue.LIFETIME:g} s")
                continue
            if waiting is not None:
                return waiting
            self._wake.clear()
            due = self._queue.find_next_due()
            seconds = None if due is None else max(due, self._next_attempt) - now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _send(self, session: aiohttp.ClientSession, waiting: Waiting) -> None:
        message = waiting.message
        attempt = await receiver.send(session, self._directory, message, is_signed=not self._is_slack, now=time.time())
        now = self._monotonic()
        if attempt.verdict is not Verdict.RETRY:
            self._failures = 0
            is_sent = attempt.verdict is Verdict.SENT
            self._end(message, "sent" if is_sent else "failed", reason=attempt.problem)
            return
        self._failures += 1
        # The message may be the cause of an answer, so the others do not wait longer than the receiver asks.
        pause = retry_delays.NOTIFICATION.find_seconds(self._failures) if attempt.pause is None else attempt.pause
        self._next_attempt = now + pause
        if not self._queue.put_back(waiting, now=now):
            self._end(message, "failed", reason=f"{attempt.problem}, for {fair_queue.LIFETIME:g} s")
        elif self._failures == 1:
            log.warning("notification not sent; retrying", namespace=message.namespace, reason=attempt.problem)

    def _end(self, message: Message, result: str, *, reason: str) -> None:
        """Count a notification that needs nothing further, and log it if it was lost."""
        self._on_result(result)
        now = self._monotonic()
        if now >= self._next_log.get(result, float("inf")):
            self._next_log[result] = now + LOG_INTERVAL
            log.warning(
                "notification lost", result=result, namespace=message.namespace, type=message.type, reason=reason
            )
