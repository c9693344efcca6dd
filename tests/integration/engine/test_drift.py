"""Values that others set are kept, on a real API server.

Replica counts of a Deployment, by kubectl and by the real autoscaler; the rules of a ClusterRole that a controller collects,
which no edit of the Stack empties.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hearth.model.child import Object
from support import repository
from support.checks import expectations
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.real.stack_command import StackCommand
from support.stories import stack_manifests
from support.stories.world import Address

SCALERS = "/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
LIMIT_SECONDS = 60
POLL_SECONDS = 0.1
RULES = "--output=jsonpath={.rules[*].resources}{'\\n'}"


@pytest.fixture
async def world(world: RealWorld) -> RealWorld:
    """A world in a namespace of its own, with an operator."""
    await world.start_controller()
    return world


def make_spec(**spec: object) -> Object:
    """A Stack's spec with one Deployment, whose replicas and image another client may own."""
    container = {"name": "web", "image": spec.pop("image", "web:1")}
    labels = {"app": "web"}
    deployment = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        **spec,
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": deployment}
    return {"template": {"resources": {"web": {"manifest": manifest}}}}


class Shop:
    """A Stack with one Deployment."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.stack = stack_manifests.address_in(world.namespace)
        self.deployment = Address(api_version="apps/v1", kind="Deployment", namespace=world.namespace, name="shop-web")

    async def create(self) -> None:
        """Create the Stack with two replicas, and wait until the Deployment exists."""
        await self.world.user.create(stack_manifests.make_stack(make_spec(), namespace=self.stack.namespace))
        await self.wait(replicas=2)

    async def wait(self, *, replicas: int, image: str = "web:1") -> None:
        """Wait until nothing changes and both the Deployment and the Stack's status match."""

        async def look() -> list[str]:
            found = await self.world.user.find(self.deployment)
            stack = await self.world.user.find(self.stack)
            if found is None or stack is None:
                return ["not there"]
            container = found["spec"]["template"]["spec"]["containers"][0]
            wrong = [] if found["spec"]["replicas"] == replicas else [f"{found['spec']['replicas']} replicas"]
            wrong += [] if container["image"] == image else [container["image"]]
            is_ready = expectations.find_condition(stack, "Ready").get("status") == "True"
            wrong += [] if is_ready else ["not ready"]
            return wrong + (["drifted"] if expectations.find_condition(stack, "Drifted") else [])

        assert await self.world.wait_rest(look) == []

    def count_applies(self) -> int:
        """Number of applies that the operator has sent."""
        return self.world.traffic.count()["apply"]


@pytest.mark.cluster
async def test_kubectl_scale_is_left_alone(world: RealWorld, kubeconfig: Path) -> None:
    shop = Shop(world)
    await shop.create()
    applies = shop.count_applies()
    await asyncio.to_thread(
        kubectl, kubeconfig, "scale", "deployment/shop-web", "--replicas=5", namespace=world.namespace
    )
    await shop.wait(replicas=5)
    assert shop.count_applies() == applies
    await world.user.replace_spec(shop.stack, make_spec(image="web:2"))
    await shop.wait(replicas=5, image="web:2")
    await world.user.replace_spec(shop.stack, make_spec(image="web:2", replicas=3))
    await shop.wait(replicas=3, image="web:2")
    await world.user.patch(shop.deployment, {"spec": {"replicas": 7}})
    await shop.wait(replicas=3, image="web:2")


@pytest.mark.cluster
async def test_an_autoscaler_keeps_what_it_sets(world: RealWorld) -> None:
    shop = Shop(world)
    await shop.create()
    applies = shop.count_applies()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop-web"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 6},
    }
    await world.user.connection.request("POST", SCALERS.format(namespace=world.namespace), body=scaler)
    await shop.wait(replicas=4)
    await world.user.replace_spec(shop.stack, make_spec(image="web:2"))
    await shop.wait(replicas=4, image="web:2")
    assert shop.count_applies() == applies + 1


def kubectl(kubeconfig: Path, *arguments: str, namespace: str) -> None:
    """Run kubectl. Raises CalledProcessError."""
    command = [sys.executable, str(repository.CONTROL_PLANE), "kubectl", *arguments]
    options = ["--kubeconfig", str(kubeconfig), "--namespace", namespace]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=60)


def make_role(name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, **fields}


async def test_an_edit_does_not_empty_the_collected_rules(
    workers: Crew,
    user: RealUser,
    environment: dict[str, str],
    kubectl_stack: StackCommand,
    namespace: str,
    tmp_path: Path,
) -> None:
    await workers.hire("--tenancy=trusted")
    whole, mark = f"{namespace}-whole", {"collected-by": namespace}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    resources = {
        "part": {"manifest": make_role(f"{namespace}-part", mark, rules=[rule])},
        "whole": {
            "manifest": make_role(
                whole, {"edit": "1"}, aggregationRule={"clusterRoleSelectors": [{"matchLabels": mark}]}, rules=[]
            )
        },
    }
    await user.create(stack_manifests.make_stack({"template": {"resources": resources}}, namespace=namespace))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    get = ["kubectl", "get", "clusterrole", whole]
    await wait_for([*get, RULES], environment, text="pods")
    address = stack_manifests.address_in(namespace)
    async with watched([*get, "--watch", RULES], environment, tmp_path / "seen"):
        for edit in ("2", "3"):
            label = {"metadata": {"labels": {"edit": edit}}}
            await user.patch(address, {"spec": {"template": {"resources": {"whole": {"manifest": label}}}}})
            await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
            await wait_for([*get, "--output=jsonpath={.metadata.labels.edit}"], environment, text=edit)

    lines = (tmp_path / "seen").read_text().splitlines()
    assert len(lines) >= 2
    assert {line for line in lines if "pods" not in line} == set()


@contextlib.asynccontextmanager
async def watched(command: list[str], environment: dict[str, str], file: Path) -> AsyncIterator[None]:
    """Let a watching command write into a file."""
    with file.open("w") as seen:
        watching = await asyncio.create_subprocess_exec(*command, stdout=seen, env=environment)
        try:
            yield
        finally:
            watching.kill()
            await watching.wait()


async def wait_for(command: list[str], environment: dict[str, str], *, text: str) -> None:
    """Until the command prints the text."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while text not in await read(command, environment):  # noqa: ASYNC110 -- another process decides
            await asyncio.sleep(POLL_SECONDS)


async def read(command: list[str], environment: dict[str, str]) -> str:
    """The output of a command."""
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, env=environment
    )
    return str(done.stdout).strip()
