"""The depth of nested Stacks is bounded, no matter what their templates and labels say."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import stack_manifests
from support.stories.world import Address

STACK = "hearth.dev/v1alpha1"
SOURCE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb", "namespace": "default"}}
ITSELF = {"apiVersion": STACK, "kind": "Stack", "spec": {"templateRef": {"name": "bomb"}}}
DEEPER = {
    "apiVersion": STACK,
    "kind": "Stack",
    "spec": {"templateRef": {"name": "bomb"}, "parameters": {"level": "${params.level + 1}"}},
}
FORK: Object = {"resources": {"left": {"manifest": ITSELF}, "right": {"manifest": ITSELF}}}
STAIRS: Object = {
    "parameters": {"level": {"type": "integer", "default": 0}},
    "resources": {"x": {"manifest": DEEPER}},
}
LANDING: Object = {
    **STAIRS,
    "parameters": {"level": {"type": "integer", "default": 0}, "end": {"type": "integer", "default": 3}},
    "resources": {"x": {"manifest": DEEPER, "when": "params.level < params.end"}},
}


async def plant(world: FakeWorld, template: Object, **spec: object) -> None:
    """A Stack whose template is in a ConfigMap, and an operator at rest."""
    await world.start_controller()
    await world.user.create({**SOURCE, "data": {"template.yaml": yaml.safe_dump(template)}})
    await world.user.create(make_root(templateRef={"name": "bomb"}, **spec))
    await world.wait_rest()


def make_root(**spec: object) -> Object:
    """The outermost Stack."""
    return stack_manifests.make_stack(spec, name="r")


def find_stacks(world: FakeWorld) -> dict[str, Object]:
    return {raw["metadata"]["name"]: raw for raw in world.server.list_all(fake_kinds.STACK.kind)}


def read_problem(stack: Mapping[str, Object], resource: str) -> tuple[str, str]:
    """The reason and message of a resource's problem in a status."""
    [problem] = [each for each in stack["status"]["problems"] if each["resource"] == resource]
    return problem["reason"], problem["message"]


@fake_world.in_world
async def test_a_template_that_nests_itself_is_refused_before_anything_is_written(world: FakeWorld) -> None:
    await plant(world, FORK)
    stacks = find_stacks(world)
    assert list(stacks) == ["r"]
    assert stacks["r"]["status"]["phase"] == "CreateFailed"
    assert read_problem(stacks["r"], "left") == (
        "NestedInItself",
        (
            "cannot apply stack.hearth.dev/r-left: its template, configmap/bomb, with the same parameters is also used by Stack "
            "default/r, which contains it (default/r), so nesting would never end; pass a different parameter to the "
            "nested Stack, and test it in `when`"
        ),
    )


@pytest.mark.parametrize("shards", [1, 3])
def test_nesting_ends_at_the_limit(shards: int) -> None:
    async def story(world: FakeWorld) -> None:
        await plant(world, STAIRS)
        stacks = find_stacks(world)
        assert len(stacks) == limits.NESTED_DEPTH + 1
        innermost = max(stacks, key=len)
        reason, message = read_problem(stacks[innermost], "x")
        assert reason == "NestedTooDeep"
        way = " > ".join(f"default/{name}" for name in sorted(stacks, key=len))
        assert f"more than {limits.NESTED_DEPTH} deep ({way} > default/{innermost}-x)" in message

    fake_world.run(story, shards=shards)


def make_adopter(name: str, other: str) -> Object:
    """A Stack that adopts another one."""
    manifest = {"apiVersion": STACK, "kind": "Stack", "metadata": {"name": other}, "spec": {"paused": False}}
    adopted = {"resources": {"other": {"manifest": manifest}}}
    root = make_root(adoptionPolicy="Adopt", template=adopted)
    return {**root, "metadata": {**root["metadata"], "name": name}}


RING = ("one", "two", "three")


async def adopt_in_a_ring(world: FakeWorld) -> dict[str, Object]:
    """Stacks that all adopt the next one at the same time, and an operator at rest. Returns them by name."""
    for name, other in zip(RING, (*RING[1:], RING[0]), strict=True):
        await world.user.create(make_adopter(name, other))
    await world.start_controller()
    await world.wait_rest()
    return find_stacks(world)


@fake_world.in_world
async def test_stacks_that_adopt_each_other_at_the_same_time_form_no_circle(world: FakeWorld) -> None:
    stacks = await adopt_in_a_ring(world)
    outermost = [raw for raw in stacks.values() if names.LABEL_STACK_UID not in raw["metadata"].get("labels", {})]
    assert len(outermost) == 1
    reasons = [each["status"]["problems"][0]["reason"] for each in stacks.values()]
    assert reasons == ["NestedInItself"] * 3


def test_a_circle_over_several_processes_is_reported_and_opened_by_an_edit() -> None:
    async def story(world: FakeWorld) -> None:
        stacks = await adopt_in_a_ring(world)
        assert all(names.LABEL_STACK_UID in raw["metadata"].get("labels", {}) for raw in stacks.values())
        assert {stack["status"]["phase"] for stack in stacks.values()} == {"CreateFailed"}
        assert read_problem(stacks["one"], "other") == (
            "NestedInItself",
            (
                "Stack default/one is nested in itself (default/one > default/two > default/three > default/one), "
                "so each waits for the other; remove the resource from one"
            ),
        )
        drop = {"spec": {"template": {"resources": {"other": None}}}}
        await world.user.patch(Address.of(stacks["one"]), drop)
        await world.wait_rest()
        stacks = find_stacks(world)
        assert [stacks[name]["status"]["phase"] for name in RING] == [
            "UpdateComplete",
            "CreateComplete",
            "CreateComplete",
        ]
        assert names.LABEL_STACK_UID not in stacks["two"]["metadata"].get("labels", {})

    fake_world.run(story, shards=3)


def test_a_stack_of_a_circle_can_be_deleted() -> None:
    async def story(world: FakeWorld) -> None:
        before = (await adopt_in_a_ring(world))["one"]
        await world.user.delete(Address.of(before))
        await world.wait_rest()
        stacks = find_stacks(world)
        # The Stack that had adopted it creates another one, without a template.
        assert stacks["one"]["metadata"]["uid"] != before["metadata"]["uid"]
        assert [read_problem(stacks[name], "other")[0] for name in ("two", "three")] == ["InvalidTemplate"] * 2

    fake_world.run(story, shards=3)


@fake_world.in_world
async def test_a_recursion_that_ends_is_allowed(world: FakeWorld) -> None:
    await plant(world, LANDING)
    stacks = find_stacks(world)
    assert len(stacks) == 4
    assert {stack["status"]["phase"] for stack in stacks.values()} == {"CreateComplete"}


@fake_world.in_world
async def test_annotations_do_not_hide_how_deep_a_stack_is(world: FakeWorld) -> None:
    await plant(world, STAIRS)
    middle = Address(api_version=STACK, kind="Stack", namespace="default", name="r-x-x-x-x")
    live = await world.user.find(middle)
    assert live is not None
    await world.kill_controller()
    gone = dict.fromkeys(live["metadata"]["annotations"])
    await world.user.patch(middle, {"metadata": {"annotations": gone}})
    await world.start_controller()
    await world.wait_rest()
    assert len(find_stacks(world)) == limits.NESTED_DEPTH + 1


def make_crowd(count: int, *, namespace: str | None = None) -> Object:
    """A template with that many empty nested Stacks."""
    metadata = {"metadata": {"namespace": namespace}} if namespace is not None else {}
    manifest = {"apiVersion": STACK, "kind": "Stack", **metadata, "spec": {"template": {"resources": {}}}}
    return {"resources": {f"n{number}": {"manifest": manifest} for number in range(count)}}


@pytest.mark.parametrize("namespace", [None, "elsewhere"])
@fake_world.in_world
async def test_there_are_never_more_nested_stacks_than_the_limit(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch, namespace: str | None
) -> None:
    monkeypatch.setattr(limits, "NESTED_STACKS", 5)
    world.tenancy = Mode.TRUSTED
    await world.start_controller()
    await world.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await world.user.create(make_root(template=make_crowd(8, namespace=namespace)))
    await world.wait_rest()
    stacks = find_stacks(world)
    assert len(stacks) == 6
    reasons = {problem["reason"] for problem in stacks["r"]["status"]["problems"]}
    assert reasons == {"TooManyNested"}
    await world.user.patch(Address.of(stacks["r"]), {"spec": {"template": make_crowd(3, namespace=namespace)}})
    drop = {f"n{number}": None for number in range(3, 8)}
    await world.user.patch(Address.of(stacks["r"]), {"spec": {"template": {"resources": drop}}})
    await world.wait_rest()
    stacks = find_stacks(world)
    assert (len(stacks), stacks["r"]["status"]["phase"]) == (4, "UpdateComplete")


@fake_world.in_world
async def test_forged_labels_in_other_namespaces_count_for_no_stack(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NESTED_STACKS", 5)
    await world.start_controller()
    await world.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    await world.user.create(make_root(template=make_crowd(1)))
    await world.wait_rest()
    root = await world.user.find(Address.of(make_root()))
    assert root is not None
    labels = {names.LABEL_STACK_UID: root["metadata"]["uid"], names.LABEL_RESOURCE: "n0"}
    for number in range(9):
        metadata = {"name": f"f{number}", "namespace": "elsewhere", "labels": labels}
        await world.user.create({**make_root(paused=True, template=make_crowd(0)), "metadata": metadata})
    await world.user.patch(Address.of(root), {"spec": {"template": make_crowd(4)}})
    await world.wait_rest()
    root = await world.user.find(Address.of(root))
    assert root is not None
    assert expectations.find_condition(root, "Ready")["status"] == "True"
