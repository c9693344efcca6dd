"""What a Stack only reads is in the cluster of its objects, on two real API servers."""

from __future__ import annotations

from typing import Any

from hearth.model.child import Object
from support.real.other_cluster import Region
from support.real.real_user import RealUser
from support.stories.world import Address

CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
RESOURCES: Object = {
    "platform": {"externalRef": {**CONFIG, "metadata": {"name": "platform"}}},
    "teams": {"externalRef": {**CONFIG, "metadata": {"selector": {"matchLabels": {"role": "team"}}}}},
    "db": {"manifest": {**CONFIG, "data": {"v": "${platform.data.v}"}}},
    "quota": {"forEach": "teams", "manifest": {**CONFIG, "data": {"v": "${item.metadata.name}"}}},
}


async def put(user: RealUser, region: Region, name: str, **metadata: Any) -> None:
    """A ConfigMap that no Stack made, with a value `v`."""
    value = metadata.pop("v")
    body = {**CONFIG, "metadata": {"name": name, "namespace": region.namespace, **metadata}, "data": {"v": value}}
    await user.create(body)


def find_address(region: Region, name: str) -> Address:
    """Where a ConfigMap is."""
    return Address(api_version="v1", kind="ConfigMap", namespace=region.namespace, name=name)


async def test_objects_there_are_read_and_those_here_are_not(region: Region) -> None:
    """Missing, made, changed, listed and made into members; an object of the same name here means nothing."""
    await put(region.here, region, "platform", v="here")
    await put(region.here, region, "red", v="-", labels={"role": "team"})
    await region.create(RESOURCES)
    await region.until(phase="CreateInProgress", reason="ObjectNotFound", message="platform")

    await put(region.there, region, "platform", v="1")
    await region.until(phase="CreateComplete")
    await region.until_there(db="1")
    await region.there.patch(find_address(region, "platform"), {"data": {"v": "2"}})
    await region.until_there(db="2")

    await put(region.there, region, "blue", v="-", labels={"role": "team"})
    await region.until_there(db="2", **{"quota-blue": "blue"})
    await put(region.there, region, "green", v="-", labels={"role": "team"})
    await region.until_there(db="2", **{"quota-blue": "blue", "quota-green": "green"})
    await region.there.delete(find_address(region, "green"))
    await region.until_there(db="2", **{"quota-blue": "blue"})
    await region.until(phase="CreateComplete")

    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    assert await region.there.find(find_address(region, "platform")) is not None
    region.check_operator()
