"""`Session`, one user's connection to one API server: get, list, watch, patch and create.

The HTTP client is imported when the first session opens, because the import is slow and `--help` does not need it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from hearth.cli.stack_access import read_budgets
from hearth.cli.stack_access.read_budgets import ForeignBudget, ListTooLarge
from hearth.kube.client import JSON, api_requests
from hearth.model import errors, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import OWN_ACCESS_REVIEW, POD, STACK

if TYPE_CHECKING:
    from hearth.kube.client.connection import Connection

Consent: TypeAlias = Callable[[str], bool]
"""Whether to connect to the server with this URL."""
MANAGER: Final = "kubectl-stack"
"""The field manager of everything that this program writes."""
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
BOOKMARK: Final = "BOOKMARK"
"""The type of an event without a change, whose object has only a resourceVersion. Watches get it only if they ask for it."""
EVENTS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", BOOKMARK})
RECONNECT: Final = 1.0
"""Seconds before a broken watch is restarted."""
PAGE_SIZE: Final = 500
SMALLER: Final = 8
"""Factor by which the pages of a list become smaller after one that exceeded the limit of a response."""
PAGES_AT_MOST: Final = 200
"""Pages of one list. A server could otherwise announce further pages forever."""
FOREIGN_SECONDS: Final = 10.0
"""Time that one foreign server may take for all pages of a list."""


class NotInstalled(errors.ApiStatusError):
    """Error for a cluster that does not serve a kind of the operator."""

    def __init__(self, kind: Kind) -> None:
        """Explain how to install the kind. kind: one of Hearth's own."""
        from hearth.kube.objects import installed_crds

        message = (
            f"this cluster does not serve {kind.plural}.{kind.group}: Hearth is not installed there. Install its "
            f"definitions ({installed_crds.COMMAND}) and an operator, or select another cluster with --context"
        )
        super().__init__(code=404, status={"message": message})


@contextlib.contextmanager
def naming_the_installation(kind: Kind) -> Iterator[None]:
    """Raise NotInstalled for a 404 response to one of Hearth's kinds.

    If only the object is missing, the response has its name.
    """
    try:
        yield
    except errors.ApiStatusError as refused:
        details = (refused.status or {}).get("details")
        is_object = isinstance(details, dict) and bool(details.get("name"))
        if not refused.is_not_found or kind.group != names.GROUP or is_object:
            raise
        raise NotInstalled(kind) from refused


@value_class.dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list."""

    items: Sequence[Object]
    version: str
    """The resourceVersion to watch from; "" if the server reports none."""
    continued: str
    """The token of the next page; "" for none."""
    size: int
    """Bytes of JSON."""


class Session:
    """One connection, and the kinds that its server serves."""

    def __init__(
        self, connection: Connection, *, budget: ForeignBudget | None = None, may_connect: Consent | None = None
    ) -> None:
        """Open nothing yet.

        budget: of lists from a server that a tenant chose; None for the user's own server, which has none. may_connect: asked
        with the address of another cluster before anything is sent to it; None: never connect.
        """
        from hearth.kube.discovery.discovery import Discovery

        self.connection = connection
        self.may_connect = may_connect or refuse_connection
        self._budget = budget
        self.kinds = Discovery(connection, on_change=lambda: None)
        self.schemas = self.kinds.schemas
        self.denied: dict[tuple[Kind, str], errors.ApiStatusError] = {}
        """By kind and namespace ("" for all), the answers that the user is not allowed to list these objects."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return the object. Raises ApiStatusError; NotInstalled if the server does not serve one of Hearth's kinds."""
        with naming_the_installation(kind):
            return await self.connection.request("GET", api_requests.object_path(kind, namespace, name))

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return the object, or None if it does not exist."""
        try:
            return await self.get(kind, namespace, name)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found or (isinstance(refused, NotInstalled) and kind == STACK):
                raise
            return None

    async def list_allowed(
        self, kind: Kind, namespace: str, *, selector: str = "", only_metadata: bool = False
    ) -> list[Object]:
        """Return the objects like `list`, or none if the user is not allowed to list them or the kind is not served."""
        try:
            return await self.list(kind, namespace, selector=selector, only_metadata=only_metadata)
        except errors.ApiStatusError as refused:
            is_missing = refused.is_not_found and not (isinstance(refused, NotInstalled) and kind == STACK)
            if not refused.is_forbidden and not is_missing:
                raise
            if refused.is_forbidden:
                self.denied[kind, namespace] = refused
            return []

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        fields: str = "",
        only_metadata: bool = False,
    ) -> list[Object]:
        """Return all objects; namespace: "" for all. Raises as `get`."""
        pages = self.list_pages(kind, namespace, selector=selector, fields=fields, only_metadata=only_metadata)
        return [item async for page in pages for item in page.items]

    async def list_pages(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        fields: str = "",
        only_metadata: bool = False,
    ) -> AsyncGenerator[ListPage]:
        """Yield the objects page by page; namespace: "" for all. Raises as `get`."""
        query = {"limit": str(PAGE_SIZE)}
        query |= {"labelSelector": selector} if selector else {}
        query |= {"fieldSelector": fields} if fields else {}
        accept = f"{METADATA_LIST},{JSON}" if only_metadata else JSON
        try:
            async with asyncio.timeout(None if self._budget is None else FOREIGN_SECONDS):
                for _ in range(PAGES_AT_MOST):
                    # The page must not stay in memory here while the caller waits with the next one.
                    page = [await self._get_page(kind, namespace, query, accept)]
                    continued = page[0].continued
                    yield page.pop()
                    if not continued:
                        return
                    query["continue"] = continued
                raise ListTooLarge(kind, f"{PAGES_AT_MOST} pages")
        except TimeoutError:
            raise errors.Unreachable(f"no complete list of {kind.plural} within {FOREIGN_SECONDS:g} s") from None

    async def _get_page(self, kind: Kind, namespace: str, query: dict[str, str], accept: str) -> ListPage:
        """Return one page. Reduces `limit` in the query if the objects are too large for one response."""
        path = api_requests.collection_path(kind, namespace)
        while True:
            try:
                with naming_the_installation(kind):
                    answer = await self.connection.request("GET", path, query=query, accept=accept)
                return self._parse_page(kind, answer)
            except errors.AnswerTooLarge:
                if query["limit"] == "1":
                    raise
                query["limit"] = str(max(1, int(query["limit"]) // SMALLER))

    def _parse_page(self, kind: Kind, answer: Object) -> ListPage:
        """Return the page in an answer. Raises ListTooLarge and MemoryInUse."""
        size = read_budgets.measure(answer)
        if self._budget is not None:
            self._budget.spend(kind, size)
        if (meter := read_budgets.CURRENT.get()) is not None:
            meter.spend(kind, size)
        # The items of a list have neither apiVersion nor kind.
        whole = {"apiVersion": kind.api_version, "kind": kind.name}
        return ListPage(
            items=[{**whole, **item} for item in answer.get("items") or ()],
            version=object_fields.text(answer, "metadata", "resourceVersion"),
            continued=object_fields.text(answer, "metadata", "continue"),
            size=size,
        )

    async def check_listing(self, kind: Kind, namespace: str) -> None:
        """Raise ApiStatusError if the user must not list these objects any more. Raises Unreachable."""
        path = api_requests.collection_path(kind, namespace)
        await self.connection.request("GET", path, query={"limit": "1"}, accept=f"{METADATA_LIST},{JSON}")

    async def get_log(
        self, namespace: str, pod: str, container: str, *, limit: int, lines: int = 1, with_times: bool = False
    ) -> str:
        """Return the last lines of the log of a container, `limit` bytes at most. Raises ApiStatusError."""
        path = f"{api_requests.object_path(POD, namespace, pod)}/log"
        query = {"container": container, "tailLines": str(lines), "limitBytes": str(limit)}
        query |= {"timestamps": "true"} if with_times else {}
        answer = await self.connection.request("GET", path, query=query, read=api_requests.read_text)
        return str(answer[api_requests.TEXT])

    async def patch(self, kind: Kind, namespace: str, name: str, *, body: Object, subresource: str = "") -> Object:
        """Send a merge patch; return the object, or the subresource. Raises ApiStatusError."""
        path = api_requests.object_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        return await self.connection.request(
            "PATCH", path, query=query, body=body, content_type=api_requests.MERGE_PATCH
        )

    async def create(self, kind: Kind, namespace: str, *, body: Object) -> Object:
        """Create an object; return it. Raises ApiStatusError."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        return await self.connection.request(
            "POST", api_requests.collection_path(kind, namespace), query=query, body=body
        )

    async def has_rights(self, *verbs: str, kind: Kind, namespace: str, name: str) -> bool:
        """Return whether the user has all these verbs on an object. Raises ApiStatusError and Unreachable."""
        for verb in verbs:
            body = api_requests.access_review(verb, kind=kind, namespace=namespace, name=name)
            answer = await self.create(OWN_ACCESS_REVIEW, "", body=body)
            if object_fields.find(answer, "status", "allowed") is not True:
                return False
        return True

    async def watch_one(self, kind: Kind, namespace: str, name: str) -> AsyncIterator[Object | None]:
        """Yield each observed state of the object, first the current one; None while it does not exist. Never ends.

        Raises ApiStatusError and Unreachable only for the first state. Later failures are retried.
        """
        found = await self.find(kind, namespace, name)
        yield found
        while True:
            version = str(found["metadata"]["resourceVersion"]) if found is not None else ""
            async for type_, changed in self.watch(
                kind, namespace, query={"fieldSelector": f"metadata.name={name}"}, version=version
            ):
                found = None if type_ == "DELETED" else changed
                yield found
            await asyncio.sleep(RECONNECT)
            with contextlib.suppress(errors.Unreachable):
                found = await self.find(kind, namespace, name)
                yield found

    async def watch(
        self, kind: Kind, namespace: str, *, query: Mapping[str, str], version: str
    ) -> AsyncGenerator[tuple[str, Object]]:
        """Yield the type and object of each event until the stream ends for any reason. The caller then lists again.

        Users without the right to watch get no events. version: where to begin; "" starts with the current state, as
        ADDED events.
        """
        from hearth.kube.watch.watch_events import LineSplitter

        path = api_requests.collection_path(kind, namespace)
        asked = {**query, "watch": "true", **({"resourceVersion": version} if version else {})}
        lines = LineSplitter()
        with contextlib.suppress(errors.Unreachable, errors.ApiStatusError):
            async with self.connection.stream(path, query=asked) as pieces:
                async for piece in pieces:
                    for line in lines.feed(piece):
                        event = parse_event(line)
                        if event is None:
                            return
                        yield event


def refuse_connection(server: str) -> bool:  # noqa: ARG001 -- of every server
    """Never connect to another cluster."""
    return False


def parse_event(line: bytes) -> tuple[str, Object] | None:
    """Return type and object of an event; None for an error or an invalid event."""
    try:
        event = orjson.loads(line)
        type_, found = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return (type_, found) if type_ in EVENTS and isinstance(found, dict) else None
