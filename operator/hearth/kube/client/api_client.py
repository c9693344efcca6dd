"""Requests for one kind of object, reported to the observer.

Must not know the purpose of the requests.
"""

from __future__ import annotations

import time
from typing import Protocol

from hearth.kube.client import api_requests
from hearth.kube.client import connection as connection_module
from hearth.kube.client.connection import Connection
from hearth.kube.client.http_transport import ReadAnswer
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind

SUCCESS = 200
"""The code that the observer receives for any 2xx."""
NO_ANSWER = 0
METHODS = {
    "get": ("GET", connection_module.JSON),
    "list": ("GET", connection_module.JSON),
    "create": ("POST", connection_module.JSON),
    "apply": ("PATCH", api_requests.APPLY),
    "patch": ("PATCH", api_requests.MERGE_PATCH),
    "delete": ("DELETE", connection_module.JSON),
}
"""The HTTP method and the content type of a body, by verb."""


class RequestObserver(Protocol):
    """The part of the observer that receives requests."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """Count a response of the API server and its duration; code 0: no response arrived."""


class ApiClient:
    """Client that sends requests through one connection."""

    def __init__(self, connection: Connection, observer: RequestObserver | None, *, user: str = "") -> None:
        """user: the user who makes the requests; "" for the operator."""
        self._connection = connection
        self._observer = observer
        self._user = user or None

    def acting_as(self, user: str) -> ApiClient:
        """Return a client of the same connection whose requests are made as that user; "" for the operator."""
        return ApiClient(self._connection, self._observer, user=user)

    async def send(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Object | None = None,
        read: ReadAnswer | None = None,
    ) -> Object:
        """Send a request and return its response.

        verb: `get`, `list`, `create`, `apply`, `patch` (a merge patch) or `delete`; read: reads a response that need not be
        parsed as a whole.
        """
        method, content_type = METHODS[verb]
        code = NO_ANSWER
        # uvloop counts the loop's time in milliseconds and updates it only once per iteration.
        begun = time.monotonic()
        try:
            answer = await self._connection.request(
                method, path, query=query, body=body, content_type=content_type, impersonate=self._user, read=read
            )
            code = SUCCESS
        except errors.ApiStatusError as refused:
            code = refused.code
            raise
        finally:
            if self._observer is not None:
                self._observer.on_request(verb=verb, kind=kind.key, code=code, seconds=time.monotonic() - begun)
        return answer

    async def send_existing(
        self, verb: str, kind: Kind, path: str, *, query: dict[str, str] | None = None, body: Object | None = None
    ) -> Object | None:
        """Send a request and return its response; None if the server has no such object, or does not serve its kind."""
        try:
            return await self.send(verb, kind, path, query=query, body=body)
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return None
