"""The policy of manifests/finalizer on a real API server: Stacks are created with their finalizer, which saves a write.

A label binds it to the namespaces of these tests, because other operators here expect Stacks without it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from hearth.kube.client import api_requests
from hearth.model import errors, names
from support import repository
from support.real import operator_fleet
from support.real.operator_fleet import make_stack
from support.real.real_user import RealUser
from support.real.real_world import POLL, TIMEOUT, RealWorld
from support.server import fake_kinds
from support.stories.world import Address
from support.units import sample_manifests

FOLDER = repository.MANIFESTS / "finalizer"
GROUP = "admissionregistration.k8s.io"
POLICY = sample_manifests.kind(GROUP, "v1", "MutatingAdmissionPolicy", namespaced=False)
BINDING = sample_manifests.kind(GROUP, "v1", "MutatingAdmissionPolicyBinding", namespaced=False)


@pytest.fixture
async def bound(world: RealWorld) -> AsyncIterator[RealUser]:
    """A user in whose namespace the policy holds, and in no other."""
    user = world.user
    name = f"test-{user.namespace}"
    policy, binding = (yaml.safe_load((FOLDER / f"{each}.yaml").read_text()) for each in ("policy", "binding"))
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = name
    here = {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}}
    binding["spec"]["matchResources"] = {"namespaceSelector": here}
    made = ((POLICY, policy), (BINDING, binding))
    try:
        for kind, raw in made:
            try:
                await user.connection.request("POST", api_requests.collection_path(kind), body=raw)
            except errors.ApiStatusError as refused:
                if refused.code != 404:
                    raise
                pytest.fail("this API server has no MutatingAdmissionPolicy v1; use one of Kubernetes 1.36 or later")
        await wait_effective(user)
        yield user
    finally:
        # Clean up after a failed test, because no other client does.
        await operator_fleet.abandon_stacks(user)
        for kind, _ in made:
            path = api_requests.object_path(kind, "", name)
            try:
                await user.connection.request("DELETE", path)
            except errors.ApiStatusError as refused:
                if refused.code != 404:
                    raise


async def wait_effective(user: RealUser) -> None:
    """Wait until the policy takes effect: its finalizer then appears in dry runs."""
    path = api_requests.collection_path(fake_kinds.STACK.kind, user.namespace)
    probe = make_stack(user.namespace, size=1, name="probe")
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                shown = await user.connection.request("POST", path, query={"dryRun": "All"}, body=copy.deepcopy(probe))
                if finalizers_of(shown):
                    return
            except errors.ApiStatusError as refused:
                # The server evaluates policies for a new kind only some time after it serves the kind.
                if refused.code != 503:
                    raise
            await asyncio.sleep(POLL)


def finalizers_of(raw: dict[str, Any]) -> list[str]:
    return raw["metadata"].get("finalizers") or []


async def test_a_stack_begins_with_its_finalizer_and_costs_a_write_less(world: RealWorld, bound: RealUser) -> None:
    stack = make_stack(bound.namespace, size=2)
    shared = make_stack(bound.namespace, size=1, name="shared")
    shared["metadata"]["finalizers"] = ["example.com/mine"]

    made = [await bound.create(stack), await bound.create(shared)]

    assert [finalizers_of(each) for each in made] == [[names.FINALIZER], ["example.com/mine", names.FINALIZER]]
    await world.start_controller()
    assert await world.wait_until(lambda: find_unfinished(bound, stack, shared)) == []
    assert world.traffic.count()["apply"] == 3
    assert await find_writers(bound, stack) == []

    for each in (stack, shared):
        await bound.delete(Address.of(each))
    assert await world.wait_until(lambda: find_left(bound, stack)) == []
    assert await world.wait_until(lambda: find_held(bound, shared)) == []
    await bound.patch(Address.of(shared), {"metadata": {"finalizers": None}})


async def test_a_stack_that_was_never_accepted_still_goes(world: RealWorld, bound: RealUser) -> None:
    broken = make_stack(bound.namespace, size=1, name="broken")
    broken["spec"]["template"]["resources"]["c0"]["manifest"]["data"]["key"] = "${ghost.knows}"
    await bound.create(broken)
    await world.start_controller()
    assert await world.wait_until(lambda: find_unrefused(bound, broken)) == []

    await bound.delete(Address.of(broken))

    assert await world.wait_until(lambda: find_left(bound, broken)) == []


async def find_writers(user: RealUser, stack: dict[str, Any]) -> list[str]:
    """The managers that wrote finalizers of a Stack: a finalizer added by admission has no owner."""
    found = await user.find(Address.of(stack)) or {}
    entries = found["metadata"]["managedFields"]
    return [each["manager"] for each in entries if "f:finalizers" in each["fieldsV1"].get("f:metadata", {})]


async def find_unfinished(user: RealUser, *stacks: dict[str, Any]) -> list[str]:
    """The Stacks that are not complete."""
    found = [await user.find(Address.of(each)) or {} for each in stacks]
    return [each["metadata"]["name"] for each in found if (each.get("status") or {}).get("phase") != "CreateComplete"]


async def find_unrefused(user: RealUser, stack: dict[str, Any]) -> list[str]:
    """The Stack, as long as it does not report that its definition is refused."""
    phase = ((await user.find(Address.of(stack)) or {}).get("status") or {}).get("phase")
    return [] if phase == "CreateFailed" else [f"the phase is {phase}"]


async def find_left(user: RealUser, stack: dict[str, Any]) -> list[str]:
    """An objection while the Stack exists."""
    return ["it is there"] if await user.find(Address.of(stack)) is not None else []


async def find_held(user: RealUser, stack: dict[str, Any]) -> list[str]:
    """An objection until only another client's finalizer remains."""
    found = await user.find(Address.of(stack))
    return [] if found is not None and finalizers_of(found) == ["example.com/mine"] else ["ours is there"]
