"""Converted templates of Heat on a real API server, with the CustomResourceDefinitions of the OpenStack resource controllers.

The controllers are played (`support/real/openstack_controllers.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click.testing
import pytest

from hearth.cli import main
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.template.text import kubectl_yaml
from support import repository
from support.checks import expectations
from support.real import openstack_controllers, real_user
from support.real.openstack_controllers import ADDRESS, PlayedControllers
from support.real.real_world import RealWorld
from support.real.user_shell import Paster
from support.stories import stack_manifests

FOLDER: Final = repository.ROOT / "tests" / "data" / "heat"
TEMPLATES: Final = (
    *("server", "network", "volume", "group", "nested", "wait", "identity", "random", "scaling", "trunk"),
)
ENVIRONMENTS: Final = {"nested", "trunk"}
VALUES: Final = {"image": "debian", "password": "password"}
"""Parameters without a value in the templates."""
TIMEOUT: Final = 60.0
CONFIG_MAP: Final = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)


def convert(template: str) -> tuple[Object, str]:
    """The Stack of a template, and the import's report."""
    environment = ["-e", str(FOLDER / "environment.yaml")] if template in ENVIRONMENTS else []
    result = click.testing.CliRunner().invoke(
        main.main, ["import", "--from-heat", str(FOLDER / f"{template}.yaml"), *environment]
    )
    assert result.exit_code == 0, result.stderr
    (document,) = kubectl_yaml.parse_documents(result.stdout)
    return document.value, result.stderr


class HeatSite:
    """Stacks of templates in a namespace."""

    def __init__(self, world: RealWorld, played: PlayedControllers, paster: Paster) -> None:
        self.world, self.user, self.played, self.paster = world, world.user, played, paster
        world.timeout = TIMEOUT

    async def create(self, template: str) -> Object:
        """Create the Stack of a template, after the commands that its import prints; return it."""
        stack, said = convert(template)
        filled = re.sub(r"=(\w+)=…", lambda found: f"={found[1]}={VALUES[found[1]]}", said)
        for command in re.findall("kubectl create .+", filled):
            await self.paster.paste(command, ".+")
        stack["metadata"]["namespace"] = self.world.namespace
        await self.user.create(stack)
        return stack

    async def wait(self, name: str, reason: str, *, phase: str = "") -> Object:
        """Wait until a Stack reports this for its current spec."""
        address = stack_manifests.address_in(self.world.namespace, name)

        async def look() -> list[str]:
            stack = await self.user.find(address)
            assert stack is not None
            ready = expectations.find_condition(stack, "Ready")
            is_current = stack.get("status", {}).get("observedGeneration") == stack["metadata"]["generation"]
            is_right = ready.get("reason") == reason and phase in stack["status"].get("phase", "")
            return (
                []
                if is_current and is_right
                else [
                    f"{name}: {ready.get('reason')}: {ready.get('message')} {stack.get('status', {}).get('problems')}"
                ]
            )

        assert await self.world.wait_until(look) == []
        return await self.user.find(address) or {}

    async def wait_all(self, stacks: Iterable[str], reason: str, *, phase: str = "") -> None:
        """Wait until all Stacks report this."""
        found = await asyncio.gather(*(self.wait(name, reason, phase=phase) for name in stacks), return_exceptions=True)
        assert [each for each in found if isinstance(each, BaseException)] == []

    async def change_all(self, stacks: Iterable[str], change: Mapping[str, Any]) -> None:
        await asyncio.gather(*(self.patch(name, change) for name in stacks))

    async def delete_all(self, stacks: Iterable[str]) -> None:
        """Delete them and wait for the deletion."""
        addresses = [stack_manifests.address_in(self.world.namespace, name) for name in stacks]
        await asyncio.gather(*(self.user.delete(each) for each in addresses))

        async def look() -> list[str]:
            return [str(each) for each in addresses if await self.user.find(each) is not None]

        assert await self.world.wait_until(look) == []

    async def read_outputs(self, name: str) -> Object:
        stack = await self.user.find(stack_manifests.address_in(self.world.namespace, name))
        assert stack is not None
        return dict(stack["status"]["outputs"])

    async def patch(self, name: str, change: Mapping[str, Any]) -> None:
        """Change a Stack."""
        await self.user.patch(stack_manifests.address_in(self.world.namespace, name), dict(change))

    def find(self, kind: str, stack: str) -> Object:
        """The only object of a kind that belongs to a Stack and is not imported."""
        (found,) = (
            each
            for each in self.played.find(kind)
            if each["metadata"]["labels"].get("hearth.dev/stack") == stack
            and "resource" in each["spec"]
            and not each["metadata"].get("deletionTimestamp")
        )
        return found


@pytest.fixture
async def site(world: RealWorld, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[HeatSite]:
    """A site with an operator and played controllers."""
    await real_user.install(world.user, openstack_controllers.load_definitions())
    played = PlayedControllers(world.user)
    await world.start_controller()
    played.start()
    yield HeatSite(world, played, Paster.make(kubeconfig, world.namespace, tmp_path))
    await played.stop()


def read_cloud(raw: Object) -> str:
    return str(raw["spec"].get("cloudCredentialsRef", {}).get("cloudName"))


async def test_converted_templates_live(site: HeatSite) -> None:
    stacks = {name: await site.create(name) for name in TEMPLATES}
    # The environment of two templates stops before networks are created.
    await asyncio.gather(*(site.wait(name, "Stopped") for name in ENVIRONMENTS))
    for name in ENVIRONMENTS:
        await site.patch(name, {"spec": {"environment": None}})
    await site.wait("wait", "Progressing")
    await site.user.merge(CONFIG_MAP, "wait-condition", {"data": {"first": "done", "second": "done"}})
    await site.wait_all(TEMPLATES, "Complete")
    server = site.find("Server", "server")
    assert server["spec"]["resource"]["metadata"] == [{"key": "stage", "value": "test"}, {"key": "size", "value": "1"}]
    assert (await site.read_outputs("server")) == {"url": "http://192.0.2.7/", "address": ADDRESS, "inNetwork": ADDRESS}
    assert (await site.read_outputs("group"))["addresses"] == [ADDRESS, ADDRESS]
    assert (await site.read_outputs("nested")) == {"port": "fa:16:3e:00:00:01", "total": 3}
    assert (await site.read_outputs("random"))["password"] == "(sensitive)"

    in_cloud = [name for name, each in stacks.items() if "cloudName" in each["spec"]["template"]["parameters"]]
    assert len(in_cloud) > 8
    await site.change_all(in_cloud, {"spec": {"parameters": {"cloudName": "other"}}})
    await site.wait_all(in_cloud, "Complete")
    assert {read_cloud(each) for each in site.played.find("Server")} == {"other"}
    assert site.find("Server", "server")["metadata"]["uid"] == server["metadata"]["uid"]

    await site.change_all(in_cloud, {"spec": {"rollback": {"toRevision": 0}}})
    await site.wait_all(in_cloud, "Complete", phase="RollbackComplete")
    assert {read_cloud(each) for each in site.played.find("Server")} == {"openstack"}

    await site.change_all(TEMPLATES, {"spec": {"suspended": True}})
    await site.wait_all(TEMPLATES, "Suspended")
    await site.change_all(TEMPLATES, {"spec": {"suspended": False}})
    await site.wait_all(TEMPLATES, "Complete")

    await site.delete_all(TEMPLATES)
    # The template sets `deletion_policy: Retain`.
    assert [each["metadata"]["name"] for each in site.played.find("Network")] == ["network-net"]
    assert site.played.find("Server") == []


async def test_a_server_is_replaced(site: HeatSite) -> None:
    await site.create("server")
    await site.wait("server", "Complete")
    first, port = (site.find(kind, "server")["metadata"]["uid"] for kind in ("Server", "Port"))

    await site.patch("server", {"spec": {"parameters": {"image": "ubuntu"}}})
    await site.wait("server", "Complete", phase="UpdateComplete")
    second = site.find("Server", "server")
    image = next(
        each for each in site.played.find("Image") if each["metadata"]["name"] == second["spec"]["resource"]["imageRef"]
    )
    assert (second["metadata"]["uid"] != first, image["spec"]["import"]) == (True, {"filter": {"name": "ubuntu"}})

    mark = {"stackName": "server", "resource": "web", "markUnhealthy": True}
    metadata = {"name": "web", "namespace": site.world.namespace}
    await site.user.create(
        {"apiVersion": "hearth.dev/v1alpha1", "kind": "HealthMark", "metadata": metadata, "spec": mark}
    )

    async def find_third() -> list[str]:
        found = [each["metadata"]["uid"] for each in site.played.find("Server")]
        is_new = len(found) == 1 and found[0] not in (first, second["metadata"]["uid"])
        return [] if is_new else found or ["no server"]

    assert await site.world.wait_until(find_third) == []
    await site.wait("server", "Complete")
    assert site.find("Port", "server")["metadata"]["uid"] == port
    await site.delete_all(["server"])
