"""Objects whose current content makes the API server reject an apply. On the fake and on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, OURS, PROBE, Bench
from hearth.engine.writes import apply_preparation
from hearth.model import limits, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.plan.ownership import apply_obstacles
from hearth.plan.retry.backoff import SuspendPurpose
from hearth.plan.state.steps import Apply, Suspend
from support.stories.world import Address

STACK = Kind(group=names.GROUP, version="v1alpha1", name="Stack", plural="stacks", namespaced=True)
SERVICE = Kind(group="", version="v1", name="Service", plural="services", namespaced=True)


def service(bench: Bench, **ports: int) -> Object:
    """A Service with these ports."""
    stated = [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports.items()]
    return bench.manifest(SERVICE, "web", spec={"selector": {"app": "web"}, "ports": stated})


def nested(bench: Bench, value: Object) -> Object:
    """A Stack with this value of a parameter."""
    return bench.manifest(
        STACK, "web", spec={"paused": True, "parameters": {"map": value}, "template": {"resources": {}}}
    )


async def apply_nested(bench: Bench, value: Object) -> Child:
    """Apply only this nested Stack."""
    return await bench.cluster.apply(nested(bench, value), kind=STACK, manager=OURS, force=True)


def step_of(manifest: Object, child: Child) -> Apply:
    """The apply of a manifest to that object."""
    return Apply(resource="web", kind=child.kind, ref=child.ref, manifest=manifest, hash="h", uid=child.uid)


async def remove(bench: Bench, manifest: Object, child: Child) -> Child | None:
    """Apply the manifest without the fields that block it."""
    live = await bench.cluster.get(child.ref, kind=child.kind)
    return await apply_preparation.apply_without_obstacle(
        step_of(manifest, child), live, cluster=bench.cluster, manager=OURS
    )


def ports_of(live: Object) -> dict[str, int]:
    """The ports of a Service by name."""
    return {port["name"]: port["port"] for port in live["spec"]["ports"]}


async def tamper(bench: Bench, manifest: Object, patch: Any) -> None:
    """Change an object as another client."""
    await bench.user.patch(Address.of(manifest), patch)


async def test_apply_is_rejected_because_of_another_clients_item(bench: Bench) -> None:
    manifest = service(bench, http=80)
    child = await bench.cluster.apply(manifest, kind=SERVICE, manager=OURS, force=True)
    theirs = [{"name": name, "port": port, "protocol": "TCP"} for name, port in (("http", 8080), ("metrics", 9090))]
    await tamper(bench, manifest, {"spec": {"ports": theirs}})
    rejected = await benches.refused(bench.cluster.apply(manifest, kind=SERVICE, manager=OURS, force=True))
    assert (rejected.code, rejected.kind) == (422, "Service")
    assert await remove(bench, manifest, child) is not None
    assert ports_of(await bench.live(manifest)) == {"http": 80, "metrics": 9090}
    before = await bench.live(manifest)
    again = await bench.cluster.apply(manifest, kind=SERVICE, manager=OURS, force=True)
    assert str(again.resource_version) == before["metadata"]["resourceVersion"]


async def test_nothing_is_removed_where_many_items_are_in_question(bench: Bench) -> None:
    manifest = service(bench, http=80)
    child = await bench.cluster.apply(manifest, kind=SERVICE, manager=OURS, force=True)
    theirs = [{"name": f"p{at}", "port": 9000 + at, "protocol": "TCP"} for at in range(limits.FOREIGN_ITEMS)]
    await tamper(bench, manifest, {"spec": {"ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, *theirs]}})
    before = await bench.live(manifest)
    assert await remove(bench, manifest, child) is None
    assert await bench.live(manifest) == before


async def test_an_object_without_an_obstacle_is_not_written(bench: Bench) -> None:
    manifest = bench.config(a="1")
    child = await bench.apply(manifest)
    before = await bench.live(manifest)
    assert await remove(bench, bench.config(a="2"), child) is None
    assert await bench.live(manifest) == before


async def test_another_object_of_the_name_is_left_alone(bench: Bench) -> None:
    manifest = bench.probe(other=1)
    child = await bench.apply(manifest)
    await bench.user.delete(Address.of(manifest))
    await bench.apply(manifest)
    assert await remove(bench, bench.probe(), child) is None
    assert (await bench.live(manifest))["spec"] == {"other": 1}


async def test_a_map_whose_last_key_is_dropped(bench: Bench) -> None:
    child = await bench.apply(bench.probe(other=1))
    manifest = bench.probe()
    rejected = await benches.refused(bench.apply(manifest))
    assert (rejected.code, rejected.causes[0]) == (422, ("FieldValueTypeInvalid", "spec"))
    assert await remove(bench, manifest, child) is not None
    assert (await bench.live(manifest))["spec"] == {}
    changed = await bench.apply(bench.probe(other=2))
    assert (changed.uid, (await bench.live(manifest))["spec"]) == (child.uid, {"other": 2})


async def test_a_map_in_a_free_form_field(bench: Bench) -> None:
    child = await apply_nested(bench, {"a": "1"})
    manifest = nested(bench, {})
    assert apply_obstacles.leaves_null(manifest, child)
    assert await remove(bench, manifest, child) is not None
    assert (await bench.live(manifest))["spec"]["parameters"] == {"map": {}}
    emptied = await apply_nested(bench, {"b": "2"})
    assert (emptied.uid, (await bench.live(manifest))["spec"]["parameters"]) == (child.uid, {"map": {"b": "2"}})
    await apply_nested(bench, {})
    assert (await bench.live(manifest))["spec"].get("parameters") != {"map": {}}


async def test_a_map_that_has_only_what_suspends(bench: Bench) -> None:
    child = await bench.apply(bench.probe())
    metadata = {"name": child.name, "uid": child.uid, "namespace": child.namespace}
    down = {"apiVersion": child.kind.api_version, "kind": "Probe", "metadata": metadata}
    await bench.apply({**down, "spec": {"other": "asleep"}}, manager=names.SUSPEND_FIELD_MANAGER)
    rejected = await benches.refused(bench.apply(down, manager=names.SUSPEND_FIELD_MANAGER))
    assert (rejected.code, rejected.causes[0]) == (422, ("FieldValueTypeInvalid", "spec"))
    step = Suspend(child=child, manifest=down, purpose=SuspendPurpose.RESUME)
    live = await bench.live(bench.probe())
    assert await apply_preparation.suspend_without_obstacle(step, live, cluster=bench.cluster) is not None
    assert (await bench.live(bench.probe()))["spec"] == {}
    again = await bench.live(bench.probe())
    assert await apply_preparation.suspend_without_obstacle(step, again, cluster=bench.cluster) is None


async def test_a_map_that_the_manifest_drops_as_a_whole(bench: Bench) -> None:
    child = await bench.apply(bench.probe(other=1))
    assert await remove(bench, bench.manifest(PROBE, "web"), child) is not None
    assert "spec" not in await bench.live(bench.probe())


@pytest.mark.parametrize(("key", "code"), [("uid", 422), ("resourceVersion", 409)])
async def test_a_change_of_another_state_is_refused(bench: Bench, key: str, code: int) -> None:
    manifest = bench.config(a="1")
    child = await bench.apply(manifest)
    wrong = {"uid": "11111111-0000-0000-0000-000000000000", "resourceVersion": "1"}[key]
    found = await benches.refused(
        bench.cluster.change(child.ref, {"metadata": {key: wrong}, "data": {"a": "2"}}, kind=CONFIG_MAP)
    )
    assert (found.code, (await bench.live(manifest))["data"]) == (code, {"a": "1"})


async def test_the_dry_run_of_a_change_answers_with_its_result(bench: Bench) -> None:
    manifest = bench.probe(value=1)
    child = await bench.apply(manifest)
    found = await bench.cluster.change_dry_run(child.ref, {"spec": {"other": 2}}, kind=PROBE)
    assert found["spec"] == {"value": 1, "other": 2}
    assert (await bench.live(manifest))["spec"] == {"value": 1}
