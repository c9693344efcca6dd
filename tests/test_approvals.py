"""Attacks on approvals by users who can write StackPlans and Stacks, but cannot approve: nothing starts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.engine.cluster_objects import StackObject
from hearth.model import names
from hearth.model.child import Object
from hearth.model.errors import Unreachable
from hearth.model.text import hidden_texts, times
from hearth.plan.target import change_plans
from hearth.plan.target.change_plans import PreviewedChange
from support.checks import stack_plans
from support.fake_world import fake_world
from support.fake_world.fake_world import HASHER, FakeWorld
from support.ports.fake_plans import FakePlans, FakePreviews
from support.server import fake_kinds
from support.server.fake_objects import copy
from support.stories import probe_controller

PLAN, STACK, PROBE = fake_kinds.STACK_PLAN.kind, fake_kinds.STACK.kind, "Probe"
USER = "mallory"


def make_stack(value: int) -> Object:
    resources = {"a": {"manifest": probe_controller.manifest({"value": value})}}
    return {
        "apiVersion": STACK.api_version,
        "kind": STACK.name,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"approval": {"required": "Always"}, "template": {"resources": resources}},
    }


async def begin(world: FakeWorld) -> Object:
    """A Stack whose creation waits; its plan."""
    world.server.create(make_stack(1), manager=USER)
    await world.start_controller()
    await world.wait_rest()
    return find_plan(world)


def find_plan(world: FakeWorld) -> Object:
    """The newest plan."""
    (stack,) = world.server.list_all(STACK)
    return stack_plans.sort_plans(world.server.list_all(PLAN), stack["metadata"]["uid"])[-1]


def stamp(world: FakeWorld, plan: Object, decision: str = "approved") -> str:
    return stack_plans.make_stamp(plan, decision, signer=HASHER, now=world.now())


def annotate(world: FakeWorld, plan: Object, text: str) -> None:
    annotations = {names.ANNOTATION_APPROVAL: text}
    world.server.patch(
        PLAN, "default", plan["metadata"]["name"], {"metadata": {"annotations": annotations}}, manager=USER
    )


async def approve(world: FakeWorld) -> Object:
    """Approve the newest plan as the webhook does; the plan."""
    plan = find_plan(world)
    annotate(world, plan, stamp(world, plan))
    await world.wait_rest()
    return plan


def find_values(world: FakeWorld) -> list[Any]:
    """The values of all probes."""
    return [raw["spec"].get("value") for kind, raw in world.server.everything() if kind.name == PROBE]


def read_ready(world: FakeWorld) -> tuple[str, str]:
    """Reason and message of the Stack's Ready condition."""
    (stack,) = world.server.list_all(STACK)
    ready = next(each for each in stack["status"]["conditions"] if each["type"] == "Ready")
    return ready["reason"], ready["message"]


@fake_world.in_world
async def test_a_plan_of_a_user_does_not_count(world: FakeWorld) -> None:
    plan = await begin(world)
    spec = {**plan["spec"], "steps": []}
    spec["digest"] = change_plans.find_digest("default", spec)
    forged = {**plan, "metadata": {"name": "shop-forged", "namespace": "default"}, "spec": spec}
    made = world.server.create(forged, manager=USER)
    annotate(world, made, stamp(world, made))
    await world.wait_rest()

    assert (find_values(world), read_ready(world)[0]) == ([], "WaitingForApproval")


@fake_world.in_world
async def test_a_copy_of_a_plan_does_not_count(world: FakeWorld) -> None:
    plan = await begin(world)
    metadata = {"name": "shop-copy", "namespace": "default", "annotations": plan["metadata"]["annotations"]}
    made = world.server.create({**plan, "metadata": metadata}, manager=USER)
    annotate(world, made, stamp(world, made))
    await world.wait_rest()

    assert find_values(world) == []


@fake_world.in_world
async def test_the_stamp_of_an_earlier_plan_does_not_count(world: FakeWorld) -> None:
    await begin(world)
    earlier = await approve(world)
    text = world.server.get(PLAN, "default", earlier["metadata"]["name"])["metadata"]["annotations"]
    world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": make_stack(2)["spec"]}, manager=USER)
    await world.wait_rest()
    annotate(world, find_plan(world), text[names.ANNOTATION_APPROVAL])
    await world.wait_rest()

    assert (find_values(world), read_ready(world)[0]) == ([1], "WaitingForApproval")


@fake_world.in_world
async def test_the_stamp_of_a_deleted_plan_does_not_count_for_its_recreation(world: FakeWorld) -> None:
    plan = await begin(world)
    await world.kill_controller()
    text, name = stamp(world, plan), plan["metadata"]["name"]
    world.server.delete(PLAN, "default", name)
    metadata = {"name": name, "namespace": "default", "annotations": plan["metadata"]["annotations"]}
    made = world.server.create({**plan, "metadata": metadata}, manager=USER)
    annotate(world, made, text)
    await world.start_controller()
    await world.wait_rest()

    assert (find_values(world), read_ready(world)[0]) == ([], "WaitingForApproval")


@fake_world.in_world
async def test_an_approval_counts_once(world: FakeWorld) -> None:
    await begin(world)
    await approve(world)
    for value in (2, 1, 2):
        spec = make_stack(value)["spec"]
        world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
        await world.wait_rest()
        assert find_values(world) != [value]
        await approve(world)
        assert find_values(world) == [value]


@fake_world.in_world
async def test_nobody_reads_the_status_of_a_plan(world: FakeWorld) -> None:
    plan = await begin(world)
    world.server.patch_status(PLAN, "default", plan["metadata"]["name"], {"phase": "Approved"}, manager=USER)
    await world.wait_rest()

    assert find_values(world) == []


@fake_world.in_world
async def test_a_deleted_plan_is_made_again_and_waits(world: FakeWorld) -> None:
    plan = await begin(world)
    world.server.delete(PLAN, "default", plan["metadata"]["name"])
    await world.wait_rest()

    assert find_plan(world)["metadata"]["uid"] != plan["metadata"]["uid"]
    assert find_values(world) == []
    await approve(world)
    assert find_values(world) == [1]


@fake_world.in_world
async def test_another_object_with_the_name_of_the_plan_is_reported(world: FakeWorld) -> None:
    plan = await begin(world)
    await world.kill_controller()
    world.server.delete(PLAN, "default", plan["metadata"]["name"])
    squatter = {**copy(plan), "metadata": {"name": plan["metadata"]["name"], "namespace": "default"}}
    world.server.create(squatter, manager=USER)
    await world.start_controller()
    await world.wait_rest()

    reason, message = read_ready(world)
    assert (find_values(world), reason) == ([], "WaitingForApproval")
    assert "is not the plan of this change; delete it" in message
    world.server.delete(PLAN, "default", plan["metadata"]["name"])
    await world.wait(120.0)
    await approve(world)
    assert find_values(world) == [1]


@fake_world.in_world
async def test_a_lost_status_voids_approvals_and_keeps_what_runs(world: FakeWorld) -> None:
    await begin(world)
    await approve(world)
    spec = make_stack(2)["spec"]
    world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
    await world.wait_rest()
    await world.kill_controller()
    plan = find_plan(world)
    annotate(world, plan, stamp(world, plan))
    world.server.patch_status(STACK, "default", "shop", {"controllerState": None, "handled": None}, manager=USER)
    await world.start_controller()
    await world.wait_rest()

    assert (find_values(world), read_ready(world)[0]) == ([1], "WaitingForApproval")


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"decision": "approved"}'], ids=["", "map", "deep", "bare"])
@fake_world.in_world
async def test_a_wrong_stamp_does_not_count(world: FakeWorld, text: str) -> None:
    annotate(world, await begin(world), text)
    await world.wait_rest()

    assert find_values(world) == []


@fake_world.in_world
async def test_a_plan_never_shows_another_definition_than_the_one_that_waits(world: FakeWorld) -> None:
    """The tenant shows the preview a harmless definition, and takes it back before the plan is made."""
    shown = make_stack(1)["spec"]
    wanted = copy(shown)
    wanted["template"]["resources"]["b"] = shown["template"]["resources"]["a"]
    preview, calls = FakePreviews.preview, list[int]()

    async def deceive(self: FakePreviews, stack: StackObject) -> PreviewedChange:
        calls.append(1)
        if len(calls) > 1:
            return await preview(self, stack)
        world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": shown}, manager=USER)
        outcome = await preview(self, stack)
        world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": wanted}, manager=USER)
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePreviews, "preview", deceive)
        world.server.create({**make_stack(1), "spec": wanted}, manager=USER)
        await world.start_controller()
        await world.wait_rest()

    assert len(calls) > 1
    assert [step["resource"] for step in find_plan(world)["spec"]["steps"]] == ["a", "b"]


@fake_world.in_world
async def test_a_failed_preview_is_reported_and_repeated(world: FakeWorld) -> None:
    async def fail(self: FakePreviews, stack: StackObject) -> PreviewedChange:
        raise Unreachable(f"no answer about {stack.name}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePreviews, "preview", fail)
        world.server.create(make_stack(1), manager=USER)
        await world.start_controller()
        await world.wait(30.0)
        reason, message = read_ready(world)
        assert (reason, world.server.list_all(PLAN)) == ("WaitingForApproval", [])
        assert "it cannot be planned: no answer about shop" in message
    await world.wait(120.0)

    assert find_plan(world)["status"]["phase"] == "Pending"


@fake_world.in_world
async def test_without_the_webhook_the_status_says_how_to_enable_it(world: FakeWorld) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePlans, "is_approvable", False)
        await begin(world)

        assert "it cannot be approved" in read_ready(world)[1]
        assert "webhook.enabled" in read_ready(world)[1]


def set_size(world: FakeWorld, size: str) -> None:
    """Write the source of the parameter."""
    if world.server.find(fake_kinds.CONFIG_MAP.kind, "default", "sizes") is None:
        metadata = {"name": "sizes", "namespace": "default"}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}}
        world.server.create(manifest, manager=USER)
    else:
        world.server.patch(fake_kinds.CONFIG_MAP.kind, "default", "sizes", {"data": {"size": size}}, manager=USER)


@fake_world.in_world
async def test_a_lost_status_does_not_revive_the_approval_of_the_creation(world: FakeWorld) -> None:
    stack = make_stack(1)
    template = stack["spec"]["template"]
    template["parameters"] = {"size": {"type": "integer"}}
    template["resources"]["a"]["manifest"]["spec"]["value"] = "${params.size}"
    stack["spec"]["parametersFrom"] = [{"configMapRef": {"name": "sizes"}}]
    set_size(world, "1")
    world.server.create(stack, manager=USER)
    await world.start_controller()
    for size in ("1", "2"):
        set_size(world, size)
        await world.wait_rest()
        await approve(world)
    assert find_values(world) == [2]

    await world.kill_controller()
    lost = {"controllerState": None, "handled": None}
    world.server.patch_status(STACK, "default", "shop", lost, manager=USER)
    set_size(world, "1")
    await world.start_controller()
    await world.wait_rest()

    assert (find_values(world), read_ready(world)[0]) == ([2], "WaitingForApproval")


@fake_world.in_world
async def test_a_plan_that_runs_is_not_superseded(world: FakeWorld) -> None:
    stack = make_stack(1)
    stack["spec"]["template"]["resources"]["a"]["readyWhen"] = ["a.spec.value > 5"]
    world.server.create(stack, manager=USER)
    await world.start_controller()
    await world.wait_rest()
    running = await approve(world)
    spec = copy(stack["spec"])
    spec["template"]["resources"]["b"] = make_stack(2)["spec"]["template"]["resources"]["a"]
    world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
    await world.wait_rest()

    assert world.server.get(PLAN, "default", running["metadata"]["name"])["status"]["phase"] == "Running"
    assert find_plan(world)["status"]["phase"] == "Pending"


@fake_world.in_world
async def test_without_the_list_of_plans_nothing_starts(world: FakeWorld) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePlans, "is_synced", False)
        world.server.create(make_stack(1), manager=USER)
        await world.start_controller()
        await world.wait(60.0)
        assert (world.server.list_all(PLAN), read_ready(world)[0]) == ([], "WaitingForApproval")
        assert len(world.traffic.requests) < 20
    await world.wait(10.0)
    await approve(world)

    assert find_values(world) == [1]


@fake_world.in_world
async def test_an_author_cannot_switch_the_separate_approver_off_and_then_approve(world: FakeWorld) -> None:
    """Without the record of its authors, no user can approve the plan."""
    stack = make_stack(1)
    stack["spec"]["approval"]["separateApprover"] = True
    world.server.create(stack, manager=USER)
    await world.start_controller()
    await world.wait_rest()
    await approve(world)
    for value in (1, 2):
        spec = make_stack(value)["spec"]
        world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
        await world.wait_rest()
        assert (find_values(world), read_ready(world)[0]) == ([1], "WaitingForApproval")
        assert find_plan(world)["spec"].get("separateApprover") is True


@fake_world.in_world
async def test_the_values_of_the_running_definition_stay_hidden_during_a_preview(world: FakeWorld) -> None:
    stack = make_stack(1)
    stack["spec"]["parameters"] = {"password": "old-word"}
    stack["spec"]["template"]["parameters"] = {"password": {"type": "string", "sensitive": True}}
    stack["spec"]["template"]["resources"]["a"]["manifest"]["spec"]["other"] = "${params.password}"
    world.server.create(stack, manager=USER)
    await world.start_controller()
    await world.wait_rest()
    await approve(world)
    preview, shown = FakePreviews.preview, list[str]()

    async def look(self: FakePreviews, stack: StackObject) -> PreviewedChange:
        outcome = await preview(self, stack)
        shown.append(hidden_texts.redact("old-word and new-word", stack.uid))
        return outcome

    spec = copy(stack["spec"])
    spec["parameters"]["password"] = "new-word"
    spec["template"]["resources"]["a"]["manifest"]["spec"]["value"] = 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePreviews, "preview", look)
        world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
        await world.wait_rest()

    assert shown[0] == "… and …"


@fake_world.in_world
async def test_the_status_of_a_plan_says_when_it_expires(world: FakeWorld) -> None:
    created = (await begin(world))["metadata"]["creationTimestamp"]
    expected = times.format_time(times.parse_time(created) + times.parse_duration(change_plans.VALID_FOR))
    assert find_plan(world)["status"]["expiresAt"] == expected
    await approve(world)

    status = find_plan(world)["status"]
    assert (status["phase"], status["expiresAt"]) == ("Completed", expected)


@fake_world.in_world
async def test_the_plan_that_switches_approvals_off_says_so_first(world: FakeWorld) -> None:
    await begin(world)
    await approve(world)
    spec = {"template": make_stack(2)["spec"]["template"], "paused": True}
    world.server.replace({**world.server.get(STACK, "default", "shop"), "spec": spec}, manager=USER)
    await world.wait_rest()

    plan = find_plan(world)["spec"]
    assert plan["notes"][0].startswith("switches approvals off")
    assert [step["resource"] for step in plan["steps"]] == ["a"]


@fake_world.in_world
async def test_a_plan_names_the_objects_that_the_stack_reads(world: FakeWorld) -> None:
    set_size(world, "1")
    stack = make_stack(1)
    external = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sizes"}}
    stack["spec"]["template"]["resources"]["sizes"] = {"externalRef": external}
    world.server.create(stack, manager=USER)
    await world.start_controller()
    await world.wait_rest()

    read = "sizes: the Stack reads ConfigMap sizes; later changes of it change the Stack without an approval"
    assert find_plan(world)["spec"]["notes"] == [read]


@fake_world.in_world
async def test_a_step_that_no_preview_shows_is_reported_and_starts_nothing(world: FakeWorld) -> None:
    preview, calls = FakePreviews.preview, list[int]()

    async def hide(self: FakePreviews, stack: StackObject) -> PreviewedChange:
        calls.append(1)
        return dataclasses.replace(await preview(self, stack), steps=())

    stack = make_stack(1)
    stack["spec"]["approval"] = {"required": "Risky"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakePreviews, "preview", hide)
        world.server.create(stack, manager=USER)
        await world.start_controller()
        await world.wait(30.0)

        assert "a step that waits is not in the preview" in read_ready(world)[1]
        assert (find_values(world), len(world.server.list_all(PLAN)), len(calls)) == ([], 1, 2)
    await world.wait(120.0)
    await approve(world)

    assert find_values(world) == [1]
