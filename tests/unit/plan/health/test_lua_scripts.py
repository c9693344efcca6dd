"""Health scripts: their verdicts, and attacks on the process that runs them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hearth.plan.health import lua_scripts
from hearth.plan.health.lua_scripts import ScriptFailure

SECONDS = 0.25
"""CPU time after which a script counts as endless, on a machine that others use too; alone each takes at most 0.06."""

READY = """
for _, each in ipairs(obj.status.conditions) do
  if each.type == "Ready" and each.status == "True" then
    hs = {status = "Healthy", message = each.message}
    return hs
  end
end
"""


def judge(script: str, **obj: Any) -> tuple[str, str] | None:
    """The verdict of the script on the object."""
    return lua_scripts.get_runtime().judge(script, obj)


def fail(script: str, **obj: Any) -> str:
    """The failure of the script."""
    with pytest.raises(ScriptFailure) as failure:
        judge(script, **obj)
    return str(failure.value)


def read(expression: str, **obj: Any) -> str:
    """The value of an expression within a script, as text."""
    found = judge(f"return {{status = tostring({expression})}}", **obj)
    assert found is not None
    return found[0]


CONDITIONS = [{"type": "Ready", "status": "True", "message": "grün"}]


def test_a_script_gives_status_and_message() -> None:
    assert judge(READY, status={"conditions": CONDITIONS}) == ("Healthy", "grün")


def test_a_script_may_have_no_verdict() -> None:
    assert judge(READY, status={"conditions": []}) is None


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


@pytest.mark.parametrize(("script", "message"), FAILING)
def test_a_script_that_fails_says_why_and_harms_nothing(script: str, message: str) -> None:
    found = fail(script, status={})

    assert message in found
    assert "traceback" not in found
    assert judge(READY, status={"conditions": []}) is None


def test_the_steps_of_a_script_that_fails_are_not_those_of_the_next() -> None:
    for rounds in range(33_200, 33_340):
        assert "boom" in fail(f"for i = 1, {rounds} do end error('boom')")
        assert judge(READY, status={"conditions": CONDITIONS}) is not None, rounds


def test_earlier_versions_of_a_script_take_no_memory_from_it() -> None:
    cases = "\n".join(f"if obj.n == {number} then return {{status = 'Degraded'}} end" for number in range(2, 8_000))
    for version in range(40):
        assert judge(f"-- {version}\n{cases}\nreturn {{status = 'Healthy'}}", n=1) == ("Healthy", ""), version


def test_long_texts_are_shortened() -> None:
    found = judge("local s = 'x' for i = 1, 22 do s = s .. s end return {status = s, message = s}")
    assert found is not None
    assert [len(each) for each in found] == [4096, 4096]


LARGE = "local s = 'a' for i = 1, 22 do s = s .. s end "
"""A text of four MiB."""
ENDLESS = [
    *("while true do end", LARGE + "while true do local t = s .. 'x' end", LARGE + "while true do local x = s < s .. 'b' end"),
    *(f"{LARGE} while true do s:{name}() end" for name in ("upper", "lower", "reverse", "len")),
    *(LARGE + "while true do s:find('b', 1, true) end", LARGE + "for i = 1, 100000 do string.format('%s', s) end"),
    *(LARGE + "local t = {} for i = 1, 9000 do t[i] = s end table.sort(t)", "while true do string.format('%99.99f', 1e308) end"),
    *("local t = {} for i = 1, 9000 do t[i] = 1.5 * i end while true do table.concat(t) end",),
    *("local t = {} for i = 1, 20000 do t[i] = i end while true do local k = next(t) t[k] = nil end",),
    *("local t = {} while true do table.insert(t, 1, t) end", "local t = {} while true do t[#t + 1] = {{}, {}, {}} end"),
    *("local t = {} for i = 1, 9000 do t[i] = i end table.sort(t, function() while true do end end)",),
    *("while true do obj.text:sub(1, 1900):gsub('.-b', '') end", "while true do obj.text:sub(1, 200):find('.-.-b') end"),
    *("while true do for w in obj.text:sub(1, 1900):gmatch('.-b') do end end", "while true do obj.text:find('^.-%b()') end"),
]  # fmt: skip


@pytest.mark.parametrize("script", ENDLESS)
def test_a_script_that_never_ends_is_stopped_within_a_moment(script: str) -> None:
    begun = time.thread_time()
    fail(script, text="a" * 5_000)

    assert time.thread_time() - begun < SECONDS


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(form.replace("PATTERN", "'.-.-.-.-.-.-.-.-.-b'"), "matches a pattern with 9 repetitions with a text of 5000 characters", id=name)
        for name, form in {
            "find": "string.find(obj.text, PATTERN)",
            "match": "string.match(obj.text, PATTERN)",
            "gmatch": "string.gmatch(obj.text, PATTERN)()",
            "gsub": "string.gsub(obj.text, PATTERN, '')",
            "method": "obj.text:find(PATTERN)",
        }.items()
    ] + [
        pytest.param("obj.text:find('^%s*(.-)%s*$')", "matches a pattern with 3 repetitions", id="honest"),
        pytest.param("obj.text:find('[%]*+?-]a' .. 'b?b?b?')", "with 3 repetitions", id="a-set-is-one-character"),
        pytest.param("obj.text:find(obj.text)", "more than 200 characters", id="long-pattern"),
        pytest.param("string.format(obj.text)", "formats more than 200 characters", id="long-format"),
        pytest.param("obj.text:find('%b()%b()')", "with 2 repetitions", id="balanced"),
        pytest.param("obj.text:find('(a*)%1b')", "with 2 repetitions", id="repeated-capture"),
        pytest.param("local t = {} for i = 1, 10002 do t[i] = i end table.concat(t)", "more than 10000 values", id="concat"),
        pytest.param("local t = {} for i = 1, 10002 do t[i] = i end table.sort(t)", "more than 10000 values", id="sort"),
        pytest.param("table.concat({}, '', 1, 1e15)", "more than 10000 values", id="concat-of-nothing"),
    ],
)  # fmt: skip
def test_a_function_that_would_run_long_is_refused(script: str, message: str) -> None:
    begun = time.thread_time()

    assert message in fail(script, text="a" * 5_000)
    assert time.thread_time() - begun < SECONDS


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("('deployment/web: not ready yet'):match('^(.-): (.*)$')", "deployment/web"),
        ("('a-b-c'):gsub('%-', '+')", "a+b+c"),
        ("('v1.28.3'):match('v(%d+)%.(%d+)')", "1"),
        ("('a.b'):find('.', 1, true)", "2"),
        ("('xay'):find('a')", "2"),
        ("(1234):find('2')", "nil"),
        ("string.find(1234, '2')", "2"),
        ("table.concat({'a', 'b'}, ',')", "a,b"),
        ("table.concat({'a', 'b', 'c'}, '', 2)", "bc"),
        ("(function() local t = {3, 1, 2} table.sort(t) return table.concat(t) end)()", "123"),
        ("(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t[1] end)()", "3"),
        ("string.format('%s has %d', 'web', 3)", "web has 3"),
        ("(function() local n = 0 for w in ('a b c'):gmatch('%a') do n = n + 1 end return n end)()", "3"),
    ],
)
def test_functions_work_as_in_lua(expression: str, expected: str) -> None:
    if expected == "nil":
        assert "attempt to index a number value" in fail(f"return {expression}")
        return
    assert read(f"({expression})") == expected


ABSENT = [
    *("python", "debug", "load", "loadstring", "dofile", "loadfile", "require", "package", "io", "_G"),
    *("getmetatable", "setmetatable", "rawget", "rawset", "rawequal", "rawlen", "pcall", "xpcall"),
    *("coroutine", "collectgarbage", "print", "utf8", "string.rep", "string.dump", "string.pack", "table.move"),
    *("os.execute", "os.getenv", "os.exit", "os.remove", "os.clock", "math.random", "('').rep", "('').dump"),
]


def test_a_script_has_no_function_that_reaches_out() -> None:
    assert {name: read(name) for name in ABSENT} == dict.fromkeys(ABSENT, "nil")


def test_nothing_stays_for_the_next_run() -> None:
    judge("left = 'secret'; string.format = nil; table.insert = nil; math.max = nil; ipairs = nil")
    assert read("left") == "nil"
    for name in ("string.format", "('').format", "table.insert", "math.max", "ipairs"):
        assert read(name).startswith(("function", "builtin")), name


def test_time_is_a_constant() -> None:
    """A verdict must depend only on the object."""
    assert read("os.time({year = 2026, month = 1, day = 1})") == "0"


def test_numbers_of_any_size_and_nulls_are_read() -> None:
    assert read("obj.n + 1", n=41) == "42"
    assert read("obj.n", n=2**63) == "9.2233720368548e+18"
    assert read("obj.n", n=None) == "nil"
    assert read("table.getn(obj.n)", n=[1, 2]) == "2"
