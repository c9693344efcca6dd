"""The requests of the demo: install, apply, read. Knows paths; must not know how the result is shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from hearth.cli.demo.stack_view import ClusterSnapshot
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import Discovery
from hearth.kube.discovery.schemas import Schemas
from hearth.kube.well_known_kinds import STACK
from hearth.model import errors, names
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.template.blueprint import Blueprint, Definition, StackIdentity
from hearth.template.compiler import compiler

MANAGER: Final = "hearth-demo"
DEFINITION: Final = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    name="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
POLL: Final = 0.2
"""Seconds between two checks of something that takes about one second."""


class Cluster:
    """One cluster, and the state of one Stack in it between two snapshots."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The schemas stay empty: what an expression means was settled by the operator, which has them.
        self._kinds = Discovery(connection, Schemas(connection), on_change=lambda: None)
        self._blueprint: Blueprint | None = None
        self._compiled: tuple[str, int] | None = None
        self._shown: dict[str, Kind] = {}

    async def install(self) -> None:
        """Apply the CustomResourceDefinitions, and wait until their kinds are served."""
        for definition in crd.make_crds():
            await self.apply(definition, kind=DEFINITION)
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
            if refused.code != 404:
                raise
            return None

    async def take_snapshot(self, namespace: str, name: str) -> ClusterSnapshot | None:
        """Return the Stack and its children at this moment, or None if it does not exist."""
        stack = await self.find_stack(namespace, name)
        if stack is None:
            return None
        await self._compile(stack)
        for resource in self._blueprint.resources.values() if self._blueprint is not None else ():
            kind = self._kinds.find(resource.api_version, resource.kind)
            if kind is not None:
                self._shown[kind.key] = kind
        children = await asyncio.gather(*(self._list(kind, stack["metadata"]["uid"]) for kind in self._shown.values()))
        return ClusterSnapshot(
            stack=stack,
            blueprint=self._blueprint,
            children=[
                (kind, child) for kind, found in zip(self._shown.values(), children, strict=True) for child in found
            ],
        )

    async def _compile(self, stack: Object) -> None:
        """Read a changed template again. An invalid one leaves the previous one in place, as in the operator."""
        metadata, spec = stack["metadata"], stack["spec"]
        seen = (metadata["uid"], metadata["generation"])
        if seen == self._compiled or not spec.get("template"):
            return
        await self._kinds.refresh()
        definition = Definition(template=spec["template"], parameters=spec.get("parameters") or {})
        identity = StackIdentity(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
        with contextlib.suppress(errors.InvalidDefinition):
            self._blueprint = compiler.compile_template(definition, stack=identity, kinds=self._kinds)
        self._compiled = seen

    async def _list(self, kind: Kind, stack_uid: str) -> list[Object]:
        """Return the children of a kind in all namespaces."""
        query: Mapping[str, str] = {"labelSelector": f"{names.LABEL_STACK_UID}={stack_uid}"}
        try:
            answer = await self._connection.request("GET", api_requests.collection_path(kind), query=query)
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            return []
        found: list[Object] = answer["items"]
        return found

    async def _get_definition(self, name: str) -> Object:
        return await self._connection.request("GET", api_requests.object_path(DEFINITION, "", name))


def is_established(definition: Object) -> bool:
    """Return whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
