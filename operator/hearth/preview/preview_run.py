"""Runs the engine for one Stack in the copy, until nothing more would be done.

Objects that progress count as ready as soon as nothing else can be done, all at once. No time passes, so that no retry
comes due.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from hearth import supervision
from hearth.engine.stack.nesting import Nesting
from hearth.engine.stack.stack_reconciler import StackReconciler
from hearth.engine.work_queue import DirtyScope
from hearth.engine.writes import step_execution
from hearth.engine.writes.step_execution import StepDone, StepResult
from hearth.model import names
from hearth.plan.stack.stack_planner import StackPlanner
from hearth.plan.state import steps
from hearth.plan.state.resource_status import ResourceState
from hearth.plan.state.steps import Step
from hearth.plan.status import status_builder
from hearth.plan.target.target import TargetCause
from hearth.preview import step_recorder
from hearth.preview.copies import object_copies
from hearth.preview.preview_world import PreviewWorld
from hearth.preview.step_recorder import PlannedStep, StepRecorder

STEPS_EACH: Final = 8
"""Steps of a preview for each resource and object. An endless replacement is not followed further."""
ANSWER_INTERVAL: Final = 0.002
"""Seconds between two looks at whether the API server answered about rights."""


class PreviewRun:
    """The engine on one copy."""

    def __init__(self, world: PreviewWorld) -> None:
        """Prepare the engine; it reads nothing before `run`."""
        self.world = world
        self.reconciler = StackReconciler(world.stack.uid, services=world.services, builder=world.builder)
        self.recorder = StepRecorder(unknown=world.assumptions.unknown, resources=self._list_resources)
        self.is_rolled_back = False
        """Whether a failure would roll the Stack back. The preview ends there."""
        self.is_endless = False
        self._nesting = Nesting(services=world.services, on_limit=lambda _limit: None)
        self._count = 0

    def _list_resources(self) -> set[str]:
        return set(self.reconciler.planner.blueprint.resources) if self.reconciler.planner is not None else set()

    async def run(self) -> None:
        """Run until nothing more would be done."""
        definition, queue = self.reconciler.definition, self.world.services.queue
        definition.read_options(self.world.stack)
        # A running operator checked the target before; one that starts would protect more objects.
        definition.targets.confirm()
        before = definition.targets.current
        queue.enqueue(self.world.stack.uid, DirtyScope.ALL_RESOURCES)
        try:
            while not (self.is_rolled_back or self.is_endless):
                await self._settle()
                target = definition.targets.current
                self.is_rolled_back = (
                    target is not None
                    and target.cause is TargetCause.AUTOMATIC
                    and (before is None or before.cause is not TargetCause.AUTOMATIC)
                )
                if self.is_rolled_back or not (self._write_status() or await self._execute_all() or self._assume()):
                    return
        finally:
            self.reconciler.close()

    async def _settle(self) -> None:
        """Reconcile until nothing is dirty and no task runs."""
        uid, services = self.world.stack.uid, self.world.services
        while True:
            await self.reconciler.wait_tasks()
            for event in services.queue.take_broadcasts():
                self.reconciler.on_broadcast(event)
            taken = services.queue.get()
            if taken is not None:
                services.evaluations.begin(uid)
                self.reconciler.reconcile(self.world.stack, taken[1])
            elif services.read_rights.is_asking(uid):
                await asyncio.sleep(ANSWER_INTERVAL)
            elif await self.world.cluster.read_externals(services.find_boundary(self.world.stack).user):
                services.queue.enqueue(uid, DirtyScope.ALL_RESOURCES)
            else:
                await services.evaluations.wait(uid)
                if not len(services.queue):
                    return

    def _write_status(self) -> bool:
        """Write the status in the copy if work waits for it; return whether it was so."""
        if not self.reconciler.is_status_urgent:
            return False
        now = self.world.services.clock.now()
        status = status_builder.build_status(
            self.reconciler.make_status_input(),
            self.reconciler.plan,
            memory=self.reconciler.memory,
            before=self.world.stack.status,
            now=now,
            monotonic=now,
        )
        self.reconciler.note_written(status)
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.STACK)
        return not self.reconciler.is_status_urgent

    async def _execute_all(self) -> bool:
        """Execute all steps that are ready; return whether there was one."""
        planner = self.reconciler.planner
        if planner is None:
            return False
        planned = [(key, each) for key in list(planner.ready_steps) if (each := self._take(planner, key)) is not None]
        self._count += len(planned)
        self.is_endless = self._count > STEPS_EACH * (
            len(planner.blueprint.resources) + len(list(self.world.copies)) + 1
        )
        results = await asyncio.gather(*(self._execute(each.step) for _, each in planned))
        for (key, each), result in zip(planned, results, strict=True):
            place = object_copies.place_of(steps.find_ref(each.step))
            if isinstance(result, StepDone) and result.note:
                each = dataclasses.replace(each, reason=f"{each.reason}; {result.note}")  # noqa: PLW2901 -- says more
            self.recorder.record(each, self.world.cluster.writes.pop(place, []))
            self.reconciler.finish_step(key, each.step, result)
        return bool(planned)

    def _take(self, planner: StackPlanner, key: str) -> PlannedStep | None:
        """Take a step with its reason; None if no step may start."""
        step = planner.ready_steps[key]
        resource = steps.affected_keys(step)[-1]
        children = self.world.cluster.children_of(self.world.stack.uid, resource)
        unknown = self.world.assumptions.unknown
        planned = step_recorder.describe_plan(step, planner, self.reconciler.memory, children, unknown)
        return planned if self.reconciler.take_step(key) is not None else None

    async def _execute(self, step: Step) -> StepResult:
        stack, services = self.world.stack, self.world.services
        boundary = services.find_boundary(stack)
        if (refused := self._nesting.refuse(stack, step)) is not None:
            return refused
        return await supervision.contain(
            "step",
            lambda: step_execution.execute_step(
                step,
                cluster=self.world.cluster.acting_as(boundary.user),
                manager=names.field_manager(stack.namespace, stack.name, kind=stack.kind),
                may_exist=services.may_exist_for(stack.uid),
                ours=services.hashes,
                boundary=boundary,
            ),
            lambda: step_execution.explain_internal_error(step),
        )

    def _assume(self) -> bool:
        """Let everything that progresses become ready, and what terminates be gone; return whether there was anything."""
        planner, queue, uid = self.reconciler.planner, self.world.services.queue, self.world.stack.uid
        if planner is None:
            return False
        ready, is_news = self.world.assumptions.ready, False
        for name, status in planner.statuses.items():
            child = status.child
            if child is None or child.deleting or status.state is not ResourceState.PROGRESSING or status.nested_stops:
                continue
            if child.uid not in ready:
                ready.add(child.uid)
                queue.enqueue(uid, name)
                is_news = True
        for copy in self.world.copies:
            if copy.child.deleting:
                self.world.copies.remove(object_copies.place_of(copy.child.ref))
                for key in (copy.child.resource, copy.child.uid):
                    queue.enqueue(uid, key)
                is_news = True
        return is_news
