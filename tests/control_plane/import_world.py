"""Simulates cloud services that a bare control plane lacks, and finds leftovers of a Stack.

The order of a trial is in `import_files`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import played_operators
from played_operators import Reporter

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import Discovery
from hearth.model import errors, names
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import NAMESPACE

SERVICE = Kind(group="", version="v1", name="Service", plural="services", namespaced=True)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
VOLUME = Kind(group="", version="v1", name="PersistentVolume", plural="persistentvolumes", namespaced=False)
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
ALWAYS_THERE = frozenset({"configmap/kube-root-ca.crt", "serviceaccount/default"})
"""Objects that the controller manager creates in every namespace."""
PASSING = frozenset({"Event", "Event.events.k8s.io", "Lease.coordination.k8s.io"})
LOOK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Objects that are still there."""

    claims: tuple[str, ...]
    """Created by StatefulSets, which never delete them."""
    others: tuple[str, ...]


class World:
    """One cluster, with all its kinds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kinds = Discovery(connection, on_change=lambda: None)

    async def create(self, kind: Kind, manifest: Any) -> Any:
        """The object as created."""
        path = api_requests.collection_path(kind, manifest["metadata"].get("namespace", ""))
        return await self._connection.request("POST", path, body=manifest)

    async def create_namespace(self) -> str:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "import-"}}
        created = await self.create(NAMESPACE, manifest)
        return str(created["metadata"]["name"])

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Request the deletion; ignore a missing object."""
        try:
            await self._connection.request("DELETE", api_requests.object_path(kind, namespace, name))
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise

    async def list(self, kind: Kind, namespace: str = "", **query: str) -> list[Any]:
        """The objects of a kind; empty if it is no longer served. Objects that have just appeared are requested
        again.
        """
        while True:
            try:
                answer = await self._connection.request(
                    "GET", api_requests.collection_path(kind, namespace), query=query
                )
            except errors.ApiStatusError as refused:
                if refused.code in (404, 405):
                    return []
                if refused.code != 429:
                    raise
                await asyncio.sleep(refused.retry_after or LOOK)
            else:
                items: list[Any] = answer["items"]
                return items

    async def give_address(self, service: Any) -> None:
        """Give a load balancer an address."""
        metadata = service["metadata"]
        path = api_requests.object_path(SERVICE, metadata["namespace"], metadata["name"]) + "/status"
        body = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.10"}]}}}
        await self._connection.request("PATCH", path, body=body, content_type=api_requests.MERGE_PATCH)

    async def let_report(self, reporter: Reporter) -> None:
        """Write the status of a custom resource, as its operator would."""
        await reporter.report(self._connection)

    async def find_left(self, namespace: str, *, stack_uid: str) -> Left:
        """Everything in the namespace, and everything anywhere that carries the Stack's label."""
        await self._kinds.refresh()
        claims: dict[str, None] = {}
        others: dict[str, None] = {}
        for kind in self._kinds.all():
            if kind.key in PASSING:
                continue
            found = await self.list(kind, labelSelector=f"{names.LABEL_STACK_UID}={stack_uid}")
            if kind.namespaced:
                found += await self.list(kind, namespace)
            for item in found:
                name = f"{kind.name.lower()}/{item['metadata']['name']}"
                if is_claim_of_a_set(kind, item):
                    claims[name] = None
                elif name not in ALWAYS_THERE:
                    others[name] = None
        return Left(claims=tuple(claims), others=tuple(others))


def is_claim_of_a_set(kind: Kind, item: Mapping[str, Any]) -> bool:
    """Whether a StatefulSet created the claim, which then has no metadata of the Stack."""
    labels = item["metadata"].get("labels") or {}
    return kind.key == "PersistentVolumeClaim" and names.LABEL_STACK_UID not in labels


@contextlib.asynccontextmanager
async def provided(world: World, stack: Any, *, namespace: str) -> AsyncIterator[None]:
    """Volumes for every claim that the Stack makes, and addresses for load balancers, as long as it runs."""
    volumes = list(make_volumes(stack, prefix=namespace))
    for volume in volumes:
        await world.create(VOLUME, volume)
    giving = asyncio.create_task(give_addresses(world, namespace, list(played_operators.find_reporters(stack))))
    try:
        yield
    finally:
        giving.cancel()
        (fault,) = await asyncio.gather(giving, return_exceptions=True)
        for volume in volumes:
            await world.delete(VOLUME, "", volume["metadata"]["name"])
        assert isinstance(fault, asyncio.CancelledError), repr(fault)


async def give_addresses(world: World, namespace: str, reporters: Sequence[Reporter]) -> None:
    """Give each load balancer an address and each custom resource a status, until canceled."""
    while True:
        for reporter in reporters:
            await world.let_report(reporter)
        for service in await world.list(SERVICE, namespace):
            is_balanced = service["spec"].get("type") == "LoadBalancer"
            if is_balanced and not service["status"].get("loadBalancer", {}).get("ingress"):
                # It may have been deleted since it was listed.
                with contextlib.suppress(errors.ApiStatusError):
                    await world.give_address(service)
        await asyncio.sleep(LOOK)


def make_volumes(stack: Any, *, prefix: str) -> Iterator[Any]:
    """Create a volume for each claim in the manifests of the Stack, and for each claim of a replica."""
    for resource, entry in stack["spec"]["template"]["resources"].items():
        manifest = entry["manifest"]
        for number, claim in enumerate(find_claims(manifest)):
            yield make_volume(claim, name=f"{prefix}-{names.kebab(resource)}-{number}")


def unite(stack: Any, maps: list[Any]) -> Any:
    """Return the Stack with its template inline, whether it was divided or not."""
    if not maps:
        return stack
    texts = (text for each in maps for text in each["binaryData"].values())
    templates = [json.loads(gzip.decompress(base64.b64decode(text))) for text in texts]
    resources = {name: entry for template in templates for name, entry in template["resources"].items()}
    return {**stack, "spec": {**stack["spec"], "template": {"resources": resources}}}


def leaves_namespace(stack: Any) -> bool:
    """Whether a resource sets a namespace other than the Stack's."""
    manifests = (entry["manifest"] for entry in stack["spec"]["template"]["resources"].values())
    stated = {(manifest.get("metadata") or {}).get("namespace") for manifest in manifests}
    return bool(stated - {None, stack["metadata"]["namespace"]})


def find_claims(manifest: Any) -> list[Any]:
    """The claims that a manifest creates, once per replica."""
    if manifest["kind"] == "PersistentVolumeClaim":
        return [manifest]
    spec = manifest.get("spec") or {}
    if manifest["kind"] != "StatefulSet":
        return []
    return list(spec.get("volumeClaimTemplates") or ()) * int(spec.get("replicas", 1))


def make_volume(claim: Any, *, name: str) -> Any:
    """A volume that the claim will be bound to."""
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(CLASS_ANNOTATION) or claim["spec"].get("storageClassName") or ""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/tmp/{name}"},  # noqa: S108 -- on a node that does not exist
        },
    }


def is_ready(stack: Any) -> bool:
    """Whether the Stack reports Ready for its current generation."""
    status = (stack or {}).get("status") or {}
    is_current = stack is not None and status.get("observedGeneration") == stack["metadata"]["generation"]
    return is_current and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", ())
    )


def explain(stack: Any) -> str:
    """The Stack's own explanation."""
    status = (stack or {}).get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    message = (conditions.get("Ready") or {}).get("message", "says nothing of itself")
    return f"{status.get('phase', 'no phase')}: {message}"
