"""Runs the tasks and callbacks of the process, and handles all their unexpected exceptions.

An unexpected exception is logged with its stack, counted, and retried with backoff. It ends no worker and no other
task. Its message and the values of variables are never logged, because they may be secret. To handle the failure of one
resource, the caller passes a callback.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import structlog

from hearth.model import growing_delay, limits

log = structlog.get_logger(__name__)

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

FIRST_BACKOFF = 1.0
MAX_BACKOFF = 60.0
"""Seconds before a failed task is restarted: the first time, and at most."""
SETTLED_AFTER = 60.0
"""Seconds that a task must have run for its next failure to count as the first again."""
LOG_INTERVAL = 60.0
"""Seconds between two log lines about the same failure."""


class Returned(Exception):
    """A task that must run until it is canceled returned."""


@dataclass(slots=True)
class Occurrences:
    """How often one failure occurred."""

    total: int = 0
    logged_at: float = float("-inf")
    """Monotonic time in seconds of the last log line."""


class Supervisor:
    """Handles unexpected exceptions. Usually there is one per process: `current()`."""

    def __init__(
        self,
        *,
        on_error: Callable[[str], None] = lambda _where: None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """on_error: gets the `where` of each failure, for metrics; jitter: between 0 and 1; now: monotonic seconds."""
        self.on_error = on_error
        self._jitter = jitter
        self._now = now
        self._occurrences: OrderedDict[tuple[object, ...], Occurrences] = OrderedDict()
        self._dead: set[str] = set()

    def report(self, where: str, error: BaseException, **fields: object) -> None:
        """Count an unexpected exception, and log it: with its stack the first time, then briefly. Never raises.

        where: one of a few fixed words, because it is the label of a metric; fields: for the log, nothing secret.
        """
        with contextlib.suppress(Exception):
            self.on_error(where)
        with contextlib.suppress(Exception):
            self._log(where, error, fields)

    def find_dead(self) -> list[str]:
        """Return the names of tasks that ended although they must run until they are canceled."""
        return sorted(self._dead)

    def find_backoff(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row."""
        longest = growing_delay.find(failures, first=FIRST_BACKOFF, longest=MAX_BACKOFF)
        return longest * (0.5 + 0.5 * self._jitter())

    async def run(self, where: str, work: Work, *, ends: bool) -> None:
        """Run `work`, again with backoff when it fails, and, unless `ends` is set, when it returns."""
        failures = 0
        while True:
            started = self._now()
            error = await self._attempt(work)
            if error is None and (ends or is_being_canceled()):
                return
            failures = 1 if self._now() - started >= SETTLED_AFTER else failures + 1
            self.report(where, error or Returned(), task=find_task_name())
            if is_being_canceled():
                # The task failed while it was being cancelled.
                return
            await asyncio.sleep(self.find_backoff(failures))

    async def run_once(self, where: str, work: Work, on_error: Callable[[BaseException], None] | None) -> None:
        """Run `work`; a failure ends here."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 -- the purpose of this module
            self.report(where, error, task=find_task_name())
            if on_error is not None:
                self.guard(where, on_error)(error)

    async def contain(
        self,
        where: str,
        work: Callable[[], Awaitable[Result]],
        otherwise: Callable[[], Result],
        fields: dict[str, object],
    ) -> Result:
        """Return the result of `work`, or of `otherwise` if it fails."""
        try:
            return await work()
        except asyncio.CancelledError as error:
            if is_being_canceled():
                raise
            self.report(where, error, **fields)
        except Exception as error:  # noqa: BLE001 -- the purpose of this module
            self.report(where, error, **fields)
        return otherwise()

    def attempt(
        self, where: str, action: Callable[[], Result], otherwise: Callable[[], Result], fields: dict[str, object]
    ) -> Result:
        """Return the result of `action`, or of `otherwise` if it fails."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 -- the purpose of this module
            self.report(where, error, **fields)
        return otherwise()

    def guard(self, where: str, action: Callable[Parameters, object]) -> Callable[Parameters, None]:
        """`action` as a callback that never raises."""

        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            try:
                action(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 -- the purpose of this module
                self.report(where, error)

        return guarded

    def watch_over(self, task: asyncio.Task[None], name: str) -> None:
        """Record a task that ends without being canceled."""
        task.add_done_callback(lambda ended: self._note_end(ended, name))

    def _note_end(self, task: asyncio.Task[None], name: str) -> None:
        if not task.cancelled() and not task.cancelling():
            self._dead.add(name)
            if (error := task.exception()) is not None:
                self.report("task", error, task=name)

    async def _attempt(self, work: Work) -> BaseException | None:
        """Run `work` once; return the unexpected exception that it raised, or None."""
        try:
            await work()
        except asyncio.CancelledError as error:
            # A cancellation that another canceled task raises here is an ordinary failure.
            if is_being_canceled():
                raise
            return error
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 -- a panic of an extension module is no Exception, and must end no worker either
            return error
        return None

    def _log(self, where: str, error: BaseException, fields: dict[str, object]) -> None:
        place, kind = find_place(error), name_type(error)
        seen = self._count((where, kind, place))
        seen.total += 1
        if seen.total == 1:
            log.error("internal error", where=where, error=kind, traceback=describe(error), **fields)
        elif self._now() - seen.logged_at >= LOG_INTERVAL:
            log.error("internal error again", where=where, error=kind, place=place, total=seen.total, **fields)
        else:
            return
        seen.logged_at = self._now()

    def _count(self, key: tuple[object, ...]) -> Occurrences:
        seen = self._occurrences.setdefault(key, Occurrences())
        self._occurrences.move_to_end(key)
        while len(self._occurrences) > limits.INTERNAL_ERRORS:
            self._occurrences.popitem(last=False)
        return seen


DEFAULT = Supervisor()
CURRENT: contextvars.ContextVar[Supervisor] = contextvars.ContextVar("CURRENT", default=DEFAULT)


def current() -> Supervisor:
    """Return the supervisor in this context: the process's, unless `using` replaces it."""
    return CURRENT.get()


@contextlib.contextmanager
def using(supervisor: Supervisor) -> Iterator[Supervisor]:
    """Use another supervisor for all tasks that start in this context."""
    token = CURRENT.set(supervisor)
    try:
        yield supervisor
    finally:
        CURRENT.reset(token)


def report(where: str, error: BaseException, **fields: object) -> None:
    """Count and log an unexpected exception that the caller contains. Never raises."""
    current().report(where, error, **fields)


def guard(where: str, action: Callable[Parameters, object]) -> Callable[Parameters, None]:
    """`action` as a callback that never raises."""
    return current().guard(where, action)


def contain(
    where: str, work: Callable[[], Awaitable[Result]], otherwise: Callable[[], Result], **fields: object
) -> Coroutine[Any, Any, Result]:
    """Return the result of `work`, or of `otherwise` if it raises an unexpected exception. fields: for the log."""
    # No coroutine of its own: every write of every child passes here twice.
    return CURRENT.get().contain(where, work, otherwise, fields)


def attempt(where: str, action: Callable[[], Result], otherwise: Callable[[], Result], **fields: object) -> Result:
    """Return the result of `action`, or of `otherwise` if it raises an unexpected exception. fields: for the log."""
    return current().attempt(where, action, otherwise, fields)


def spawn_forever(where: str, work: Work, *, name: str = "") -> asyncio.Task[None]:
    """Start a task that runs `work`, again with backoff whenever that fails or returns, until it is canceled.

    where: one of a few fixed words, the label of the metric; name: of the task.
    """
    supervisor = current()
    task = start(supervisor.run(where, work, ends=False), name=name or where)
    supervisor.watch_over(task, name or where)
    return task


def spawn_until_done(where: str, work: Work, *, name: str = "") -> asyncio.Task[None]:
    """Start a task that runs `work`, again with backoff whenever that fails, until it returns."""
    return start(current().run(where, work, ends=True), name=name or where)


def spawn(
    where: str, work: Work, *, name: str = "", on_error: Callable[[BaseException], None] | None = None
) -> asyncio.Task[None]:
    """Start a task that runs `work` once. A failure is reported and not retried. on_error: receives the exception."""
    return start(current().run_once(where, work, on_error), name=name or where)


def start(work: Coroutine[Any, Any, Result], *, name: str) -> asyncio.Task[Result]:
    """Start a task whose result and exception belong to the code that awaits it."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def wait_any(*works: Coroutine[Any, Any, Result], name: str) -> Result:
    """Return the result of the work that ends first, and cancel the others. name: of their tasks."""
    tasks = [start(work, name=name) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def call_later(delay: float, action: Callable[[], object], *, where: str = "timer") -> Callable[[], None]:
    """Call `action` after `delay` seconds, again with backoff while it fails; the result cancels it."""
    return Timer(current(), where, action).arm(delay)


class Timer:
    """A callback that is due at some time."""

    def __init__(self, supervisor: Supervisor, where: str, action: Callable[[], object]) -> None:
        self._supervisor = supervisor
        self._where = where
        self._action = action
        self._failures = 0
        self._is_canceled = False
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, delay: float) -> Callable[[], None]:
        """Be due after `delay` seconds; the result cancels it."""
        self._handle = asyncio.get_running_loop().call_later(delay, self._fire)
        return self.cancel

    def cancel(self) -> None:
        """Never call it again."""
        self._is_canceled = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        # The handle refers to this timer. Kept, both would stay in memory until the next full garbage collection.
        self._handle = None
        try:
            self._action()
        except Exception as error:  # noqa: BLE001 -- the purpose of this module
            self._failures += 1
            self._supervisor.report(self._where, error)
            if not self._is_canceled:
                self.arm(self._supervisor.find_backoff(self._failures))


def handle_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle an exception of an event loop, raised in a callback that no code guards."""
    error = context.get("exception")
    if error is None:
        # For example, a future that is destroyed while pending; the text is asyncio's own and holds no values.
        log.error("event loop", detail=str(context.get("message", "")))
    elif is_of_closed_connection(error):
        log.debug("data for a connection that is closed already", error=name_type(error))
    else:
        report("loop", error)


def is_of_closed_connection(error: BaseException) -> bool:
    """Return whether the event loop's own TLS code used a connection that had just been closed, which is harmless."""
    trace, places = error.__traceback__, list[str]()
    while trace is not None:
        places.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    is_within = any("SSLProtocol" in each for each in places)
    return isinstance(error, RuntimeError) and is_within and places[-1].endswith("UVHandle._ensure_alive")


def is_being_canceled() -> bool:
    """Return whether the current task is being canceled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def find_task_name() -> str:
    """Return the name of the current task."""
    task = asyncio.current_task()
    return task.get_name() if task is not None else ""


def name_type(error: BaseException) -> str:
    """Return the type of an exception, with its module unless it is a built-in."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def find_place(error: BaseException) -> str:
    """Return where an exception was raised: `hearth/engine/stack_controller.py:12 _execute_step`."""
    frames = describe_frames(error.__traceback__)
    return frames[-1] if frames else ""


def describe(error: BaseException) -> list[str]:
    """Describe the stack of an exception and of its causes: types and places, the innermost last. No messages."""
    lines: list[str] = []
    each: BaseException | None = error
    for _ in range(limits.LOGGED_CAUSES):
        if each is None:
            break
        found = [*shorten(describe_frames(each.__traceback__)), name_type(each)]
        lines = [*found, *(["which led to"] if lines else []), *lines]
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return lines


def describe_frames(trace: TracebackType | None) -> list[str]:
    """Describe each frame in a line: file, line and function."""
    return [
        f"{shorten_path(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(trace)
    ]


def shorten(frames: list[str]) -> list[str]:
    """Omit the middle of an endless recursion."""
    half = limits.LOGGED_FRAMES // 2
    if len(frames) <= 2 * half:
        return frames
    return [*frames[:half], f"({len(frames) - 2 * half} more)", *frames[-half:]]


def shorten_path(path: str) -> str:
    """Return a file's path within its package."""
    for root in ("/site-packages/", "/operator/", "/lib/"):
        if root in path:
            return path.rpartition(root)[2]
    return path
