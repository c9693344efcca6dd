"""Of a large Stack a repair that is over in a moment is not reported: the status would cost the server more than the repair."""

from __future__ import annotations

import asyncio

import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.engine.status import status_writer
from hearth.model.child import Object
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_queue import Desk
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address

CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")
SMALL, LARGE = 10, 2 * status_writer.BYTES_PER_SECOND


def make_stack(size: int) -> Object:
    """A Stack of two ConfigMaps, whose template takes about so many bytes."""
    resources = {
        name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * (size // 2)}}}
        for name in ("a", "b")
    }
    return stack_manifests.make_stack({"template": {"resources": resources}})


async def break_it(world: FakeWorld, size: int) -> list[str]:
    """Have an object of a Stack of that size deleted, and repaired; what was sent until all was at rest."""
    await world.user.create(make_stack(size))
    await asyncio.sleep(20)
    before = len(world.traffic.requests)
    await world.user.delete(CHILD)
    await asyncio.sleep(20)
    assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
    return [request.verb for request in world.traffic.requests[before:]]


@pytest.mark.parametrize(("size", "expected"), [pytest.param(SMALL, 2, id="small"), pytest.param(LARGE, 0, id="large")])
def test_a_short_repair_is_reported_of_a_small_stack_only(size: int, expected: int) -> None:
    """There it costs next to nothing."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        sent = await break_it(world, size)
        assert (sent.count("apply"), sent.count("status")) == (1, expected)

    fake_world.run(story)


def test_a_repair_that_takes_its_time_is_reported() -> None:
    """A large Stack says that it is not ready, and that it is again."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        world.controllers[0].wire.desk = Desk(places=2, seconds=1.5)
        sent = await break_it(world, LARGE)
        assert (sent.count("apply"), sent.count("status")) == (1, 2)

    fake_world.run(story)


def count_statuses(world: FakeWorld, since: int = 0) -> int:
    """How many statuses were sent."""
    return [request.verb for request in world.traffic.requests[since:]].count("status")


def test_what_is_complete_within_a_second_takes_one_status() -> None:
    """And is reported as soon as it is complete, whether it was created or changed; a Stack that is gone takes none."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(make_stack(SMALL))
        await asyncio.sleep(0.5)
        assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
        assert count_statuses(world) == 1
        before = len(world.traffic.requests)
        changed = make_stack(2 * SMALL)["spec"]
        await world.user.patch(STACK, {"spec": changed})
        await asyncio.sleep(5)
        status = expectations.status_of(await world.user.find(STACK))
        assert (status["phase"], status["observedGeneration"]) == ("UpdateComplete", 2)
        assert count_statuses(world, before) == 1
        before = len(world.traffic.requests)
        await world.user.delete(STACK)
        await asyncio.sleep(5)
        assert await world.user.find(STACK) is None
        assert count_statuses(world, before) == 0

    fake_world.run(story)


def test_what_takes_longer_is_reported_after_a_second() -> None:
    """Its user learns that the work has started."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        world.controllers[0].wire.desk = Desk(places=2, seconds=2.5)
        await world.user.create(make_stack(SMALL))
        await asyncio.sleep(0.9)
        assert count_statuses(world) == 0
        await asyncio.sleep(19)
        assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
        assert count_statuses(world) == 2

    fake_world.run(story)


def test_of_many_that_start_at_once_each_is_reported_within_half_a_minute() -> None:
    """They take turns, but a crowd of other Stacks hides none for long."""
    limiter = status_writer.StatusRateLimiter(interval=1.0)
    after = {"phase": "CreateInProgress", "observedGeneration": 1, "revision": 1, "problems": [], "conditions": []}
    stacks = [make_stack_object(str(number)) for number in range(500)]
    delays = [limiter.find_delay(stack, {"observedGeneration": -1}, after, now=100.0) for stack in stacks]
    assert min(delays) == status_writer.START_GRACE
    assert sum(delay <= 5 for delay in delays) <= 6 * status_writer.PROGRESS_WRITES_PER_SECOND + 1
    assert max(delays) == status_writer.START_REPORTED_AFTER
    assert limiter.find_delay(stacks[-1], {"observedGeneration": -1}, after, now=130.0) <= 0


@pytest.mark.parametrize(
    "news",
    [
        pytest.param({"phase": "CreateComplete"}, id="complete"),
        pytest.param({"phase": "CreateFailed"}, id="failed"),
        pytest.param({"problems": [{"resource": "a"}]}, id="a problem"),
        pytest.param({"breakpoints": [{"resource": "a"}]}, id="a breakpoint"),
        pytest.param({"handled": {"retry": "1"}}, id="a request was handled"),
        pytest.param({"conditions": [{"type": "Paused", "status": "True", "reason": "Paused"}]}, id="a condition"),
    ],
)
def test_an_outcome_is_reported_at_once(news: Object) -> None:
    """Only the mere start waits."""
    limiter = status_writer.StatusRateLimiter(interval=1.0)
    start = {"phase": "CreateInProgress", "observedGeneration": 1, "revision": 1, "problems": [], "conditions": []}
    assert limiter.find_delay(make_stack_object("u"), {}, start, now=1.0) == status_writer.START_GRACE
    assert limiter.find_delay(make_stack_object("u"), {}, start | news, now=1.0) <= 0


def make_stack_object(uid: str) -> StackObject:
    """A small Stack as the engine sees it."""
    return StackObject(
        name="shop",
        namespace="default",
        uid=uid,
        generation=1,
        resource_version=1,
        deleting=False,
        finalizers=(),
        annotations={},
        packed_spec=b"{}",
        packed_status=b"{}",
    )
