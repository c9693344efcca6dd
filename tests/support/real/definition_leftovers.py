"""Deletes leftovers of a failed test of StackDefinitions.

Only its operator could delete them normally, but its key is lost.
"""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CONTROLLER_REVISION, CUSTOM_RESOURCE_DEFINITION, STACK_DEFINITION
from support.real.operator_fleet import PATIENCE
from support.real.real_world import POLL


async def clear(connection: Connection, group: str) -> None:
    """Delete all definitions and kinds of that API group with their objects, and wait for the deletion.

    The definitions are deleted first, because an operator that still runs creates the kind of an existing one again.
    """
    for definition in await list_all(connection, STACK_DEFINITION):
        if definition["spec"]["group"] == group:
            await delete(connection, STACK_DEFINITION, definition)
    for crd in await list_all(connection, CUSTOM_RESOURCE_DEFINITION):
        if crd["spec"]["group"] == group:
            await delete_kind(connection, crd)


async def describe(connection: Connection) -> str:
    """All revisions of StackDefinitions, and all operators on this machine that serve some: explains a failed test."""
    revisions = [
        f"{each['metadata']['namespace']}/{each['metadata']['name']} {each['metadata']['creationTimestamp']}"
        for each in await list_all(connection, CONTROLLER_REVISION)
        if any(owner["kind"] == STACK_DEFINITION.name for owner in each["metadata"].get("ownerReferences") or ())
    ]
    return "\n".join(["", *revisions, *await asyncio.to_thread(list_definers)])


def list_definers() -> list[str]:
    """The operators on this machine that serve StackDefinitions: process, seconds since its start, command line."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,etimes=,args="], capture_output=True, text=True, check=True)
    return [each for each in listing.stdout.splitlines() if "--definition-groups" in each]


async def delete_kind(connection: Connection, crd: dict[str, Any]) -> None:
    spec = crd["spec"]
    version, names = spec["versions"][0]["name"], spec["names"]
    kind = Kind(group=spec["group"], version=version, name=names["kind"], plural=names["plural"], namespaced=True)
    for found in await list_all(connection, kind):
        await delete(connection, kind, found)
    await delete(connection, CUSTOM_RESOURCE_DEFINITION, crd)
    async with asyncio.timeout(2 * PATIENCE):
        while await is_there(connection, crd):  # noqa: ASYNC110 -- another process decides, there is no event
            await asyncio.sleep(POLL)


async def is_there(connection: Connection, crd: dict[str, Any]) -> bool:
    """Whether a CustomResourceDefinition still exists."""
    present = await list_all(connection, CUSTOM_RESOURCE_DEFINITION)
    return crd["metadata"]["uid"] in [each["metadata"]["uid"] for each in present]


async def list_all(connection: Connection, kind: Kind) -> list[dict[str, Any]]:
    """The objects of a kind in all namespaces; none if it is not served."""
    try:
        answer = await connection.request("GET", api_requests.collection_path(kind, ""))
    except errors.ApiStatusError as error:
        if error.code != 404:
            raise
        return []
    return list(answer["items"])


async def delete(connection: Connection, kind: Kind, found: dict[str, Any]) -> None:
    """Delete an object after removing its finalizers; ignore a missing one."""
    metadata = found["metadata"]
    path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
    try:
        if kind != CUSTOM_RESOURCE_DEFINITION:
            patch = {"metadata": {"finalizers": None}}
            await connection.request("PATCH", path, body=patch, content_type=api_requests.MERGE_PATCH)
        await connection.request("DELETE", path)
    except errors.ApiStatusError as error:
        if error.code != 404:
            raise
