"""Simulated OpenStack resource controllers: they wait for referenced objects, set IDs and statuses, and hold the
deletion of an object while another one refers to it.

Facts: openstack-resource-controller; its CustomResourceDefinitions are in tests/data/heat/orc-crds.yaml.gz.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from hearth.model import errors, object_fields
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import repository
from support.real.real_user import RealUser

GROUP: Final = "openstack.k-orc.cloud"
FINALIZER: Final = f"{GROUP}/played"
DEFINITIONS: Final = repository.ROOT / "tests" / "data" / "heat" / "orc-crds.yaml.gz"
SECRETS: Final = ("passwordRef", "secretRef")
ADDRESS: Final = "10.0.0.5"


def load_definitions() -> list[Object]:
    """The CustomResourceDefinitions of all kinds."""
    return [each for each in yaml.safe_load_all(gzip.decompress(DEFINITIONS.read_bytes())) if each]


def make_kind(definition: Object) -> Kind:
    stated = definition["spec"]["names"]
    return Kind(group=GROUP, version="v1alpha1", name=stated["kind"], plural=stated["plural"], namespaced=True)


def list_references(value: Any) -> Iterator[str]:
    """The names of the objects of these kinds that an object refers to, except Secrets."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name.endswith("Ref") and isinstance(each, str) and name not in SECRETS:
                yield each
            elif name.endswith("Refs") and isinstance(each, list):
                yield from each
            else:
                yield from list_references(each)
    elif isinstance(value, list):
        for each in value:
            yield from list_references(each)


class PlayedControllers:
    """Simulated controllers for all objects of these kinds in one namespace."""

    def __init__(self, user: RealUser) -> None:
        self._user = user
        self._kinds = {each.name: each for each in map(make_kind, load_definitions())}
        self._objects: dict[tuple[str, str], Object] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Play until `stop`."""
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in self._kinds.values()]
        self._tasks.append(asyncio.create_task(self._play()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def find(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [each for (name, _), each in sorted(self._objects.items()) if name == kind]

    async def _follow(self, kind: Kind) -> None:
        def note(event: str, raw: Object) -> None:
            key = (kind.name, raw["metadata"]["name"])
            if event == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = raw
            self._changed.set()

        await self._user.follow(kind, note)

    async def _play(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.gather(
                *(self._attempt(self._kinds[kind], name, raw) for (kind, name), raw in self._objects.items())
            )

    async def _attempt(self, kind: Kind, name: str, raw: Object) -> None:
        # If the object was changed in the meantime, the watch delivers the change.
        with contextlib.suppress(errors.ApiStatusError):
            await self._reconcile(kind, name, raw)

    async def _reconcile(self, kind: Kind, name: str, raw: Object) -> None:
        finalizers = raw["metadata"].get("finalizers", [])
        if raw["metadata"].get("deletionTimestamp"):
            users = [key for key, each in self._objects.items() if name in list_references(each["spec"])]
            if FINALIZER in finalizers and not users:
                rest = [each for each in finalizers if each != FINALIZER]
                await self._user.merge(kind, name, {"metadata": {"finalizers": rest or None}})
            return
        # An imported resource is not deleted.
        if FINALIZER not in finalizers and "resource" in raw["spec"]:
            await self._user.merge(kind, name, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        wanted = self._make_status(kind.name, raw)
        if wanted is not None and not is_within(wanted, raw.get("status") or {}):
            path = f"/apis/{kind.api_version}/namespaces/{self._user.namespace}/{kind.plural}/{name}/status"
            body = {"status": wanted}
            await self._user.connection.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    def _make_status(self, kind: str, raw: Object) -> Object | None:
        """None while a referenced object is missing."""
        generation = raw["metadata"]["generation"]
        available = {name for (_, name), each in self._objects.items() if is_available(each)}
        missing = sorted(set(list_references(raw["spec"])) - available)
        is_ready = not missing
        reason, message = (
            ("Success", "OpenStack resource is available")
            if is_ready
            else ("Progressing", f"Waiting for {missing} to be ready")
        )
        conditions = [
            {
                "type": type_,
                "status": str(status),
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_, status in (("Available", is_ready), ("Progressing", not is_ready))
        ]
        if not is_ready:
            return {"conditions": conditions}
        if kind in ("RouterInterface", "RoleAssignment"):
            return {"conditions": conditions}
        identity = object_fields.text(raw, "spec", "import", "id") or str(
            uuid.uuid5(uuid.NAMESPACE_OID, raw["metadata"]["uid"])
        )
        return {"conditions": conditions, "id": identity, "resource": self._make_resource(kind, raw)}

    def _make_resource(self, kind: str, raw: Object) -> Object:
        stated = object_fields.mapping(raw, "spec", "resource")
        made: Object = {"name": stated.get("name", raw["metadata"]["name"])}
        match kind:
            case "Server":
                ports = [self._objects["Port", each["portRef"]] for each in stated.get("ports", [])]
                networks = [self._find_id("Network", each["spec"]["resource"]["networkRef"]) for each in ports]
                made["interfaces"] = [
                    {"netID": network, "portID": each["status"]["id"], "fixedIPs": [{"ipAddress": ADDRESS}]}
                    for network, each in zip(networks, ports, strict=True)
                ] or [{"netID": "somewhere", "fixedIPs": [{"ipAddress": ADDRESS}]}]
            case "Port":
                made |= {"macAddress": "fa:16:3e:00:00:01", "fixedIPs": [{"ip": ADDRESS}]}
            case "FloatingIP":
                made = {"floatingIP": "192.0.2.7"}
            case "Subnet":
                made["cidr"] = stated.get("cidr", "10.0.0.0/24")
            case "RoleAssignment":
                made = {}
        return made

    def _find_id(self, kind: str, name: str) -> str:
        return object_fields.text(self._objects.get((kind, name), {}), "status", "id")


def is_available(raw: Object) -> bool:
    """Whether its controller reports it as available for its current generation."""
    return any(
        each["type"] == "Available" and each["status"] == "True"
        for each in object_fields.entries(raw, "status", "conditions")
    )


def is_within(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether every expected field has its value."""
    return all(found.get(name) == value for name, value in wanted.items())
