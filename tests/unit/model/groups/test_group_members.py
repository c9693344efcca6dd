"""Which members a group has, for its size and all removal policies so far."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits
from hearth.model.groups import group_members
from hearth.model.groups.group_members import GroupSize


@pytest.mark.parametrize(
    ("replicas", "removed", "surge", "expected"),
    [
        pytest.param(0, (), 0, (), id="none"),
        pytest.param(2, (), 0, (0, 1), id="from zero"),
        pytest.param(5, (), 0, (0, 1, 2, 3, 4), id="five"),
        pytest.param(3, (), 0, (0, 1, 2), id="the highest go"),
        pytest.param(3, (1,), 0, (0, 2, 3), id="another takes the place of a removed one"),
        pytest.param(3, (1, 3), 0, (0, 2, 4), id="no index is used again"),
        pytest.param(2, (0, 1, 2), 0, (3, 4), id="all low ones are removed"),
        pytest.param(2, (7,), 0, (0, 1), id="an index beyond the size changes nothing"),
        pytest.param(3, (1,), 2, (0, 2, 3, 4, 5), id="members beyond the size are the next ones"),
        pytest.param(0, (), 1, (0,), id="an empty group with one beyond"),
    ],
)
def test_the_lowest_free_indices(
    replicas: int, removed: tuple[int, ...], surge: int, expected: tuple[int, ...]
) -> None:
    """A group has the lowest indices that are not removed."""
    assert GroupSize(replicas=replicas, removed=removed).find_indices(surge=surge) == expected


@pytest.mark.parametrize(
    ("known", "listed", "mode", "expected"),
    [
        pytest.param((), (1,), "Append", (1,), id="the first"),
        pytest.param((1,), (3,), "Append", (1, 3), id="lists add up"),
        pytest.param((1,), (), "Append", (1,), id="an empty list forgets nothing"),
        pytest.param((3,), (1, 3), "Append", (1, 3), id="named twice"),
        pytest.param((1,), (3,), "Update", (3,), id="only the present list counts"),
        pytest.param((1, 3), (), "Update", (), id="an empty list allows all again"),
    ],
)
def test_removal_policies_add_up_or_not(
    known: tuple[int, ...], listed: tuple[int, ...], mode: str, expected: tuple[int, ...]
) -> None:
    """With Append an index stays removed, with Update only the present list counts."""
    assert group_members.find_removed(known, listed, mode=mode) == expected


def test_the_mode_is_append_unless_stated() -> None:
    """A group that states no mode remembers all indices."""
    stated = {"replicas": 2, "removalPolicies": [{"resources": ["0"]}, {"resources": ["2"]}]}
    assert group_members.make_size(stated, known=(1,)) == GroupSize(replicas=2, removed=(0, 1, 2))


@pytest.mark.parametrize("name", ["", "-1", "01", "1.5", "one", "²", "1" * 6, "+1", " 1"])
def test_only_plain_numbers_are_indices(name: str) -> None:
    """A text that no member is named by is a mistake with its path."""
    stated = {"replicas": 1, "removalPolicies": [{"resources": ["1", name]}]}
    assert [each.path for each in group_members.find_mistakes(stated)] == ["spec.removalPolicies[0].resources[1]"]


@pytest.mark.parametrize(
    ("stated", "path"),
    [
        pytest.param({"replicas": -1}, "spec.replicas", id="negative"),
        pytest.param({"replicas": limits.GROUP_MEMBERS + 1}, "spec.replicas", id="absurd"),
        pytest.param({"replicas": "3"}, "spec.replicas", id="text"),
        pytest.param({"replicas": True}, "spec.replicas", id="a truth value"),
    ],
)
def test_a_size_is_a_number_within_the_limit(stated: dict[str, Any], path: str) -> None:
    """A negative or absurd size is a mistake."""
    assert [each.path for each in group_members.find_mistakes(stated)] == [path]


def test_the_memory_of_removed_indices_is_limited() -> None:
    """A group that removes one member after another is stopped before its status grows without end."""
    known = range(limits.REMOVED_MEMBERS)
    stated = {"replicas": 1, "removalPolicies": [{"resources": ["5000"]}]}
    (mistake,) = group_members.find_mistakes(stated, known=known)
    assert "removalPoliciesMode: Update" in mistake.message
    assert not list(group_members.find_mistakes({**stated, "removalPoliciesMode": "Update"}, known=known))
