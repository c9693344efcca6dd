"""The table of queues and pools lists every place where work waits, with its fairness rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from support import repository

CODE = repository.OPERATOR / "hearth"
PAGE = repository.DOCS / "write-concurrency.md"
LINES = {
    *("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "deque"),
    *("Semaphore", "BoundedSemaphore", "asyncio.Lock", "asyncio.Condition"),
    *("ThreadPoolExecutor", "ProcessPoolExecutor", "to_thread", "run_in_executor"),
    *("FairExecutor", "FairSlots", "FairTurns", "NamespaceLine", "ObjectLoop"),
}
"""Classes and functions that create a queue or pool."""
ALONE = {"cli", "preview", "graph"}
"""Packages that serve one user, or walk a graph."""


def find_lines(source: str) -> Iterator[str]:
    """The names of queues and pools that a module creates."""
    for node in ast.walk(ast.parse(source)):
        made: list[ast.expr] = []
        if isinstance(node, ast.Call):
            made = [node.func, *(each.value for each in node.keywords if each.arg == "default_factory")]
        for each in made:
            name = ast.unparse(each)
            yield from {name, name.rpartition(".")[2]} & LINES


def list_modules() -> set[str]:
    """The modules that create a queue or pool."""
    found = {path.relative_to(CODE): path.read_text() for path in CODE.rglob("*.py")}
    return {path.as_posix() for path, source in found.items() if path.parts[0] not in ALONE and any(find_lines(source))}


def read_table() -> str:
    return PAGE.read_text().partition("## Queues and pools")[2].partition("\n## ")[0]


def test_every_queue_is_in_the_table() -> None:
    named = set(re.findall(r"`([a-z_/]+\.py)`", read_table()))
    assert list_modules() - named == set()
    assert named - list_modules() <= {"model/turns.py"}


def test_each_row_says_who_shares_and_what_is_left() -> None:
    rows = [line.strip("|").split("|") for line in read_table().splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10
    assert [row for row in rows if len(row) != 5 or not all(cell.strip() for cell in row)] == []


@pytest.mark.parametrize(
    "source",
    [
        "x = asyncio.Queue()",
        "x = asyncio.Semaphore(3)",
        "x: deque[int] = deque()",
        "slots: FairSlots = field(default_factory=FairSlots)",
        "async def f(): await asyncio.to_thread(g)",
        "x = concurrent.futures.ThreadPoolExecutor(2)",
    ],
)
def test_a_queue_is_found(source: str) -> None:
    assert list(find_lines(source))
