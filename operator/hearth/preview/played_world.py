"""Simulates API servers and controllers as a test describes them: time, health and refused writes."""

from __future__ import annotations

import dataclasses
import enum
import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from hearth.engine.ports import Evaluations
from hearth.model import members, names, object_fields, value_class
from hearth.model.child import Child, Object, Path
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.health import health_result
from hearth.plan.health.health_result import HealthResult
from hearth.plan.health.health_rules import Schemas
from hearth.plan.ownership import apply_obstacles
from hearth.preview import empty_cluster, object_copies
from hearth.preview.assumptions import AssumedRules, Assumptions
from hearth.preview.copied_workload_cluster import CopiedWorkloadCluster
from hearth.preview.object_copies import ObjectCopy
from hearth.template.blueprint import Evaluable, EvaluationError, Known, Outcome, ResourceBlueprint, Values

REASONS: Final[Mapping[int, str]] = {
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""The reason of an API server's answer by its code."""
INVALID: Final = 422
WRONG_MANIFEST: Final[Mapping[str, str]] = {"reason": "FieldValueNotSupported", "field": "spec"}
"""The cause of an error in the manifest that a replacement would not fix."""
PLAYED: Final = "Played"
"""The reason of simulated health."""


class PlayedHealth(enum.StrEnum):
    """The simulated health of a resource's object. A closed set."""

    READY = "Ready"
    """The object becomes ready once nothing else can be done."""
    PROGRESSING = "Progressing"
    FAILED = "Failed"
    RULES = "Rules"
    """`readyWhen` and `failedWhen`, or the health rules of the kind decide."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlayedObject:
    """The simulated behavior of controllers for the object of one resource."""

    health: PlayedHealth = PlayedHealth.READY
    message: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that they set, for example `status`."""
    immutable: Sequence[str] = ()
    """Paths of fields that the API server does not let an update change: `spec.selector`."""

    @property
    def is_unready(self) -> bool:
        """Return whether it never becomes ready."""
        return self.health in (PlayedHealth.FAILED, PlayedHealth.PROGRESSING)

    def describe(self) -> str:
        """Return the message of its health."""
        return self.message or f"the test says {self.health.value}"


ASSUMED_READY: Final = PlayedObject()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlayedFault:
    """Writes that the simulated API server rejects."""

    resource: str = ""
    """Only writes of this resource; "" for all."""
    write: int = 1
    """The first of these writes that is rejected, from 1."""
    times: int | None = None
    """How many writes are rejected; None: all that follow."""
    code: int = 500
    message: str = ""


@dataclass(slots=True)
class Script:
    """The simulated behavior during one step of a test."""

    objects: Mapping[str, PlayedObject] = field(default_factory=dict)
    """By resource, or by the name of all members of a collection or group."""
    fault: PlayedFault | None = None
    applied: list[str] = field(default_factory=list)
    """The resources whose objects were written, in order."""
    deleted: list[str] = field(default_factory=list)
    """The resources whose objects were deleted, in order."""
    is_rolled_back: bool = False
    """Whether the step rolled the Stack back: objects of the earlier revision become ready."""
    _writes: int = 0

    def find(self, resource: str) -> PlayedObject:
        """Return the simulated behavior for the object of a resource."""
        found = self.objects.get(resource) or self.objects.get(members.root_of(resource)) or ASSUMED_READY
        return ASSUMED_READY if self.is_rolled_back and found.is_unready else found

    def check_write(self, resource: str, kind: Kind, name: str) -> None:
        """Raise ApiStatusError for a write that is rejected. kind, name: of the object."""
        fault = self.fault
        if fault is None or fault.resource not in ("", resource, members.root_of(resource)):
            return
        self._writes += 1
        last = fault.write + fault.times if fault.times is not None else self._writes + 1
        if fault.write <= self._writes < last:
            message = fault.message or f"the test refuses write {self._writes}"
            causes = [WRONG_MANIFEST] if fault.code == INVALID else []
            reason = REASONS.get(fault.code, "Unknown")
            raise empty_cluster.refuse(fault.code, reason, message, kind=kind.name, name=name, causes=causes)

    def check_change(self, copy: ObjectCopy, after: Object) -> None:
        """Raise ApiStatusError for an update that changes an immutable field. after: the whole object, or its manifest."""
        child = copy.child
        for path in self.find(child.resource).immutable:
            old, new = (object_fields.find(each, *path.split(".")) for each in (copy.raw, after))
            if new is not None and old != new:
                message = f"{path}: field is immutable"
                causes = [{"reason": "FieldValueInvalid", "field": path, "message": "field is immutable"}]
                raise empty_cluster.refuse(
                    INVALID, REASONS[INVALID], message, kind=child.kind.name, name=child.name, causes=causes
                )


@dataclass(slots=True)
class CurrentScript:
    """The script of the step that is played now."""

    script: Script = field(default_factory=Script)


class PlayedClock:
    """The port `Clock` with simulated time."""

    def __init__(self, now: float) -> None:
        """now: seconds since the epoch."""
        self._now = now
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, Callable[[], Any]]] = []
        self._cancelled: set[int] = set()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return the same time."""
        return self._now

    def call_later(self, delay: float, action: Callable[[], Any]) -> Callable[[], None]:
        """Run the action when the simulated time is reached; return a function that cancels it."""
        number = next(self._numbers)
        heapq.heappush(self._timers, (self._now + delay, number, action))
        return lambda: self._cancelled.add(number)

    def advance(self, *, until: float) -> bool:
        """Move to the next timer and run it; return whether there was one. until: the latest moment."""
        while self._timers and self._timers[0][0] <= until:
            due, number, action = heapq.heappop(self._timers)
            if number in self._cancelled:
                self._cancelled.discard(number)
                continue
            self._now = max(self._now, due)
            action()
            return True
        return False


class PlayedRules(AssumedRules):
    """Health rules, with simulated health for the objects in the script."""

    def __init__(self, ready: set[str], *, schemas: Schemas, evaluations: Evaluations, current: CurrentScript) -> None:
        """ready: UIDs of objects that count as ready; others may add to them."""
        super().__init__(ready, schemas=schemas, evaluations=evaluations)
        self._current = current

    def assess(self, fields: Mapping[str, Any], *, kind: Kind, resource: str = "") -> HealthResult:
        """Assess the object with these fields."""
        played = self._current.script.find(find_resource(fields))
        match played.health:
            case PlayedHealth.FAILED:
                return health_result.failed(PLAYED, played.describe())
            case PlayedHealth.PROGRESSING:
                return health_result.progressing(PLAYED, played.describe())
            case PlayedHealth.READY | PlayedHealth.RULES:
                return super().assess(fields, kind=kind, resource=resource)
            case _:
                assert_never(played.health)


@value_class.dataclass(frozen=True, slots=True)
class PlayedRule:
    """A rule of `readyWhen` that is false for an object with simulated health."""

    inner: Evaluable
    resource: str
    current: CurrentScript

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return its reads by resource name."""
        return self.inner.reads

    def evaluate(self, values: Values) -> Outcome:
        """Return whether the object is ready."""
        return Known(False) if self.current.script.find(self.resource).is_unready else self.inner.evaluate(values)


@value_class.dataclass(frozen=True, slots=True)
class PlayedFailure:
    """A rule of `failedWhen` that is true for an object with a simulated failure."""

    resource: str
    current: CurrentScript

    @property
    def reads(self) -> Mapping[str, frozenset[Path]]:
        """Return nothing: the test decides."""
        return {}

    def evaluate(self, values: Values) -> Outcome:  # noqa: ARG002 -- the protocol
        """Return whether the object failed; an error has the test's message."""
        played = self.current.script.find(self.resource)
        if played.health is not PlayedHealth.FAILED:
            return Known(False)
        return EvaluationError(path=f"play.{self.resource}", message=played.describe())


@dataclass(slots=True)
class PlayedAssumptions(Assumptions):
    """Assumptions in which simulated health also replaces `readyWhen` and `failedWhen`."""

    current: CurrentScript = field(default_factory=CurrentScript)

    def adjust(self, resource: ResourceBlueprint) -> ResourceBlueprint:
        """Return a resource under these assumptions."""
        adjusted, name = Assumptions.adjust(self, resource), resource.name
        if not resource.ready_when and not resource.failed_when:
            return adjusted
        return dataclasses.replace(
            adjusted,
            ready_when=tuple(PlayedRule(rule, name, self.current) for rule in adjusted.ready_when),
            failed_when=(PlayedFailure(name, self.current), *adjusted.failed_when),
        )


class PlayedCluster(CopiedWorkloadCluster):
    """The cluster of the children, which rejects the writes that the script names."""

    def __init__(self, *args: Any, current: CurrentScript, **options: Any) -> None:
        super().__init__(*args, **options)
        self._current = current

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Apply the manifest, unless the script rejects it."""
        resource = find_resource(manifest)
        script = self._current.script
        script.check_write(resource, kind, manifest["metadata"]["name"])
        known = self._copies.find(object_copies.find_place(kind, manifest))
        if known is not None:
            script.check_change(known, manifest)
        if known is not None and manager == names.SUSPEND_FIELD_MANAGER:
            # The suspend field manager owns only a few fields, and the next apply of the definition takes them back.
            return self._copies.put(take_fields(known.raw, manifest), kind=kind, is_live=known.is_live)
        applied = await super().apply(manifest, kind=kind, manager=manager, force=force)
        script.applied.append(resource)
        return applied

    async def change_dry_run(self, ref: ObjectRef, patch: Object, *, kind: Kind) -> Object:
        """Return the result of a merge patch, unless it changes an immutable field."""
        known = self._copies.find(object_copies.place_of(ref))
        if known is None:
            return await super().change_dry_run(ref, patch, kind=kind)
        after: Object = apply_obstacles.patched(known.raw, patch)
        self._current.script.check_change(known, after)
        return after

    async def apply_dry_run(self, manifest: Object, *, kind: Kind, manager: str) -> Object:
        """Return the result of a forced server-side apply, unless it changes an immutable field."""
        known = self._copies.find(object_copies.find_place(kind, manifest))
        if known is None:
            return await super().apply_dry_run(manifest, kind=kind, manager=manager)
        self._current.script.check_change(known, manifest)
        merged: Object = object_copies.merge(known.raw, manifest)
        return merged

    async def delete(self, child: Child, *, keeps_dependents: bool = False) -> bool:
        """Delete exactly this object, unless the script rejects it."""
        script = self._current.script
        script.check_write(child.resource, child.kind, child.name)
        deleted = await super().delete(child, keeps_dependents=keeps_dependents)
        script.deleted.append(child.resource)
        return deleted


def take_fields(before: Object, manifest: Object) -> Object:
    """Return the object after the field manager for suspend applied a manifest, with its entry of owned fields."""
    after: Object = object_copies.merge(before, manifest)
    owned = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    entry = {"manager": names.SUSPEND_FIELD_MANAGER, "operation": "Apply", "fieldsV1": list_owned(owned)}
    return {**after, "metadata": {**after["metadata"], "uid": before["metadata"]["uid"], "managedFields": [entry]}}


def list_owned(value: Any) -> Object:
    """Return a value as the fields of an entry in `managedFields`."""
    if not isinstance(value, Mapping):
        return {}
    return {f"f:{key}": list_owned(inner) for key, inner in value.items()}


def find_resource(fields: Mapping[str, Any]) -> str:
    """Return the resource of an object. Its label has no brackets and may be cut; the signature has the whole name."""
    return object_fields.text(fields, "metadata", "annotations", names.ANNOTATION_SIGNATURE).partition("/")[0]
