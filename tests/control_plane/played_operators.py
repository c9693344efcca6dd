"""Simulated statuses of custom resources whose controllers a bare control plane does not run.

The order of a trial is in `import_files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors
from hearth.model.kinds import Kind

TIMESTAMP = "2026-01-01T00:00:00Z"
PASSING = frozenset({404, 409, 429})
"""Temporary errors: the kind is not served (yet or any longer), its storage is starting, or the object has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """One custom resource whose kind declares conditions."""

    kind: Kind
    namespace: str
    name: str
    required: dict[str, Any]
    """The schema of each status field that the kind requires."""

    async def report(self, connection: Connection) -> None:
        """Report the object's current generation as available, if the object exists and has no report on it yet."""
        path = api_requests.object_path(self.kind, self.namespace, self.name)
        try:
            found = await connection.request("GET", path)
            generation = found["metadata"]["generation"]
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any(each.get("observedGeneration") == generation for each in conditions):
                return
            status = self._make_status(generation)
            await connection.request(
                "PATCH", f"{path}/status", body={"status": status}, content_type=api_requests.MERGE_PATCH
            )
        except errors.ApiStatusError as refused:
            if refused.code not in PASSING:
                raise

    def _make_status(self, generation: int) -> dict[str, Any]:
        blank: dict[str, Any] = {"integer": 0, "boolean": False, "string": "", "array": [], "object": {}}
        condition = {
            "type": "Available",
            "status": "True",
            "reason": "Played",
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": TIMESTAMP,
        }
        fields = {name: blank[schema.get("type", "object")] for name, schema in self.required.items()}
        return {**fields, "conditions": [condition]}


def find_reporters(stack: Any) -> Iterator[Reporter]:
    """Yield the custom resources of a Stack whose kinds it defines itself, with conditions in their status."""
    manifests = [entry["manifest"] for entry in stack["spec"]["template"]["resources"].values()]
    definitions = {
        (each["spec"]["group"], each["spec"]["names"]["kind"]): each["spec"]
        for each in manifests
        if each["kind"] == "CustomResourceDefinition"
    }
    for manifest in manifests:
        group, _, version = manifest["apiVersion"].rpartition("/")
        spec = definitions.get((group, manifest["kind"]))
        status = find_status_schema(spec, version) if spec is not None else {}
        if spec is None or "conditions" not in status.get("properties", {}):
            continue
        is_namespaced = spec["scope"] == "Namespaced"
        kind = Kind(
            group=group,
            version=version,
            name=manifest["kind"],
            plural=spec["names"]["plural"],
            namespaced=is_namespaced,
        )
        yield Reporter(
            kind=kind,
            namespace=(manifest["metadata"].get("namespace") or stack["metadata"]["namespace"])
            if is_namespaced
            else "",
            name=manifest["metadata"]["name"],
            required={name: status["properties"][name] for name in status.get("required", ())},
        )


def find_status_schema(spec: Any, version: str) -> Any:
    """Return the schema of the status of one version; empty if the definition has none."""
    found: Any = next((each for each in spec["versions"] if each["name"] == version), {})
    return found.get("schema", {}).get("openAPIV3Schema", {}).get("properties", {}).get("status", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalizer:
    """A controller that adds a finalizer to its custom resources, as long as its workload exists and has rights."""

    kind: Kind
    namespace: str
    """Namespace of the objects; "" for all."""
    workload: str
    """The path of its Deployment, StatefulSet or DaemonSet."""
    account: str
    """`namespace:name` of its ServiceAccount."""
    name: str = "played.example.com/cleanup"

    async def work(self, connection: Connection) -> None:
        """Add the finalizer to new objects, and remove it from those in deletion."""
        try:
            if not await self._is_there(connection) or not await self._has_rights(connection):
                return
            listed = await connection.request("GET", api_requests.collection_path(self.kind, self.namespace))
            for item in listed["items"]:
                await self._attend(connection, item["metadata"])
        except errors.ApiStatusError as refused:
            if refused.code not in {*PASSING, 422}:
                raise

    async def _is_there(self, connection: Connection) -> bool:
        found = await connection.request("GET", self.workload)
        return "deletionTimestamp" not in found["metadata"]

    async def _has_rights(self, connection: Connection) -> bool:
        attributes = {
            "group": self.kind.group,
            "resource": self.kind.plural,
            "verb": "update",
            "namespace": self.namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{self.account}",
                "resourceAttributes": attributes,
            },
        }
        answer = await connection.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
        return bool(answer["status"]["allowed"])

    async def _attend(self, connection: Connection, metadata: Any) -> None:
        held, is_deleting = metadata.get("finalizers") or [], "deletionTimestamp" in metadata
        if (self.name in held) is not is_deleting:
            return
        changed = [each for each in held if each != self.name] if is_deleting else [*held, self.name]
        path = api_requests.object_path(self.kind, metadata.get("namespace", ""), metadata["name"])
        body = {"metadata": {"finalizers": changed, "resourceVersion": metadata["resourceVersion"]}}
        await connection.request("PATCH", path, body=body, content_type=api_requests.MERGE_PATCH)
