"""No expression that the operator evaluates in its own process takes much time or memory, for any expression and
input.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from hearth.template.blueprint import Known
from hearth.template.cel import cel_environment, cost, evaluation, expressions

MOST_SECONDS = 0.1
"""Of CPU for one expression; the event loop waits for it."""
MOST_MEMORY = 64.0
"""MiB."""
SIZES = st.sampled_from([0, 1, 3, 30, 300, 1_000, 3_000, 9_000])
LENGTHS = st.sampled_from([0, 1, 10, 100, 1_000, 10_000, 100_000, 800_000])
PATTERNS = st.sampled_from(
    [
        "(a+)+b",
        "a{0,100}b",
        "((a{0,10}){0,10}){0,10}b",
        "(a|b)*a(a|b){50}$",
        r"(\\p{L}|a){20}b",
        ".*.*.*b",
        "^[a-z]{1,63}$",
    ]
)
SMALL = st.sampled_from(["''", "'a'", "'ab'", "','", "'%s-%s'", "params.word"])
VARIABLES = ("u", "v", "w")


@functools.cache
def texts(depth: int) -> st.SearchStrategy[str]:
    """Expressions that usually return text."""
    leaves = st.one_of(SMALL, st.just("params.text"), st.sampled_from(VARIABLES))
    if depth == 0:
        return leaves
    text, number, many = texts(depth - 1), numbers(depth - 1), lists(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} + {})".format, text, text),
        st.builds("{}.replace({}, {})".format, text, text, text),
        st.builds("{}.join({})".format, many, text),
        st.builds("'%s%s'.format([{}, {}])".format, text, many),
        st.builds("string({})".format, number),
        st.builds("base64.encode(bytes({}))".format, text),
        st.builds("{}.upperAscii()".format, text),
        st.builds("{}.substring({})".format, text, number),
        st.builds("({} ? {} : {})".format, truths(depth - 1), text, text),
        st.builds("cel.bind({}, {}, {})".format, st.sampled_from(VARIABLES), text, text),
    )


@functools.cache
def lists(depth: int) -> st.SearchStrategy[str]:
    """Expressions that usually return a list."""
    leaves = st.sampled_from(["params.list", "params.words", "[1, 2, 3]", "[]", "params.object"])
    if depth == 0:
        return leaves
    text, number, many = texts(depth - 1), numbers(depth - 1), lists(depth - 1)
    name = st.sampled_from(VARIABLES)
    return st.one_of(
        leaves,
        st.builds("({} + {})".format, many, many),
        st.builds("{}.map({}, {})".format, many, name, st.one_of(text, number, many)),
        st.builds("{}.filter({}, {})".format, many, name, truths(depth - 1)),
        st.builds("{}.split({})".format, text, text),
        st.builds("[{}, {}, {}]".format, text, many, number),
        st.builds("cel.bind({}, {}, {})".format, name, many, many),
    )


@functools.cache
def numbers(depth: int) -> st.SearchStrategy[str]:
    """Expressions that usually return a number."""
    leaves = st.sampled_from(["1", "params.number", "size(params.list)", *VARIABLES])
    if depth == 0:
        return leaves
    return st.one_of(
        leaves,
        st.builds("size({})".format, st.one_of(texts(depth - 1), lists(depth - 1))),
        st.builds("({} * {})".format, numbers(depth - 1), numbers(depth - 1)),
        st.builds("{}.indexOf({})".format, texts(depth - 1), texts(depth - 1)),
        st.builds("int({})".format, texts(depth - 1)),
    )


@functools.cache
def truths(depth: int) -> st.SearchStrategy[str]:
    """Expressions that usually return true or false."""
    leaves = st.sampled_from(["true", "params.number > 1"])
    if depth == 0:
        return leaves
    text, many, name = texts(depth - 1), lists(depth - 1), st.sampled_from(VARIABLES)
    return st.one_of(
        leaves,
        st.builds("{}.matches('{}')".format, text, PATTERNS),
        st.builds("{}.contains({})".format, text, text),
        st.builds("({} == {})".format, many, many),
        st.builds("({} in {})".format, text, many),
        st.builds("{}.{}({}, {})".format, many, st.sampled_from(["exists", "all", "exists_one"]), name, truths(depth - 1)),
    )  # fmt: skip


def anything(depth: int) -> st.SearchStrategy[str]:
    """Any expression."""
    return st.one_of(texts(depth), lists(depth), numbers(depth), truths(depth))


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters, some of them large."""
    size, length = draw(SIZES), draw(LENGTHS)
    word = draw(st.sampled_from(["a", "ab", "é"]))
    return {
        "text": word * length,
        "word": word * draw(st.sampled_from([1, 10, 1_000])),
        "number": draw(st.sampled_from([0, 1, 7, 10_000])),
        "list": list(range(size)),
        "words": [word * draw(st.sampled_from([0, 10, 1_000]))] * min(size, 1_000),
        "object": {f"key{number}": {"a": [number]} for number in range(min(size, 1_000))},
    }


@dataclass
class Tally(evaluation.Untimed):
    """A port that admits small expressions and remembers refused ones."""

    refused: int = 0

    def admits(self, cost: cost.Cost) -> bool:
        """By its bound."""
        return evaluation.is_small(cost)

    def ask(self, _text: str, _data: object) -> None:
        """Nothing is evaluated elsewhere."""
        self.refused += 1


def forget_peak() -> float:
    """Reset the peak memory of this process; return its current memory in MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return read_status("VmRSS")


def read_status(name: str) -> float:
    """MiB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def check(text: str, params: dict[str, Any]) -> bool:
    """Evaluate it as the operator would; whether it gave a value."""
    try:
        parsed = expressions.parse(text)
    except cel_environment.CelCompileError:
        assume(False)
    bound = expressions.bind(parsed, path="p", constants={"params": expressions.enlarge(params)}, evaluator=Tally())
    # A look for garbage among all that the test run holds is no work of the expression's.
    gc.disable()
    try:
        held, begun = forget_peak(), time.thread_time()
        outcome = bound.evaluate({name: {} for name in VARIABLES})
        took, grown = time.thread_time() - begun, read_status("VmHWM") - held
    finally:
        gc.enable()
    assert took < MOST_SECONDS, f"{took:.3f} s"
    assert grown < MOST_MEMORY, f"{grown:.0f} MiB"
    return isinstance(outcome, Known)


QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], derandomize=True
)
THOROUGH = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(text=anything(3), params=inputs())
def test_what_is_evaluated_in_the_process_is_small(text: str, params: dict[str, Any]) -> None:
    check(text, params)


@pytest.mark.soak
@THOROUGH
@given(text=anything(4), params=inputs())
def test_what_is_evaluated_in_the_process_is_small_for_long(text: str, params: dict[str, Any]) -> None:
    check(text, params)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.one_of(st.text(max_size=200), anything(3).map(lambda each: each.replace("(", "", 1))))
def test_no_text_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(cel_environment.CelCompileError):
        assert expressions.parse(text).text == text
