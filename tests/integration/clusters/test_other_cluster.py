"""A Stack whose objects are in another cluster, on two real API servers."""

from __future__ import annotations

from support.real.other_cluster import Region, config


async def test_objects_are_created_changed_repaired_and_deleted_there(region: Region) -> None:
    """None of them is ever in the cluster of the Stack."""
    await region.create({"db": config("1"), "web": config("1", needs="db")})
    await region.until(phase="CreateComplete")
    made = await region.until_there(db="1", web="1")
    assert await region.list_there(region.here) == {}

    await region.edit({"template": {"resources": {"db": config("2"), "web": config("1", needs="db")}}})
    await region.until(phase="UpdateComplete")
    changed = await region.until_there(db="2", web="1")
    assert changed["shop-web"]["data"]["above"] == "2"
    assert {name: raw["metadata"]["uid"] for name, raw in changed.items()} == {
        name: raw["metadata"]["uid"] for name, raw in made.items()
    }

    path = f"/api/v1/namespaces/{region.namespace}/configmaps/shop-web"
    await region.there.connection.request("DELETE", path)
    again = await region.until_there(db="2", web="1")
    assert again["shop-web"]["metadata"]["uid"] != made["shop-web"]["metadata"]["uid"]

    await region.here.delete(region.address_of("shop"))
    await region.until_gone()
    assert await region.list_there() == {}
    region.check_operator()
