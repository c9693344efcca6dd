"""The view of StackPlans as values for templates. All texts are cleaned; the templates escape them. Pure."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.page import shown_stack
from hearth.cli.stack_views import plan_output, preview_output, safe_text
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.stack_view import RowState
from hearth.model import object_fields, value_class
from hearth.model.approvals import Decision
from hearth.model.text import enumeration
from hearth.model.well_known_kinds import STACK, STACK_PLAN
from hearth.plan.resource import reversal
from hearth.plan.target.change_hold import HoldReason
from hearth.preview.changes import Action, Change

TITLES: Final[Mapping[Action, str]] = {
    Action.DELETE: "Delete",
    Action.REPLACE: "Replace",
    Action.UPDATE: "Change",
    Action.CREATE: "Create",
    Action.ADOPT: "Adopt",
    Action.KEEP: "Keep, but no longer manage",
    Action.FAIL: "Unknown action",
}
"""The actions of steps, the most dangerous ones first."""
STATES: Final[Mapping[str, RowState]] = {
    "Pending": RowState.STOPPED,
    "Approved": RowState.PROGRESSING,
    "Rejected": RowState.FAILED,
    "Running": RowState.PROGRESSING,
    "Completed": RowState.READY,
    "Failed": RowState.FAILED,
    "Superseded": RowState.EXCLUDED,
    "Expired": RowState.EXCLUDED,
}
RENEWAL: Final = "Change the Stack, or choose Retry on its page, to request another plan."
SENTENCES: Final[Mapping[str, str]] = {
    "Pending": "The change has not started. It waits until a user approves this plan.",
    "Approved": "The change starts as soon as it can: at once, or when the window of the Stack opens.",
    "Rejected": f"The change does not start. {RENEWAL}",
    "Running": "The change runs. The operator writes only the steps of this plan.",
    "Completed": "The change is complete.",
    "Failed": "The change failed and was rolled back.",
    "Superseded": "This plan does not count any more: the Stack changed again, or the change was taken back.",
    "Expired": f"No user approved the change in time. {RENEWAL}",
}
SHORT_FIELDS: Final = 8
"""Fields of a step that are shown without a click."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """One step of a plan."""

    place: str
    """The resource."""
    objects: str
    """The object; for a replacement, both."""
    fields: tuple[str, ...]
    unknown_fields: tuple[str, ...]
    """Paths of the values that are known only at run time."""
    reason: str
    undo: str
    """How a rollback undoes it; "" if it undoes it completely, or if that is unknown."""
    risks: tuple[str, ...]
    is_uncertain: bool


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """The steps with the same action."""

    title: str
    state: str
    """The color, as a state of resources."""
    steps: tuple[ShownStep, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """A plan, without its steps."""

    path: str
    name: str
    namespace: str
    stack_path: str
    stack_name: str
    phase: str
    state: RowState
    sentence: str
    """What the phase means, and what the user can do."""
    counts: str
    """`Delete 1, change 2; 1 risky step`."""
    warning: str
    """Which rule about approvals the change switches off; "" for none."""
    undo: str
    """How a rollback undoes the change; "" if that is unknown."""
    decided: str
    """Who decided what, when and why; "" if no user has."""
    authors: str
    """The users who cannot approve it; "" if all can."""
    expires: str
    """When it expires, for people; "" if it no longer can."""
    digest: str
    decisions: tuple[Decision, ...]
    """The decisions that are possible now."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WaitingChange:
    """The change of a Stack that waits for an approval."""

    until: str
    plan: PlanSummary | None
    """None if the user cannot read it, or if it does not exist yet."""


def waits_for_approval(stack: StackState) -> bool:
    """Return whether a change of the Stack waits for an approval."""
    return object_fields.text(stack.status, "heldChange", "reason") == HoldReason.APPROVAL


def describe_waiting(stack: StackState, plan: ShownPlan | None) -> WaitingChange:
    """Describe the change that waits. plan: None if the user cannot read it."""
    until = format_time(object_fields.text(stack.status, "heldChange", "until"))
    return WaitingChange(until=until, plan=describe(plan) if plan is not None else None)


def describe(plan: ShownPlan) -> PlanSummary:
    """Describe a plan without its steps."""
    phase, decision = plan.phase, plan.approval.decision if plan.approval is not None else None
    if phase == "Pending" and decision is not None:
        # The operator has not looked at the decision yet.
        phase = "Approved" if decision is Decision.APPROVED else "Rejected"
    return PlanSummary(
        path=shown_stack.make_path(STACK_PLAN, plan.namespace, plan.name),
        name=safe_text.one_line(plan.name),
        namespace=safe_text.one_line(plan.namespace),
        stack_path=shown_stack.make_path(STACK, plan.namespace, plan.stack.name),
        stack_name=safe_text.one_line(plan.stack.name),
        phase=safe_text.one_line(phase),
        state=STATES.get(phase, RowState.WAITING),
        sentence=SENTENCES.get(phase, ""),
        counts=count_steps(plan),
        warning=f"The change {plan.warning}." if plan.warning else "",
        undo=WHOLE_UNDO.get(object_fields.text(plan.raw, "spec", "undo"), ""),
        decided=plan_output.describe_approval(plan.approval) if plan.approval is not None else "",
        authors=describe_authors(plan),
        expires=format_time(object_fields.text(plan.raw, "status", "expiresAt")) if phase in OPEN else "",
        digest=safe_text.one_line(plan.digest),
        decisions=OPEN.get(phase, ()),
    )


OPEN: Final[Mapping[str, tuple[Decision, ...]]] = {
    "Pending": (Decision.APPROVED, Decision.REJECTED),
    "Approved": (Decision.REJECTED,),
}
"""The decisions that are possible in each phase."""


def count_steps(plan: ShownPlan) -> str:
    """Return the number of steps by action."""
    found = collections.Counter(map(find_action, plan.make_preview(plan.stack).changes))
    counts = ", ".join(f"{title.lower()} {found[action]}" for action, title in TITLES.items() if found[action])
    return "; ".join(filter(None, (counts.capitalize() or "No object changes", plan.risk_count)))


def describe_authors(plan: ShownPlan) -> str:
    """Return the users who cannot approve the plan; "" if all can."""
    if object_fields.find(plan.raw, "spec", "separateApprover") is not True:
        return ""
    authors = enumeration.enumerate_names(object_fields.texts(plan.raw, "spec", "authors"))
    if not authors:
        return "The authors of the change are unknown, so no user can approve it."
    return safe_text.one_line(f"{authors} wrote the change and cannot approve it.")


def group_steps(plan: ShownPlan) -> tuple[StepGroup, ...]:
    """Return the steps by their action."""
    pairs = zip(object_fields.entries(plan.raw, "spec", "steps"), plan.make_preview(plan.stack).changes, strict=True)
    grouped: dict[Action, list[ShownStep]] = {action: [] for action in TITLES}
    for step, change in pairs:
        grouped[find_action(change)].append(describe_step(step, change))
    return tuple(
        StepGroup(
            title=f"{TITLES[action]}: {count_objects(len(steps))}", state=COLORS.get(action, ""), steps=tuple(steps)
        )
        for action, steps in grouped.items()
        if steps
    )


def find_action(change: Change) -> Action:
    """Return the action of a step; `FAIL` for one that no plan of the operator has."""
    return change.action if change.action in TITLES else Action.FAIL


def count_objects(count: int) -> str:
    """Return `1 object`, `2 objects`."""
    return "1 object" if count == 1 else f"{count} objects"


COLORS: Final[Mapping[Action, str]] = {
    Action.DELETE: RowState.FAILED,
    Action.REPLACE: RowState.OBSOLETE,
    Action.UPDATE: RowState.PROGRESSING,
    Action.CREATE: RowState.READY,
    Action.ADOPT: RowState.READY,
}


def describe_step(step: Mapping[str, Any], change: Change) -> ShownStep:
    """Describe a step."""
    is_partly_undone = change.undo is not None and change.undo != reversal.COMPLETE
    return ShownStep(
        place=safe_text.one_line(change.resource),
        objects=preview_output.describe_objects(change),
        fields=clean_all(object_fields.texts(step, "fields")),
        unknown_fields=clean_all(object_fields.texts(step, "unknownFields")),
        reason=safe_text.one_line(change.reason),
        undo=UNDO[change.undo.grade] if is_partly_undone and change.undo is not None else "",
        risks=clean_all(object_fields.texts(step, "risky")),
        is_uncertain=change.is_uncertain,
    )


UNDO: Final[Mapping[reversal.UndoGrade, str]] = {
    reversal.UndoGrade.REVERSIBLE: "A rollback undoes it.",
    reversal.UndoGrade.RECREATES: "A rollback creates a new object.",
    reversal.UndoGrade.ONE_WAY: "A rollback cannot undo it.",
}


WHOLE_UNDO: Final[Mapping[str, str]] = {
    reversal.UndoGrade.REVERSIBLE: "A rollback undoes the whole change.",
    reversal.UndoGrade.RECREATES: "A rollback needs new objects.",
    reversal.UndoGrade.ONE_WAY: "A rollback cannot undo all of it.",
}


def list_notes(plan: ShownPlan) -> Iterator[str]:
    """Yield what a user must know in addition to the steps."""
    yield from clean_all([each for each in object_fields.texts(plan.raw, "spec", "notes") if each != plan.warning])
    yield from (f"known only at run time: {each}" for each in clean_all(plan.unknown))


def clean_all(texts: Sequence[str]) -> tuple[str, ...]:
    """Return texts that are safe to show, each on one line."""
    return tuple(safe_text.one_line(each) for each in texts)


def format_time(text: str) -> str:
    """Return an RFC 3339 time as people read it: `2026-12-01 08:30 UTC`."""
    is_time = len(text) == len("2026-12-01T08:30:00Z") and text.endswith("Z")
    return safe_text.one_line(f"{text[:10]} {text[11:16]} UTC" if is_time else text)
