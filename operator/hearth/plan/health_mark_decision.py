"""What comes of one HealthMark: whom it is bound to, what is written onto that object, and what its status says.

Pure. A mark is bound to one object, and its status says so before anything is done: whatever becomes of the process then,
the mark never strikes the object's successor. What is said on the object counts, see `hearth.plan.resource.replace_unhealthy`; here it is
only written there, once for each word of the HealthMark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hearth.model import times
from hearth.model.child import Child, Object
from hearth.plan.state.steps import WriteHealthMark
from hearth.plan.status import conditions

READY = "Ready"
RESOLVED = "Resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedHealthMark:
    """A HealthMark: what it says, and what was done about it so far."""

    name: str
    generation: int
    written_at: str
    """When its spec was written last; RFC 3339."""
    is_unhealthy: bool
    reason: str
    """"" where it gives none."""
    status: Mapping[str, Any]

    @property
    def reason_text(self) -> str:
        """The reason that the object is to carry."""
        return self.reason.strip() or f"HealthMark {self.name} says so"

    @property
    def is_observed(self) -> bool:
        """Whether its status is about this very word."""
        return self.status.get("observedGeneration") == self.generation

    @property
    def is_resolved(self) -> bool:
        """Whether nothing more comes of it."""
        return self.is_observed and conditions.find(self.status, RESOLVED).get("status") == "True"

    @property
    def is_written(self) -> bool:
        """Whether the object has shown this word."""
        return self.is_observed and conditions.find(self.status, READY).get("status") == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkProblem:
    """Why nothing can be done about a mark now."""

    reason: str
    """One CamelCase word."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedResource:
    """What is known of the resource that a mark speaks of."""

    stack: str
    resource: str
    current: Child | None = None
    """The object that stands for it now."""
    bound: Child | None = None
    """The object that the mark is bound to, as long as it is there."""
    is_wanted: bool = True
    """Whether there is such a resource."""
    problem: MarkProblem | None = None
    """Why nothing may be written to the object now, or why there is none."""
    newer: str = ""
    """A newer HealthMark on the same object that says the contrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDecision:
    """What is to be done about a mark: the step first, then the status."""

    status: Object | None = None
    """The whole of it; None where it stays as it is."""
    step: WriteHealthMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkConditions:
    """What the two conditions say."""

    reason: str
    message: str
    ready: str = "True"
    resolved: str = "False"


def decide(said: ParsedHealthMark, view: MarkedResource, *, now: float) -> MarkDecision:
    """What is to be done next. now: seconds since the epoch."""
    if said.is_resolved:
        return MarkDecision()
    uid = said.status.get("observedUID")
    if uid is None or (not said.is_observed and view.bound is None):
        return _bind(said, view, now=now)
    if view.bound is None:
        return _resolve(said, view, now=now)
    if not said.is_observed:
        return MarkDecision(
            status=build_status(said, view, pending("Marking", "the mark is understood"), uid=uid, now=now)
        )
    return _carry(said, view, view.bound, now=now)


def _bind(said: ParsedHealthMark, view: MarkedResource, *, now: float) -> MarkDecision:
    """Settle which object is meant: the one that stands for the resource, unless it was made after the mark."""
    child = view.current
    if child is None:
        problem = view.problem or MarkProblem(reason="NoObject", message=f"{describe(view)} has no object yet")
        return MarkDecision(
            status=build_status(said, view, pending(problem.reason, problem.message), uid=None, now=now)
        )
    made_at = str(child.fields["metadata"].get("creationTimestamp") or "")
    if said.written_at and made_at > said.written_at:
        message = (
            f"{child.ref} was made at {made_at}, after this mark was written ({said.written_at}), which therefore cannot "
            f"mean it; write the mark anew where it does"
        )
        return MarkDecision(status=build_status(said, view, pending("ObjectIsNewer", message), uid=None, now=now))
    if not said.is_unhealthy and child.unhealthy_reason is None:
        return MarkDecision(status=build_status(said, view, healthy(child), uid=child.uid, now=now))
    return MarkDecision(
        status=build_status(said, view, pending("Marking", "the mark is understood"), uid=child.uid, now=now)
    )


def _resolve(said: ParsedHealthMark, view: MarkedResource, *, now: float) -> MarkDecision:
    """The object that was meant is gone: the mark has done its work as soon as there is another one, or none is wanted."""
    uid = said.status["observedUID"]
    if view.current is not None:
        message = f"the object that was meant is gone; {view.current.ref} stands for {describe(view)} now"
        answer = MarkConditions(reason="Replaced", message=message, resolved="True")
        return MarkDecision(status=build_status(said, view, answer, uid=uid, successor=view.current, now=now))
    if not view.is_wanted:
        message = f"the object that was meant is gone, and nothing wants another one as {describe(view)}"
        return MarkDecision(
            status=build_status(
                said, view, MarkConditions(reason="Gone", message=message, resolved="True"), uid=uid, now=now
            )
        )
    return MarkDecision()


def _carry(said: ParsedHealthMark, view: MarkedResource, child: Child, *, now: float) -> MarkDecision:
    """Bring the word onto the object, once; whatever is said there later is another word."""
    if said.is_written:
        if child.unhealthy_reason is not None:
            return MarkDecision(status=build_status(said, view, marked(child), uid=child.uid, now=now))
        return MarkDecision(status=build_status(said, view, taken_back(child), uid=child.uid, now=now))
    if view.newer:
        word = "healthy" if said.is_unhealthy else "unhealthy"
        message = f"HealthMark {view.newer}, which is newer, says that {child.ref} is {word}"
        answer = MarkConditions(reason="Overruled", message=message, resolved="True")
        return MarkDecision(status=build_status(said, view, answer, uid=child.uid, now=now))
    wanted = said.reason_text if said.is_unhealthy else None
    if child.unhealthy_reason == wanted:
        answer = marked(child) if said.is_unhealthy else healthy(child)
        return MarkDecision(status=build_status(said, view, answer, uid=child.uid, now=now))
    if view.problem is not None:
        return MarkDecision(
            status=build_status(said, view, pending(view.problem.reason, view.problem.message), uid=child.uid, now=now)
        )
    return MarkDecision(step=WriteHealthMark(child=child, reason=wanted))


def pending(reason: str, message: str) -> MarkConditions:
    """What is said of a mark that could not be written onto its object yet."""
    return MarkConditions(reason=reason, message=message, ready="False")


def marked(child: Child) -> MarkConditions:
    """What is said while the object carries a mark."""
    return MarkConditions(reason="Marked", message=f"{child.ref} is marked unhealthy: {child.unhealthy_reason}")


def healthy(child: Child) -> MarkConditions:
    """What is said once the object carries no mark, as it is to be."""
    return MarkConditions(reason="Healthy", message=f"{child.ref} carries no mark", resolved="True")


def taken_back(child: Child) -> MarkConditions:
    """What is said where somebody took the mark off the object."""
    message = f"the mark was taken off {child.ref} again; to mark it once more, write another HealthMark"
    return MarkConditions(reason="TakenBack", message=message, resolved="True")


def describe(view: MarkedResource) -> str:
    """`resource web of Stack shop`."""
    return f"resource {view.resource} of Stack {view.stack}"


def build_status(
    said: ParsedHealthMark,
    view: MarkedResource,
    answer: MarkConditions,
    *,
    uid: str | None,
    now: float,
    successor: Child | None = None,
) -> Object | None:
    """The whole status; None where it says so already. uid: of the object that the mark is bound to."""
    status: Object = {
        "observedGeneration": said.generation,
        "conditions": [
            _condition(said, READY, answer.ready, answer, now=now),
            _condition(said, RESOLVED, answer.resolved, answer, now=now),
        ],
    }
    if uid is not None:
        status |= {"observedUID": uid, "stackName": view.stack, "resource": view.resource}
    if successor is not None:
        status["replacedBy"] = {
            "apiVersion": successor.kind.api_version,
            "kind": successor.kind.name,
            "name": successor.name,
            **({"namespace": successor.namespace} if successor.namespace else {}),
            "uid": successor.uid,
        }
    return status if status != said.status else None


def _condition(said: ParsedHealthMark, type_: str, status: str, answer: MarkConditions, *, now: float) -> Object:
    """One condition; its transition time lasts while its status does."""
    before = conditions.find(said.status, type_)
    is_same = before.get("status") == status and before.get("lastTransitionTime")
    return {
        "type": type_,
        "status": status,
        "reason": answer.reason,
        "message": answer.message[: conditions.MESSAGE_LENGTH],
        "observedGeneration": said.generation,
        "lastTransitionTime": before["lastTransitionTime"] if is_same else times.format_time(now),
    }
