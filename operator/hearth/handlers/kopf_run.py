"""One life of kopf, with our handlers and settings. It takes its time to import, as kopf comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kopf

from hearth.handlers import configuration, registry

if TYPE_CHECKING:
    from hearth.handlers.callbacks import HandlerCallbacks
    from hearth.kube.auth.credentials import CredentialSource


async def run_kopf(source: CredentialSource, callbacks: HandlerCallbacks) -> None:
    """Run until cancelled, or until some fault of the API server ends it."""
    await kopf.operator(
        registry=registry.make_registry(source, callbacks),
        settings=configuration.make_settings(),
        standalone=True,
        clusterwide=True,
    )
