"""What `kubectl stack` shows on a real API server, of one Stack with everything, and without an operator as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

HOSTILE = "\x1b[2J[red]"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def kubectl_stack(kubeconfig: Path, namespace: str) -> StackCommand:
    """The command, in the namespace of the test."""
    return StackCommand(kubeconfig=kubeconfig, namespace=namespace)


def make_stack(namespace: str) -> dict[str, Any]:
    inner = {
        "resources": {
            "disk": {"manifest": CONFIG},
            "cap": {"manifest": CONFIG | {"data": {"of": "${disk.metadata.name}"}}},
        }
    }
    resources = {
        "settings": {"manifest": CONFIG | {"data": {"size": "${params.size}", "text": HOSTILE}}},
        "web": {"dependsOn": ["cache"], "manifest": CONFIG | {"data": {"settings": "${settings.metadata.name}"}}},
        "cache": {
            "manifest": {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "spec": {"template": inner}},
        },
        "probe": {"when": "params.size == 'xl'", "manifest": CONFIG},
    }
    parameters = {
        "size": {"type": "string", "default": "s"},
        "password": {"type": "string", "sensitive": True},
    }
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "template": {"parameters": parameters, "resources": resources, "outputs": {"out": {"value": HOSTILE}}},
            "parameters": {"password": "geheim-1"},
        },
    }


async def test_one_stack_is_seen_from_all_sides(workers: Crew, user: RealUser, kubectl_stack: StackCommand) -> None:
    """List, tree, history and events; the same without an operator; no secret, and nothing that a terminal obeys."""
    operator = await workers.hire()
    address = Address(api_version="hearth.dev/v1alpha1", kind="Stack", namespace=user.namespace, name="shop")
    await user.create(make_stack(user.namespace))
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await user.patch(address, {"spec": {"parameters": {"size": "m", "password": "geheim-2"}}})
    await kubectl_stack.expect("wait", "shop", "--timeout", "60s")
    await operator.kill()

    asked = ("list", "tree shop", "history shop", "history shop 1 2", "history shop 2", "events shop -o wide")
    shown = [await kubectl_stack.expect(*each.split()) for each in (*asked, "list shop -o json")]
    listed, tree, history, difference, definition, events, output = shown

    assert "shop         UpdateComplete   True    3/3" in listed
    assert "shop-cache   CreateComplete   True    2/2" in listed
    lines = tree.splitlines()
    assert lines[0] == f"stack/shop in {user.namespace}  UpdateComplete  3/3  revision 2"
    starts = ["├─ ✔ cache ", "│  ├─ ✔ disk ", "│  └─ ✔ cap ", "├─   probe "]
    assert [line.startswith(start) for line, start in zip(lines[1:5], starts, strict=True)] == [True] * 4
    assert "configmap/shop-cache-disk " in lines[2]
    assert any(line.startswith("├─   probe") and "its when is false" in line for line in lines)
    assert "out: \\x1b[2J[red]" in lines
    assert [line.split()[0] for line in history.splitlines()] == ["REVISION", "1", "2"]
    assert "-  password: (sensitive, from spec.parameters, hash " in difference
    assert "+  size: m" in difference
    assert yaml.safe_load(definition)["parameters"]["size"] == "m"
    assert "revision 2 stored by kubectl-edit" in events
    assert "stack.hearth.dev/shop-cache" in events
    assert json.loads(output)["spec"]["parameters"] == {"password": "(sensitive)", "size": "m"}
    assert not any("geheim" in each or "\x1b" in each for each in shown)


async def test_names_are_completed_and_missing_ones_are_reported(user: RealUser, kubectl_stack: StackCommand) -> None:
    """By the right exit codes; the formats for scripts."""
    await user.create(make_stack(user.namespace))

    assert await kubectl_stack.expect("list", "-o", "name") == "stack.hearth.dev/shop\n"
    assert json.loads(await kubectl_stack.expect("ls", "-o", "json"))["kind"] == "List"
    assert yaml.safe_load(await kubectl_stack.expect("get", "-o", "yaml"))["items"][0]["metadata"]["name"] == "shop"
    assert "New" in await kubectl_stack.expect("tree", "shop")
    for command in ("tree", "history", "events", "list"):
        message = await kubectl_stack.expect(command, "shoq", code=1)
        assert 'Error from server (NotFound): stacks.hearth.dev "shoq" not found' in message
