"""Delays of failed requests: one table, which the architecture page shows."""

from __future__ import annotations

import ast
import inspect
import itertools

import pytest

from hearth.model import retry_delays
from hearth.model.retry_delays import RetryDelay
from support import repository

PAGE = repository.DOCS / "architecture.md"
READ = RetryDelay("read an object", 2.0, 10.0)


def list_rows() -> list[str]:
    """The rows of the table on the page: each delay, with the reason that stands below it in the code."""
    statements = ast.parse(inspect.getsource(retry_delays)).body
    rows = []
    for statement, following in itertools.pairwise([*statements, ast.Pass()]):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            delay = getattr(retry_delays, statement.targets[0].id)
            assert isinstance(following, ast.Expr), f"{delay.request} has no reason"
            reason = " ".join(ast.literal_eval(following.value).split())
            longest = f" to {delay.longest:g} s" if delay.longest != delay.first else ""
            rows.append(f"| {delay.request} | {delay.first:g} s{longest} | {reason} |")
    return rows


def test_the_architecture_page_shows_every_delay_with_its_reason() -> None:
    _, _, table = PAGE.read_text().partition("| request | delay | reason |\n|---|---|---|\n")

    assert table.partition("\n\n")[0].splitlines() == list_rows()


@pytest.mark.parametrize(("failures", "seconds"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (10_000, 10.0)])
def test_delays_double_up_to_the_longest(failures: int, seconds: float) -> None:
    assert READ.find_seconds(failures) == seconds


def test_a_server_may_request_a_longer_delay_and_no_shorter_one() -> None:
    assert READ.find_seconds(retry_after=30.0) == 30.0
    assert READ.find_seconds(retry_after=1.0) == 2.0
