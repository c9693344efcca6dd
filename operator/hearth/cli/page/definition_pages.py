"""The list of StackDefinitions, and the page of one: its rollout with the verbs of `kubectl stack rollout`, and its instances."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from hearth.cli.page import actions, rendering, shown_definition
from hearth.cli.page.handlers import NAME, VERB, Handlers, PartChanges
from hearth.cli.page.rendering import Parts
from hearth.cli.stack_access import following, read_budgets, stack_locations
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.steering import rollouts
from hearth.cli.stack_views.steering.rollouts import DefinitionState
from hearth.cli.stack_views.steering.verbs import VerbResult, Write
from hearth.model import errors, value_class
from hearth.model.well_known_kinds import STACK_DEFINITION


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAction:
    """One button."""

    name: str
    """The verb of `kubectl stack rollout`."""
    title: str
    explanation: str
    judge: Callable[[DefinitionState, str], VerbResult]
    """Decides the write. The second argument is a token that was never used before."""
    is_dangerous: bool = False


ACTIONS: Final = (
    RolloutAction(
        name="promote",
        title="Promote",
        explanation="The next wave starts without waiting for the rest of the pause.",
        judge=lambda definition, _: rollouts.promote(definition),
    ),
    RolloutAction(
        name="pause",
        title="Pause",
        explanation="No more instances are updated. Updated instances keep the new revision.",
        judge=lambda definition, _: rollouts.set_paused(definition, paused=True),
    ),
    RolloutAction(
        name="resume",
        title="Resume",
        explanation="The rollout continues.",
        judge=lambda definition, _: rollouts.set_paused(definition, paused=False),
    ),
    RolloutAction(
        name="restart",
        title="Restart",
        explanation="A rollout that was stopped or rolled back starts again.",
        judge=lambda definition, token: rollouts.restart(definition, token=token),
    ),
    RolloutAction(
        name="undo",
        title="Undo",
        explanation="All updated instances return to the last revision that completed its rollout.",
        judge=lambda definition, _: rollouts.undo(definition),
        is_dangerous=True,
    ),
    RolloutAction(
        name="force",
        title="Force",
        explanation="The rollout continues despite failures.",
        judge=lambda definition, _: rollouts.force(definition),
        is_dangerous=True,
    ),
)
BY_NAME: Final = {action.name: action for action in ACTIONS}


async def show_definitions(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Show all StackDefinitions."""
    async with handlers.source.list_turns:
        raw = await handlers.source.session.list(STACK_DEFINITION)
    definitions = [shown_definition.describe(DefinitionState(each)) for each in raw]
    del raw
    read_budgets.begin_again()
    definitions.sort(key=lambda each: each.name)
    return handlers.reply(request, "definitions.html", {"definitions": definitions})


async def show_definition(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Show one StackDefinition: its rollout, the causes of failures, and the instances that the user may list."""
    definition = await read_definition(handlers, request)
    can_change = await find_right(handlers, definition)
    namespace = handlers.find_namespace(request)
    instances, problem = [], ""
    try:
        kind = await handlers.source.find_kind(definition.name)
        if kind is not None:
            async with handlers.source.list_turns:
                listed = await stack_locations.list_all(handlers.source.session, namespace, [kind])
            instances = shown_definition.describe_instances(listed)
            del listed
            read_budgets.begin_again()
    except errors.ApiStatusError as refused:
        problem = safe_text.one_line(refused)
    summary = shown_definition.describe(definition)
    values = {
        "definition": summary,
        "instances": instances,
        "problem": problem,
        "namespace": namespace,
        "is_only": bool(handlers.source.namespace),
        "moment": time.strftime("%H:%M:%S"),
        "parts": make_parts(handlers, definition, can_change=can_change),
        "updates": f"{summary.path}/updates",
    }
    return handlers.reply(request, "definition.html", values)


async def follow_definition(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Send the rollout of a StackDefinition again whenever it changes."""
    can_change = await find_right(handlers, await read_definition(handlers, request))

    async def make() -> Parts:
        return make_parts(handlers, await read_definition(handlers, request), can_change=can_change)

    return await handlers.updates.follow(request, PartChanges(make))


def make_parts(handlers: Handlers, definition: DefinitionState, *, can_change: bool) -> Parts:
    """Return the part of a StackDefinition that changes: its rollout and its buttons."""
    unfit = "pause" if definition.is_paused else "resume"
    judged = {action.name: action.judge(definition, actions.UNUSED) for action in ACTIONS if action.name != unfit}
    values = {
        "definition": shown_definition.describe(definition),
        "can_change": can_change,
        "actions": [action for action in ACTIONS if action.name in judged],
        "refusals": {name: actions.describe_refusal(result) for name, result in judged.items()},
    }
    return {"rollout": rendering.make_part(handlers.renderer.render("part_rollout.html", values))}


async def confirm_verb(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Say what a verb does to the rollout, and ask for confirmation."""
    handlers.check_writable()
    action, definition = find_action(dict(request.query)), await read_definition(handlers, request)
    decision = make_decision(handlers, definition, action)
    values = {"action": action, "decision": decision, "fields": (), "resource": "", "chosen": "", "is_previewed": False}
    return handlers.reply(request, "confirm.html", values | describe_target(definition))


async def act(handlers: Handlers, request: web.Request) -> web.StreamResponse:
    """Write the request that the user confirmed."""
    form = await handlers.read_action_form(request)
    action = find_action(form)
    request[VERB] = f"rollout-{action.name}"
    definition = await read_definition(handlers, request)
    decision = make_decision(handlers, definition, action)
    if decision.send is not None:
        await decision.send()
    status = HTTPStatus.OK if decision.send is not None else HTTPStatus.CONFLICT
    values = {"action": action, "decision": decision} | describe_target(definition)
    return handlers.reply(request, "done.html", values, status=status)


def make_decision(handlers: Handlers, definition: DefinitionState, action: RolloutAction) -> actions.Decision:
    """Return whether the verb applies now, and what it writes."""
    result = action.judge(definition, following.make_token())
    if not isinstance(result, Write):
        return actions.Decision(refusal=safe_text.clean(f"{definition.name}: {result.said}"))
    return actions.Decision(
        effect=shown_definition.describe_effect(definition, action.name),
        said=f"{definition.reference} {safe_text.one_line(result.said)}",
        notes=result.notes,
        send=lambda: following.send_to_definition(handlers.source.session, definition, result),
    )


async def read_definition(handlers: Handlers, request: web.Request) -> DefinitionState:
    """Return the StackDefinition that the address names. Raises HTTPNotFound and ApiStatusError."""
    name = request.match_info["name"]
    if not NAME.fullmatch(name):
        raise web.HTTPNotFound(text="there is no such StackDefinition")
    return DefinitionState(await handlers.source.session.get(STACK_DEFINITION, "", name))


async def find_right(handlers: Handlers, definition: DefinitionState) -> bool:
    """Return whether this page offers the user to control the rollout."""
    if handlers.renderer.is_read_only:
        return False
    return await handlers.source.session.has_rights("patch", kind=STACK_DEFINITION, namespace="", name=definition.name)


def find_action(form: dict[str, str]) -> RolloutAction:
    """Return the action that a request names. Raises HTTPBadRequest."""
    action = BY_NAME.get(form.get("action", ""))
    if action is None:
        raise web.HTTPBadRequest(text="there is no such action")
    return action


def describe_target(definition: DefinitionState) -> dict[str, Any]:
    """Return the values that name the StackDefinition of a page."""
    path = shown_definition.make_path(definition)
    return {"path": path, "title": safe_text.one_line(definition.name), "namespace": "", "name": definition.name}
