"""HealthMarks by paths into nested Stacks, where no story tells it."""

from __future__ import annotations

from typing import Any

from hearth.model.child import Object
from hearth.model.tenancy import Mode
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address

PROBE = {"manifest": {"apiVersion": "testing.hearth.dev/v1", "kind": "Probe", "spec": {"value": 1}}}
STACK = "hearth.dev/v1alpha1"


def stack(*, namespace: str | None = None) -> Object:
    """A Stack whose one resource is a nested Stack with the one resource `db`."""
    template = {"resources": {"db": PROBE}}
    inner: Object = {"apiVersion": STACK, "kind": "Stack", "spec": {"template": template}}
    if namespace is not None:
        inner["metadata"] = {"namespace": namespace}
    return stack_manifests.make_stack(
        {"template": {"resources": {"cache": {"manifest": inner}}}, "healing": {"policy": "OnUpdate"}}
    )


def mark(**spec: Any) -> Object:
    """A HealthMark on the resource `db` of the nested Stack."""
    return {
        "apiVersion": STACK,
        "kind": "HealthMark",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"stackName": "shop", "resource": "cache/db", "markUnhealthy": True, **spec},
    }


async def read(world: FakeWorld) -> dict[str, Any]:
    """What the status of the mark says."""
    found = await world.user.find(Address.of(mark()))
    ready, resolved = (expectations.find_condition(found, each) for each in ("Ready", "Resolved"))
    return {"ready": ready["status"], "resolved": resolved["status"], "reason": ready["reason"]}


def test_a_mark_whose_stacks_go_with_each_other_is_done_with() -> None:
    """The way to its object is gone, and the object too."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack())
        await world.wait_rest()
        await world.user.patch(
            Address(api_version=STACK, kind="Stack", namespace="default", name="shop-cache"),
            {"spec": {"healing": {"policy": "OnUpdate"}}},
        )
        await world.user.create(mark())
        await world.wait_rest()
        assert await read(world) == {"ready": "True", "resolved": "False", "reason": "Marked"}
        await world.user.delete(Address.of(stack()))
        await world.wait_rest()
        assert await read(world) == {"ready": "True", "resolved": "True", "reason": "ObjectDeleted"}

    fake_world.run(story)


def test_a_path_does_not_lead_into_another_namespace() -> None:
    """Who may mark here may not mark there."""

    async def story(world: FakeWorld) -> None:
        world.tenancy = Mode.TRUSTED
        await world.start_controller()
        await world.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
        await world.user.create(stack(namespace="elsewhere"))
        await world.wait_rest()
        await world.user.create(mark())
        await world.wait_rest()
        assert (await read(world))["reason"] == "OtherNamespace"
        assert world.traffic.count()["mark"] == 0

    fake_world.run(story)


def test_a_path_that_leads_nowhere_costs_nothing_while_nothing_changes() -> None:
    """No timer looks for it: all that changes on the way has it looked at again."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(mark())
        await world.user.create({**stack(), "metadata": {"name": "other", "namespace": "default"}})
        await world.wait_rest()
        assert (await read(world))["reason"] == "StackNotFound"
        before = len(world.traffic.requests)
        await world.wait(3600)
        assert len(world.traffic.requests) == before

    fake_world.run(story)


def test_marks_by_path_and_by_name_on_one_object_know_of_each_other() -> None:
    """The newer word counts, by whichever way it came."""

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        await world.user.create(stack())
        await world.wait_rest()
        await world.wait(5)
        await world.kill_controller()
        await world.user.create(mark())
        await world.wait(5)
        newer = mark(stackName="shop-cache", resource="db", markUnhealthy=False)
        await world.user.create({**newer, "metadata": {"name": "good", "namespace": "default"}})
        await world.start_controller()
        await world.wait_rest()
        assert (await read(world))["reason"] == "Superseded"
        assert world.traffic.count()["mark"] == 0

    fake_world.run(story)
