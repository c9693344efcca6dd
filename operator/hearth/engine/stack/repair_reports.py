"""Events about what one Stack repairs, and about data that it deletes: a person must find out at the first time.

Further repairs of the same resource are not reported here: a conflict that continues is a condition of the Stack. May be lost at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.engine.definition.definition_sync import DefinitionSync
from hearth.engine.named_tasks import NamedTasks
from hearth.engine.services import Services
from hearth.engine.writes import step_execution
from hearth.model import limits
from hearth.model.kinds import ObjectRef
from hearth.model.text import redaction
from hearth.plan.resource import drift
from hearth.plan.stack import cleanup_policy
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.steps import Apply, Delete, Detach, Step

REPAIRED = "DriftRepaired"
RECREATED = "ObjectRecreated"
DELETED = "DataDeleted"
SHOWN = 20
"""Deleted objects that one Event names; it may not be long."""
CLAIMS_KEPT = "ClaimsKept"
ADVICE = "to keep such a change, edit the template, or leave the field to others with driftPolicy or ignoreFields"


@dataclass(slots=True)
class RepairReports:
    """The repairs of one Stack that are reported."""

    uid: str
    services: Services
    definition_sync: DefinitionSync
    tasks: NamedTasks
    _times: tuple[float, ...] = ()
    """Monotonic seconds of the last reports, at most `limits.REPAIR_EVENTS`."""
    _last: str = ""
    """The resource of the last report within the limit; "" before."""
    _missing: dict[str, None] = field(default_factory=dict)
    """Resources whose object another client deleted, and whose next one is being created."""
    _deleted: dict[str, None] = field(default_factory=dict)
    """Resources whose object the operator deleted, so that a new one is no repair.

    These two are nearly always empty, and an empty dict takes a third of the memory of an empty set.
    """

    _gone: list[str] = field(default_factory=list)
    """The deleted objects with data that no Event names yet."""

    def take_report(self, step: Apply, planner: StackPlanner | None, memory: InMemoryState) -> bool:
        """Return whether to read the object before this step, because its repair will be reported; it then counts.

        planner: with the statuses from before the step. A watch event may update them before the response arrives.
        """
        now = self.services.clock.monotonic()
        # One that vanishes again and again is a condition of the Stack.
        is_reported = memory.governor.find_problem(step.resource, now=now) is not None
        if step.uid is None and not is_reported and planner is not None and self._is_missing(step.resource, planner):
            self._missing[step.resource] = None
        if all(drift.is_tracking_metadata(each.path) for each in step.lost):
            # The operator's own labels and annotations are no change that a person wants to keep.
            return False
        return memory.find_conflict(step.resource, now=now) is None and self._take_place(step.resource, now)

    def note(self, step: Step, result: step_execution.StepResult, planner: StackPlanner | None) -> None:
        """Report a successful repair."""
        is_recreated = isinstance(step, Apply) and step.resource in self._missing
        if isinstance(step, Apply):
            self._missing.pop(step.resource, None)
        if not isinstance(result, step_execution.StepDone):
            return
        if isinstance(step, Detach) and result.note:
            self._report(
                step.child.resource, step.child.ref, CLAIMS_KEPT, f"was deleted to be created again; {result.note}"
            )
        if (
            isinstance(step, Delete | Detach)
            and planner is not None
            and step.child.resource in planner.blueprint.resources
        ):
            self._deleted[step.child.resource] = None
        if isinstance(step, Delete) and cleanup_policy.holds_data(step.child) and not self.definition_sync.is_deleting:
            is_replaced = planner is not None and step.child.resource in planner.blueprint.resources
            why = "replaced" if is_replaced else "not in the definition"
            self._gone.append(f"{step.child.ref} ({step.child.resource}: {why})")
            self.tasks.run("report of deleted data", self._report_deletions)
        if not isinstance(step, Apply):
            return
        if result.reverted:
            self._report(step.resource, step.ref, REPAIRED, f"reverted {result.reverted}; {ADVICE}")
            return
        self._deleted.pop(step.resource, None)
        if is_recreated and result.is_created and self._take_place(step.resource, self.services.clock.monotonic()):
            self._report(
                step.resource,
                step.ref,
                RECREATED,
                "did not exist although the Stack was complete, and was created again",
            )

    def _is_missing(self, name: str, planner: StackPlanner) -> bool:
        """Return whether another client deleted the object of a resource of the completed target."""
        target, status = self.definition_sync.targets.current, planner.statuses.get(name)
        is_completed = target is not None and target.is_completed and not self.definition_sync.is_deleting
        if not is_completed or name in self._deleted or status is None or status.child is not None:
            return False
        # The old object of a replacement still exists.
        return not self.services.find_children_cluster(self.uid).children_of(self.uid, name)

    def _take_place(self, name: str, now: float) -> bool:
        """Count one more report about a resource; return False beyond the limit."""
        if len(self._times) == limits.REPAIR_EVENTS and now - self._times[0] < limits.REPAIR_EVENT_SECONDS:
            return False
        self._times = (*self._times, now)[-limits.REPAIR_EVENTS :]
        is_full = len(self._times) == limits.REPAIR_EVENTS and now - self._times[0] < limits.REPAIR_EVENT_SECONDS
        self._last = name if is_full else ""
        return True

    async def _report_deletions(self) -> None:
        """Post one Event about all objects with data that were deleted meanwhile."""
        while self._gone and (stack := self.services.management_cluster.find_stack(self.uid)) is not None:
            gone, self._gone = self._gone, []
            more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
            message = (
                f"deleted with the data in it: {', '.join(gone[:SHOWN])}{more}; "
                f"deletionPolicy: Retain keeps the object of a resource"
            )
            message = redaction.redact(message, self.definition_sync.hidden_texts)
            await self.services.management_cluster.emit_event(stack, type_="Normal", reason=DELETED, message=message)

    def _report(self, resource: str, ref: ObjectRef, reason: str, text: str) -> None:
        stack = self.services.management_cluster.find_stack(self.uid)
        if stack is None:
            return
        message = redaction.redact(f"{resource} ({ref}): {text}", self.definition_sync.hidden_texts)
        if resource == self._last:
            message += (
                f"; for {limits.REPAIR_EVENT_SECONDS / 60:g} minutes, only the operator's log has further repairs"
            )
        emit = self.services.management_cluster.emit_event
        self.tasks.run(f"repair of {resource}", lambda: emit(stack, type_="Normal", reason=reason, message=message))
