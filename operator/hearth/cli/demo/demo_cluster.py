"""The few requests that a demonstration makes: install, apply, look. Knows paths; must not know what is shown of it."""

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
"""Seconds between two looks at something that takes about one."""


class Cluster:
    """One cluster, and what is remembered of one Stack in it from look to look."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The schemas stay empty: what an expression means was settled by the operator, which has them.
        self._kinds = Discovery(connection, Schemas(connection), on_change=lambda: None)
        self._blueprint: Blueprint | None = None
        self._compiled: tuple[str, int] | None = None
        self._shown: dict[str, Kind] = {}

    async def install(self) -> None:
        """Apply the CustomResourceDefinitions, and return when their kinds are served."""
        for definition in crd.make_crds():
            await self.apply(definition, kind=DEFINITION)
        for definition in crd.make_crds():
            while not is_established(await self._get_definition(definition["metadata"]["name"])):  # noqa: ASYNC110 -- it is another process that we wait for
                await asyncio.sleep(POLL)

    async def apply(self, manifest: Object, *, kind: Kind) -> Object:
        """Server-side apply, by force: an earlier demonstration may have left the object changed by hand."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_query(manager=MANAGER, force=True)
        return await self._connection.request(
            "PATCH", path, query=query, body=manifest, content_type=api_requests.APPLY
        )

    async def find_stack(self, namespace: str, name: str) -> Object | None:
        """The Stack, or None where there is none."""
        try:
            return await self._connection.request("GET", api_requests.object_path(STACK, namespace, name))
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            return None

    async def take_snapshot(self, namespace: str, name: str) -> ClusterSnapshot | None:
        """The Stack with its children as they are now, or None where there is none."""
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
        """The children of a kind, in all namespaces."""
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
    """Whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
