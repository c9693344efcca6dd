"""CustomResourceDefinitions are upgraded, and downgraded, under running Stacks.

Here, where tests run one after the other: each such change makes the API server end all watches of the kind.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.model.api import crd
from hearth.model.child import Object
from support.real import real_user, user_shell
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.server import request_faults
from support.stories import stack_manifests
from support.stories.world import Address

API = f"{names.GROUP}/{names.VERSION}"


@pytest.fixture
async def world(kubeconfig: Path, namespace: str) -> AsyncIterator[RealWorld]:
    """An operator on its own namespace. At the end the server has the definitions of this version again."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        user = RealUser(connection, namespace)
        await real_user.install_all(user)
        made = RealWorld(user, source)
        await made.start_controller()
        yield made
        await made.close()
        await real_user.install(user, crd.make_crds())


def make_later() -> Object:
    """The definition of Stacks of a later version, with one more field."""
    definition = copy.deepcopy(crd.make_crds()[0])
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    return definition


async def test_stacks_do_not_notice_an_upgrade_of_their_definition(world: RealWorld) -> None:
    shop = stack_manifests.address_in(world.namespace)
    config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"}}}
    spec = {"template": {"resources": {"a": config}}}
    await world.user.create(stack_manifests.make_stack(spec, name=shop.name, namespace=shop.namespace))
    assert await world.wait_until(lambda: find_missing(world, shop, "CreateComplete")) == []

    for definition, value in ((make_later(), "2"), (crd.make_crds()[0], "3")):
        done = len(world.traffic.requests)
        await real_user.install(world.user, [definition])
        await world.wait_rest(no_objection)
        assert [str(each) for each in world.traffic.requests[done:] if each.verb in request_faults.WRITES] == []

        await world.user.patch(shop, {"spec": {"template": {"resources": {"a": {"manifest": {"data": {"v": value}}}}}}})
        assert await world.wait_until(lambda: find_missing(world, shop, "UpdateComplete")) == []


async def test_the_command_that_a_refusal_names_upgrades_them(
    kubeconfig: Path, world: RealWorld, tmp_path: Path
) -> None:
    await world.close()
    older = copy.deepcopy(crd.make_crds()[0])
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["rollback"]
    environment = user_shell.make_environment(kubeconfig, world.namespace, tmp_path)
    (tmp_path / "older.json").write_text(json.dumps(older))
    own = f"kubectl apply --server-side --force-conflicts --field-manager=helm -f {tmp_path / 'older.json'}"
    assert (await run(own, environment))[0] == 0
    code, said = await run(f"timeout 60 hearth run --namespace={world.namespace}", environment)
    assert code == 1, said
    found = re.search(r"hearth crds \| kubectl apply [^,]*-f -", said)
    assert found is not None, said

    code, said = await run(found[0], environment)

    assert code == 0, said
    # In the foreground, timeout sends one signal: a second one would end the operator before it has stopped.
    code, said = await run(
        f"timeout --foreground --preserve-status --signal=INT 15 hearth run --namespace={world.namespace}", environment
    )
    assert (code, "older than this operator" in said) == (0, False), said


async def run(command: str, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code and output of a command in a user's shell."""
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(
        *("bash", "-c", command), stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment
    )
    said, _ = await done.communicate()
    return done.returncode or 0, said.decode()


async def find_missing(world: RealWorld, stack: Address, phase: str) -> list[str]:
    """The difference from this phase, for the Stack's current generation."""
    found = await world.user.find(stack) or {}
    status = found.get("status") or {}
    is_current = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
    return [] if is_current and status.get("phase") == phase else [f"the phase is {status.get('phase')}"]


async def no_objection() -> list[str]:
    """Accepts any status."""
    return []
