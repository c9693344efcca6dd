"""Releasing an object: the removed metadata, and everything that is never touched. On the fake and on a real API
server.

Also objects that are not children: created once, and deleted only with the same uid.
"""

from __future__ import annotations

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, THEIRS, Bench
from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import ObjectRef
from support.stories.world import Address

UNHEALTHY = f"{names.GROUP}/unhealthy"


def marks(live: Object) -> Object:
    """Labels and annotations, if there are any."""
    return {key: live["metadata"][key] for key in ("labels", "annotations") if key in live["metadata"]}


async def test_release_takes_what_is_ours_and_nothing_else(bench: Bench) -> None:
    manifest = bench.config(a="1")
    await bench.apply(manifest)
    await bench.user.patch(
        Address.of(manifest),
        {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y", UNHEALTHY: "z"}}, "data": {"b": "2"}},
    )
    await bench.cluster.release(await bench.apply(bench.config(a="1")))
    live = await bench.live(manifest)
    assert (marks(live), live["data"]) == ({"labels": {"app": "x"}, "annotations": {"note": "y"}}, {"a": "1", "b": "2"})


async def test_release_leaves_no_empty_maps(bench: Bench) -> None:
    child = await bench.apply(bench.probe(value=1))
    await bench.cluster.release(child)
    live = await bench.live(bench.probe())
    assert (marks(live), live["spec"], live["metadata"]["uid"]) == ({}, {"value": 1}, child.uid)


async def test_what_was_released_is_seen_no_more(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    child = await bench.apply(bench.config(a="1"))
    await bench.cluster.release(child)
    assert bench.cached("web") is None
    await bench.settle(CONFIG_MAP)
    assert bench.cached("web") is None
    assert "web" not in [each.resource for each in await bench.cluster.list_children(CONFIG_MAP, benches.STACK_UID)]


async def test_what_was_released_can_come_back(bench: Bench) -> None:
    await bench.follow(CONFIG_MAP)
    child = await bench.apply(bench.config(a="1"))
    await bench.cluster.release(child)
    await bench.settle(CONFIG_MAP)
    again = await bench.apply(bench.config(a="1"))
    assert again.uid == child.uid
    await bench.settle(CONFIG_MAP)
    found = bench.cached("web")
    assert (found.uid if found is not None else None) == child.uid


async def test_release_of_what_changed_meanwhile(bench: Bench) -> None:
    manifest = bench.config(a="1")
    child = await bench.apply(manifest)
    await bench.user.patch(Address.of(manifest), {"metadata": {"annotations": {UNHEALTHY: "z"}}, "data": {"b": "2"}})
    await bench.cluster.release(child)
    live = await bench.live(manifest)
    assert (marks(live), live["data"]) == ({}, {"a": "1", "b": "2"})


async def test_release_of_nothing(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.delete(Address.of(bench.config()))
    await bench.cluster.release(child)
    assert bench.cached("web") is None


async def test_release_never_touches_another_object_of_that_name(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    await bench.user.delete(Address.of(bench.config()))
    other = await bench.user.create(bench.config(a="2"))
    await bench.cluster.release(child)
    assert await bench.live(bench.config()) == other


async def test_release_never_touches_what_belongs_to_another_stack_now(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    theirs = {**child.fields["metadata"]["labels"], names.LABEL_STACK_UID: "00000000-0000-0000-0000-000000000002"}
    await bench.apply(bench.config(metadata={"labels": theirs}, a="1"), manager=THEIRS)
    before = await bench.live(bench.config())
    await bench.cluster.release(child)
    assert await bench.live(bench.config()) == before


async def test_release_of_what_is_being_deleted(bench: Bench) -> None:
    manifest = bench.config(metadata=bench.held(), a="1")
    child = await bench.apply(manifest)
    await bench.cluster.delete(child)
    await bench.cluster.release(child)
    live = await bench.live(manifest)
    assert ("deletionTimestamp" in live["metadata"], marks(live)) == (True, {})
    await bench.release(manifest)


async def test_deletion_of_what_changed_meanwhile(bench: Bench) -> None:
    manifest = bench.config(a="1")
    child = await bench.apply(manifest)
    await bench.user.patch(Address.of(manifest), {"data": {"b": "2"}})
    assert await bench.cluster.delete(child)
    assert await bench.user.find(Address.of(manifest)) is None


async def test_deletion_of_what_asks_to_stay_now(bench: Bench) -> None:
    manifest = bench.config(a="1")
    child = await bench.apply(manifest)
    stays = {names.ANNOTATION_DELETION_POLICY: names.RETAIN}
    await bench.user.patch(Address.of(manifest), {"metadata": {"annotations": stays}})
    found = await benches.refused(bench.cluster.delete(child))
    cached = bench.cached("web")
    assert (found.code, cached is not None and cached.is_retained) == (409, True)
    assert "deletionTimestamp" not in (await bench.live(manifest))["metadata"]


def make(bench: Bench) -> Object:
    """A ConfigMap without any label of a Stack."""
    metadata = {"name": "other", "namespace": bench.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


async def test_an_object_is_created_once(bench: Bench) -> None:
    made = await bench.cluster.create_object(make(bench), kind=CONFIG_MAP)
    assert made["metadata"]["uid"]
    with pytest.raises(ApiStatusError) as caught:
        await bench.cluster.create_object({**make(bench), "data": {"a": "c"}}, kind=CONFIG_MAP)
    assert caught.value.code == 409
    assert (await bench.live(make(bench)))["data"] == {"a": "b"}


async def test_only_that_very_object_is_deleted(bench: Bench) -> None:
    made = await bench.cluster.create_object(make(bench), kind=CONFIG_MAP)
    another = {**made, "metadata": {**made["metadata"], "uid": "00000000-0000-0000-0000-000000000009"}}
    with pytest.raises(ApiStatusError) as caught:
        await bench.cluster.delete_object(another, kind=CONFIG_MAP)
    assert caught.value.code == 409
    await bench.user.patch(Address.of(made), {"data": {"a": "c"}})
    await bench.cluster.delete_object(made, kind=CONFIG_MAP)
    assert await bench.user.find(Address.of(made)) is None
    await bench.cluster.delete_object(made, kind=CONFIG_MAP)


async def test_an_object_is_changed_in_exactly_its_state(bench: Bench) -> None:
    made = await bench.cluster.create_object(make(bench), kind=CONFIG_MAP)
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="other")
    kept = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": kept, "data": {"a": "c"}}
    await bench.cluster.change_dry_run(ref, patch, kind=CONFIG_MAP)
    changed = await bench.cluster.change_object(ref, patch, kind=CONFIG_MAP)
    assert (changed["metadata"]["uid"], changed["data"]) == (made["metadata"]["uid"], {"a": "c"})
    with pytest.raises(ApiStatusError) as caught:
        await bench.cluster.change_object(ref, {**patch, "data": {"a": "d"}}, kind=CONFIG_MAP)
    assert caught.value.code == 409
    assert (await bench.live(make(bench)))["data"] == {"a": "c"}


@pytest.mark.parametrize("keeps_dependents", [True, False])
async def test_what_an_object_owns_stays_or_goes_with_it(bench: Bench, *, keeps_dependents: bool) -> None:
    child = await bench.apply(bench.config(a="1"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": child.name, "uid": child.uid}
    owned = make(bench)
    owned["metadata"]["ownerReferences"] = [owner]
    await bench.user.create(owned)
    await bench.cluster.delete(child, keeps_dependents=keeps_dependents)

    async def is_settled() -> bool:
        found = await bench.user.find(Address.of(owned))
        if await bench.user.find(Address.of(bench.config())) is not None:
            return False
        return found is None if not keeps_dependents else not (found or owned)["metadata"].get("ownerReferences")

    await bench.until(is_settled)
