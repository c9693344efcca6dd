"""The handlers. Each only calls a callback or returns the result of a function; none decides anything.

They have a registry of their own, never kopf's global one, so that several frames fit into one process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import kopf

from hearth.handlers import login
from hearth.model import value_class

if TYPE_CHECKING:
    from hearth.handlers.callbacks import HandlerCallbacks
    from hearth.kube.auth.credentials import CredentialSource

CUSTOM_KINDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
LOGIN_PAUSE = 5.0
"""Seconds after a failure. Kopf's own is a minute, in which a broken kubeconfig may long be fixed."""


@value_class.dataclass(frozen=True, slots=True)
class KopfHandlers:
    """Return the registry of all handlers. They ignore the arguments that kopf passes."""

    source: CredentialSource
    callbacks: HandlerCallbacks

    async def start(self, **_: Any) -> None:
        """Kopf is up."""
        self.callbacks.on_started()

    async def end(self, **_: Any) -> None:
        """Kopf is about to end."""
        self.callbacks.on_ended()

    async def authenticate(self, **_: Any) -> kopf.ConnectionInfo:
        """Return the present credentials."""
        # Reading may run an exec plugin, which takes its time.
        return login.make_connection_info(await asyncio.to_thread(self.source.load))

    async def wake_discovery(self, **_: Any) -> None:
        """Handle a CustomResourceDefinition that was created, changed, deleted or listed."""
        self.callbacks.on_kinds()


def make_registry(source: CredentialSource, callbacks: HandlerCallbacks) -> kopf.OperatorRegistry:
    """Make the registry of the handlers."""
    handlers = KopfHandlers(source, callbacks)
    registry = kopf.OperatorRegistry()
    kopf.on.startup(id="start", registry=registry)(handlers.start)
    kopf.on.cleanup(id="end", registry=registry)(handlers.end)
    kopf.on.login(id="log-in", backoff=LOGIN_PAUSE, registry=registry)(handlers.authenticate)
    kopf.on.event(*CUSTOM_KINDS, id="wake-discovery", registry=registry)(handlers.wake_discovery)
    if callbacks.admission is not None:
        # Imported here, since the certificates need a large library.
        from hearth.handlers import admission_handlers

        admission_handlers.register(callbacks.admission, registry)
    return registry
