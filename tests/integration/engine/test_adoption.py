"""Adoption of objects that another program applied, on a real API server: the owners of the fields afterward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hearth.kube.client import api_requests
from hearth.model.child import Object
from support.real.real_user import find_kind
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

TIMEOUT = 60.0
POLL = 0.1
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
POD: Object = {"metadata": {"labels": {"app": "it"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
ONCE = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "it"}}


def manifest(kind: str, api_version: str = "v1", /, **fields: Any) -> Object:
    """A manifest whose name is its kind."""
    metadata = {"name": f"its-{kind.lower()}", "labels": {"team": "blue", "tier": "old"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
KINDS = [
    manifest("ConfigMap", data={"a": "1"}),
    manifest("Secret", stringData={"a": "1"}),
    manifest("ServiceAccount"),
    manifest("Service", spec={"selector": {"app": "it"}, "ports": [{"name": "http", "port": 80}]}),
    manifest("Deployment", "apps/v1", spec={"replicas": 0, "selector": SELECTOR, "template": POD}),
    manifest(
        "StatefulSet", "apps/v1", spec={"replicas": 0, "serviceName": "it", "selector": SELECTOR, "template": POD}
    ),
    manifest("Pod", spec=POD["spec"]),
    manifest("CronJob", "batch/v1", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": ONCE}}}),
    manifest("Job", "batch/v1", spec={"suspend": True, "template": ONCE}),
    manifest("PersistentVolumeClaim", spec=CLAIM),
]


@pytest.fixture
async def running(world: RealWorld) -> RealWorld:
    """The world with an operator."""
    await world.start_controller()
    return world


def address_of(world: RealWorld, raw: Object) -> Address:
    """The address of an object in the namespace of the test."""
    return Address(
        api_version=raw["apiVersion"], kind=raw["kind"], namespace=world.namespace, name=raw["metadata"]["name"]
    )


async def create(world: RealWorld, raw: Object, *, by: str = "kubectl-client-side-apply") -> Object:
    """An object as `kubectl apply` makes it."""
    metadata = {**raw["metadata"], "namespace": world.namespace, "annotations": {LAST_APPLIED: "{}"}}
    return await world.user.create({**raw, "metadata": metadata}, by=by)


async def apply(world: RealWorld, raw: Object, *, by: str) -> Object:
    """An object as `kubectl apply --server-side` makes it."""
    kind = find_kind(raw["apiVersion"], raw["kind"])
    path = api_requests.object_path(kind, world.namespace, raw["metadata"]["name"])
    query = api_requests.apply_query(manager=by, force=True)
    return await world.user.connection.request("PATCH", path, query=query, body=raw, content_type=api_requests.APPLY)


async def write_stack(world: RealWorld, *manifests: Object, is_new: bool = True, **spec: Any) -> Address:
    """A Stack that adopts these objects."""
    stack = stack_manifests.address_in(world.namespace, "adopting")
    resources = {
        raw["kind"][:1].lower() + raw["kind"][1:]: {"manifest": raw, "readyWhen": ["true"]} for raw in manifests
    }
    spec = {"adoptionPolicy": "Adopt", "template": {"resources": resources}, **spec}
    if is_new:
        await world.user.create(stack_manifests.make_stack(spec, name=stack.name, namespace=world.namespace))
    else:
        await world.user.replace_spec(stack, spec)
    return stack


async def wait_phase(world: RealWorld, stack: Address, phase: str) -> None:
    """Wait until the Stack reports this phase for its current spec."""

    def holds(raw: Object) -> bool:
        status = raw.get("status") or {}
        return bool(status.get("phase") == phase and status.get("observedGeneration") == raw["metadata"]["generation"])

    await wait(world, stack, holds)


async def wait(world: RealWorld, address: Address, holds: Callable[[Object], bool]) -> Object:
    """Wait until the condition holds; return the object."""
    found: Object | None = None
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        found = await world.user.find(address)
        if found is not None and holds(found):
            return found
        await asyncio.sleep(POLL)
    raise AssertionError(f"{address} is {found}")


async def get(world: RealWorld, raw: Object) -> Object:
    """The live object."""
    found = await world.user.find(address_of(world, raw))
    assert found is not None
    return found


def find_managers(raw: Object) -> set[str]:
    """The managers that own fields of the object outside its status."""
    return {entry["manager"] for entry in raw["metadata"]["managedFields"] if not entry.get("subresource")}


@pytest.mark.cluster
async def test_objects_of_every_kind_are_taken_over_whole(running: RealWorld) -> None:
    before = [await create(running, raw) for raw in KINDS]
    stack = await write_stack(running, *KINDS)
    await wait_phase(running, stack, "CreateComplete")
    for old, raw in zip(before, KINDS, strict=True):
        live = await get(running, raw)
        assert live["metadata"]["uid"] == old["metadata"]["uid"]
        assert not find_managers(live) & {"kubectl-client-side-apply", "before-first-apply"}, raw["kind"]
        assert LAST_APPLIED not in live["metadata"]["annotations"]
        assert live.get("spec") == old.get("spec") or raw["kind"] == "Pod", raw["kind"]
    reduced = [{**raw, "metadata": {**raw["metadata"], "labels": {"team": "blue"}}} for raw in KINDS]
    await write_stack(running, *reduced, is_new=False)
    await wait_phase(running, stack, "UpdateComplete")
    for raw in KINDS:
        labels = (await get(running, raw))["metadata"]["labels"]
        assert "tier" not in labels, raw["kind"]
        assert labels["team"] == "blue", raw["kind"]


@pytest.mark.cluster
@pytest.mark.parametrize("manager", ["kubectl", "kustomize-controller", "argocd-controller", "hearth:gone/stack"])
async def test_a_server_side_apply_is_taken_over(running: RealWorld, manager: str) -> None:
    secret = manifest("Secret", stringData={"kept": "1", "left": "2"})
    config = manifest("ConfigMap", data={"kept": "1", "left": "2"})
    for raw in (secret, config):
        await apply(running, raw, by=manager)
    stack = await write_stack(
        running, manifest("Secret", stringData={"kept": "1"}), manifest("ConfigMap", data={"kept": "1"})
    )
    await wait_phase(running, stack, "CreateComplete")
    assert (await get(running, secret))["data"] == {"kept": "MQ=="}
    assert (await get(running, config))["data"] == {"kept": "1"}


@pytest.mark.cluster
async def test_people_and_controllers_keep_what_the_stack_does_not_state(running: RealWorld) -> None:
    await create(running, manifest("ConfigMap", data={"edited": "1", "other": "2"}), by="kubectl-create")
    await apply(running, manifest("ConfigMap", data={"controlled": "1", "shared": "1"}), by="a-controller")
    stack = await write_stack(running, manifest("ConfigMap", data={"edited": "1", "shared": "1"}))
    await wait_phase(running, stack, "CreateComplete")
    await write_stack(running, manifest("ConfigMap", data={"new": "1"}), is_new=False)
    await wait_phase(running, stack, "UpdateComplete")
    live = await get(running, manifest("ConfigMap"))
    assert live["data"] == {"other": "2", "controlled": "1", "shared": "1", "new": "1"}


@pytest.mark.cluster
async def test_a_field_that_cannot_be_removed_stays(running: RealWorld) -> None:
    stated = manifest("PersistentVolumeClaim", spec={**CLAIM, "storageClassName": "special"})
    old = await create(running, stated)
    stack = await write_stack(running, manifest("PersistentVolumeClaim", spec=CLAIM))
    await wait_phase(running, stack, "CreateComplete")
    live = await get(running, stated)
    assert live["metadata"]["uid"] == old["metadata"]["uid"]
    assert live["spec"]["storageClassName"] == "special"
    assert live["metadata"]["annotations"]["hearth.dev/adopted"] == "true"


@pytest.mark.cluster
async def test_a_count_that_an_autoscaler_may_rely_on_stays(running: RealWorld) -> None:
    await create(
        running, manifest("Deployment", "apps/v1", spec={"replicas": 3, "selector": SELECTOR, "template": POD})
    )
    scaled = manifest("Deployment", "apps/v1", spec={"selector": SELECTOR, "template": POD})
    stack = await write_stack(running, scaled)
    await wait_phase(running, stack, "CreateComplete")
    assert (await get(running, scaled))["spec"]["replicas"] == 3


@pytest.mark.cluster
async def test_an_applier_that_came_back_loses_what_leaves_the_template(running: RealWorld) -> None:
    await create(running, manifest("ConfigMap", data={"kept": "1", "left": "2"}))
    stack = await write_stack(running, manifest("ConfigMap", data={"kept": "1", "left": "2"}))
    await wait_phase(running, stack, "CreateComplete")
    await apply(running, manifest("ConfigMap", data={"left": "2", "theirs": "3"}), by="kustomize-controller")
    await write_stack(running, manifest("ConfigMap", data={"kept": "1"}), is_new=False)
    await wait_phase(running, stack, "UpdateComplete")
    assert (await get(running, manifest("ConfigMap")))["data"] == {"kept": "1", "theirs": "3"}
