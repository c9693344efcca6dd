"""Requests about one kind of object, told to the observer.

Must not know what the requests are for.
"""

from __future__ import annotations

import time
from typing import Protocol

from hearth.kube.client import api_requests
from hearth.kube.client import connection as connection_module
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind

SUCCESS = 200
"""What the observer hears of any 2xx."""
NO_ANSWER = 0
METHODS = {
    "get": ("GET", connection_module.JSON),
    "list": ("GET", connection_module.JSON),
    "create": ("POST", connection_module.JSON),
    "apply": ("PATCH", api_requests.APPLY),
    "patch": ("PATCH", api_requests.MERGE_PATCH),
    "delete": ("DELETE", connection_module.JSON),
}
"""By verb the HTTP method, and the content type of a body."""


class RequestObserver(Protocol):
    """The part of the observer that hears of requests."""

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        """The API server answered a request after so long; code 0: no answer came."""


class ApiClient:
    """Sends through one connection."""

    def __init__(self, connection: Connection, observer: RequestObserver | None) -> None:
        self._connection = connection
        self._observer = observer

    async def send(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Object | None = None,
    ) -> Object:
        """The answer. verb: `get`, `list`, `create`, `apply`, `patch` (a merge patch) or `delete`."""
        method, content_type = METHODS[verb]
        code = NO_ANSWER
        # Not the loop's time, which uvloop counts in milliseconds and reads once a turn.
        begun = time.monotonic()
        try:
            answer = await self._connection.request(method, path, query=query, body=body, content_type=content_type)
            code = SUCCESS
        except errors.ApiStatusError as refused:
            code = refused.code
            raise
        finally:
            if self._observer is not None:
                self._observer.on_request(verb=verb, kind=kind.key, code=code, seconds=time.monotonic() - begun)
        return answer
