"""Where a benchmark happens: namespaces of its own, which leave nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import bare_api
from bare_api import BareApi

from hearth.kube import requests
from hearth.kube.stack_cache import STACK
from hearth.model import crd
from hearth.model.child import Object
from hearth.model.kinds import Kind

NAMESPACE = Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False)
DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    name="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
LOOK = 0.1
"""Seconds between two looks at whether a kind is served."""


async def install(api: BareApi) -> None:
    """Apply the CustomResourceDefinitions, and return when their kinds are served."""
    for definition in crd.make_crds():
        path = requests.object_path(DEFINITION, "", definition["metadata"]["name"])
        await api.apply(path, definition)
        while not is_established(await api.list(path)):  # noqa: ASYNC110 -- it is another process that we wait for
            await asyncio.sleep(LOOK)


def is_established(definition: Object) -> bool:
    """Whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@contextlib.asynccontextmanager
async def namespace(api: BareApi, purpose: str) -> AsyncIterator[str]:
    """The name of a fresh namespace. Nobody waits for its end: that it takes a while is nobody's business."""
    name = f"bench-{purpose.lower()}-{uuid.uuid4().hex[:6]}"
    metadata = {"name": name}
    await api.send("POST", requests.collection_path(NAMESPACE), body={"metadata": metadata})
    try:
        yield name
    finally:
        await release_stacks(api, name)
        await api.send("DELETE", requests.object_path(NAMESPACE, "", name))


async def release_stacks(api: BareApi, namespace: str) -> None:
    """Let Stacks go that a benchmark left behind when it broke: no operator is there to do it."""
    stacks = await api.list(requests.collection_path(STACK, namespace))

    async def release(stack: Object) -> None:
        path = requests.object_path(STACK, namespace, stack["metadata"]["name"])
        await api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=bare_api.MERGE)

    await bare_api.for_each(stacks["items"], release)
