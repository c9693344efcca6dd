"""ResourceGroups on a real API server: the example, `kubectl scale`, and a real autoscaler."""

from __future__ import annotations

from typing import Any

import yaml

from hearth.model import names
from hearth.model.child import Object
from support import repository
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

EXAMPLE = repository.EXAMPLES / "group.yaml"
API_VERSION = f"{names.GROUP}/{names.VERSION}"
SCALERS = "/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/workers"
AUTOSCALER_SECONDS = 120.0
"""The controller manager checks each autoscaler every 15 s, and new kinds every 30 s."""


def dig(value: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


async def wait_for(world: RealWorld, address: Address, **wanted: Any) -> Object:
    """Wait until the object's fields have these values; `__` means a dot."""

    async def look() -> list[str]:
        found = await world.user.find(address) or {}
        fields = {key.replace("__", "."): value for key, value in wanted.items()}
        return [f"{path}: {dig(found, path)}" for path, value in fields.items() if dig(found, path) != value]

    assert await world.wait_until(look) == []
    return await world.user.find(address) or {}


async def count(user: RealUser, group: Object) -> int:
    """Number of Deployments or ConfigMaps that match the selector of a group."""
    paths = ("/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/configmaps")
    query = {"labelSelector": group["status"]["selector"]}
    pages = [await user.connection.request("GET", path.format(user.namespace), query=query) for path in paths]
    return sum(len(page["items"]) for page in pages)


async def test_the_example_is_scaled_and_updated(world: RealWorld) -> None:
    manifest = yaml.safe_load(EXAMPLE.read_text())
    address = Address(
        api_version=API_VERSION, kind="ResourceGroup", namespace=world.namespace, name=manifest["metadata"]["name"]
    )
    await world.start_controller()
    await world.user.create({**manifest, "metadata": {**manifest["metadata"], "namespace": world.namespace}})
    made = await wait_for(world, address, status__phase="CreateComplete", status__readyReplicas=3)
    assert await count(world.user, made) == 3

    answer = await world.user.scale(address, 4, manager="kubectl")
    assert answer["spec"]["replicas"] == 4
    grown = await wait_for(world, address, status__phase="UpdateComplete", status__replicas=4, status__readyReplicas=4)
    assert await count(world.user, grown) == 4

    parameters = {**manifest["spec"]["parameters"], "memory": "48Mi"}
    await world.user.patch(address, {"spec": {"parameters": parameters}})
    generation = (await world.user.find(address) or {})["metadata"]["generation"]
    await wait_for(world, address, status__phase="UpdateComplete", status__observedGeneration=generation)
    for index in range(4):
        member = Address(api_version="apps/v1", kind="Deployment", namespace=world.namespace, name=f"caches-{index}")
        found = await world.user.find(member) or {}
        container = found["spec"]["template"]["spec"]["containers"][0]
        assert container["env"] == [{"name": "INDEX", "value": str(index)}]
        assert container["resources"]["requests"] == {"memory": "48Mi"}
    await world.user.delete(address)
    await world.wait_until(lambda: find_left(world, address))


async def find_left(world: RealWorld, address: Address) -> list[str]:
    """The object, if it is still there."""
    return ["it is still there"] if await world.user.find(address) is not None else []


async def test_what_an_autoscaler_writes_is_not_undone(world: RealWorld) -> None:
    world.timeout = AUTOSCALER_SECONDS
    group: Object = {
        "apiVersion": API_VERSION,
        "kind": "ResourceGroup",
        "spec": {
            "replicas": 1,
            "parameters": {"size": "small"},
            "template": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "${params.size}"}}},
        },
    }
    scaler: Object = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {
            "scaleTargetRef": {"apiVersion": API_VERSION, "kind": "ResourceGroup", "name": "${workers.metadata.name}"},
            "minReplicas": 3,
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    }
    # Its metrics are not served here; a size below its minimum needs none.
    resources = {"workers": {"manifest": group}, "scaler": {"manifest": scaler, "readyWhen": ["true"]}}
    shop = stack_manifests.address_in(world.namespace)
    workers = Address(api_version=API_VERSION, kind="ResourceGroup", namespace=world.namespace, name="shop-workers")
    await world.start_controller()
    spec = {"template": {"resources": resources}}
    await world.user.create(stack_manifests.make_stack(spec, namespace=world.namespace))
    scaled = await wait_for(world, workers, spec__replicas=3, status__replicas=3, status__readyReplicas=3)
    entries = scaled["metadata"]["managedFields"]
    assert [each["manager"] for each in entries if each.get("subresource") == "scale"] == ["kube-controller-manager"]

    group["spec"]["parameters"] = {"size": "large"}
    await world.user.replace_spec(shop, spec)
    await wait_for(world, shop, status__phase="UpdateComplete")
    after = await wait_for(world, workers, spec__replicas=3, spec__parameters__size="large", status__readyReplicas=3)
    assert after["metadata"]["uid"] == scaled["metadata"]["uid"]

    scaler["spec"]["minReplicas"] = 4
    await world.user.replace_spec(shop, spec)
    await wait_for(world, workers, spec__replicas=4, status__readyReplicas=4)
    await world.user.delete(shop)
    await world.wait_until(lambda: find_left(world, shop))
