"""HealthMarks with verified statuses; a status of another writer counts as empty.

A status binds a mark to one object. A forged one would let its writer replace any object of the namespace. Must not
know what a mark means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.engine.ports import HealthMarkClient
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.plan import health_mark_decision
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.status import conditions

FIELD = "signature"
PURPOSE = "health mark"
MEMORY = ("observedGeneration", "observedUID", "stackName", "resource")
"""The fields that are read back, besides the states of the conditions."""
GROUP = "groupName"
REFERENCE = "stackRef"
"""The same, instead of `stackName`."""


@dataclass(slots=True)
class SignedMarks:
    """The reader and signer of HealthMark statuses."""

    marks: HealthMarkClient
    hashes: HashFunction
    _verified: dict[str, tuple[HealthMarkObject, HealthMarkObject]] = field(default_factory=dict)
    """By UID: the last verified mark, and the version of it that counts."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark with its verified status; None if it is gone."""
        mark = self.marks.find_mark(uid)
        if mark is None:
            self._verified.pop(uid, None)
            return None
        known = self._verified.get(uid)
        if known is None or known[0] is not mark:
            known = self._verified[uid] = (mark, self._verify(mark))
        return known[1]

    def list_uids(self) -> Collection[str]:
        """Return the UIDs of all HealthMarks."""
        return self.marks.marks()

    def find_written(self, uid: str) -> Object:
        """Return the unverified status, from any writer."""
        mark = self.marks.find_mark(uid)
        return mark.status if mark is not None else {}

    def sign(self, mark: HealthMarkObject, status: Object) -> Object:
        """Return the status with the operator's signature."""
        return {**status, FIELD: self.hashes.sign(PURPOSE, describe(mark, status))}

    def _verify(self, mark: HealthMarkObject) -> HealthMarkObject:
        status = dict(status_fields.keep_valid(mark.status))
        signature = status.pop(FIELD, None)
        if isinstance(signature, str) and self._is_signed(mark, status, signature):
            return dataclasses.replace(mark, status=status)
        # Any writer may declare a mark resolved: believing it causes no action.
        is_done = status.get("observedGeneration") == mark.generation
        is_done = is_done and conditions.find(status, health_mark_decision.RESOLVED).get("status") == "True"
        is_readable = all(isinstance(status.get(key, ""), str) for key in (*MEMORY[1:], GROUP))
        is_readable = is_readable and isinstance(status.get(REFERENCE, {}), dict)
        return dataclasses.replace(mark, status=status if is_done and is_readable else {})

    def _is_signed(self, mark: HealthMarkObject, status: Object, signature: str) -> bool:
        try:
            return self.hashes.is_signed(PURPOSE, describe(mark, status), signature)
        except (TypeError, ValueError, RecursionError):
            return False


def describe(mark: HealthMarkObject, status: Mapping[str, Any]) -> list[Any]:
    """Return the signed content."""
    states = [
        conditions.find(status, type_).get("status")
        for type_ in (health_mark_decision.READY, health_mark_decision.RESOLVED)
    ]
    # A status without a group is signed as before there were groups.
    other = [status[key] for key in (GROUP, REFERENCE) if key in status]
    return [mark.uid, [status.get(key) for key in MEMORY], states, *other]
