"""The addresses of all pages, with their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from aiohttp import web

from hearth.cli.page import definition_pages, plan_pages
from hearth.cli.page.handlers import Handlers

Handle: TypeAlias = Callable[[Handlers, web.Request], Awaitable[web.StreamResponse]]
STACK_ROUTE: Final = r"{kind:[a-z0-9.-]+}/{namespace}/{name}"
PLAN_ROUTE: Final = "{kind:stackplans}/{namespace}/{name}"
DEFINITION_ROUTE: Final = "{kind:stackdefinitions}/{name}"

ROUTES: Final = (
    ("GET", "", Handlers.show_list),
    ("GET", "updates", Handlers.follow_list),
    ("GET", "static/{name}", Handlers.get_static),
    ("GET", "plans", plan_pages.show_plans),
    ("GET", PLAN_ROUTE, plan_pages.show_plan),
    ("GET", f"{PLAN_ROUTE}/updates", plan_pages.follow_plan),
    ("GET", f"{PLAN_ROUTE}/confirm", plan_pages.confirm_decision),
    ("POST", f"{PLAN_ROUTE}/act", plan_pages.decide),
    ("GET", "definitions", definition_pages.show_definitions),
    ("GET", DEFINITION_ROUTE, definition_pages.show_definition),
    ("GET", f"{DEFINITION_ROUTE}/updates", definition_pages.follow_definition),
    ("GET", f"{DEFINITION_ROUTE}/confirm", definition_pages.confirm_verb),
    ("POST", f"{DEFINITION_ROUTE}/act", definition_pages.act),
    ("GET", STACK_ROUTE, Handlers.show_stack),
    ("GET", f"{STACK_ROUTE}/updates", Handlers.follow_stack),
    ("GET", f"{STACK_ROUTE}/resource", Handlers.show_resource),
    ("GET", f"{STACK_ROUTE}/why", Handlers.explain),
    ("GET", f"{STACK_ROUTE}/confirm", Handlers.confirm),
    ("GET", f"{STACK_ROUTE}/preview", Handlers.preview_rollback),
    ("GET", f"{STACK_ROUTE}/compare", Handlers.compare),
    ("GET", f"{STACK_ROUTE}/log", Handlers.show_log),
    ("GET", f"{STACK_ROUTE}/log/updates", Handlers.follow_log),
    ("GET", f"{STACK_ROUTE}/history", Handlers.show_history),
    ("POST", f"{STACK_ROUTE}/act", Handlers.act),
)
"""Method, path under the root and handler of each page. The first one that fits answers."""


def list_routes(root: str, find_handlers: Callable[[web.Request], Handlers]) -> list[web.AbstractRouteDef]:
    """Return the routes under the root. find_handlers: returns the handlers of a request's user."""

    def make_route(method: str, path: str, handle: Handle) -> web.AbstractRouteDef:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await handle(find_handlers(request), request)

        return web.route(method, f"{root}{path}", answer)

    return [make_route(*each) for each in ROUTES]
