"""Commands without an operator evaluate with its limits, and end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from hearth.sandbox import process
from hearth.sandbox.process import OfflineEvaluator
from hearth.template.cel.evaluation import Excess, Failure, Unwritable, Value

SLOW = "params.a.map(x, params.a.map(y, params.a.map(z, x + y + z))).size()"


@pytest.fixture
def evaluator() -> Iterator[OfflineEvaluator]:
    """One with a process of its own."""
    with contextlib.closing(OfflineEvaluator()) as made:
        yield made


def test_answers(evaluator: OfflineEvaluator) -> None:
    """A value, a failure, a limit, and a value after a limit: the process is replaced."""
    assert evaluator.ask("params.a + 1", {"params": {"a": 1}}) == Value(b"2")
    assert isinstance(evaluator.ask("params.a + 'x'", {"params": {"a": 1}}), Failure)
    assert isinstance(evaluator.ask(SLOW, {"params": {"a": list(range(2_000))}}), Excess)
    assert evaluator.ask("params.a + 2", {"params": {"a": 1}}) == Value(b"3")
    assert isinstance(evaluator.ask("a", {"a": object()}), Unwritable)


async def test_it_answers_within_a_loop(evaluator: OfflineEvaluator) -> None:
    """With a cluster, commands run in one."""
    assert evaluator.ask("1 + 1", {}) == Value(b"2")


def test_all_expressions_together_have_a_time() -> None:
    """What comes after it is not evaluated."""
    clock = iter([0.0, process.ALL_SECONDS])
    with contextlib.closing(OfflineEvaluator(now=lambda: next(clock))) as evaluator:
        assert evaluator.ask("1 + 1", {}) == Value(b"2")
        assert evaluator.ask("1 + 1", {}) == process.TOO_LONG
