"""Requests of one account to a real API server; refusals are returned, not raised.

Imports nothing of Hearth, so that the same test can run an older operator.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

STACK_VERSION = "hearth.dev/v1alpha1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
HOME = {
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
    "Stack": (STACK_VERSION, "stacks"),
    "ResourceGroup": (STACK_VERSION, "resourcegroups"),
    "HealthMark": (STACK_VERSION, "healthmarks"),
    "StackSnapshot": (STACK_VERSION, "stacksnapshots"),
    "StackPlan": (STACK_VERSION, "stackplans"),
    "StackTemplate": (STACK_VERSION, "stacktemplates"),
    "StackDefinition": (STACK_VERSION, "stackdefinitions"),
    "Site": ("platform.example/v1alpha1", "sites"),
    "VolumeSnapshot": ("snapshot.storage.k8s.io/v1", "volumesnapshots"),
    "ControllerRevision": ("apps/v1", "controllerrevisions"),
    "Deployment": ("apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "Event": ("v1", "events"),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
}
"""Version and plural of each kind that is not in `v1` or has an irregular plural."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response."""

    code: int
    text: str
    warnings: tuple[str, ...] = ()
    """Warnings that kubectl shows as `Warning: …`."""

    @property
    def is_accepted(self) -> bool:
        """Whether the server accepted the request."""
        return self.code < 300

    @property
    def body(self) -> Object:
        """The parsed JSON object."""
        parsed: Object = json.loads(self.text)
        return parsed

    def expect(self) -> Object:
        """The body of a response that must not be a refusal."""
        assert self.is_accepted, f"{self.code}: {self.text[:2000]}"
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The API server as one account sees it."""

    pool: Any
    """A urllib3 pool with the administrator's certificate."""
    server: str
    account: str = ""
    """`namespace/name` of the ServiceAccount that is impersonated; "" for the administrator."""

    def acting_as(self, namespace: str, name: str) -> Api:
        """The same server as that ServiceAccount sees it."""
        return replace(self, account=f"{namespace}/{name}")

    def send(
        self, method: str, path: str, *, body: object = None, content_type: str = JSON, **query: str | int | bool
    ) -> Answer:
        """One request. body: bytes or text unchanged, anything else as JSON."""
        raw = body if isinstance(body, bytes | str) else json.dumps(body)
        headers = {"Content-Type": content_type, "Accept": JSON, **self._find_impersonation()}
        url = f"{self.server}{path}?{urllib.parse.urlencode(query)}"
        data = None if body is None else raw
        answer = self.pool.request(method, url, body=data, headers=headers, retries=False, timeout=60)
        return Answer(
            code=answer.status,
            text=answer.data.decode(errors="replace"),
            warnings=tuple(parse_warning(each) for each in answer.headers.getlist("Warning")),
        )

    def create(self, manifest: Object) -> Object:
        """Like `kubectl create`; returns the created object. Use `try_create` if it may be refused."""
        return self.try_create(manifest).expect()

    def try_create(self, manifest: Object) -> Answer:
        """As `kubectl create`."""
        path = find_path(manifest["kind"], manifest["metadata"].get("namespace", ""))
        return self.send("POST", path, body=manifest)

    def apply(self, manifest: Object, *, manager: str = "kubectl", force: bool = True) -> Answer:
        """As `kubectl apply --server-side --force-conflicts --field-manager=…`."""
        metadata = manifest["metadata"]
        path = find_path(manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        return self.send(
            "PATCH", path, body=manifest, content_type=APPLY, fieldManager=manager, force=str(force).lower()
        )

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object; None if it does not exist."""
        answer = self.send("GET", find_path(kind, namespace, name))
        return None if answer.code == 404 else answer.expect()

    def list(self, kind: str, namespace: str = "", **query: str) -> list[Object]:
        """All objects of a kind in one or all namespaces. query: for example `labelSelector`."""
        version, _ = find_home(kind)
        items = self.send("GET", find_path(kind, namespace), **query).expect()["items"]
        return [{"apiVersion": version, "kind": kind, **each} for each in items]

    def patch(self, kind: str, namespace: str, name: str, patch: object, *, subresource: str = "") -> Answer:
        """As `kubectl patch --type=merge [--subresource=…]`; a list is a JSON patch."""
        content_type = JSON_PATCH if isinstance(patch, list) else MERGE
        path = find_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return self.send("PATCH", path, body=patch, content_type=content_type)

    def annotate(self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]) -> Answer:
        """As `kubectl annotate --overwrite`; None removes."""
        return self.patch(kind, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    def delete(self, kind: str, namespace: str, name: str) -> Answer:
        """As `kubectl delete --wait=false`."""
        return self.send("DELETE", find_path(kind, namespace, name))

    def delete_all(self, kind: str, namespace: str, **query: str) -> Answer:
        """Like `kubectl delete --all --wait=false`, after removing finalizers."""
        for each in self.list(kind, namespace, **query):
            if each["metadata"].get("finalizers"):
                self.patch(kind, namespace, each["metadata"]["name"], {"metadata": {"finalizers": None}})
        return self.send("DELETE", find_path(kind, namespace), **query)

    def _find_impersonation(self) -> dict[str, str]:
        if not self.account:
            return {}
        namespace, name = self.account.split("/")
        return {
            "Impersonate-User": f"system:serviceaccount:{namespace}:{name}",
            "Impersonate-Group": "system:authenticated",
        }


def parse_warning(header: str) -> str:
    """The text in a header as the API server writes it: `299 - "text"`."""
    return re.sub(r"\\(.)", r"\1", header.partition('"')[2].rpartition('"')[0])


def find_home(kind: str) -> tuple[str, str]:
    """API version and plural of a kind."""
    return HOME.get(kind, ("v1", f"{kind.lower()}s"))


def find_path(kind: str, namespace: str = "", name: str = "") -> str:
    """The path of an object, or of the collection of its kind; nothing in it is quoted."""
    version, plural = find_home(kind)
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return "".join([prefix, f"/namespaces/{namespace}" if namespace else "", f"/{plural}", f"/{name}" if name else ""])
