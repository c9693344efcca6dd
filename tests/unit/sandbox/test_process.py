"""One evaluator process: its results, its termination when it exceeds its limits, and a process for commands."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from hearth.model import limits
from hearth.sandbox import process
from hearth.sandbox.process import CPU, MEMORY, TOO_LARGE, Lost, OfflineEvaluator, Process
from hearth.template.cel.evaluation import Answer, Excess, Failure, Unwritable, Value


def make_bomb(levels: int) -> str:
    """A short expression that repeatedly doubles a list."""
    text = f"size(a{levels})"
    for level in range(levels, 0, -1):
        text = f"cel.bind(a{level}, a{level - 1}+a{level - 1}, {text})"
    return text.replace("a0", "[1]")


def read_command(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def look_at(pid: int) -> tuple[set[str], list[int], int]:
    """The names in a process's environment, its open files, and its priority for the out-of-memory killer."""
    place = Path(f"/proc/{pid}")
    names = {each.partition("=")[0] for each in (place / "environ").read_text().split("\0")} - {""}
    files = sorted(int(each.name) for each in (place / "fd").iterdir())
    return names, files, int((place / "oom_score_adj").read_text())


@pytest.fixture
async def worker() -> AsyncIterator[Process]:
    started = await process.start()
    yield started
    await started.end()


async def ask(worker: Process, text: str, **data: Any) -> Answer:
    return await worker.ask(text, orjson.dumps(data))


@pytest.mark.parametrize(
    ("text", "data", "answer"),
    [
        pytest.param("x + 1", {"x": 1}, Value(b"2"), id="a-number"),
        pytest.param("x.a.map(i, i * 2)", {"x": {"a": [1, 2]}}, Value(b"[2,4]"), id="a-list"),
        pytest.param("x.y", {"x": {}}, Failure, id="a-failure"),
        pytest.param("1.0 / 0.0", {}, Unwritable, id="no-json"),
        pytest.param("[optional.none()]", {}, Failure, id="no-plain-value"),
        pytest.param("x + x", {"x": "a" * 1_500_000}, TOO_LARGE, id="too-large"),
        pytest.param(make_bomb(24), {}, MEMORY, id="doubling"),
        pytest.param("x.map(i, i)", {"x": list(range(9000))}, MEMORY, id="a-list-copied-at-each-step"),
    ],
)
async def test_an_expression_has_an_answer(worker: Process, text: str, data: dict[str, Any], answer: Any) -> None:
    found = await ask(worker, text, **data)

    assert isinstance(found, answer) if isinstance(answer, type) else found == answer


async def test_what_takes_more_than_its_cpu_ends_the_process_alone() -> None:
    worker = await process.start()

    answer = await ask(worker, 'y.exists(i, s.replace("a", "bb").size() < 0)', s="a" * 800_000, y=list(range(1000)))

    assert (answer, worker.is_usable) == (CPU, False)


async def test_after_using_up_the_memory_a_process_is_not_used_again(worker: Process) -> None:
    await ask(worker, make_bomb(24))

    assert not worker.is_usable


async def test_a_process_has_nothing_of_ours() -> None:
    os.environ["HEARTH_SECRET"] = "hunter2"
    worker = await process.start()
    try:
        found = look_at(worker.pid)
    finally:
        del os.environ["HEARTH_SECRET"]
        await worker.end()

    assert found == ({"PYTHONPATH", "LC_ALL"}, [0, 1, 2], 1000)


async def test_its_command_line_shows_no_value(worker: Process) -> None:
    await ask(worker, "x", x="hunter2")

    assert "hunter2" not in read_command(worker.pid)


ODD = {
    "ends": "import sys; sys.exit(3)",
    "garbage": "import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(b'garbage! ' * 9); sys.stdout.flush()",
    "endless": "import sys; sys.stdin.buffer.read(8); sys.stdout.buffer.write(b'V\\xff\\xff\\xff\\xff'); sys.stdout.flush()",
    "is killed": "import os; os.kill(os.getpid(), 9)",
}
READY = "import sys; sys.stdout.buffer.write(b'R\\0\\0\\0\\0'); sys.stdout.flush(); "


@pytest.mark.parametrize("behavior", ODD.values(), ids=ODD)
async def test_a_process_that_behaves_badly_is_lost_and_nothing_else(behavior: str) -> None:
    worker = await process.start([sys.executable, "-c", READY + behavior])

    with pytest.raises(Lost):
        await worker.ask("1", b"{}")
    await worker.end()

    assert not worker.is_usable


async def test_a_process_that_hangs_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVALUATOR_WALL", 0.2)
    worker = await process.start([sys.executable, "-c", READY + "import time; time.sleep(60)"])

    with pytest.raises(Lost, match=r"returned no result within 0\.2 s"):
        await worker.ask("1", b"{}")

    assert await worker.end() == -signal.SIGKILL


@pytest.mark.parametrize("command", [["/no/such/program"], [sys.executable, "-c", ""]], ids=["absent", "silent"])
async def test_a_process_that_does_not_start_is_lost(command: list[str]) -> None:
    with pytest.raises(Lost, match="cannot be evaluated"):
        await process.start(command)


async def test_a_process_ends_with_the_operator() -> None:
    worker = await process.start()
    worker._requests.close()

    async with asyncio.timeout(20):
        assert await worker._inner.wait() == 0


# Commands without an operator evaluate with its limits, and end.


SLOW = "params.a.map(x, params.a.map(y, params.a.map(z, x + y + z))).size()"


@pytest.fixture
def evaluator() -> Iterator[OfflineEvaluator]:
    """An evaluator with a separate process."""
    with contextlib.closing(OfflineEvaluator()) as made:
        yield made


def test_answers(evaluator: OfflineEvaluator) -> None:
    assert evaluator.ask("params.a + 1", {"params": {"a": 1}}) == Value(b"2")
    assert isinstance(evaluator.ask("params.a + 'x'", {"params": {"a": 1}}), Failure)
    assert isinstance(evaluator.ask(SLOW, {"params": {"a": list(range(2_000))}}), Excess)
    assert evaluator.ask("params.a + 2", {"params": {"a": 1}}) == Value(b"3")
    assert isinstance(evaluator.ask("a", {"a": object()}), Unwritable)


async def test_it_answers_within_a_loop(evaluator: OfflineEvaluator) -> None:
    assert evaluator.ask("1 + 1", {}) == Value(b"2")


def test_all_expressions_together_have_a_time() -> None:
    clock = iter([0.0, process.ALL_SECONDS])
    with contextlib.closing(OfflineEvaluator(now=lambda: next(clock))) as evaluator:
        assert evaluator.ask("1 + 1", {}) == Value(b"2")
        assert evaluator.ask("1 + 1", {}) == process.TOO_LONG
