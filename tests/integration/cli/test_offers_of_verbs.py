"""The commands that the verbs of `kubectl stack` and the status offer, run as they are printed."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.real import user_shell
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.stack_command import StackCommand
from support.stories.world import Address

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
WEB = {"web": {"manifest": CONFIG | {"data": {"size": "${params.size}"}}}}
LIMIT_SECONDS = 120


class Paster:
    """A user who pastes what is printed."""

    def __init__(self, environment: dict[str, str], stack: StackCommand) -> None:
        self.environment = environment
        self.stack = stack

    async def paste(self, text: str, pattern: str) -> str:
        """Run the command in the text that matches; what it prints."""
        found = re.search(pattern, text)
        assert found is not None, f"{pattern!r} is not in {text!r}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", found[0]],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            env=self.environment,
        )
        assert done.returncode == 0, f"{found[0]}: {done.stdout}{done.stderr}"
        return str(done.stdout) + str(done.stderr)


@pytest.fixture
def paster(kubeconfig: Path, namespace: str, tmp_path: Path) -> Paster:
    """In the namespace of the test."""
    environment = user_shell.make_environment(kubeconfig, namespace, tmp_path)
    return Paster(environment, StackCommand(kubeconfig=kubeconfig, namespace=namespace))


def make(kind: str, namespace: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": namespace}
    return {"apiVersion": "hearth.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def make_stack(namespace: str, **spec: Any) -> dict[str, Any]:
    template = {"parameters": {"size": {"type": "string", "default": "s"}}, "resources": WEB}
    return make("Stack", namespace, template=template, **spec)


def address(namespace: str, kind: str = "Stack") -> Address:
    return Address(api_version="hearth.dev/v1alpha1", kind=kind, namespace=namespace, name="shop")


async def read(user: RealUser, kind: str = "Stack") -> dict[str, Any]:
    found = await user.find(address(user.namespace, kind))
    assert found is not None
    return found


async def test_switches_and_deletion(workers: Crew, user: RealUser, paster: Paster) -> None:
    """Pause and suspend are taken back by the commands beside what they hold up."""
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    await paster.stack.expect("pause", "shop")
    said = await paster.stack.expect("mark", "shop", "web", "--reason", "it is broken")
    await paster.paste(said, r"kubectl stack unpause shop -n [a-z0-9-]+")
    assert "paused" not in (await read(user))["spec"]
    await user.patch(address(user.namespace), {"spec": {"parameters": {"size": "m"}}})
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    await paster.stack.expect("suspend", "shop", "--wait", "--timeout", "60s")
    said = await paster.stack.expect("wait", "shop", "--timeout", "60s", code=1)
    await paster.paste(said, r"kubectl stack resume shop -n [a-z0-9-]+")
    assert (await read(user))["spec"].get("suspended") is not True
    await paster.stack.expect("suspend", "shop", "--wait", "--timeout", "60s")
    said = await paster.stack.expect("rollback", "shop")
    await paster.paste(said, r"kubectl stack resume shop -n [a-z0-9-]+")
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    said = await paster.stack.expect("wait", "shop", "--for=deleted", "--timeout", "60s", code=1)
    await paster.paste(said, r"kubectl delete stack shop -n [a-z0-9-]+")
    assert await user.find(address(user.namespace)) is None


async def test_a_breakpoint(workers: Crew, user: RealUser, paster: Paster) -> None:
    """What the refusal says, and what the status says."""
    await workers.hire()
    points = {"breakpoints": [{"resource": "web", "at": ["PreCreate", "PreUpdate"]}]}
    await user.create(make_stack(user.namespace, environment=points))
    await paster.stack.expect("wait", "shop", "--for=stopped", "--timeout", "60s")
    said = await paster.stack.expect("continue", "shop", "db", code=1)
    await paster.paste(said, r"kubectl stack continue shop web/PreCreate -n [a-z0-9-]+")
    await paster.stack.expect("wait", "shop", "--timeout", "60s")

    for size, pattern in (("m", r"kubectl stack continue [^,;]+(?=, or)"), ("l", r"kubectl annotate [^;]+\)")):
        await user.patch(address(user.namespace), {"spec": {"parameters": {"size": size}}})
        await paster.stack.expect("wait", "shop", "--for=stopped", "--timeout", "60s")
        conditions = (await read(user))["status"]["conditions"]
        (stopped,) = [each["message"] for each in conditions if each["type"] == "Stopped"]
        await paster.paste(stopped, pattern)
        await paster.stack.expect("wait", "shop", "--timeout", "60s")


async def test_a_mark_that_is_advised_and_one_that_is_not_there(workers: Crew, user: RealUser, paster: Paster) -> None:
    """To retry what is ready does nothing; to take back a mark that there is not creates none."""
    await workers.hire()
    await user.create(make_stack(user.namespace))
    await paster.stack.expect("wait", "shop", "--timeout", "60s")
    said = await paster.stack.expect("unmark", "shop", "web")
    assert "stack/shop: web is not marked" in said
    assert "created" not in said

    said = await paster.stack.expect("retry", "shop", code=1)

    advised = said.replace("RESOURCE", "web").replace("TEXT", "broken")
    assert "created: web is unhealthy" in await paster.paste(advised, r"kubectl stack mark shop web .*--reason broken")


async def test_a_group_that_is_held(workers: Crew, user: RealUser, paster: Paster) -> None:
    """Its size counts after the command."""
    await workers.hire()
    template = {"manifest": CONFIG}
    await user.create(make("ResourceGroup", user.namespace, replicas=1, template=template))
    await paster.stack.expect("wait", "rg/shop", "--timeout", "60s")
    for verb, command in (("pause", "unpause"), ("suspend", "resume")):
        await paster.stack.expect(verb, "rg/shop")
        said = await paster.stack.expect("scale", "rg/shop", "--replicas", "2")
        await paster.paste(said, rf"kubectl stack {command} rg/shop -n [a-z0-9-]+")
        await paster.stack.expect("wait", "rg/shop", "--timeout", "60s")
