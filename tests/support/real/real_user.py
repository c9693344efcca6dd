"""A user of a real cluster with kubectl, as single requests, and the stage that simulates probes.

It uses only the API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hearth.kube import management_cluster
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.watch.reflector import METADATA
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import SECRET, STACK_PLAN
from hearth.plan.ownership.keyed_hash import KeyedHasher
from support.checks import stack_plans
from support.server import fake_kinds
from support.stories import probe_controller, volume_driver
from support.stories.probe_controller import Player
from support.stories.world import Address

MANAGER = "kubectl-edit"
RETRY = 0.2
"""Seconds until a retry if a kind is missing or a watch is broken."""
PROBES = (probe_controller.kind_of(), probe_controller.kind_of("Latecomer"), probe_controller.kind_of("Newcomer"))
KINDS = (*PROBES, volume_driver.VOLUME_SNAPSHOT, *(served.kind for served in fake_kinds.BUILT_IN))
"""All kinds that stories use."""

INSTALLED: dict[str, tuple[str, int] | None] = {}
"""By hash of the definition: the version of the CustomResourceDefinition after this process applied it."""


@dataclass(frozen=True, slots=True)
class RealUser:
    """A user with a kubeconfig."""

    connection: Connection
    namespace: str

    async def find(self, address: Address) -> Object | None:
        """The object, or None."""
        try:
            return await self.connection.request("GET", object_path(address))
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            return None

    async def find_version(self, address: Address) -> tuple[str, int] | None:
        """The UID and generation of the object; None if it does not exist."""
        try:
            found = await self.connection.request("GET", object_path(address), accept=METADATA)
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            return None
        return found["metadata"]["uid"], found["metadata"]["generation"]

    async def send(self, method: str, kind: Kind, name: str = "", **options: Any) -> Object:
        """Send one request about an object of any kind (in this namespace if it is namespaced), a whole collection, or
        a new object.
        """
        namespace = self.namespace if kind.namespaced else ""
        path = (
            api_requests.object_path(kind, namespace, name) if name else api_requests.collection_path(kind, namespace)
        )
        return await self.connection.request(method, path, **options)

    async def merge(self, kind: Kind, name: str, patch: Object) -> Object:
        """Like `kubectl patch --type=merge` for an object of any kind."""
        return await self.send("PATCH", kind, name, body=patch, content_type=api_requests.MERGE_PATCH)

    async def find_named(self, kind: Kind, name: str) -> Object | None:
        """The object of any kind, or None."""
        try:
            return await self.send("GET", kind, name)
        except errors.ApiStatusError as refused:
            if refused.code != 404:
                raise
            return None

    async def find_children(self, stack_uid: str, kinds: Collection[str]) -> list[Object]:
        """Every object with that Stack's label, of the kinds of these names."""
        looked_at = [kind for kind in KINDS if kind.namespaced and kind.name in kinds]
        looked_at = [kind for kind in looked_at if kind != fake_kinds.CONTROLLER_REVISION.kind]
        found = await asyncio.gather(*(self.list_labelled(kind, stack_uid) for kind in looked_at))
        return [raw for each in found for raw in each]

    async def find_revisions(self, stack_uid: str) -> list[Object]:
        """The ControllerRevisions that this Stack owns."""
        return await self.list_labelled(fake_kinds.CONTROLLER_REVISION.kind, stack_uid)

    async def list_plans(self, stack_uid: str) -> list[Object]:
        """The StackPlans of this Stack, the oldest first."""
        path = api_requests.collection_path(STACK_PLAN, self.namespace)
        page = await self.connection.request("GET", path)
        return stack_plans.sort_plans(page["items"], stack_uid)

    async def get_hasher(self) -> KeyedHasher:
        """The key of the operator's signatures, in the namespace of the test."""
        secret = await self.send("GET", SECRET, management_cluster.HASH_KEY_NAME)
        return KeyedHasher(management_cluster.parse_hash_key(secret, self.namespace))

    async def list_labelled(self, kind: Kind, stack_uid: str) -> list[Object]:
        """The objects of a kind with that Stack's label."""
        path = api_requests.collection_path(kind, self.namespace)
        query = {"labelSelector": f"{names.LABEL_STACK_UID}={stack_uid}"}
        try:
            page = await self.connection.request("GET", path, query=query)
        except errors.ApiStatusError as refused:
            # 429: the kind was added only recently.
            if refused.code not in {404, 429}:
                raise
            return []
        return [{"apiVersion": kind.api_version, "kind": kind.name, **raw} for raw in page.get("items") or ()]

    async def create(self, manifest: Object, *, by: str = "") -> Object:
        """As `kubectl create`. by: another field manager."""
        kind = find_kind(manifest["apiVersion"], manifest["kind"])
        path = api_requests.collection_path(kind, manifest["metadata"].get("namespace", ""))
        query = {"fieldManager": by} if by else {}
        return await self.connection.request("POST", path, query=query, body=manifest)

    async def wait_refused(self, manifest: Object) -> None:
        """Wait until the server would refuse to create it: for example, a quota takes effect only after all server
        components know it.
        """
        kind = find_kind(manifest["apiVersion"], manifest["kind"])
        path = api_requests.collection_path(kind, manifest["metadata"]["namespace"])
        while True:
            try:
                await self.connection.request("POST", path, query={"dryRun": "All"}, body=manifest)
            except errors.ApiStatusError:
                return
            await asyncio.sleep(RETRY)

    async def replace_spec(self, address: Address, spec: Object) -> None:
        """`kubectl replace` of only the spec; status writes in between do not conflict."""
        change = orjson.dumps([{"op": "replace", "path": "/spec", "value": spec}])
        query = {"fieldManager": MANAGER}
        await self.connection.request(
            "PATCH", object_path(address), query=query, body=change, content_type="application/json-patch+json"
        )

    async def patch(self, address: Address, patch: Object, *, subresource: str = "") -> Object:
        """As `kubectl patch --type=merge`."""
        path = object_path(address) + subresource
        query = {"fieldManager": MANAGER}
        return await self.connection.request(
            "PATCH", path, query=query, body=patch, content_type=api_requests.MERGE_PATCH
        )

    async def patch_status(self, address: Address, status: Object) -> Object:
        """The same of the subresource `status`."""
        return await self.patch(address, {"status": status}, subresource="/status")

    async def scale(self, address: Address, replicas: int, *, manager: str) -> Object:
        """As `kubectl scale`."""
        path, body = object_path(address) + "/scale", {"spec": {"replicas": replicas}}
        query = {"fieldManager": manager}
        return await self.connection.request(
            "PATCH", path, query=query, body=body, content_type=api_requests.MERGE_PATCH
        )

    async def delete(self, address: Address, *, cascade: str = "background") -> None:
        """As `kubectl delete --wait=false`."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": cascade.capitalize()}
        await self.connection.request("DELETE", object_path(address), body=options)

    async def apply(self, manifest: Object) -> Object:
        """As `kubectl apply --server-side`."""
        kind = find_kind(manifest["apiVersion"], manifest["kind"])
        path = api_requests.object_path(kind, manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        query = api_requests.apply_query(manager="hearth-tests", force=True)
        return await self.connection.request("PATCH", path, query=query, body=manifest, content_type=api_requests.APPLY)

    # ------------------------------------------------------------ where probes are played

    async def write_probe_status(self, probe: Object, status: Object) -> None:
        """See the player's `Stage`."""
        with contextlib.suppress(errors.ApiStatusError):
            body = {"metadata": {"uid": probe["metadata"]["uid"]}, "status": status}
            await self.patch(Address.of(probe), body, subresource="/status")

    async def release_probe(self, probe: Object) -> None:
        """See the player's `Stage`."""
        kept = [each for each in probe["metadata"].get("finalizers", ()) if each != probe_controller.FINALIZER]
        with contextlib.suppress(errors.ApiStatusError):
            await self.patch(
                Address.of(probe), {"metadata": {"uid": probe["metadata"]["uid"], "finalizers": kept or None}}
            )

    async def expire_probe(self, probe: Object) -> None:
        """See the player's `Stage`."""
        body = {"preconditions": {"uid": probe["metadata"]["uid"]}}
        with contextlib.suppress(errors.ApiStatusError):
            await self.connection.request("DELETE", object_path(Address.of(probe)), body=body)

    async def show_probes(self, kind: Kind, player: Player) -> None:
        """Simulate every probe of the namespace until cancelled."""

        def show(event: str, probe: Object) -> None:
            if event == "DELETED":
                player.forget(probe["metadata"]["uid"])
            else:
                player.show(probe)

        await self.follow(kind, show)

    async def follow(self, kind: Kind, on_event: Callable[[str, Object], None]) -> None:
        """Report every object of a kind in the namespace and every change inside the block."""
        while True:
            with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
                async for event, raw in self.watch(kind):
                    on_event(event, raw)
            await asyncio.sleep(RETRY)

    async def watch(self, kind: Kind) -> AsyncIterator[tuple[str, Object]]:
        """Every object of a kind in the namespace, then every change, until the server ends it."""
        path = api_requests.collection_path(kind, self.namespace)
        rest = b""
        async with self.connection.stream(path, query={"watch": "1"}) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event["type"], event["object"]


def make_crd(
    group: str, kind: str, schemas: Mapping[str, Object], *, scope: str = "Namespaced", has_status: bool = False
) -> Object:
    """A CustomResourceDefinition. schemas: by version; the first is stored. has_status: whether that is a subresource."""
    subresources: Object = {"subresources": {"status": {}}} if has_status else {}
    versions = [
        {"name": each, "served": True, "storage": at == 0, **subresources, "schema": {"openAPIV3Schema": schema}}
        for at, (each, schema) in enumerate(schemas.items())
    ]
    singular = kind.lower()
    stated = {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {"group": group, "scope": scope, "names": stated, "versions": versions},
    }


def find_kind(api_version: str, name: str) -> Kind:
    """The kind of that name among the kinds of stories."""
    return next(kind for kind in KINDS if (kind.api_version, kind.name) == (api_version, name))


def object_path(address: Address) -> str:
    kind = find_kind(address.api_version, address.kind)
    return api_requests.object_path(kind, address.namespace if kind.namespaced else "", address.name)


async def install_all(user: RealUser) -> None:
    """Install every kind of Hearth, and the Probe."""
    await install(user, (*fake_kinds.make_crds(), probe_controller.definition()))


async def install(user: RealUser, definitions: Iterable[Object]) -> None:
    """Install CustomResourceDefinitions and wait until their kinds are served.

        Skips a definition that this process already applied and that has not changed since: applying it takes the API
    server longer than many tests.
    """
    for definition in definitions:
        key = hashlib.sha256(orjson.dumps(definition)).hexdigest()
        address = Address.of(definition)
        version = await user.find_version(address)
        if version is not None and version == INSTALLED.get(key):
            continue
        await user.apply(definition)
        while not is_established(await user.find(address)):  # noqa: ASYNC110 -- another process decides, there is no event
            await asyncio.sleep(RETRY)
        INSTALLED[key] = await user.find_version(address)


def is_established(raw: Object | None) -> bool:
    """Whether the server serves the kind of a CustomResourceDefinition."""
    conditions = ((raw or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
