"""Derives the phase, the condition `Ready` and the extra conditions of a Stack."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, assert_never

from hearth.model import value_class
from hearth.model.kinds import ObjectRef
from hearth.model.phases import ConditionType, Phase
from hearth.model.text import enumeration, times
from hearth.plan.resource import unbound_claims
from hearth.plan.stack import cleanup_planner
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import internal_errors
from hearth.plan.state.condition_types import ClusterReason, ExtraCondition
from hearth.plan.state.finished_work import FinishedWork
from hearth.plan.state.internal_errors import Fault
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.resource_status import ResourceState, ResourceStatus
from hearth.plan.state.steps import (
    Apply,
    CreatePart,
    Delete,
    DeletePart,
    Detach,
    Release,
    Restart,
    Suspend,
    WriteHealthMark,
)
from hearth.plan.status import breakpoint_waits, check_result, deletion_blockers, problems
from hearth.plan.status.breakpoint_waits import StackAddress
from hearth.plan.status.check_result import CheckResult
from hearth.plan.target import approved_steps
from hearth.plan.target.change_hold import HeldChange, HoldReason
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
    definition_revision: int = 0
    """Of an instance: the revision of its StackDefinition that was accepted or rejected last; 0 for other Stacks."""
    active_definition_revision: int = 0
    """Of an instance: the revision of its StackDefinition that the target was made of; 0 for other Stacks."""
    pin_mistake: str = ""
    """Of an instance: why it does not get the revision that it names."""
    address: StackAddress = field(default_factory=StackAddress)
    """Its name in commands."""
    replicas: int | None = None
    """Of an instance: the fields of its scale subresource, or None if it has none."""
    group_uid: str = ""
    """The UID of a ResourceGroup; "" for a Stack."""
    is_deleting: bool = False
    target: Target | None = None
    """None before the operator accepts the first definition."""
    is_recorded: bool = True
    """Whether the status already stores the target. No step is allowed before that."""
    completed: CompletedRevisions = field(default_factory=CompletedRevisions)
    last_failed: int | None = None
    """The last failed revision."""
    rejection: DefinitionRejection | None = None
    held: HeldChange | None = None
    """The definition in the spec, while it waits and the target continues."""
    handled: Mapping[str, str] = field(default_factory=dict)
    """The last handled token of each request."""
    finished: FinishedWork | None = None
    """Work that ran once and succeeded."""
    refreshed_parameters: tuple[str, ...] = ()
    """The sensitive parameters whose values changed since the revision of a rollback."""
    tampered: str = ""
    """Message about stored revisions that differ from what this operator wrote."""
    is_paused: bool = False
    protected_by: str = ""
    """The setting that forbids the requested deletion, with advice; "" for none."""
    expires_at: float | None = None
    """When the Stack is deleted, in seconds since the epoch; None for never."""
    expiry_warning: str = ""
    """Warning that the Stack expires soon, with advice; "" as long as there is time."""
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
    """Why the other cluster that has the objects cannot be used, or None if it can, and for the home cluster."""
    halted_by: str = ""
    """The reason why a restore waits, other than the objects of the Stack; "" for none."""
    circle: tuple[str, ...] = ()
    """Stacks in a circle: each reads objects of the next, and the last one reads objects of this Stack."""
    sources: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The resource versions of the sources that the definition was read from."""
    polled: tuple[str, ...] = ()
    """Sources of the definition that the operator polls, so that it notices changes late."""

    @property
    def is_automatic_rollback(self) -> bool:
        """Return whether the target is an automatic rollback, which the user did not request."""
        return self.target is not None and self.target.cause is TargetCause.AUTOMATIC

    @property
    def away(self) -> DefinitionRejection | None:
        """Return the problem with the cluster if the cluster does not answer."""
        problem = self.cluster_problem
        return problem if problem is not None and problem.reason == ClusterReason.UNREACHABLE else None

    @property
    def is_completed(self) -> bool:
        """Return whether the target completed once, so that all current writes are repairs."""
        is_wanted = self.is_recorded and not self.is_deleting and not self.is_suspended and self.rejection is None
        is_wanted = is_wanted and self.away is None
        return is_wanted and self.target is not None and self.target.started_at is None

    @property
    def checked(self) -> Phase | None:
        """Return the phase that the last check sets, or None if the phase of the target applies."""
        return check_result.find_phase(self.check) if self.is_completed else None


def find_phase(status_input: StatusInput, planner: StackPlanner | None, memory: InMemoryState) -> Phase:
    """Find the phase."""
    checked = None if is_stuck(status_input) else status_input.checked
    if _is_waiting(status_input, planner) and checked is not Phase.CHECK_FAILED:
        return Phase.UPDATE_STOPPED
    if _is_creation_held(status_input):
        return Phase.CREATE_STOPPED
    return checked or Phase(_action(status_input) + _progress(status_input, planner, memory))


def is_complete(status_input: StatusInput, planner: StackPlanner | None) -> bool:
    """Return whether the target is complete."""
    return (
        planner is not None
        and not status_input.is_deleting
        and (status_input.rejection is None or status_input.is_suspended)
        and status_input.is_recorded
        and status_input.away is None
        # The planner is updated only in the next reconcile.
        and status_input.is_suspended == (planner.is_suspended)
        and planner.is_complete
    )


def _is_waiting(status_input: StatusInput, planner: StackPlanner | None) -> bool:
    """Return whether nothing is left to do until the change that is held may start."""
    is_usable = not status_input.is_suspended and not is_stuck(status_input)
    return status_input.held is not None and is_usable and is_complete(status_input, planner)


def _is_creation_held(status_input: StatusInput) -> bool:
    """Return whether the first definition waits, so that there is nothing to run."""
    has_problem = status_input.rejection is not None or is_stuck(status_input) or status_input.is_deleting
    return status_input.held is not None and status_input.target is None and not has_problem


def _action(status_input: StatusInput) -> str:
    target = status_input.target
    if status_input.is_deleting:
        return "Delete"
    if status_input.is_suspended:
        return "Suspend"
    if target is None:
        return "Create"
    if status_input.rejection is not None:
        return "Update"
    if target.suspend is not None:
        return "Resume"
    if target.is_rollback:
        return "Rollback"
    return "Create" if target.is_first else "Update"


def _progress(status_input: StatusInput, planner: StackPlanner | None, memory: InMemoryState) -> str:
    if _is_refused(status_input, planner) or is_stuck(status_input):
        return "Failed"
    if planner is None or not status_input.is_recorded or status_input.away is not None:
        return "InProgress"
    if status_input.protected_by:
        return "InProgress"
    if is_complete(status_input, planner):
        return "Complete"
    if planner.has_failed(memory) or status_input.timed_out_after is not None:
        return "Failed"
    return "Stopped" if not status_input.is_suspended and breakpoint_waits.is_stopped(planner, memory) else "InProgress"


def is_stuck(status_input: StatusInput) -> bool:
    """Return whether an internal error blocks the Stack."""
    return status_input.fault is not None and status_input.fault.is_blocking


def _is_refused(status_input: StatusInput, planner: StackPlanner | None) -> bool:
    """Return whether a rejected definition is the first fact to report.

    For a suspended Stack, this is true only if no known object could be suspended, because a rejection does not prevent
    that.
    """
    return (
        status_input.rejection is not None
        and not status_input.is_deleting
        and not (status_input.is_suspended and planner is not None)
    )


def find_ready_reason(
    status_input: StatusInput, planner: StackPlanner | None, memory: InMemoryState
) -> tuple[str, str]:
    """Find reason and message of `Ready`: the first problem, otherwise the object that the Stack waits for."""
    if override := _find_override(status_input, planner):
        return override
    if planner is None:
        return _describe_start(status_input)
    if is_complete(status_input, planner):
        return _describe_end(status_input, planner)
    if _progress(status_input, planner, memory) == "Stopped":
        reason, message = breakpoint_waits.find_stop(planner, memory, status_input.address)
        if reason == approved_steps.REASON and status_input.held is not None:
            message = f"{message}; {status_input.held.hold.message}"
        return reason, message
    reason, message = _find_problem(planner, memory)
    message = "; ".join((message, *find_circle(status_input, planner))) if message else ""
    if status_input.is_deleting:
        return "Deleting", message or _describe_wait(
            status_input, planner
        ) or status_input.blocked_by or "nothing is left"
    if status_input.timed_out_after is not None and not planner.has_failed(memory):
        given = times.format_duration(status_input.timed_out_after)
        return (
            "Timeout",
            f"not reached within {given} (spec.timeout): {message or _describe_wait(status_input, planner)}",
        )
    if reason:
        return reason, message
    reason = unbound_claims.CLAIMS_UNBOUND if unbound_claims.awaits_only_claims(planner) else "Progressing"
    is_held = status_input.is_paused and planner.ready_steps
    return "Paused" if is_held else reason, _describe_wait(status_input, planner)


def _describe_start(status_input: StatusInput) -> tuple[str, str]:
    """Return reason and message of a Stack without a definition that runs."""
    if status_input.held is not None and _is_creation_held(status_input):
        return status_input.held.hold.reason, describe_held(status_input)
    return "Deleting" if status_input.is_deleting else "Progressing", "the definition is being read"


def find_circle(status_input: StatusInput, planner: StackPlanner) -> Iterator[str]:
    """Describe the circle of Stacks that read one another's objects, if there is one."""
    if status_input.circle:
        way = ", which reads objects of ".join(status_input.circle)
        is_waiting = not all(read.status.is_ready for read in planner.externals.values())
        effect = "each waits for the others" if is_waiting else "a change of one may change the others again and again"
        yield (
            f"reads objects of {way}, which reads objects of this Stack: {effect}; let one of them take the value as a parameter"
        )


def _find_override(status_input: StatusInput, planner: StackPlanner | None) -> tuple[str, str] | None:
    """Find reason and message that the planner does not know: an error, a rejected definition, or a failed check."""
    if status_input.fault is not None and status_input.fault.is_blocking:
        return internal_errors.REASON, status_input.fault.message
    if status_input.rejection is not None and _is_refused(status_input, planner):
        return status_input.rejection.reason, status_input.rejection.message
    if status_input.is_deleting and status_input.protected_by:
        return cleanup_planner.PROTECTED, status_input.protected_by
    problem = status_input.cluster_problem
    if problem is not None and (status_input.is_deleting or status_input.away is not None):
        return problem.reason, problem.message
    if status_input.check is not None and status_input.checked is Phase.CHECK_FAILED:
        return "CheckFailed", f"the last check {check_result.describe(status_input.check)}"
    return None


def explain_failure(status_input: StatusInput, planner: StackPlanner, memory: InMemoryState) -> tuple[str, str]:
    """Return reason and message of the failure of its definition that makes the Stack Failed; both empty for none."""
    # An internal error of the operator does not cause a rollback, because other revisions could cause it too.
    status_input = dataclasses.replace(status_input, fault=None)
    if _progress(status_input, planner, memory) != "Failed":
        return "", ""
    return find_ready_reason(status_input, planner, memory)


def _find_problem(planner: StackPlanner, memory: InMemoryState) -> tuple[str, str]:
    """Return reason and message of the first problem; both empty without problems."""
    problem = next(iter(problems.find_problems(planner, memory)), None)
    if problem is None:
        return "", ""
    name, status = problem
    return status.reason, f"{_describe_resource(name, status)}: {status.message}"


def _describe_end(status_input: StatusInput, planner: StackPlanner) -> tuple[str, str]:
    """Return reason and message of a complete target."""
    if status_input.is_suspended:
        refused = (
            f"; the definition in the spec is rejected: {status_input.rejection.message}"
            if status_input.rejection
            else ""
        )
        return "Suspended", f"workloads are scaled to zero (spec.suspended: true); set it to false to resume{refused}"
    count = len(planner.blueprint.resources)
    ready = f"all {count} resources are ready" if count != 1 else "the resource is ready"
    target = status_input.target
    if status_input.held is not None and target is not None:
        return status_input.held.hold.reason, f"{describe_held(status_input)}; {ready}"
    if status_input.check is not None and status_input.checked is Phase.CHECK_COMPLETE:
        ready += f"; the last check {check_result.describe(status_input.check)}"
    if target is None or not target.is_rollback:
        return "Complete", ready
    where = (
        f"revision {target.revision}"
        if target.revision != EMPTY_REVISION
        else "the empty revision (no revision ever completed)"
    )
    if status_input.refreshed_parameters:
        where += f" (with the current values of {enumeration.enumerate_names(status_input.refreshed_parameters)})"
    if target.cause is TargetCause.ROLLBACK:
        if target.rollback is not None and target.rollback.snapshot:
            where += f" of StackSnapshot {target.rollback.snapshot}"
        again = f"to apply the definition in the spec again: {status_input.address.write_request('retry')}"
        return "Complete", f"rolled back to {where} as requested; {ready}; {again}"
    left = ""
    if planner.preserved:
        refs = enumeration.enumerate_names(sorted(str(child.ref) for child in planner.preserved.values()))
        left = f"; not deleted, because they hold data or are retained: {refs}"
    return "RolledBack", (
        f"rolled back to {where} because the definition in the spec failed: {target.failure}{left}; "
        f"change the definition, or try it again: {status_input.address.write_request('retry')}"
    )


def describe_held(status_input: StatusInput) -> str:
    """Describe the change that waits, until when, and what runs until then; "" without one."""
    held, target = status_input.held, status_input.target
    if held is None:
        return ""
    what = f"the definition of generation {status_input.generation} waits"
    if target is None:
        return f"{what}: {held.hold.message}"
    match held.hold.reason:
        case HoldReason.WINDOW:
            until = f"until {times.format_time(held.hold.until)}, when spec.window opens"
        case HoldReason.APPROVAL:
            until = f"until it is approved: {held.hold.message}"
        case _:
            assert_never(held.hold.reason)
    before = f"; the definition before it failed: {target.failure}" if status_input.is_automatic_rollback else ""
    return f"{what} {until}; revision {target.revision} runs until then{before}"


def _describe_wait(status_input: StatusInput, planner: StackPlanner) -> str:
    """Describe the objects that the Stack waits for, and the deletions that are deferred until then."""
    if status_input.is_paused and planner.ready_steps:
        return describe(planner)
    waited = status_input.halted_by or _waited_for(planner)
    for name, unnamed in sorted(planner.find_unnamed().items()) if not status_input.is_suspended else ():
        refs = enumeration.enumerate_names(sorted(str(child.ref) for child in unnamed))
        waited += f"; kept until the name of {name} is known, which may be the same: {refs}"
    kept = planner.find_deferred() if not status_input.is_suspended else []
    if not kept:
        return waited
    refs = enumeration.enumerate_names(sorted(str(child.ref) for child in kept))
    return f"{waited}; kept until all resources are ready: {refs}"


def find_extra_conditions(
    status_input: StatusInput, planner: StackPlanner | None, memory: InMemoryState
) -> Iterator[ExtraCondition]:
    """Find the extra conditions that are True."""
    yield from _find_options(status_input, planner)
    if status_input.tampered:
        yield ExtraCondition(
            type=ConditionType.REVISION_TAMPERED, reason="SignatureInvalid", message=status_input.tampered
        )
    if status_input.fault is not None:
        yield ExtraCondition(
            type=ConditionType.INTERNAL_ERROR, reason=internal_errors.REASON, message=status_input.fault.message
        )
    if (problem := status_input.cluster_problem) is not None:
        yield ExtraCondition(type=ConditionType.CLUSTER_UNREACHABLE, reason=problem.reason, message=problem.message)
    yield from check_result.find_condition(status_input.check_error)
    if planner is not None and not status_input.is_suspended:
        yield from breakpoint_waits.find_condition(planner, status_input.address)
    if status_input.is_deleting:
        yield from _find_blockage(status_input, planner, memory)
    target = status_input.target
    # Repairs of a completed rollback are not a rollback, and a suspended Stack applies no definition.
    is_idle = status_input.is_deleting or status_input.is_suspended or is_complete(status_input, planner)
    if target is not None and target.is_rollback and not target.is_completed and not is_idle:
        cause = f"revision {target.revision} is requested by spec.rollback.toRevision"
        if target.rollback is not None and target.rollback.snapshot:
            cause = f"StackSnapshot {target.rollback.snapshot} is requested by spec.rollback.toSnapshot"
        if status_input.is_automatic_rollback:
            cause = f"the definition in the spec failed: {target.failure}"
        yield ExtraCondition(type=ConditionType.ROLLING_BACK, reason=str(target.cause), message=cause)


def _find_options(status_input: StatusInput, planner: StackPlanner | None) -> Iterator[ExtraCondition]:
    """Find the conditions that options of the spec cause: a pause, and the end of the Stack."""
    if status_input.is_paused:
        paused_steps = describe(planner) if planner is not None else "spec.paused is true"
        yield ExtraCondition(type=ConditionType.PAUSED, reason="Paused", message=paused_steps)
    if held := "" if status_input.is_deleting else describe_held(status_input):
        yield ExtraCondition(type=ConditionType.CHANGE_HELD, reason="ChangeHeld", message=held)
    if status_input.expiry_warning:
        yield ExtraCondition(type=ConditionType.EXPIRING, reason="ExpiresSoon", message=status_input.expiry_warning)


def _find_blockage(
    status_input: StatusInput, planner: StackPlanner | None, memory: InMemoryState
) -> Iterator[ExtraCondition]:
    """Find the cause of a blocked deletion: `spec.protected`, `spec.paused`, an internal error, or an external one."""
    if status_input.protected_by:
        found = cleanup_planner.PROTECTED, status_input.protected_by
    elif status_input.is_paused:
        found = "Paused", "spec.paused is true; set it to false"
    elif status_input.fault is not None and status_input.fault.is_blocking:
        found = internal_errors.REASON, status_input.fault.message
    elif (problem := status_input.cluster_problem) is not None:
        found = problem.reason, problem.message
    else:
        if planner is not None and (
            block := deletion_blockers.find_deletion_block(planner, memory, beyond=status_input.blocked_by)
        ):
            yield block
        return
    yield ExtraCondition(type=ConditionType.DELETION_BLOCKED, reason=found[0], message=found[1])


def _describe_resource(name: str, status: ResourceStatus) -> str:
    """Name a resource and its object, unless the message names the object already."""
    is_named = status.ref is None or str(status.ref) in status.message
    return name if is_named else f"{name} ({status.ref})"


def _waited_for(planner: StackPlanner) -> str:
    """Describe the first few resources, objects or kinds that the Stack waits for."""
    progressing = planner.by_state[ResourceState.PROGRESSING] or planner.by_state[ResourceState.WAITING]
    if progressing:
        # The order of detection changes after a restart.
        name = min(progressing)
        status = planner.statuses[name]
        others = len(progressing) - 1
        more = f", and {others} more" if others else ""
        return f"waits for {_describe_resource(name, status)}: {status.message}{more}"
    for name, read in sorted(planner.externals.items()):
        if not read.is_ready:
            return f"waits for {name}: {read.status.message}"
    children = planner.cleanup.children
    if children:
        return f"waits for the deletion of {deletion_blockers.describe_all(children.values(), reader=planner.reader)}"
    if planner.cleanup.is_expected:
        return "waits for a write in flight; the object that it creates is then deleted"
    unwatched = sorted(kind.key for kind in planner.kinds.unsynced)
    for kind, words in planner.kinds.denied.items():
        if kind in planner.kinds.unsynced:
            return f"the operator is not allowed to list {kind.key} objects, and some may exist: {words}"
    if unwatched:
        return f"waits for the first list of all {unwatched[0]} objects"
    surge = planner.blueprint.surge
    return f"the rolling update is done; the members beyond the size are deleted: {surge}" if surge else ""


# The steps that `spec.paused` prevents: due steps, and steps that could follow them. It is not known which of the
# following resources change until the steps before them are done, and the message reflects that.

NAMED_AT_MOST: Final = 50
"""Maximum names of one kind of step. People read the message, and it has to fit into a condition."""


def describe(planner: StackPlanner) -> str:
    """Describe the steps that `spec.paused` prevents now, and the steps that may follow."""
    due = [
        f"{verb} {enumeration.enumerate_names(sorted(named), most=NAMED_AT_MOST)}"
        for verb, named in sorted(_find_due(planner).items())
    ]
    if not due:
        return "spec.paused is true; no step is pending"
    return "; ".join([f"spec.paused prevents: {', '.join(due)}", *_find_next(planner)])


def _find_due(planner: StackPlanner) -> dict[str, list[str]]:
    """Find the names of the objects that the due steps change, by verb."""
    due: dict[str, list[str]] = {}
    for name, step in planner.ready_steps.items():
        match step:
            case Apply():
                due.setdefault("apply", []).append(name)
            case Suspend():
                due.setdefault(str(step.purpose), []).append(step.child.resource)
            case Delete() | Detach():
                due.setdefault("delete", []).append(str(step.child.ref))
            case Release():
                due.setdefault("release", []).append(str(step.child.ref))
            case WriteHealthMark():
                due.setdefault("mark", []).append(str(step.child.ref))
            case Restart():
                due.setdefault("restart the Pods of", []).append(str(step.child.ref))
            case CreatePart():
                due.setdefault("create", []).append(str(step.ref))
            case DeletePart():
                due.setdefault("delete", []).append(str(step.ref))
            case _:
                assert_never(step)
    return due


def _find_next(planner: StackPlanner) -> list[str]:
    """Describe the steps after the due ones: resources that wait for them, and deletions at the end."""
    waiting = [name for name in planner.by_state[ResourceState.WAITING] if name not in planner.ready_steps]
    later = [
        str(child.ref)
        for uid, child in planner.cleanup.children.items()
        if uid not in planner.ready_steps and not child.deleting
    ]
    found = []
    if waiting:
        found.append(
            f"then apply, where they differ: {enumeration.enumerate_names(sorted(waiting), most=NAMED_AT_MOST)}"
        )
    if later:
        found.append(f"finally delete {enumeration.enumerate_names(sorted(later), most=NAMED_AT_MOST)}")
    return found
