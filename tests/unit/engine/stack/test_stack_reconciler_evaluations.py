"""Expressions that another process evaluates: the reconciler waits for them, uses their results, and reports exceeded
limits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import orjson

from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import limits
from hearth.model.child import Object
from hearth.sandbox import worker
from hearth.sandbox.pool import Pool
from hearth.sandbox.process import CPU, Process, interpret
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Answer
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK
from support.virtual_time import VirtualClock

SECONDS = 5.0
"""Seconds until an expression is evaluated; its Stack then pauses for several times as long."""
EXCESSIVE = "too-much"
"""Expressions with this text exceed their share of CPU."""


@dataclass
class SlowProcess:
    """An evaluator process that takes virtual time, within this process."""

    asked: list[str] = field(default_factory=list)
    is_usable: bool = True

    async def ask(self, text: str, packed: bytes, language: bytes = b"") -> Answer:
        """The value, after a while."""
        self.asked.append(text)
        await asyncio.sleep(SECONDS)
        self.is_usable = EXCESSIVE not in text
        return interpret(*worker.evaluate(text, orjson.loads(packed))) if self.is_usable else CPU

    async def end(self) -> int:
        return 0


class SlowPool(Pool):
    """Evaluates all expressions that need a bound in a slow process."""

    def admits(self, cost: Cost) -> bool:
        """Admit no expression to the operator's process."""
        return False


def make_world(world: FakeWorld) -> SlowProcess:
    """Let operators that start later evaluate slowly; return the process that they use."""
    process = SlowProcess()

    async def start() -> Process:
        process.is_usable = True
        return process  # type: ignore[return-value]  # never starts

    def make(queue: WorkQueue) -> Pool:
        return SlowPool(
            notify=lambda uid: queue.enqueue(uid, DirtyScope.EVALUATED), start=start, now=VirtualClock().monotonic
        )

    world.evaluate = make
    return process


def make_stack(resources: Object, **template: object) -> Object:
    """A Stack with these resources."""
    return stack_manifests.make_stack({"template": {"resources": resources, **template}})


def make_config(value: str) -> Object:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value}}}


def read(world: FakeWorld) -> list[str]:
    """The values of all ConfigMaps."""
    return sorted(each["data"]["value"] for each in world.server.list_all(fake_kinds.CONFIG_MAP.kind))


async def read_status(world: FakeWorld) -> Object:
    """The status of the Stack."""
    found = await world.user.find(STACK)
    assert found is not None
    status: Object = found.get("status") or {}
    return status


@fake_world.in_world
async def test_a_definition_waits_for_its_expressions_and_asks_for_all_of_them_at_once(world: FakeWorld) -> None:
    process = make_world(world)
    await world.start_controller()
    await world.user.create(
        make_stack(
            {
                "a": make_config("${params.l.map(i, string(i + 1)).join('')}"),
                "b": make_config("${params.l.map(i, string(i)).join('')}"),
            },
            parameters={"l": {"type": "array", "default": [1, 2]}},
            conditions={"c": "params.l.map(i, string(i)).join() == '12'"},
        )
    )
    await world.wait(SECONDS)
    assert read(world) == []
    await world.wait(20 * SECONDS)

    assert read(world) == ["12", "23"]
    assert len(process.asked) == len(set(process.asked)) == 3
    assert (await read_status(world))["phase"] == "CreateComplete"


@fake_world.in_world
async def test_a_resource_waits_for_its_expressions_and_says_so(world: FakeWorld) -> None:
    make_world(world)
    await world.start_controller()
    doubled = make_config("${[a.data.value, a.data.value].join('')}")
    outputs = {"both": {"value": "${[a.data.value, b.data.value].join('+')}"}}
    await world.user.create(make_stack({"a": make_config("one"), "b": doubled}, outputs=outputs))
    await world.wait(SECONDS - 1)
    problems = (await read_status(world))["problems"]
    await world.wait(20 * SECONDS)
    before, status = read(world), await read_status(world)
    await world.user.patch(STACK, {"spec": {"template": {"resources": {"a": make_config("two")}}}})
    await world.wait(20 * SECONDS)

    assert [(each["resource"], each["reason"]) for each in problems] == [("b", "Evaluating")]
    assert "waits for the evaluation of `[a.data.value, a.data.value].join('')`" in problems[0]["message"]
    assert (before, status["outputs"]) == (["one", "oneone"], {"both": "one+oneone"})
    assert (read(world), (await read_status(world))["outputs"]) == (["two", "twotwo"], {"both": "two+twotwo"})


@fake_world.in_world
async def test_what_exceeds_its_share_fails_its_resource_and_is_not_tried_again(world: FakeWorld) -> None:
    process = make_world(world)
    await world.start_controller()
    excessive = make_config("${[a.data.value, '" + EXCESSIVE + "'].join('')}")
    await world.user.create(make_stack({"a": make_config("one"), "b": excessive}))
    await world.wait(100 * SECONDS)
    problem = (await read_status(world))["problems"][0]
    asked = list(process.asked)
    await world.user.patch(
        STACK, {"spec": {"template": {"resources": {"b": make_config("${[a.data.value, a.data.value].join('')}")}}}}
    )
    await world.wait(20 * SECONDS)

    place = "spec.template.resources.b.manifest.data.value: expression took more than 1 s of CPU; simplify it: `"
    assert (problem["reason"], problem["message"].startswith(place)) == ("ExpressionFailed", True)
    assert len(asked) == 1
    assert read(world) == ["one", "oneone"]


@fake_world.in_world
async def test_an_excess_in_a_definition_is_one_of_its_mistakes(world: FakeWorld) -> None:
    make_world(world)
    await world.start_controller()
    excessive = make_config("${['" + EXCESSIVE + "'].join('')}")
    await world.user.create(make_stack({"a": excessive, "b": make_config("${1 / 0}")}))
    await world.wait(20 * SECONDS)
    status = await read_status(world)

    message = next(each["message"] for each in status["conditions"] if each["reason"] == "InvalidTemplate")
    assert "spec.template.resources.a.manifest.data.value: expression took more than 1 s of CPU" in message
    assert "spec.template.resources.b.manifest.data.value: `1 / 0` fails" in message
    assert read(world) == []


@fake_world.in_world
async def test_a_stack_that_is_deleted_while_it_waits_is_gone(world: FakeWorld) -> None:
    make_world(world)
    await world.start_controller()
    await world.user.create(make_stack({"a": make_config("one"), "b": make_config("${[a.data.value].join('')}")}))
    await world.wait(1.0)
    await world.user.delete(STACK)
    await world.wait(20 * SECONDS)

    assert (await world.user.find(STACK), read(world)) == (None, [])


class CountedPool(Pool):
    """Each expression and each health rule takes a share of a turn; counts those of each turn."""

    def __init__(self, queue: WorkQueue, process: SlowProcess, *, share: float = 1 / 40) -> None:
        async def start() -> Process:
            return process  # type: ignore[return-value]  # never starts

        super().__init__(notify=lambda uid: queue.enqueue(uid, DirtyScope.EVALUATED), start=start, now=self.count)
        self.ticks, self.turns, self.share = 0, [0], share

    def count(self) -> float:
        """The time, which passes with each look."""
        self.ticks += 1
        return self.ticks * limits.TURN_MICROSECONDS * self.share / 1e6

    def begin(self, stack_uid: str) -> None:
        """Begin another turn."""
        super().begin(stack_uid)
        self.turns.append(0)

    def end_work(self, began: float) -> None:
        """Count the work."""
        super().end_work(began)
        self.turns[-1] += 1


@fake_world.in_world
async def test_expressions_and_health_of_many_resources_take_turns(world: FakeWorld) -> None:
    pools: list[CountedPool] = []

    def make(queue: WorkQueue) -> Pool:
        pools.append(CountedPool(queue, SlowProcess()))
        return pools[-1]

    world.evaluate = make
    await world.start_controller()
    resources = {f"r{number:03}": make_config("x") for number in range(150)}
    resources["one"] = {**make_config("x"), "readyWhen": [f"${{one.data.value != '{n}'}}" for n in range(30)]}
    await world.user.create(make_stack(resources, outputs={"last": {"value": "${r149.metadata.name}"}}))
    await world.wait(1_000 * SECONDS)
    status = await read_status(world)

    assert (status["phase"], len(read(world))) == ("CreateComplete", 151)
    assert status["outputs"] == {"last": "shop-r149"}
    # The last one of a turn may begin just before its end.
    assert max(pools[-1].turns) <= 41
    assert sum(pools[-1].turns) >= 150


@fake_world.in_world
async def test_a_resource_whose_rules_take_longer_than_a_turn_becomes_ready(world: FakeWorld) -> None:
    world.evaluate = lambda queue: CountedPool(queue, SlowProcess(), share=2)
    await world.start_controller()
    resources = {
        "a": {**make_config("x"), "failedWhen": ["${a.data.value == 'never'}"]},
        "b": {**make_config("x"), "failedWhen": ["${b.data.value == 'never'}"], "readyWhen": ["${b.data.value != ''}"]},
        "c": make_config("x"),
    }
    await world.user.create(make_stack(resources))
    await world.wait(100 * SECONDS)

    assert (await read_status(world))["phase"] == "CreateComplete"
