"""Index of HealthMarks by resource. Verifies their statuses, and decides which of several marks on one resource counts.

A status binds a mark to one object. With a forged status, its writer could have any object of the namespace replaced,
so a status that the operator did not sign counts as empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.engine.health_marks.resource_locator import MarkPath, ResourceKey
from hearth.engine.ports import HealthMarkClient
from hearth.model import value_class
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.plan import health_mark_decision
from hearth.plan.health_mark_decision import ParsedHealthMark
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.plan.status import conditions

FIELD = "signature"
PURPOSE = "health mark"
RESOLUTION = "resolved health mark"
"""The purpose of the signature in the annotation of a resolved mark."""
MEMORY = ("observedGeneration", "observedUID", "stackName", "resource")
"""The fields of the status that are signed and read back, in addition to the states of the conditions."""
GROUP = "groupName"
REFERENCE = "stackRef"
"""The field that replaces `stackName`."""


@dataclass(slots=True)
class SignedMarks:
    """The reader and signer of HealthMark statuses."""

    marks: HealthMarkClient
    hashes: HashFunction
    _verified: dict[str, tuple[HealthMarkObject, HealthMarkObject]] = field(default_factory=dict)
    """By UID: a mark as last received, and the same mark with its verified status."""

    def find_mark(self, uid: str) -> HealthMarkObject | None:
        """Return the HealthMark with its verified status, or None if it was deleted."""
        mark = self.marks.find_mark(uid)
        if mark is None:
            self._verified.pop(uid, None)
            return None
        known = self._verified.get(uid)
        if known is None or known[0] is not mark:
            known = self._verified[uid] = (mark, self._verify(mark))
        return known[1]

    def find_written(self, uid: str) -> Object:
        """Return the unverified status, from any writer."""
        mark = self.marks.find_mark(uid)
        return mark.status if mark is not None else {}

    def sign(self, mark: HealthMarkObject, status: Object) -> Object:
        """Return the status with the operator's signature."""
        return {**status, FIELD: self.hashes.sign(PURPOSE, describe_signed(mark, status))}

    def sign_resolution(self, mark: HealthMarkObject) -> str:
        """Return the proof that a mark with this spec was resolved. A backup gives it another UID and generation."""
        return self.hashes.sign(RESOLUTION, describe_resolved(mark))

    def is_resolution_signed(self, mark: HealthMarkObject) -> bool:
        """Return whether its annotation is that proof."""
        try:
            return bool(mark.resolution) and self.hashes.is_signed(RESOLUTION, describe_resolved(mark), mark.resolution)
        except (TypeError, ValueError, RecursionError):
            return False

    def parse(self, mark: HealthMarkObject) -> ParsedHealthMark:
        """Parse a verified HealthMark. Its annotation counts only if it has no status."""
        parsed = parse_mark(mark)
        is_restored = not mark.status and self.is_resolution_signed(mark)
        return dataclasses.replace(parsed, is_restored=True) if is_restored else parsed

    def _verify(self, mark: HealthMarkObject) -> HealthMarkObject:
        status = dict(status_fields.keep_valid(mark.status))
        signature = status.pop(FIELD, None)
        if isinstance(signature, str) and self._is_signed(mark, status, signature):
            return dataclasses.replace(mark, status=status)
        # Without a signature, accept only the claim that the mark is resolved: it causes no action.
        is_done = status.get("observedGeneration") == mark.generation
        is_done = is_done and conditions.find(status, health_mark_decision.RESOLVED).get("status") == "True"
        is_readable = all(isinstance(status.get(key, ""), str) for key in (*MEMORY[1:], GROUP))
        is_readable = is_readable and isinstance(status.get(REFERENCE, {}), dict)
        return dataclasses.replace(mark, status=status if is_done and is_readable else {})

    def _is_signed(self, mark: HealthMarkObject, status: Object, signature: str) -> bool:
        try:
            return self.hashes.is_signed(PURPOSE, describe_signed(mark, status), signature)
        except (TypeError, ValueError, RecursionError):
            return False


def describe_signed(mark: HealthMarkObject, status: Mapping[str, Any]) -> list[Any]:
    """Return the signed content."""
    states = [
        conditions.find(status, type_).get("status")
        for type_ in (health_mark_decision.READY, health_mark_decision.RESOLVED)
    ]
    # Without a group, the content is the same as before groups existed, so earlier signatures stay valid.
    other = [status[key] for key in (GROUP, REFERENCE) if key in status]
    return [mark.uid, [status.get(key) for key in MEMORY], states, *other]


def describe_resolved(mark: HealthMarkObject) -> list[Any]:
    """Return the signed content of the annotation."""
    return [mark.namespace, mark.name, mark.spec]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TrackedMark:
    """The last known path of a mark."""

    path: MarkPath
    is_open: bool
    """Whether the mark may still have an effect."""
    version: int
    """Resource version of the mark."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The data of a mark that other marks on the same resource use."""

    order: tuple[str, str]
    """The write time and the name; the greater one takes precedence."""
    bound: str | None
    """The UID of the object that the mark is bound to; None before."""


class MarkIndex:
    """The paths of all marks within the limits."""

    def __init__(self, marks: SignedMarks) -> None:
        self._marks = marks
        self._known: dict[str, TrackedMark] = {}
        self._by_resource: dict[tuple[str, str], dict[str, set[str]]] = {}
        """UIDs of marks by namespace and Stack, then by resource."""
        self._changes = 0
        """Number of changes of `_known`."""
        self._claims: dict[ResourceKey, dict[bool, list[Claim]]] = {}
        self._claims_as_of = -1
        """The value of `_changes` that `_claims` is valid for."""

    def update(self, uid: str, path: MarkPath | None, *, is_open: bool = True) -> None:
        """Record the path of a mark; None drops a deleted or excess mark."""
        mark, before = self._marks.find_mark(uid), self._known.get(uid)
        version = mark.resource_version if mark is not None else 0
        known = TrackedMark(path=path, is_open=is_open, version=version) if path is not None else None
        if known == before:
            return
        self._changes += 1
        self._known.pop(uid, None)
        for place in before.path.resources if before is not None else ():
            self._remove_uid(uid, place)
        if known is None:
            return
        self._known[uid] = known
        for place in known.path.resources:
            self._by_resource.setdefault((place.namespace, place.stack), {}).setdefault(place.resource, set()).add(uid)

    def find_resources(self, namespace: str, stack: str) -> Mapping[str, set[str]]:
        """Return the UIDs of the marks on each resource of the Stack with this name."""
        return self._by_resource.get((namespace, stack), {})

    def is_open(self, uid: str) -> bool:
        """Return whether an indexed mark may still have an effect."""
        return self._known[uid].is_open

    def find_newer(self, mark: HealthMarkObject, mark_state: ParsedHealthMark, key: ResourceKey) -> str:
        """Return the name of a newer mark with the opposite effect on the same object, or ""."""
        mine, bound = (mark.written_at, mark.name), (None, mark.status["observedUID"])
        for claim in self._list_claims(key)[not mark_state.is_unhealthy]:
            if claim.order <= mine:
                break
            if claim.bound in bound:
                return claim.order[1]
        return ""

    def _list_claims(self, key: ResourceKey) -> Mapping[bool, Sequence[Claim]]:
        """Return all marks on a resource by their statement, newest first; cached for consecutive calls."""
        if self._claims_as_of != self._changes:
            self._claims.clear()
            self._claims_as_of = self._changes
        claims = self._claims.get(key)
        if claims is None:
            claims = self._claims[key] = {True: [], False: []}
            for uid in self.find_resources(key.namespace, key.stack).get(key.resource, ()):
                mark = self._marks.find_mark(uid)
                if mark is not None and self._known[uid].path.resource == key:
                    claim = Claim(order=(mark.written_at, mark.name), bound=mark.status.get("observedUID"))
                    claims[parse_mark(mark).is_unhealthy].append(claim)
            for each in claims.values():
                each.sort(key=lambda claim: claim.order, reverse=True)
        return claims

    def _remove_uid(self, uid: str, key: ResourceKey) -> None:
        by_resource = self._by_resource.get((key.namespace, key.stack), {})
        found = by_resource.get(key.resource, set())
        found.discard(uid)
        if not found:
            by_resource.pop(key.resource, None)
        if not by_resource:
            self._by_resource.pop((key.namespace, key.stack), None)


def parse_mark(mark: HealthMarkObject) -> ParsedHealthMark:
    """Parse a HealthMark."""
    return ParsedHealthMark(
        name=mark.name,
        uid=mark.uid,
        generation=mark.generation,
        written_at=mark.written_at,
        is_unhealthy=bool(mark.spec["markUnhealthy"]),
        reason=mark.spec.get("reason") or "",
        status=mark.status,
    )
