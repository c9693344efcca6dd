"""CustomResourceDefinitions with retained objects, on a real API server, which would delete the objects together with
their kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hearth.kube.client import api_requests
from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories import stack_manifests
from support.stories.world import Address

TIMEOUT = 60.0
POLL = 0.2
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
RETAIN = {"deletionPolicy": "Retain", "readyWhen": ["true"]}


@pytest.fixture
async def group(user: RealUser) -> AsyncIterator[str]:
    """The group of a kind that is deleted afterward."""
    group = f"{user.namespace}.example.com"
    yield group
    with contextlib.suppress(ApiStatusError):
        path = api_requests.object_path(CUSTOM_RESOURCE_DEFINITION, "", f"things.{group}")
        await user.connection.request("DELETE", path)


def make_resources(group: str, *, is_nested: bool) -> dict[str, Any]:
    """A kind, and a retained object of it, directly or in a nested Stack."""
    things = {"kind": "Thing", "plural": "things", "singular": "thing"}
    version = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}
    definition: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": things, "versions": [version]},
    }
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "kept"}, "spec": {"a": 1}}
    retained = {"deletionPolicy": "Retain", "readyWhen": ["true"], "manifest": thing}
    if is_nested:
        spec = {"template": {"resources": {"thing": retained}}}
        nested = {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "Stack", "spec": spec}
        retained = {"manifest": nested}
    return {"definition": {"manifest": definition}, "thing": {**retained, "dependsOn": ["definition"]}}


async def wait_gone(user: RealUser, address: Address) -> None:
    """Wait until the object is deleted."""
    deadline = time.monotonic() + TIMEOUT
    while await user.find(address) is not None:
        assert time.monotonic() < deadline, f"{address.name} is still there"
        await asyncio.sleep(POLL)


@pytest.mark.parametrize("is_nested", [False, True], ids=["flat", "nested"])
async def test_the_kind_of_a_retained_object_outlives_its_stack(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, group: str, *, is_nested: bool
) -> None:
    await workers.hire("--tenancy=trusted")
    template = {"resources": make_resources(group, is_nested=is_nested)}
    await user.create(stack_manifests.make_stack({"template": template}, namespace=user.namespace))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    stack = stack_manifests.address_in(user.namespace)

    await user.delete(stack)
    await wait_gone(user, stack)

    definition = await user.find_named(CUSTOM_RESOURCE_DEFINITION, f"things.{group}")
    assert definition is not None
    assert "deletionTimestamp" not in definition["metadata"]
    assert not any(map(names.is_ours, definition["metadata"].get("annotations") or {}))
    path = f"/apis/{group}/v1/namespaces/{user.namespace}/things/kept"
    assert (await user.connection.request("GET", path))["spec"] == {"a": 1}
