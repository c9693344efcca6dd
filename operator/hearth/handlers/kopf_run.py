"""One run of kopf, with our handlers and settings. Slow to import, because it imports kopf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kopf

from hearth.handlers import configuration, registry

if TYPE_CHECKING:
    from hearth.handlers.callbacks import HandlerCallbacks
    from hearth.kube.auth.credentials import CredentialSource


async def run_kopf(source: CredentialSource, callbacks: HandlerCallbacks) -> None:
    """Run until cancelled, or until a fault of the API server stops kopf."""
    await kopf.operator(
        registry=registry.make_registry(source, callbacks),
        settings=configuration.make_settings(callbacks.admission.server if callbacks.admission is not None else None),
        standalone=True,
        clusterwide=True,
    )
