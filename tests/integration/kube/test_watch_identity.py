"""What the beginning of a watch event says of a custom resource, as a real API server writes it."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.watch import watch_events
from hearth.model import names
from hearth.model.child import Object
from hearth.model.well_known_kinds import STACK

pytestmark = pytest.mark.cluster

FORGED: Object = {"metadata": {"resourceVersion": "9", "uid": "b"}, "spec": {}}
EVENTS = 4


async def read_lines(connection: Connection, path: str, version: str) -> list[bytes]:
    """The next events of a collection."""
    splitter, found = watch_events.LineSplitter(), list[bytes]()
    async with connection.stream(path, query={"watch": "1", "resourceVersion": version}) as chunks:
        async for chunk in chunks:
            found += splitter.feed(chunk)
            if len(found) >= EVENTS:
                break
    return found


@pytest.mark.usefixtures("serves_stacks")
async def test_the_state_of_a_stack_is_read_without_parsing_its_spec(connection: Connection, namespace: str) -> None:
    """Of one that is created, changed, reported on and deleted, even if its owner wrote the same words into it."""
    path = api_requests.collection_path(STACK, namespace)
    version = (await connection.request("GET", path))["metadata"]["resourceVersion"]
    template = {"resources": {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"spec": "{}"}}}}}
    notes = {"resourceVersion": "9", "uid": "b", "spec": '"},"spec":'}
    body = {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": names.STACK,
        "metadata": {"name": "shop", "labels": {"uid": "b", "resourceVersion": "9"}, "annotations": notes},
        "spec": {"template": template, "parameters": {"forged": FORGED}},
    }
    made = await connection.request("POST", path, body=body)
    patches: list[tuple[str, Any]] = [("", {"spec": {"paused": True}}), ("/status", {"status": {"phase": "x"}})]
    for subresource, patch in patches:
        where = f"{path}/shop{subresource}"
        await connection.request("PATCH", where, body=patch, content_type=api_requests.MERGE_PATCH)
    await connection.request("DELETE", f"{path}/shop")

    async with asyncio.timeout(30):
        lines = await read_lines(connection, path, version)
    wholes = [orjson.loads(line) for line in lines]
    assert {each["object"]["metadata"]["uid"] for each in wholes} == {made["metadata"]["uid"]}
    assert [watch_events.find_identity(line) for line in lines] == [
        (each["type"].encode(), each["object"]["metadata"]["uid"], int(each["object"]["metadata"]["resourceVersion"]))
        for each in wholes
    ]
