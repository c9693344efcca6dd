"""The supervisor: a task with an unexpected exception is reported and restarted, and other tasks continue."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import pathlib
import types
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, cast

import pytest
import structlog
import uvloop

import hearth
from hearth import supervision
from hearth.supervision import Supervisor
from support import virtual_time

OPERATOR = pathlib.Path(hearth.__file__).parent
SECRET = "tagsecret99"
STARTERS = frozenset({"create_task", "ensure_future", "TaskGroup", "call_later", "call_at", "run_coroutine_threadsafe"})
ALLOWED = {
    "supervision.py": {"create_task", "call_later"},
    # In a command, which waits for the result.
    "sandbox/process.py": {"run_coroutine_threadsafe"},
    # In a command, which waits for the first of two responses.
    "cli/stack_commands/steering/mark_commands.py": {"create_task"},
    # In a command, which lints the open texts one after another.
    "cli/language_server/server.py": {"create_task"},
}


@contextlib.contextmanager
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """The log records inside the block."""
    events: list[MutableMapping[str, Any]] = []

    def keep(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        events.append(dict(event))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield events
    finally:
        structlog.configure(**before)


@contextlib.contextmanager
def supervised() -> Iterator[tuple[list[str], list[MutableMapping[str, Any]]]]:
    """The counts and the log records."""
    counted: list[str] = []
    made = Supervisor(on_error=counted.append, jitter=lambda: 1.0, now=lambda: asyncio.get_running_loop().time())
    with logged() as events, supervision.using(made):
        yield counted, events


def fail(_value: str) -> None:
    """Raise with a secret in the message and in a variable."""
    raise ValueError(f"cannot read {SECRET}")


def find_starts(tree: ast.AST) -> set[str]:
    """The calls that start a task or a timer without the supervisor, or without its clock."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    functions = (each for each in calls if isinstance(each, ast.Attribute) and each.attr in STARTERS)
    return {each.attr for each in functions if not ast.unparse(each.value).endswith(("supervision", "clock"))}


def test_nothing_starts_tasks_or_timers_elsewhere() -> None:
    found = {}
    for path in OPERATOR.rglob("*.py"):
        name = path.relative_to(OPERATOR).as_posix()
        if starts := find_starts(ast.parse(path.read_text())) - ALLOWED.get(name, set()):
            found[name] = starts
    assert found == {}


def test_task_that_must_not_end_runs_again_with_backoff() -> None:
    started: list[float] = []

    async def work() -> None:
        started.append(asyncio.get_running_loop().time())
        if len(started) % 2:
            fail(SECRET)

    async def story() -> None:
        task = supervision.spawn_forever("test", work)
        await asyncio.sleep(200)
        task.cancel()
        await asyncio.wait([task])

    with supervised() as (counted, _):
        virtual_time.run(story)
        assert supervision.current().find_dead() == []
    assert started == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0]
    assert counted == ["test"] * 9


def test_task_that_ran_for_long_begins_with_the_first_backoff() -> None:
    started: list[float] = []

    async def work() -> None:
        started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(100)
        fail(SECRET)

    async def story() -> None:
        task = supervision.spawn_forever("test", work)
        await asyncio.sleep(250)
        task.cancel()

    with supervised():
        virtual_time.run(story)
    assert started == [0.0, 101.0, 202.0]


def test_cancellation_that_was_not_requested_ends_no_task() -> None:
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise asyncio.CancelledError
        await asyncio.sleep(1000)

    async def story() -> None:
        task = supervision.spawn_forever("test", work)
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert (len(runs), counted) == (2, ["test"])


def test_task_whose_end_fails_ends_all_the_same() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            fail(SECRET)

    async def story() -> None:
        task = supervision.spawn_forever("test", work)
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait([task])

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert counted == ["test"]


def test_panic_of_an_extension_module_ends_no_task() -> None:
    class Panic(BaseException):
        """As pyo3 raises it."""

    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise Panic
        await asyncio.sleep(1000)

    async def story() -> None:
        task = supervision.spawn_forever("test", work)
        await asyncio.sleep(10)
        task.cancel()

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert (len(runs), counted) == (2, ["test"])


def test_task_that_must_be_done_once_is_retried_until_it_is() -> None:
    runs: list[int] = []

    async def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            fail(SECRET)

    async def story() -> None:
        await supervision.spawn_until_done("test", work)

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert (len(runs), counted) == (3, ["test", "test"])


def test_failure_of_a_single_task_ends_there() -> None:
    got: list[BaseException] = []

    async def work() -> None:
        fail(SECRET)

    def take(error: BaseException) -> None:
        got.append(error)
        fail(SECRET)

    async def story() -> None:
        await supervision.spawn("test", work, on_error=take)

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert ([type(each) for each in got], counted) == ([ValueError], ["test", "test"])


def test_timer_that_fails_is_due_again_until_it_succeeds() -> None:
    fired: list[float] = []

    def act() -> None:
        fired.append(asyncio.get_running_loop().time())
        if len(fired) < 3:
            fail(SECRET)

    async def story() -> None:
        supervision.call_later(5.0, act)
        await asyncio.sleep(100)

    with supervised() as (counted, _):
        virtual_time.run(story)
    assert (fired, counted) == ([5.0, 6.0, 8.0], ["timer", "timer"])


@pytest.mark.parametrize("after", [1.0, 5.5])
def test_timer_that_is_canceled_never_fires_again(after: float) -> None:
    fired: list[float] = []

    def act() -> None:
        fired.append(asyncio.get_running_loop().time())
        fail(SECRET)

    async def story() -> None:
        cancel = supervision.call_later(5.0, act)
        await asyncio.sleep(after)
        cancel()
        await asyncio.sleep(100)

    with supervised():
        virtual_time.run(story)
    assert len(fired) == (1 if after > 5 else 0)


def test_timer_that_cancels_itself_and_fails_stays_canceled() -> None:
    fired: list[int] = []

    def act() -> None:
        fired.append(1)
        cancels[0]()
        fail(SECRET)

    async def story() -> None:
        cancels.append(supervision.call_later(5.0, act))
        await asyncio.sleep(100)

    cancels: list[Any] = []
    with supervised():
        virtual_time.run(story)
    assert fired == [1]


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_timer_that_fired_is_freed_at_once(delay: float, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> weakref.ref[Any]:
        fired = asyncio.Event()
        left = weakref.ref(supervision.call_later(delay, fired.set).__self__)  # type: ignore[attr-defined]  # a method
        await fired.wait()
        await asyncio.sleep(0)
        return left

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            assert runner.run(story())() is None
    finally:
        gc.enable()


def test_report_names_types_and_places_and_no_values() -> None:
    def convert() -> None:
        try:
            fail(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error

    async def story() -> None:
        supervision.guard("test", convert)()

    with supervised() as (counted, events):
        virtual_time.run(story)
    [event] = events
    assert (counted, event["error"], event["where"]) == (["test"], "KeyError", "test")
    assert SECRET not in repr(event)
    functions = [line.rpartition(" ")[2] for line in event["traceback"]]
    assert functions == ["convert", "fail", "ValueError", "to", "guarded", "convert", "KeyError"]


def test_endless_recursion_is_logged_in_few_lines() -> None:
    def recurse() -> None:
        recurse()

    async def story() -> None:
        supervision.guard("test", recurse)()

    with supervised() as (_, events):
        virtual_time.run(story)
    assert len(events[0]["traceback"]) < 50


def test_same_failure_is_logged_in_full_once_and_always_counted() -> None:
    async def story() -> None:
        for _ in range(130):
            supervision.guard("test", fail)(SECRET)
            await asyncio.sleep(1)
        supervision.guard("test", lambda: 1 / 0)()

    with supervised() as (counted, events):
        virtual_time.run(story)
    assert len(counted) == 131
    assert [(each["event"], each["error"], each.get("total")) for each in events] == [
        ("internal error", "ValueError", None),
        ("internal error again", "ValueError", 61),
        ("internal error again", "ValueError", 121),
        ("internal error", "ZeroDivisionError", None),
    ]


def test_report_never_raises() -> None:
    def count(where: str) -> None:
        raise RuntimeError(where)

    with supervision.using(Supervisor(on_error=count, now=lambda: 1 / 0)):
        supervision.report("test", ValueError())


def test_what_nothing_guards_is_reported_by_the_loop() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(supervision.handle_loop_error)
        loop.call_soon(fail, SECRET)
        await asyncio.sleep(1)

    with supervised() as (counted, events):
        virtual_time.run(story)
    assert counted == ["loop"]
    assert SECRET not in repr(events)


@pytest.mark.parametrize(
    ("places", "is_reported"),
    [
        pytest.param(
            ("uvloop.loop.SSLProtocol._do_read", "uvloop.loop.UVHandle._ensure_alive"), False, id="of the loop"
        ),
        pytest.param(("HttpConnection.request", "uvloop.loop.UVHandle._ensure_alive"), True, id="of our own"),
        pytest.param(("uvloop.loop.SSLProtocol._do_read", "HttpConnection.data_received"), True, id="of a protocol"),
    ],
)
def test_data_for_a_closed_connection_is_no_fault(places: tuple[str, str], is_reported: bool) -> None:
    def fail_closed() -> None:
        raise RuntimeError("the handler is closed")

    inner = types.FunctionType(fail_closed.__code__.replace(co_name=places[1]), {"RuntimeError": RuntimeError})

    def call_inner() -> None:
        inner()

    outer = types.FunctionType(call_inner.__code__.replace(co_name=places[0]), {}, None, None, call_inner.__closure__)
    with supervised() as (counted, _):
        try:
            outer()
        except RuntimeError as error:
            supervision.handle_loop_error(cast(Any, None), {"exception": error})
    assert counted == (["loop"] if is_reported else [])
