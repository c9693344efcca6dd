"""Statuses are written in sequence, rate-limited and measured. The last written status of a Stack is the newest."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.engine.services import Unassisted
from hearth.engine.status import stack_measures, status_writer
from hearth.engine.status.status_writer import StatusWriter
from hearth.model.child import Object
from hearth.model.sharding import WHOLE, Share
from hearth.plan.state.memory import InMemoryState
from hearth.plan.status.ready_condition import DefinitionRejection, StatusInput
from support import virtual_time
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.ports.fake_connection import Desk
from support.server import request_faults
from support.server.request_faults import Trouble
from support.stories import probe_controller, stack_manifests
from support.stories.stack_manifests import STACK
from support.stories.world import Address
from support.units import stack_objects
from support.units.stack_objects import HASHES
from support.virtual_time import VirtualClock

SEEN = stack_objects.make_stack(namespace="default", resource_version=1)


class SlowHome:
    """Writes each status slowly."""

    def __init__(self, stack: StackObject = SEEN) -> None:
        self.stack = stack
        self.begun: list[str] = []
        self.written: list[str] = []
        self.gate = asyncio.Event()

    def find_stack(self, uid: str) -> StackObject:
        """As the port says."""
        return self.stack

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        self.stack = dataclasses.replace(self.stack, packed_status=orjson.dumps(self.stack.status | status))
        message = status["conditions"][0]["message"]
        self.begun.append(message)
        await self.gate.wait()
        self.written.append(message)

    async def emit_event(self, stack: StackObject, **_: Any) -> None:
        """As the port says."""


class Reported:
    """The report of a runner about its Stack, reduced to the parts the test needs."""

    is_status_overdue = False
    is_superseded = False
    has_outcome = False

    def __init__(self, message: str) -> None:
        self.message = message
        self.reason = "InvalidTemplate"
        self.looks = 0
        self.notices: list[str] = []
        self.is_known = True
        self.definition = SimpleNamespace(hidden_texts=frozenset())
        self.planner = None
        self.memory = InMemoryState()
        # The planner has seen everything.
        self.cache_sync = SimpleNamespace(grace_left=lambda: 0.0)

    def note_written(self, _status: Object) -> None:
        """Nothing waits for this."""

    def make_status_input(self) -> StatusInput:
        """A status input with the message that must become visible."""
        self.looks += 1
        refusal = DefinitionRejection(reason=self.reason, message=self.message)
        return StatusInput(generation=1, rejection=refusal)


def make_writer(home: Any, reported: Reported, *, share: Share = WHOLE) -> StatusWriter:
    """A running status writer."""
    services: Any = SimpleNamespace(
        management_cluster=home,
        hashes=HASHES,
        clock=VirtualClock(),
        share=share,
        evaluations=Unassisted(),
        find_namespace=lambda _uid: "shop",
        notify=lambda _stack, notice: reported.notices.append(f"{notice.type}: {notice.message}"),
    )
    recorder = StatusWriter(services, find_reconciler=lambda _uid: reported, interval=1.0)  # type: ignore[arg-type, return-value]  # as much of one as a status takes
    recorder.start()
    return recorder


async def begin(home: SlowHome, reported: Reported) -> StatusWriter:
    """A status writer that was asked to write one message, and another one shortly after."""
    recorder = make_writer(home, reported)
    recorder.request("u")
    await asyncio.sleep(0.1)
    reported.message = "two"
    recorder.request("u")
    return recorder


@virtual_time.in_virtual_time
async def test_a_slow_write_is_never_overtaken() -> None:
    home, reported = SlowHome(), Reported("one")
    recorder = await begin(home, reported)
    await asyncio.sleep(10)
    assert home.begun == ["one"]

    home.gate.set()
    await asyncio.sleep(2)
    assert home.written[:2] == ["one", "two"]
    await recorder.stop()


@virtual_time.in_virtual_time
async def test_a_failure_is_notified_once_when_its_status_is_written() -> None:
    home, reported = SlowHome(), Reported("one")
    recorder = await begin(home, reported)
    await asyncio.sleep(10)
    assert reported.notices == []

    home.gate.set()
    await asyncio.sleep(2)
    assert (home.written[:2], reported.notices) == (["one", "two"], ["failed: one"])
    await recorder.stop()


@virtual_time.in_virtual_time
async def test_of_a_large_stack_progress_is_reported_less_often_and_news_as_soon_as_ever() -> None:
    large = dataclasses.replace(SEEN, packed_spec=b" " * 10 * status_writer.BYTES_PER_SECOND)
    home, reported = SlowHome(large), Reported("one")
    home.gate.set()
    recorder = await begin(home, reported)
    for _ in range(70):
        # Never exactly at the time of a check.
        await asyncio.sleep(0.13)
        recorder.request("u")
    assert home.written == ["one"]
    assert reported.looks <= 11
    await asyncio.sleep(2)
    assert home.written == ["one", "two"]

    reported.message, reported.reason = "three", "SourceNotFound"
    recorder.request("u")
    await asyncio.sleep(1.5)
    assert home.written == ["one", "two", "three"]
    await recorder.stop()


class Crowd:
    """A home of many Stacks, which writes every status at once."""

    def __init__(self, count: int) -> None:
        self.stacks = {str(number): dataclasses.replace(SEEN, uid=str(number)) for number in range(count)}
        self.writes = 0

    def find_stack(self, uid: str) -> StackObject:
        """As the port says."""
        return self.stacks[uid]

    async def write_status(self, stack: StackObject, status: Object) -> None:
        """As the port says."""
        self.writes += 1
        self.stacks[stack.uid] = dataclasses.replace(stack, packed_status=orjson.dumps(stack.status | status))

    async def emit_event(self, stack: StackObject, **_: Any) -> None:
        """As the port says."""


def test_among_many_progress_is_reported_less_often_and_in_the_end_all_of_it() -> None:
    async def story(count: int, seconds: int, share: Share = WHOLE) -> Crowd:
        home, reported = Crowd(count), Reported("0")
        recorder = make_writer(home, reported, share=share)
        for second in range(seconds):
            reported.message = str(second)
            for uid in home.stacks:
                recorder.request(uid)
            await asyncio.sleep(1.01)
        await asyncio.sleep(count * share.count / status_writer.PROGRESS_WRITES_PER_SECOND + 1)
        assert {stack.status["conditions"][0]["message"] for stack in home.stacks.values()} == {reported.message}
        await recorder.stop()
        return home

    assert virtual_time.run(lambda: story(2, 30)).writes == 2 * 30
    assert (
        virtual_time.run(lambda: story(300, 30)).writes <= 300 * (1 + 1) + 30 * status_writer.PROGRESS_WRITES_PER_SECOND
    )
    third = Share(index=0, count=3)
    assert (
        virtual_time.run(lambda: story(300, 30, third)).writes
        <= 300 * (1 + 1) + 30 * status_writer.PROGRESS_WRITES_PER_SECOND / 3
    )


@virtual_time.in_virtual_time
async def test_an_outcome_waits_for_the_last_write_and_not_for_the_last_look() -> None:
    large = dataclasses.replace(SEEN, packed_spec=b" " * 10 * status_writer.BYTES_PER_SECOND)
    home, reported = SlowHome(large), Reported("one")
    home.gate.set()
    recorder = await begin(home, reported)
    await asyncio.sleep(3)
    # Checked a moment ago, and postponed.
    recorder.request("u")
    await asyncio.sleep(0.01)
    looks = reported.looks
    reported.has_outcome, reported.message, reported.reason = True, "end", "SourceNotFound"
    for _ in range(20):
        recorder.request("u")
        await asyncio.sleep(0.01)
    assert home.written == ["one", "end"]
    assert reported.looks == looks + 1

    # Another Stack waits for its turn: at most one status is written per second.
    reported.has_outcome, reported.message = False, "again"
    recorder.request("u")
    await asyncio.sleep(0.3)
    reported.has_outcome, reported.message, reported.reason = True, "once more", "InvalidTemplate"
    recorder.request("u")
    await asyncio.sleep(0.4)
    assert home.written == ["one", "end"]
    await asyncio.sleep(0.2)
    assert home.written == ["one", "end", "once more"]
    await recorder.stop()


# ---------------------------------------------------------------- a lost write

CHILD = Address(api_version="v1", kind="ConfigMap", namespace="default", name="shop-a")


def make_spec(value: str) -> Object:
    return {
        "template": {"resources": {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value}}}}}
    }


@fake_world.in_world
async def test_phase_after_a_lost_write(world: FakeWorld) -> None:
    world.event_delay = 3.0
    await world.start_controller()
    await world.user.create(stack_manifests.make_stack(make_spec("1")))
    await world.wait_rest()
    await world.user.replace_spec(STACK, make_spec("2"))
    await world.wait_rest()
    lost = request_faults.Trouble(refusal=request_faults.REFUSALS["lost"], verbs=frozenset({"status"}), times=1)
    world.traffic.troubles.append(lost)
    await world.user.replace_spec(STACK, make_spec("3"))
    await world.user.delete(CHILD)
    await world.wait_rest()
    stack = await world.user.find(STACK) or {}
    assert (lost.times, stack["status"]["phase"], stack["status"]["revision"]) == (0, "UpdateComplete", 3)


# ---------------------------------------------------------------- sensitive values

SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "account", "namespace": "default"},
    "data": {"password": base64.b64encode(b"the-first-word").decode()},
}
SECRETIVE: Object = stack_manifests.make_stack(
    {
        "template": {
            "parameters": {"password": {"sensitive": True}},
            "resources": {"login": {"manifest": probe_controller.manifest({"value": "${params.password}"})}},
            "outputs": {"seen": {"value": "${login.status.value}"}},
        },
        "parametersFrom": [{"secretRef": {"name": "account"}}],
    }
)


@fake_world.in_world
async def test_a_replaced_value_stays_hidden(world: FakeWorld) -> None:
    await world.start_controller()
    await world.user.create(SECRET)
    await world.user.create(SECRETIVE)
    await world.wait_rest()
    world.traffic.troubles.append(Trouble(refusal=request_faults.REFUSALS["policy"], resource="login"))
    second = base64.b64encode(b"the-second-word").decode()
    await world.user.patch(Address.of(SECRET), {"data": {"password": second}})
    await world.wait_rest()
    found = await world.user.find(Address.of(SECRETIVE))
    assert found is not None
    assert (found["status"]["revision"], found["status"]["outputs"]) == (2, {"seen": "(sensitive)"})


# ---------------------------------------------------------------- short repairs

SMALL, LARGE = 10, 2 * status_writer.BYTES_PER_SECOND


def make_stack(size: int) -> Object:
    """A Stack of two ConfigMaps with a template of about that many bytes."""
    resources = {
        name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * (size // 2)}}}
        for name in ("a", "b")
    }
    return stack_manifests.make_stack({"template": {"resources": resources}})


async def break_it(world: FakeWorld, size: int) -> list[str]:
    """Delete an object of a Stack of that size, wait for the repair, and return the requests that were sent."""
    await world.user.create(make_stack(size))
    await asyncio.sleep(20)
    before = len(world.traffic.requests)
    await world.user.delete(CHILD)
    await asyncio.sleep(20)
    assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
    return [request.verb for request in world.traffic.requests[before:]]


@pytest.mark.parametrize(("size", "expected"), [pytest.param(SMALL, 2, id="small"), pytest.param(LARGE, 0, id="large")])
@fake_world.in_world
async def test_a_short_repair_is_reported_of_a_small_stack_only(world: FakeWorld, size: int, expected: int) -> None:
    await world.start_controller()
    sent = await break_it(world, size)
    assert (sent.count("apply"), sent.count("status")) == (1, expected)


@fake_world.in_world
async def test_a_repair_that_takes_its_time_is_reported(world: FakeWorld) -> None:
    await world.start_controller()
    world.controllers[0].wire.desk = Desk(places=2, seconds=1.5)
    sent = await break_it(world, LARGE)
    assert (sent.count("apply"), sent.count("status")) == (1, 2)


def count_statuses(world: FakeWorld, since: int = 0) -> int:
    """How many statuses were sent."""
    return [request.verb for request in world.traffic.requests[since:]].count("status")


@fake_world.in_world
async def test_what_is_complete_within_a_second_takes_one_status(world: FakeWorld) -> None:
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


@fake_world.in_world
async def test_what_takes_longer_is_reported_after_a_second(world: FakeWorld) -> None:
    await world.start_controller()
    world.controllers[0].wire.desk = Desk(places=2, seconds=2.5)
    await world.user.create(make_stack(SMALL))
    await asyncio.sleep(0.9)
    assert count_statuses(world) == 0
    await asyncio.sleep(19)
    assert expectations.status_of(await world.user.find(STACK))["phase"] == "CreateComplete"
    assert count_statuses(world) == 2


def test_of_many_that_start_at_once_each_is_reported_within_half_a_minute() -> None:
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
    limiter = status_writer.StatusRateLimiter(interval=1.0)
    start = {"phase": "CreateInProgress", "observedGeneration": 1, "revision": 1, "problems": [], "conditions": []}
    assert limiter.find_delay(make_stack_object("u"), {}, start, now=1.0) == status_writer.START_GRACE
    assert limiter.find_delay(make_stack_object("u"), {}, start | news, now=1.0) <= 0


def make_stack_object(uid: str) -> StackObject:
    """A small Stack as the engine sees it."""
    return dataclasses.replace(SEEN, uid=uid)


# ---------------------------------------------------------------- numbers for metrics

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z in seconds since the epoch."""


def make_measured(name: str, phase: str, *conditions: str, since: str = "") -> StackObject:
    return stack_objects.make_stack(
        name=name, uid=name, phase=phase, true_conditions=conditions, in_progress_since=since
    )


def test_stacks_are_counted_by_phase_and_by_condition() -> None:
    stacks = [
        make_measured("a", "CreateComplete", "Drifted", "Paused"),
        make_measured("b", "CreateComplete", "Drifted"),
    ]

    assert stack_measures.count_phases(stacks) == {"CreateComplete": 2}
    assert stack_measures.count_conditions(stacks) == {"Drifted": 2, "Paused": 1}


def test_the_oldest_action_of_each_phase_counts() -> None:
    stacks = [
        make_measured("a", "UpdateInProgress", since="2026-01-01T11:59:00Z"),
        make_measured("b", "UpdateInProgress", since="2026-01-01T11:00:00Z"),
        make_measured("c", "DeleteInProgress", since="2026-01-01T12:00:05Z"),
        make_measured("d", "CreateInProgress", since="yesterday"),
        make_measured("e", "CreateComplete"),
    ]

    assert stack_measures.find_oldest(stacks, now=NOON) == {"UpdateInProgress": 3600.0, "DeleteInProgress": 0.0}
