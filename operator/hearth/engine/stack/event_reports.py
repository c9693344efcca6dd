"""Posts Events about one Stack for its first repairs, deleted data, failed runs, and unproven objects.

An unproven object has the labels of the Stack without a valid signature. Further repairs of the same resource are not
reported here, because a conflict that continues is a condition of the Stack.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import structlog

from hearth import answers
from hearth.engine.cluster_objects import StackObject
from hearth.engine.stack.stack_part import StackContext, StackPart
from hearth.engine.writes import step_execution
from hearth.model import limits, names, packing
from hearth.model.child import UNPROVEN, Child, Object
from hearth.model.kinds import ObjectRef
from hearth.model.text.enumeration import enumerate_names
from hearth.plan.health import object_reports
from hearth.plan.resource import data_kinds, drift, step_planning
from hearth.plan.retry import api_errors
from hearth.plan.stack.plan_index import FailedResource
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import cleanup_policy, run_policy
from hearth.plan.state.steps import Apply, Delete, Detach, Release, Restart, Step

logger = structlog.get_logger(__name__)

REPAIRED = "DriftRepaired"
RECREATED = "ObjectRecreated"
DELETED = "DataDeleted"
CLAIMS_LEFT = "whose claims are kept unless its persistentVolumeClaimRetentionPolicy says otherwise"
DATA_LOST = "with the data in it"
SHOWN = 20
"""Maximum number of deleted objects that one Event lists."""
CLAIMS_KEPT = "ClaimsKept"
PODS_RESTARTED = "PodsRestarted"
RESTARTED = "was marked unhealthy: its Pods are restarted one by one, and keep their claims"
CONTAINER_KEPT = "KeptWithContents"
LEFT = "no Stack owns it anymore: delete it yourself when you need neither"
RUN_FAILED = "RunFailed"
OUTLOOK = "its object is kept for inspection until it runs again"
CONTROLLER_LABEL = "batch.kubernetes.io/controller-uid"
"""The label of the pods of a Job, with the UID of the Job."""
UNPROVEN_OBJECTS = "UnprovenObjects"
ADVICE = (
    "to keep such a change, edit the template, or leave the field to other managers with driftPolicy or ignoreFields"
)


class EventReports(StackPart):
    """Reports already made about one Stack."""

    def __init__(self, context: StackContext) -> None:
        super().__init__(context)
        self._times: tuple[float, ...] = ()
        """Monotonic seconds of the last reports of repairs, at most `limits.REPAIR_EVENTS`."""
        self._last = ""
        """The resource of the last report within the limit; "" if there was none."""
        self._missing: dict[str, None] = {}
        """Resources whose object was deleted by another client and is being recreated."""
        self._deleted: dict[str, None] = {}
        """Resources whose object was deleted by the operator, so that a new object is not a repair.

        Both dicts are nearly always empty. An empty dict takes a third of the memory of an empty set.
        """
        self._gone: list[str] = []
        """Deleted objects with data that no Event has listed yet."""
        self._unproven: tuple[Child, ...] = ()
        """Objects with the label of the Stack but without its signature."""
        self._named: frozenset[str] = packing.NOTHING
        """UIDs of the unproven objects that an Event has listed."""

    def take_repair(self, step: Apply, planner: StackPlanner | None) -> bool:
        """Return whether to read the object before this step, because its repair will be reported; it then counts.

        planner: with the statuses from before the step. A watch event may update them before the response arrives.
        """
        now = self._services.clock.monotonic()
        # An object that is deleted again and again is reported by a condition of the Stack instead.
        is_reported = self._memory.governor.find_problem(step.resource, now=now) is not None
        if step.uid is None and not is_reported and planner is not None and self._is_missing(step.resource, planner):
            self._missing[step.resource] = None
        if all(drift.is_tracking_metadata(each.path) for each in step.lost):
            # Users do not want to keep changes to the operator's own labels and annotations.
            return False
        return self._memory.find_conflict(step.resource, now=now) is None and self._take_place(step.resource, now)

    def note_result(self, step: Step, result: step_execution.StepResult, planner: StackPlanner | None) -> None:
        """Report a successful repair."""
        is_recreated = isinstance(step, Apply) and step.resource in self._missing
        if isinstance(step, Apply):
            self._missing.pop(step.resource, None)
        if not isinstance(result, step_execution.StepDone):
            return
        if isinstance(step, Detach | Restart | Release) and (report := describe_kept(step, result.note)):
            self._report(step.child.resource, step.child.ref, *report)
        if (
            isinstance(step, Delete | Detach)
            and planner is not None
            and step.child.resource in planner.blueprint.resources
        ):
            self._deleted[step.child.resource] = None
        if isinstance(step, Delete) and cleanup_policy.holds_data(step.child) and not self._definition_sync.is_deleting:
            is_replaced = planner is not None and step.child.resource in planner.blueprint.resources
            why = "replaced" if is_replaced else "not in the definition"
            fate = CLAIMS_LEFT if step.child.kind.key == data_kinds.STATEFUL_SET else DATA_LOST
            self._gone.append(f"{step.child.ref} ({step.child.resource}: {why}), {fate}")
            self._tasks.run("report of deleted data", self._report_deletions)
        if not isinstance(step, Apply):
            return
        if result.reverted:
            self._report(step.resource, step.ref, REPAIRED, f"reverted {result.reverted}; {ADVICE}")
            return
        self._deleted.pop(step.resource, None)
        if is_recreated and result.is_created and self._take_place(step.resource, self._services.clock.monotonic()):
            self._report(
                step.resource,
                step.ref,
                RECREATED,
                "did not exist although the Stack was complete, and was recreated",
            )

    def _is_missing(self, name: str, planner: StackPlanner) -> bool:
        """Return whether another client deleted the object of a resource of the completed target."""
        target, status = self._definition_sync.targets.current, planner.statuses.get(name)
        is_completed = target is not None and target.is_completed and not self._definition_sync.is_deleting
        if not is_completed or name in self._deleted or status is None or status.child is not None:
            return False
        # The old object of a replacement still exists.
        return not self._services.find_children_cluster(self._uid).children_of(self._uid, name)

    def _take_place(self, name: str, now: float) -> bool:
        """Count one more report about a resource; return False if the limit is reached."""
        if len(self._times) == limits.REPAIR_EVENTS and now - self._times[0] < limits.REPAIR_EVENT_SECONDS:
            return False
        self._times = (*self._times, now)[-limits.REPAIR_EVENTS :]
        is_full = len(self._times) == limits.REPAIR_EVENTS and now - self._times[0] < limits.REPAIR_EVENT_SECONDS
        self._last = name if is_full else ""
        return True

    async def _report_deletions(self) -> None:
        """Post one Event about all objects with data that were deleted in the meantime."""
        while self._gone and (stack := self._services.management_cluster.find_stack(self._uid)) is not None:
            gone, self._gone = self._gone, []
            more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
            message = f"deleted: {'; '.join(gone[:SHOWN])}{more}; deletionPolicy: Retain keeps the object of a resource"
            await self._services.management_cluster.emit_event(stack, type_="Normal", reason=DELETED, message=message)

    def _report(self, resource: str, ref: ObjectRef, reason: str, text: str) -> None:
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        message = f"{resource} ({ref}): {text}"
        if resource == self._last:
            message += (
                f"; for {limits.REPAIR_EVENT_SECONDS / 60:g} minutes, further repairs appear only in the operator's log"
            )
        emit = self._services.management_cluster.emit_event
        self._tasks.run(f"repair of {resource}", lambda: emit(stack, type_="Normal", reason=reason, message=message))

    def report_runs(self, failures: Iterable[FailedResource]) -> None:
        """Report resources that run to completion and whose object just failed."""
        for failed in failures:
            if failed.run is not None and failed.child.unhealthy_reason is None:
                self._tasks.run(f"end of {failed.name}", functools.partial(self._report_run, failed))

    async def _report_run(self, failed: FailedResource) -> None:
        child = failed.child
        stack = self._services.management_cluster.find_stack(self._uid)
        if stack is None:
            return
        end = await self._find_words(stack, child)
        parts = "; ".join(part for part in (failed.status.message, end, OUTLOOK) if part)
        text = f"{failed.name} ({child.ref}) failed: {parts}"
        message = api_errors.shorten(text, length=api_errors.LONGEST_MESSAGE)
        await self._services.management_cluster.emit_event(stack, type_="Warning", reason=RUN_FAILED, message=message)

    async def _find_words(self, stack: StackObject, child: Child) -> str:
        """Return how the work ended in the words of its container, or "" if that cannot be read.

        Read once for each failure, as the account of the Stack.
        """
        end = object_reports.find_run_end(await answers.find_answer(self._get_pods(stack, child), []))
        if end is None or self._services.find_boundary(stack).find_denial(pod_ref(end)):
            return ""
        cluster, size = self._services.find_cluster(stack), object_reports.LOG_BYTES
        log = await answers.find_answer(cluster.get_log_end(pod_ref(end), container=end.container, limit=size), "")
        return object_reports.describe_run_end(end, log, hidden=self._definition_sync.hidden_texts)

    async def _get_pods(self, stack: StackObject, child: Child) -> list[Object]:
        cluster = self._services.find_cluster(stack)
        match child.kind.key:
            case run_policy.POD:
                return [await cluster.get(child.ref, kind=child.kind)]
            case run_policy.JOB:
                found = await cluster.list_pods(child.namespace, labels=f"{CONTROLLER_LABEL}={child.uid}")
                return [pod for pod in found if is_owned(pod, child.uid)]
            case _:
                return []

    @property
    def has_unproven(self) -> bool:
        """Whether there are unproven objects; each is reported once in the life of this object."""
        return bool(self._unproven)

    def report_unproven(self, stack: StackObject, *, is_complete: bool) -> None:
        """Report new unproven objects after a reconcile with nothing left to do, or while the Stack is being deleted.

        Before that, `hearth.plan.resource.resource_planner` decides which of them a resource adopts.
        """
        found = self._services.find_children_cluster(self._uid).children_of(self._uid, UNPROVEN)
        if found is self._unproven or not (stack.deleting or is_complete):
            return
        self._unproven = found
        new = [child for child in found if child.uid not in self._named][: limits.UNPROVEN_NAMED - len(self._named)]
        if new:
            self._named |= {child.uid for child in new}
            message = describe_unproven(new)
            logger.warning("objects without signature", stack=stack.uid, message=message)
            emit = self._services.management_cluster.emit_event
            self._tasks.run("unproven", lambda: emit(stack, type_="Warning", reason=UNPROVEN_OBJECTS, message=message))


def describe_kept(step: Detach | Restart | Release, note: str) -> tuple[str, str] | None:
    """Return the reason and message of the Event about objects that a step kept, or None if there is no Event."""
    match step:
        case Detach():
            return (CLAIMS_KEPT, f"was deleted and will be recreated; {note}") if note else None
        case Restart():
            return PODS_RESTARTED, RESTARTED
        case Release():
            why = step_planning.explain_retention(step.child, step.contents)
            return (CONTAINER_KEPT, f"is not deleted, since it {why}; {LEFT}") if step.contents else None


def pod_ref(end: object_reports.RunEnd) -> ObjectRef:
    """Return the pod of the container that failed."""
    return ObjectRef(group="", kind="Pod", namespace=end.namespace, name=end.pod)


def is_owned(pod: Object, uid: str) -> bool:
    """Whether the Pod has that owner. Anyone who can write Pods can copy the labels of another Pod."""
    return any(each.get("uid") == uid for each in pod["metadata"].get("ownerReferences") or ())


def describe_unproven(children: Sequence[Child]) -> str:
    """Describe the objects for the user."""
    named = enumerate_names(
        [f"{child.ref} in {child.namespace}" if child.namespace else str(child.ref) for child in children]
    )
    return (
        f"without a valid {names.ANNOTATION_SIGNATURE}: {named}. Their label {names.LABEL_STACK_UID} refers to this "
        "Stack, but the Stack did not sign them, so they are not its children and are not touched. Delete them if "
        "they are not needed, "
        f"or remove the label"
    )
