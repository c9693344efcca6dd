"""The record of finished work counts only for the Stack for which this operator wrote it."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import finished_record
from hearth.kube.objects import controller_revision
from hearth.model import limits, names
from hearth.model.kinds import ObjectRef
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.state.finished_work import FinishedWork
from support.units.stack_objects import HASHES, make_stack

STACK = make_stack()
ENTRY = {"resource": "migrate", "object": "job/shop-migrate", "definitions": ["0123456789abcdef"]}
RECORD = finished_record.make_record(3, [ENTRY], STACK, HASHES)


def make_revision(text: str) -> Revision:
    return Revision(name="shop-x", number=1, hash="", kinds=frozenset(), finished=text)


def edit(**changes: Any) -> str:
    """The record with other fields and the same signature."""
    return orjson.dumps({**orjson.loads(RECORD.text), **changes}).decode()


def test_a_record_is_read_as_it_was_written() -> None:
    assert finished_record.parse_record(RECORD.text, STACK, HASHES) == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uid": "other"}, id="another Stack"),
        pytest.param({"namespace": "other"}, id="another namespace"),
        pytest.param({"name": "other"}, id="another name"),
    ],
)
def test_a_record_does_not_count_for_another_stack(changes: dict[str, Any]) -> None:
    assert finished_record.parse_record(RECORD.text, dataclasses.replace(STACK, **changes), HASHES) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(edit(finished=[{**ENTRY, "resource": "seed"}]), id="another resource"),
        pytest.param(edit(finished=[{**ENTRY, "definitions": ["fedcba9876543210"]}]), id="another definition"),
        pytest.param(edit(finished=[{**ENTRY, "stackUID": "other"}]), id="another UID"),
        pytest.param(edit(serial=4), id="another serial number"),
        pytest.param(edit(signature=""), id="no signature"),
        pytest.param(edit(finished={"a": 1}), id="no list"),
        pytest.param("[" * 60_000, id="deep"),
        pytest.param("{", id="no JSON"),
        pytest.param(finished_record.make_record(3, [ENTRY], STACK, KeyedHasher(b"o" * 32)).text, id="another key"),
    ],
)
def test_a_forged_record_does_not_count(text: str) -> None:
    assert finished_record.parse_record(text, STACK, HASHES) is None


def test_the_newest_record_counts() -> None:
    newer = finished_record.make_record(4, [], STACK, HASHES)
    revisions = [make_revision(each) for each in (newer.text, RECORD.text, edit(serial=5))]
    assert finished_record.find_newest(revisions, STACK, HASHES) == newer


@pytest.mark.parametrize(
    ("length", "is_read"), [(limits.FINISHED_RECORD_BYTES, True), (limits.FINISHED_RECORD_BYTES + 1, False)]
)
def test_an_oversized_record_is_not_kept(length: int, is_read: bool) -> None:
    metadata = {"name": "shop-x", "annotations": {names.ANNOTATION_FINISHED: "x" * length}}
    assert bool(controller_revision.parse_revision(metadata).finished) == is_read


@pytest.mark.parametrize("length", [1, 60], ids=["short names", "long names"])
def test_the_largest_record_is_read(length: int) -> None:
    work, at = FinishedWork(), 0
    ref = ObjectRef(group="batch", kind="Job", namespace="prod", name="n" * length)
    while work.add(f"{at:0{length}x}", ref, HASHES.hash(at), wanted=()) and len(work.entries) == at + 1:
        at += 1
    former = FinishedWork()
    former.load_former(work.encode(), stack_uid="0" * 36)
    for each in (work, former):
        text = finished_record.make_record(10**6, each.encode(), STACK, HASHES).text
        assert each.encode()
        assert len(text) <= limits.FINISHED_RECORD_BYTES
