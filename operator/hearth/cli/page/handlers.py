"""HTTP handlers of the page. Each one reads the data of a request and renders a template."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from urllib import parse

import orjson
from aiohttp import web

from hearth.cli.page import access_rules, actions, rendering, shown_definition, shown_resource, shown_stack
from hearth.cli.page.access_rules import ACTION_TOKEN
from hearth.cli.page.actions import BY_NAME, Action, Context, Decision
from hearth.cli.page.rendering import PartRenderer, Parts, Renderer
from hearth.cli.page.stack_feed import StackFeed
from hearth.cli.page.stack_source import StackSource
from hearth.cli.stack_access import evidence, following, read_budgets, revisions, stack_locations
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.causes import stack_causes
from hearth.cli.stack_views.lists import revision_history
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.model import errors, limits
from hearth.model.tenancy import Tenancy

FRAGMENT: Final = "X-Hearth-Fragment"
"""The header of script requests for a dialog's content instead of a whole page."""
FORM: Final = "application/x-www-form-urlencoded"
FORM_FIELDS: Final = 20
"""Fields of a form: the largest one of the page has fewer than ten."""
VERB: Final = web.RequestKey("verb", str)
"""The key of a request for the action that it asks for."""
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Handlers:
    """The handlers of one user."""

    def __init__(
        self,
        source: StackSource,
        renderer: Renderer,
        *,
        previews: asyncio.Semaphore | None = None,
        silences_engine: bool = True,
    ) -> None:
        """Open nothing yet.

        previews: the previews that all users of a server may run at the same time; silences_engine: whether a preview hides
        the engine's log, because the process has not configured it.
        """
        self.source = source
        self._silences_engine = silences_engine
        self._own_previews = asyncio.Semaphore(1)
        """A preview runs the engine on a copy of the Stack: one at a time."""
        self.all_previews = previews or asyncio.Semaphore(1)
        """Previews of all users."""
        self.renderer = renderer
        self.parts = PartRenderer(source, renderer)
        self.updates = Updates()

    def close(self) -> None:
        """End all streams."""
        self.updates.close()

    async def show_list(self, request: web.Request) -> web.StreamResponse:
        """Show all Stacks."""
        namespace = self.find_namespace(request)
        try:
            feed = await self.parts.find_feed(namespace)
            with feed.use():
                await feed.wait_listed()
        except errors.ApiStatusError as refused:
            return self.ask_for_namespace(request, refused, namespace=namespace)
        parts, query = self.parts.render_list(feed.list_rows(), namespace), {"namespace": namespace, "at": feed.cursor}
        updates = f"updates?{parse.urlencode({key: value for key, value in query.items() if value})}"
        return self.reply(request, "list.html", {"parts": parts, "namespace": namespace, "updates": updates})

    def ask_for_namespace(
        self, request: web.Request, error: errors.ApiStatusError, *, namespace: str, list_path: str = ""
    ) -> web.StreamResponse:
        """Return a page that asks for the namespace of a list that cannot be read. Raises the error if none helps.

        namespace: the one that was read; list_path: of the list under the root.
        """
        is_too_large = error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and not namespace
        if not (error.is_forbidden or is_too_large) or self.source.namespace:
            raise error
        values = {"message": safe_text.one_line(error), "list_path": list_path}
        return self.reply(request, "namespace.html", values, status=error.code)

    async def follow_list(self, request: web.Request) -> web.StreamResponse:
        """Send the rows of the list that change."""
        feed = await self.parts.find_feed(self.find_namespace(request))
        with feed.use():
            return await self.updates.follow(request, RowChanges(feed, request.query.get("at", "")))

    def find_namespace(self, request: web.Request) -> str:
        """Return the namespace of the list: the only one of the page, otherwise that of the address; "" for all."""
        namespace = self.source.namespace or request.query.get("namespace", "").strip()
        if namespace and not NAME.fullmatch(namespace):
            raise web.HTTPNotFound(text="there is no such namespace")
        return namespace

    async def follow_stack(self, request: web.Request) -> web.StreamResponse:
        """Send the parts of one Stack again whenever they change."""
        location = await self._find_target(request)
        layers = shown_stack.parse_layers(request.query.get("layers", ""))
        make = functools.partial(self.parts.make_stack, location, layers)
        return await self.updates.follow(request, PartChanges(make))

    async def get_static(self, request: web.Request) -> web.StreamResponse:
        """Return a file of the page."""
        return await get_static(request)

    async def show_stack(self, request: web.Request) -> web.StreamResponse:
        """Show one Stack as a live graph."""
        location = await self._find_target(request)
        layers = shown_stack.parse_layers(request.query.get("layers", ""))
        updates = f"{rendering.make_path(location)}/updates?layers={shown_stack.write_layers(layers)}"
        values = {"parts": await self.parts.make_stack(location, layers), "updates": updates}
        return self.reply(request, "stack.html", values | describe_target(location))

    async def show_resource(self, request: web.Request) -> web.StreamResponse:
        """Show one resource: its causes, events, live object and manifest."""
        location = await self._find_target(request)
        resource, object_ = request.query.get("resource", ""), request.query.get("object", "")
        snapshot = await self._read(location)
        collected = await evidence.collect_all(await self.source.find_session(snapshot), snapshot)
        now = time.time()
        found = await asyncio.to_thread(
            shown_resource.describe, snapshot, resource, collected, object_=object_, now=now
        )
        if found is None:
            raise web.HTTPNotFound(text=f"{location.name} has no resource {resource!r}")
        values = describe_target(location) | {
            "resource": found,
            "actions": actions.list_for(snapshot.stack, with_resource=True, is_marked=found.is_marked),
            "is_comparable": not location.is_group and bool(found.live),
            "object": object_,
            "now": now,
            "moment": time.strftime("%H:%M:%S"),
        }
        if found.nested is not None:
            values |= await asyncio.to_thread(self.parts.draw_nested, found.nested, found.nested_path)
        return self.reply(request, "resource.html", values)

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Show why a Stack as a whole is not ready, and what happened."""
        location = await self._find_target(request)
        snapshot = await self._read(location)
        session, now = self.source.session, time.time()
        there = await self.source.find_session(snapshot)
        causes = stack_causes.find_causes(snapshot, (), await evidence.collect(there, snapshot)) or ()
        timeline = await evidence.collect_timeline(session, snapshot, object_session=there)
        values = {
            "causes": causes,
            "now": now,
            "events": shown_resource.describe_timeline(timeline, now=now),
        }
        return self.reply(request, "why.html", values | describe_target(snapshot.stack))

    async def confirm(self, request: web.Request) -> web.StreamResponse:
        """Show the write of an action, and ask for confirmation."""
        stack, action, form = await self._find_action(request, dict(request.query))
        fields = await action.find_fields(self.source.session, stack) if action.find_fields is not None else ()
        context = Context(session=self.source.session, stack=stack, form=form, token=following.make_token())
        decision = Decision() if fields else await action.decide(context)
        values = {"action": action, "fields": fields, "decision": decision, "resource": form.get("resource", "")}
        values |= {"chosen": form.get("where", ""), "is_previewed": not stack.is_group}
        return self.reply(request, "confirm.html", values | describe_target(stack))

    async def preview_rollback(self, request: web.Request) -> web.StreamResponse:
        """Show the changes of a rollback, from the engine itself; nothing is written."""
        # This imports the engine, which the other pages do not need.
        from hearth.cli.stack_access import stack_previews
        from hearth.cli.stack_views import preview_output

        location = await self._find_target(request)
        text = request.query.get("to", "0")
        if location.is_group or not actions.is_number(text):
            raise web.HTTPBadRequest(text="there is no such revision")
        if self._silences_engine:
            stack_previews.silence_engine()
        async with self._take_preview_turn():
            session = self.source.session
            stack = await stack_locations.read(session, location)
            found = await stack_previews.preview_rollback(session, stack, int(text), tenancy=Tenancy())
        lines = ["".join(part for part, _ in line) for line in preview_output.list_lines(found)]
        return self.reply(request, "preview.html", {"lines": lines, "path": rendering.make_path(location)})

    async def compare(self, request: web.Request) -> web.StreamResponse:
        """Show the fields that a Stack sets on an object: desired next to live."""
        # This imports the engine, which the other pages do not need.
        from hearth.cli.stack_access import stack_previews

        location = await self._find_target(request)
        resource, object_ = request.query.get("resource", ""), request.query.get("object", "")
        snapshot = await self._read(location)
        child = shown_resource.find_object(snapshot, resource, object_=object_)
        if location.is_group or child is None:
            raise web.HTTPNotFound(text=f"{location.name} has no object of {resource!r}")
        if self._silences_engine:
            stack_previews.silence_engine()
        async with self._take_preview_turn():
            preview = await stack_previews.preview_present(self.source.session, snapshot.stack, tenancy=Tenancy())
        fields = shown_resource.compare(snapshot, child, preview)
        query = parse.urlencode({"resource": resource, "object": object_})
        values = {"fields": fields, "rejection": safe_text.clean(preview.rejection), "subject": str(child)}
        values |= {"back_path": f"{rendering.make_path(location)}/resource?{query}"}
        return self.reply(request, "compare.html", values | describe_target(location))

    @contextlib.asynccontextmanager
    async def _take_preview_turn(self) -> AsyncIterator[None]:
        """Wait until this user and the server may run a preview. Raises HTTPServiceUnavailable."""
        async with contextlib.AsyncExitStack() as turns:
            try:
                async with asyncio.timeout(limits.PAGE_PREVIEW_WAIT):
                    await turns.enter_async_context(self._own_previews)
                    await turns.enter_async_context(self.all_previews)
            except TimeoutError:
                raise web.HTTPServiceUnavailable(text="too many previews run at the moment; try again later") from None
            yield

    async def show_history(self, request: web.Request) -> web.StreamResponse:
        """Show the newest revisions: their authors, their outcome, and their changes."""
        location = await self._find_target(request)
        session = self.source.session
        stack = await stack_locations.read(session, location)
        stored = await revisions.list_revisions(session, stack)
        numbers = sorted(stored.by_number, reverse=True)[: limits.PAGE_REVISIONS]
        definitions = {}
        previous = (revision_history.find_previous(number, stored.by_number) for number in numbers)
        for number in dict.fromkeys([*numbers, *(each for each in previous if each is not None)]):
            with contextlib.suppress(errors.ApiStatusError, errors.TamperedRevision):
                definitions[number] = await revisions.get_definition(session, stored.by_number[number])
        shown = shown_stack.describe_history(stack, stored.by_number, definitions, numbers=numbers, now=time.time())
        values = {"revisions": shown, "is_readable": stored.is_readable}
        return self.reply(request, "history.html", values | describe_target(stack))

    async def show_log(self, request: web.Request) -> web.StreamResponse:
        """Show the end of the log of a container, read with the user's own rights."""
        location = await self._find_target(request)
        query = find_container(request)
        try:
            text, problem = await self._read_log(query), ""
        except errors.ApiStatusError as error:
            text, problem = "", str(error)
        updates = f"{rendering.make_path(location)}/log/updates?{parse.urlencode(query)}"
        values = {"log": text, "problem": safe_text.one_line(problem), "updates_path": updates}
        return self.reply(request, "log.html", describe_target(location) | query | values)

    async def follow_log(self, request: web.Request) -> web.StreamResponse:
        """Send new lines of a container's log, starting at its end."""
        return await self.updates.follow(
            request, LogChanges(functools.partial(self._read_log, find_container(request)))
        )

    async def _read_log(self, query: Mapping[str, str]) -> str:
        """Return the end of a log, with the user's own rights."""
        text = await self.source.session.get_log(
            **query, limit=limits.PAGE_LOG_BYTES, lines=limits.PAGE_LOG_LINES, with_times=True
        )
        return safe_text.clean(text)

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Write the change that the user confirmed."""
        stack, action, form = await self._find_action(request, await self.read_action_form(request))
        request[VERB] = action.name
        context = Context(session=self.source.session, stack=stack, form=form, token=following.make_token())
        decision = await action.decide(context)
        if decision.send is not None:
            await decision.send()
        status = HTTPStatus.OK if decision.send is not None else HTTPStatus.CONFLICT
        values = {"action": action, "decision": decision} | describe_target(stack)
        return self.reply(request, "done.html", values, status=status)

    async def read_action_form(self, request: web.Request) -> dict[str, str]:
        """Return the form of an action. Raises HTTPForbidden if no page of this user sent it, or the page is read-only."""
        form = await read_form(request)
        if refusal := access_rules.find_action_refusal(form.get(ACTION_TOKEN, ""), self.renderer.action_token):
            raise web.HTTPForbidden(text=refusal)
        self.check_writable()
        return form

    def check_writable(self) -> None:
        """Raise HTTPForbidden if the page is read-only."""
        if self.renderer.is_read_only:
            raise web.HTTPForbidden(text="this page is read-only: use `kubectl stack` to change a Stack")

    async def _find_target(self, request: web.Request) -> StackLocation:
        """Return the object that an address names. Raises HTTPNotFound for an invalid address."""
        match = request.match_info
        namespace, name = match["namespace"], match["name"]
        kind = await self.source.find_kind(match["kind"])
        if kind is None or not (NAME.fullmatch(namespace) and NAME.fullmatch(name)):
            raise web.HTTPNotFound(text="there is no such Stack")
        return StackLocation(kind, namespace, name)

    async def _read(self, location: StackLocation) -> StackObjects:
        """Return a snapshot. Raises HTTPNotFound."""
        snapshot = await self.source.read(location)
        if snapshot is None:
            raise web.HTTPNotFound(text=f'{location.kind.plural}.{location.kind.group} "{location.name}" not found')
        return snapshot

    async def _find_action(
        self, request: web.Request, form: dict[str, str]
    ) -> tuple[StackState, Action, dict[str, str]]:
        """Return the object and action of a request."""
        self.check_writable()
        location = await self._find_target(request)
        action = BY_NAME.get(form.get("action", ""))
        if action is None or action.is_for_group != location.is_group:
            raise web.HTTPBadRequest(text="there is no such action")
        return await stack_locations.read(self.source.session, location), action, form

    def reply(
        self, request: web.Request, template: str, values: Mapping[str, Any], *, status: int = HTTPStatus.OK
    ) -> web.Response:
        """Return a page, or a part of one for the script."""
        layout = "fragment.html" if FRAGMENT in request.headers else "page.html"
        text = self.renderer.render(template, {**values, "layout": layout})
        return web.Response(text=text, content_type="text/html", status=status)


async def get_static(request: web.Request) -> web.StreamResponse:
    """Return a file of the page."""
    found = rendering.find_static(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound(text="there is no such file")
    content, content_type = found
    return web.Response(body=content, content_type=content_type, charset="utf-8")


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form; none for other contents. Raises HTTPBadRequest for one that no page of ours sends.

    It is always UTF-8: some encodings that a request can name take seconds to decode. Files would need a disk.
    """
    if request.content_type != FORM:
        return {}
    try:
        text = (await request.read()).decode()
        return dict(parse.parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_FIELDS))
    except (ConnectionError, ValueError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="the form cannot be read") from error


def describe_target(target: StackLocation | StackState) -> dict[str, Any]:
    """Return the values that name the object of a page."""
    return {
        "path": shown_stack.make_path(target.kind, target.namespace, target.name),
        "definition_path": shown_definition.find_path(target.kind),
        "title": safe_text.one_line(target.title),
        "namespace": target.namespace,
        "name": target.name,
    }


def find_container(request: web.Request) -> dict[str, str]:
    """Return namespace, pod and container in an address. Raises HTTPNotFound if they cannot be names."""
    query = {key: request.query.get(key, "") for key in ("namespace", "pod", "container")}
    if not all(NAME.fullmatch(each) for each in query.values()):
        raise web.HTTPNotFound(text="there is no such container")
    return query


# Server-sent events with the changes of a page. Each stream has one loop and no other task.

PAUSE: Final = 1.0
"""Minimum seconds between two reads of the page's objects."""
ROW_PAUSE: Final = 0.2
"""The same for the rows of a list, which a watch keeps up to date: reading them costs nothing."""
PAUSE_FACTOR: Final = 3
"""The pause lasts this many times as long as the read, because a large Stack costs the API server more."""
CLOSED_CHECK: Final = 0.1
"""Seconds between two checks whether the browser closed the connection. aiohttp could cancel the handler instead, but
it would cancel actions as well, between two writes."""
WRITE_TIMEOUT: Final = 30.0
"""Seconds after which a browser that reads nothing loses its stream. It opens a new one when it reads again."""
HEARTBEAT: Final = 15.0
"""Seconds without an event after which the browser is informed that the connection is alive."""


class Updates:
    """The open streams of one user."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all streams, and open no more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    async def follow(self, request: web.Request, changes: Changes[Any]) -> web.StreamResponse:
        """Send changes until the browser closes the stream, or `close` ends it."""
        if len(self._tasks) >= limits.PAGE_STREAMS:
            raise web.HTTPTooManyRequests(text="too many tabs follow this page; close some")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- the server calls it within a task
        self._tasks.add(task)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            if not self._is_closed:
                await send(request, response, changes)
        except (ConnectionError, TimeoutError):
            pass  # the browser left, or does not read
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
        finally:
            self._tasks.discard(task)
        return response


Content = TypeVar("Content")


class Changes(Generic[Content]):
    """Changes since the last message to the browser."""

    def __init__(self, get: Callable[[], Awaitable[Content]]) -> None:
        """get: the current content. Raises ApiStatusError and Unreachable."""
        self._get = get
        self._problem = ""

    @property
    def pause(self) -> float:
        """Return the minimum seconds until the next read."""
        return PAUSE

    async def read(self) -> bytes:
        """Return the events for all changes, possibly none. Raises ApiStatusError and Unreachable."""
        return self.on_read(await self._get())

    def on_read(self, content: Content) -> bytes:
        """Return the events after a successful read."""
        return self.on_problem("") + self.compare(content)

    def compare(self, content: Content) -> bytes:
        """Return the events for the differences from the last message."""
        raise NotImplementedError

    def on_problem(self, message: str) -> bytes:
        """Return the events after a read that failed; message: "" for one that succeeded."""
        if message == self._problem:
            return b""
        self._problem = message
        return write_event("problem", {"message": message})


class PartChanges(Changes[Parts]):
    """Changes of the parts of a page. A changed part is sent again as a whole."""

    _sent: Mapping[str, str] = {}
    """By part, the version that was sent last."""

    def compare(self, content: Parts) -> bytes:
        """Return the event with the parts that changed."""
        changed = {key: part for key, part in content.items() if self._sent.get(key) != part.version}
        self._sent = {key: part.version for key, part in content.items()}
        if not changed:
            return b""
        contents = {key: {"version": part.version, "html": part.html} for key, part in changed.items()}
        return write_event("parts", {"parts": contents, "all": list(content)})


class RowChanges(Changes[StackFeed]):
    """Changes of the rows of a list. Only the rows that changed are sent, not the whole list."""

    def __init__(self, feed: StackFeed, cursor: str) -> None:
        """cursor: of the list that the browser has; "" for none."""
        super().__init__(self._wait_listed)
        self._feed = feed
        self._version = feed.find_version(cursor)

    async def _wait_listed(self) -> StackFeed:
        await self._feed.wait_listed()
        return self._feed

    @property
    def pause(self) -> float:
        """Return the minimum seconds until the next read."""
        return PAUSE if self._problem else ROW_PAUSE

    def compare(self, feed: StackFeed) -> bytes:
        """Return the event with the rows that changed, or with the first of them if they are many."""
        change = feed.find_row_change(self._version)
        if change is None:
            return b""
        self._version = change.version
        return write_event("rows", {"rows": change.rows, "removed": list(change.removed), "all": change.all})


class LogChanges(Changes[str]):
    """New lines of a log. Polls the end of the log, so that each read is bounded."""

    _last: str | None = None
    """The last line that was sent; None before anything was."""

    def compare(self, content: str) -> bytes:
        """Return the event with the lines after the last one, or all if that line no longer exists."""
        lines = content.splitlines()
        known = max((at for at, line in enumerate(lines) if line == self._last), default=None)
        new = lines if known is None else lines[known + 1 :]
        if not new and self._last is not None:
            return b""
        self._last = new[-1] if new else ""
        return write_event("log", {"lines": new, "reset": known is None})


async def send(request: web.Request, response: web.StreamResponse, changes: Changes[Any]) -> None:
    """Send events until the browser closes the connection."""
    loop = asyncio.get_running_loop()
    written_at = loop.time()
    while request.transport is not None:
        began = loop.time()
        try:
            events = await changes.read()
        except (errors.ApiStatusError, errors.Unreachable) as error:
            events = changes.on_problem(safe_text.one_line(error) or "the API server does not answer")
        read_budgets.begin_again()
        if not events and loop.time() - written_at > HEARTBEAT:
            events = b": still here\n\n"
        if events:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await response.write(events)
            written_at = loop.time()
        await pause(request, max(changes.pause, PAUSE_FACTOR * (loop.time() - began)))


async def pause(request: web.Request, seconds: float) -> None:
    """Wait, at most until the browser closes the connection: a closed tab must not count as one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while request.transport is not None and loop.time() < end:  # noqa: ASYNC110 -- aiohttp has no event for it
        await asyncio.sleep(CLOSED_CHECK)


def write_event(name: str, content: object) -> bytes:
    """Return one event. JSON has no line breaks, so the content cannot end an event."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(content) + b"\n\n"
