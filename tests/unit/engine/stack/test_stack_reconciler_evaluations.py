"""Costly expressions of a Stack: its reconciles take turns with others, and a sum that no turn can divide is an error."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from hearth.model import limits
from hearth.model.child import Object
from hearth.plan.resource.desired_objects import DesiredObjects
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.stack_manifests import STACK

DOUBLED = "${[a.data.value, a.data.value].join('')}"


def make_stack(resources: Object, **template: object) -> Object:
    """A Stack with these resources."""
    return stack_manifests.make_stack({"template": {"resources": resources, **template}})


def make_config(value: str, **data: str) -> Object:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value, **data}}}


def read(world: FakeWorld) -> list[str]:
    """The values of all ConfigMaps."""
    return sorted(each["data"]["value"] for each in world.server.list_all(fake_kinds.CONFIG_MAP.kind))


async def read_status(world: FakeWorld) -> Object:
    """The status of the Stack."""
    found = await world.user.find(STACK)
    assert found is not None
    status: Object = found.get("status") or {}
    return status


@pytest.fixture
def _every_expression_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL_MICROSECONDS", -1.0)


@pytest.mark.usefixtures("_every_expression_costs")
@fake_world.in_world
async def test_manifests_beyond_a_turn_are_evaluated_in_the_next_ones(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TURN_MICROSECONDS", 0.0)
    turns: list[Collection[str]] = []
    begin = DesiredObjects.begin_turn

    def begin_turn(self: DesiredObjects) -> Collection[str]:
        turns.append(sorted(begin(self)))
        return turns[-1]

    monkeypatch.setattr(DesiredObjects, "begin_turn", begin_turn)
    await world.start_controller()
    others = {f"r{number}": make_config(DOUBLED) for number in range(4)}
    await world.user.create(make_stack({"a": make_config("one"), **others}))
    await world.wait(5)
    before = read(world)
    await world.user.patch(STACK, {"spec": {"template": {"resources": {"a": make_config("two")}}}})
    await world.wait(5)

    assert before == ["one", *["oneone"] * 4]
    assert read(world) == ["two", *["twotwo"] * 4]
    assert (await read_status(world))["phase"] == "UpdateComplete"
    assert [len(each) for each in turns if each][:3] == [3, 2, 1]


@pytest.mark.usefixtures("_every_expression_costs")
@fake_world.in_world
async def test_a_manifest_and_outputs_have_a_sum(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANIFEST_MICROSECONDS", 0.0)
    await world.start_controller()
    resources = {"a": make_config("one"), "b": make_config(DOUBLED, other=DOUBLED)}
    conditions = {name: {"status": "${[a.data.value].join('') == 'one'}"} for name in ("First", "Second")}
    outputs = {name: {"value": DOUBLED} for name in ("first", "second")}
    await world.user.create(make_stack(resources, outputs=outputs, statusConditions=conditions))
    await world.wait(5)
    status = await read_status(world)

    (problem,) = status["problems"]
    assert (problem["resource"], problem["reason"]) == ("b", "ExpressionFailed")
    assert (
        "the expressions of this manifest may take too long together; at most 200 ms are allowed" in problem["message"]
    )
    assert status["outputs"] == {"first": "oneone"}
    assert any(
        "outputs.second: the expressions of the outputs or conditions may take" in each for each in status["warnings"]
    )
    found = {each["type"]: each for each in status["conditions"]}
    assert (found["First"]["status"], found["Second"]["status"]) == ("True", "Unknown")
