"""The requests of the demo: install, apply, read. Knows paths; must not know how the result is shown."""

from __future__ import annotations

import asyncio
from typing import Final

from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, STACK

MANAGER: Final = "hearth-demo"
POLL: Final = 0.2
"""Seconds between two checks of something that takes about one second."""


class Cluster:
    """One cluster, and the state of one Stack in it between two snapshots."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reader = StackReader(Session(connection))

    async def install(self) -> None:
        """Apply the CustomResourceDefinitions, and wait until their kinds are served."""
        for definition in crd.make_crds():
            await self.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION)
        for definition in crd.make_crds():
            while not is_established(await self._get_definition(definition["metadata"]["name"])):  # noqa: ASYNC110 -- it is another process that we wait for
                await asyncio.sleep(POLL)

    async def apply(self, manifest: Object, *, kind: Kind) -> Object:
        """Apply server-side with force, because an earlier demo may have left the object with manual changes."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_query(manager=MANAGER, force=True)
        return await self._connection.request(
            "PATCH", path, query=query, body=manifest, content_type=api_requests.APPLY
        )

    async def find_stack(self, namespace: str, name: str) -> Object | None:
        """Return the Stack, or None if it does not exist."""
        try:
            return await self._connection.request("GET", api_requests.object_path(STACK, namespace, name))
        except errors.ApiStatusError as refused:
            if not refused.is_not_found:
                raise
            return None

    async def take_snapshot(self, namespace: str, name: str) -> StackObjects | None:
        """Return the Stack and its children at this moment, or None if it does not exist."""
        return await self._reader.read(StackLocation(STACK, namespace, name))

    async def _get_definition(self, name: str) -> Object:
        return await self._connection.request("GET", api_requests.object_path(CUSTOM_RESOURCE_DEFINITION, "", name))


def is_established(definition: Object) -> bool:
    """Return whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
