"""What the controllers of custom resources would report, where a bare control plane runs none.

Knows CRDs and requests; must not know the order in which a trial goes.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """One custom resource whose kind declares conditions."""

    kind: Kind
    namespace: str
    name: str
    required: dict[str, Any]
    """The schema of each status field that the kind requires."""

    async def report(self, connection: Connection) -> None:
        """Report the object's present generation as available, if it exists and no report on it does."""
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
            # Not created yet, its kind not served yet, or changed meanwhile: the next round sees it.
            if refused.code not in (404, 409):
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
