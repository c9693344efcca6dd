"""Objects that are no children: created once, and deleted only if they are the very ones. On the fake and on a real API server."""

from __future__ import annotations

import pytest

from contract.bench import CONFIG_MAP, Bench
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import ObjectRef
from support.stories.world import Address


def make(bench: Bench) -> Object:
    """A ConfigMap without any label of a Stack."""
    metadata = {"name": "other", "namespace": bench.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


async def test_an_object_is_created_once(bench: Bench) -> None:
    """A second one of the name is rejected and changes nothing."""
    made = await bench.cluster.create_object(make(bench), kind=CONFIG_MAP)
    assert made["metadata"]["uid"]
    with pytest.raises(ApiStatusError) as caught:
        await bench.cluster.create_object({**make(bench), "data": {"a": "c"}}, kind=CONFIG_MAP)
    assert caught.value.code == 409
    assert (await bench.live(make(bench)))["data"] == {"a": "b"}


async def test_only_that_very_object_is_deleted(bench: Bench) -> None:
    """Regardless of its version; one that is gone already is no error."""
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
    """A stale version is rejected, and a dry run writes nothing."""
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
    """Kept, it has no owner any more."""
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
