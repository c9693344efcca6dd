"""Authors of Stacks whose changes need a separate approver, over several edits."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.engine.admission import author_stamps
from hearth.engine.admission.author_stamps import KEY
from hearth.engine.admission.review import ALLOWED, Author, Review
from hearth.model import limits, spec_authors
from support.units.blueprints import HASHER

SEPARATE = {"required": "Always", "separateApprover": True}
SHARED = {"required": "Always"}


def make_stack(size: int, *, approval: Any = SEPARATE, is_settled: bool = False) -> dict[str, Any]:
    status = {"observedGeneration": size, "conditions": [{"type": "Ready", "status": str(is_settled)}]}
    metadata = {"namespace": "a", "name": "shop", "generation": size, "annotations": {}}
    return {"metadata": metadata, "spec": {"approval": approval, "parameters": {"size": size}}, "status": status}


def edit(old: dict[str, Any] | None, new: dict[str, Any], user: str, *, written: str | None = None) -> dict[str, Any]:
    """The Stack after a write by a user. written: the annotation in the write; None: it is kept."""
    kept = old["metadata"]["annotations"] if old is not None else {}
    annotations = kept if written is None else {**kept, KEY: written}
    new = {**new, "metadata": {**new["metadata"], "annotations": annotations}}
    result = author_stamps.stamp_authors(Review(new=new, old=old, author=Author(name=user)), hashes=HASHER)
    found = {**annotations, **result.annotations}
    stored = {key: value for key, value in found.items() if value is not None}
    return {**new, "metadata": {**new["metadata"], "annotations": stored}}


def read(raw: dict[str, Any]) -> tuple[str, ...]:
    stored = raw["metadata"]["annotations"].get(KEY)
    return spec_authors.read_authors(stored, raw["metadata"], raw["spec"], signatures=HASHER)


def test_the_author_of_a_new_stack_is_recorded() -> None:
    assert read(edit(None, make_stack(1), "alice")) == ("alice",)


def test_a_name_that_the_api_server_generates_later_is_denied() -> None:
    nameless = {**make_stack(1), "metadata": {"namespace": "a", "generateName": "shop-"}}

    result = author_stamps.stamp_authors(Review(new=nameless, author=Author(name="alice")), hashes=HASHER)
    assert "metadata.generateName cannot be used" in result.denial


def test_authors_add_up_until_the_stack_is_settled() -> None:
    first = edit(None, make_stack(1), "alice")
    second = edit(first, make_stack(2), "bob")
    third = edit(second, make_stack(3, is_settled=True), "alice")
    after = edit({**third, "status": make_stack(3, is_settled=True)["status"]}, make_stack(4), "carol")

    assert [read(each) for each in (second, third, after)] == [("alice", "bob"), ("alice", "bob"), ("carol",)]


def test_a_pause_makes_no_author() -> None:
    stored = edit(None, make_stack(1), "alice")
    paused = {**make_stack(1), "spec": {**make_stack(1)["spec"], "paused": True}}

    assert read(edit(stored, paused, "bob")) == ("alice",)
    rolled_back = {**paused, "spec": {**paused["spec"], "rollback": {"toRevision": 1}}}
    assert read(edit(edit(stored, paused, "bob"), rolled_back, "carol")) == ("alice", "carol")


def test_a_status_of_an_earlier_generation_settles_nothing() -> None:
    first = edit(None, make_stack(1), "alice")
    outdated = {**first, "status": {"observedGeneration": 0, "conditions": [{"type": "Ready", "status": "True"}]}}

    assert read(edit(outdated, make_stack(2), "bob")) == ("alice", "bob")


def test_switching_the_separate_approver_off_hides_no_author() -> None:
    settled = edit(None, make_stack(1, is_settled=True), "carol")
    off = edit(settled, make_stack(2, approval=SHARED), "alice")
    later = edit(off, make_stack(3, approval=SHARED), "alice")

    assert (read(off), read(later)) == (("alice",), ("alice",))
    again = edit({**later, "status": make_stack(3, is_settled=True)["status"]}, make_stack(4, approval=SHARED), "bob")
    assert KEY not in again["metadata"]["annotations"]


def test_an_open_change_without_a_record_has_unknown_authors() -> None:
    unrecorded = make_stack(1)

    assert read(edit(unrecorded, make_stack(2), "alice")) == ()
    assert read(edit(make_stack(1, approval=SHARED), make_stack(2), "alice")) == ("alice",)


@pytest.mark.parametrize("written", ["", "forged", spec_authors.sign_authors(["bob"], make_stack(1), signer=HASHER)])
def test_no_user_changes_the_record(written: str) -> None:
    stored = edit(None, make_stack(1), "alice")

    assert edit(stored, make_stack(1), "mallory", written=written) == stored
    assert read(edit(stored, make_stack(2), "mallory", written=written)) == ("alice", "mallory")
    assert read(edit(None, make_stack(1), "mallory", written=written)) == ("mallory",)


def test_a_write_of_something_else_changes_nothing() -> None:
    stored = edit(None, make_stack(1), "alice")
    labeled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}

    review = Review(new=labeled, old=stored, author=Author(name="bob"))
    assert author_stamps.stamp_authors(review, hashes=HASHER) == ALLOWED


def test_too_many_authors_count_as_unknown() -> None:
    stack = edit(None, make_stack(1), "user-1")
    for number in range(2, limits.AUTHORS + 1):
        stack = edit(stack, make_stack(number), f"user-{number}")
    assert len(read(stack)) == limits.AUTHORS

    assert read(edit(stack, make_stack(limits.AUTHORS + 1), "another")) == ()


def test_a_spec_that_another_webhook_changes_is_recorded_again() -> None:
    stored = edit(None, make_stack(1), "alice")
    first = edit(stored, make_stack(2), "bob")
    record = first["metadata"]["annotations"][KEY]
    again = edit(stored, make_stack(3), "bob", written=record)

    assert edit(stored, make_stack(2), "bob", written=record) == first
    assert read(again) == ("alice", "bob")
    assert read(edit(None, make_stack(2), "carol", written=record)) == ("carol",)
