"""The account of a server that is not trusted, as the client charges it. Must not know who pays.

The home cluster has none: nothing limits what it takes but the sizes in `hearth.model.limits`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Traffic(Protocol):
    """The account of one tenant with all its servers."""

    @property
    def slots(self) -> asyncio.Semaphore:
        """Return the turns of requests in flight."""

    @property
    def body_bytes(self) -> int:
        """Return the largest body, inflated."""

    def on_connect(self) -> None:
        """Charge a new connection."""

    def on_answer(self, size: int) -> None:
        """Charge an answer. size: bytes of the inflated body."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, none of them denied. Raises OSError."""
