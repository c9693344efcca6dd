"""Creates Stacks for the page with any status. No operator serves their namespace."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from hearth.model import names
from support.real.raw_api import MERGE, RawApi

HOSTILE = "\"'><img src=x onerror='window.isHacked=1'><script>window.isHacked=1</script>&amp;{{7*7}}"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
TOO_EARLY = 429
PAST = "2026-01-01T00:00:00Z"
SHOP = {
    "settings": {"manifest": CONFIG | {"data": {"color": "green"}}},
    "password": {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"key": "${params.password}"}}},
    "db": {"manifest": CONFIG | {"data": {"password": "${password.metadata.name}"}}},
    "cache": {"dependsOn": ["settings"], "manifest": {"apiVersion": "apps/v1", "kind": "Deployment"}},
    "web": {"dependsOn": ["db", "settings"], "manifest": {"apiVersion": "apps/v1", "kind": "Deployment"}},
    "front": {"dependsOn": ["web", "cache"], "manifest": {"apiVersion": "v1", "kind": "Service"}},
    "report": {"dependsOn": ["db"], "manifest": {"apiVersion": "batch/v1", "kind": "CronJob"}},
}
QUOTA = (
    'deployments.apps "shop-cache" is forbidden: exceeded quota: small, requested: cpu=2, used: cpu=3, limited: cpu=4'
)


@dataclass(frozen=True, slots=True)
class ShownStacks:
    """The Stacks of one namespace."""

    api: RawApi
    namespace: str

    def create_shop(self, prefix: str = "") -> str:
        """Create a Stack during an update, with ready, failed, stopped, waiting and replaced resources; return its
        name.
        """
        parameters = {"password": {"type": "string", "sensitive": True}}
        environment = {"breakpoints": [{"resource": "web", "at": ["PreUpdate"]}]}
        spec = {
            "template": {"parameters": parameters, "resources": SHOP},
            "parameters": {"password": "geheim-1"},
            "environment": environment,
        }
        stack = self.create(prefix or "shop", spec)
        for resource, number in (("settings", 1), ("db", 1), ("db", 2), ("report-old", 1)):
            self.create_child(stack, resource, number)
        self.create_child(stack, "password", 1, kind="Secret", data={"key": "Z2VoZWltLTE="})
        name: str = stack["metadata"]["name"]
        self.write_shop_status(name)
        return name

    def write_shop_status(self, name: str) -> None:
        self.write_status(
            name,
            phase="UpdateStopped",
            summary="3/7",
            revision=3,
            message="stopped at a breakpoint: web/PreUpdate; 1 resource failed: cache",
            breakpoints=[{"resource": "web", "hook": "PreUpdate"}],
            problems=[make_problem("cache", "QuotaExceeded", QUOTA, kind="Deployment")],
            resources={
                "total": 7,
                "ready": 3,
                "progressing": 0,
                "waiting": 2,
                "failed": 1,
                "stopped": 1,
                "obsolete": 2,
            },
            lastCompletedRevision=2,
        )

    def create_hostile(self) -> str:
        """Create a Stack with hostile texts in every field where the API server accepts them, and return its name."""
        resources = {"web": {"manifest": CONFIG | {"data": {"key": HOSTILE}}}}
        stack = self.create("hostile-", {"template": {"resources": resources}})
        name: str = stack["metadata"]["name"]
        child = self.create_child(stack, "web", 1, data={"key": HOSTILE})
        problems = [make_problem("web", "Invalid", HOSTILE)]
        self.write_status(name, message=HOSTILE, problems=problems, outputs={"out": HOSTILE})
        about = {"kind": "ConfigMap", "name": child["metadata"]["name"], "uid": child["metadata"]["uid"]}
        event = {
            "metadata": {"generateName": "hostile-"},
            "involvedObject": about | {"namespace": self.namespace, "apiVersion": "v1"},
            "reason": "Hostile",
            "message": HOSTILE,
            "type": "Warning",
            "lastTimestamp": PAST,
        }
        self.send("POST", f"/api/v1/namespaces/{self.namespace}/events", event)
        return name

    def create_plan(self, stack: str, text: str = "") -> str:
        """Let a change of a Stack wait for an approval, and return the path of its plan on the page.

        text: a hostile one, in every field where the API server accepts it; "" for none.
        """
        uid = self.read(stack)["metadata"]["uid"]
        objects = [
            {"group": "", "kind": kind, "namespace": self.namespace, "name": name}
            for kind, name in (("PersistentVolumeClaim", "reports"), ("ConfigMap", "settings"), ("Service", "web"))
        ]
        hostile = [text] if text else []
        steps = [
            {
                "action": "delete",
                "resource": "reports",
                "object": objects[0],
                "reason": text or "it is not in the template",
                "risky": ["it deletes data"],
                "undo": "one-way",
            },
            {
                "action": "update",
                "resource": "settings",
                "object": objects[1],
                "fields": [f"data.key-{number}" for number in range(12)],
            },
            {
                "action": "update",
                "resource": "web",
                "object": objects[2],
                "fields": ["spec.type", *hostile],
                "unknownFields": ["spec.externalName"],
            },
        ]
        digest = hashlib.sha256(uid.encode()).hexdigest()
        name = f"{stack}-{digest[: names.PLAN_DIGITS]}"
        spec = {
            "stackRef": {"kind": "Stack", "name": stack, "uid": uid},
            "definitionHash": "k1:1",
            "baseRevision": 3,
            "previousPlan": "generation 1",
            "validFor": "24h",
            "digest": digest,
            "undo": "one-way",
            "steps": steps,
            "notes": [*hostile],
        }
        labels = {names.LABEL_STACK: names.stack_label(stack)}
        body = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": "StackPlan",
            "metadata": {"name": name, "labels": labels},
        }
        self.send("POST", self.path("stackplans"), {**body, "spec": spec})
        status = {"phase": "Pending", "expiresAt": "2030-01-01T08:00:00Z"}
        self.send("PATCH", f"{self.path('stackplans')}/{name}/status", {"status": status}, content_type=MERGE)
        held = {"reason": "WaitingForApproval", "generation": 1}
        self.write_status(stack, phase="UpdateStopped", message="a change waits for an approval", heldChange=held)
        return f"stackplans/{self.namespace}/{name}"

    def create_large(self, count: int) -> str:
        """Create a Stack of many resources in several layers; return its name."""
        resources = {
            f"r{n}": {"manifest": CONFIG} | ({"dependsOn": [f"r{n // 20}"]} if n > 20 else {}) for n in range(count)
        }
        stack = self.create("large-", {"template": {"resources": resources}})
        name: str = stack["metadata"]["name"]
        self.write_status(name, phase="CreateInProgress", summary=f"0/{count}")
        return name

    def create(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Create a Stack. name: with a trailing dash, a prefix for a generated name."""
        key = "generateName" if name.endswith("-") else "name"
        body = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": "Stack",
            "metadata": {key: name, "namespace": self.namespace},
            "spec": spec,
        }
        return self.send("POST", self.path("stacks"), body)

    def create_child(
        self, stack: dict[str, Any], resource: str, number: int, *, kind: str = "ConfigMap", **fields: Any
    ) -> dict[str, Any]:
        """Create an object that belongs to a Stack, as an operator does."""
        name, uid = f"{stack['metadata']['name']}-{resource}-{number}", stack["metadata"]["uid"]
        identity = names.identity(stack_uid=uid, group="", kind=kind, namespace=self.namespace, name=name)
        body = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "labels": {names.LABEL_STACK_UID: uid, names.LABEL_RESOURCE: names.resource_label(resource)},
                "annotations": {
                    names.ANNOTATION_IDENTITY: identity,
                    names.ANNOTATION_INCARNATION: str(number),
                    names.ANNOTATION_REQUIRES: "password/1" if resource == "db" else "",
                },
            },
        }
        plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
        return self.send("POST", f"/api/v1/namespaces/{self.namespace}/{plural}", body | fields)

    def write_status(self, name: str, *, message: str = "not all resources are ready", **status: Any) -> None:
        """Write a status, as an operator does; other fields are kept."""
        ready = {"type": "Ready", "status": "False", "reason": "Progressing", "message": message}
        stopped = {"type": "Stopped", "status": "True", "reason": "Breakpoint", "message": "at a breakpoint"}
        both = [ready, stopped] if status.get("breakpoints") else [ready]
        conditions = [each | {"lastTransitionTime": PAST} for each in both]
        generation = self.read(name)["metadata"]["generation"]
        usual = {"phase": "UpdateInProgress", "observedGeneration": generation, "conditions": conditions}
        self.send("PATCH", f"{self.path('stacks')}/{name}/status", {"status": usual | status}, content_type=MERGE)

    def read(self, name: str) -> dict[str, Any]:
        return self.send("GET", f"{self.path('stacks')}/{name}")

    def list_all(self, plural: str) -> list[dict[str, Any]]:
        """List the objects of a kind of Hearth."""
        found: list[dict[str, Any]] = self.send("GET", self.path(plural))["items"]
        return found

    def list_marks(self, stack: str) -> list[dict[str, Any]]:
        """List the HealthMarks of a Stack."""
        return [mark for mark in self.list_all("healthmarks") if mark["spec"]["stackName"] == stack]

    def find(self, stack: dict[str, Any], place: str, key: str) -> Any:
        """An annotation, or a field of the spec."""
        fields = stack["metadata"].get("annotations", {}) if place == "annotations" else stack["spec"]
        return fields.get(key)

    def path(self, plural: str) -> str:
        """The path of all objects of a kind of Hearth."""
        return f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{self.namespace}/{plural}"

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Send a request that must be accepted. Retries if the server asks for it, for example for a new kind."""
        answer = self.api.send(method, path, body=body, **options)
        while answer.code == TOO_EARLY:
            time.sleep(answer.body["details"]["retryAfterSeconds"])
            answer = self.api.send(method, path, body=body, **options)
        assert answer.is_accepted, answer.body
        found: dict[str, Any] = answer.body
        return found


def make_problem(resource: str, reason: str, message: str, *, kind: str = "ConfigMap") -> dict[str, str]:
    return {"resource": resource, "kind": kind, "name": f"shop-{resource}", "reason": reason, "message": message}
