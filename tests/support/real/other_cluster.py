"""A second control plane, Stacks with objects in it, and its tenants.

It uses both API servers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.kube.auth.credentials import Credentials, CredentialSource
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.model.child import Object
from support.real import fault_scenario, real_user
from support.real.operator_process import OperatorProcess
from support.real.real_user import RealUser
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.world import Address

POLL = 0.1
PATIENCE = 90.0
"""Maximum seconds for anything to happen on a machine that is busy with other tests."""
SECRET = "east"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def make_kubeconfig(found: Credentials, *, token: str | None = None, **changed: Any) -> Object:
    """An inline kubeconfig for that server. token: in place of the certificate; changed: fields of the cluster."""
    cluster: Object = {"server": found.server, **changed}
    if found.authority is not None:
        cluster.setdefault("certificate-authority-data", encode(found.authority))
    user: Object = {"token": token}
    if token is None:
        user = {
            "client-certificate-data": encode(found.certificate or b""),
            "client-key-data": encode(found.key or b""),
        }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "east",
        "contexts": [{"name": "east", "context": {"cluster": "east", "user": "east"}}],
        "clusters": [{"name": "east", "cluster": cluster}],
        "users": [{"name": "east", "user": user}],
    }


def encode(raw: bytes) -> str:
    """In base64."""
    return base64.b64encode(raw).decode()


@dataclass(eq=False)
class Region:
    """A namespace here, the namespace with the same name there, and an operator that serves it."""

    here: RealUser
    there: RealUser
    other: Credentials
    """The administrator's credentials for the other cluster."""
    operator: OperatorProcess

    @property
    def namespace(self) -> str:
        """Its name in both clusters."""
        return self.here.namespace

    def address_of(self, name: str) -> Address:
        """The address of a Stack."""
        return stack_manifests.address_in(self.namespace, name)

    async def put_kubeconfig(self, content: Object | str, *, name: str = SECRET, key: str = "value") -> None:
        """Store a kubeconfig in a Secret."""
        text = content if isinstance(content, str) else json.dumps(content)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": {key: encode(text.encode())},
        }
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{name}"
        query = {"fieldManager": "test", "force": "true"}
        await self.here.connection.request(
            "PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml"
        )

    async def create(self, resources: Object, *, name: str = "shop", **spec: Any) -> None:
        """Create a Stack with objects in the other cluster, without waiting."""
        reference = {"secretRef": {"name": SECRET}}
        await self.here.create(
            stack_manifests.make_stack(
                {"kubeConfig": reference, "template": {"resources": resources}, **spec},
                name=name,
                namespace=self.namespace,
            )
        )

    async def edit(self, patch: Object, *, name: str = "shop") -> None:
        """Change the spec of a Stack."""
        await self.here.patch(self.address_of(name), {"spec": patch})

    async def find_status(self, name: str = "shop") -> dict[str, Any]:
        """The status for the Stack's current spec; empty before."""
        found = await self.here.find(self.address_of(name)) or {}
        status = dict(found.get("status") or {})
        is_current = status.get("observedGeneration") == (found.get("metadata") or {}).get("generation")
        return status if is_current else {}

    async def until(self, name: str = "shop", **wanted: str) -> dict[str, Any]:
        """Wait until the status has this `phase`, and `Ready` this `reason` and part of the `message`."""
        found: dict[str, Any] = {}
        async for _ in attempts():
            status = await self.find_status(name)
            conditions: list[dict[str, Any]] = status.get("conditions") or []
            ready = next((each for each in conditions if each["type"] == "Ready"), {})
            found = {"phase": status.get("phase", ""), **{key: ready.get(key, "") for key in ("reason", "message")}}
            if all(text in found[key] if key == "message" else text == found[key] for key, text in wanted.items()):
                return status
        log = self.operator.log_file.read_text()[-4000:] if self.operator.log_file is not None else ""
        raise AssertionError(f"expected {wanted}, found {found}\n{log}")

    async def until_blocked(self, *, reason: str) -> str:
        """Wait until the deletion of the Stack is blocked for that reason; return the message."""
        found: list[Any] = []
        async for _ in attempts():
            status = (await self.here.find(self.address_of("shop")) or {}).get("status") or {}
            found = [each for each in status.get("conditions") or () if each["type"] == "DeletionBlocked"]
            if [each["reason"] for each in found if each["status"] == "True"] == [reason]:
                return str(found[0]["message"])
        raise AssertionError(f"expected {reason}, found {found}")

    async def until_gone(self, name: str = "shop") -> None:
        """Wait until the Stack is deleted."""
        found: Object | None = None
        async for _ in attempts():
            found = await self.here.find(self.address_of(name))
            if found is None:
                return
        raise AssertionError(f"not gone: {found}")

    async def list_there(self, user: RealUser | None = None) -> dict[str, Object]:
        """The ConfigMaps of all Stacks in the other cluster, or in the cluster of that user, by name."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        page = await (user or self.there).connection.request(
            "GET", path, query={"labelSelector": names.LABEL_STACK_UID}
        )
        return {raw["metadata"]["name"]: raw for raw in page["items"]}

    async def until_there(self, **wanted: str) -> dict[str, Object]:
        """Wait until exactly these ConfigMaps exist there, each with that value of its key `v`."""
        held: dict[str, str] = {}
        async for _ in attempts():
            found = await self.list_there()
            held = {name: raw["data"]["v"] for name, raw in found.items()}
            if held == {f"shop-{name}": value for name, value in wanted.items()}:
                return found
        raise AssertionError(f"expected {wanted}, found {held}")

    async def make_account(self, name: str, *, role: str = "cluster-admin") -> str:
        """Create a ServiceAccount there with that ClusterRole; return its token."""
        connection, place = self.there.connection, f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        await connection.request("POST", place, body={"metadata": {"name": name}})
        binding = {
            "metadata": {"name": f"{self.namespace}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
        }
        await connection.request("POST", f"{RBAC}/clusterrolebindings", body=binding)
        made = await connection.request("POST", f"{place}/{name}/token", body={"spec": {}})
        return str(made["status"]["token"])

    async def delete_account(self, name: str) -> None:
        """Delete the account, which invalidates its token."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}"
        await self.there.connection.request("DELETE", path)

    def check_operator(self) -> None:
        """Check that the operator runs, and logged no unexpected messages."""
        assert self.operator.is_alive
        assert self.operator.find_complaints() == []


async def attempts() -> AsyncIterator[None]:
    """Yield repeatedly until the time limit."""
    async with asyncio.timeout(PATIENCE * 2):
        for _ in range(round(PATIENCE / POLL)):
            yield
            await asyncio.sleep(POLL)


def config(value: str, *, needs: str = "") -> Object:
    """A ConfigMap with that value, which requires another resource."""
    data = {"v": value, **({"above": f"${{{needs}.data.v}}"} if needs else {})}
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}


@contextlib.asynccontextmanager
async def run_region(
    home: CredentialSource, other: CredentialSource, kubeconfig: Path, folder: Path, *, options: tuple[str, ...] = ()
) -> AsyncIterator[Region]:
    """A fresh region with the kubeconfig of the other cluster's administrator in its Secret."""
    async with contextlib.AsyncExitStack() as parts:
        here = await parts.enter_async_context(Connection(home))
        there = await parts.enter_async_context(Connection(other))
        namespace = await fault_scenario.make_namespace(here, parts)
        await there.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        user = RealUser(here, namespace)
        await real_user.install(user, list(fake_kinds.make_crds()))
        operator = OperatorProcess(
            kubeconfig=kubeconfig,
            namespace=namespace,
            log_file=folder / "operator.log",
            options=("--allow-loopback-clusters", *options),
        )
        region = Region(user, RealUser(there, namespace), other.load(), operator)
        await region.put_kubeconfig(make_kubeconfig(region.other))
        await operator.start()
        parts.push_async_callback(operator.kill)
        yield region
