"""A revision counts only if this operator signed it for this very Stack."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision
from hearth.model import limits
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support.units.stack_objects import HASHES, make_stack

OTHER_KEY = KeyedHasher(b"o" * 32)


def make_revision(**changes: Any) -> Revision:
    """A revision of it, signed before the changes are made."""
    kinds = frozenset({"v1/ConfigMap", "v1/Secret"})
    plain = Revision(
        name="shop-x", number=3, hash=HASHES.of_stack("u").hash({"v": 1}), kinds=kinds, namespace="a", owner="u"
    )
    return dataclasses.replace(verified_revisions.sign(plain, make_stack(), HASHES), **changes)


class FixedHome:
    """Holds these revisions."""

    def __init__(self, *found: Revision) -> None:
        self._found = found

    def revisions(self, _stack_uid: str) -> tuple[Revision, ...]:
        """All of them."""
        return self._found


def load(*found: Revision) -> verified_revisions.RevisionSet:
    """They, sorted."""
    home: Any = FixedHome(*found)
    return verified_revisions.load(home, HASHES, make_stack())


def test_a_signed_revision_counts() -> None:
    """With its number and its kinds."""
    found = load(make_revision())
    assert (found.verified, found.tampered, found.unsigned) == ((make_revision(),), (), ())
    assert (found.kinds, found.last_number, found.find(3)) == ({"v1/ConfigMap", "v1/Secret"}, 3, make_revision())
    assert found.knows_all_kinds([3])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"number": 4}, id="another number"),
        pytest.param({"number": 2**63 - 1}, id="an absurd number"),
        pytest.param({"kinds": frozenset({"v1/ConfigMap"})}, id="a kind less"),
        pytest.param({"kinds": frozenset({"v1/ConfigMap", "v1/Secret", "v1/Pod"})}, id="a kind more"),
        pytest.param({"hash": HASHES.of_stack("u").hash({"v": 2})}, id="another definition"),
        pytest.param({"name": "shop-y"}, id="a copy under another name"),
        pytest.param({"owner": ""}, id="without an owner"),
        pytest.param({"owner": "v"}, id="owned by another Stack"),
        pytest.param({"signature": ""}, id="without a signature"),
        pytest.param({"signature": HASHES.hash("x")}, id="signed with a hash"),
        pytest.param({"signature": HASHES.sign("child", "x")}, id="signed for another purpose"),
        pytest.param({"signature": "ä\ud800"}, id="signed with nonsense"),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(uid="v"), HASHES).signature},
            id="of another Stack",
        ),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(namespace="b"), HASHES).signature},
            id="of another namespace",
        ),
        pytest.param(
            {"signature": verified_revisions.sign(make_revision(), make_stack(), OTHER_KEY).signature},
            id="signed with another key",
        ),
    ],
)
def test_a_changed_revision_does_not_count(changes: dict[str, Any]) -> None:
    """It is named, and can only add kinds to look at; no number of it stands in the way."""
    found = load(make_revision(**changes))
    assert (found.verified, len(found.tampered), found.find(found.tampered[0].number)) == ((), 1, None)
    assert found.last_number <= 4
    assert not found.knows_all_kinds([])
    assert "shop-" in verified_revisions.explain_all(found.tampered)


def test_a_revision_in_another_namespace_is_ignored() -> None:
    """Regardless of what it says."""
    assert load(make_revision(namespace="b")) == verified_revisions.RevisionSet()


def test_a_revision_of_an_earlier_version_is_no_sign_of_tampering() -> None:
    """It does not count either; its number and its kinds are known."""
    found = load(make_revision(signature="", hash="k00000000:abc"))
    assert (found.verified, found.tampered, len(found.unsigned)) == ((), (), 1)
    assert (found.last_number, found.kinds) == (3, {"v1/ConfigMap", "v1/Secret"})
    assert found.find_unverified(3) is not None


def test_a_missing_revision_makes_the_kinds_unknown() -> None:
    """Then all kinds are searched for children."""
    found = load(make_revision())
    assert found.knows_all_kinds([])
    assert not found.knows_all_kinds([3, 4])
    assert not load().knows_all_kinds([])


def test_kinds_of_unverified_revisions_are_bounded() -> None:
    """A forger cannot make the search endless."""
    many = frozenset(f"v1/K{number}" for number in range(limits.REVISION_KINDS + 1))
    assert load(make_revision(kinds=many)).kinds == frozenset()
    some = [make_revision(kinds=frozenset({f"v1/K{number}"})) for number in range(100)]
    assert len(load(*some).kinds) == limits.REVISION_HINTS


def test_many_revisions_are_named_in_one_message() -> None:
    """The first few, and how many there are."""
    forged = [make_revision(number=number, name=f"shop-{number}") for number in range(10, 20)]
    text = verified_revisions.explain_all(forged)
    assert "10 ControllerRevisions" in text
    assert "shop-14" in text
    assert "and 5 more" in text
    assert len(text) < 600
