"""Health scripts in an evaluator process: their verdicts, and attacks on the rest of the process."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from hearth.sandbox import frames, process
from hearth.sandbox.process import CPU, Process
from hearth.template.cel.evaluation import Answer, Failure, Value

READY = """
for _, each in ipairs(obj.status.conditions) do
  if each.type == "Ready" and each.status == "True" then
    hs = {status = "Healthy", message = each.message}
    return hs
  end
end
"""


@pytest.fixture
async def worker() -> AsyncIterator[Process]:
    started = await process.start()
    yield started
    await started.end()


async def ask(worker: Process, script: str, **obj: Any) -> Answer:
    """The verdict of the script on the object."""
    return await worker.ask(script, orjson.dumps(obj), frames.LUA)


async def read(worker: Process, expression: str, **obj: Any) -> str:
    """The value of an expression within a script, as text."""
    answer = await ask(worker, f"return {{status = tostring({expression})}}", **obj)
    assert isinstance(answer, Value)
    found: str = orjson.loads(answer.packed)[0]
    return found


CONDITIONS = [{"type": "Ready", "status": "True", "message": "grün"}]


async def test_a_script_gives_status_and_message(worker: Process) -> None:
    answer = await ask(worker, READY, status={"conditions": CONDITIONS})
    assert isinstance(answer, Value)
    assert orjson.loads(answer.packed) == ["Healthy", "grün"]


async def test_a_script_may_have_no_verdict(worker: Process) -> None:
    assert await ask(worker, READY, status={"conditions": []}) == Value(b"null")


FAILING = [
    ("while true do end", "takes more than 100000 steps"),
    ("local function f() return 1 + f() end return f()", "takes more than 100000 steps"),
    ("local s = 'x' while true do s = s .. s end", "takes more than 16 MiB"),
    ("local t = {} for i = 1, 50000 do t[i] = ('x'):format() .. i .. t end", "attempt to concatenate a table value"),
    ("return 5", "returns a number, not a table"),
    ("error('out of cheese')", "out of cheese"),
    ("error({})", "raises an error without a message"),
    ("error()", "raises an error without a message"),
    ("hs = = 1", "script:1: unexpected symbol near '='"),
    ("return obj.status.no.such", "attempt to index a nil value"),
    ("return {status = 'x', message = string.char(255)}", "can't decode"),
    ("\x1bLua\x54\x00", "attempt to load a binary chunk"),
    ("pcall(error)", "attempt to call a nil value (global 'pcall')"),
]


async def test_a_script_that_fails_says_why_and_harms_nothing(worker: Process) -> None:
    for script, message in FAILING:
        begun = time.monotonic()
        answer = await ask(worker, script, status={})
        assert isinstance(answer, Failure), script
        assert message in answer.message
        assert "traceback" not in answer.message
        assert time.monotonic() - begun < 5
        assert worker.is_usable
        assert await ask(worker, READY, status={"conditions": []}) == Value(b"null")


async def test_the_steps_of_a_script_that_fails_are_not_those_of_the_next(worker: Process) -> None:
    for rounds in range(33_200, 33_340):
        answer = await ask(worker, f"for i = 1, {rounds * 3} do end error('boom')", status={})
        assert isinstance(answer, Failure)
        assert isinstance(await ask(worker, READY, status={"conditions": CONDITIONS}), Value), rounds


async def test_earlier_versions_of_a_script_take_no_memory_from_it(worker: Process) -> None:
    cases = "\n".join(f"if obj.n == {number} then return {{status = 'Degraded'}} end" for number in range(2, 8_000))
    for version in range(40):
        answer = await ask(worker, f"-- {version}\n{cases}\nreturn {{status = 'Healthy'}}", n=1)
        assert isinstance(answer, Value), version


async def test_long_texts_are_shortened(worker: Process) -> None:
    answer = await ask(worker, "local s = 'x' for i = 1, 22 do s = s .. s end return {status = s, message = s}")
    assert isinstance(answer, Value)
    assert [len(each) for each in orjson.loads(answer.packed)] == [4096, 4096]


PATTERN = "return {status = tostring(string.find(obj.status.text, '.-.-.-.-.-.-.-.-.-b'))}"
"""Backtracking in C, where steps are not counted."""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(PATTERN, id="find"),
        pytest.param(PATTERN.replace("string.find(", "string.match("), id="match"),
        pytest.param(PATTERN.replace("string.find(", "string.gmatch(").replace("b')", "b')()"), id="gmatch"),
        pytest.param(PATTERN.replace("b')", "b', '')").replace("find", "gsub"), id="gsub"),
        pytest.param("return obj.status.text:find('.-.-.-.-.-.-.-.-.-b')", id="method"),
    ],
)
async def test_a_pattern_that_backtracks_without_end_ends_with_its_process(script: str) -> None:
    worker = await process.start()
    try:
        assert await ask(worker, script, status={"text": "a" * 5_000}) == CPU
        assert not worker.is_usable
    finally:
        await worker.end()


ABSENT = [
    *("python", "debug", "load", "loadstring", "dofile", "loadfile", "require", "package", "io", "_G"),
    *("getmetatable", "setmetatable", "rawget", "rawset", "rawequal", "rawlen", "pcall", "xpcall"),
    *("coroutine", "collectgarbage", "print", "utf8", "string.rep", "string.dump", "string.pack", "table.move"),
    *("os.execute", "os.getenv", "os.exit", "os.remove", "os.clock", "math.random", "('').rep", "('').dump"),
]


async def test_a_script_has_no_function_that_reaches_out(worker: Process) -> None:
    assert {name: await read(worker, name) for name in ABSENT} == dict.fromkeys(ABSENT, "nil")


async def test_nothing_stays_for_the_next_run(worker: Process) -> None:
    await ask(worker, "left = 'secret'; string.format = nil; table.insert = nil; math.max = nil; ipairs = nil")
    assert await read(worker, "left") == "nil"
    for name in ("string.format", "('').format", "table.insert", "math.max", "ipairs"):
        assert (await read(worker, name)).startswith(("function", "builtin")), name


async def test_time_is_a_constant(worker: Process) -> None:
    """A verdict must depend only on the object."""
    assert await read(worker, "os.time({year = 2026, month = 1, day = 1})") == "0"


async def test_numbers_of_any_size_and_nulls_are_read(worker: Process) -> None:
    assert await read(worker, "obj.n + 1", n=41) == "42"
    assert await read(worker, "obj.n", n=2**63) == "9.2233720368548e+18"
    assert await read(worker, "obj.n", n=None) == "nil"
    assert await read(worker, "table.getn(obj.n)", n=[1, 2]) == "2"


async def test_a_process_that_judges_evaluates_expressions_as_well(worker: Process) -> None:
    assert await worker.ask("x + 1", b'{"x": 1}') == Value(b"2")
