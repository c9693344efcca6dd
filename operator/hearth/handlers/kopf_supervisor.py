"""Runs kopf in a separate thread and event loop, and restarts it when it exits.

Some errors of the API server make kopf exit, and it then cancels all tasks of its loop. The rest of the operator
therefore runs in another loop. kopf's thread reaches that loop only through `call_soon_threadsafe`, and the loop never
blocks on kopf. This module imports kopf only within kopf's thread, so that no other thread waits for the import.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import structlog

from hearth import answers, imports, supervision
from hearth.answers import RequestError
from hearth.engine.admission import reviewer
from hearth.handlers.callbacks import AdmissionCallbacks, DefinitionCallbacks, HandlerCallbacks
from hearth.model import value_class
from hearth.model.errors import Unreachable

if TYPE_CHECKING:
    from hearth.engine.admission.review import Review, ReviewResult
    from hearth.kube.auth.credentials import CredentialSource

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
RunKopf: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Runs kopf until it is cancelled."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorTimeouts:
    """Timeouts of the supervisor in seconds."""

    first_pause: float = 1.0
    longest_pause: float = 60.0
    settled_after: float = 60.0
    """Seconds of a run that resets the pause."""
    stop: float = 4.0
    """Seconds for kopf to stop. kopf may wait five seconds for handlers that hang, but the whole process must end by
    then."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KopfCallbacks:
    """Callbacks to the rest of the process, called in the loop that started the supervisor."""

    on_kinds: Callable[[], None]
    on_restart: Callable[[], None] = lambda: None


class KopfSupervisor:
    """One kopf, restarted after every unexpected exit."""

    def __init__(
        self,
        run: Callable[[HandlerCallbacks], RunKopf],
        callbacks: KopfCallbacks,
        *,
        timeouts: SupervisorTimeouts = SupervisorTimeouts(),
        admission: AdmissionCallbacks | None = None,
        definitions: DefinitionCallbacks | None = None,
    ) -> None:
        """Use `make`, except in tests.

        run: makes the function for one run of kopf from the callbacks of its handlers; admission: reviews, which run
        in the loop that `start` is called in, as `definitions` does.
        """
        self._callbacks = callbacks
        self._timeouts = timeouts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._run_kopf = run(
            HandlerCallbacks(
                on_kinds=self._on_kinds,
                admission=self._review_in_engine(admission) if admission is not None else None,
                definitions=self._reconcile_in_engine(definitions) if definitions is not None else None,
            )
        )
        self._stopping = threading.Event()
        self._inner: tuple[asyncio.AbstractEventLoop, Callable[[], bool]] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._supervise, name="kopf", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether its thread is alive."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start kopf in a separate thread. Call it in the loop that receives the callbacks."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """Stop kopf; return when it has stopped or after `stop` seconds. The thread never keeps the process alive."""
        self._stopping.set()
        with self._lock:
            if self._inner is not None:
                loop, end = self._inner
                loop.call_soon_threadsafe(end)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, self._timeouts.stop)

    def _supervise(self) -> None:
        pause: float | None = None
        while not self._stopping.is_set():
            lasted = self._run_until_exit()
            if self._stopping.is_set():
                return
            pause = find_restart_delay(pause, lasted=lasted, timeouts=self._timeouts)
            self._call(self._callbacks.on_restart)
            self._stopping.wait(pause)

    def _run_until_exit(self) -> float:
        """Run kopf until it exits, and return the duration in seconds."""
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            loop.set_exception_handler(supervision.handle_loop_error)
            begun = loop.time()
            error: BaseException | None = None
            try:
                runner.run(self._run_once(loop))
            except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- kopf is restarted after any error
                error = raised
            if not self._stopping.is_set():
                # The message of the error may contain a response of the server, or a credential.
                log.warning("kopf exited unexpectedly; restarting", **describe_end(error))
            return loop.time() - begun

    async def _run_once(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            task = supervision.start(self._run_kopf(), name="kopf")
            # Do not use kopf's stop flag: at each exit, kopf would wait five seconds for tasks that wait for the flag.
            self._inner = (loop, task.cancel)
        try:
            await task
        finally:
            with self._lock:
                self._inner = None

    def _on_kinds(self) -> None:
        self._call(self._callbacks.on_kinds)

    def _review_in_engine(self, admission: AdmissionCallbacks) -> AdmissionCallbacks:
        """Run the reviews in the engine's loop."""

        async def review(review: Review) -> ReviewResult:
            stopping = reviewer.answer_unreviewed(review, "the operator is stopping")
            work = functools.partial(admission.review, review)
            return await self._run_in_engine("admission", work, name="review", otherwise=stopping)

        async def decide(review: Review) -> ReviewResult:
            stopping = reviewer.answer_unreviewed(review, "the operator is stopping", is_decision=True)
            work = functools.partial(admission.decide, review)
            return await self._run_in_engine("admission", work, name="review", otherwise=stopping)

        return dataclasses.replace(admission, review=review, decide=decide)

    def _reconcile_in_engine(self, definitions: DefinitionCallbacks) -> DefinitionCallbacks:
        """Run the work in the engine's loop, and wait for it."""

        async def reconcile(name: str) -> None:
            stopping = cast("RequestError | None", Unreachable("the operator is stopping"))

            async def find_error() -> RequestError | None:
                return await answers.find_error(definitions.reconcile(name))

            error = await self._run_in_engine("definitions", find_error, name=f"handler of {name}", otherwise=stopping)
            if error is not None:
                raise error

        return dataclasses.replace(definitions, reconcile=reconcile)

    async def _run_in_engine(
        self, where: str, work: Callable[[], Awaitable[Result]], *, name: str, otherwise: Result
    ) -> Result:
        """Return the result of work in the engine's loop. otherwise: the result if that loop ends, or if the work raises."""
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()

        async def run() -> None:
            # `done` always receives a result.
            result = otherwise
            try:
                result = await work()
            finally:
                if done.set_running_or_notify_cancel():
                    done.set_result(result)

        self._call(lambda: supervision.spawn(where, run, name=name))
        if self._loop is None or self._loop.is_closed():
            return otherwise
        return await asyncio.wrap_future(done)

    def _call(self, action: Callable[[], object]) -> None:
        """Call the action in the engine's loop, unless that loop is closed."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)


def describe_end(error: BaseException | None) -> dict[str, object]:
    """Return the log fields of an exit of kopf: error type and stack frames, without values."""
    if error is None:
        return {"error": "none: it returned"}
    return {"error": supervision.name_type(error), "traceback": supervision.describe(error)}


def find_restart_delay(before: float | None, *, lasted: float, timeouts: SupervisorTimeouts) -> float:
    """Return the seconds until the next run. lasted: seconds of the previous run, which started after a pause of `before`."""
    if before is None or lasted > timeouts.settled_after:
        return timeouts.first_pause
    return min(2 * before, timeouts.longest_pause)


def make_supervisor(
    source: CredentialSource, callbacks: KopfCallbacks, *, admission: AdmissionCallbacks | None = None
) -> KopfSupervisor:
    """Make the supervisor of kopf. admission: the reviews, if a webhook is served."""
    return KopfSupervisor(lambda handlers: make_run(source, handlers), callbacks, admission=admission)


def make_definitions_supervisor(
    source: CredentialSource, definitions: DefinitionCallbacks, *, on_restart: Callable[[], None]
) -> KopfSupervisor:
    """Make the supervisor of a kopf that handles only StackDefinitions: only the active process has it."""
    callbacks = KopfCallbacks(on_kinds=lambda: None, on_restart=on_restart)
    return KopfSupervisor(lambda handlers: make_run(source, handlers), callbacks, definitions=definitions)


def make_run(source: CredentialSource, callbacks: HandlerCallbacks) -> RunKopf:
    """Make the function that runs kopf once, with our handlers and settings."""

    async def run() -> None:
        # Import kopf in its own thread, because the import is slow and must not block other threads. Hide the official
        # client library: kopf would import it only to recognize its objects, and never receives any here.
        with imports.hide_package("kubernetes"):
            from hearth.handlers import kopf_run
        await kopf_run.run_kopf(source, callbacks)

    return run
