"""The real Flux controller on a real API server applies a Stack, waits for it, sees its failure, and prunes it.

Also kstatus, which Flux and Helm use to wait, on each status that the operator reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hearth.kube.auth import credentials
from hearth.kube.client.connection import Connection
from hearth.model import names
from hearth.model.child import Object
from support.ecosystem import flux, programs
from support.ecosystem.flux import Pipeline
from support.gitops import agreement, recorded_statuses
from support.real import real_user
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.stories import stack_manifests
from support.stories.world import Address

API = f"{names.GROUP}/{names.VERSION}"
SHOP = {"apiVersion": API, "kind": names.STACK, "name": "shop"}


@pytest.fixture
async def pipeline(kubeconfig: Path, namespace: str, tmp_path: Path) -> AsyncIterator[Pipeline]:
    """Flux and the operator, on a namespace of their own."""
    source = credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})
    async with Connection(source) as connection:
        await flux.install(connection)
        user = RealUser(connection, namespace)
        await real_user.install_all(user)
        world = RealWorld(user, source)
        with flux.serve(tmp_path) as url:
            async with flux.run_controller(kubeconfig, tmp_path):
                await world.start_controller()
                yield Pipeline(connection, namespace, tmp_path, url)
                await world.close()


def config(state: str) -> Object:
    """A resource that fails in the state `bad`. Its text contains a part that `postBuild` would replace."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"state": state, "stack": "${stack.name}"}}
    return {"manifest": manifest, "failedWhen": ["a.data.state == 'bad'"]}


def make_stack(resources: Object) -> Object:
    spec = {"rollback": {"onFailure": True}, "template": {"resources": resources}}
    return {"apiVersion": API, "kind": names.STACK, "metadata": {"name": "shop"}, "spec": spec}


def plain(state: str) -> Object:
    """A Stack whose own resource may fail."""
    return make_stack({"a": config(state)})


def nested(state: str) -> Object:
    """A Stack with a Stack within, whose resource may fail."""
    spec = {"template": {"resources": {"a": config(state)}}}
    return make_stack({"cache": {"manifest": {"apiVersion": API, "kind": names.STACK, "spec": spec}}})


OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}


@pytest.mark.parametrize(
    ("make", "has_check"), [pytest.param(plain, True, id="healthCheck"), pytest.param(nested, False, id="wait, nested")]
)
async def test_flux_waits_for_the_stack_and_prunes_it(pipeline: Pipeline, make: Any, has_check: bool) -> None:
    """Ready when the Stack is, failed when it rolls back, ready after a correction; pruned with its objects.

    Manual changes outside Git are reverted, unless an annotation keeps them.
    """
    user = RealUser(pipeline.connection, pipeline.namespace)
    shop = stack_manifests.address_in(pipeline.namespace)
    checks = [{**SHOP, "namespace": pipeline.namespace}]
    await pipeline.create(**({"healthChecks": checks} if has_check else {"wait": True}))

    said = await pipeline.wait_ready(await pipeline.push(make("good")), status="True")
    assert said.startswith("ReconciliationSucceeded")
    assert await read_phase(user, shop) == "CreateComplete"

    said = await pipeline.wait_ready(await pipeline.push(make("bad")), status="False")
    assert "HealthCheckFailed" in said
    assert "shop" in said
    assert await read_phase(user, shop) == "RollbackComplete"

    await check_other_fields(pipeline, user, shop, make("better"))
    assert await read_phase(user, shop) == "UpdateComplete"

    found = await user.find(shop)
    assert found is not None
    uid = found["metadata"]["uid"]
    await pipeline.push(OTHER)
    async with asyncio.timeout(flux.PATIENCE):
        while await user.find(shop) is not None:  # noqa: ASYNC110 -- a server has no event
            await asyncio.sleep(0.3)
    assert await user.find_children(uid, {"ConfigMap", names.STACK}) == []


async def check_other_fields(pipeline: Pipeline, user: RealUser, shop: Address, stack: Object) -> None:
    """Let a user set a field as `kubectl` and `kubectl stack` do: their field managers begin with kubectl."""
    await user.patch(shop, {"spec": {"timeout": "9m"}})
    await pipeline.wait_ready(await pipeline.push(stack), status="True")
    assert (await user.find(shop) or {})["spec"].get("timeout") is None

    stack["metadata"]["annotations"] = {"kustomize.toolkit.fluxcd.io/ssa": "Merge"}
    await pipeline.wait_ready(await pipeline.push(stack), status="True")
    await user.patch(shop, {"spec": {"timeout": "9m"}})
    await pipeline.wait_ready(await pipeline.push(stack), status="True")
    assert (await user.find(shop) or {})["spec"].get("timeout") == "9m"


async def read_phase(user: RealUser, stack: Address) -> str:
    """Return the phase of a Stack."""
    found = await user.find(stack)
    return str((found or {}).get("status", {}).get("phase"))


def test_kstatus_finds_what_the_page_says() -> None:
    rows = agreement.list_rows()

    found = dict(zip(rows, programs.ask_kstatus(list(rows.values())), strict=True))
    assert agreement.read_page("kstatus: Flux, Helm 4") == found


def test_kstatus_waits_for_the_operator() -> None:
    new = {each.kind: raw for each, raw in recorded_statuses.record().items() if not each.phase}

    assert set(new) == recorded_statuses.KINDS
    assert programs.ask_kstatus(list(new.values())) == ["InProgress"] * len(new)


def test_kstatus_finds_other_kinds_current_when_they_are_ready() -> None:
    objects = [
        recorded_statuses.find(names.GROUP_KIND, "UpdateComplete"),
        recorded_statuses.find("HealthMark", "Marked"),
        recorded_statuses.find("StackSnapshot", "Complete"),
        recorded_statuses.find("HealthMark", "Pending"),
        recorded_statuses.find("StackSnapshot", "Failed"),
        recorded_statuses.find(names.GROUP_KIND, "UpdateFailed"),
    ]

    assert programs.ask_kstatus(objects) == ["Current", "Current", "Current", "InProgress", "Failed", "Failed"]


def test_kstatus_finds_the_same_of_instances() -> None:
    stacks, instances = recorded_statuses.record(), recorded_statuses.record_instances()
    shared = [each for each in instances if each in stacks]

    assert len(shared) > 30
    found = programs.ask_kstatus([instances[each] for each in shared])
    assert found == programs.ask_kstatus([stacks[each] for each in shared])


def test_kstatus_finds_a_definition_current_when_its_rollout_is_complete() -> None:
    definitions = {each: raw for each, raw in recorded_statuses.record_instances().items() if each.kind != names.STACK}

    found = dict(zip(definitions, programs.ask_kstatus(list(definitions.values())), strict=True))
    for each, word in found.items():
        is_failed = each.is_current and each.stalled == "True"
        is_done = each.is_current and each.ready == "True"
        assert word == ("Failed" if is_failed else "Current" if is_done else "InProgress"), each
