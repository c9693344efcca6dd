"""Connection to a cluster of a tenant: no error repeats the credentials, even if its server does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig, InlineSource
from hearth.kube.client.connection import Connection
from hearth.kube.remote.tenant_share import TenantShare, TooMuchHeld
from hearth.model import errors, limits
from hearth.model.child import Object
from hearth.model.text import redaction


class RemoteConnection(Connection):
    """The connection of one kubeconfig."""

    def __init__(self, config: InlineKubeconfig, share: TenantShare) -> None:
        super().__init__(InlineSource(config.credentials), share)
        self._hidden = config.hidden_texts
        self._share = share

    async def request(self, method: str, path: str, **options: Any) -> Object:
        """Send a request and return the parsed response, as the base class does, when the namespace has time left."""
        await self._share.wait_turn()
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
        share = self._share
        if share.streams >= limits.TENANT_STREAMS:
            raise errors.Unreachable(f"namespace {share.namespace} has {share.streams} watches, which is the limit")
        share.streams += 1
        try:
            await share.wait_turn()
            async with inner as pieces:
                yield self._slow_down(pieces)
        except (errors.ApiStatusError, errors.Unreachable) as error:
            raise self._clean(error) from None
        finally:
            share.streams -= 1

    async def _slow_down(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on the pieces no faster than the share allows; the server then has to wait. Bounds what does not end."""
        line = UnfinishedLine(self._share)
        try:
            async for piece in pieces:
                begun = time.monotonic()
                line.add(piece)
                # Control comes back when the caller has processed the piece.
                yield piece
                self._share.charge(time.monotonic() - begun)
                await self._share.wait_turn()
        except TooMuchHeld as error:
            raise errors.Unreachable(str(error)) from error
        finally:
            line.release()

    def _clean(self, error: errors.ApiStatusError | errors.Unreachable) -> errors.ApiStatusError | errors.Unreachable:
        """Return the same error without the credentials."""
        if isinstance(error, errors.ApiStatusError):
            status = redaction.redact_within(error.status, self._hidden) if error.status is not None else None
            return errors.ApiStatusError(code=error.code, status=status, retry_after=error.retry_after)
        return type(error)(redaction.redact(str(error), self._hidden)[: limits.CLUSTER_ERROR_LENGTH])


class UnfinishedLine:
    """The line of a stream that has not ended yet."""

    def __init__(self, share: TenantShare) -> None:
        self._share = share
        self._held = 0
        self._since = 0.0
        """Monotonic seconds at which its beginning arrived."""

    def add(self, piece: bytes) -> None:
        """Add a piece of the stream. Raises TooMuchHeld if the line takes too long, or the share too much memory."""
        rest = len(piece) - 1 - piece.rfind(b"\n")
        now = time.monotonic()
        if rest < len(piece) or not self._held:
            self._hold(rest)
            self._since = now
        else:
            # No more is kept of a line that is too long.
            self._hold(min(self._held + rest, limits.CLUSTER_LINE_BYTES))
        if self._held and now - self._since > limits.CLUSTER_LINE_SECONDS:
            raise TooMuchHeld(f"one event took more than {limits.CLUSTER_LINE_SECONDS:g} s to arrive")

    def release(self) -> None:
        """Hold nothing any more."""
        self._hold(0)

    def _hold(self, size: int) -> None:
        self._share.hold(size - self._held)
        self._held = size
