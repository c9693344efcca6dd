"""A step that may not start when its turn comes is offered again, whenever the Stack was held."""

from __future__ import annotations

import asyncio

import pytest

from hearth.engine.definition.target_tracker import TargetTracker
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import DirtyScope
from hearth.plan.state.steps import Step
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.stories import stack_manifests
from support.stories.world import Address


def test_a_step_deferred_between_two_reconciles_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the status of the target before arrives after a reconcile, and that of the present one before the next."""
    is_persisted, take_step, deferred = TargetTracker.is_persisted.fget, StackReconciler.take_step, []
    assert is_persisted is not None

    def take(self: StackReconciler, key: str) -> Step | None:
        if key in deferred:
            return take_step(self, key)
        deferred.append(key)
        monkeypatch.setattr(TargetTracker, "is_persisted", property(lambda _self: False))
        step = take_step(self, key)
        monkeypatch.setattr(TargetTracker, "is_persisted", property(is_persisted))
        # The status writer does the same when the status has the target.
        self._services.queue.enqueue(self.uid, DirtyScope.STACK)
        return step

    monkeypatch.setattr(StackReconciler, "take_step", take)

    async def story(world: FakeWorld) -> None:
        await world.start_controller()
        config = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
        spec = {"template": {"resources": {"a": config, "b": {**config, "dependsOn": ["a"]}}}}
        address = Address.of(await world.user.create(stack_manifests.make_stack(spec)))
        await asyncio.sleep(5)
        assert expectations.status_of(await world.user.find(address) or {})["phase"] == "CreateComplete"
        assert deferred == ["a", "b"]

    fake_world.run(story)
