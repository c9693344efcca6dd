"""Health of a kind without a rule on a real API server: by fields that only its published schema tells the cache to keep."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from hearth.kube.client import api_requests
from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations
from support.real import real_user
from support.real.real_world import RealWorld
from support.stories.world import Address

TIMEOUT = 90.0
"""Seconds for all that is waited for. An API server that is busy with other tests publishes a schema late."""
POLL = 0.1
GADGET: Final = Kind(group="reports.example.org", version="v1", name="Gadget", plural="gadgets", namespaced=True)
TEXT, BOOLEAN, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
STATUS: Final = {
    "phase": TEXT,
    "isRollingUpdate": BOOLEAN,
    "matchedPods": NUMBER,
    "updatedPods": NUMBER,
    "nodeStatus": {"type": "object", "additionalProperties": TEXT},
}
DEFINITION: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{GADGET.plural}.{GADGET.group}"},
    "spec": {
        "group": GADGET.group,
        "scope": "Namespaced",
        "names": {"kind": GADGET.name, "plural": GADGET.plural},
        "versions": [
            {
                "name": GADGET.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "properties": STATUS},
                        },
                    }
                },
            }
        ],
    },
}
REPORTS: Final[tuple[tuple[Object, str], ...]] = (
    ({"phase": "Running", "isRollingUpdate": True}, "its isRollingUpdate is true"),
    ({"phase": "Running", "matchedPods": 4, "updatedPods": 2}, "its updatedPods is 2 of 4"),
    ({"nodeStatus": {"a": "NodeDownloading"}}, "its nodeStatus.a is NodeDownloading"),
)
"""Statuses that are not ready, and what the Stack then says."""


async def report(world: RealWorld, name: str, status: Object) -> None:
    """Write a status of the gadget as its controller does, with no field of the one before."""
    path = api_requests.object_path(GADGET, world.namespace, name) + "/status"
    body = {"status": {**dict.fromkeys(STATUS), **status}}
    await world.user.connection.request("PATCH", path, body=body, content_type=api_requests.MERGE_PATCH)


async def wait_message(world: RealWorld, address: Address, *, is_ready: bool, part: str) -> None:
    """Wait until the Stack is ready, or is not, and says so."""
    condition: dict[str, Any] = {}
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        stack = await world.user.find(address)
        condition = dict(expectations.find_condition(stack or {}, "Ready"))
        if (condition.get("status") == "True") is is_ready and part in condition.get("message", ""):
            return
        await asyncio.sleep(POLL)
    raise AssertionError(f"it says {condition}, not {part!r}")


@pytest.mark.cluster
async def test_a_kind_without_a_rule_is_read_by_what_its_schema_declares(world: RealWorld) -> None:
    """Each report makes the Stack wait in the object's own words, and the next good one makes it ready again."""
    await world.start_controller()
    # The server serves the kind before it publishes the schema, and the Stack uses it at once.
    await real_user.install(world.user, [DEFINITION])
    world.on_kinds()
    address = Address(api_version=f"{names.GROUP}/{names.VERSION}", kind="Stack", namespace=world.namespace, name="own")
    gadget = {"manifest": {"apiVersion": GADGET.api_version, "kind": GADGET.name, "spec": {}}}
    after = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, "dependsOn": ["it"]}
    template = {"resources": {"it": gadget, "after": after}}
    metadata = {"name": address.name, "namespace": world.namespace}
    await world.user.create(
        {"apiVersion": address.api_version, "kind": "Stack", "metadata": metadata, "spec": {"template": template}}
    )
    await wait_message(world, address, is_ready=False, part="has not set status.phase")
    config_map = Address(api_version="v1", kind="ConfigMap", namespace=world.namespace, name="own-after")
    assert await world.user.find(config_map) is None
    for status, said in REPORTS:
        await report(world, "own-it", status)
        await wait_message(world, address, is_ready=False, part=said)
        await report(world, "own-it", {"phase": "Running"})
        await wait_message(world, address, is_ready=True, part="")
