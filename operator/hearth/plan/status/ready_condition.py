"""Phase, `Ready` reason and message, and extra conditions of a Stack."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import field

from hearth.model import value_class
from hearth.model.phases import Phase
from hearth.model.text import enumeration, times
from hearth.plan.stack.stack_plan import StackPlan
from hearth.plan.state import internal_errors
from hearth.plan.state.finished_work import FinishedWork
from hearth.plan.state.internal_errors import Fault
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_conditions import ExtraCondition
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.status import (
    breakpoint_waits,
    check_result,
    cluster_state,
    conditions,
    deletion_blockers,
    paused_plan,
    problems,
)
from hearth.plan.status.breakpoint_waits import StackAddress
from hearth.plan.status.check_result import CheckResult
from hearth.plan.target.target import EMPTY_REVISION, CompletedRevisions, Target, TargetCause


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRejection:
    """Reason why the definition in the spec is not active."""

    reason: str
    """One CamelCase word: `InvalidTemplate`, `SourceNotFound`."""
    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StatusInput:
    """Input for the status from the Stack itself."""

    generation: int
    address: StackAddress = field(default_factory=StackAddress)
    """Its name in commands."""
    group_uid: str = ""
    """The UID of a ResourceGroup; "" for a Stack."""
    is_deleting: bool = False
    target: Target | None = None
    """None before the operator accepts the first definition."""
    is_recorded: bool = True
    """Whether the status already stores the target. No step is allowed before."""
    completed: CompletedRevisions = field(default_factory=CompletedRevisions)
    last_failed: int | None = None
    """The last failed revision."""
    rejection: DefinitionRejection | None = None
    handled: Mapping[str, str] = field(default_factory=dict)
    """The last handled token of each request."""
    finished: FinishedWork | None = None
    """What ran once and succeeded."""
    refreshed_parameters: tuple[str, ...] = ()
    """The sensitive parameters whose values changed since the revision of a rollback."""
    tampered: str = ""
    """Message about stored revisions that differ from what this operator wrote."""
    is_paused: bool = False
    is_suspended: bool = False
    """Whether `spec.suspended` is true."""
    timed_out_after: float | None = None
    """The timeout of the target in seconds, if it expired."""
    check: CheckResult | None = None
    """Result of the last check."""
    check_error: str = ""
    """Why the requested check cannot run yet."""
    fault: Fault | None = None
    """The internal error in the work for this Stack, if any."""
    undecided: int = 0
    """The resources of a Stack in a tree whose objects are not known to the other Stacks of the tree."""
    blocked_by: str = ""
    """The cause, other than its children, that blocks the deletion of the Stack; "" for none."""
    cluster_problem: DefinitionRejection | None = None
    """Why the other cluster that has the objects cannot be used; None if it can, and for the home cluster."""
    halted_by: str = ""
    """What a restore waits for besides the objects of the Stack; "" for nothing."""
    polled: tuple[str, ...] = ()
    """Sources of the definition that the operator polls, so that it notices changes late."""

    @property
    def is_automatic_rollback(self) -> bool:
        """Return whether the target is an automatic rollback, which the user did not request."""
        return self.target is not None and self.target.cause is TargetCause.AUTOMATIC

    @property
    def away(self) -> DefinitionRejection | None:
        """Return the same if the cluster only does not answer."""
        problem = self.cluster_problem
        return problem if problem is not None and cluster_state.is_away(problem.reason) else None

    @property
    def is_completed(self) -> bool:
        """Return whether the target completed once, so that all current writes are repairs."""
        is_wanted = self.is_recorded and not self.is_deleting and not self.is_suspended and self.rejection is None
        is_wanted = is_wanted and self.away is None
        return is_wanted and self.target is not None and self.target.started_at is None

    @property
    def checked(self) -> Phase | None:
        """Return the phase that the last check sets; None if the phase of the target applies."""
        return check_result.find_phase(self.check) if self.is_completed else None


def find_phase(subject: StatusInput, plan: StackPlan | None, memory: InMemoryState) -> Phase:
    """Find the phase."""
    checked = None if is_stuck(subject) else subject.checked
    return checked or Phase(_action(subject) + _progress(subject, plan, memory))


def is_complete(subject: StatusInput, plan: StackPlan | None) -> bool:
    """Return whether the target is complete."""
    return (
        plan is not None
        and not subject.is_deleting
        and (subject.rejection is None or subject.is_suspended)
        and subject.is_recorded
        and subject.away is None
        # The planner only follows with the next reconcile.
        and subject.is_suspended == (plan.is_suspended)
        and plan.is_complete
    )


def _action(subject: StatusInput) -> str:
    target = subject.target
    if subject.is_deleting:
        return "Delete"
    if subject.is_suspended:
        return "Suspend"
    if target is None:
        return "Create"
    if subject.rejection is not None:
        return "Update"
    if target.suspend is not None:
        return "Resume"
    if target.is_rollback:
        return "Rollback"
    return "Create" if target.is_first else "Update"


def _progress(subject: StatusInput, plan: StackPlan | None, memory: InMemoryState) -> str:
    if _is_refused(subject, plan) or is_stuck(subject):
        return "Failed"
    if plan is None or not subject.is_recorded or subject.away is not None:
        return "InProgress"
    if is_complete(subject, plan):
        return "Complete"
    if plan.has_failed(memory) or subject.timed_out_after is not None:
        return "Failed"
    return "Stopped" if not subject.is_suspended and breakpoint_waits.is_stopped(plan, memory) else "InProgress"


def is_stuck(subject: StatusInput) -> bool:
    """Return whether an internal error blocks the Stack."""
    return subject.fault is not None and subject.fault.is_blocking


def _is_refused(subject: StatusInput, plan: StackPlan | None) -> bool:
    """Return whether a rejected definition is the first fact to report.

    For a suspended Stack, it is only if no known object could be suspended, because a rejection does not block that.
    """
    return subject.rejection is not None and not subject.is_deleting and not (subject.is_suspended and plan is not None)


def find_ready_reason(subject: StatusInput, plan: StackPlan | None, memory: InMemoryState) -> tuple[str, str]:
    """Find reason and message of `Ready`: the first problem, else the object that the Stack waits for."""
    if override := _find_override(subject, plan):
        return override
    if plan is None:
        return "Deleting" if subject.is_deleting else "Progressing", "the definition is being read"
    if is_complete(subject, plan):
        return _describe_end(subject, plan)
    if _progress(subject, plan, memory) == "Stopped":
        return breakpoint_waits.TYPE, breakpoint_waits.explain(plan, subject.address)
    reason, message = _find_problem(plan, memory)
    if subject.is_deleting:
        return "Deleting", message or _describe_wait(subject, plan) or subject.blocked_by or "nothing is left"
    if subject.timed_out_after is not None and not plan.has_failed(memory):
        given = times.format_duration(subject.timed_out_after)
        return "Timeout", f"not reached within {given} (spec.timeout): {message or _describe_wait(subject, plan)}"
    if reason:
        return reason, message
    return "Paused" if subject.is_paused and plan.ready_steps else "Progressing", _describe_wait(subject, plan)


def _find_override(subject: StatusInput, plan: StackPlan | None) -> tuple[str, str] | None:
    """Find reason and message that the planner does not know: an error, a rejected definition, or a failed check."""
    if subject.fault is not None and subject.fault.is_blocking:
        return internal_errors.REASON, subject.fault.message
    if subject.rejection is not None and _is_refused(subject, plan):
        return subject.rejection.reason, subject.rejection.message
    problem = subject.cluster_problem
    if problem is not None and (subject.is_deleting or subject.away is not None):
        return problem.reason, problem.message
    if subject.check is not None and subject.checked is Phase.CHECK_FAILED:
        return "CheckFailed", f"the last check {check_result.describe(subject.check)}"
    return None


def explain_failure(subject: StatusInput, plan: StackPlan, memory: InMemoryState) -> str:
    """Explain which failure of its definition makes the Stack Failed; "" if there is none."""
    # An internal error of the operator is no reason for a rollback: other revisions could cause it too.
    subject = dataclasses.replace(subject, fault=None)
    if _progress(subject, plan, memory) != "Failed":
        return ""
    return find_ready_reason(subject, plan, memory)[1]


def _find_problem(plan: StackPlan, memory: InMemoryState) -> tuple[str, str]:
    """Return reason and message of the first problem; both empty if there is none."""
    problem = next(iter(problems.find_problems(plan, memory)), None)
    if problem is None:
        return "", ""
    name, status = problem
    return status.reason, f"{_called(name, status)}: {status.message}"


def _describe_end(subject: StatusInput, plan: StackPlan) -> tuple[str, str]:
    """Return reason and message of a complete target."""
    if subject.is_suspended:
        refused = f"; the definition in the spec is rejected: {subject.rejection.message}" if subject.rejection else ""
        return "Suspended", f"workloads are scaled to zero (spec.suspended: true); set it to false to resume{refused}"
    count = len(plan.blueprint.resources)
    ready = f"all {count} resources are ready" if count != 1 else "the resource is ready"
    if subject.check is not None and subject.checked is Phase.CHECK_COMPLETE:
        ready += f"; the last check {check_result.describe(subject.check)}"
    target = subject.target
    if target is None or not target.is_rollback:
        return "Complete", ready
    where = (
        f"revision {target.revision}"
        if target.revision != EMPTY_REVISION
        else "the empty revision (no revision ever completed)"
    )
    if subject.refreshed_parameters:
        where += f" (with the current values of {enumeration.enumerate_names(subject.refreshed_parameters)})"
    if target.cause is TargetCause.ROLLBACK:
        if target.rollback is not None and target.rollback.snapshot:
            where += f" of StackSnapshot {target.rollback.snapshot}"
        return "Complete", f"rolled back to {where} as requested; {ready}"
    left = ""
    if plan.preserved:
        refs = enumeration.enumerate_names(sorted(str(child.ref) for child in plan.preserved.values()))
        left = f"; not deleted, because they hold data: {refs}"
    return "RolledBack", (
        f"rolled back to {where} because the definition in the spec failed: {target.failure}{left}; "
        f"change the definition, or try it again: {subject.address.write_request('retry')}"
    )


def _describe_wait(subject: StatusInput, plan: StackPlan) -> str:
    """Describe what the Stack waits for, and which deletions are deferred until then."""
    if subject.is_paused and plan.ready_steps:
        return paused_plan.describe(plan)
    waited = subject.halted_by or _waited_for(plan)
    for name, unnamed in sorted(plan.find_unnamed().items()) if not subject.is_suspended else ():
        refs = enumeration.enumerate_names(sorted(str(child.ref) for child in unnamed))
        waited += f"; kept until the name of {name} is known, which may be the same: {refs}"
    kept = plan.find_deferred() if not subject.is_suspended else []
    if not kept:
        return waited
    refs = enumeration.enumerate_names(sorted(str(child.ref) for child in kept))
    return f"{waited}; kept until all resources are ready: {refs}; to delete them now: {subject.address.write_request('cleanup')}"


def find_extra_conditions(
    subject: StatusInput, plan: StackPlan | None, memory: InMemoryState
) -> Iterator[ExtraCondition]:
    """Find the extra conditions that are True."""
    if subject.is_paused:
        paused_steps = paused_plan.describe(plan) if plan is not None else "spec.paused is true"
        yield ExtraCondition(type="Paused", reason="Paused", message=paused_steps)
    if subject.tampered:
        yield ExtraCondition(type=conditions.TAMPERED, reason="SignatureInvalid", message=subject.tampered)
    if subject.fault is not None:
        yield ExtraCondition(type=internal_errors.TYPE, reason=internal_errors.REASON, message=subject.fault.message)
    if (problem := subject.cluster_problem) is not None:
        yield ExtraCondition(type=cluster_state.TYPE, reason=problem.reason, message=problem.message)
    yield from check_result.find_condition(subject.check_error)
    if plan is not None and not subject.is_suspended:
        yield from breakpoint_waits.find_condition(plan, subject.address)
    if subject.is_deleting:
        yield from _find_blockage(subject, plan, memory)
    target = subject.target
    # Repairs of a completed rollback roll nothing back, and a suspended Stack follows no definition.
    is_idle = subject.is_deleting or subject.is_suspended or is_complete(subject, plan)
    if target is not None and target.is_rollback and not target.is_completed and not is_idle:
        cause = f"revision {target.revision} is requested by spec.rollback.toRevision"
        if target.rollback is not None and target.rollback.snapshot:
            cause = f"StackSnapshot {target.rollback.snapshot} is requested by spec.rollback.toSnapshot"
        if subject.is_automatic_rollback:
            cause = f"the definition in the spec failed: {target.failure}"
        yield ExtraCondition(type="RollingBack", reason=str(target.cause), message=cause)


def _find_blockage(subject: StatusInput, plan: StackPlan | None, memory: InMemoryState) -> Iterator[ExtraCondition]:
    """Find what blocks a deletion: `spec.paused`, an internal error, or a cause outside the operator."""
    if subject.is_paused:
        yield ExtraCondition(
            type=deletion_blockers.TYPE, reason="Paused", message="spec.paused is true; set it to false"
        )
    elif subject.fault is not None and subject.fault.is_blocking:
        yield ExtraCondition(type=deletion_blockers.TYPE, reason=internal_errors.REASON, message=subject.fault.message)
    elif (problem := subject.cluster_problem) is not None:
        yield ExtraCondition(type=deletion_blockers.TYPE, reason=problem.reason, message=problem.message)
    elif plan is not None:
        blockage = deletion_blockers.find_deletion_block(plan, memory, beyond=subject.blocked_by)
        if blockage is not None:
            yield blockage


def _called(name: str, status: ResourceStatus) -> str:
    """Name a resource and its object, unless the message names the object already."""
    is_named = status.ref is None or str(status.ref) in status.message
    return name if is_named else f"{name} ({status.ref})"


def _waited_for(plan: StackPlan) -> str:
    """Describe the first few resources, objects or kinds that the Stack waits for."""
    progressing = plan.by_state[ResourceState.PROGRESSING] or plan.by_state[ResourceState.WAITING]
    if progressing:
        # The order of detection is another one after a restart.
        name = min(progressing)
        status = plan.statuses[name]
        others = len(progressing) - 1
        more = f", and {others} more" if others else ""
        return f"waits for {_called(name, status)}: {status.message}{more}"
    children = plan.cleanup.children
    if children:
        return f"waits for the deletion of {deletion_blockers.describe_all(children.values(), reader=plan.reader)}"
    if plan.cleanup.is_expected:
        return "waits for a write in flight; the object that it creates is then deleted"
    unwatched = sorted(kind.key for kind in plan.kinds.unsynced)
    for kind, words in plan.kinds.denied.items():
        if kind in plan.kinds.unsynced:
            return f"the operator is not allowed to list {kind.key} objects, of which some may exist: {words}"
    if unwatched:
        return f"waits for the first list of all {unwatched[0]} objects"
    surge = plan.blueprint.surge
    return f"the rolling update is done; the members beyond the size are deleted: {surge}" if surge else ""
