"""Time that passes only when nothing is left to do: an event loop whose clock jumps to the next timer.

A test of ten virtual minutes takes milliseconds and gives the same result every time.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from hearth import supervision

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

EPOCH = 1_767_225_600.0
"""The wall clock when a test begins: 2026-01-01T00:00:00Z."""
OWNER: contextvars.ContextVar[set[asyncio.Task[Any]] | None] = contextvars.ContextVar("OWNER", default=None)
"""Collects the tasks created in this context, so that their owner can end them all."""


MAX_ROUNDS = 10_000
"""Maximum rounds of the event loop at one moment: many times the number in the largest test."""
FEW_ROUNDS = 1_000
"""Rounds after which the clock advances a little, as on a real machine."""
LITTLE = 1e-9
"""Maximum seconds that a timer may fire early. An action that is too early because of rounding waits again."""


class NothingLeft(AssertionError):
    """The test waits for an event that cannot occur."""


class TimeStandsStill(AssertionError):
    """An action repeats without a pause, so that no timer can fire."""


class IdleSelector(selectors.SelectSelector):
    """A selector that moves the loop's clock instead of sleeping."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return no ready files: only timers and callbacks exist."""
        if timeout is None or timeout > 0:
            self.loop.idle(timeout)
        else:
            self.loop.note_round()
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; made for one test, by `run`."""

    def __init__(self) -> None:
        selector = IdleSelector()
        selector.loop = self
        self._now = 0.0
        self.jumps = 0
        """Number of times that time passed, each time because something was due."""
        self._rounds = 0
        """Number of actions since time last passed."""
        super().__init__(selector)
        self.set_task_factory(make_owned_task)  # type: ignore[arg-type]  # its type cannot be written without naming the generics of every task

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def idle(self, timeout: float | None) -> None:
        """Jump to the next timer."""
        if timeout is None:
            raise NothingLeft("the test waits for something that no one is going to do")
        self._now += timeout
        self.jumps += 1
        self._rounds = 0

    def note_round(self) -> None:
        """Count a round at the same moment."""
        self._rounds += 1
        if self._rounds > FEW_ROUNDS:
            self._now += LITTLE
        if self._rounds > MAX_ROUNDS:
            self._rounds = 0
            raise TimeStandsStill(f"the same is done again and again at {self._now} s")

    def run_in_executor(  # type: ignore[override]  # the arguments' types are of no interest here
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it at once: a thread would work in real time."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- an executor hands over all that was raised
            future.set_exception(error)
        return future


def make_owned_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Create a task that its context's owner can end."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    owned = OWNER.get() if context is None else context.get(OWNER)
    if owned is not None:
        owned.add(task)
        task.add_done_callback(owned.discard)
    return task


def run(test: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run one test in its own virtual loop until it finishes, then cancel the remaining tasks."""
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(test())
    finally:
        cancel_all(loop)
        asyncio.set_event_loop(None)
        loop.close()


def in_virtual_time(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Wrap an async test to run in a virtual loop, with its fixtures and parameters."""

    def run_test(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        run(lambda: test(*args, **kwargs))

    return stand_for(test, run_test)


def stand_for(
    test: Callable[..., Coroutine[Any, Any, None]], run_test: Callable[Arguments, None], *, given: int = 0
) -> Callable[Arguments, None]:
    """`run_test` with the name, marks and parameters of the test that it runs. given: leading arguments that it adds itself."""
    functools.update_wrapper(run_test, test)
    # Otherwise, the runner would see the coroutine.
    del run_test.__wrapped__  # type: ignore[attr-defined]
    # Otherwise, pytest would take the arguments for fixtures.
    parameters = list(inspect.signature(test).parameters.values())[given:]
    run_test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # which every function may have
    return run_test


def cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all remaining tasks."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def get_loop() -> VirtualLoop:
    """The running loop, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop), f"this needs virtual time, and runs in {loop}"
    return loop


class VirtualClock:
    """The port `Clock` on the running virtual loop.

    Each engine has its own, so that a dead engine has no timers left.
    """

    def __init__(self) -> None:
        self._loop = get_loop()
        self._is_running = True

    def now(self) -> float:
        """Seconds since the epoch."""
        return EPOCH + self._loop.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self._loop.time()

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Run `action` after `delay` virtual seconds; the result cancels it."""
        return supervision.call_later(delay, lambda: self._act(action))

    def stop(self) -> None:
        """Stop all further actions."""
        self._is_running = False

    def _act(self, action: Callable[[], Any]) -> None:
        if self._is_running:
            action()
