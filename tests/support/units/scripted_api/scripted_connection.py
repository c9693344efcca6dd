"""A connection with scripted responses, for tests of the requests, their number, and the handling of responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from hearth.model import errors
from hearth.model.child import Object
from support.server import api_errors

Answer: TypeAlias = Object | Exception | Callable[["Sent"], Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request as it was made."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Object | None
    content_type: str
    at: float
    """The loop's time of the request."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class ScriptedConnection:
    """Answers by `METHOD /path`; a list is used up from its front, its last entry stays. 404 for all else."""

    script: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """The requests, in order."""
        return [str(sent) for sent in self.sent]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        **rest: object,
    ) -> Object:
        """The scripted response, one turn of the event loop later, as from a server."""
        now = asyncio.get_running_loop().time()
        sent = Sent(method=method, path=path, query=query or {}, body=body, content_type=content_type, at=now)
        self.sent.append(sent)
        await asyncio.sleep(0)
        answer = self.script.get(str(sent), errors.ApiStatusError(code=404, status=None))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(sent) if callable(answer) else answer

    def stream(self, path: str, **rest: object) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Never available: watchers keep trying and report nothing."""
        raise errors.Unreachable(f"nothing streams from {path}")


def conflict() -> errors.ApiStatusError:
    """Another client was quicker."""
    return api_errors.refuse(409, "Conflict", "the object has been modified")


def exists() -> errors.ApiStatusError:
    """There is one of that name."""
    return api_errors.refuse(409, "AlreadyExists", "already exists")


def missing() -> errors.ApiStatusError:
    """The error for a missing object."""
    return api_errors.refuse(404, "NotFound", "not found")
