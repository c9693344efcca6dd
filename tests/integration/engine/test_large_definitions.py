"""Definitions that no single object can hold, on a real API server: applied, changed, rolled back, deleted."""

from __future__ import annotations

import base64
import gzip
import json
import random

import pytest

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

REVISIONS = "/apis/apps/v1/namespaces/{namespace}/controllerrevisions"
PARTS = ("shop-template-1", "shop-template-2")


def make_resources(count: int, *, first: int, size: int, value: str) -> Object:
    """Make ConfigMaps with that many characters each, which gzip can halve at best."""
    source = random.Random(first)
    return {
        f"r{number}": {
            "manifest": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {"value": value, "filler": source.randbytes(size // 2).hex()},
            }
        }
        for number in range(first, first + count)
    }


class Shop:
    """A Stack whose template is in two compressed ConfigMaps."""

    def __init__(self, world: RealWorld) -> None:
        self._world = world
        self.user = world.user
        self.stack = stack_manifests.address_in(self.user.namespace)

    async def write(self, name: str, resources: Object) -> None:
        """Create or change one part of the template."""
        text = base64.b64encode(gzip.compress(json.dumps({"resources": resources}).encode())).decode()
        metadata = {"name": name, "namespace": self.user.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {"part.json.gz": text}}
        await self.user.apply(body)

    async def create(self) -> None:
        """Create the Stack."""
        refs = [{"name": name, "key": "part.json.gz"} for name in PARTS]
        spec = {"templateRefs": refs}
        await self.user.create(stack_manifests.make_stack(spec, namespace=self.user.namespace))

    async def wait(self, *, revision: int, ready: str) -> None:
        """Wait until that revision is complete."""

        async def check() -> list[str]:
            status = expectations.status_of(await self.user.find(self.stack))
            condition = expectations.find_condition(await self.user.find(self.stack), "Ready")
            found = (status.get("revision"), status.get("summary"), condition.get("status"))
            expected = (revision, ready, "True")
            return [] if found == expected else [f"expected {expected}, found {found}: {condition.get('message')}"]

        assert await self._world.wait_until(check) == []

    async def find_value(self, number: int) -> str:
        address = Address(api_version="v1", kind="ConfigMap", namespace=self.user.namespace, name=f"shop-r{number}")
        found = await self.user.find(address)
        assert found is not None
        return str(found["data"]["value"])

    async def list_revisions(self) -> list[Object]:
        """Return all ControllerRevisions of the namespace, further objects included."""
        answer = await self.user.connection.request("GET", REVISIONS.format(namespace=self.user.namespace))
        found: list[Object] = answer["items"]
        return found


async def test_a_definition_in_several_objects_is_rolled_back_and_leaves_nothing(world: RealWorld) -> None:
    shop = Shop(world)
    await world.start_controller()
    first = make_resources(10, first=0, size=120_000, value="one")
    await shop.write(PARTS[0], first)
    await shop.write(PARTS[1], make_resources(10, first=10, size=120_000, value="one"))
    await shop.create()
    await shop.wait(revision=1, ready="20/20")

    await shop.write(PARTS[1], make_resources(10, first=10, size=120_000, value="two"))
    await shop.wait(revision=2, ready="20/20")
    assert (await shop.find_value(0), await shop.find_value(10)) == ("one", "two")
    revisions = await shop.list_revisions()
    counted = [each for each in revisions if names.LABEL_STACK_UID in each["metadata"].get("labels", {})]
    assert len(counted) == 2
    assert all(int(each["metadata"]["annotations"][names.ANNOTATION_PARTS]) >= 1 for each in counted)
    assert len(revisions) == 2 + sum(int(each["metadata"]["annotations"][names.ANNOTATION_PARTS]) for each in counted)

    await world.kill_controller()
    await world.start_controller()
    await shop.user.patch(shop.stack, {"spec": {"rollback": {"toRevision": 1}}})
    await shop.wait(revision=1, ready="20/20")
    assert (await shop.find_value(0), await shop.find_value(10)) == ("one", "one")

    await shop.user.delete(shop.stack)

    async def is_gone() -> list[str]:
        left = [each["metadata"]["name"] for each in await shop.list_revisions()]
        return left if await shop.user.find(shop.stack) is None else ["the Stack", *left]

    assert await world.wait_until(is_gone) == []


@pytest.mark.soak
async def test_ten_thousand_resources_are_one_stack(world: RealWorld) -> None:
    shop = Shop(world)
    world.timeout = 600.0
    await world.start_controller()
    await shop.write(PARTS[0], make_resources(5_000, first=0, size=2, value="one"))
    await shop.write(PARTS[1], make_resources(5_000, first=5_000, size=2, value="one"))
    await shop.create()
    await shop.wait(revision=1, ready="10000/10000")

    await shop.write(PARTS[1], make_resources(5_000, first=5_000, size=2, value="two"))
    await shop.wait(revision=2, ready="10000/10000")
    assert (await shop.find_value(0), await shop.find_value(9_999)) == ("one", "two")

    await shop.user.delete(shop.stack)

    async def is_gone() -> list[str]:
        return ["the Stack"] if await shop.user.find(shop.stack) is not None else []

    assert await world.wait_until(is_gone) == []
