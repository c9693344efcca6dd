"""A user who acts on all Stacks of a benchmark at once, and waits for the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bench.instruments import bare_api, place
from bench.instruments import workload as workload_module
from bench.instruments.lab import Lab
from bench.instruments.workload import INSTANCE, Workload
from hearth.kube.client import api_requests
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK

Act: TypeAlias = "Callable[[Lab, Workload], Awaitable[None]]"
"""The user's action on the Stacks of a workload."""


async def create(lab: Lab, workload: Workload) -> None:
    """Create every Stack and wait until all report completion."""
    account = {"serviceAccountName": place.ACCOUNT} if lab.options.as_account else {}

    async def send(stack: Object) -> None:
        path = api_requests.collection_path(find_kind(stack), lab.namespace)
        await lab.api.send("POST", path, body={**stack, "spec": {**stack["spec"], **account}})

    await bare_api.for_each(workload.make_stacks(lab.namespace), send)
    await lab.stacks.wait_settled(workload.stacks, generation=1)


async def change(lab: Lab, workload: Workload) -> None:
    """Change one field of each child and wait until all Stacks report completion."""

    async def send(stack: Object) -> None:
        await lab.api.send(
            "PATCH", path_of(stack), body=workload_module.make_change("two"), content_type=bare_api.MERGE
        )

    await bare_api.for_each(workload.make_stacks(lab.namespace), send)
    await lab.stacks.wait_settled(workload.stacks, generation=2)


async def delete(lab: Lab, workload: Workload) -> None:
    """Delete every Stack and wait for the deletion."""

    async def send(stack: Object) -> None:
        await lab.api.send("DELETE", path_of(stack))

    await bare_api.for_each(workload.make_stacks(lab.namespace), send)
    await lab.stacks.wait_gone()


def path_of(stack: Object) -> str:
    """The path of the Stack or group."""
    return api_requests.object_path(find_kind(stack), stack["metadata"]["namespace"], stack["metadata"]["name"])


def find_kind(stack: Object) -> Kind:
    """The kind of a Stack, a group, or an instance of a StackDefinition."""
    return {kind.name: kind for kind in (STACK, RESOURCE_GROUP)}.get(stack["kind"], INSTANCE)
