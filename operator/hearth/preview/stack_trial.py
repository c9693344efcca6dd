"""Runs the engine for one Stack in a simulated cluster, step by step, through failures, retries and rollbacks.

A step ends when the Stack is complete, failed or stopped, when nothing is left to do, or when its time is over.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hearth.engine.ports import Evaluations
from hearth.engine.work_queue import DirtyScope, WorkQueue
from hearth.model import object_fields, value_class
from hearth.model.child import Child, Object
from hearth.model.errors import Mistake
from hearth.plan.ownership import apply_obstacles
from hearth.plan.target.target import Target, TargetCause
from hearth.preview import played_world, preview_world
from hearth.preview.live_cluster import LiveCluster
from hearth.preview.played_world import CurrentScript, PlayedClock, PlayedHealth, Script
from hearth.preview.preview_run import PreviewRun
from hearth.preview.preview_world import PreviewRequest, WorldParts

IN_PROGRESS: Final = "InProgress"
"""Suffix of the phases that are not final."""
ROUNDS: Final = 20_000
"""Maximum moves of the clock in one step. A step of a day with a retry every five seconds needs fewer."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The Stack and its objects at the end of a step."""

    status: Mapping[str, Any]
    objects: Mapping[str, Object]
    """By resource. If a resource has several objects, the newest one."""
    applied: Sequence[str]
    deleted: Sequence[str]
    rejection: str = ""
    """Why the definition is rejected; "" if it is accepted."""
    mistakes: Sequence[Mistake] = ()
    is_endless: bool = False
    hidden: frozenset[str] = frozenset()
    """Sensitive values, which no text may show."""

    @property
    def phase(self) -> str:
        """Return the phase."""
        return str(self.status.get("phase", ""))


class StackTrial(PreviewRun):
    """The engine for one Stack in a simulated cluster."""

    def __init__(
        self, live: LiveCluster, request: PreviewRequest, *, now: float, evaluate: Callable[[WorkQueue], Evaluations]
    ) -> None:
        """now: seconds since the epoch; evaluate: makes the evaluator of slow expressions."""
        self._clock = PlayedClock(now)
        self._current = CurrentScript()
        parts = WorldParts(
            clock=self._clock,
            assumptions=played_world.PlayedAssumptions(current=self._current),
            make_rules=functools.partial(played_world.PlayedRules, current=self._current),
            make_cluster=functools.partial(played_world.PlayedCluster, current=self._current),
        )
        super().__init__(preview_world.make_world(live, request, now=now, evaluate=evaluate, parts=parts))
        self._generation = 1
        self.begin()

    def close(self) -> None:
        """End the run."""
        self.reconciler.close()

    def change(self, request: PreviewRequest) -> None:
        """Replace the spec of the Stack, as `kubectl apply` does."""
        before = self.world.stack
        self._generation += 1
        usual = {"resourceVersion": str(before.resource_version + 1), "generation": self._generation}
        made = preview_world.parse(request, usual, request.wanted)
        self.world.management.stack = dataclasses.replace(
            made,
            finalizers=before.finalizers,
            packed_status=before.packed_status,
            phase=before.phase,
            true_conditions=before.true_conditions,
            in_progress_since=before.in_progress_since,
        )

    async def play(self, script: Script, *, within: float) -> TrialResult:
        """Play one step. within: the simulated seconds that it may last."""
        self._current.script = script
        # An object that became ready in an earlier step stays so, unless this step plays otherwise.
        for copy in self.world.copies:
            if not self._may_assume(copy.child.resource):
                self.world.assumptions.ready.discard(copy.child.uid)
        until, before = self._clock.now() + within, self.reconciler.definition.targets.current
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.STACK)
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.ALL_RESOURCES)
        for _ in range(ROUNDS):
            self._count = 0
            await self._rest()
            if self._note_rollback(before):
                continue
            if self.is_endless or self._is_settled() or not self._clock.advance(until=until):
                break
        self._report()
        return self._make_result(script)

    async def _rest(self) -> None:
        """Run until only the passage of time can change anything."""
        while not self.is_endless:
            await self._settle()
            # Assume readiness last: an object becomes ready when nothing else can be done.
            if not (self._write_status() or await self._execute_all() or self._play_objects() or self._assume()):
                return

    def _note_rollback(self, before: Target | None) -> bool:
        """Let objects of the earlier revision become ready once the step rolls back; return whether it just did."""
        target, script = self.reconciler.definition.targets.current, self._current.script
        if script.is_rolled_back or target is None or target.cause is not TargetCause.AUTOMATIC:
            return False
        if before is not None and (before.cause, before.failed_hash) == (target.cause, target.failed_hash):
            # The rollback of an earlier step continues.
            return False
        script.is_rolled_back = True
        self.world.services.queue.enqueue(self.world.stack.uid, DirtyScope.ALL_RESOURCES)
        return True

    def _is_settled(self) -> bool:
        return self.reconciler.is_known and not str(self.build_status().get("phase", "")).endswith(IN_PROGRESS)

    def _report(self) -> None:
        """Write the status."""
        status = self.build_status()
        preview_world.replace_status(self.world, status)
        self.reconciler.note_written(status)

    def _play_objects(self) -> bool:
        """Set the fields that controllers set; return whether there was one."""
        is_news = False
        for copy in self.world.copies:
            child = copy.child
            played = self._current.script.find(child.resource)
            if child.deleting or not played.fields:
                continue
            after = apply_obstacles.patched(copy.raw, complete(played.fields, child))
            if after != copy.raw:
                self.world.copies.put(after, kind=copy.kind, is_live=copy.is_live)
                self.world.services.queue.enqueue(self.world.stack.uid, child.resource)
                is_news = True
            # Simulated values are known.
            self.world.assumptions.unknown.objects.discard(child.uid)
        return is_news

    def _may_assume(self, resource: str) -> bool:
        """Return whether the objects of a resource become ready on their own."""
        return self._current.script.find(resource).health is PlayedHealth.READY

    def _make_result(self, script: Script) -> TrialResult:
        definition, builder = self.reconciler.definition, self.world.builder
        rejection = definition.rejection or definition.cluster.problem
        explain = self.world.assumptions.unknown.explain
        newest: dict[str, Child] = {}
        objects: dict[str, Object] = {}
        for copy in self.world.copies:
            child = copy.child
            if child.stack_uid != self.world.stack.uid or child.deleting:
                continue
            if child.resource not in newest or newest[child.resource].incarnation < child.incarnation:
                newest[child.resource] = child
                objects[child.resource] = explain(copy.raw)
        return TrialResult(
            status=explain(self.world.stack.status),
            objects=objects,
            applied=tuple(script.applied),
            deleted=tuple(script.deleted),
            rejection=rejection.message if rejection is not None else "",
            mistakes=tuple(builder.mistakes) if rejection is not None else (),
            is_endless=self.is_endless,
            hidden=frozenset(builder.sensitive_texts),
        )


def complete(fields: Mapping[str, Any], child: Child) -> Object:
    """Return simulated fields with `observedGeneration`, unless the test sets it."""
    status = fields.get("status")
    if not isinstance(status, Mapping) or "observedGeneration" in status:
        return dict(fields)
    generation = object_fields.number(child.fields, "metadata", "generation") or 1
    return {**fields, "status": {**status, "observedGeneration": generation}}
