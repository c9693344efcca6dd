"""The page on expressions: each example gives what stands beside it, and each function of ours has one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hearth.template.blueprint import Known
from hearth.template.cel import cel_environment, expressions

PAGE = Path(__file__).resolve().parents[4] / "docs" / "language.md"
ROW = re.compile(r"^\| `(?P<text>[^`]+)` \| `(?P<value>[^`]+)` \|", re.MULTILINE)
EXAMPLES = [
    (found["text"], json.loads(found["value"]))
    for found in ROW.finditer(PAGE.read_text())
    if found["value"][0] in '"[{0123456789tf'
]


@pytest.mark.parametrize(("text", "value"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_each_example_gives_its_value(text: str, value: Any) -> None:
    """As JSON."""
    assert expressions.bind(expressions.parse(text), path="p", constants={}).evaluate({}) == Known(value)


def test_each_function_of_ours_has_an_example() -> None:
    """The others are those of CEL."""
    assert len(EXAMPLES) > 60
    assert [
        name for name in cel_environment.DATA_FUNCTIONS if not any(f"{name}(" in text for text, _ in EXAMPLES)
    ] == []
