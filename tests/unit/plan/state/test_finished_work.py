"""The record of finished work: what it knows, what it forgets, and how much it holds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model import limits
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.state import finished_work
from hearth.plan.state.finished_work import FinishedWork
from hearth.plan.target import target_status

HASHES = KeyedHasher(b"0123456789abcdef")


def ref(name: str) -> ObjectRef:
    """A Job."""
    return ObjectRef(group="batch", kind="Job", namespace="prod", name=name)


def hash_of(number: int) -> str:
    """The hash of a definition."""
    return HASHES.hash(number)


def test_what_has_finished_is_known_again_from_the_status() -> None:
    """By the next process, of every definition that is still kept."""
    work = FinishedWork()
    for number in range(3):
        assert work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=("migrate",))
    again = FinishedWork()
    again.load(orjson.loads(orjson.dumps(work.encode())))

    assert all(
        again.has("migrate", hash_of(number)) and again.is_recorded("migrate", hash_of(number)) for number in range(3)
    )
    assert not again.has("migrate", hash_of(4))
    assert again.has_object(ref("shop-migrate"), hash_of(2))
    assert not again.has_object(ref("shop-seed"), hash_of(2))
    assert not again.has_unrecorded


def test_only_the_latest_definitions_of_a_resource_are_kept() -> None:
    """As many as there are revisions to roll back to."""
    work = FinishedWork()
    for number in range(finished_work.DEFINITIONS + 1):
        work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=())

    assert not work.has("migrate", hash_of(0))
    assert work.has("migrate", hash_of(1))


def test_what_is_forgotten_is_run_again() -> None:
    """One definition, or all of a resource."""
    work = FinishedWork()
    for number in range(3):
        work.add("migrate", ref("shop-migrate"), hash_of(number), wanted=())
    work.forget("migrate", hash_of(1))
    assert [work.has("migrate", hash_of(number)) for number in range(3)] == [True, False, True]
    work.forget("migrate")
    assert not work.entries


def test_the_record_is_bounded_and_what_left_the_template_makes_room() -> None:
    """What finds no room is refused, so that its object is held; the size that is counted is no less than the true one."""
    work, added = FinishedWork(), 0
    wanted = [f"workers[{number:05}]" for number in range(50_000)]
    for name in wanted:
        if not work.add(name, ref(f"shop-{name}"), hash_of(1), wanted=wanted):
            break
        added += 1
    encoded = orjson.dumps(work.encode())
    assert limits.FINISHED_BYTES * 0.8 < len(encoded) <= limits.FINISHED_BYTES
    assert added > 400
    assert work.add("late", ref("shop-late"), hash_of(1), wanted=("late", *wanted[1:]))
    assert not work.has(wanted[0], hash_of(1))


def test_only_the_written_status_frees_an_object() -> None:
    """What is known but not stored yet would be lost with the process."""
    work = FinishedWork()
    work.add("migrate", ref("shop-migrate"), hash_of(1), wanted=())
    assert work.has_unrecorded
    assert not work.is_recorded("migrate", hash_of(1))
    assert work.note_written({"finished": work.encode()}) == ["migrate"]
    assert work.is_recorded("migrate", hash_of(1))
    assert work.note_written({"finished": work.encode()}) == []


def test_a_record_that_anyone_else_wrote_is_not_believed() -> None:
    """The signature covers it: adding, changing and removing an entry make all of it void."""
    work = FinishedWork()
    work.add("migrate", ref("shop-migrate"), hash_of(1), wanted=())
    signed = target_status.sign({"finished": work.encode()}, uid="u", hashes=HASHES)
    assert target_status.read_memory(signed, uid="u", hashes=HASHES) == {"finished": work.encode()}
    for forged in ([], None, [*work.encode(), {"resource": "late", "object": "", "definitions": ["0" * 16]}]):
        assert target_status.read_memory({**signed, "finished": forged}, uid="u", hashes=HASHES) is None
    assert target_status.read_memory(signed, uid="another Stack", hashes=HASHES) is None


@pytest.mark.parametrize(
    "encoded", [None, 7, {}, ["x"], [{"resource": 1}], [{"resource": "a", "object": "b", "definitions": 3}]]
)
def test_what_is_no_record_is_none(encoded: Any) -> None:
    """Any other value of the field."""
    work = FinishedWork()
    work.load(encoded)
    assert work.is_loaded
    assert not work.entries
