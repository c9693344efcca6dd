"""docs/logs.md names sentences that the operator logs, and the fields that come first."""

from __future__ import annotations

import re
from pathlib import Path

from hearth.serve import logs

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "logs.md").read_text()
EVENTS = re.findall(
    r"`([^`]+)`", "".join(re.findall(r"^\| (`[^|]+) \| [a-z, ]*(?:info|warning|error)", PAGE, re.MULTILINE))
)


def test_each_sentence_of_the_page_is_logged() -> None:
    """As a text of the code."""
    code = "\n".join(path.read_text() for path in (ROOT / "operator" / "hearth").rglob("*.py"))

    assert len(EVENTS) > 10
    assert [event for event in EVENTS if f'"{event}"' not in code] == []


def test_the_fields_of_each_line_are_described() -> None:
    """Those that come first in every line."""
    assert [field for field in logs.FIRST_FIELDS if f"| `{field}` |" not in PAGE] == []
