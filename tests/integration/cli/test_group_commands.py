"""What `kubectl stack` shows and writes of ResourceGroups, on a real API server with an operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address


@pytest.fixture
def kubectl_stack(kubeconfig: Path, namespace: str) -> StackCommand:
    """The command, in the namespace of the test."""
    return StackCommand(kubeconfig=kubeconfig, namespace=namespace)


def make_group(namespace: str) -> dict[str, Any]:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"i": "${index}"}}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {"replicas": 2, "template": {"manifest": manifest}},
    }


async def test_a_group_is_scaled_and_followed(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """Through the scale subresource, until its members are ready; an unknown group and a size out of range are errors."""
    await workers.hire()
    await user.create(make_group(user.namespace))

    done = await kubectl_stack.expect("scale", "rg/queue", "--replicas", "3", "--wait", "--timeout", "60s")
    assert "resourcegroup.hearth.dev/queue scaled: spec.replicas=3" in done
    assert "resourcegroup/queue: CreateComplete 3/3" in done or "resourcegroup/queue: UpdateComplete 3/3" in done
    last = Address(api_version="v1", kind="ConfigMap", namespace=user.namespace, name="queue-2")
    assert await user.find(last) is not None
    assert "already has spec.replicas=3" in await kubectl_stack.expect("scale", "queue", "--replicas", "3")
    await kubectl_stack.expect("scale", "queue", "--replicas", "1", "--wait", "--timeout", "60s")

    assert await user.find(last) is None
    assert 'resourcegroups.hearth.dev "web" not found' in await kubectl_stack.expect(
        "scale", "web", "--replicas", "1", code=1
    )
    await kubectl_stack.expect("scale", "queue", "--replicas", "10001", code=2)


async def test_a_group_is_seen(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """In the list with all others and by its name, in every format."""
    await workers.hire()
    await user.create(make_group(user.namespace))
    await kubectl_stack.expect("scale", "queue", "--replicas", "2", "--wait", "--timeout", "60s")

    for asked in (("list",), ("list", "rg/queue")):
        line = (await kubectl_stack.expect(*asked)).splitlines()[1]
        assert line.split()[:4] == ["rg/queue", "CreateComplete", "True", "2/2"]
    assert await kubectl_stack.expect("list", "-o", "name") == "resourcegroup.hearth.dev/queue\n"
    assert json.loads(await kubectl_stack.expect("list", "rg/queue", "-o", "json"))["kind"] == "ResourceGroup"
    assert 'stacks.hearth.dev "queue" not found' in await kubectl_stack.expect("list", "queue", code=1)
    tree = (await kubectl_stack.expect("tree", "resourcegroup/queue")).splitlines()
    assert tree[0].startswith(f"rg/queue in {user.namespace}  CreateComplete  2/2")
    assert [line.split()[:5] for line in tree[1:3]] == [
        ["├─", "✔", "0", "configmap/queue-0", "ready"],
        ["└─", "✔", "1", "configmap/queue-1", "ready"],
    ]
    assert 'resourcegroups.hearth.dev "shop" not found' in await kubectl_stack.expect("tree", "rg/shop", code=1)


async def test_a_group_in_a_stack_is_seen_with_its_members(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    """Below its resource."""
    await workers.hire()
    group = make_group(user.namespace)
    manifest = {"apiVersion": group["apiVersion"], "kind": group["kind"], "spec": group["spec"]}
    await user.create(
        {
            "apiVersion": "hearth.dev/v1alpha1",
            "kind": "Stack",
            "metadata": {"name": "shop", "namespace": user.namespace},
            "spec": {"template": {"resources": {"queue": {"manifest": manifest}}}},
        }
    )
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")

    tree = (await kubectl_stack.expect("tree", "shop")).splitlines()

    assert tree[1].split()[:5] == ["└─", "✔", "queue", "resourcegroup.hearth.dev/shop-queue", "ready"]
    assert [line.split()[:3] for line in tree[2:4]] == [["├─", "✔", "0"], ["└─", "✔", "1"]]


async def test_a_group_is_steered_and_explained(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """With the commands for Stacks, each on the group itself; what a group has not is said."""
    await workers.hire()
    await user.create(make_group(user.namespace))
    assert "resourcegroup/queue: CreateComplete 2/2" in await kubectl_stack.expect(
        "wait", "rg/queue", "--timeout", "60s"
    )

    paused = await kubectl_stack.expect("pause", "rg/queue", "--wait", "--timeout", "60s")
    why = await kubectl_stack.expect("why", "rg/queue", code=1)
    await kubectl_stack.expect("unpause", "rg/queue", "--wait", "--timeout", "60s")
    await kubectl_stack.expect("suspend", "rg/queue", "--wait", "--timeout", "60s")
    await kubectl_stack.expect("resume", "rg/queue", "--wait", "--timeout", "60s")
    checked = await kubectl_stack.expect("check", "rg/queue", "--wait", "--timeout", "60s")

    assert "resourcegroup.hearth.dev/queue patched: spec.paused=true" in paused
    assert why.splitlines()[0].startswith("rg/queue  ")
    assert f"kubectl stack unpause rg/queue -n {user.namespace}" in why
    assert "checked 2 objects: no problem" in checked
    assert "rg/queue/1: nothing is wrong" in await kubectl_stack.expect("why", "rg/queue/1")
    assert "rg/queue has no resource '7'; resources: 0, 1" in await kubectl_stack.expect("why", "rg/queue/7", code=1)
    assert "nothing has failed: rg/queue" in await kubectl_stack.expect("retry", "rg/queue", code=1)
    assert "has no rollback" in await kubectl_stack.expect("rollback", "rg/queue", code=1)
    assert "a ResourceGroup has no history" in await kubectl_stack.expect("history", "rg/queue", code=1)
    for verb in (("snapshot", "rg/queue"), ("restore", "rg/queue", "before")):
        assert "a ResourceGroup has no snapshots" in await kubectl_stack.expect(*verb, code=1)
    assert 'resourcegroups.hearth.dev "none" not found' in await kubectl_stack.expect("wait", "rg/none", code=1)
    assert "resourcegroup.hearth.dev/queue" in await kubectl_stack.expect("events", "rg/queue", "-o", "wide")
    assert "configmap/queue-0" in await kubectl_stack.expect("graph", "rg/queue", "-o", "mermaid")


async def test_a_member_of_a_group_is_replaced_on_demand(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand
) -> None:
    """By a mark on its index; a name that is no index is refused before anything is written."""
    await workers.hire()
    await user.create(make_group(user.namespace))
    await kubectl_stack.expect("wait", "rg/queue", "--timeout", "60s")

    refused = await kubectl_stack.expect("mark", "rg/queue", "web", "--reason", "broken", code=1)
    await kubectl_stack.expect("mark", "rg/queue", "7", "--reason", "broken", code=1)
    await kubectl_stack.expect("mark", "rg/queue", "1", "--reason", " ", code=2)
    marked = await kubectl_stack.expect("mark", "rg/queue", "1", "--reason", "broken", "--wait", "--timeout", "60s")

    assert "'web' is no member of rg/queue" in refused
    assert "1 is unhealthy: broken" in marked
    # The first object had no number in its name.
    assert "configmap/queue-0" in (tree := await kubectl_stack.expect("tree", "rg/queue"))
    assert "configmap/queue-1 " not in tree
