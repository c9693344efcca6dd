"""Keeps the finished work of a Stack on its revisions, so that no work runs again after a restore from a backup.

A backup tool drops statuses and gives the Stack another UID. The record counts only with a signature for the Stack that the
revision belongs to. The status takes precedence over it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import orjson

from hearth.engine import former_stacks, verified_revisions
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.services import Services
from hearth.model import names, value_class
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.state.finished_work import FinishedWork

PURPOSE = "finished work"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRecord:
    """The finished work of a Stack, as the operator recorded it."""

    serial: int
    """The number of the record. A Stack continues to count after a restore."""
    finished: list[Object]
    """As in the status: see `FinishedWork.encode`."""
    text: str
    """The annotation."""


def make_record(serial: int, finished: list[Object], stack: StackObject, hashes: HashFunction) -> FinishedRecord:
    """Make a signed record for that Stack."""
    signature = hashes.sign(PURPOSE, _describe(serial, finished, stack))
    text = orjson.dumps({"serial": serial, "finished": finished, "signature": signature}).decode()
    return FinishedRecord(serial=serial, finished=finished, text=text)


def parse_record(text: str, stack: StackObject, hashes: HashFunction) -> FinishedRecord | None:
    """Return the record in an annotation, or None if this operator did not write it for that Stack."""
    try:
        match orjson.loads(text):
            case {"serial": int(serial), "finished": list(finished), "signature": str(signature)}:
                described = _describe(serial, finished, stack)
                if hashes.is_comparable(signature) and hashes.is_signed(PURPOSE, described, signature):
                    return FinishedRecord(serial=serial, finished=finished, text=text)
    except (TypeError, ValueError, RecursionError):
        pass
    return None


def find_newest(revisions: Iterable[Revision], stack: StackObject, hashes: HashFunction) -> FinishedRecord | None:
    """Return the newest record on verified revisions of a Stack, or None if there is none."""
    parsed = (parse_record(each.finished, stack, hashes) for each in revisions if each.finished)
    return max((each for each in parsed if each is not None), key=lambda each: each.serial, default=None)


def load_finished(finished: FinishedWork, stored: Any, stack: StackObject, services: Services) -> None:
    """Load the finished work of a Stack once. stored: from its signed status, None if it has no such status."""
    if stored is not None:
        finished.load(stored)
        return
    revisions = verified_revisions.load(services.management_cluster, services.hashes, stack).verified
    record = find_newest(revisions, stack, services.hashes)
    if record is not None:
        finished.load(record.finished)
        return
    uid, record = _find_former(stack, services)
    finished.load_former(record.finished if record is not None else None, stack_uid=uid)


def _find_former(stack: StackObject, services: Services) -> tuple[str, FinishedRecord | None]:
    """Return the newest record of the UIDs that a Stack had before it was restored, after its UID."""
    found: tuple[str, FinishedRecord | None] = ("", None)
    for revision in former_stacks.find_former_revisions(services, stack):
        former = dataclasses.replace(stack, uid=revision.owner)
        record = find_newest([revision], former, services.hashes)
        if record is not None and (found[1] is None or record.serial > found[1].serial):
            found = (revision.owner, record)
    return found


async def write_record(finished: list[Object], stack: StackObject, services: Services) -> None:
    """Write the record to the latest revision, unless the newest record is equal. Raises ApiStatusError, Unreachable.

    Without any record, an empty one is not written. A former record that contains work would count after another restore.
    """
    revisions = verified_revisions.load(services.management_cluster, services.hashes, stack).verified
    newest = find_newest(revisions, stack, services.hashes)
    if not revisions or (newest is not None and newest.finished == finished):
        return
    latest = newest or _find_former(stack, services)[1]
    if not finished and (latest is None or not latest.finished):
        return
    serial = latest.serial if latest is not None else 0
    record = make_record(serial + 1, finished, stack, services.hashes)
    await services.management_cluster.annotate_revision(stack, revisions[-1], names.ANNOTATION_FINISHED, record.text)


def _describe(serial: int, finished: list[Object], stack: StackObject) -> list[Any]:
    """Return the signed value."""
    return [stack.uid, stack.namespace, stack.name, serial, finished]
