"""The addresses of the page: what each request reads, and which template shows it. Must not know who may ask."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from hearth.cli.page import actions, shown_resource, shown_stack, static_files
from hearth.cli.page.access_rules import ACTION_TOKEN, AccessRules
from hearth.cli.page.actions import BY_NAME, Action, Context, Decision
from hearth.cli.page.parts import PartRenderer
from hearth.cli.page.rendering import Renderer
from hearth.cli.page.stack_source import StackSource
from hearth.cli.page.updates import Updates
from hearth.cli.stack_access import evidence
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import stack_causes
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.kube.well_known_kinds import RESOURCE_GROUP, STACK
from hearth.model.kinds import Kind

KINDS: Final = {kind.plural: kind for kind in (STACK, RESOURCE_GROUP)}
FRAGMENT: Final = "X-Hearth-Fragment"
"""The header by which the script asks for a dialog's content instead of a whole page."""
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
STACK_ROUTE: Final = r"{kind:stacks|resourcegroups}/{namespace}/{name}"


class Handlers:
    """The handlers of one server."""

    def __init__(self, source: StackSource, rules: AccessRules, renderer: Renderer) -> None:
        self._source = source
        self._rules = rules
        self._renderer = renderer
        self._parts = PartRenderer(source, renderer)
        self._updates = Updates()

    def list_routes(self) -> list[web.AbstractRouteDef]:
        """Return the routes under the root."""
        root = self._rules.root
        return [
            web.get(root, self.show_list),
            web.get(f"{root}updates", self.follow_list),
            web.get(f"{root}static/{{name}}", self.get_static),
            web.get(f"{root}{STACK_ROUTE}", self.show_stack),
            web.get(f"{root}{STACK_ROUTE}/updates", self.follow_stack),
            web.get(f"{root}{STACK_ROUTE}/resource", self.show_resource),
            web.get(f"{root}{STACK_ROUTE}/why", self.explain),
            web.get(f"{root}{STACK_ROUTE}/confirm", self.confirm),
            web.post(f"{root}{STACK_ROUTE}/act", self.act),
        ]

    async def show_list(self, request: web.Request) -> web.StreamResponse:
        """Show all Stacks."""
        return self._reply(
            request,
            "list.html",
            {"parts": await self._parts.make_list(), "namespace": self._source.namespace, "updates": "updates"},
        )

    async def follow_list(self, request: web.Request) -> web.StreamResponse:
        """Send the list again whenever it changes."""
        return await self._updates.follow(request, self._parts.make_list)

    async def follow_stack(self, request: web.Request) -> web.StreamResponse:
        """Send the parts of one Stack again whenever they change."""
        kind, namespace, name = find_target(request)
        layers = shown_stack.parse_layers(request.query.get("layers", ""))
        return await self._updates.follow(request, lambda: self._parts.make_stack(kind, namespace, name, layers))

    async def get_static(self, request: web.Request) -> web.StreamResponse:
        """Return a file of the page."""
        found = static_files.find(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound(text="there is no such file")
        return web.Response(body=found.content, content_type=found.content_type, charset="utf-8")

    async def show_stack(self, request: web.Request) -> web.StreamResponse:
        """Show one Stack as a live graph."""
        kind, namespace, name = find_target(request)
        layers = shown_stack.parse_layers(request.query.get("layers", ""))
        found = await self._parts.make_stack(kind, namespace, name, layers)
        values = {
            "parts": found,
            "kind": kind.plural,
            "namespace": namespace,
            "name": name,
            "is_group": kind is RESOURCE_GROUP,
            "updates": f"{kind.plural}/{namespace}/{name}/updates?layers={shown_stack.write_layers(layers)}",
        }
        return self._reply(request, "stack.html", values)

    async def show_resource(self, request: web.Request) -> web.StreamResponse:
        """Show one resource: why, events, live object and manifest."""
        kind, namespace, name = find_target(request)
        resource, object_ = request.query.get("resource", ""), request.query.get("object", "")
        snapshot = await self._read(kind, namespace, name)
        collected = await evidence.collect_all(self._source.session, snapshot)
        found = await asyncio.to_thread(
            shown_resource.describe, snapshot, resource, collected, object_=object_, now=time.time()
        )
        if found is None:
            raise web.HTTPNotFound(text=f"{name} has no resource {resource!r}")
        offered = actions.list_for(snapshot.stack, with_resource=True)
        values = {"resource": found, "actions": offered, "path": f"{kind.plural}/{namespace}/{name}", "name": name}
        return self._reply(request, "resource.html", values | {"moment": time.strftime("%H:%M:%S")})

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Show why a Stack as a whole is not ready, and what happened."""
        kind, namespace, name = find_target(request)
        snapshot = await self._read(kind, namespace, name)
        session, now = self._source.session, time.time()
        causes = stack_causes.find_causes(snapshot, (), await evidence.collect(session, snapshot)) or ()
        timeline = await evidence.collect_timeline(session, snapshot)
        values = {
            "causes": [shown_resource.describe_cause(each, now=now) for each in causes],
            "events": shown_resource.describe_timeline(timeline, now=now),
        }
        return self._reply(request, "why.html", values | self._describe_target(request, snapshot.stack))

    async def confirm(self, request: web.Request) -> web.StreamResponse:
        """Show what an action would write, and ask."""
        stack, action, form = await self._find_action(request, dict(request.query))
        fields = await action.find_fields(self._source.session, stack)
        context = Context(session=self._source.session, stack=stack, form=form, token=actions.make_token())
        decision = Decision() if fields else await action.decide(context)
        values = {"action": action, "fields": fields, "decision": decision, "resource": form.get("resource", "")}
        values["chosen"] = form.get("where", "")
        return self._reply(request, "confirm.html", values | self._describe_target(request, stack))

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Write what the user confirmed."""
        form = {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
        refused = self._rules.find_action_refusal(form.get(ACTION_TOKEN, ""))
        if refused is not None:
            raise web.HTTPForbidden(text=refused.message)
        stack, action, form = await self._find_action(request, form)
        context = Context(session=self._source.session, stack=stack, form=form, token=actions.make_token())
        decision = await action.decide(context)
        if decision.send is not None:
            await decision.send()
        status = HTTPStatus.OK if decision.send is not None else HTTPStatus.CONFLICT
        values = {"action": action, "decision": decision} | self._describe_target(request, stack)
        return self._reply(request, "done.html", values, status=status)

    async def _read(self, kind: Kind, namespace: str, name: str) -> StackObjects:
        """Return a snapshot. Raises HTTPNotFound."""
        snapshot = await self._source.read(kind, namespace, name)
        if snapshot is None:
            raise web.HTTPNotFound(text=f'{kind.plural}.{kind.group} "{name}" not found')
        return snapshot

    async def _find_action(
        self, request: web.Request, form: dict[str, str]
    ) -> tuple[StackState, Action, dict[str, str]]:
        """Return the object and action of a request."""
        kind, namespace, name = find_target(request)
        action = BY_NAME.get(form.get("action", ""))
        if action is None or action.is_for_group != (kind is RESOURCE_GROUP):
            raise web.HTTPBadRequest(text="there is no such action")
        return StackState(await self._source.session.get(kind, namespace, name)), action, form

    def _describe_target(self, request: web.Request, stack: StackState) -> dict[str, Any]:
        """Return the values that name the object of an action."""
        kind, namespace, name = find_target(request)
        title = safe_text.one_line(f"{'rg' if stack.is_group else 'stack'}/{name}")
        return {"path": f"{kind.plural}/{namespace}/{name}", "title": title, "namespace": namespace, "name": name}

    def _reply(
        self, request: web.Request, template: str, values: Mapping[str, Any], *, status: int = HTTPStatus.OK
    ) -> web.Response:
        """Return a page, or a part of one for the script."""
        layout = "fragment.html" if FRAGMENT in request.headers else "page.html"
        text = self._renderer.render(template, {**values, "layout": layout})
        return web.Response(text=text, content_type="text/html", status=status)


def find_target(request: web.Request) -> tuple[Kind, str, str]:
    """Return kind, namespace and name in an address. Raises HTTPNotFound if they cannot be names."""
    match = request.match_info
    namespace, name = match["namespace"], match["name"]
    if not (NAME.fullmatch(namespace) and NAME.fullmatch(name)):
        raise web.HTTPNotFound(text="there is no such Stack")
    return KINDS[match["kind"]], namespace, name
