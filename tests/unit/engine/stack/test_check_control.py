"""A check costs one list per kind, is repeated by the next process, and only the last of several tokens is answered."""

from __future__ import annotations

import pytest

from hearth.model import limits, names
from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.server.request_faults import Request
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK

MANY = 300
"""Resources; more than a status or a page may hold."""


def make_stack(resources: int) -> Object:
    """ConfigMaps and one Secret."""
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}
    found: Object = {f"r{number}": {"manifest": config} for number in range(resources)}
    found["key"] = {"manifest": {"apiVersion": "v1", "kind": "Secret", "stringData": {"word": "open"}}}
    spec = {"template": {"resources": found}}
    return stack_manifests.make_stack(spec)


async def converge(world: FakeWorld, *, resources: int) -> None:
    """A complete Stack and an idle operator."""
    await world.start_controller()
    await world.user.create(make_stack(resources))
    await world.wait_rest()


async def ask(world: FakeWorld, token: str) -> None:
    await world.user.patch(STACK, {"metadata": {"annotations": {names.REQUEST_CHECK: token}}})


async def read(world: FakeWorld) -> tuple[str, str | None]:
    """The phase, and the last handled token."""
    status = expectations.status_of(await world.user.find(STACK))
    return status["phase"], (status.get("handled") or {}).get("check")


@fake_world.in_world
async def test_a_check_costs_one_list_a_kind_however_many_objects_there_are(world: FakeWorld) -> None:
    await converge(world, resources=MANY)
    before = len(world.traffic.requests)
    await ask(world, "1")
    await world.wait_rest()
    assert await read(world) == ("CheckComplete", "1")
    assert dict(world.traffic.count(before)) == {"list": 2, "status": 1, "event": 1}


@fake_world.in_world
async def test_of_two_tokens_quickly_the_later_is_answered(world: FakeWorld) -> None:
    await converge(world, resources=1)
    before = len(world.traffic.events)
    asked: list[int] = []

    def ask_again(request: Request) -> None:
        if request.verb == "list" and not asked:
            asked.append(len(world.traffic.requests))
            patch = {"metadata": {"annotations": {names.REQUEST_CHECK: "2"}}}
            world.server.patch(fake_kinds.STACK.kind, "default", "shop", patch, manager="kubectl-annotate")

    world.traffic.listeners.append(ask_again)
    await ask(world, "1")
    await world.wait_rest()
    assert await read(world) == ("CheckComplete", "2")
    lists = [request for request in world.traffic.requests[asked[0] :] if request.verb == "list"]
    assert len(lists) >= 2
    assert [reason for _, _, reason, _ in world.traffic.events[before:]] == ["CheckComplete"]


@fake_world.in_world
async def test_a_check_that_was_under_way_is_done_again(world: FakeWorld) -> None:
    await converge(world, resources=1)
    before = len(world.traffic.requests)
    deaths: list[Request] = []

    def die(request: Request) -> None:
        if request.verb == "list" and not deaths:
            deaths.append(request)
            world.traffic.kill()

    world.traffic.listeners.append(die)
    await ask(world, "1")
    await world.wait_rest()
    assert await read(world) == ("CheckComplete", "1")
    count = world.traffic.count(before)
    assert (count["list"], count["status"], count["apply"], len(deaths)) == (3, 1, 0, 1)


@fake_world.in_world
async def test_an_annotation_that_is_taken_away_asks_for_nothing(world: FakeWorld) -> None:
    await converge(world, resources=1)
    world.traffic.denied.add(("list", "ConfigMap"))
    await ask(world, "1")
    await world.wait(5.0)
    refused = expectations.find_condition(await world.user.find(STACK), "CheckPending")
    await world.user.patch(STACK, {"metadata": {"annotations": {names.REQUEST_CHECK: None}}})
    await world.wait_rest()
    reported = expectations.find_condition(await world.user.find(STACK), "CheckPending")
    assert (refused["status"], reported["status"], await read(world)) == ("True", "False", ("CreateComplete", None))


@fake_world.in_world
async def test_dry_runs_beyond_the_limit_are_counted(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECK_DRY_RUNS", 2)
    await converge(world, resources=5)
    await world.kill_controller()
    manager = names.field_manager(STACK.namespace, STACK.name)
    for raw in world.server.list_all(fake_kinds.CONFIG_MAP.kind):
        metadata = {key: raw["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        altered = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "two"}}
        world.server.apply(altered, kind=fake_kinds.CONFIG_MAP.kind, manager=manager, force=True)
    await world.start_controller()
    [operator] = world.controllers
    await ask(world, "1")
    await world.wait_rest()
    assert operator.limits == ["check-dry-runs"] * 3
