"""An operator that is started again finds everything as it was left, so it has nothing to write, and need keep nothing."""

from __future__ import annotations

import gc
from collections import Counter

from hearth.engine.cluster_objects import StackObject
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.model.child import Object
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server.request_faults import WRITES
from support.stories import stack_manifests

STACKS = 40
"""More than there are passes in a row, so that writers of statuses get their turns between the passes."""


FIRST: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "one"}}
SECOND: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"first": "${first.metadata.name}"}}


def make_stack(number: int) -> Object:
    """Two ConfigMaps, of which one names the other."""
    return stack_manifests.make_stack(
        {"template": {"resources": {"first": {"manifest": FIRST}, "second": {"manifest": SECOND}}}},
        name=f"stack-{number}",
    )


async def converge(world: FakeWorld, *, stacks: int) -> None:
    """Stacks that are as wanted, and an operator that has nothing more to do."""
    await world.start_controller()
    for number in range(stacks):
        await world.user.create(make_stack(number))
    await world.wait_rest()


def test_nothing_is_written_after_a_restart() -> None:
    """However many Stacks wait for a first look at their children."""

    async def story(world: FakeWorld) -> None:
        await converge(world, stacks=STACKS)
        await world.kill_controller()
        before = len(world.traffic.requests)
        await world.start_controller()
        await world.wait_rest()

        written = [request for request in world.traffic.requests[before:] if request.verb in WRITES]
        assert written == []

    fake_world.run(story)


def test_nothing_is_said_of_a_stack_before_the_first_look_at_its_children() -> None:
    """Its caches may be complete already, because of others; the pass that looks is still to come."""

    async def story(world: FakeWorld) -> None:
        await converge(world, stacks=1)
        (controller,) = world.controllers
        engine = controller.engine
        (uid,) = engine._services.management_cluster.stacks()
        stack = engine._services.management_cluster.find_stack(uid)
        assert stack is not None
        another = StackReconciler(uid, services=engine._services, builder=engine._builder)
        await another.definition.sync()

        assert another.cache_sync.grace_left() > 0
        while engine._services.queue.get() is not None:
            pass
        another.reconcile(stack, set())
        assert another.cache_sync.grace_left() == 0
        assert another.planner is not None
        assert another.planner.is_complete

    fake_world.run(story)


def test_no_earlier_state_of_a_stack_is_kept() -> None:
    """It has another spec and status, which can be large."""

    async def story(world: FakeWorld) -> None:
        await converge(world, stacks=3)
        (controller,) = world.controllers
        uids = set(controller.engine._services.management_cluster.stacks())
        gc.collect()
        kept = Counter(each.uid for each in gc.get_objects() if isinstance(each, StackObject) and each.uid in uids)

        assert len(uids) == 3
        assert max(kept.values()) <= 1

    fake_world.run(story)
