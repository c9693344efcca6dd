"""Which revisions completed: the last two decide what a rollback goes to, people see all of them."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits
from hearth.plan.status import status_builder
from hearth.plan.target.target import CompletedRevisions


@pytest.mark.parametrize(
    ("before", "completed", "expected"),
    [
        pytest.param({}, CompletedRevisions(last=1), [], id="the first"),
        pytest.param({"lastCompletedRevision": 1}, CompletedRevisions(last=2, previous=1), [], id="the second"),
        pytest.param(
            {"lastCompletedRevision": 2, "previousCompletedRevision": 1},
            CompletedRevisions(last=5, previous=2),
            [1],
            id="a third",
        ),
        pytest.param(
            {"lastCompletedRevision": 5, "previousCompletedRevision": 2, "earlierCompletedRevisions": [1]},
            CompletedRevisions(last=1, previous=5),
            [2],
            id="back to an earlier one",
        ),
        pytest.param(
            {"earlierCompletedRevisions": ["3", None, -1, 2, {"a": 1}], "lastCompletedRevision": "x"},
            CompletedRevisions(last=4),
            [2],
            id="written by another client",
        ),
        pytest.param({"earlierCompletedRevisions": 7}, CompletedRevisions(last=4), [], id="no list"),
    ],
)
def test_earlier_revisions_stay_known(
    before: dict[str, Any], completed: CompletedRevisions, expected: list[int]
) -> None:
    """Each once, and none that is the last or the one before."""
    assert status_builder.find_earlier_completed(completed, before) == expected


def test_only_so_many_are_kept() -> None:
    """As many as there may be revisions: the newest."""
    many = {"earlierCompletedRevisions": list(range(1, 1000))}
    found = status_builder.find_earlier_completed(CompletedRevisions(last=1000), many)
    assert found == list(range(1000 - limits.REVISION_HISTORY, 1000))
