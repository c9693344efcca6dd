"""Names of members, the labels and object names derived from them, and the indices of a group's members."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits, members, names
from hearth.model.members import GroupSize

LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def child_name(resource: str, *, incarnation: int = 1) -> str:
    """The name of an object in the Stack's own namespace."""
    return names.child_name(
        stack="shop",
        stack_namespace="prod",
        stack_uid="u1",
        resource=resource,
        incarnation=incarnation,
        namespace="prod",
    )


@pytest.mark.parametrize(
    ("name", "root", "key", "is_all"),
    [
        ("web", "web", "", False),
        ("workers[a]", "workers", "a", False),
        ("workers[b-2]", "workers", "b-2", False),
        ("workers[*]", "workers", "*", True),
    ],
)
def test_a_name_is_taken_apart(name: str, root: str, key: str, is_all: bool) -> None:
    assert (members.root_of(name), members.key_of(name), members.is_all(name)) == (root, key, is_all)


@pytest.mark.parametrize(
    ("key", "is_key"),
    [("a", True), ("0", True), ("a-b", True), ("a" * 40, True), ("a" * 41, False), ("", False)]
    + [(key, False) for key in ("-a", "a-", "A", "a_b", "a.b", "a/b", "a]", "*", "a\n", "ä")],
)
def test_which_keys_there_are(key: str, is_key: bool) -> None:
    assert bool(members.KEY.fullmatch(key)) is is_key


@pytest.mark.parametrize(
    ("resource", "label"),
    [("web", "web"), ("workers[a]", "workers.a"), ("w" * 40 + "[" + "k" * 40 + "]", None)],
)
def test_the_label_of_a_member_is_a_valid_value(resource: str, label: str | None) -> None:
    import re

    found = names.resource_label(resource)
    assert re.fullmatch(LABEL, found)
    assert found == label or (label is None and found != names.resource_label(resource[:-2] + "x]"))


def test_the_object_of_a_member_is_named_by_its_key() -> None:
    assert child_name("workers[a]") == "shop-workers-a"
    assert child_name("redisMasters[b-2]") == "shop-redis-masters-b-2"
    long = ["w" * 40 + "[" + "k" * 30 + at + "]" for at in "xy"]
    assert len({child_name(each) for each in long}) == 2
    assert all(len(child_name(each)) <= names.NAME_LENGTH for each in long)
    assert child_name("workers[a]", incarnation=2) != child_name("workersA", incarnation=2)


def test_a_signature_of_the_longest_name_is_read() -> None:
    from hearth.model import limits, signatures
    from support.units import blueprints

    text = signatures.write(
        "identity",
        resource="w" * 40 + "[" + "k" * 40 + "]",
        incarnation=10**limits.COUNT_DIGITS - 1,
        requires="workers[*]/1",
        signer=blueprints.HASHER,
    )
    assert len(text) <= limits.SIGNATURE_LENGTH
    assert signatures.read("identity", text, signatures=blueprints.HASHER) is not None


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
    assert members.find_removed(known, listed, mode=mode) == expected


def test_the_mode_is_append_unless_stated() -> None:
    stated = {"replicas": 2, "removalPolicies": [{"resources": ["0"]}, {"resources": ["2"]}]}
    assert members.make_size(stated, known=(1,)) == GroupSize(replicas=2, removed=(0, 1, 2))


@pytest.mark.parametrize("name", ["", "-1", "01", "1.5", "one", "²", "1" * 6, "+1", " 1"])
def test_only_plain_numbers_are_indices(name: str) -> None:
    stated = {"replicas": 1, "removalPolicies": [{"resources": ["1", name]}]}
    assert [each.path for each in members.find_size_mistakes(stated)] == ["spec.removalPolicies[0].resources[1]"]


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
    assert [each.path for each in members.find_size_mistakes(stated)] == [path]


def test_the_memory_of_removed_indices_is_limited() -> None:
    known = range(limits.REMOVED_MEMBERS)
    stated = {"replicas": 1, "removalPolicies": [{"resources": ["5000"]}]}
    (mistake,) = members.find_size_mistakes(stated, known=known)
    assert "removalPoliciesMode: Update" in mistake.message
    assert not list(members.find_size_mistakes({**stated, "removalPoliciesMode": "Update"}, known=known))
