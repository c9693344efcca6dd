"""`kubectl stack diff` on a real API server: what it says, what then happens, and that it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.fake_world.preview_of import Seen, find_deeds
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

API_VERSION = "hearth.dev/v1alpha1"
KINDS = ("ConfigMap", "Service", "Secret", "Job")


@pytest.fixture
def kubectl_stack(kubeconfig: Path, namespace: str) -> StackCommand:
    """The command, in the namespace of the test."""
    return StackCommand(kubeconfig=kubeconfig, namespace=namespace)


def make_stack(namespace: str, resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"password": {"type": "string", "sensitive": True}}, "resources": resources}
    return {
        "apiVersion": API_VERSION,
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"template": template} | spec,
    }


def config(**data: str) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}


def service(port: int) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"name": "web", "port": port}]}}}


def job(command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": [command]}
    spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
    return {"manifest": manifest, "readyWhen": ["true"]}


SECRET = {
    "manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "${params.password}", "user": "shop"}}
}
FIRST = {
    "settings": config(size="s", color="blue"),
    "web": service(80),
    "migration": job("one"),
    "access": SECRET,
    "old": config(left="over"),
    "late": config(host="${web.spec.clusterIP}", size="${settings.data.size}"),
}
SECOND = {
    "settings": config(size="m", color="blue"),
    "web": service(8080),
    "migration": job("two"),
    "access": SECRET,
    "late": config(host="${web.spec.clusterIP}", size="${settings.data.size}"),
    "more": config(added="${web.metadata.name}"),
}


async def test_the_preview_of_an_edit_comes_true(
    workers: Crew, user: RealUser, kubectl_stack: StackCommand, tmp_path: Path
) -> None:
    """A new Stack, no change, then an edit that creates, changes, replaces and deletes; secrets are not shown."""
    file = tmp_path / "stack.yaml"
    first = make_stack(user.namespace, FIRST, parameters={"password": "first-secret"})
    file.write_text(yaml.safe_dump(first))
    new = await kubectl_stack.expect("diff", "-f", str(file), code=1)
    assert "6 created" in new
    assert await user.find(Address.of(first)) is None

    await workers.hire()
    await user.create(first)
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    assert "no change" in await kubectl_stack.expect("diff", "-f", str(file), code=0)

    second = make_stack(user.namespace, SECOND, parameters={"password": "second-secret"})
    file.write_text(yaml.safe_dump(second))
    before = await see(user)
    text = await kubectl_stack.expect("diff", "-f", str(file), code=1)
    (preview,) = json.loads(await kubectl_stack.expect("diff", "-f", str(file), "-o", "json", code=1))
    assert await see(user) == before
    print(text)
    assert "-secret" not in text + json.dumps(preview)

    await user.replace_spec(Address.of(first), second["spec"])
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    deeds = find_deeds(before, await see(user))
    assert {each["resource"]: each["action"] for each in preview["changes"]} == deeds


async def see(user: RealUser) -> Seen:
    """The objects of the Stack."""
    stack = await user.find(Address(api_version=API_VERSION, kind="Stack", namespace=user.namespace, name="shop"))
    assert stack is not None
    found = await user.find_children(stack["metadata"]["uid"], KINDS)
    return Seen(objects={raw["metadata"]["uid"]: raw for raw in found})
