"""The time until objects that a user deletes or changes are repaired: by the operator, and by a bare loop that does
nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from bench.instruments import bare_api, watches
from bench.instruments.bare_api import BareApi
from bench.instruments.watches import Arrivals
from bench.instruments.workload import CONFIG_MAP, Target
from hearth.kube.client import api_requests
from hearth.model.child import Object

TAMPERED_VALUE = "tampered"
TAMPERED: Object = {"data": {"value": TAMPERED_VALUE}}


def path_of(namespace: str, name: str) -> str:
    """The path of a ConfigMap."""
    return api_requests.object_path(CONFIG_MAP, namespace, name)


def is_added(event: Object) -> bool:
    """Whether the object exists again."""
    return bool(event["type"] == "ADDED")


def is_mended(event: Object) -> bool:
    """Whether the object is no longer as a user changed it."""
    return bool(event["type"] == "MODIFIED" and event["object"]["data"]["value"] != TAMPERED_VALUE)


@contextlib.asynccontextmanager
async def hearing(api: BareApi, namespace: str) -> AsyncIterator[Arrivals]:
    """Receive the events of every ConfigMap in the namespace."""
    heard = Arrivals()
    async with watches.watching(api, CONFIG_MAP, namespace, heard.take):
        yield heard


async def take_away(api: BareApi, heard: Arrivals, path: str) -> float:
    """Delete one object; return the seconds until it is recreated."""
    with heard.expect(path.rpartition("/")[2], is_added) as back:
        begun = time.perf_counter()
        await api.send("DELETE", path)
        await back.wait()
        return time.perf_counter() - begun


async def tamper(api: BareApi, heard: Arrivals, path: str) -> float:
    """Change one object; return the seconds until the change is reverted."""
    with heard.expect(path.rpartition("/")[2], is_mended) as back:
        begun = time.perf_counter()
        await api.send("PATCH", path, body=TAMPERED, content_type=bare_api.MERGE)
        await back.wait()
        return time.perf_counter() - begun


async def take_all_away(api: BareApi, heard: Arrivals, paths: Sequence[str]) -> float:
    """Delete many objects at once; return the seconds until all are recreated."""
    begun = time.perf_counter()
    await bare_api.for_each(paths, lambda path: take_away(api, heard, path), in_flight=len(paths))
    return time.perf_counter() - begun


@contextlib.asynccontextmanager
async def repairing(api: BareApi, namespace: str, targets: Sequence[Target]) -> AsyncIterator[None]:
    """A bare loop that creates these objects, and reapplies each as soon as a watch shows a change."""
    by_name: Mapping[str, Target] = {target.name: target for target in targets}
    await bare_api.for_each(targets, lambda target: api.apply(target.path, target.manifest))
    async with asyncio.TaskGroup() as group:

        def take(event: Object) -> None:
            target = by_name.get(event["object"]["metadata"]["name"])
            if target is not None and is_broken(event):
                group.create_task(api.apply(target.path, target.manifest))

        async with watches.watching(api, CONFIG_MAP, namespace, take):
            yield


def is_broken(event: Object) -> bool:
    """Whether a user deleted or changed the object."""
    return bool(event["type"] == "DELETED" or (event["type"] == "MODIFIED" and not is_mended(event)))
