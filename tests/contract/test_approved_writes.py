"""Writes of an approved plan, while other clients act between the comparison and the write. On the fake and on a real API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, OURS, PROBE, STACK_UID, THEIRS, Bench
from hearth.engine.ports import WorkloadCluster
from hearth.engine.writes import approved_writes, step_execution
from hearth.engine.writes.step_execution import StepExecutor
from hearth.model import names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.state.steps import Apply
from hearth.plan.target import approved_steps
from hearth.plan.target.approved_steps import ApprovedStep, ApprovedSteps, OutsidePlan
from support.stories.world import Address
from support.units.blueprints import HASHER


class RacingCluster:
    """A cluster where another client acts after each comparison, just before the write."""

    def __init__(self, cluster: WorkloadCluster, act: Callable[[], Awaitable[object]]) -> None:
        self._cluster = cluster
        self._act = act

    def __getattr__(self, name: str) -> Any:
        """Return a method of the cluster."""
        return getattr(self._cluster, name)

    async def apply(self, manifest: Object, *, kind: Kind, manager: str, force: bool) -> Child:
        """Let the other client act, and apply."""
        await self._act()
        return await self._cluster.apply(manifest, kind=kind, manager=manager, force=force)


def make_step(action: str, manifest: Object, kind: Kind, *fields: str) -> ApprovedStep:
    """The step of a plan that applies a manifest."""
    return ApprovedStep(
        action=action,
        ref=approved_writes.refer(kind, manifest["metadata"]),
        fields=fields,
        seal=approved_steps.seal(manifest, (), HASHER.hash),
    )


def restrict(bench: Bench, *steps: ApprovedStep, act: Callable[[], Awaitable[object]] | None = None) -> WorkloadCluster:
    """The cluster of the bench, where only these steps are approved. act: what another client does before each write."""
    cluster: Any = bench.cluster if act is None else RacingCluster(bench.cluster, act)
    approved = ApprovedSteps(steps=steps, hash_content=HASHER.hash)
    return approved_writes.restrict(cluster, approved, stack_uid=STACK_UID)


async def apply(cluster: WorkloadCluster, manifest: Object, kind: Kind = CONFIG_MAP) -> Child:
    return await cluster.apply(manifest, kind=kind, manager=OURS, force=True)


async def patch(bench: Bench, manifest: Object, change: Object) -> Object:
    """A change by another client."""
    return await bench.user.patch(Address.of(manifest), change)


async def test_an_approved_update_is_written(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"))
    wanted = bench.config(a="2", b="1")
    await apply(restrict(bench, make_step("update", wanted, CONFIG_MAP, "data.a")), wanted)
    assert (await bench.live(wanted))["data"] == {"a": "2", "b": "1"}


async def test_an_edit_after_the_approval_is_not_reverted(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"))
    wanted = bench.config(a="2", b="1")
    cluster = restrict(bench, make_step("update", wanted, CONFIG_MAP, "data.a"))
    edited = await patch(bench, wanted, {"data": {"b": "theirs"}})
    with pytest.raises(OutsidePlan, match=r"does not change these fields of configmap/web: data\.b"):
        await apply(cluster, wanted)
    assert await bench.live(wanted) == edited


async def test_an_edit_between_comparison_and_write_is_not_reverted(bench: Bench) -> None:
    await bench.apply(bench.config(a="1", b="1"))
    wanted = bench.config(a="2", b="1")
    cluster = restrict(
        bench,
        make_step("update", wanted, CONFIG_MAP, "data.a"),
        act=lambda: patch(bench, wanted, {"data": {"b": "theirs"}}),
    )
    with pytest.raises(OutsidePlan, match=r"data\.b"):
        await apply(cluster, wanted)
    assert (await bench.live(wanted))["data"] == {"a": "1", "b": "theirs"}


async def test_a_status_that_changes_meanwhile_only_repeats_the_comparison(bench: Bench) -> None:
    await bench.apply(bench.probe(value=1))
    wanted = bench.probe(value=2)
    left = ["first"]

    async def write_status() -> None:
        if left:
            await bench.user.patch_status(Address.of(wanted), {"value": left.pop()})

    cluster = restrict(bench, make_step("update", wanted, PROBE, "spec.value"), act=write_status)
    await apply(cluster, wanted, PROBE)
    live = await bench.live(wanted)
    assert (live["spec"]["value"], live["status"]["value"]) == (2, "first")


async def test_an_object_that_changes_all_the_time_is_a_conflict(bench: Bench) -> None:
    await bench.apply(bench.probe(value=1))
    wanted = bench.probe(value=2)
    count = iter(range(100))
    cluster = restrict(
        bench,
        make_step("update", wanted, PROBE, "spec.value"),
        act=lambda: bench.user.patch_status(Address.of(wanted), {"value": str(next(count))}),
    )
    refused = await benches.refused(apply(cluster, wanted, PROBE))
    assert (refused.code, next(count)) == (409, approved_writes.TRIES)
    assert (await bench.live(wanted))["spec"]["value"] == 1


async def test_a_creation_does_not_overwrite_an_object_that_exists_meanwhile(bench: Bench) -> None:
    wanted = bench.config(a="1")
    created = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": step_execution.CREATE_ONLY}}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "theirs"}}
    metadata = {"name": "web", "namespace": bench.namespace}
    cluster = restrict(
        bench,
        make_step("create", wanted, CONFIG_MAP),
        act=lambda: bench.user.create({**theirs, "metadata": metadata}, by=THEIRS),
    )
    assert (await benches.refused(apply(cluster, created))).code == 409
    assert (await bench.live(wanted))["data"] == {"a": "theirs"}


async def test_an_object_that_was_deleted_after_the_approval_is_not_created_again(bench: Bench) -> None:
    wanted = bench.config(a="2")
    created = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": step_execution.CREATE_ONLY}}
    with pytest.raises(OutsidePlan, match="does not create configmap/web"):
        await apply(restrict(bench, make_step("update", wanted, CONFIG_MAP, "data.a")), created)
    assert await bench.user.find(Address.of(wanted)) is None


async def test_a_deletion_that_was_not_approved_is_not_sent(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    cluster = restrict(bench)
    with pytest.raises(OutsidePlan, match="does not delete configmap/web"):
        await cluster.delete(child)
    with pytest.raises(OutsidePlan, match="does not release configmap/web"):
        await cluster.release(child)
    assert await bench.user.find(Address.of(bench.config())) is not None


async def test_an_adoption_that_was_not_approved_leaves_even_the_owners_of_fields(bench: Bench) -> None:
    metadata = {"name": "web", "namespace": bench.namespace}
    before = await bench.user.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    )
    wanted = bench.config(a="1")
    cluster = restrict(bench, make_step("update", wanted, CONFIG_MAP))
    owners = {"metadata": {"managedFields": before["metadata"]["managedFields"]}}
    for write in (
        apply(cluster, wanted),
        cluster.change(approved_writes.refer(CONFIG_MAP, metadata), owners, kind=CONFIG_MAP),
    ):
        with pytest.raises(OutsidePlan, match="does not adopt configmap/web"):
            await write
    assert await bench.live(wanted) == before
    await apply(restrict(bench, make_step("adopt", wanted, CONFIG_MAP)), wanted)
    assert (await bench.live(wanted))["metadata"]["labels"][names.LABEL_STACK_UID] == STACK_UID


async def test_a_step_outside_the_plan_names_the_difference(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1"))
    executor = StepExecutor(
        cluster=restrict(bench),
        manager=OURS,
        may_exist=lambda *_: False,
        our_signatures=HASHER,
        boundary=Boundary(namespace=bench.namespace, is_confined=False),
    )
    ref = ObjectRef(group="", kind="ConfigMap", namespace=bench.namespace, name="web")
    step = Apply(resource="web", kind=CONFIG_MAP, ref=ref, manifest=bench.config(a="2"), hash="h", uid=child.uid)
    assert await executor.execute_step(step) == StepFailure(
        reason=approved_steps.REASON,
        message=(
            "cannot apply configmap/web: the approved plan does not change configmap/web (data.a); it waits until "
            "another plan is approved"
        ),
        is_outside_plan=True,
    )
