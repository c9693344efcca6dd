"""Which revisions are forgotten."""

from __future__ import annotations

import pytest

from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import stack_revisions


def make_revisions(*kinds: str) -> list[Revision]:
    """Numbered from 1, each with the kinds in a text, a letter each."""
    return [
        Revision(name=f"r{number}", number=number, hash=str(number), kinds=frozenset(letters))
        for number, letters in enumerate(kinds, 1)
    ]


@pytest.mark.parametrize(
    ("count", "needed", "limit", "expected"),
    [
        (3, {3}, 10, []),
        (5, {5}, 2, [1, 2]),
        (5, {5, 1}, 2, [2, 3]),
        (5, {5, 4, 3}, 1, [1, 2]),
        (3, {3, 2}, 0, [1]),
        (3, {1, 2, 3}, 0, []),
    ],
    ids=["few", "the oldest", "not what is needed", "needed ones count", "none besides", "all needed"],
)
def test_the_oldest_beyond_the_limit_go(count: int, needed: set[int], limit: int, expected: list[int]) -> None:
    """The present one and those that are needed stay."""
    found = stack_revisions.find_expired(make_revisions(*["a"] * count), needed=needed, limit=limit)
    assert [each.number for each in found] == expected


def test_what_alone_remembers_a_kind_stays() -> None:
    """Objects of that kind may be left to find."""
    found = stack_revisions.find_expired(make_revisions("a", "ab", "a", "a"), needed={4}, limit=0)
    assert [each.number for each in found] == [1, 3]
