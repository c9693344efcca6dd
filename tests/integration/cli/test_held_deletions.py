"""Deletions that are blocked: `why` names the cause, and its commands resolve it."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.real import real_user
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.situations import offers
from support.real.stack_command import StackCommand
from support.stories import stack_manifests

PATIENCE_SECONDS = 90.0
POLL_SECONDS = 1.0
HOLD = {"finalizers": ["example.org/hold"]}


@pytest.fixture
def shell(environment: dict[str, str]) -> Callable[[str], Awaitable[str]]:
    """The shell of the user; a command that fails ends the test."""

    async def run(command: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    return run


def make_stack(namespace: str, **resources: Any) -> dict[str, Any]:
    return stack_manifests.make_stack(
        {"template": {"resources": {name: {"manifest": each} for name, each in resources.items()}}}, namespace=namespace
    )


async def explain_until(kubectl_stack: StackCommand, *expected: str) -> str:
    """Wait until `why` prints all of that, and return its output."""
    deadline, said = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        done = await kubectl_stack.run("why", "shop")
        said = done.stdout + done.stderr
        if all(each in said for each in expected):
            return said
        await asyncio.sleep(POLL_SECONDS)
    pytest.fail(f"{expected} not in\n{said}")


async def follow(said: str, shell: Callable[[str], Awaitable[str]], user: RealUser) -> None:
    """Run the suggested commands, and check that the Stack is then deleted."""
    commands = [each for each in offers.find_commands(said) if not offers.reads(each)]
    assert commands
    for command in commands:
        await shell(command)
    deadline = time.monotonic() + PATIENCE_SECONDS
    address = stack_manifests.address_in(user.namespace)
    while await user.find(address) is not None:
        assert time.monotonic() < deadline, "the Stack is still there"
        await asyncio.sleep(POLL_SECONDS)


async def test_an_object_in_a_namespace(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, shell: Callable[[str], Awaitable[str]]
) -> None:
    await workers.hire("--tenancy", "trusted")
    inner = f"{user.namespace}-in"
    await user.create(
        make_stack(user.namespace, ns={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}})
    )
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    path = f"/api/v1/namespaces/{inner}/configmaps"
    await user.connection.request("POST", path, body={"metadata": {"name": "theirs", **HOLD}})
    await shell("kubectl delete stack shop --wait=false")

    said = await explain_until(
        kubectl_stack, "configmap/theirs: is being deleted, held by the finalizers example.org/hold"
    )

    assert "finalizers remaining: example.org/hold" in said
    assert f"kubectl patch configmaps theirs -n {inner}" in said
    stack = await user.find(stack_manifests.address_in(user.namespace))
    assert stack is not None
    (blocked,) = [each for each in stack["status"]["conditions"] if each["type"] == "DeletionBlocked"]
    assert blocked["status"] == "True"
    assert f"namespace/{inner} (" in blocked["message"]
    assert "example.org/hold" in blocked["message"]
    await follow(said, shell, user)


async def test_a_claim_in_use(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, shell: Callable[[str], Awaitable[str]]
) -> None:
    """A Pod without a controller uses it; the claim is deleted after the Pod."""
    await workers.hire()
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "golden", "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    stack = make_stack(user.namespace, disk=claim)
    stack["spec"]["template"]["resources"]["disk"]["readyWhen"] = ["true"]
    await user.create(stack)
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    containers = [{"name": "app", "image": "web:1"}]
    node = (await shell("kubectl get nodes -o name")).split()[0].removeprefix("node/")
    pod = {
        "metadata": {"name": "theirs"},
        "spec": {
            "nodeName": node, "volumes": volumes, "containers": containers, "terminationGracePeriodSeconds": 0,
        },
    }  # fmt: skip
    await user.connection.request("POST", f"/api/v1/namespaces/{user.namespace}/pods", body=pod)
    await shell("kubectl delete stack shop --wait=false")

    said = await explain_until(kubectl_stack, "pod/theirs: uses it: the claim is deleted after the pod")

    assert f"→ kubectl delete pod theirs -n {user.namespace}" in said
    await follow(said, shell, user)


async def test_a_nested_stack_leads_to_its_own_explanation(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, shell: Callable[[str], Awaitable[str]]
) -> None:
    await workers.hire()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours"}}
    nested = make_stack(user.namespace, web=config)
    del nested["metadata"]
    await user.create(make_stack(user.namespace, inner=nested))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    path = f"/api/v1/namespaces/{user.namespace}/configmaps/ours"
    merge = "application/merge-patch+json"
    await user.connection.request("PATCH", path, body={"metadata": HOLD}, content_type=merge)
    await shell("kubectl delete stack shop --wait=false")

    said = await explain_until(kubectl_stack, "stack.hearth.dev/shop-inner", "example.org/hold")
    for command in [each for each in offers.find_commands(said) if each.startswith("kubectl stack why")]:
        done = await kubectl_stack.run(*shlex.split(command)[2:])
        said += done.stdout

    assert "kubectl patch configmaps ours" in said
    await follow(said, shell, user)


async def test_a_conversion_webhook_that_is_down(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, shell: Callable[[str], Awaitable[str]]
) -> None:
    await workers.hire("--tenancy", "trusted")
    group = f"{user.namespace}.example.org"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = real_user.make_crd(group, "Gizmo", {"v1": schema, "v2": schema})
    versions = definition["spec"]["versions"]
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await user.connection.request("POST", crds, body=definition)
    await shell(f"kubectl wait crd/gizmos.{group} --for=condition=Established --timeout=60s")
    gizmo = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "spec": {"size": 1}}
    await user.create(make_stack(user.namespace, web={"apiVersion": "v1", "kind": "ConfigMap"}, custom=gizmo))
    try:
        await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
        webhook = {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
            },
        }
        for each in versions:
            each["storage"] = each["name"] == "v2"
        merge = "application/merge-patch+json"
        change = {"spec": {"conversion": webhook, "versions": versions}}
        await user.connection.request("PATCH", f"{crds}/gizmos.{group}", body=change, content_type=merge)
        await shell(f"sleep 0; until ! kubectl get gizmos.v2.{group} -n {user.namespace} 2>/dev/null; do sleep 1; done")

        for verb, code in (("tree", 0), ("why", 0)):
            done = await kubectl_stack.run(verb, "shop")
            said = done.stdout + done.stderr
            assert done.returncode == code, said
            assert "shop" in said
    finally:
        await user.connection.request(
            "PATCH",
            f"{crds}/gizmos.{group}",
            body={"spec": {"conversion": {"strategy": "None", "webhook": None}}},
            content_type="application/merge-patch+json",
        )
        await shell("kubectl delete stack shop --timeout=60s")
        await user.connection.request("DELETE", f"{crds}/gizmos.{group}")
