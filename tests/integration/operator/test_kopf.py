"""kopf with the operator's settings, on a real API server: it logs in, notices new kinds, and stops on request."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import kubernetes.client

from hearth.handlers import kopf_supervisor
from hearth.handlers.kopf_supervisor import KopfCallbacks
from hearth.kube.auth.credentials import CredentialSource
from support.real import real_user

PATIENCE = 30.0
"""Seconds, on a busy machine."""


async def test_a_new_kind_wakes_discovery(source: CredentialSource, api_client: Any) -> None:
    extensions = kubernetes.client.ApiextensionsV1Api(api_client)
    woken, restarted = asyncio.Event(), asyncio.Event()
    kopf = kopf_supervisor.make_supervisor(source, KopfCallbacks(on_kinds=woken.set, on_restart=restarted.set))

    kopf.start()
    definition: Any = real_user.make_crd(f"frame-{uuid.uuid4().hex[:8]}.hearth.dev", "Lamp", {"v1": {"type": "object"}})
    # Existing objects are listed first; only the later notification counts.
    await asyncio.wait_for(woken.wait(), PATIENCE)
    woken.clear()
    await asyncio.to_thread(extensions.create_custom_resource_definition, definition)
    await asyncio.wait_for(woken.wait(), PATIENCE)
    await asyncio.to_thread(extensions.delete_custom_resource_definition, definition["metadata"]["name"])
    await kopf.stop()

    assert not kopf.is_running
    assert not restarted.is_set()
