"""Decides the next write and the status of one HealthMark.

A HealthMark is bound to one object. Its status identifies that object before any write, so even after a crash the mark
never affects a successor of the object. The write only puts the mark onto the object, once for each generation of the
HealthMark. `hearth.plan.resource.decide` plans the replacement or restart of the marked object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names, value_class
from hearth.model.child import Child, Object
from hearth.model.text import times
from hearth.plan.state.steps import WriteHealthMark
from hearth.plan.status import conditions

READY = "Ready"
RESOLVED = "Resolved"
TOO_NEW = "ObjectTooNew"
ROUTE = ("stackName", "groupName", "stackRef", "resource")
"""Fields of a status with the owner and the resource of the object, or with the part of a path that was resolved."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ParsedHealthMark:
    """The spec and the status of a HealthMark."""

    name: str
    uid: str
    generation: int
    written_at: str
    """Time of the last write of its spec; RFC 3339."""
    is_unhealthy: bool
    reason: str
    """Empty if the mark gives none."""
    status: Mapping[str, Any]
    is_restored: bool = False
    """Whether it was resolved before it was restored from a backup. The restore dropped its status."""

    @property
    def reason_text(self) -> str:
        """Return the reason to write onto the object."""
        return self.reason.strip() or f"requested by HealthMark {self.name}"

    @property
    def mark_id(self) -> str:
        """Identifier of this generation of the mark on its object."""
        return f"{self.uid}/{self.generation}"

    @property
    def is_observed(self) -> bool:
        """Return whether its status refers to the current generation."""
        return self.status.get("observedGeneration") == self.generation

    @property
    def is_resolved(self) -> bool:
        """Return whether the mark needs no further action."""
        return self.is_observed and conditions.find(self.status, RESOLVED).get("status") == "True"

    @property
    def is_over(self) -> bool:
        """Whether the mark has no further effect: it is resolved, or older than every object of its resource."""
        return self.is_resolved or (self.is_observed and self._reason == TOO_NEW)

    @property
    def _reason(self) -> str:
        return str(conditions.find(self.status, READY).get("reason") or "")

    @property
    def is_written(self) -> bool:
        """Whether this generation of the mark was written to its object."""
        return self.is_observed and conditions.find(self.status, READY).get("status") == "True"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkProblem:
    """Reason why the operator cannot process a mark now."""

    reason: str
    """One CamelCase word."""
    message: str


VALID = MarkProblem(reason="Pending", message="the mark is valid")
"""The mark will be written to its object next."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkedResource:
    """Known state of the resource that a mark refers to."""

    stack: str
    """The key of the Stack or group within its namespace, see `hearth.model.names.owner_key`."""
    resource: str
    current: Child | None = None
    """The current object of the resource."""
    named: Child | None = None
    """The object in `spec.target` of the mark. None without a target, or if the object does not exist."""
    is_named: bool = False
    """Whether the mark has a `spec.target` instead of a resource."""
    bound: Child | None = None
    """The object that the mark is bound to, while it exists."""
    is_wanted: bool = True
    """Whether the Stack has this resource."""
    is_ready: bool = False
    """Whether the resource is ready with its current object."""
    problem: MarkProblem | None = None
    """Why the operator cannot write to the object now, or why there is no object."""
    newer: str = ""
    """A newer HealthMark on the same object that contradicts this one."""
    is_forwarded: bool = False
    """Whether the path continues in a Stack of another process. `resource` is then the remaining path."""

    @property
    def subject(self) -> Child | None:
        """Return the object that the mark binds to now."""
        return self.named if self.is_named else self.current


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkDecision:
    """What to do next for a mark: run the step first, then write the status."""

    status: Object | None = None
    """The complete status. None if it does not change."""
    step: WriteHealthMark | None = None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkConditions:
    """Content of the two conditions."""

    reason: str
    message: str
    ready: str = "True"
    resolved: str = "False"


def decide(mark_state: ParsedHealthMark, marked: MarkedResource, *, now: float) -> MarkDecision:
    """Decide the next action. now: seconds since the epoch."""
    if mark_state.is_resolved:
        return MarkDecision()
    if mark_state.is_restored:
        return report(mark_state, marked, restored(), uid=None, now=now)
    uid = mark_state.status.get("observedUID")
    if marked.is_forwarded and marked.problem is not None:
        return report(mark_state, marked, pending(marked.problem), uid=uid, now=now)
    if uid is None or (not mark_state.is_observed and marked.bound is None):
        return _bind(mark_state, marked, now=now)
    if marked.bound is None:
        return _resolve(mark_state, marked, now=now)
    if not mark_state.is_observed:
        return report(mark_state, marked, pending(VALID), uid=uid, now=now)
    return _carry(mark_state, marked, marked.bound, now=now)


def _bind(mark_state: ParsedHealthMark, marked: MarkedResource, *, now: float) -> MarkDecision:
    """Bind the mark to its target or the current object of its resource, unless that is newer than the mark."""
    child = marked.subject
    if child is None:
        absent = MarkProblem(reason="ObjectNotFound", message=f"{describe(marked)} has no object yet")
        return report(mark_state, marked, pending(marked.problem or absent), uid=None, now=now)
    made_at = str(child.fields["metadata"].get("creationTimestamp") or "")
    if mark_state.written_at and made_at > mark_state.written_at:
        message = (
            f"{child.ref} was created at {made_at}, after this mark ({mark_state.written_at}), so the mark does not "
            f"apply to it; to mark it, create a new HealthMark"
        )
        too_new = MarkProblem(reason=TOO_NEW, message=message)
        return report(mark_state, marked, pending(too_new), uid=None, now=now)
    is_done = not mark_state.is_unhealthy and child.unhealthy_reason is None
    return report(mark_state, marked, healthy(child) if is_done else pending(VALID), uid=child.uid, now=now)


def _resolve(mark_state: ParsedHealthMark, marked: MarkedResource, *, now: float) -> MarkDecision:
    """Resolve a mark of a deleted object, once a successor exists or the Stack no longer has the resource."""
    uid = mark_state.status["observedUID"]
    if marked.current is not None:
        message = f"the marked object is deleted; {marked.current.ref} is now the object of {describe(marked)}"
        answer = MarkConditions(reason="Replaced", message=message, resolved="True")
        return report(mark_state, marked, answer, uid=uid, successor=marked.current, now=now)
    if not marked.is_wanted:
        message = f"the marked object is deleted, and no other object is needed for {describe(marked)}"
        answer = MarkConditions(reason="ObjectDeleted", message=message, resolved="True")
        return report(mark_state, marked, answer, uid=uid, now=now)
    return MarkDecision()


def _carry(mark_state: ParsedHealthMark, marked_resource: MarkedResource, child: Child, *, now: float) -> MarkDecision:
    """Write the mark onto the object once. A later change on the object overrides it."""
    wanted = mark_state.reason_text if mark_state.is_unhealthy else None
    if child.restarted_by == mark_state.mark_id:
        current = marked_resource.current
        is_restarted = current is not None and current.uid == child.uid and current.restarted_by == child.restarted_by
        answer = restarted(child) if is_restarted and marked_resource.is_ready else restarting(child)
    elif mark_state.is_written:
        answer = marked(child) if child.unhealthy_reason is not None else taken_back(child)
    elif marked_resource.newer:
        word = "healthy" if mark_state.is_unhealthy else "unhealthy"
        message = f"the newer HealthMark {marked_resource.newer} marks {child.ref} as {word}"
        answer = MarkConditions(reason="Superseded", message=message, resolved="True")
    elif child.unhealthy_reason == wanted:
        answer = marked(child) if mark_state.is_unhealthy else healthy(child)
    elif marked_resource.problem is not None:
        answer = pending(marked_resource.problem)
    else:
        return MarkDecision(step=WriteHealthMark(child=child, reason=wanted, mark_id=mark_state.mark_id))
    return report(mark_state, marked_resource, answer, uid=child.uid, now=now)


def pending(problem: MarkProblem) -> MarkConditions:
    """Make the conditions of a mark that is not yet written onto its object."""
    return MarkConditions(reason=problem.reason, message=problem.message, ready="False")


def marked(child: Child) -> MarkConditions:
    """Make the conditions of a mark that is on its object."""
    return MarkConditions(reason="Marked", message=f"{child.ref} is marked unhealthy: {child.unhealthy_reason}")


def restarting(child: Child) -> MarkConditions:
    """Make the conditions of a mark whose object is not replaced: its Pods are being restarted."""
    message = f"the Pods of {child.ref} are restarted one by one; delete a Pod that does not become ready"
    return MarkConditions(reason="Restarting", message=message)


def restarted(child: Child) -> MarkConditions:
    """Make the conditions once all Pods of the object are restarted and ready."""
    return MarkConditions(reason="Restarted", message=f"the Pods of {child.ref} were restarted", resolved="True")


def restored() -> MarkConditions:
    """Make the conditions of a mark that was resolved before it was restored from a backup."""
    message = "was handled before it was restored from a backup; to mark the object again, create another HealthMark"
    return MarkConditions(reason="Restored", message=message, resolved="True")


def healthy(child: Child) -> MarkConditions:
    """Make the conditions of a mark that requested a healthy object, once the object is unmarked."""
    return MarkConditions(reason="Healthy", message=f"{child.ref} has no mark", resolved="True")


def taken_back(child: Child) -> MarkConditions:
    """Make the conditions after another client removed the mark from the object."""
    message = f"the mark was removed from {child.ref}; to mark it again, create another HealthMark"
    return MarkConditions(reason="MarkRemoved", message=message, resolved="True")


def describe(marked: MarkedResource) -> str:
    """Describe the resource, e.g. `resource web of Stack shop`."""
    return f"resource {marked.resource} of {names.describe_owner(marked.stack)}"


def report(
    mark_state: ParsedHealthMark,
    marked: MarkedResource,
    conditions: MarkConditions,
    *,
    uid: str | None,
    now: float,
    successor: Child | None = None,
) -> MarkDecision:
    """Return the decision to write only the status, if it changes. uid: of the object that the mark is bound to."""
    status: Object = {
        "observedGeneration": mark_state.generation,
        "conditions": [
            _condition(mark_state, READY, conditions.ready, conditions, now=now),
            _condition(mark_state, RESOLVED, conditions.resolved, conditions, now=now),
        ],
    }
    if uid is not None:
        status["observedUID"] = uid
    if uid is not None or marked.is_forwarded:
        status |= {**names.write_owner(marked.stack), "resource": marked.resource}
    elif mark_state.is_observed:
        # Keep the route, which was written by the process that the path was forwarded to.
        status |= {key: mark_state.status[key] for key in ROUTE if key in mark_state.status}
    if successor is not None:
        status["replacedBy"] = {
            "apiVersion": successor.kind.api_version,
            "kind": successor.kind.name,
            "name": successor.name,
            **({"namespace": successor.namespace} if successor.namespace else {}),
            "uid": successor.uid,
        }
    return MarkDecision(status=status if status != mark_state.status else None)


def _condition(
    mark_state: ParsedHealthMark, type_: str, status: str, mark_conditions: MarkConditions, *, now: float
) -> Object:
    """Build one condition. It keeps its transition time if its status does not change."""
    before = conditions.find(mark_state.status, type_)
    return {
        "type": type_,
        "status": status,
        "reason": mark_conditions.reason,
        "message": mark_conditions.message[: conditions.MESSAGE_LENGTH],
        "observedGeneration": mark_state.generation,
        "lastTransitionTime": conditions.find_since(before, status, times.format_time(now)),
    }
