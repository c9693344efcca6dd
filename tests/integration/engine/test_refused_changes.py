"""Changes that a real API server refuses or answers ambiguously."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hearth.model import errors
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support.checks import expectations
from support.real import real_user
from support.real.real_world import RealWorld
from support.stories import stack_manifests

CRD = "apiextensions.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
OF_A_PROBE = ("generateName", "must be config", "already allocated", "exceeded quota", "must be spec.names.plural")
"""Phrases of refusals that concern only the operator's trial requests."""


class Site:
    """A Stack of one resource in a namespace of its own, and a group of kinds that no other test uses."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.group = f"{world.namespace}.example.com"
        self.stack = stack_manifests.address_in(world.namespace)

    async def create(self, manifest: Object, **policy: str) -> None:
        """Make the Stack and wait until it is complete."""
        await self.world.user.create(
            stack_manifests.make_stack(make_spec(manifest, policy), namespace=self.stack.namespace)
        )
        await self.wait("Complete")

    async def edit(self, manifest: Object, **policy: str) -> None:
        """Change the resource."""
        await self.world.user.replace_spec(self.stack, make_spec(manifest, policy))

    async def wait(self, reason: str, *parts: str) -> Object:
        """Wait until the Stack reports this at rest, and return it. Messages about trial requests must never appear."""

        async def look() -> list[str]:
            stack = await self.world.user.find(self.stack)
            ready = expectations.find_condition(stack or {}, "Ready")
            said = f"{ready.get('reason')}: {ready.get('message')}"
            assert not any(word in said for word in OF_A_PROBE), said
            is_current = (
                stack is not None and stack["status"].get("observedGeneration") == stack["metadata"]["generation"]
            )
            return (
                [] if is_current and ready.get("reason") == reason and all(part in said for part in parts) else [said]
            )

        assert await self.world.wait_rest(look) == []
        return await self.world.user.find(self.stack) or {}

    async def get(self, path: str) -> Object:
        return await self.world.user.connection.request("GET", path)

    async def define(self, kind: str, *versions: Object, scope: str = "Namespaced", rules: Any = ()) -> Object:
        """A CustomResourceDefinition of the group, established."""
        definition = self.definition(kind, *versions, scope=scope)
        for version in definition["spec"]["versions"]:
            if rules:
                version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules
        await real_user.install(self.world.user, [definition])
        return definition

    def definition(self, kind: str, *versions: Object, scope: str = "Namespaced") -> Object:
        """Return the CustomResourceDefinition. versions: the properties of the spec by version."""
        schemas = {each["name"]: {"type": "object", "properties": {"spec": each["spec"]}} for each in versions}
        return real_user.make_crd(self.group, kind, schemas, scope=scope)

    async def remove_kinds(self) -> None:
        """Delete the kinds of the group, because they are cluster-scoped."""
        found = await self.world.user.connection.request("GET", DEFINITIONS)
        for each in found["items"]:
            if each["spec"]["group"] == self.group:
                with contextlib.suppress(errors.ApiStatusError):
                    await self.world.user.connection.request("DELETE", f"{DEFINITIONS}/{each['metadata']['name']}")


@pytest.fixture
async def site(world: RealWorld) -> AsyncIterator[Site]:
    """A site with an operator that may write anywhere."""
    world.tenancy = Mode.TRUSTED
    await world.start_controller()
    made = Site(world)
    yield made
    await world.kill_controller()
    await made.remove_kinds()


def make_spec(manifest: Object, policy: dict[str, str]) -> Object:
    """A Stack's spec with that resource."""
    resource = {"manifest": manifest, "readyWhen": ["true"], **({"updatePolicy": policy} if policy else {})}
    return {"template": {"resources": {"a": resource}}}


def service(address: str) -> Object:
    """A Service with a fixed node port, and its address."""
    spec = {
        "type": "NodePort",
        "clusterIP": address,
        "selector": {"a": "b"},
        "ports": [{"port": 80, "nodePort": 30083}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fixed"}, "spec": spec}


async def test_a_service_that_holds_a_port_itself(site: Site) -> None:
    """A new Service cannot get the port while the old one exists, so it is unknown whether it would be accepted.

    The API server does not allocate the first sixteen addresses to other Services.
    """
    path = f"/api/v1/namespaces/{site.world.namespace}/services/fixed"
    await site.create(service("10.0.0.13"))
    first = await site.get(path)
    await site.edit(service("10.0.0.14"))
    await site.wait("Immutable", "spec.clusterIPs", "may not change once set", "DeleteFirst")
    assert (await site.get(path))["metadata"]["uid"] == first["metadata"]["uid"]
    await site.edit(service("10.0.0.14"), replace="DeleteFirst")
    await site.wait("Complete")
    assert (await site.get(path))["spec"]["clusterIP"] == "10.0.0.14"


@pytest.mark.parametrize("replace", ["DeleteFirst", "Never"])
async def test_a_kind_with_one_fixed_name(site: Site, replace: str) -> None:
    locked = {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "mode is immutable"}],
    }
    rules = [{"rule": "self.metadata.name == 'config'", "message": "the name must be config"}]
    await site.define("Config", {"name": "v1", "spec": {"type": "object", "properties": {"mode": locked}}}, rules=rules)
    manifest = {
        "apiVersion": f"{site.group}/v1",
        "kind": "Config",
        "metadata": {"name": "config"},
        "spec": {"mode": "a"},
    }
    path = f"/apis/{site.group}/v1/namespaces/{site.world.namespace}/configs/config"
    await site.create(manifest, replace=replace)
    await site.edit({**manifest, "spec": {"mode": "b"}}, replace=replace)
    if replace == "Never":
        await site.wait("Immutable", "spec.mode")
    else:
        await site.wait("Complete")
    assert (await site.get(path))["spec"]["mode"] == ("a" if replace == "Never" else "b")


async def test_the_scope_of_a_kind(site: Site) -> None:
    path = f"{DEFINITIONS}/things.{site.group}"
    await site.create(site.definition("Thing", {"name": "v1", "spec": OPEN}))
    await site.edit(site.definition("Thing", {"name": "v1", "spec": OPEN}, scope="Cluster"))
    await site.wait("Immutable", "spec.scope")
    await site.edit(site.definition("Thing", {"name": "v1", "spec": {"type": "objekt"}}))
    await site.wait("Invalid", "objekt")
    assert (await site.get(path))["spec"]["scope"] == "Namespaced"
    await site.edit(site.definition("Thing", {"name": "v1", "spec": OPEN}, scope="Cluster"), replace="DeleteFirst")
    await site.wait("Complete")
    assert (await site.get(path))["spec"]["scope"] == "Cluster"


async def test_a_stored_version_that_leaves_a_kind(site: Site) -> None:
    old, new = {"name": "v1alpha1", "spec": OPEN}, {"name": "v1", "spec": OPEN}
    await site.create(site.definition("Thing", old, new))
    await site.edit(site.definition("Thing", new))
    await site.wait("Immutable", "status.storedVersions")
    await site.edit(site.definition("Thing", new), replace="DeleteFirst")
    await site.wait("Complete")


async def test_a_full_quota(site: Site) -> None:
    """The quota has no room for a replacement next to the old object; other mistakes still belong to the definition."""
    metadata = {"name": "few", "namespace": site.world.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"services": "1"}}}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fixed"}}
    ports = [{"port": 80}]
    path = f"/api/v1/namespaces/{site.world.namespace}/services/fixed"
    await site.create({**manifest, "spec": {"selector": {"a": "b"}, "ports": ports}})
    await site.world.user.connection.request(
        "POST", f"/api/v1/namespaces/{site.world.namespace}/resourcequotas", body=quota
    )
    headless = {**manifest, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": ports}}

    async def is_counted() -> list[str]:
        found = await site.get(f"/api/v1/namespaces/{site.world.namespace}/resourcequotas/few")
        return [] if found.get("status", {}).get("used", {}).get("services") == "1" else ["not counted"]

    assert await site.world.wait_until(is_counted) == []
    await site.edit(headless)
    await site.wait("Immutable", "spec.clusterIPs", "DeleteFirst")
    await site.edit(
        {**manifest, "spec": {"type": "Nonsense", "selector": {"a": "b"}, "ports": ports}}, replace="DeleteFirst"
    )
    await site.wait("Invalid", "spec.type")
    assert (await site.get(path))["spec"]["type"] == "ClusterIP"
    await site.edit(headless, replace="DeleteFirst")
    await site.wait("Complete")
    assert (await site.get(path))["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("is_stored", [False, True], ids=["the old one is stored", "the new one is stored"])
@pytest.mark.parametrize(
    "more", [{}, {"more": "x"}, {"policy": "allow"}], ids=["as before", "a new field", "a defaulted field"]
)
async def test_another_version_of_a_kind(site: Site, more: dict[str, str], *, is_stored: bool) -> None:
    size = {"size": {"type": "integer"}, "gone": {"type": "integer"}}
    added = {"policy": {"type": "string", "default": "deny"}, "more": {"type": "string"}}
    old = {"name": "v1alpha1", "spec": {"type": "object", "properties": size}}
    new = {"name": "v1beta1", "spec": {"type": "object", "properties": {**size, **added}}}
    await site.define("Gizmo", *((new, old) if is_stored else (old, new)))
    head = {"kind": "Gizmo", "metadata": {"name": "one"}}
    path = f"/apis/{site.group}/v1beta1/namespaces/{site.world.namespace}/gizmos/one"
    await site.create({**head, "apiVersion": f"{site.group}/v1alpha1", "spec": {"size": 1, "gone": 1}})
    first = await site.get(path)
    newer = {**head, "apiVersion": f"{site.group}/v1beta1"}
    await site.edit({**newer, "spec": {"size": 2, **more}})
    await site.wait("Complete")
    found = await site.get(path)
    expected = {"policy": "deny", **more} if is_stored else {}
    assert (found["metadata"]["uid"], found["spec"]) == (first["metadata"]["uid"], {"size": 2, **expected})
    before = site.world.traffic.count()
    await site.edit({**newer, "spec": {"size": 3, **more}})
    await site.wait("Complete")
    after = site.world.traffic.count()
    assert (after["apply"] - before["apply"], after["change"] - before["change"]) == (1, 0)
