"""Answers of the API server as values, for callers that continue without one.

A caller whose work ends with the failure of its request lets the exception pass instead.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeAlias, TypeVar

from hearth.model.errors import ApiStatusError, Unreachable

Answer = TypeVar("Answer")
Default = TypeVar("Default")

RequestError: TypeAlias = ApiStatusError | Unreachable
REQUEST_ERRORS: Final = (ApiStatusError, Unreachable)
"""The types of `RequestError`, for `isinstance`."""


async def try_request(request: Awaitable[Answer]) -> Answer | RequestError:
    """Return the answer to a request, or the error that it failed with."""
    try:
        return await request
    except (ApiStatusError, Unreachable) as error:
        return error


async def find_answer(request: Awaitable[Answer], otherwise: Default) -> Answer | Default:
    """Return the answer to a request, or `otherwise` if it failed."""
    answer = await try_request(request)
    return otherwise if isinstance(answer, REQUEST_ERRORS) else answer


async def find_error(request: Awaitable[object]) -> RequestError | None:
    """Return the error that a request failed with, or None if it succeeded."""
    answer = await try_request(request)
    return answer if isinstance(answer, REQUEST_ERRORS) else None
