"""A namespace is deleted with its Stack, on a real API server: nothing is recreated, and external blockers are
reported.
"""

from __future__ import annotations

from typing import Any

from hearth.kube.objects import event_recorder
from hearth.model import names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support.checks import expectations
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

HOLD = "example.com/hold"


def make_stack(namespace: str) -> Object:
    """One child in the namespace, and one cluster-scoped child that a user's finalizer holds."""
    role: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    here: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    return stack_manifests.make_stack(
        {
            "template": {
                "resources": {
                    "here": {"manifest": here},
                    "elsewhere": {"manifest": {**role, "metadata": {"finalizers": [HOLD]}, "rules": []}},
                }
            }
        },
        namespace=namespace,
    )


async def test_a_namespace_goes_with_the_stack_in_it(world: RealWorld) -> None:
    world.tenancy = Mode.TRUSTED
    await world.start_controller()
    made = await world.user.create(make_stack(world.namespace))
    stack = Address.of(made)
    role = Address(
        api_version="rbac.authorization.k8s.io/v1",
        kind="ClusterRole",
        namespace="",
        name=f"shop-elsewhere-{names.digest(world.namespace)}",
    )
    namespace = Address(api_version="v1", kind="Namespace", namespace="", name=world.namespace)

    async def is_complete() -> list[str]:
        found = expectations.status_of(await world.user.find(stack)).get("phase")
        return [] if found == "CreateComplete" else [f"the phase is {found}"]

    async def is_blocked() -> list[str]:
        message = expectations.find_condition(await world.user.find(stack), "DeletionBlocked").get("message", "")
        reported = [each for each in await find_events(world) if HOLD in each["message"]]
        return [] if HOLD in message and role.name in message and reported else [f"{message!r}, events: {reported}"]

    async def is_gone() -> list[str]:
        return [str(each) for each in (stack, role, namespace) if await world.user.find(each) is not None]

    assert await world.wait_until(is_complete) == []
    await world.user.delete(namespace)
    assert await world.wait_until(is_blocked) == []
    await world.user.patch(role, {"metadata": {"finalizers": None}})
    assert await world.wait_until(is_gone) == []


async def test_a_namespace_that_goes_is_held_by_no_breakpoint(world: RealWorld) -> None:
    await world.start_controller()
    here: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}}
    wanted = make_stack(world.namespace)
    wanted["spec"] = {
        "template": {"resources": {"stopped": here, "denied": here}},
        "environment": {
            "breakpoints": [{"resource": "stopped", "at": ["PreDelete"]}],
            "restrictedActions": [{"resource": "denied", "deny": ["Delete"]}],
        },
    }
    stack = Address.of(await world.user.create(wanted))
    namespace = Address(api_version="v1", kind="Namespace", namespace="", name=world.namespace)

    async def is_complete() -> list[str]:
        found = expectations.status_of(await world.user.find(stack)).get("phase")
        return [] if found == "CreateComplete" else [f"the phase is {found}"]

    async def is_gone() -> list[str]:
        return [str(each) for each in (stack, namespace) if await world.user.find(each) is not None]

    assert await world.wait_until(is_complete) == []
    await world.user.delete(namespace)
    assert await world.wait_until(is_gone) == []


async def find_events(world: RealWorld) -> list[Any]:
    """The Events about the namespace."""
    path = f"/api/v1/namespaces/{event_recorder.UNSCOPED}/events"
    query = {"fieldSelector": f"involvedObject.kind=Namespace,involvedObject.name={world.namespace}"}
    page = await world.user.connection.request("GET", path, query=query)
    return list(page["items"])
