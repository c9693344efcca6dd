"""Connection to a cluster of a tenant: no error repeats the credentials, even if its server does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig, InlineSource
from hearth.kube.client.connection import Connection
from hearth.kube.remote.cpu_budget import CpuBudget
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.text import redaction


class RemoteConnection(Connection):
    """The connection of one kubeconfig."""

    def __init__(self, config: InlineKubeconfig) -> None:
        super().__init__(InlineSource(config.credentials))
        self._hidden = config.hidden_texts
        self._budget = CpuBudget(share=limits.CLUSTER_CPU_SHARE, burst=limits.CLUSTER_CPU_BURST)

    async def request(self, method: str, path: str, **options: Any) -> Object:
        """Send a request and return the parsed response, as the base class does."""
        try:
            return await super().request(method, path, **options)
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise self._clean(error) from None

    def stream(self, path: str, **options: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Stream the body of a GET, as the base class does."""
        return self._clean_stream(super().stream(path, **options))

    @contextlib.asynccontextmanager
    async def _clean_stream(
        self, inner: AbstractAsyncContextManager[AsyncIterator[bytes]]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with inner as pieces:
                yield self._slow_down(pieces)
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise self._clean(error) from None

    async def _slow_down(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on the pieces no faster than the budget allows; the server then has to wait."""
        async for piece in pieces:
            begun = time.monotonic()
            # Control comes back when the caller has processed the piece.
            yield piece
            pause = self._budget.charge(begun, time.monotonic())
            if pause > 0:
                await asyncio.sleep(pause)

    def _clean(self, error: errors.ApiStatusError | errors.Unreachable) -> errors.ApiStatusError | errors.Unreachable:
        """Return the same error without the credentials."""
        if isinstance(error, errors.ApiStatusError):
            status = redaction.redact_within(error.status, self._hidden) if error.status is not None else None
            return errors.ApiStatusError(code=error.code, status=status, retry_after=error.retry_after)
        return type(error)(redaction.redact(str(error), self._hidden)[: limits.CLUSTER_ERROR_LENGTH])
