"""Formats a StackPlan as styled text, JSON or Markdown, in the form of a preview."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views import preview_output, safe_text
from hearth.cli.stack_views.preview_output import Line
from hearth.cli.stack_views.stack_state import NamedObject, StackState
from hearth.model import approvals, names, object_fields, value_class
from hearth.model.approvals import Approval, Decision
from hearth.model.child import Object
from hearth.model.kinds import ObjectRef
from hearth.model.text import enumeration
from hearth.plan.resource.reversal import Undo, UndoGrade
from hearth.plan.target import change_plans
from hearth.preview.changes import Action, Change, Preview

ENDED: Final = frozenset({"Completed", "Failed", "Superseded"})
"""Phases of plans that are only kept for the record."""
DECIDED: Final = frozenset({"Approved", "Running", *ENDED})
"""Phases of plans that no longer need a decision."""
RENEWED: Final = frozenset({"Rejected", "Expired"})
"""Phases of plans that can no longer be approved. A retry of the Stack requests a new plan."""


@value_class.dataclass(frozen=True, slots=True)
class ShownPlan(NamedObject):
    """A StackPlan as it is shown."""

    raw: Object

    @property
    def reference(self) -> str:
        """Return the object in kubectl's notation."""
        return f"stackplan.{names.GROUP}/{self.name}"

    @property
    def stack(self) -> StackState:
        """Return the Stack that it changes, with nothing but its name and UID."""
        reference = {key: object_fields.text(self.raw, "spec", "stackRef", key) for key in ("kind", "name", "uid")}
        return StackState({"kind": reference.pop("kind"), "metadata": {"namespace": self.namespace, **reference}})

    @property
    def digest(self) -> str:
        """Return its digest."""
        return object_fields.text(self.raw, "spec", "digest")

    @property
    def phase(self) -> str:
        """Return its phase; a plan without a status is pending."""
        return object_fields.text(self.raw, "status", "phase") or "Pending"

    @property
    def is_waiting(self) -> bool:
        """Return whether the change waits."""
        return self.phase not in DECIDED

    @property
    def approval(self) -> Approval | None:
        """Return the decision of a user; None if there is none yet."""
        return approvals.parse_claim(self.annotations.get(names.ANNOTATION_APPROVAL))

    @property
    def unknown(self) -> list[str]:
        """Return the values that are unknown until run time."""
        return object_fields.texts(self.raw, "spec", "unknown")

    @property
    def warning(self) -> str:
        """Return which rule about approvals the change switches off, as a sentence; "" for none."""
        return change_plans.SWITCHED_OFF.get(change_plans.read_switch(self.definition_hash), "")

    @property
    def definition_hash(self) -> str:
        """Return what identifies the change."""
        return object_fields.text(self.raw, "spec", "definitionHash")

    @property
    def risk_count(self) -> str:
        """Return the number of risky steps, as `2 risky steps`; "" for none."""
        found = sum(bool(step.get("risky")) for step in object_fields.entries(self.raw, "spec", "steps"))
        return f"{found} risky step{'s' if found > 1 else ''}" if found else ""

    def make_preview(self, stack: StackState) -> Preview:
        """Return the steps as a preview."""
        steps = object_fields.entries(self.raw, "spec", "steps")
        return Preview(
            kind=stack.kind.name,
            namespace=self.namespace,
            name=stack.name,
            is_new=not object_fields.number(self.raw, "spec", "baseRevision"),
            changes=tuple(make_change(step) for step in steps),
            notes=tuple(object_fields.texts(self.raw, "spec", "notes")),
        )


def choose_plan(plans: Sequence[Object], stack: StackState) -> ShownPlan | None:
    """Return the newest plan of this Stack that has neither ended nor been replaced; None if there is none."""
    return next((plan for plan in list_present(plans) if plan.stack.uid == stack.uid), None)


def list_present(plans: Iterable[Object]) -> list[ShownPlan]:
    """Return, for each Stack, the newest plan that has neither ended nor been replaced, sorted by namespace and name."""
    found: dict[str, ShownPlan] = {}
    for plan in sorted(map(ShownPlan, plans), key=lambda plan: (plan.created, plan.name)):
        if plan.phase not in ENDED:
            found[plan.stack.uid] = plan
    return sorted(found.values(), key=lambda plan: (plan.namespace, plan.stack.name, plan.name))


def make_change(step: Mapping[str, Any]) -> Change:
    """Return a step as the change of a preview, without its fields."""
    action, undo = object_fields.text(step, "action"), object_fields.text(step, "undo")
    return Change(
        action=Action(action) if action in frozenset(Action) else Action.FAIL,
        resource=object_fields.text(step, "resource"),
        ref=read_ref(object_fields.find(step, "object")),
        old_ref=read_ref(object_fields.find(step, "oldObject")),
        reason=object_fields.text(step, "reason"),
        is_uncertain=object_fields.find(step, "uncertain") is True,
        undo=Undo(grade=UndoGrade(undo)) if undo in frozenset(UndoGrade) else None,
    )


def read_ref(raw: object) -> ObjectRef | None:
    """Return the object that a step names."""
    if not object_fields.text(raw, "name"):
        return None
    group, kind, namespace, name = (object_fields.text(raw, key) for key in ("group", "kind", "namespace", "name"))
    return ObjectRef(group=group, kind=kind, namespace=namespace, name=name)


def list_lines(plan: ShownPlan, stack: StackState) -> Iterator[Line]:
    """Yield the lines of a plan: the steps, what is unknown, and how to decide."""
    preview = plan.make_preview(stack)
    yield [(describe(plan, preview), "bold")]
    for step, change in zip(object_fields.entries(plan.raw, "spec", "steps"), preview.changes, strict=True):
        yield from list_step(step, change)
    yield [(summarize(plan, preview), "")]
    for detail in list_details(plan, preview):
        yield [(detail, "")]
    for command in list_commands(plan, stack):
        yield [(f"  {command}", "")]


def summarize(plan: ShownPlan, preview: Preview) -> str:
    """Return the counts of the steps."""
    return "; ".join(filter(None, (preview_output.summarize(preview), plan.risk_count)))


def describe(plan: ShownPlan, preview: Preview) -> str:
    """Return the title."""
    title = f"{preview_output.describe(preview)}: plan {plan.name} is {plan.phase}"
    return safe_text.one_line(title.replace(": new: ", ", new: "))


def list_step(step: Mapping[str, Any], change: Change) -> Iterator[Line]:
    """Yield the lines of one step: the object, the changed fields, and why it is risky."""
    head, *rest = preview_output.list_change(change)
    yield head
    for field in object_fields.texts(step, "fields"):
        yield [(f"    ~ {safe_text.one_line(field)}", "yellow")]
    yield from rest
    for risk in object_fields.texts(step, "risky"):
        yield [(f"    risky: {safe_text.one_line(risk)}", "dim")]


def list_details(plan: ShownPlan, preview: Preview) -> Iterator[str]:
    """Yield the further content of a plan, one sentence each."""
    yield from (f"note: {safe_text.one_line(note)}" for note in preview.notes if note != plan.warning)
    yield from (f"unknown until run time: {safe_text.one_line(each)}" for each in plan.unknown)
    authors = enumeration.enumerate_names(object_fields.texts(plan.raw, "spec", "authors"))
    is_separate = object_fields.find(plan.raw, "spec", "separateApprover") is True
    if is_separate:
        yield f"authors, who cannot approve the change: {safe_text.one_line(authors) or 'unknown'}"
    if plan.approval is not None:
        yield describe_approval(plan.approval)
    if expires := object_fields.text(plan.raw, "status", "expiresAt"):
        yield f"expires at: {safe_text.one_line(expires)}"
    if plan.warning:
        yield f"the change {plan.warning}"
    yield f"digest: {safe_text.one_line(plan.digest)}"


def describe_approval(approval: Approval) -> str:
    """Return who decided what, when and why."""
    reason = f": {approval.reason}" if approval.reason else ""
    return safe_text.one_line(f"{approval.decision} by {approval.user} at {approval.time}{reason}")


def list_commands(plan: ShownPlan, stack: StackState) -> Iterator[str]:
    """Yield the commands that decide about a plan, or request a new one."""
    here = f"-n {shlex.quote(stack.namespace)}"
    is_rejected = plan.approval is not None and plan.approval.decision is Decision.REJECTED
    if plan.phase in RENEWED or (plan.phase == "Pending" and is_rejected):
        yield safe_text.one_line(f"kubectl stack retry {shlex.quote(stack.argument)} {here}")
    elif plan.phase == "Pending":
        for verb in ("approve", "reject"):
            digest = plan.digest[: names.PLAN_DIGITS]
            yield safe_text.one_line(f"kubectl stack {verb} {shlex.quote(stack.argument)} {digest} {here}")


def to_output(plan: ShownPlan, stack: StackState) -> Object:
    """Return the plan as JSON: a preview with the content of the plan."""
    preview = plan.make_preview(stack)
    steps = object_fields.entries(plan.raw, "spec", "steps")
    written = preview_output.to_output(preview)
    for change, step in zip(written["changes"], steps, strict=True):
        change.update({key: step[key] for key in ("fields", "risky") if step.get(key)})
    approval = plan.approval
    details: Object = {
        "plan": plan.name,
        "phase": plan.phase,
        "digest": plan.digest,
        "baseRevision": object_fields.number(plan.raw, "spec", "baseRevision"),
        "authors": object_fields.texts(plan.raw, "spec", "authors"),
        "separateApprover": object_fields.find(plan.raw, "spec", "separateApprover") is True,
        "expiresAt": object_fields.text(plan.raw, "status", "expiresAt"),
        "unknown": plan.unknown,
    }
    if approval is not None:
        claim = {"decision": str(approval.decision), "user": approval.user, "time": approval.time}
        details["approval"] = claim | ({"reason": approval.reason} if approval.reason else {})
    return {**written, **{key: value for key, value in details.items() if value not in ("", [], None)}}


def write_markdown(plan: ShownPlan, stack: StackState) -> str:
    """Return the plan as Markdown, for the comment of a pull request."""
    preview = plan.make_preview(stack)
    pairs = zip(object_fields.entries(plan.raw, "spec", "steps"), preview.changes, strict=True)
    body = [
        line for step, change in pairs for line in preview_output.to_markdown(change.action, list_step(step, change))
    ]
    details = [f"- {preview_output.escape(each)}" for each in list_details(plan, preview)]
    commands = list(list_commands(plan, stack))
    title, count = preview_output.escape(describe(plan, preview)), summarize(plan, preview)
    head = [f"### {title}", "", f"**{count}**", "", *preview_output.write_block(body), "", *details]
    return "\n".join([*head, *(["", "```sh", *commands, "```"] if commands else [])])
