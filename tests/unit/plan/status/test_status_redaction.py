"""What other components say, in a status: without sensitive values, and no longer than the API server accepts."""

from __future__ import annotations

from typing import Any

from hearth.model import limits
from hearth.plan.status import status_builder


def make_status(reason: str, message: str) -> dict[str, Any]:
    """A status that says the same wherever it quotes objects."""
    entry = {"reason": reason, "message": message}
    return {"phase": "CreateFailed", "conditions": [entry], "problems": [entry], "check": {"problems": [entry]}}


def test_no_part_shows_a_sensitive_text() -> None:
    """Neither a reason nor the result of a check."""
    status = make_status("hunter22", "no hunter22 here")
    assert status_builder.redact_status(status, ["hunter22"]) == make_status("…", "no … here")
    assert status_builder.redact_status(status, []) is status


def test_long_texts_are_cut() -> None:
    """Otherwise the API server would reject the whole status. A condition has room for the messages of many problems."""
    found = status_builder.shorten_status(make_status("r" * 9_000, "m" * 9_000))
    reason, message = "r" * limits.REASON_SHOWN, "m" * limits.PROBLEM_SHOWN
    expected = make_status(reason, message)
    assert found == {**expected, "conditions": [{"reason": reason, "message": "m" * 9_000}]}
    assert status_builder.shorten_status(expected) == expected
