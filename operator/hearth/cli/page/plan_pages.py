"""The list of plans that wait for an approval, and the page of one plan, with the buttons that decide about it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final
from urllib import parse

from aiohttp import web

from hearth.cli.page import actions, rendering, shown_plan, shown_stack
from hearth.cli.page.actions import Field
from hearth.cli.page.handlers import NAME, VERB, Handlers, PartChanges
from hearth.cli.page.rendering import Parts
from hearth.cli.stack_access import decision_requests, plan_decisions, read_budgets
from hearth.cli.stack_views import plan_output, safe_text
from hearth.cli.stack_views.plan_output import ShownPlan
from hearth.model import errors, value_class
from hearth.model.approvals import Decision
from hearth.model.well_known_kinds import STACK_PLAN


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class PlanAction:
    """One button."""

    name: str
    """The command of `kubectl stack`."""
    title: str
    explanation: str
    decision: Decision
    is_dangerous: bool = False


ACTIONS: Final = {
    "approve": PlanAction(
        name="approve",
        title="Approve",
        explanation="The change starts at once, or when the window of the Stack opens. Your approval is valid for this plan only.",
        decision=Decision.APPROVED,
    ),
    "reject": PlanAction(
        name="reject",
        title="Reject",
        explanation="The change does not start, and the Stack stays as it is. A rejection is final: only another plan can be approved.",
        decision=Decision.REJECTED,
        is_dangerous=True,
    ),
}
NOT_DECIDED: Final = "Your decision was not stored: "


async def show_plans(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Show all plans that wait, of one or all namespaces."""
    namespace = handlers.find_namespace(request)
    try:
        async with handlers.source.list_turns:
            raw = await handlers.source.session.list(STACK_PLAN, namespace)
    except errors.ApiStatusError as refused:
        return handlers.ask_for_namespace(request, refused, namespace=namespace, list_path="plans")
    plans = [shown_plan.describe(plan) for plan in plan_output.list_present(raw) if plan.is_waiting]
    del raw
    read_budgets.begin_again()
    plans.sort(key=lambda plan: Decision.APPROVED not in plan.decisions)
    values = {"plans": plans, "namespace": namespace, "is_only": bool(handlers.source.namespace)}
    return handlers.reply(request, "plans.html", values)


async def show_plan(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Show one plan: its steps, its state, and the buttons that this user may use."""
    plan = await read_plan(handlers, request)
    can_decide = await find_right(handlers, plan)
    # A plan of 500 steps takes a third of a second, while other requests are answered.
    return await asyncio.to_thread(render_plan, handlers, request, plan, can_decide=can_decide)


def render_plan(handlers: Handlers, request: web.Request, plan: ShownPlan, *, can_decide: bool) -> web.Response:
    """Return the page of a plan."""
    summary = shown_plan.describe(plan)
    values = {
        "plan": summary,
        "groups": shown_plan.group_steps(plan),
        "notes": list(shown_plan.list_notes(plan)),
        "parts": make_parts(handlers, plan, can_decide=can_decide),
        "updates": f"{summary.path}/updates?{parse.urlencode({'digest': plan.digest})}",
        "short_fields": shown_plan.SHORT_FIELDS,
    }
    return handlers.reply(request, "plan.html", values)


async def follow_plan(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Send the state of a plan again whenever it changes."""
    can_decide = await find_right(handlers, await read_plan(handlers, request))

    async def make() -> Parts:
        plan = await read_plan(handlers, request)
        if plan.digest != request.query.get("digest"):
            # The steps on the page belong to a plan that was deleted.
            gone = handlers.renderer.render("part_gone.html", {"name": shown_plan.describe(plan).name})
            return {"plan": rendering.make_part(gone)}
        return make_parts(handlers, plan, can_decide=can_decide)

    return await handlers.updates.follow(request, PartChanges(make))


def make_parts(handlers: Handlers, plan: ShownPlan, *, can_decide: bool) -> Parts:
    """Return the part of a plan that changes: its state and its buttons."""
    values = {"plan": shown_plan.describe(plan), "can_decide": can_decide}
    return {"plan": rendering.make_part(handlers.renderer.render("part_plan.html", values))}


async def confirm_decision(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Ask for the reason of a decision, and for confirmation."""
    handlers.check_writable()
    action, plan = find_action(dict(request.query)), await read_plan(handlers, request)
    refusal = find_refusal(plan, action)
    fields = (
        Field(name="digest", label="", type="hidden", value=request.query.get("digest", "")),
        Field(name="reason", label="Reason (optional)", type="text", most=actions.REASON_LENGTH, is_optional=True),
    )
    summary = shown_plan.describe(plan)
    effect = f"{summary.counts}. {summary.undo}" if not refusal and action.decision is Decision.APPROVED else ""
    notes = tuple(filter(None, [summary.warning, summary.authors])) if effect else ()
    decision = actions.Decision(refusal=refusal, effect=effect, notes=notes)
    values = {
        "action": action,
        "fields": fields,
        "decision": decision,
        "resource": "",
        "chosen": "",
        "is_previewed": False,
    }
    return handlers.reply(request, "confirm.html", values | describe_target(plan))


async def decide(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Send the decision that the user confirmed."""
    form = await handlers.read_action_form(request)
    action = find_action(form)
    request[VERB] = action.name
    plan = await read_plan(handlers, request)
    refusal, status = find_refusal(plan, action), HTTPStatus.CONFLICT
    if not refusal and form.get("digest") != plan.digest:
        refusal = "this is another plan than the one that you have seen; close this and read it first"
    said = ""
    if not refusal:
        try:
            stamp = await plan_decisions.send_decision(
                handlers.source.session, plan, action.decision, reason=form.get("reason", "").strip()
            )
        except errors.ApiStatusError as refused:
            refusal, status = f"{NOT_DECIDED}{safe_text.clean(refused)}", HTTPStatus(refused.code)
        except decision_requests.DecisionUnstamped as unstamped:
            refusal = safe_text.clean(unstamped)
        else:
            said, status = f"{plan.name} {plan_output.describe_approval(stamp)}", HTTPStatus.OK
    values = {"action": action, "decision": actions.Decision(refusal=refusal, said=said)} | describe_target(plan)
    return handlers.reply(request, "done.html", values, status=status)


async def read_plan(handlers: Handlers, request: web.Request) -> ShownPlan:
    """Return the plan that the address names. Raises HTTPNotFound and ApiStatusError."""
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    if not (NAME.fullmatch(namespace) and NAME.fullmatch(name)):
        raise web.HTTPNotFound(text="there is no such plan")
    return ShownPlan(await handlers.source.session.get(STACK_PLAN, namespace, name))


async def find_right(handlers: Handlers, plan: ShownPlan) -> bool:
    """Return whether this page offers the user to decide about the plan."""
    return not handlers.renderer.is_read_only and await plan_decisions.can_decide(handlers.source.session, plan)


def find_action(form: dict[str, str]) -> PlanAction:
    """Return the action that a request names. Raises HTTPBadRequest."""
    action = ACTIONS.get(form.get("action", ""))
    if action is None:
        raise web.HTTPBadRequest(text="there is no such action")
    return action


def find_refusal(plan: ShownPlan, action: PlanAction) -> str:
    """Return why the decision is not possible now, or ""."""
    summary = shown_plan.describe(plan)
    return "" if action.decision in summary.decisions else f"{summary.name} is {summary.phase}. {summary.sentence}"


def describe_target(plan: ShownPlan) -> dict[str, Any]:
    """Return the values that name the plan of a page."""
    path = shown_stack.make_path(STACK_PLAN, plan.namespace, plan.name)
    return {"path": path, "title": safe_text.one_line(plan.name), "namespace": plan.namespace, "name": plan.name}
