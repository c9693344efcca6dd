"""Events about repairs: they name the field and its writer, only the first time, without sensitive values, and never
thousands at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import limits
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import probe_controller, stack_manifests
from support.stories.world import Address

CONFIG_MAP: Object = {"apiVersion": "v1", "kind": "ConfigMap"}
REASONS = ("DriftRepaired", "ObjectRecreated")


def make_stack(resources: Object, **spec: Any) -> Object:
    return stack_manifests.make_stack({"template": {"resources": resources, **spec.pop("template", {})}, **spec})


def locate(name: str, api_version: str = "v1", kind: str = "ConfigMap") -> Address:
    return Address(api_version=api_version, kind=kind, namespace="default", name=name)


def find_repairs(world: FakeWorld) -> list[str]:
    """The messages of the Events about repairs."""
    return [event[-1] for event in world.traffic.events if set(REASONS) & set(event)]


async def converge(world: FakeWorld, stack: Object) -> None:
    await world.start_controller()
    await world.user.create(stack)
    await world.wait_rest()


@fake_world.in_world
async def test_a_repair_names_field_manager_and_values(world: FakeWorld) -> None:
    await converge(world, make_stack({"a": {"manifest": probe_controller.manifest({"value": 1, "other": 2})}}))
    probe = locate("shop-a", "testing.hearth.dev/v1", "Probe")
    await world.user.patch(probe, {"spec": {"value": 9, "other": None}})
    await world.wait_rest()
    (said,) = find_repairs(world)
    assert "a (probe.testing.hearth.dev/shop-a): reverted spec.value: 9 → 1; spec.other: removed → 2, " in said
    assert "owned by 'kubectl-edit'; to keep such a change, edit the template" in said

    await world.user.patch(probe, {"spec": {"value": 9}})
    await world.wait_rest()
    assert len(find_repairs(world)) == 1


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        pytest.param(CONFIG_MAP | {"data": {"key": "${params.key}"}}, "data.key", id="a sensitive parameter"),
        pytest.param({"apiVersion": "v1", "kind": "Secret", "data": {"key": "YQ=="}}, "data.key", id="a Secret"),
    ],
)
@fake_world.in_world
async def test_no_value_of_a_sensitive_resource_is_shown(world: FakeWorld, manifest: Object, field: str) -> None:
    rule = {"parameters": {"key": {"type": "string", "sensitive": True}}}
    values = {"key": "unspeakable"}
    await converge(world, make_stack({"a": {"manifest": manifest}}, template=rule, parameters=values))
    await world.user.patch(locate("shop-a", kind=manifest["kind"]), {"data": {"key": "dW5zcGVha2FibGU="}})
    await world.wait_rest()
    (said,) = find_repairs(world)
    assert f"reverted {field}: (sensitive) → (sensitive), owned by 'kubectl-edit'" in said


@fake_world.in_world
async def test_a_deleted_object_is_reported(world: FakeWorld) -> None:
    resources = {
        "a": {"manifest": CONFIG_MAP | {"data": {"x": "1"}}},
        "b": {"manifest": CONFIG_MAP | {"data": {"x": "1"}}, "updatePolicy": {"replace": "DeleteFirst"}},
    }
    await converge(world, make_stack(resources))
    assert find_repairs(world) == []
    await world.user.delete(locate("shop-a"))
    await world.wait_rest()
    assert find_repairs(world) == [
        "a (configmap/shop-a): did not exist although the Stack was complete, and was recreated"
    ]
    # `a` is replaced by creating its successor first, `b` by deleting it first.
    for name in ("shop-a", "shop-b"):
        mark = {"metadata": {"annotations": {"hearth.dev/unhealthy": "broken"}}}
        await world.user.patch(locate(name), mark)
        await world.wait_rest()
        assert await world.user.find(locate(name)) is None or name == "shop-b"
    assert len(find_repairs(world)) == 1


@fake_world.in_world
async def test_a_thousand_repairs_are_not_a_thousand_events(world: FakeWorld) -> None:
    count = limits.REPAIR_EVENTS + 5
    await converge(
        world, make_stack({f"c{at}": {"manifest": CONFIG_MAP | {"data": {"x": "1"}}} for at in range(count)})
    )
    before = len(world.traffic.requests)
    for at in range(count):
        await world.user.patch(locate(f"shop-c{at}"), {"data": {"x": "2"}})
    await world.wait_rest()
    spent, said = world.traffic.count(before), find_repairs(world)
    assert (spent["apply"], spent["get"], len(said)) == (count, limits.REPAIR_EVENTS, limits.REPAIR_EVENTS)
    assert sum(text.endswith("for 10 minutes, further repairs appear only in the operator's log") for text in said) == 1
